#include "runtime/engine/authorise.h"

#include "runtime/engine/confinement.h"
#include "runtime/engine/engine_private.h"

void authorise_later(struct engine *g, const struct confinement *f, const struct caller *c, bool hold)
{
	buf_auto struct buf paths = BUF_INIT;

	if (c->uid != 0 || !c->connection || c->peer_fd < 0 || !g->o.ports->authorise || !f->profile.confined)
		return;
	for (size_t i = 0; i < f->profile.count; i++) {
		const struct profile_entry *en = &f->profile.entry[i];

		if (en->kind == PLAN_MOUNT_WRITE || (en->kind == PLAN_MOUNT_READ && en->flags & PLAN_MOUNT_OWNED))
			buf_append(&paths, en->path, strlen(en->path) + 1);
	}
	if (paths.len)
		g->o.ports->authorise(g->o.world, c->peer_fd, paths.data, paths.len, hold);
}

void authorise_request(struct engine *g, const struct sandbox_request *r, const struct caller *c, bool hold)
{
	confinement_auto struct confinement f = { 0 };
	struct err e = ERR_INIT; /* what is wrong with it is said when it is started */

	if (c->uid == 0 && confinement_make(g, r, c, &f, &e) == 0)
		authorise_later(g, &f, c, hold);
}

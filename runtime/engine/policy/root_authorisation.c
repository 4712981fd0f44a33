#include "runtime/engine/policy/root_authorisation.h"

#include "runtime/engine/core/core.h"
#include "runtime/engine/policy/sandbox_setup.h"

void root_authorise(struct engine *engine, const struct sandbox_setup *f, const struct caller *c, bool hold)
{
	buf_auto struct buf paths = BUF_INIT;

	if (c->uid != 0 || !c->connection || c->peer_fd < 0 || !engine->o.ports->authorise || !f->profile.confined)
		return;
	for (size_t i = 0; i < f->profile.count; i++) {
		const struct profile_entry *en = &f->profile.entry[i];

		if (en->kind == PLAN_MOUNT_WRITE || (en->kind == PLAN_MOUNT_READ && en->flags & PLAN_MOUNT_OWNED))
			buf_append(&paths, en->path, strlen(en->path) + 1);
	}
	if (paths.len)
		engine->o.ports->authorise(engine->o.host, c->peer_fd, paths.data, paths.len, hold);
}

void root_authorise_request(struct engine *engine, const struct sandbox_request *r, const struct caller *c, bool hold)
{
	sandbox_setup_auto struct sandbox_setup f = { 0 };
	struct err e = ERR_INIT; /* ignored: the start reports the same error */

	if (c->uid == 0 && sandbox_setup_make(engine, r, c, &f, &e) == 0)
		root_authorise(engine, &f, c, hold);
}

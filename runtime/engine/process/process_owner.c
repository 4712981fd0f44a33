/*
 * Starts on behalf of an owner have no client that could repeat them, so the process id is the key: an owner that
 * chooses it before its own commit can call again after a crash and gets the same process, whether it runs, waits or is
 * still to be started.
 */

#include "runtime/engine/process/process_owner.h"

#include "runtime/engine/core/core.h"
#include "runtime/engine/process/process.h"

static const char *const names[OWNER_KIND_COUNT] = {
	[OWNER_NONE] = "client",
#define OWNER(NAME, name) [OWNER_##NAME] = name,
#include "runtime/engine/process/process_owners.def"
#undef OWNER
};

const struct process_owner_ops *process_owner(const struct engine *engine, enum owner_kind k)
{
	return engine->modules->process_owners[k];
}

const char *owner_kind_name(enum owner_kind k) { return names[k]; }

enum owner_kind owner_kind_find(const char *name)
{
	for (int i = OWNER_NONE + 1; i < OWNER_KIND_COUNT; i++)
		if (strcmp(names[i], name) == 0)
			return (enum owner_kind)i;
	return OWNER_NONE;
}

/* The reply to an internal start. Only a reply that arrives before process_start returns is used. */
struct first_answer {
	bool waiting, refused;
	struct err err;
	struct buf data;
};

static void on_answer(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct first_answer *a = ctx;

	if (a->waiting) { /* process_start_owned is on the stack and continues with this */
		a->refused = e != NULL;
		if (e)
			a->err = *e;
		if (e && json)
			buf_append(&a->data, json, len);
		a->waiting = false;
		return;
	}
	/* A later reply has nothing new: the outcome is in the facts, and the owner added its own to their batch. */
	reply_context_free(a);
}

void process_start_owned(struct engine *engine, const struct start_request *r, const struct requester *by,
			 enum owner_kind kind, const char *owner_id, char ret_process_id[ID_TEXT_MAX])
{
	if (r->process_id &&
	    (engine_process(engine, r->process_id) || strmap_get(&engine->processes->pending, r->process_id))) {
		snprintf(ret_process_id, ID_TEXT_MAX, "%s", r->process_id);
		return;
	}
	struct caller c = { .uid = by->uid,
			    .pid = by->pid,
			    .role = by->role,
			    .peer_fd = engine->o.ports->find_peer(engine->o.host, by->uid) };
	struct first_answer *a = reply_context_new(engine, sizeof *a);
	struct start_request owned = *r;

	ret_process_id[0] = '\0';
	owned.owner = kind;
	owned.owner_id = owner_id;
	owned.ret_process_id = ret_process_id;
	a->waiting = true;
	if (c.peer_fd < 0) {
		err_set(&a->err, ERR_UNAVAILABLE,
			"no client of uid %u has connected since the daemon began, so nothing can be run in "
			"its name; connect once and try again",
			by->uid);
		a->refused = true;
	} else {
		process_start(engine, &owned, &c, on_answer, a);
		/* No reply yet: the context now belongs to on_answer. */
		if (a->waiting) {
			a->waiting = false;
			return;
		}
	}
	if (a->refused) {
		ret_process_id[0] = '\0';
		process_owner(engine, kind)->refused(engine, owner_id, &a->err, a->data.data, a->data.len);
	}
	buf_done(&a->data);
	reply_context_free(a);
}

void process_over(struct engine *engine, const struct process_over *x)
{
	if (x->owner && process_owner(engine, x->owner)->over)
		process_owner(engine, x->owner)->over(engine, x->owner_id);
	for (void (*const *fn)(struct engine *, const struct process_over *) = engine->modules->process_over; *fn; fn++)
		(*fn)(engine, x);
}

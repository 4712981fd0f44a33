/* The copies of layers that are being made (sandbox_checkpoint.c), and the removal of copies. */

#include "runtime/engine/sandbox/sandbox_private.h"

#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/view/view_documents.h"

#define COPIES_PER_UID_MAX 32u /* in progress or waiting */

struct sandbox_copy *sandbox_copy_new(struct engine *engine, enum copy_kind kind, const char *sandbox_id,
				      const struct caller *c)
{
	struct sandbox_copy *x = mem_zalloc(1, sizeof *x);

	x->kind = kind;
	id_copy(x->sandbox_id, sandbox_id);
	id_make(kind == COPY_CHECKPOINT ? ID_KIND_CHECKPOINT : ID_KIND_PROCESS, x->to);
	caller_copy(&x->caller, c);
	TAILQ_INSERT_TAIL(&engine->sandboxes->copies, x, link);
	return x;
}

/* Copies take their turns, so one user's must not be all that others wait for. */
int sandbox_check_share(struct engine *engine, uint32_t uid, struct err *e)
{
	const struct sandbox_copy *x;
	size_t n = 0;

	TAILQ_FOREACH (x, &engine->sandboxes->copies, link)
		n += x->caller.uid == uid;
	if (n < COPIES_PER_UID_MAX)
		return 0;
	return err_set(e, ERR_EXHAUSTED,
		       "%zu checkpoints, restores and forks of uid %u are in progress, which is the limit: wait for "
		       "one of them",
		       n, (unsigned)uid);
}

void sandbox_copy_free(struct engine *engine, struct sandbox_copy *x)
{
	TAILQ_REMOVE(&engine->sandboxes->copies, x, link);
	caller_done(&x->caller);
	reply_done(&x->reply);
	free(x);
}

void sandbox_drop_copy(struct engine *engine, const char *id)
{
	if (engine->o.ports->drop_changes)
		engine->o.ports->drop_changes(engine->o.host, id);
}

void sandbox_copy_fail(struct engine *engine, struct sandbox_copy *x, const struct err *e)
{
	struct pending_reply reply = x->reply;

	x->reply = (struct pending_reply){ 0 };
	sandbox_drop_copy(engine, x->to);
	sandbox_copy_free(engine, x);
	if (reply.fn)
		reply_err(&reply, e, NULL, 0);
}

struct sandbox_copy *sandbox_find_copy(struct engine *engine, const char *to)
{
	struct sandbox_copy *x;

	TAILQ_FOREACH (x, &engine->sandboxes->copies, link)
		if (strcmp(x->to, to) == 0)
			return x;
	return NULL;
}

struct sandbox_copy *sandbox_find_restore(struct engine *engine, const char *sandbox_id)
{
	struct sandbox_copy *x;

	TAILQ_FOREACH (x, &engine->sandboxes->copies, link)
		if (x->kind == COPY_RESTORE && strcmp(x->sandbox_id, sandbox_id) == 0)
			return x;
	return NULL;
}

int sandbox_check_copying(const struct sandbox *s, struct err *e)
{
	const struct sandbox_copy *x;

	TAILQ_FOREACH (x, &s->engine->sandboxes->copies, link)
		if (strcmp(x->source_id, s->id) == 0 || (x->kind == COPY_RESTORE && strcmp(x->sandbox_id, s->id) == 0))
			return err_at(e, ERR_STATE, "sandboxId",
				      "sandbox '%s' is being %s: try again when that is done",
				      s->name[0] ? s->name : s->id,
				      x->kind == COPY_RESTORE ? "restored"
				      : x->kind == COPY_FORK  ? "forked"
							      : "copied for a checkpoint");
	return 0;
}

bool sandbox_starts_copied(const struct process *p) { return p->holder && sandbox_find_copy(p->engine, p->id); }

void sandbox_copies_free(struct engine *engine)
{
	while (!TAILQ_EMPTY(&engine->sandboxes->copies))
		sandbox_copy_free(engine, TAILQ_FIRST(&engine->sandboxes->copies));
}

/* After an end that nobody asked for, a fork can continue from a checkpoint. */
bool sandbox_keeps_checkpoints(const struct sandbox *s)
{
	return !s->reason || (strcmp(s->reason, "closed") != 0 && strcmp(s->reason, "session_ended") != 0);
}

void sandbox_drop_checkpoints(const struct sandbox *s, struct transaction *tx)
{
	buf_auto struct buf text = BUF_INIT;
	struct sandbox_doc d;
	struct err e = ERR_INIT;

	if (sandbox_keeps_checkpoints(s) ||
	    view_read_speculative(s->engine->o.store, &sandbox_schema, s->id, &text, &d, &e) != 0)
		return;
	for (struct jiter it = jiter_on(d.checkpoints); jiter_next(&it);) {
		char id[ID_SIZE];

		jval_str(jval_get(it.value, "checkpointId"), id, sizeof id);
		transaction_after_commit(tx, sandbox_drop_copy, id);
	}
}

/*
 * Documents are read speculatively: a client may create a session and use it in the next request, before the first one
 * is durable. Batches commit in the order of their submission, so facts may refer to ids of an earlier batch.
 */

#include "runtime/engine/session/session_scope.h"

#include "runtime/engine/core/core.h"
#include "runtime/view/view_documents.h"

/* Ids of other users are reported like unknown ones, so that they cannot be probed. Root sees all. */
static bool is_visible_to(const struct caller *c, uint64_t uid) { return c->uid == 0 || uid == c->uid; }

static int find_thread(struct engine *engine, const char *session_id, const char *thread_id, const struct caller *c,
		       struct session_scope *p, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct thread_doc d;
	int r = view_read_speculative(engine->o.store, &thread_schema, thread_id, &text, &d, e);

	if (r < 0)
		return -1;
	if (r > 0 || !is_visible_to(c, d.uid))
		return err_not_known(e, "threadId", thread_id);
	if (session_id && strcmp(session_id, d.sessionId) != 0)
		return err_field(e, "sessionId", "'%.80s' does not have thread '%.80s'", session_id, thread_id);
	p->uid = (uint32_t)d.uid;
	id_copy(p->session_id, d.sessionId);
	id_copy(p->thread_id, thread_id);
	return 0;
}

static int find_session(struct engine *engine, const char *session_id, enum place_thread want, const struct caller *c,
			struct session_scope *p, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct session_doc d;
	int r = view_read_speculative(engine->o.store, &session_schema, session_id, &text, &d, e);

	if (r < 0)
		return -1;
	if (r > 0 || !is_visible_to(c, d.uid))
		return err_not_known(e, "sessionId", session_id);
	p->uid = (uint32_t)d.uid;
	id_copy(p->session_id, session_id);
	if (want == SCOPE_FIRST_THREAD && d.firstThreadId[0]) {
		id_copy(p->thread_id, d.firstThreadId);
		return 0;
	}
	id_make(ID_KIND_THREAD, p->thread_id);
	p->makes_thread = true;
	return 0;
}

int session_scope_find(struct engine *engine, const char *session_id, const char *thread_id, enum place_thread want,
		       const struct caller *c, struct session_scope *ret, struct err *e)
{
	struct session_scope p = { .uid = c->uid };

	if (thread_id) {
		if (find_thread(engine, session_id, thread_id, c, &p, e) < 0)
			return -1;
	} else if (session_id) {
		if (find_session(engine, session_id, want, c, &p, e) < 0)
			return -1;
	} else {
		id_make(ID_KIND_SESSION, p.session_id);
		id_make(ID_KIND_THREAD, p.thread_id);
		p.makes_session = p.makes_thread = true;
	}
	*ret = p;
	return 0;
}

int session_scope_facts(const struct session_scope *p, const char *origin, const char *parent_thread_id,
			const struct requester *by, struct transaction *tx)
{
	const struct scope s = { .uid = p->uid, .session = p->session_id, .thread = p->thread_id };

	if (p->makes_session && EMIT(session_created, tx, s, .kind = "user", .createdBy = json_requester(by)) < 0)
		return -1;
	if (!p->makes_thread)
		return 0;
	return EMIT(thread_started, tx, s, .origin = p->makes_session ? "session" : origin,
		    .parentThreadId = parent_thread_id);
}

void thread_status_fact(struct engine *engine, uint32_t uid, const char *session_id, const char *thread_id,
			const char *status, const char *reason, struct transaction *tx)
{
	buf_auto struct buf text = BUF_INIT;
	/* The status of a thread that is created in this batch and therefore has no document. */
	const char *previous = "idle";
	struct thread_doc d;
	struct err e = ERR_INIT;

	if (view_read_speculative(engine->o.store, &thread_schema, thread_id, &text, &d, &e) == 0 && d.status[0])
		previous = d.phase[0] ? d.phase : d.status;
	if (strcmp(previous, status) == 0)
		return;
	const struct scope s = { .uid = uid, .session = session_id, .thread = thread_id };
	EMIT(thread_updated, tx, s, .envelope.status = status, .status = status, .previous = previous,
	     .reason = reason);
}

/*
 * The session, thread and turn of a process: those named in the request, or new ones. A turn created for a process ends
 * with it; a turn named by the client is ended by the client.
 *
 * The ids are assigned when the request arrives, but their events are part of the batch of the start (or of the wait
 * for hooks or an approval), so a rejected request leaves no empty session behind. Until that batch is in the log,
 * thread_claim keeps a second request from using the thread.
 */

#include "runtime/engine/core/core.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/session/session.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/view/view.h"

static int resolve_turn(struct process *p, const char *turn_id, struct err *e)
{
	struct view_turn_brief t;
	int r = view_turn_brief(p->engine->o.store, p->uid, turn_id, &t, e);

	if (r != 0)
		return r < 0 ? -1 : err_not_known(e, "turnId", turn_id);
	if (t.ended)
		return session_field_err(e, ERR_STATE, "turnId", "has ended", turn_id);
	if (t.ending)
		return session_field_err(e, ERR_STATE, "turnId", "is ending", turn_id);
	if (!t.started)
		return session_field_err(e, ERR_STATE, "turnId", "has not started: it waits for its thread", turn_id);
	id_copy(p->session_id, t.session_id);
	id_copy(p->thread_id, t.thread_id);
	id_copy(p->turn_id, turn_id);
	return 0;
}

/*
 * A thread has one active turn at a time. A start does not queue: it would run at a time that its client does not
 * expect.
 */
static int resolve_thread(struct process *p, const char *thread_id, struct err *e)
{
	struct view_thread_brief t;
	int r = view_thread_brief(p->engine->o.store, p->uid, thread_id, &t, e);

	if (r != 0)
		return r < 0 ? -1 : err_not_known(e, "threadId", thread_id);
	struct turn_queue q;
	char active[ID_SIZE];
	if (turn_queue_read(p->engine, thread_id, &q, e) < 0 || (r = thread_busy(p->engine, thread_id, active, e)) < 0)
		return -1;
	if (r || q.count)
		return session_field_err(e, ERR_CONFLICT, "threadId",
					 r ? "has an active turn: wait for it, or leave threadId out"
					   : "has turns that wait for it: submit_turn queues behind them",
					 thread_id);
	id_copy(p->session_id, t.session_id);
	id_copy(p->thread_id, thread_id);
	return 0;
}

static int resolve_session(struct process *p, const char *session_id, struct err *e)
{
	struct view_session_brief s;
	int r = view_session_brief(p->engine->o.store, p->uid, session_id, &s, e);

	if (r != 0)
		return r < 0 ? -1 : err_not_known(e, "sessionId", session_id);
	id_copy(p->session_id, session_id);
	return 0;
}

static int check_same_id(const char *field, const char *given, const char *found, struct err *e)
{
	if (!given || strcmp(given, found) == 0)
		return 0;
	return session_field_err(e, ERR_INVALID, field, "does not belong to the others that were given", given);
}

int process_find_session(struct process *p, const struct start_request *r, struct err *e)
{
	if (!p->step_id[0])
		id_make(ID_KIND_STEP, p->step_id);
	if (owner_is_internal(p->owner)) {
		id_copy(p->session_id, r->session_id);
		id_copy(p->thread_id, r->thread_id);
		id_copy(p->turn_id, r->turn_id);
		return 0;
	}
	if (r->turn_id) {
		if (resolve_turn(p, r->turn_id, e) < 0 ||
		    check_same_id("threadId", r->thread_id, p->thread_id, e) < 0 ||
		    check_same_id("sessionId", r->session_id, p->session_id, e) < 0)
			return -1;
		return 0;
	}
	if (r->thread_id) {
		if (resolve_thread(p, r->thread_id, e) < 0 ||
		    check_same_id("sessionId", r->session_id, p->session_id, e) < 0)
			return -1;
	} else {
		if (r->session_id) {
			if (resolve_session(p, r->session_id, e) < 0)
				return -1;
		} else {
			id_make(ID_KIND_SESSION, p->session_id);
			p->makes_session = true;
		}
		id_make(ID_KIND_THREAD, p->thread_id);
		p->makes_thread = true;
	}
	if (p->holder && !p->makes_session) { /* no work of the session: process_session_facts finds the system turn */
		p->makes_thread = false;
		p->thread_id[0] = '\0';
		return 0;
	}
	id_make(ID_KIND_TURN, p->turn_id);
	p->owns_turn = true;
	return 0;
}

static int thread_updated(const struct process *p, struct transaction *tx, const char *status, const char *previous,
			  const char *reason)
{
	const struct scope s = { .uid = p->uid, .session = p->session_id, .thread = p->thread_id };

	return EMIT(thread_updated, tx, s, .envelope.status = status, .status = status, .previous = previous,
		    .reason = reason);
}

int process_session_facts(struct process *p, struct transaction *tx)
{
	struct scope s = { .uid = p->uid, .session = p->session_id, .thread = p->thread_id };

	struct err e = ERR_INIT;

	if (p->hooked)
		return 0; /* already recorded, when its hooks were started */
	if (p->holder && !p->turn_id[0])
		return session_system_turn(p->engine, tx, p->uid, p->session_id, p->thread_id, p->turn_id, &e);
	if (p->makes_session)
		session_created_fact(tx, s, "user", NULL, &p->by);
	if (p->makes_thread)
		EMIT(thread_started, tx, s, .origin = p->makes_session ? "session" : "process");
	if (!p->owns_turn)
		return 0;
	s.turn = p->turn_id;
	s.trace = p->trace_id;
	s.request = p->start.request_id;
	s.span = p->span_id;
	EMIT(turn_submitted, tx, s, .envelope.status = "accepted", .source = "process", .status = "accepted",
	     .preview = p->display);
	s.request = s.span = NULL;
	EMIT(turn_started, tx, s, .envelope.status = "running", .driver = "runtime");
	return thread_updated(p, tx, "running", "idle", "turn_started");
}

/* Members of the end of a process's own turn: the process and its outputs. */
static void write_work(struct jw *w, const void *process, size_t n)
{
	const struct process *p = process;

	jw_kstrv(w, "processes", &(const char *){ p->id }, 1);
	jw_key(w, "outputRefs");
	process_stream_names(p, w);
}

int process_session_end_facts(struct process *p, struct transaction *tx, const char *status, const char *category,
			      const char *message)
{
	if (!p->owns_turn)
		return 0;
	/* Before the end of the turn, after which no event of it may follow. */
	turn_close_requests(p->engine, p->uid, p->session_id, p->thread_id, p->turn_id, tx);
	const struct scope s = { .uid = p->uid,
				 .session = p->session_id,
				 .thread = p->thread_id,
				 .turn = p->turn_id,
				 .trace = p->trace_id };
	const struct json_value work = json_from_writer(write_work, p, 0);
	if (category)
		EMIT(turn_failed, tx, s, .envelope = { .status = status, .status_reason = message },
		     .category = category, .message = message, .retryable = strcmp(status, "lost") == 0, .work = work);
	else
		EMIT(turn_completed, tx, s, .envelope.status = status, .outcome = turn_outcome_process, .work = work);
	/* Threads have fewer statuses than turns. */
	const char *thread = strcmp(status, "timed_out") == 0 ? "failed"
			     : strcmp(status, "lost") == 0    ? "unknown"
							      : status;
	return thread_updated(p, tx, thread, "running", category ? "turn_failed" : "turn_completed");
}

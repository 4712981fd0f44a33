#include "runtime/view/view_environment.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "runtime/view/view_documents.h"
#include "runtime/view/view_ids.h"
#include "runtime/view/view_thread_members.h"

#include <string.h>

#define PROCESSES_SHOWN 100u

/* ---- which turn ---- */

static int newest(struct store *s, enum view_kind kind, const char *owner, char ret[VIEW_ID_MAX], struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	char prefix[VIEW_KEY_MAX];
	const struct view_ids_query q = { .kind = kind, .prefix = prefix, .descending = true, .max = 1 };

	snprintf(prefix, sizeof prefix, "%s/", owner);
	if (view_ids(s, &q, &ids, NULL, e) < 0)
		return -1;
	snprintf(ret, VIEW_ID_MAX, "%s", ids.n ? ids.id[0] : "");
	return 0;
}

struct place {
	char session[VIEW_ID_MAX], thread[VIEW_ID_MAX], turn[VIEW_ID_MAX];
	uint64_t uid;
};

static int missing(struct err *e, const char *field, const char *what, const char *id)
{
	err_set(e, ERR_NOT_FOUND, "no %s '%.80s'", what, id);
	snprintf(e->field, sizeof e->field, "%s", field);
	return -1;
}

static int place_of_turn(struct store *s, const char *id, struct place *p, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc d;
	int r = view_read(s, &turn_schema, id, &text, &d, e);

	if (r)
		return r < 0 ? -1 : missing(e, "turnId", "turn", id);
	view_set_string(p->turn, id);
	view_set_string(p->thread, d.threadId);
	view_set_string(p->session, d.sessionId);
	p->uid = d.uid;
	return 0;
}

static int place_of_thread(struct store *s, const char *id, struct place *p, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct thread_doc d;
	int r = view_read(s, &thread_schema, id, &text, &d, e);

	if (r)
		return r < 0 ? -1 : missing(e, "threadId", "thread", id);
	view_set_string(p->thread, id);
	view_set_string(p->session, d.sessionId);
	p->uid = d.uid;
	return newest(s, VIEW_THREAD_TURN, id, p->turn, e);
}

static int place_of_session(struct store *s, const char *id, struct place *p, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct session_doc d;
	int r = view_read(s, &session_schema, id, &text, &d, e);

	if (r)
		return r < 0 ? -1 : missing(e, "sessionId", "session", id);
	view_set_string(p->session, id);
	p->uid = d.uid;
	if (newest(s, VIEW_SESSION_THREAD, id, p->thread, e) < 0)
		return -1;
	return p->thread[0] ? newest(s, VIEW_THREAD_TURN, p->thread, p->turn, e) : 0;
}

static int place_find(struct store *s, uint32_t uid, const struct view_scope *scope, struct place *p, struct err *e)
{
	*p = (struct place){ 0 };
	if (!scope->turn_id && !scope->thread_id && !scope->session_id)
		return err_field(e, "sessionId", "missing: give sessionId, threadId or turnId");
	int r = scope->turn_id     ? place_of_turn(s, scope->turn_id, p, e)
		: scope->thread_id ? place_of_thread(s, scope->thread_id, p, e)
				   : place_of_session(s, scope->session_id, p, e);
	if (r < 0)
		return -1;
	if (uid != VIEW_ANY_UID && p->uid != uid)
		return scope->turn_id     ? missing(e, "turnId", "turn", scope->turn_id)
		       : scope->thread_id ? missing(e, "threadId", "thread", scope->thread_id)
					  : missing(e, "sessionId", "session", scope->session_id);
	return 0;
}

static void place_json(struct store *s, const struct place *p, struct jw *w)
{
	jw_kstr(w, "schemaVersion", store_env(s)->schema_version);
	jw_kstr(w, "runtimeId", store_runtime_id(s));
	jw_kstr(w, "sessionId", p->session);
	if (p->thread[0])
		jw_kstr(w, "threadId", p->thread);
	if (p->turn[0])
		jw_kstr(w, "turnId", p->turn);
}

/* ---- its processes ---- */

static void process_json(const struct process_doc *d, struct jw *w)
{
	jw_obj(w);
	jw_kstr(w, "processId", d->processId);
	jw_kstr(w, "status", d->status);
	if (d->command.type != JT_NONE)
		jw_kraw(w, "command", d->command.text, d->command.len);
	if (d->pid.type != JT_NONE)
		jw_kraw(w, "pid", d->pid.text, d->pid.len);
	if (d->cwd.type != JT_NONE)
		jw_kraw(w, "cwd", d->cwd.text, d->cwd.len);
	if (d->limits.type != JT_NONE)
		jw_kraw(w, "limits", d->limits.text, d->limits.len);
	jw_obj_end(w);
}

static int write_processes(struct store *s, const struct place *p, struct jw *w, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;
	char prefix[VIEW_KEY_MAX];
	const struct view_ids_query q = { .kind = VIEW_SESSION_PROCESS,
					  .prefix = prefix,
					  .descending = true,
					  .max = PROCESSES_SHOWN,
					  .max_seen = 5000 };

	snprintf(prefix, sizeof prefix, "%s/", p->session);
	if (view_ids(s, &q, &ids, NULL, e) < 0)
		return -1;
	jw_karr(w, "activeProcesses");
	for (size_t i = 0; i < ids.n; i++) {
		struct process_doc d;
		int r = view_read(s, &process_schema, ids.id[i], &text, &d, e);

		if (r < 0)
			return -1;
		if (r == 0 && !process_doc_ended(&d))
			process_json(&d, w);
	}
	jw_arr_end(w);
	return 0;
}

/* ---- the snapshots ---- */

int view_execution_environment(struct store *s, uint32_t uid, const struct view_scope *scope, struct buf *out,
			       struct err *e)
{
	buf_auto struct buf text = BUF_INIT, whole = BUF_INIT;
	struct jw w = jw_on(&whole);
	struct turn_doc d = { 0 };
	struct place p;

	if (place_find(s, uid, scope, &p, e) < 0)
		return -1;
	int r = p.turn[0] ? view_read(s, &turn_schema, p.turn, &text, &d, e) : 1;
	if (r < 0)
		return -1;
	jw_obj(&w);
	place_json(s, &p, &w);
	if (r == 0 && d.executionEnvironment.type == JT_OBJECT)
		jw_kraw(&w, "executionEnvironment", d.executionEnvironment.text, d.executionEnvironment.len);
	else
		jw_kstr(&w, "status", r ? "not_applicable" : "unknown"); /* no turn yet; or one that told none */
	if (r == 0 && d.sandboxProfile.type == JT_OBJECT)
		jw_kraw(&w, "sandboxProfile", d.sandboxProfile.text, d.sandboxProfile.len);
	if (write_processes(s, &p, &w, e) < 0)
		return -1;
	jw_obj_end(&w);
	buf_append(out, whole.data, whole.len);
	return 0;
}

/* Refusals of the turn's processes. */
static int write_violations(struct store *s, const struct place *p, struct jw *w, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;
	char prefix[VIEW_KEY_MAX];
	const struct view_ids_query q = {
		.kind = VIEW_TURN_PROCESS, .prefix = prefix, .descending = true, .max = PROCESSES_SHOWN
	};
	uint64_t total = 0;

	snprintf(prefix, sizeof prefix, "%s/", p->turn);
	if (p->turn[0] && view_ids(s, &q, &ids, NULL, e) < 0)
		return -1;
	jw_karr(w, "violationRefs");
	for (size_t i = 0; i < ids.n; i++) {
		struct violation_doc d;
		int r = view_read(s, &violation_schema, ids.id[i], &text, &d, e);

		if (r < 0)
			return -1;
		if (r > 0 || d.violationCount == VIEW_ABSENT || !d.violationCount)
			continue;
		total += d.violationCount;
		jw_obj(w);
		jw_kstr(w, "processId", ids.id[i]);
		jw_kuint(w, "count", d.violationCount);
		jw_obj_end(w);
	}
	jw_arr_end(w);
	jw_kuint(w, "violationCount", total);
	return 0;
}

int view_permission_sandbox(struct store *s, uint32_t uid, const struct view_scope *scope, struct buf *out,
			    struct err *e)
{
	buf_auto struct buf text = BUF_INIT, whole = BUF_INIT;
	struct jw w = jw_on(&whole);
	struct turn_doc d = { 0 };
	struct place p;

	if (place_find(s, uid, scope, &p, e) < 0)
		return -1;
	int r = p.turn[0] ? view_read(s, &turn_schema, p.turn, &text, &d, e) : 1;
	if (r < 0)
		return -1;
	jw_obj(&w);
	place_json(s, &p, &w);
	jw_kobj(&w, "permissionState");
	if (r == 0 && d.permissionDecision.type == JT_OBJECT)
		jw_kraw(&w, "lastDecision", d.permissionDecision.text, d.permissionDecision.len);
	else
		jw_kstr(&w, "status", "not_applicable"); /* nothing was judged in it */
	jw_obj_end(&w);
	jw_kobj(&w, "sandboxState");
	if (r == 0 && d.sandboxProfile.type == JT_OBJECT)
		jw_kraw(&w, "sandboxProfile", d.sandboxProfile.text, d.sandboxProfile.len);
	else
		jw_kstr(&w, "status", "not_applicable");
	if (write_violations(s, &p, &w, e) < 0)
		return -1;
	jw_obj_end(&w);
	if (p.thread[0] && view_write_actions(s, p.thread, &w, e) < 0)
		return -1;
	jw_obj_end(&w);
	buf_append(out, whole.data, whole.len);
	return 0;
}

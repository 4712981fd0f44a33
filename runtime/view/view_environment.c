/*
 * The snapshots execution_environment and permission_sandbox. Both describe one turn; the turn is found from
 * whichever id the client gives, and everything else is read from the turn's document and the processes of the turn
 * or session.
 */

#include "runtime/view/view_environment.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "runtime/view/view_documents.h"
#include "runtime/view/view_ids.h"
#include "runtime/view/view_snapshot.h"
#include "runtime/view/view_write.h"

#include <string.h>

#define PROCESSES_SHOWN 100u

/* ---- which turn ---- */

/* The newest member of a list; "" if it is empty. */
static int find_newest(struct store *s, enum view_kind kind, const char *owner, char ret[ID_SIZE], struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;

	if (view_members(s, kind, owner, VIEW_NEWEST_FIRST, 1, &ids, e) < 0)
		return -1;
	id_copy(ret, ids.n ? ids.id[0] : "");
	return 0;
}

/* The turn that describes a thread, and its document: the newest; the system turn, which only carries facts, if alone.
 */
static int find_turn(struct store *s, const char *thread, char ret[ID_SIZE], struct buf *text, struct turn_doc *doc,
		     struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;

	if (view_members(s, VIEW_THREAD_TURN, thread, VIEW_NEWEST_FIRST, 2, &ids, e) < 0)
		return -1;
	for (size_t i = 0; i < ids.n; i++) {
		id_copy(ret, ids.id[i]);
		if (view_read(s, &turn_schema, ret, text, doc, e) < 0)
			return -1;
		if (!jval_is_str(doc->source, "system"))
			return 0;
	}
	return 0; /* a session has one system turn: it is the only one */
}

/* What a view_scope means: a session, its thread and turn if it has any, and the turn's document. */
struct resolved_scope {
	char session[ID_SIZE], thread[ID_SIZE], turn[ID_SIZE];
	struct turn_doc doc; /* all absent without a turn */
	struct buf text;
};

/* The caller frees ret->text, also on failure. */
static int resolve_scope(struct store *s, uint32_t uid, const struct view_scope *scope, struct resolved_scope *ret,
			 struct err *e)
{
	const struct {
		const char *id, *field;
		const struct view_schema *schema;
	} rows[] = {
		{ scope->turn_id, "turnId", &turn_schema },
		{ scope->thread_id, "threadId", &thread_schema },
		{ scope->session_id, "sessionId", &session_schema },
	};
	_Alignas(max_align_t) char doc[VIEW_DOCUMENT_MAX];
	size_t i = 0;

	*ret = (struct resolved_scope){ .text = BUF_INIT };
	view_clear(&turn_schema, &ret->doc);
	/* The narrowest id decides; wider ones in the same request are not compared with it. */
	while (i < countof(rows) && !rows[i].id)
		i++;
	if (i == countof(rows))
		return err_field(e, "sessionId", "missing: give sessionId, threadId or turnId");
	if (view_read_visible(s, rows[i].schema, uid, rows[i].field, rows[i].id, &ret->text, doc, e) < 0)
		return -1;
	struct jval members = jval_of(ret->text.data, ret->text.len);
	view_copy_string(ret->session, jval_get(members, "sessionId"));
	view_copy_string(ret->thread, jval_get(members, "threadId"));
	view_copy_string(ret->turn, jval_get(members, "turnId"));
	if (!ret->thread[0] && find_newest(s, VIEW_SESSION_THREAD, ret->session, ret->thread, e) < 0)
		return -1;
	if (ret->thread[0] && !ret->turn[0])
		return find_turn(s, ret->thread, ret->turn, &ret->text, &ret->doc, e);
	return ret->turn[0] && view_read(s, &turn_schema, ret->turn, &ret->text, &ret->doc, e) < 0 ? -1 : 0;
}

/* Absent is not the same as unknown: the status tells the client why there is no value. */
static void write_object(struct jw *w, const char *key, struct jval v, const char *status_otherwise)
{
	if (v.type == JT_OBJECT)
		jw_kraw(w, key, v.text, v.len);
	else if (status_otherwise)
		jw_kstr(w, "status", status_otherwise);
}

/* ---- its processes ---- */

/* The violations of the turn's processes. */
static int write_violations(struct store *s, const struct resolved_scope *scope, struct jw *w, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;
	uint64_t total = 0;

	if (scope->turn[0] &&
	    view_members(s, VIEW_TURN_PROCESS, scope->turn, VIEW_NEWEST_FIRST, PROCESSES_SHOWN, &ids, e) < 0)
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

/* ---- the snapshots ---- */

static int write_environment(struct store *s, const struct resolved_scope *p, struct jw *w, struct err *e)
{
	/* no turn yet; or none recorded for it */
	write_object(w, "executionEnvironment", p->doc.executionEnvironment,
		     p->doc.turnId[0] ? "unknown" : "not_applicable");
	write_object(w, "sandboxProfile", p->doc.sandboxProfile, NULL);
	/* names the variables of the latest process; their values are kept nowhere */
	view_write_json(w, "envRef", jval_get(p->doc.sandboxProfile, "environmentRef"));
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;

	if (view_members(s, VIEW_SESSION_PROCESS, p->session, VIEW_NEWEST_FIRST, PROCESSES_SHOWN, &ids, e) < 0)
		return -1;
	jw_karr(w, "activeProcesses");
	for (size_t i = 0; i < ids.n; i++) {
		struct process_doc d;
		int r = view_read(s, &process_schema, ids.id[i], &text, &d, e);

		if (r < 0)
			return -1;
		if (r > 0 || process_doc_ended(&d) || process_doc_holds(&d))
			continue;
		jw_obj(w);
		view_write_members(w, &process_schema, &d, "processId status command pid cwd limits");
		jw_obj_end(w);
	}
	jw_arr_end(w);
	return 0;
}

static int write_permissions(struct store *s, const struct resolved_scope *p, struct jw *w, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct session_doc session;
	int r = view_read(s, &session_schema, p->session, &text, &session, e);

	if (r < 0)
		return -1;
	jw_kobj(w, "permissionState");
	if (r == 0) {
		/* Without a mode of its own, the session has that of the policy files (get_policy). */
		jw_kstr(w, "mode", session.permissionMode[0] ? session.permissionMode : "policy");
		jw_kstr(w, "modeSource", session.permissionMode[0] ? "session" : "policy");
		view_write_json(w, "sessionRules", session.permissions);
	}
	jw_kbool(w, "waitsForPerson", view_counted(p->doc.openActions) > 0);
	write_object(w, "lastDecision", p->doc.permissionDecision, "not_applicable");
	jw_obj_end(w);
	jw_kobj(w, "sandboxState");
	write_object(w, "sandboxProfile", p->doc.sandboxProfile, "not_applicable");
	if (write_violations(s, p, w, e) < 0)
		return -1;
	jw_obj_end(w);
	return p->thread[0] ? view_write_actions(s, p->thread, w, e) : 0;
}

static int write_snapshot(struct store *s, uint32_t uid, const struct view_scope *scope,
			  int (*write)(struct store *s, const struct resolved_scope *p, struct jw *w, struct err *e),
			  struct buf *out, struct err *e)
{
	buf_auto struct buf whole = BUF_INIT;
	struct jw w = jw_on(&whole);
	struct resolved_scope p;
	int r = resolve_scope(s, uid, scope, &p, e);

	if (r == 0) {
		jw_obj(&w);
		jw_kstr(&w, "schemaVersion", store_env(s)->schema_version);
		jw_kstr(&w, "runtimeId", store_runtime_id(s));
		jw_kstr(&w, "sessionId", p.session);
		view_write_word(&w, "threadId", p.thread);
		view_write_word(&w, "turnId", p.turn);
		r = write(s, &p, &w, e);
		jw_obj_end(&w);
	}
	if (r == 0)
		buf_append(out, whole.data, whole.len);
	buf_done(&p.text);
	return r;
}

int view_execution_environment(struct store *s, uint32_t uid, const struct view_scope *scope, struct buf *out,
			       struct err *e)
{
	return write_snapshot(s, uid, scope, write_environment, out, e);
}

int view_permission_sandbox(struct store *s, uint32_t uid, const struct view_scope *scope, struct buf *out,
			    struct err *e)
{
	return write_snapshot(s, uid, scope, write_permissions, out, e);
}

#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/view/view.h"
#include "runtime/view/view_task.h"
#include "supervisor/control/export.h"

#include <string.h>

static int fail_unknown(struct err *e, const char *field, const char *id)
{
	err_set(e, ERR_NOT_FOUND, "%s '%.64s' is not known", field, id);
	snprintf(e->field, sizeof e->field, "scope.%s", field);
	return -1;
}

static int scope_of_session(struct call *c, const char *id, struct export_scope *ret, struct err *e)
{
	struct view_session_brief b;
	int r = view_session_brief(call_store(c), call_visible_uid(c), id, &b, e);

	if (r)
		return r < 0 ? -1 : fail_unknown(e, "sessionId", id);
	ret->uid = b.uid;
	snprintf(ret->session_id, sizeof ret->session_id, "%s", id);
	return 0;
}

static int scope_of_thread(struct call *c, const char *id, struct export_scope *ret, struct err *e)
{
	struct view_thread_brief b;
	int r = view_thread_brief(call_store(c), call_visible_uid(c), id, &b, e);

	if (r)
		return r < 0 ? -1 : fail_unknown(e, "threadId", id);
	ret->uid = b.uid;
	snprintf(ret->session_id, sizeof ret->session_id, "%s", b.session_id);
	snprintf(ret->thread_id, sizeof ret->thread_id, "%s", id);
	return 0;
}

static int scope_of_turn(struct call *c, const char *id, struct export_scope *ret, struct err *e)
{
	struct view_turn_brief b;
	int r = view_turn_brief(call_store(c), call_visible_uid(c), id, &b, e);

	if (r)
		return r < 0 ? -1 : fail_unknown(e, "turnId", id);
	ret->uid = b.uid;
	snprintf(ret->session_id, sizeof ret->session_id, "%s", b.session_id);
	snprintf(ret->thread_id, sizeof ret->thread_id, "%s", b.thread_id);
	snprintf(ret->turn_id, sizeof ret->turn_id, "%s", id);
	snprintf(ret->task_id, sizeof ret->task_id, "%s", b.task_id);
	return 0;
}

static int scope_of_task(struct call *c, const char *id, struct export_scope *ret, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct task_doc d;
	int r = view_read(call_store(c), &task_schema, id, &text, &d, e);

	if (r < 0)
		return -1;
	if (r > 0 || !call_sees(c, (uint32_t)d.uid))
		return fail_unknown(e, "taskId", id);
	ret->uid = (uint32_t)d.uid;
	snprintf(ret->session_id, sizeof ret->session_id, "%s", d.sessionId);
	snprintf(ret->task_id, sizeof ret->task_id, "%s", id);
	return 0;
}

static int read_scope(struct call *c, const struct export_scope_members *given, struct export_scope *ret, struct err *e)
{
	const struct {
		const char *member, *id;
		enum id_field field;
		int (*of)(struct call *c, const char *id, struct export_scope *ret, struct err *e);
	} scopes[] = {
		{ "turnId", given->turnId, ID_TURN, scope_of_turn },
		{ "taskId", given->taskId, ID_TASK, scope_of_task },
		{ "threadId", given->threadId, ID_THREAD, scope_of_thread },
		{ "sessionId", given->sessionId, ID_SESSION, scope_of_session },
	};
	const char *session = given->sessionId;

	/* The narrowest id applies; the others must match it. */
	for (size_t i = 0; i < countof(scopes); i++) {
		const char *id = scopes[i].id;

		if (!id)
			continue;
		*ret = (struct export_scope){ .field = scopes[i].field };
		if (scopes[i].of(c, id, ret, e) < 0)
			return -1;
		if (session && strcmp(session, ret->session_id) != 0)
			return err_field(e, "scope.sessionId", "'%.64s' is not the session of %s '%.64s'", session,
					 scopes[i].member, id);
		return 0;
	}
	return err_field(e, "scope", "expected one of sessionId, threadId, turnId and taskId");
}

/* The additional files, on top of the one that the method is for. */
static int read_include(const json_t *list, enum evidence_kind kinds[EVIDENCE_FILES_MAX], size_t *n, struct err *e)
{
	static const struct {
		const char *word;
		enum evidence_kind kind;
	} words[] = {
		{ "trajectory", EVIDENCE_TRAJECTORY },
		{ "trace", EVIDENCE_TRACE },
		{ "transcript", EVIDENCE_TRANSCRIPT },
		{ "manifest", EVIDENCE_MANIFEST },
	};
	const json_t *v;
	size_t i, k;

	json_array_foreach (list, i, v) {
		const char *word = json_string_value(v);

		for (k = 0; k < countof(words) && (!word || strcmp(word, words[k].word) != 0); k++)
			;
		if (k == countof(words))
			return err_field(e, "include", "'%.40s' is none of trajectory, trace, transcript and manifest",
					 word ? word : "");
		bool known = false;
		for (size_t j = 0; j < *n; j++)
			known = known || kinds[j] == words[k].kind;
		if (!known)
			kinds[(*n)++] = words[k].kind;
	}
	return 0;
}

static void export_kind(struct call *c, enum evidence_kind kind, const struct export_scope_members *given,
			const json_t *include)
{
	enum evidence_kind kinds[EVIDENCE_FILES_MAX] = { kind };
	struct export_scope scope;
	struct err e = ERR_INIT;
	size_t n = 1;

	if (read_scope(c, given, &scope, &e) < 0 || read_include(include, kinds, &n, &e) < 0)
		call_fail(c, &e);
	else
		export_start(c, &scope, kinds, n, NULL, NULL);
}

void method_export_evidence(struct call *c, const struct export_evidence_params *p)
{
	export_kind(c, EVIDENCE_PACK, &p->scope, p->include);
}

void method_export_replay(struct call *c, const struct export_replay_params *p)
{
	export_kind(c, EVIDENCE_REPLAY, &p->scope, p->include);
}

void method_export_review(struct call *c, const struct export_review_params *p)
{
	export_kind(c, EVIDENCE_REVIEW, &p->scope, p->include);
}

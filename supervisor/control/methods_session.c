#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/engine/turn/history.h"
#include "runtime/engine/policy/session_rules.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"
#include "supervisor/host/config.h"
#include "supervisor/control/client.h"
#include "supervisor/control/control.h"

#define TITLE_MAX 1024u
#define WORKSPACE_MAX 256u
#define SCOPE_MAX 16384u
#define PINNED_MAX 100u

static uint32_t viewer(const struct call *c) { return call_sees_all(c) ? VIEW_ANY_UID : c->caller.uid; }

static void answer(struct call *c, int r, const struct buf *out, const struct err *e)
{
	if (r < 0)
		call_fail(c, e);
	else
		call_reply(c, out->data, out->len);
}

static int check_length(const char *field, const char *text, size_t most, struct err *e)
{
	if (text && strlen(text) > most)
		return err_field(e, field, "must have at most %zu bytes", most);
	return 0;
}

/*
 * What is allowed for a session is an answer given in advance: from who may not answer, only what tightens is taken.
 */
static const struct session_rules_request *rules_of(const struct call *c, struct session_rules_request *ret)
{
	*ret = (struct session_rules_request){ .permissions = call_obj(c, "permissions") };
	if (c->caller.role < ROLE_OPERATOR)
		ret->tightens = "an agent may only add rules that deny or ask";
	else if (!config_may_approve(call_config(c), c->caller.uid, c->caller.gid))
		ret->tightens = "who may not answer actions here (approvers) may only add rules that deny or ask";
	return ret->permissions ? ret : NULL;
}

void method_create_session(struct call *c)
{
	json_t *scope = call_obj(c, "scope");
	struct session_rules_request rules;
	mem_auto char *scope_json = scope ? json_dumps(scope, JSON_COMPACT) : NULL;
	struct session_request r = {
		.session_id = call_str(c, "sessionId"),
		.title = call_str(c, "title"),
		.workspace_id = call_str(c, "workspaceId"),
		.scope_json = scope_json,
		.scope_len = scope_json ? strlen(scope_json) : 0,
		.rules = rules_of(c, &rules),
	};
	struct err e = ERR_INIT;

	if (check_length("title", r.title, TITLE_MAX, &e) < 0 ||
	    check_length("workspaceId", r.workspace_id, WORKSPACE_MAX, &e) < 0 ||
	    check_length("scope", scope_json, SCOPE_MAX, &e) < 0)
		call_fail(c, &e);
	else
		engine_create_session(call_engine(c), &r, &c->caller, call_engine_reply, c);
}

void method_list_sessions(struct call *c)
{
	uint64_t limit = call_uint(c, "limit", 100);
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	/* The view says what is allowed. */
	answer(c,
	       view_sessions(call_store(c), viewer(c), limit > 1000 ? 1001 : (unsigned)limit, call_str(c, "cursor"),
			     &out, &e),
	       &out, &e);
}

static uint64_t window_hash(const char *owner, const char *before)
{
	uint64_t h = 1469598103934665603ull;

	for (const char *s = owner; *s; s++)
		h = (h ^ (unsigned char)*s) * 1099511628211ull;
	for (const char *s = before; *s; s++)
		h = (h ^ (unsigned char)*s) * 1099511628211ull;
	return h;
}

/* That an older part was loaded is a fact, once for each part and connection. `thread` NULL: of the session itself. */
static void note_window(struct call *c, const char *session, const char *thread, const char *before,
			const struct buf *snapshot)
{
	struct client *cl = c->client;
	uint64_t h = window_hash(thread ? thread : session, before);
	struct view_session_brief brief;
	struct err e = ERR_INIT;

	for (unsigned i = 0; i < cl->nwindows && i < countof(cl->windows); i++)
		if (cl->windows[i] == h)
			return;
	cl->windows[cl->nwindows++ % countof(cl->windows)] = h;
	if (view_session_brief(call_store(c), VIEW_ANY_UID, session, &brief, &e) == 0)
		engine_window_loaded(call_engine(c), brief.uid, session, thread, before,
				     store_first_sequence(call_store(c)), store_last_sequence(call_store(c)),
				     jval_get(jval_of(snapshot->data, snapshot->len), "historyCursor").type ==
					     JT_STRING);
}

/* Past the maximum: one more than that, for the view to refuse. */
static bool window_of(const struct call *c, unsigned most, struct view_window *ret)
{
	const json_t *window = call_obj(c, "window"), *limit = json_object_get(window, "limit");
	json_int_t n = limit ? json_integer_value(limit) : VIEW_WINDOW;

	*ret = (struct view_window){ .limit = n > most ? most + 1 : (unsigned)n,
				     .before = json_string_value(json_object_get(window, "before")) };
	return window != NULL;
}

void method_get_session(struct call *c)
{
	buf_auto struct buf out = BUF_INIT;
	struct view_window w;
	struct err e = ERR_INIT;

	(void)window_of(c, VIEW_WINDOW, &w);
	int r = view_session(call_store(c), viewer(c), call_str(c, "sessionId"), &w, &out, &e);
	if (r == 0 && w.before && c->client)
		note_window(c, call_str(c, "sessionId"), NULL, w.before, &out);
	answer(c, r, &out, &e);
}

void method_get_thread_read(struct call *c)
{
	const char *session = call_str(c, "sessionId"), *thread = call_str(c, "threadId");
	buf_auto struct buf out = BUF_INIT;
	struct view_thread_brief brief;
	struct view_window w;
	struct err e = ERR_INIT;
	bool windowed = window_of(c, VIEW_TURNS_MAX, &w);
	int r = view_thread_brief(call_store(c), viewer(c), thread, &brief, &e);

	if (r > 0)
		r = session ? err_set(&e, ERR_NOT_FOUND, "session '%s' has no thread '%s'", session, thread)
			    : err_set(&e, ERR_NOT_FOUND, "no thread '%.80s'", thread);
	else if (r == 0 && session && strcmp(brief.session_id, session) != 0)
		r = err_set(&e, ERR_NOT_FOUND, "session '%s' has no thread '%s'", session, thread);
	if (r == 0)
		r = view_thread(call_store(c), viewer(c), thread, windowed ? &w : NULL, &out, &e);
	if (r == 0 && w.before && c->client)
		note_window(c, brief.session_id, thread, w.before, &out);
	answer(c, r, &out, &e);
}

void method_update_session(struct call *c)
{
	json_t *scope = call_obj(c, "scope"), *pinned = json_object_get(c->params, "pinnedThreadIds");
	struct session_rules_request rules;
	mem_auto char *scope_json = scope ? json_dumps(scope, JSON_COMPACT) : NULL;
	mem_auto char *pinned_json = pinned ? json_dumps(pinned, JSON_COMPACT) : NULL;
	const struct session_change r = {
		.session_id = call_str(c, "sessionId"),
		.title = call_str(c, "title"),
		.scope_json = scope_json,
		.pinned_json = pinned_json,
		.archived = json_object_get(c->params, "archived") ? call_bool(c, "archived", false) : -1,
		.rules = rules_of(c, &rules),
	};
	struct err e = ERR_INIT;

	if (json_array_size(pinned) > PINNED_MAX)
		err_field(&e, "pinnedThreadIds", "must have at most %u elements", PINNED_MAX);
	if (e.code || check_length("title", r.title, TITLE_MAX, &e) < 0 ||
	    check_length("scope", scope_json, SCOPE_MAX, &e) < 0)
		call_fail(c, &e);
	else
		engine_update_session(call_engine(c), &r, &c->caller, call_engine_reply, c);
}

void method_resume_thread(struct call *c)
{
	const char *session = call_str(c, "sessionId"), *thread = call_str(c, "threadId");
	struct err e = ERR_INIT;

	if (!session && !thread) {
		err_field(&e, "threadId", "missing; give threadId or sessionId");
		call_fail(c, &e);
	} else {
		engine_resume_thread(call_engine(c), session, thread, &c->caller, call_engine_reply, c);
	}
}

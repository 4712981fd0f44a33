#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/engine/policy/session_rules.h"
#include "runtime/engine/turn/turn.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"
#include "supervisor/control/client.h"
#include "supervisor/control/control.h"
#include "supervisor/host/config.h"

#define TITLE_MAX 1024u
#define WORKSPACE_MAX 256u
#define SCOPE_MAX 16384u
#define PINNED_MAX 100u

/*
 * A rule that allows something for a session approves future requests in advance: a caller that may not approve can
 * only tighten.
 */
static const struct session_rules_request *rules_of(const struct call *c, json_t *permissions,
						    struct session_rules_request *ret)
{
	*ret = (struct session_rules_request){ .permissions = permissions };
	if (c->caller.role < ROLE_OPERATOR)
		ret->tightens = "an agent may only add rules that deny or ask";
	else if (!call_may_approve(c))
		ret->tightens =
			"a user who may not answer actions here (approvers) may only add rules that deny or ask";
	return ret->permissions ? ret : NULL;
}

int method_create_session(struct call *c, const struct create_session_params *p, struct buf *out, struct err *e)
{
	struct session_rules_request rules;
	mem_auto char *scope = param_json_text("scope", p->scope, SCOPE_MAX, e);
	const struct session_request r = {
		.session_id = p->sessionId,
		.title = p->title,
		.workspace_id = p->workspaceId,
		.scope_json = scope,
		.scope_len = scope ? strlen(scope) : 0,
		.rules = rules_of(c, p->permissions.json, &rules),
	};

	if (e->code || param_length("title", r.title, 0, TITLE_MAX, e) < 0 ||
	    param_length("workspaceId", r.workspace_id, 0, WORKSPACE_MAX, e) < 0)
		return -1;
	engine_create_session(call_engine(c), &r, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

/* The view checks the limit and the cursor. */
int method_list_sessions(struct call *c, const struct list_sessions_params *p, struct buf *out, struct err *e)
{
	return view_sessions(call_store(c), call_visible_uid(c), param_page_limit(p->limit, 100), p->cursor, out, e);
}

/* Loading an older part is recorded once for each part and connection. `thread` NULL: of the session itself. */
static void note_window(struct call *c, const char *session, const char *thread, const char *before,
			const struct buf *snapshot)
{
	struct client *cl = c->client;
	uint64_t h = 1469598103934665603ull; /* FNV-1a; a collision only means that loading one part is not recorded */
	struct view_session_brief brief;
	struct err e = ERR_INIT;

	for (const char *s = thread ? thread : session; *s; s++)
		h = (h ^ (unsigned char)*s) * 1099511628211ull;
	for (const char *s = before; *s; s++)
		h = (h ^ (unsigned char)*s) * 1099511628211ull;
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

/* A limit past the maximum becomes one more than that, which the view rejects. */
static struct view_window window_of(struct param_uint limit, const char *before, unsigned most)
{
	uint64_t n = param_uint_or(limit, VIEW_WINDOW);

	return (struct view_window){ .limit = n > most ? most + 1 : (unsigned)n, .before = before };
}

int method_get_session(struct call *c, const struct get_session_params *p, struct buf *out, struct err *e)
{
	const struct view_window w = window_of(p->window.limit, p->window.before, VIEW_WINDOW);

	if (view_session(call_store(c), call_visible_uid(c), p->sessionId, &w, out, e) < 0)
		return -1;
	if (w.before && c->client)
		note_window(c, p->sessionId, NULL, w.before, out);
	return CALL_REPLY;
}

int method_get_thread_read(struct call *c, const struct get_thread_read_params *p, struct buf *out, struct err *e)
{
	const char *session = p->sessionId, *thread = p->threadId;
	struct view_thread_brief brief;
	const struct view_window w = window_of(p->window.limit, p->window.before, VIEW_TURNS_MAX);
	int r = view_thread_brief(call_store(c), call_visible_uid(c), thread, &brief, e);

	if (r > 0 && !session)
		return err_not_known(e, "threadId", thread);
	if (r > 0 || (r == 0 && session && strcmp(brief.session_id, session) != 0))
		return err_at(e, ERR_NOT_FOUND, "threadId", "session '%s' has no thread '%s'", session, thread);
	if (r < 0 || view_thread(call_store(c), call_visible_uid(c), thread, p->window.json ? &w : NULL, out, e) < 0)
		return -1;
	if (w.before && c->client)
		note_window(c, brief.session_id, thread, w.before, out);
	return CALL_REPLY;
}

int method_update_session(struct call *c, const struct update_session_params *p, struct buf *out, struct err *e)
{
	struct session_rules_request rules;
	mem_auto char *scope = param_json_text("scope", p->scope, SCOPE_MAX, e);
	mem_auto char *pinned = param_json_text("pinnedThreadIds", p->pinnedThreadIds, SIZE_MAX, e);
	const struct session_change r = {
		.session_id = p->sessionId,
		.title = p->title,
		.scope_json = scope,
		.pinned_json = pinned,
		.archived = p->archived.given ? p->archived.value : -1,
		.rules = rules_of(c, p->permissions.json, &rules),
	};

	if (json_array_size(p->pinnedThreadIds) > PINNED_MAX)
		return err_field(e, "pinnedThreadIds", "must have at most %u elements", PINNED_MAX);
	if (e->code || param_length("title", r.title, 0, TITLE_MAX, e) < 0)
		return -1;
	engine_update_session(call_engine(c), &r, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_resume_thread(struct call *c, const struct resume_thread_params *p, struct buf *out, struct err *e)
{
	if (!p->sessionId && !p->threadId)
		return err_field(e, "threadId", "missing; give threadId or sessionId");
	engine_resume_thread(call_engine(c), p->sessionId, p->threadId, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

/*
 * Questions to the client: requests to a legacy client, results that ask for input to a modern one. Handlers see no
 * difference (mcp_call.h). Only valid answers are accepted: the content of an elicitation must match the schema that
 * was sent, otherwise it counts as not answered.
 */

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/json_schema.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/loop/loop.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_private.h"
#include "supervisor/gateway/mcp/mcp_request_state.h"
#include "supervisor/gateway/mcp/mcp_task.h"
#include "supervisor/gateway/mcp/mcp_version.h"

#include <event2/event.h>
#include <stdio.h>
#include <string.h>

#define ASK_MS (10u * 60 * 1000)
#define ASKED_MS "askedMs" /* in a request state: when the question was asked, in ms of real time */

/* ---- capabilities of the client ---- */

bool mcp_call_can(const struct mcp_call *c, const char *capability)
{
	const struct mcp_call_private *p = c->priv;
	const json_t *caps = p->era == MCP_MODERN ? p->client_caps : c->mcp->client_caps;
	const char *dot = strchr(capability, '.');
	mem_auto char *first = dot ? mem_strndup(capability, (size_t)(dot - capability)) : mem_strdup(capability);
	const json_t *has = json_object_get(caps, first);

	if (!json_is_object(has) || !dot)
		return json_is_object(has);
	/* An elicitation capability without a mode means forms. */
	if (strcmp(capability, "elicitation.form") == 0 && !json_object_get(has, "form") &&
	    !json_object_get(has, "url"))
		return true;
	return json_is_object(json_object_get(has, dot + 1));
}

void mcp_call_lacks(struct mcp_call *c, const char *capability)
{
	const char *dot = strchr(capability, '.');
	mem_auto char *first = dot ? mem_strndup(capability, (size_t)(dot - capability)) : mem_strdup(capability);

	if (c->priv->era == MCP_LEGACY)
		return mcp_call_tool_error(c, "the client lacks a capability that this needs: %s", capability);
	json_t *needs = dot ? json_pack("{s{s{}}}", first, dot + 1) : json_pack("{s{}}", first);
	mcp_call_fail(c, MCP_CAPABILITY_MISSING, json_pack("{so}", "requiredCapabilities", needs),
		      "the client did not declare the capability %s", capability);
}

/* ---- asking ---- */

static struct mcp_question *find_question(const struct mcp_call_private *p, const char *key)
{
	struct mcp_question *q;

	TAILQ_FOREACH (q, &p->questions, entry)
		if (strcmp(q->key, key) == 0)
			return q;
	return NULL;
}

void mcp_call_question(struct mcp_call *c, const char *key, const char *method, json_t *params)
{
	struct mcp_question *q = mem_zalloc(1, sizeof(*q));

	snprintf(q->key, sizeof(q->key), "%s", key);
	q->method = method;
	q->params = params;
	TAILQ_INSERT_TAIL(&c->priv->questions, q, entry);
}

void mcp_call_clear_answers(struct mcp_call *c)
{
	json_decref(c->priv->responses);
	c->priv->responses = NULL;
}

json_t *mcp_call_answer(const struct mcp_call *c, const char *key)
{
	const struct mcp_question *q = find_question(c->priv, key);

	return q ? q->answer : NULL;
}

bool mcp_call_dismissed_unread(const struct mcp_call *c, const char *key)
{
	const struct mcp_question *q = find_question(c->priv, key);
	const char *action = q ? json_get_string(q->answer, "action") : NULL;
	int64_t ms;

	if (!action || strcmp(action, "accept") == 0)
		return false;
	if (q->asked_ns)
		ms = (int64_t)((clock_boot_ns() - q->asked_ns) / 1000000);
	else
		ms = (int64_t)(clock_real_us() / 1000) - json_integer_value(json_object_get(c->kept, ASKED_MS));
	return ms < (int64_t)c->mcp->o.config->human_ms;
}

/* The client's result is a valid answer to this question. */
static bool fits_question(const struct mcp_question *q, const json_t *answer)
{
	const char *action = json_get_string(answer, "action");
	struct err e = ERR_INIT;

	if (!json_is_object(answer))
		return false;
	if (strcmp(q->method, "roots/list") == 0)
		return json_is_array(json_object_get(answer, "roots"));
	if (strcmp(q->method, "sampling/createMessage") == 0)
		return json_is_string(json_object_get(answer, "role")) && json_object_get(answer, "content");
	if (!action ||
	    (strcmp(action, "accept") != 0 && strcmp(action, "decline") != 0 && strcmp(action, "cancel") != 0))
		return false;
	if (strcmp(action, "accept") != 0)
		return true;
	return json_is_object(json_object_get(answer, "content")) &&
	       json_schema_check(json_object_get(q->params, "requestedSchema"), json_object_get(answer, "content"),
				 &e) == 0;
}

static bool all_answered(const struct mcp_call_private *p)
{
	const struct mcp_question *q;

	TAILQ_FOREACH (q, &p->questions, entry)
		if (q->number)
			return false;
	return true;
}

static void resume_call(struct mcp_call_private *p)
{
	mcp_call_fn fn = p->answered;

	if (!fn || !all_answered(p))
		return;
	p->answered = NULL;
	p->ran_ns = clock_boot_ns();
	if (p->asking)
		event_del(&p->ask_timer);
	fn(&p->call);
}

static void on_ask_timer(evutil_socket_t fd, short what, void *arg)
{
	struct mcp_call_private *p = arg;
	struct mcp_question *q;

	TAILQ_FOREACH (q, &p->questions, entry)
		q->number = 0; /* late answers are ignored */
	resume_call(p);
}

/* Fires from the loop, as if an answer had arrived: handlers are never called from inside their own calls. */
static void set_ask_timer(struct mcp_call_private *p, unsigned ms)
{
	const struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	if (!p->asking)
		evtimer_assign(&p->ask_timer, p->call.mcp->o.base, on_ask_timer, p);
	p->asking = true;
	loop_add(&p->ask_timer, &tv);
}

static unsigned ask_timeout_ms(const struct mcp_call_private *p)
{
	if (p->ask_ms)
		return p->ask_ms;
	return p->call.mcp->o.config->ask_ms ? p->call.mcp->o.config->ask_ms : ASK_MS;
}

static void ask_legacy(struct mcp_call_private *p)
{
	struct mcp_session *m = p->call.mcp;
	struct mcp_question *q;

	TAILQ_FOREACH (q, &p->questions, entry) {
		if (q->answer || q->number)
			continue;
		q->number = ++m->next_question;
		q->asked_ns = clock_boot_ns();
		mem_auto char *text = mem_printf("bailiff-%llu", (unsigned long long)q->number);
		json_auto_t *id = json_string(text);
		json_t *params = json_copy(q->params);
		if (!mcp_version_at_least(p->version, "2025-11-25"))
			json_object_del(params, "mode"); /* older versions have only one mode */
		if (p->task)
			json_object_set_new(params, "_meta",
					    json_pack("{s{ss}}", MCP_META "related-task", "taskId", p->task_id));
		mcp_send(m, p->stream, rpc_message_request(RPC_VERSIONED, id, q->method, params), false);
	}
	if (p->task)
		p->call.mcp->call_ops->task_asks(p->task);
	set_ask_timer(p, ask_timeout_ms(p));
}

/* 1: a response is invalid, and the call has failed. */
static int read_responses(struct mcp_call_private *p, bool *ret_all)
{
	struct mcp_question *q;

	*ret_all = true;
	TAILQ_FOREACH (q, &p->questions, entry) {
		json_t *answer = json_object_get(p->responses, q->key);

		if (answer && !fits_question(q, answer)) {
			mcp_call_fail(&p->call, RPC_INVALID_PARAMS, NULL,
				      "inputResponses.%s: does not match the question", q->key);
			return 1;
		}
		if (answer && !q->answer)
			q->answer = json_incref(answer);
		*ret_all = *ret_all && q->answer;
	}
	return 0;
}

void mcp_call_ask(struct mcp_call *c, json_t *keep, mcp_call_fn answered)
{
	struct mcp_call_private *p = c->priv;
	json_auto_t *kept = keep ? keep : json_object();
	bool all;

	p->answered = answered;
	p->ran_ns = clock_boot_ns();
	if (p->era == MCP_LEGACY)
		return ask_legacy(p);
	if (read_responses(p, &all))
		return;
	if (all)
		set_ask_timer(p, 0);
	else if (p->task) {
		/* The client finds the questions in the task, and answers with tasks/update. */
		struct mcp_question *q;

		TAILQ_FOREACH (q, &p->questions, entry)
			if (!q->answer) {
				q->number = ++p->call.mcp->next_question;
				q->asked_ns = clock_boot_ns();
			}
		p->call.mcp->call_ops->task_asks(p->task);
		set_ask_timer(p, ask_timeout_ms(p));
	} else {
		json_t *requests = json_object();
		struct mcp_question *q;
		const struct mcp_request_state s = {
			.key = p->call.mcp->o.config->key,
			.method = p->method->name,
			.params = p->call.params,
			.principal = p->call.mcp->principal,
			.now_s = clock_real_us() / 1000000,
		};

		TAILQ_FOREACH (q, &p->questions, entry)
			if (!q->answer)
				json_object_set_new(requests, q->key,
						    json_pack("{ss sO}", "method", q->method, "params", q->params));
		if (p->root)
			json_object_set_new(kept, MCP_ROOT, json_string(p->root));
		json_object_set_new(kept, ASKED_MS, json_integer((json_int_t)(clock_real_us() / 1000)));
		mem_auto char *state = mcp_request_state_sign(&s, kept);
		mcp_call_finish(&p->call, json_pack("{ss so ss}", "resultType", "input_required", "inputRequests",
						    requests, "requestState", state));
	}
}

void mcp_question_update(struct mcp_call_private *p, json_t *responses)
{
	struct mcp_question *q;

	TAILQ_FOREACH (q, &p->questions, entry) {
		json_t *answer = json_object_get(responses, q->key);

		if (!q->number || !answer || !fits_question(q, answer))
			continue; /* not asked, or not a valid answer: ignore it */
		q->number = 0;
		q->answer = json_incref(answer);
	}
	p->call.mcp->call_ops->task_asks(p->task);
	resume_call(p);
}

/* ---- answers ---- */

void mcp_question_response(struct mcp_session *m, const json_t *id, json_t *result, json_t *error)
{
	const char *text = json_string_value(id);
	unsigned long long number = text && strncmp(text, "bailiff-", 8) == 0 ? strtoull(text + 8, NULL, 10) : 0;
	struct mcp_call_private *p;
	struct mcp_question *q;

	TAILQ_FOREACH (p, &m->calls, entry)
		TAILQ_FOREACH (q, &p->questions, entry) {
			if (!number || q->number != number)
				continue;
			q->number = 0;
			if (!error && fits_question(q, result))
				q->answer = json_incref(result);
			if (p->task)
				p->call.mcp->call_ops->task_asks(p->task);
			resume_call(p);
			return;
		}
}

void mcp_question_done(struct mcp_call_private *p)
{
	struct mcp_question *q;

	if (p->asking)
		event_del(&p->ask_timer);
	while ((q = TAILQ_FIRST(&p->questions))) {
		TAILQ_REMOVE(&p->questions, q, entry);
		if (q->number && p->era == MCP_LEGACY && !p->call.mcp->left) {
			mem_auto char *id = mem_printf("bailiff-%llu", (unsigned long long)q->number);
			mcp_send(p->call.mcp, p->stream,
				 rpc_message_notification(
					 RPC_VERSIONED, "notifications/cancelled",
					 json_pack("{ss ss}", "requestId", id, "reason", "no longer needed")),
				 false);
		}
		json_decref(q->params);
		json_decref(q->answer);
		free(q);
	}
}

/* ---- approval ---- */

/*
 * Clients show a choice and a button "Accept" that sends it. There is no default value: a user who presses the button
 * without reading must not deny what the question offers to allow, and a client that preselects the first choice then
 * does what the button says. In a session that several clients share, one user's yes must not apply to the others, so
 * "for this session" is not offered.
 */
static json_t *decision_schema(const struct mcp_session *m)
{
	json_t *words = m->o.shared ? json_pack("[ss]", "allow_once", "deny")
				    : json_pack("[sss]", "allow_once", "allow_session", "deny");
	json_t *names = m->o.shared ? json_pack("[ss]", "Allow once", "Deny")
				    : json_pack("[sss]", "Allow once", "Allow for this session", "Deny");

	return json_pack("{ss s{s{ss ss so so}} s[s]}", "type", "object", "properties", "decision", "type", "string",
			 "title", "Decision", "enum", words, "enumNames", names, "required", "decision");
}

static void finish_approval(struct mcp_call *c, enum mcp_approval a)
{
	struct mcp_call_private *p = c->priv;

	p->asks_permission = false;
	p->approved(c, a);
}

static void on_actions(struct mcp_call *c, json_t *result, json_t *error)
{
	const json_t *ours = json_object_get(c->priv->approving, "actionId"), *one;
	size_t i;

	json_array_foreach (json_object_get(result, "actions"), i, one) {
		const char *status = json_get_string(one, "status");
		const char *decision = json_get_string(one, "decision");

		if (!json_equal(json_object_get(one, "actionId"), ours))
			continue;
		if (status && strcmp(status, "pending") != 0)
			return finish_approval(c,
					       decision && strcmp(decision, "allow") == 0 ? MCP_ALLOWED : MCP_DENIED);
	}
	finish_approval(c, MCP_WAITS);
}

/*
 * The client was not asked, another approver was faster, or this user may not answer: use the action's current state.
 */
static void query_actions(struct mcp_call *c)
{
	mcp_call_query(c, "list_actions", json_pack("{ss si}", "sessionId", gateway_session_id(c->up), "limit", 1000),
		       on_actions);
}

static void on_decided(struct mcp_call *c, json_t *result, json_t *error)
{
	if (error)
		query_actions(c);
	else
		finish_approval(c, c->priv->allowing ? MCP_ALLOWED : MCP_DENIED);
}

/* An operator answered while the client's user is being asked: withdraw the question. */
bool mcp_question_event(struct mcp_call_private *p, struct jval event)
{
	const char *action = json_get_string(p->approving, "actionId");

	if (!p->asks_permission || !p->answered || !action ||
	    !jval_is_str(jval_get(event, "type"), "action.resolved") ||
	    !jval_is_str(jval_get(event, "actionId"), action))
		return false;
	p->answered = NULL;
	p->ran_ns = clock_boot_ns();
	mcp_question_done(p);
	if (p->task)
		p->call.mcp->call_ops->task_asks(p->task);
	finish_approval(&p->call,
			jval_is_str(jval_path(event, "payload.decision"), "allow") ? MCP_ALLOWED : MCP_DENIED);
	return true;
}

static void on_decision(struct mcp_call *c)
{
	struct mcp_call_private *p = c->priv;
	const json_t *answer = mcp_call_answer(c, "approve");
	const char *action = json_get_string(answer, "action");
	const char *word = json_string_value(json_object_get(json_object_get(answer, "content"), "decision"));

	/*
	 * A client without a user dismisses immediately what it cannot show. The question stays open, and others can
	 * answer it.
	 */
	if (!answer || mcp_call_dismissed_unread(c, "approve"))
		return query_actions(c);
	p->allowing = strcmp(action, "accept") == 0 && word && strncmp(word, "allow", 5) == 0;
	bool session = p->allowing && strcmp(word, "allow_session") == 0;
	mcp_call_decide(
		c, "respond_action",
		json_pack("{sO ss ss ss}", "actionId", json_object_get(p->approving, "actionId"), "decision",
			  p->allowing ? "allow" : "deny", "scope", session ? "session" : "once", "note",
			  strcmp(action, "accept") == 0 ? "answered through the client" : "dismissed in the client"),
		on_decided);
}

void mcp_call_approve(struct mcp_call *c, const json_t *started, const char *question,
		      void (*fn)(struct mcp_call *c, enum mcp_approval a))
{
	struct mcp_call_private *p = c->priv;
	buf_auto struct buf shown = BUF_INIT;
	json_t *keep = json_pack("{s{sO sO}}", "approving", "processId", json_object_get(started, "processId"),
				 "actionId", json_object_get(started, "actionId"));

	if (!mcp_call_approving(c))
		mcp_call_clear_answers(c);
	p->approved = fn;
	json_decref(p->approving);
	p->approving = json_incref(json_object_get(keep, "approving"));
	if (!mcp_call_can(c, "elicitation.form")) {
		json_decref(keep);
		fn(c, MCP_WAITS);
		return;
	}
	/* An approver sees this text: it must not be able to disguise itself. */
	text_sanitize(question, strlen(question), &shown);
	p->asks_permission = true;
	mcp_call_question(c, "approve", "elicitation/create",
			  json_pack("{ss so so}", "mode", "form", "message",
				    rpc_message_text(buf_cstr(&shown), shown.len), "requestedSchema",
				    decision_schema(c->mcp)));
	mcp_call_ask(c, keep, on_decision);
}

const json_t *mcp_call_approving(const struct mcp_call *c) { return json_object_get(c->kept, "approving"); }

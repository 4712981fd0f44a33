/*
 * Questions of a turn, asked through the editor. Each is a request to the editor; its answer becomes respond_action in
 * the name of the person (gateway_session_answer). Only an option that was offered counts as an answer. Everything
 * else, a dismissed dialog or an editor that cannot ask, denies.
 *
 * A question that another client answers first, or whose turn ends, is withdrawn.
 */

#include "supervisor/gateway/acp/acp_private.h"

#include "runtime/base/buf.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <stdio.h>
#include <string.h>

#define ASKED_MAX 3 /* times, if answers are not accepted */

struct acp_question {
	TAILQ_ENTRY(acp_question) entry;
	struct acp_session *session;
	uint64_t number; /* 0: answered, the daemon has not replied yet */
	char action_id[ACP_ID_MAX];
	json_t *options; /* optionId: what respond_action gets for it; NULL: a form */
	json_t *event;   /* action.required */
	unsigned asked;
};

static void question_free(struct acp_question *q)
{
	if (q->session->up)
		gateway_session_cancel_callbacks(q->session->up, q);
	TAILQ_REMOVE(&q->session->questions, q, entry);
	json_decref(q->options);
	json_decref(q->event);
	free(q);
}

/* ---- answers ---- */

static void ask(struct acp_question *q);
static void decide(struct acp_question *q, json_t *decision);
static json_t *refusal(const char *note) { return json_pack("{ss ss}", "decision", "deny", "note", note); }

/* An answer that is not accepted leaves the turn waiting: asks again, and in the end denies. */
static void on_decided(void *ctx, json_t *result, json_t *error)
{
	struct acp_question *q = ctx;
	const char *category = json_get_text(json_object_get(error, "data"), "category");

	/* Answered by another client meanwhile, or over: there is nothing left to ask. */
	if (!error || q->asked > ASKED_MAX || strcmp(category, "conflict") == 0 || strcmp(category, "not_found") == 0) {
		question_free(q);
		return;
	}
	mem_auto char *text = mem_printf("\n\n*(The answer was not accepted: %s)*\n\n",
					 json_get_text(error, "message"));

	acp_message_text(q->session, "agent_message_chunk", text, strlen(text), NULL);
	if (q->asked < ASKED_MAX)
		return ask(q);
	q->asked++;
	decide(q, refusal("no answer in the editor was accepted"));
}

/* Takes ownership of `decision`: {decision, scope, payload, note}. */
static void decide(struct acp_question *q, json_t *decision)
{
	q->number = 0;
	json_object_set_new(decision, "actionId", json_string(q->action_id));
	gateway_session_answer(q->session->up, "respond_action", decision, on_decided, q);
}

static json_t *read_outcome(const struct acp_question *q, const json_t *result)
{
	const json_t *outcome = json_object_get(result, "outcome");
	const char *option = json_get_string(outcome, "optionId");
	json_t *decision = option && json_text_is(outcome, "outcome", "selected") ? json_object_get(q->options, option)
										  : NULL;

	return decision ? json_deep_copy(decision) : refusal("dismissed in the editor");
}

static json_t *read_form(const json_t *result)
{
	const json_t *answer = json_object_get(json_object_get(result, "content"), "answer");

	if (!json_text_is(result, "action", "accept") || !json_string_length(answer))
		return refusal("declined in the editor");
	return json_pack("{ss s{sO}}", "decision", "answer", "payload", "answer", (json_t *)(uintptr_t)answer);
}

static struct acp_question *find_question(const struct acp_server *s, uint64_t number)
{
	struct acp_session *session;
	struct acp_question *q;

	TAILQ_FOREACH (session, &s->sessions, entry)
		TAILQ_FOREACH (q, &session->questions, entry)
			if (number && q->number == number)
				return q;
	return NULL;
}

void acp_question_response(struct acp_server *s, uint64_t number, const json_t *result, const json_t *error)
{
	struct acp_question *q = find_question(s, number);

	if (!q)
		return; /* withdrawn, or never asked */
	if (q->session->cancelled) {
		question_free(q); /* the end of the turn ends the question */
		return;
	}
	if (error)
		decide(q, refusal("the editor could not ask"));
	else
		decide(q, q->options ? read_outcome(q, result) : read_form(result));
}

/* ---- asking ---- */

/* Takes ownership of `decision`. */
static void add_option(struct acp_question *q, json_t *list, const char *id, const char *name, const char *kind,
		       json_t *decision)
{
	buf_auto struct buf shown = BUF_INIT;

	text_sanitize_line(name, strlen(name), &shown);
	json_array_append_new(list, json_pack("{ss so ss}", "optionId", id, "name",
					      rpc_message_text(buf_cstr(&shown), shown.len), "kind", kind));
	json_object_set_new(q->options, id, decision);
}

static json_t *allowance(const char *scope)
{
	return json_pack("{ss ss ss}", "decision", "allow", "scope", scope, "note", "answered in the editor");
}

static json_t *permission_options(struct acp_question *q, const json_t *payload)
{
	json_t *list = json_array();

	add_option(q, list, "allow_once", "Allow once", "allow_once", allowance("once"));
	if (json_text_is(payload, "actionType", "permission"))
		add_option(q, list, "allow_session", "Allow for this session", "allow_always", allowance("session"));
	if (json_object_get(json_object_get(payload, "continuation"), "always"))
		add_option(q, list, "allow_always", "Always allow (saved in the policy)", "allow_always",
			   allowance("always"));
	add_option(q, list, "reject_once", "Deny", "reject_once", refusal("denied in the editor"));
	return list;
}

/* The answers that the model offers; NULL if it offers none. */
static json_t *choice_options(struct acp_question *q, const json_t *payload)
{
	const json_t *property = json_object_get(json_object_get(json_object_get(payload, "schema"), "properties"),
						 "answer");
	const json_t *choices = json_object_get(property, "examples"), *choice;
	json_t *list = json_array();
	size_t i;

	json_array_foreach (choices, i, choice) {
		mem_auto char *id = mem_printf("choice_%zu", i + 1);

		if (json_is_string(choice))
			add_option(q, list, id, json_string_value(choice), "allow_once",
				   json_pack("{ss s{sO}}", "decision", "answer", "payload", "answer",
					     (json_t *)(uintptr_t)choice));
	}
	add_option(q, list, "decline", "Decline to answer", "reject_once", refusal("declined in the editor"));
	return list;
}

/*
 * Takes ownership of `options`. The title is all that some editors show. What is known of the call stays visible:
 * the approver of an edit has to see the diff.
 */
static void ask_options(struct acp_question *q, const json_t *event, const struct buf *prompt, json_t *options)
{
	const char *call = json_get_string(event, "toolCallId");
	json_t *content = json_deep_copy(
		json_object_get(json_object_get(q->session->calls, call ? call : ""), "content"));

	content = content ? content : json_array();
	json_array_append_new(content, acp_content_text(prompt->data, prompt->len));
	json_t *about = json_pack("{ss so ss so}", "toolCallId", call ? call : q->action_id, "title",
				  rpc_message_text(prompt->data, prompt->len), "status", "pending", "content", content);

	q->number = acp_request(
		q->session->server, "session/request_permission",
		json_pack("{ss so so}", "sessionId", q->session->id, "toolCall", about, "options", options));
}

static void ask_form(struct acp_question *q, const json_t *event, const struct buf *prompt)
{
	json_t *params = json_pack("{ss ss so s{ss s{s{ss ss}} s[s]}}", "sessionId", q->session->id, "mode", "form",
				   "message", rpc_message_text(prompt->data, prompt->len), "requestedSchema", "type",
				   "object", "properties", "answer", "type", "string", "title", "Answer", "required",
				   "answer");

	if (json_get_string(event, "toolCallId"))
		json_object_set(params, "toolCallId", json_object_get(event, "toolCallId"));
	q->number = acp_request(q->session->server, "elicitation/create", params);
}

static void ask(struct acp_question *q)
{
	const json_t *event = q->event, *payload = json_object_get(event, "payload");
	const char *text = json_get_text(payload, "prompt");
	struct acp_session *s = q->session;
	buf_auto struct buf prompt = BUF_INIT;
	json_t *options;

	q->asked++;
	json_decref(mem_take(&q->options));
	/* An approver reads it: it must not be able to disguise itself. */
	text_sanitize(text, strlen(text), &prompt);
	buf_cstr(&prompt);
	if (json_text_is(payload, "actionType", "input") && s->server->forms)
		return ask_form(q, event, &prompt);
	q->options = json_object();
	if (!json_text_is(payload, "actionType", "input"))
		return ask_options(q, event, &prompt, permission_options(q, payload));
	options = choice_options(q, payload);
	if (json_array_size(options) > 1)
		return ask_options(q, event, &prompt, options);
	json_decref(options);
	acp_message_text(s, "agent_message_chunk", prompt.data, prompt.len, NULL);
	q->asked = ASKED_MAX;
	decide(q, refusal("the editor cannot ask for text; the user can answer with the next prompt"));
}

void acp_question_ask(struct acp_session *s, const json_t *event)
{
	struct acp_question *q = mem_zalloc(1, sizeof(*q));

	q->session = s;
	q->event = json_deep_copy(event);
	snprintf(q->action_id, sizeof(q->action_id), "%s", json_get_text(event, "actionId"));
	TAILQ_INSERT_TAIL(&s->questions, q, entry);
	ask(q);
}

/* ---- withdrawing ---- */

static void withdraw(struct acp_question *q)
{
	struct acp_server *server = q->session->server;

	if (q->number)
		server->ops.send(server->ctx,
				 rpc_message_notification(RPC_VERSIONED, "$/cancel_request",
							  json_pack("{so}", "requestId", acp_request_id(q->number))));
	question_free(q);
}

void acp_question_withdraw(struct acp_session *s, const char *action_id)
{
	struct acp_question *q;

	TAILQ_FOREACH (q, &s->questions, entry)
		if (q->number && strcmp(q->action_id, action_id) == 0) {
			withdraw(q);
			return;
		}
}

void acp_question_withdraw_all(struct acp_session *s)
{
	struct acp_question *q;

	while ((q = TAILQ_FIRST(&s->questions)))
		withdraw(q);
}

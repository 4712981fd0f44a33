/*
 * session/load: reads the events of the session from the log, page by page, and applies them in order, as if they
 * happened now. Only turns of the loop are shown: a session may have others. The request is answered when everything
 * was sent, as the protocol requires.
 *
 * The text of a prompt, and long arguments of a tool, are behind refs. The replay waits for each of them, so that the
 * order stays.
 */

#include "supervisor/gateway/acp/acp_private.h"

#include "runtime/base/json_get.h"

#include <string.h>

#define PAGE 1000
#define INPUT_MAX (1 << 20)

static void read_page(struct acp_session *s);

static void show_prompt(struct acp_session *s, const json_t *parts)
{
	const json_t *part;
	size_t i;

	json_array_foreach (parts, i, part) {
		const char *text = json_get_text(part, "text");

		if (json_text_is(part, "type", "text"))
			acp_message_text(s, "user_message_chunk", text, strlen(text), NULL);
		else if (json_text_is(part, "type", "image"))
			acp_message_text(s, "user_message_chunk", "\n(an image)", strlen("\n(an image)"), NULL);
	}
}

static void on_input(void *ctx, json_t *result, json_t *error)
{
	struct acp_session *s = ctx;
	json_auto_t *stored = json_loads(json_get_text(result, "data"), 0, NULL);

	if (error)
		return s->ops->open_failed(s, "read a prompt of the session", error);
	if (stored)
		show_prompt(s, json_object_get(stored, "input"));
	else
		acp_message_text(s, "user_message_chunk", "(a long prompt)", strlen("(a long prompt)"), NULL);
	s->reading = false;
	acp_replay_continue(s);
}

/* True: a prompt of the loop, which is now being read. */
static bool begins_turn(struct acp_session *s, const json_t *event)
{
	const json_t *payload = json_object_get(event, "payload");
	const char *ref = json_get_string(payload, "inputRef");

	if (!json_text_is(event, "type", "turn.submitted") || !json_text_is(payload, "driver", "loop") || !ref ||
	    json_get_string(event, "toolCallId")) /* a subagent's */
		return false;
	json_object_set_new(s->replayed, json_get_text(event, "turnId"), json_true());
	s->reading = true;
	gateway_session_query(s->up, "read_output",
			      json_pack("{ss si ss}", "outputRef", ref, "length", INPUT_MAX, "encoding", "utf8"),
			      on_input, s);
	return true;
}

static bool waits(const struct acp_session *s) { return s->reading || !TAILQ_EMPTY(&s->args); }

void acp_replay_continue(struct acp_session *s)
{
	if (s->opening != ACP_LOAD)
		return;
	while (!waits(s) && s->at < json_array_size(s->page)) {
		const json_t *event = json_array_get(s->page, s->at++);

		if (begins_turn(s, event))
			continue;
		if (json_object_get(s->replayed, json_get_text(event, "turnId")))
			acp_update_event(s, event);
		else
			acp_update_other(s, event);
	}
	if (waits(s))
		return;
	if (!s->last_page)
		return read_page(s);
	json_decref(s->page);
	json_decref(s->replayed);
	s->page = s->replayed = NULL;
	s->ops->opened(s);
}

static void on_page(void *ctx, json_t *result, json_t *error)
{
	struct acp_session *s = ctx;
	const json_t *events = json_object_get(result, "events");
	size_t n = json_array_size(events);

	if (error)
		return s->ops->open_failed(s, "read the session", error);
	json_decref(s->page);
	s->page = json_deep_copy(events);
	s->at = 0;
	s->last_page = !n || !json_get_flag(result, "hasMore");
	if (n)
		s->after = json_integer_value(json_object_get(json_array_get(events, n - 1), "sequence"));
	acp_replay_continue(s);
}

static void read_page(struct acp_session *s)
{
	json_t *params = json_pack("{ss si so}", "sessionId", s->id, "limit", PAGE, "types", acp_update_types());

	if (s->after) /* otherwise from the oldest event kept */
		json_object_set_new(params, "afterSequence", json_integer(s->after));
	gateway_session_query(s->up, "list_events", params, on_page, s);
}

void acp_replay_start(struct acp_session *s)
{
	s->replayed = json_object();
	s->after = 0;
	acp_update_reset(s);
	read_page(s);
}

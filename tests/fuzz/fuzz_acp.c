/*
 * Any lines from an editor, through the whole protocol, with a fake daemon that answers every request with a valid
 * result, an error, or nonsense, as the input's first byte determines. Lines that begin with "!" are events of the
 * daemon instead. Whatever the input, all output is complete JSON-RPC, and nothing is left when the editor disconnects.
 */

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/acp/acp_server.h"
#include "supervisor/gateway/common/rpc_message.h"
#define FAKE_SESSION_NO_ANSWERS 0
#include "tests/fuzz/fake_session.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ANSWERS_MAX 64 /* for each line: endless requests are cut off */

/* ---- a daemon ---- */

static json_t *answer_to(const char *method)
{
	if (mood & 1)
		return NULL;
	if (mood & 2)
		return json_pack("{s[{}] si}", "events", "mode", 7);
	if (strcmp(method, "submit_turn") == 0)
		return json_pack("{ss}", "turnId", "turn_1");
	if (strcmp(method, "get_policy") == 0)
		return json_pack("{ss sb}", "mode", "default", "bypassPermitted", mood & 4);
	if (strcmp(method, "read_output") == 0)
		return json_pack("{ss ss}", "data",
				 mood & 8 ? "{\"input\":[{\"type\":\"text\",\"text\":\"hello\"}]}"
					  : "{\"path\":\"a\",\"patch\":\"*** Begin Patch\\n*** Add File: a\\n+x\\n\"}",
				 "encoding", "utf8");
	if (strcmp(method, "list_events") == 0)
		return json_pack("{s[{sI ss ss s{ss ss}} {sI ss ss s{ss}}] sb}", "events", "sequence", (json_int_t)3,
				 "type", "turn.submitted", "turnId", "turn_0", "payload", "driver", "loop", "inputRef",
				 "out_1", "sequence", (json_int_t)4, "type", "model.delta", "turnId", "turn_0",
				 "payload", "text", "hi", "hasMore", mood & 16);
	return json_pack("{ss}", "status", "ok");
}

static void answer_all(void)
{
	json_auto_t *error = json_pack("{si ss s{ss}}", "code", -32014, "message", "no", "data", "category", "x");

	for (size_t n = 0; n < ANSWERS_MAX; n++) {
		struct request *q = fake_session_take();

		if (!q)
			return;
		json_auto_t *result = answer_to(q->method);
		if (q->fn)
			q->fn(q->ctx, result, result ? NULL : error);
		free(q);
	}
}

/* ---- an editor ---- */

static void on_send(void *ctx, json_t *message)
{
	const json_t *id = json_object_get(message, "id"), *method = json_object_get(message, "method");
	buf_auto struct buf line = BUF_INIT;

	if (!json_is_object(message) || (!id && !method) ||
	    (!method && !json_object_get(message, "result") == !json_object_get(message, "error")))
		abort();
	if (method && !json_is_object(json_object_get(message, "params")))
		abort();
	rpc_message_write(message, true, &line);
	if (line.len < 3 || memchr(line.data, '\n', line.len - 1))
		abort();
	json_decref(message);
}

static bool on_lags(void *ctx) { return mood & 32; }

static void feed_line(struct acp_server *s, const char *p, size_t n)
{
	if (n && *p == '!') {
		if (up && up->ready)
			up->ops.event(up->ctx, jval_of(p + 1, n - 1));
	} else {
		acp_server_feed(s, p, n);
	}
	if (up && !up->ready) {
		up->ready = true;
		up->ops.ready(up->ctx, NULL);
	}
	answer_all();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct acp_server_ops ops = { .send = on_send, .lags = on_lags };
	const struct acp_options o = { 0 };
	const char *p = (const char *)data, *end = p + size;
	static struct event_base *base; /* a new one takes longer than most inputs */

	if (!size)
		return 0;
	if (!base)
		base = event_base_new();
	mood = data[0];
	struct acp_server *s = acp_server_new(base, &o, &ops, NULL);
	for (p++; p < end;) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t n = nl ? (size_t)(nl - p) : (size_t)(end - p);
		mem_auto char *copy = mem_strndup(p, n);

		if (strlen(copy) == n)
			feed_line(s, copy, n);
		p += n + 1;
	}
	acp_server_free(s);
	if (up)
		abort();
	event_base_loop(base, EVLOOP_NONBLOCK);
	return 0;
}

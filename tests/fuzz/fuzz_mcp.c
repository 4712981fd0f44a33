/*
 * Any lines from a client that speaks MCP, through the whole protocol and the handlers of all tools, resources and
 * prompts, with a fake daemon that answers every request with a valid result, an error, or nonsense, as the input's
 * first byte determines. Whatever the input, all output is complete JSON-RPC, every request is answered at most once,
 * and nothing is left when the client disconnects.
 */

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_session.h"
#define FAKE_SESSION_NO_ANSWERS 0
#include "tests/conformance/mcp_fixtures.h"
#include "tests/fuzz/fake_session.h"

#include <event2/event.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- a daemon ---- */

static json_t *answer_to(const char *method)
{
	if (mood & 1)
		return NULL;
	if (mood & 2)
		return json_pack("{s[{}] si}", "processes", "status", 7);
	if (strcmp(method, "start_process") == 0)
		return json_pack("{ss ss ss sI}", "processId", "proc_1", "status",
				 mood & 4 ? "waiting_permission" : "running", "actionId", "act_1", "sequence",
				 (json_int_t)5);
	if (strcmp(method, "create_task") == 0)
		return json_pack("{ss}", "taskId", "task_1");
	if (strcmp(method, "read_output") == 0)
		return json_pack("{ss ss sI sI sb}", "data", "x", "encoding", "utf8", "offset", (json_int_t)0,
				 "nextOffset", (json_int_t)1, "eof", 1);
	return json_pack("{ss ss si s{s{ss sI}}}", "processId", "proc_1", "status", "completed", "exitCode", 0,
			 "outputs", "stdout", "outputRef", "out_1", "bytes", (json_int_t)1);
}

/* Answers a few requests; an answer may lead to more of them. */
static void pump(struct event_base *base)
{
	if (up && !up->ready) {
		up->ready = true;
		up->ops.ready(up->ctx, NULL);
	}
	struct request *q;
	for (int most = 100; most-- && (q = fake_session_take());) {
		json_auto_t *result = answer_to(q->method);
		json_auto_t *error = result ? NULL : json_pack("{si ss}", "code", -32004, "message", "no");

		if (q->fn)
			q->fn(q->ctx, result, error);
		free(q);
	}
	if (up && up->ops.event && !(mood & 8)) {
		static const char ended[] = "{\"sequence\":9,\"type\":\"process.completed\",\"processId\":\"proc_1\","
					    "\"payload\":{\"exitCode\":0}}";
		up->ops.event(up->ctx, jval_of(ended, sizeof(ended) - 1));
	}
	event_base_loop(base, EVLOOP_NONBLOCK);
}

/* ---- the client's side ---- */

static void on_send(void *ctx, void *stream, json_t *message, bool last)
{
	rpc_message_auto struct rpc_message m = { 0 };
	struct rpc_problem p = { 0 };
	buf_auto struct buf text = BUF_INIT;

	if (!message)
		return;
	rpc_message_write(message, true, &text);
	if (memchr(text.data, '\n', text.len) != text.data + text.len - 1)
		abort();
	/* An error about a message without a readable id has no id; everything else is complete. */
	bool bare = json_object_get(message, "error") && !json_object_get(message, "id");
	if (bare)
		json_decref(message);
	else if (rpc_message_of(message, RPC_VERSIONED, &m, &p) < 0)
		abort();
	if (!bare && last != (m.kind == RPC_RESPONSE))
		abort();
}

static void on_wake(void *ctx) {}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct mcp_config config;
	static struct event_base *base;

	if (!base) {
		base = event_base_new();
		mcp_tables_add(&mcp_fixtures);
		mcp_config_init(&config);
		memset(config.key, 7, sizeof(config.key));
		config.max_calls = 4;
	}
	if (size < 1)
		return 0;
	mood = data[0];
	const struct mcp_session_options o = {
		.base = base,
		.config = &config,
		.transport = "stdio",
		.principal = "p",
		.out = { .send = on_send, .wake = on_wake },
	};
	struct mcp_session *m = mcp_session_new(&o);
	for (const char *at = (const char *)data + 1, *end = (const char *)data + size;
	     at < end && !mcp_session_busy(m);) {
		const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
		json_t *message = json_loadb(at, (size_t)(stop - at), JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);

		if (message)
			mcp_session_feed(m, message, NULL, MCP_HINT_NONE);
		else
			mcp_session_bad(m, NULL, NULL, RPC_PARSE_ERROR, "bad");
		pump(base);
		at = stop + 1;
	}
	mcp_session_free(m);
	event_base_loop(base, EVLOOP_NONBLOCK);
	if (up)
		abort();
	return 0;
}

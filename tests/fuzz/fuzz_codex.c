/*
 * Any lines from a Codex client, through the whole protocol, with a fake daemon that answers every request with a valid
 * result, an error, or nonsense, as the input's first byte determines. Lines that begin with "!" are events of the
 * daemon instead. Whatever the input, all output is complete JSON-RPC, each request is answered at most once, and
 * nothing is left when the client disconnects.
 */

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/codex/codex_server.h"
#include "supervisor/gateway/codex/sandbox_intent.h"
#include "supervisor/gateway/common/rpc_message.h"
#define FAKE_SESSION_NO_ANSWERS 1 /* through Codex */
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
		return json_pack("{s[{}] si}", "processes", "status", 7);
	if (strcmp(method, "start_process") == 0)
		return json_pack("{ss ss ss si s{s{ss ss sI} s{ss ss}} s[{ssss}]}", "processId", "proc_1", "status",
				 mood & 4 ? "waiting_permission" : "completed", "actionId", "act_1", "exitCode",
				 mood & 8 ? 1 : 0, "output", "stdout", "data",
				 mood & 16 ? "x" : "{\"path\":\"/a\",\"entries\":[{}]}", "encoding", "utf8",
				 "totalBytes", (json_int_t)(mood & 32 ? 3 : 0), "stderr", "data",
				 "{\"errno\":2,\"message\":\"m\"}", "encoding", "utf8", "outputRefs", "stream",
				 "stdout", "outputRef", "out_1");
	if (strcmp(method, "get_sandbox") == 0)
		return json_pack("{sb s{s[s] s[ss] s[s] s[s] ss}}", "confined", 1, "sandboxProfile", "writeRoots", "/w",
				 "readRoots", "/", "/h/.cargo", "hidden", "/home", "private", "/h", "network", "none");
	if (strcmp(method, "list_channels") == 0)
		return json_pack("{s[{ss ss ss}]}", "channels", "channelId",
				 mood & 4 ? "chan_other" : gateway_session_channel_id(NULL), "status", "connected",
				 "nativeProtocol", "codex");
	if (strcmp(method, "list_events") == 0)
		return json_pack("{s[{sI ss ss s{ss}}] sb}", "events", "sequence", (json_int_t)3, "type",
				 "permission.evaluated", "processId", "proc_0", "payload", "justification",
				 "Codex call c in thread t, process p", "hasMore", 0);
	if (strcmp(method, "read_output") == 0)
		return json_pack("{ss ss}", "data", "eHh4", "encoding", "base64");
	return json_pack("{ss}", "status", "ok");
}

static void answer_all(void)
{
	json_auto_t *error = json_pack("{si ss s{ss si}}", "code", -32014, "message", "no", "data", "category",
				       mood & 64 ? "sandbox_failed" : "invalid_state", "errno", 2);

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

/* ---- a client ---- */

static void on_send(void *ctx, json_t *message)
{
	const json_t *id = json_object_get(message, "id"), *method = json_object_get(message, "method");
	buf_auto struct buf line = BUF_INIT;

	if (!id == !method || (id && !json_object_get(message, "result") == !json_object_get(message, "error")))
		abort();
	rpc_message_write(message, true, &line);
	if (line.len < 3 || memchr(line.data, '\n', line.len - 1))
		abort();
	json_decref(message);
}

static bool on_flushed(void *ctx) { return !(mood & 128); }

static void on_wake(void *ctx) {}

static void on_lost(void *ctx, const struct err *e) {}

static void line(struct codex_server *s, const char *p, size_t n)
{
	if (n && *p == '!') {
		if (up && up->ready)
			up->ops.event(up->ctx, jval_of(p + 1, n - 1));
		return;
	}
	codex_server_feed(s, p, n);
	if (up && !up->ready) {
		up->ready = true;
		up->ops.ready(up->ctx, NULL);
	}
	answer_all();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct codex_server_ops ops = {
		.send = on_send, .flushed = on_flushed, .wake = on_wake, .lost = on_lost
	};
	const struct codex_options o = { .approval_ms = 1000, .reaper_fd = -1 };
	const char *p = (const char *)data, *end = p + size;
	static struct event_base *base; /* a new one takes longer than most inputs */

	if (!size)
		return 0;
	if (!base)
		base = event_base_new();
	mood = data[0];
	struct codex_server *s = codex_server_new(base, &o, &ops, NULL);
	for (p++; p < end;) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t n = nl ? (size_t)(nl - p) : (size_t)(end - p);
		mem_auto char *copy = mem_strndup(p, n);

		if (strlen(copy) == n)
			line(s, copy, n);
		p += n + 1;
	}
	event_base_loop(base, EVLOOP_NONBLOCK);
	codex_server_free(s);
	if (up)
		abort();
	event_base_loop(base, EVLOOP_NONBLOCK);
	return 0;
}

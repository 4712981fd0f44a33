#include "supervisor/gateway/codex/codex_private.h"

#include "runtime/base/hash.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <string.h>

#define READ_MAX (8u << 20) /* limit of one response, regardless of maxBytes */
#define WRITES_KNOWN 4096u
#define PART_MAX (4u << 20) /* of a write: the daemon accepts messages of 16 MiB, and 8 MiB that wait for a process */
#define WAIT_MAX_MS (10u * 60 * 1000)

static bool is_category(const json_t *error, const char *category)
{
	const char *s = json_string_value(json_object_get(json_object_get(error, "data"), "category"));

	return s && strcmp(s, category) == 0;
}

/* An optional number, capped at `most`. False: the call has failed. */
static bool read_number(struct codex_call *c, const char *name, uint64_t otherwise, uint64_t most, uint64_t *ret)
{
	const json_t *v = json_object_get(c->params, name);
	bool given = v && !json_is_null(v);

	if (given && (!json_is_integer(v) || json_integer_value(v) < 0)) {
		codex_call_fail(c, RPC_INVALID_PARAMS, "invalid value: `%s` must be a number from 0 on", name);
		return false;
	}
	*ret = given ? (uint64_t)json_integer_value(v) : otherwise;
	if (*ret > most)
		*ret = most;
	return true;
}

/* ---- reading ---- */

static void reply_read(struct codex_call *c)
{
	const struct codex_process *p = c->process;
	bool all = c->at >= p->count;
	json_int_t next = (json_int_t)(all ? p->count + (p->end_sent ? 3 : 1) : c->at + 1);

	codex_call_reply(
		c, json_pack("{sO sI sb so sb so sb}", "chunks", c->chunks, "nextSeq", next, "exited", p->end_sent,
			     "exitCode", p->end_sent ? json_integer(p->exit_code) : json_null(), "closed", p->end_sent,
			     "failure",
			     p->end_sent && p->failure ? rpc_message_text(p->failure, strlen(p->failure)) : json_null(),
			     "sandboxDenied", p->end_sent && p->denied));
}

static void append_chunk(struct codex_call *c, const char *base64)
{
	const struct codex_chunk *k = &c->process->chunk[c->at++];

	json_array_append_new(c->chunks, json_pack("{sI ss ss}", "seq", (json_int_t)c->at, "stream",
						   codex_stream_name(k->stream), "chunk", base64));
	c->bytes += k->length;
}

static void read_step(struct codex_call *c);

static void on_chunk(void *ctx, json_t *result, json_t *error)
{
	struct codex_call *c = ctx;
	const char *data = json_get_string(result, "data");

	append_chunk(c, data ? data : "");
	read_step(c);
}

static void on_waited(struct codex_call *c)
{
	c->max_bytes = 0;
	c->late = NULL;
	if (c->waits) {
		TAILQ_REMOVE(&c->process->readers, c, waiting);
		c->waits = false;
	}
	reply_read(c);
}

/*
 * Collects chunks up to maxBytes, but at least one. With nothing to return, waits for output until waitMs has passed.
 */
static void read_step(struct codex_call *c)
{
	struct codex_process *p = c->process;
	bool any = json_array_size(c->chunks) > 0;

	if (c->at < p->count &&
	    (!any || (c->bytes < c->max_bytes && c->bytes + p->chunk[c->at].length <= c->max_bytes))) {
		const struct codex_chunk *k = &p->chunk[c->at];

		/* Few chunks have their bytes in memory (codex_process.c), so the recursion is shallow. */
		if (k->base64) {
			append_chunk(c, k->base64);
			read_step(c);
			return;
		}
		gateway_session_query(c->server->session, "read_output",
				      json_pack("{ss sI sI ss}", "outputRef", p->ref[k->stream], "offset",
						(json_int_t)k->offset, "length", (json_int_t)k->length, "encoding",
						"base64"),
				      on_chunk, c);
		return;
	}
	if (any || p->end_sent || !c->timed)
		return reply_read(c);
	c->resume = read_step;
	TAILQ_INSERT_TAIL(&p->readers, c, waiting);
	c->waits = true;
	codex_call_park(c);
}

void codex_process_read(struct codex_call *c)
{
	const char *name = codex_call_str(c, "processId");
	struct codex_process *p = name ? codex_process_of(c) : NULL;

	uint64_t after, wait, bytes;

	if (!name || !read_number(c, "afterSeq", 0, SIZE_MAX, &after) ||
	    !read_number(c, "waitMs", 0, WAIT_MAX_MS, &wait) || !read_number(c, "maxBytes", READ_MAX, READ_MAX, &bytes))
		return;
	if (!p || codex_process_starting(p))
		return codex_call_fail(c, RPC_INVALID_REQUEST,
				       p ? "process id %s is starting" : "unknown process id %s", name);
	codex_process_add_waiter(p, c);
	c->max_bytes = bytes;
	c->chunks = json_array();
	c->at = after < p->count ? (size_t)after : p->count;
	if (wait)
		codex_call_time(c, wait, on_waited);
	read_step(c);
}

/* ---- writing ---- */

static void reply_status(struct codex_call *c, const char *status)
{
	codex_call_reply(c, json_pack("{ss}", "status", status));
}

static void write_part(struct codex_call *c);

static void on_written(void *ctx, json_t *result, json_t *error)
{
	struct codex_call *c = ctx, *next;
	struct codex_process *p = c->process;

	/* conflict: an earlier gateway wrote it with other parameters */
	const bool accepted = !error || is_category(error, "conflict");
	if (accepted && c->sent < c->file.len)
		return write_part(c);
	if (c->queued)
		TAILQ_REMOVE(&p->writers, c, waiting);
	next = c->queued ? TAILQ_FIRST(&p->writers) : NULL;
	c->queued = false;
	if (!accepted)
		strmap_del(&p->writes, json_get_string(c->params, "writeId"));
	if (accepted)
		reply_status(c, "accepted");
	else if (is_category(error, "invalid_state") || is_category(error, "not_found"))
		reply_status(c, "stdinClosed");
	else
		codex_call_fail_daemon(c, error);
	if (next)
		write_part(next);
}

/*
 * A write that the client repeats because the response was lost must not be written twice. The idempotency key is
 * derived from the write's id, so the daemon also recognises writes of an earlier gateway of this session.
 */
static void write_part(struct codex_call *c)
{
	const struct codex_process *p = c->process;
	size_t n = c->file.len - c->sent < PART_MAX ? c->file.len - c->sent : PART_MAX;
	buf_auto struct buf name = BUF_INIT, text = BUF_INIT;
	char hash[HASH_SHA256_TEXT];

	buf_printf(&name, "%s %s", p->id, json_get_text(c->params, "writeId"));
	if (c->sent)
		buf_printf(&name, " from %zu", c->sent);
	hash_sha256_text(name.data, name.len, hash);
	mem_auto char *key = mem_printf("codex-write-%s", hash);
	text_base64_encode(c->file.data + c->sent, n, &text);
	c->sent += n;
	gateway_session_mutate(c->server->session, "write_process_stdin",
			       json_pack("{ss ss ss ss}", "processId", p->id, "data", buf_cstr(&text), "encoding",
					 "base64", "idempotencyKey", key),
			       c->trace[0] ? c->trace : NULL, on_written, c);
}

/* A long write, and those that come while it lasts, wait in a queue: its parts must stay together. */
static void begin_write(struct codex_call *c)
{
	struct codex_process *p = c->process;

	json_object_del(c->params, "chunk"); /* c->file has it */
	codex_call_park(c);
	c->queued = c->file.len > PART_MAX || !TAILQ_EMPTY(&p->writers);
	if (c->queued)
		TAILQ_INSERT_TAIL(&p->writers, c, waiting);
	if (!c->queued || TAILQ_FIRST(&p->writers) == c)
		write_part(c);
}

void codex_process_write(struct codex_call *c)
{
	const char *name = codex_call_str(c, "processId"), *chunk = name ? codex_call_str(c, "chunk") : NULL;
	const char *write = chunk ? codex_call_str(c, "writeId") : NULL;
	struct codex_process *p;

	if (!write)
		return;
	if (!*write)
		return codex_call_fail(c, RPC_INVALID_PARAMS, "writeId must not be empty");
	if (text_base64_decode(chunk, strlen(chunk), &c->file) < 0)
		return codex_call_fail(c, RPC_INVALID_PARAMS, "chunk is not base64");
	p = codex_process_of(c);
	if (!p || codex_process_starting(p) || !p->stdin_open)
		return reply_status(c, !p ? "unknownProcess" : codex_process_starting(p) ? "starting" : "stdinClosed");
	if (!c->file.len || strmap_get(&p->writes, write))
		return reply_status(c, "accepted");
	if (p->writes.count >= WRITES_KNOWN) {
		strmap_done(&p->writes);
		p->writes = STRMAP_INIT;
	}
	strmap_put(&p->writes, write, p);
	codex_process_add_waiter(p, c);
	begin_write(c);
}

/* ---- ending ---- */

static void on_signalled(void *ctx, json_t *result, json_t *error)
{
	struct codex_call *c = ctx;

	if (error && !is_category(error, "invalid_state") && !is_category(error, "not_found"))
		codex_call_fail_daemon(c, error);
	else
		codex_call_reply(c, json_object());
}

void codex_process_signal(struct codex_call *c)
{
	const char *name = codex_call_str(c, "processId"), *sig = name ? codex_call_str(c, "signal") : NULL;
	struct codex_process *p = sig ? codex_process_of(c) : NULL;

	if (!sig)
		return;
	if (strcmp(sig, "interrupt") != 0)
		return codex_call_fail(c, RPC_INVALID_PARAMS, "unknown variant `%.40s`, expected `interrupt`", sig);
	if (!p || codex_process_starting(p) || p->ended)
		return codex_call_reply(c, json_object());
	codex_process_add_waiter(p, c);
	gateway_session_mutate(c->server->session, "signal_process",
			       json_pack("{ss ss}", "processId", p->id, "signal", "INT"), c->trace[0] ? c->trace : NULL,
			       on_signalled, c);
}

/* A process that has already ended is reported as not running, not as an error. */
static void on_terminated(void *ctx, json_t *result, json_t *error)
{
	struct codex_call *c = ctx;

	if (!error)
		codex_call_reply(c, json_pack("{sb}", "running", 1));
	else if (is_category(error, "invalid_state") || is_category(error, "not_found"))
		codex_call_reply(c, json_pack("{sb}", "running", 0));
	else
		codex_call_fail_daemon(c, error);
}

static void end_process(struct codex_process *p, const char *trace, gateway_session_reply_fn fn, void *ctx)
{
	gateway_session_mutate(
		p->server->session, "terminate_process",
		json_pack("{ss ss ss}", "processId", p->id, "signal", "KILL", "reason", "Codex ended it"), trace, fn,
		ctx);
	if (p->start && p->start->asked)
		codex_call_fail(p->start, RPC_INVALID_REQUEST, "it was terminated before it was approved");
}

void codex_process_terminate(struct codex_call *c)
{
	const char *name = codex_call_str(c, "processId");
	struct codex_process *p = name ? codex_process_of(c) : NULL;

	if (!name)
		return;
	/* A process that is starting or waits for approval must not start after the client has terminated it. */
	if (p && !p->id[0])
		p->unwanted = true;
	if (!p || !p->id[0] || (p->ended && !p->has_left))
		return codex_call_reply(c, json_pack("{sb}", "running", 0));
	codex_process_add_waiter(p, c);
	end_process(p, c->trace[0] ? c->trace : NULL, on_terminated, c);
}

void codex_process_end(struct codex_process *p) { end_process(p, NULL, NULL, NULL); }

/*
 * A process as the client sees it. Its state is a fold over the session's events: permission.evaluated creates it and
 * connects the client's id with the daemon's, process.started has the output refs, each process.output becomes one or
 * more chunks, and the end event ends it. Replies of the daemon add nothing but the id, which may arrive before or
 * after the first event.
 *
 * Sequence numbers are positions in the list of chunks, so a chunk is never removed, only its bytes are: they are
 * dropped when they were sent, and read again from the spool if the client asks. How an event is split into chunks
 * depends on the event alone; a second gateway therefore counts the same numbers.
 *
 * A slow client costs little memory: at most UNSENT_MAX chunks of a process keep their bytes, and nothing is sent
 * before the previous message was written.
 */

#include "supervisor/gateway/codex/codex_private.h"

#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/loop/loop.h"

#include <ctype.h>
#include <string.h>

#define CHUNK_MAX (128u << 10)
#define UNSENT_MAX 64u /* chunks buffered for a slow client; later ones are read from the spool when it catches up */
#define KEPT_MAX 2048u /* above this, the oldest ended process is dropped */

static const char *const streams[CODEX_STREAMS] = { "stdout", "stderr", "pty" };

const char *codex_stream_name(unsigned stream) { return streams[stream]; }

static int stream_of(const json_t *name)
{
	for (int i = 0; json_is_string(name) && i < CODEX_STREAMS; i++)
		if (strcmp(json_string_value(name), streams[i]) == 0)
			return i;
	return -1;
}

/* ---- creation and removal ---- */

/* Only a process that was reported completely and that no call refers to can be dropped. */
static void forget_oldest(struct codex_server *s)
{
	struct codex_process *p;

	TAILQ_FOREACH (p, &s->processes, entry)
		if (p->end_sent && !p->users && !p->reading)
			return codex_process_free(p);
}

struct codex_process *codex_process_new(struct codex_server *s, const char *name)
{
	struct codex_process *p = mem_zalloc(1, sizeof(*p));

	if (s->nprocesses >= KEPT_MAX)
		forget_oldest(s);
	p->server = s;
	p->name = mem_strdup(name);
	TAILQ_INIT(&p->readers);
	TAILQ_INIT(&p->writers);
	TAILQ_INSERT_TAIL(&s->processes, p, entry);
	s->nprocesses++;
	strmap_put(&s->by_name, name, p);
	return p;
}

void codex_process_free(struct codex_process *p)
{
	struct codex_server *s = p->server;

	if (strmap_get(&s->by_name, p->name) == p)
		strmap_del(&s->by_name, p->name);
	if (p->id[0])
		strmap_del(&s->by_id, p->id);
	if (s->session)
		gateway_session_cancel_callbacks(s->session, p);
	TAILQ_REMOVE(&s->processes, p, entry);
	s->nprocesses--;
	for (size_t i = 0; i < p->count; i++)
		free(p->chunk[i].base64);
	free(p->chunk);
	free(p->failure);
	free(p->name);
	strmap_done(&p->writes);
	free(p);
}

void codex_process_bind(struct codex_process *p, const char *id)
{
	if (p->id[0] || !*id || strlen(id) >= sizeof(p->id))
		return;
	(void)snprintf(p->id, sizeof(p->id), "%s", id);
	strmap_put(&p->server->by_id, id, p);
}

void codex_process_add_waiter(struct codex_process *p, struct codex_call *c)
{
	c->process = p;
	p->users++;
}

struct codex_process *codex_process_of(struct codex_call *c)
{
	const char *name = json_get_string(c->params, "processId");

	return name ? strmap_get(&c->server->by_name, name) : NULL;
}

const char *codex_process_idle_thread(const struct codex_server *s, const char *thread)
{
	const char *ours = thread ? strmap_get(&s->threads, thread) : NULL;
	const struct codex_process *p;

	if (ours)
		TAILQ_FOREACH (p, &s->processes, entry)
			if ((!p->ended || p->has_left) && strcmp(p->thread, ours) == 0)
				return NULL;
	return ours;
}

bool codex_process_starting(const struct codex_process *p) { return !p->answered; }

/* ---- client ids in the log ---- */

bool codex_process_word(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && !strchr("_-.:", s[i]))
			return false;
	return n > 0 && n < CODEX_ID_MAX;
}

void codex_process_justify(const json_t *metadata, const char *name, struct buf *out)
{
	const char *call = json_get_text(metadata, "toolCallId"), *thread = json_get_text(metadata, "threadId");

	buf_printf(out, "Codex call %s in thread %s, process %s", codex_process_word(call) ? call : "-",
		   codex_process_word(thread) ? thread : "-", name);
}

/*
 * Parses a justification: returns the process's name and copies the thread to ret_thread (CODEX_ID_MAX). NULL: not a
 * start of Codex.
 */
static const char *parse_justification(const char *text, char *ret_thread)
{
	static const char in[] = " in thread ", process[] = ", process ";
	const char *thread = strncmp(text, "Codex call ", 11) == 0 ? strstr(text, in) : NULL;
	const char *end = thread ? strstr(thread, process) : NULL;

	if (!end)
		return NULL;
	thread += sizeof(in) - 1;
	if (end < thread || end - thread >= CODEX_ID_MAX)
		return NULL;
	memcpy(ret_thread, thread, (size_t)(end - thread));
	ret_thread[end - thread] = '\0';
	return end + sizeof(process) - 1;
}

static void apply_start(struct codex_server *s, const json_t *event)
{
	char thread[CODEX_ID_MAX];
	const char *name = parse_justification(json_get_text(json_object_get(event, "payload"), "justification"),
					       thread),
		   *ours = json_get_text(event, "threadId");
	struct codex_process *p;

	if (!name || !*name)
		return;
	p = strmap_get(&s->by_id, json_get_text(event, "processId"));
	if (!p) { /* otherwise the reply to the start arrived first */
		p = strmap_get(&s->by_name, name);
		if (!p || p->id[0]) {
			p = codex_process_new(s, name); /* started before this connection */
			p->answered = true;
		}
		codex_process_bind(p, json_get_text(event, "processId"));
	}
	(void)snprintf(p->thread, sizeof(p->thread), "%s", ours);
	if (strcmp(thread, "-") != 0 && *ours && !strmap_get(&s->threads, thread))
		strmap_put(&s->threads, thread, mem_strdup(ours));
}

/* ---- output ---- */

static void add_chunk(struct codex_process *p, struct codex_chunk c)
{
	if (p->count == p->capacity) {
		p->capacity = p->capacity ? 2 * p->capacity : 8;
		p->chunk = mem_realloc(p->chunk, p->capacity * sizeof(*p->chunk));
	}
	p->chunk[p->count++] = c;
}

static const char *const denials[] = { "operation not permitted", "permission denied", "read-only file system",
				       "seccomp", "landlock" };

/* Without exact violations, guess from the messages that programs print. */
static void detect_denial(struct codex_process *p, const char *bytes, size_t n)
{
	buf_auto struct buf low = BUF_INIT;

	if (p->server->exact || p->looks_denied)
		return;
	buf_append(&low, bytes, n);
	for (size_t i = 0; i < low.len; i++)
		low.data[i] = low.data[i] ? (char)tolower((unsigned char)low.data[i]) : ' ';
	for (size_t i = 0; i < countof(denials); i++)
		p->looks_denied |= strstr(buf_cstr(&low), denials[i]) != NULL;
}

static void apply_output(struct codex_process *p, const json_t *payload)
{
	uint64_t offset = json_get_uint(payload, "offset"), length = json_get_uint(payload, "length");
	int stream = stream_of(json_object_get(payload, "stream"));
	const json_t *preview = json_object_get(payload, "preview");

	if (stream < 0 || !length || p->ended)
		return;
	if (p->count - p->sent < UNSENT_MAX && length <= CHUNK_MAX &&
	    json_get_uint(payload, "previewBytes") == length && json_is_string(preview)) {
		buf_auto struct buf text = BUF_INIT, bytes = BUF_INIT;
		bool encoded = json_text_is(payload, "encoding", "base64");

		if (encoded) {
			buf_append(&text, json_string_value(preview), json_string_length(preview));
			(void)text_base64_decode(buf_cstr(&text), text.len, &bytes);
		} else {
			text_base64_encode(json_string_value(preview), json_string_length(preview), &text);
		}
		detect_denial(p, encoded ? buf_cstr(&bytes) : json_string_value(preview),
			      encoded ? bytes.len : json_string_length(preview));
		add_chunk(p, (struct codex_chunk){ .offset = offset,
						   .length = (uint32_t)length,
						   .stream = (uint8_t)stream,
						   .base64 = buf_take(&text) });
		return;
	}
	for (uint64_t n; length; offset += n, length -= n) {
		n = length < CHUNK_MAX ? length : CHUNK_MAX;
		add_chunk(p,
			  (struct codex_chunk){ .offset = offset, .length = (uint32_t)n, .stream = (uint8_t)stream });
	}
}

/* ---- lifecycle ---- */

/* Where the output can be read, and what kind of input there is. */
static void apply_refs(struct codex_process *p, const json_t *payload)
{
	const json_t *refs = json_object_get(payload, "outputRefs");

	for (size_t i = 0; i < json_array_size(refs); i++) {
		const json_t *r = json_array_get(refs, i);
		int stream = stream_of(json_object_get(r, "stream"));

		if (stream >= 0)
			(void)snprintf(p->ref[stream], sizeof(p->ref[stream]), "%s", json_get_text(r, "outputRef"));
	}
	p->tty = json_is_object(json_object_get(payload, "tty")) || json_get_flag(payload, "tty");
	p->stdin_open = p->tty || json_text_is(payload, "stdin", "pipe");
}

static void apply_end(struct codex_process *p, const json_t *payload)
{
	const json_t *code = json_object_get(payload, "exitCode");
	int sig = text_signal_number(json_get_text(payload, "signal"));
	const char *message = json_get_text(payload, "message");

	p->has_left = false;
	if (p->ended)
		return;
	p->ended = true;
	p->stdin_open = false;
	/* 128 + signal, as shells report it; 1 if the event has neither. */
	p->exit_code = json_is_integer(code) && json_integer_value(code) >= 0 ? (int)json_integer_value(code)
		       : sig > 0                                              ? 128 + sig
									      : 1;
	/*
	 * A command that succeeded is not reported as denied, even if something in it was blocked: Codex may offer to
	 * run a denied one again with fewer restrictions.
	 */
	uint64_t violations = json_get_uint(payload, "violationCount");
	p->denied = p->server->exact && p->exit_code != 0 &&
		    (violations > p->violations ? violations : p->violations) > p->by_mode;
	if (*message)
		p->failure = mem_strdup(message);
}

/* A start that waited for approval is decided. */
static void resolve_approval(struct codex_process *p, bool runs, const json_t *payload)
{
	struct codex_call *c = p->start;

	if (!c || !c->asked)
		return;
	if (runs)
		return codex_process_started(p);
	const char *why = json_get_text(payload, "message");
	codex_call_fail(c, RPC_INVALID_REQUEST, "bailiff did not start this: %s", *why ? why : "it was denied");
}

/*
 * Events are the only source of a process's state, so that replaying them gives a reconnecting client the same numbers.
 */
void codex_process_fold(struct codex_server *s, const json_t *event)
{
	const char *type = json_get_text(event, "type");
	const json_t *payload = json_object_get(event, "payload");
	struct codex_process *p;

	if (strcmp(type, "permission.evaluated") == 0)
		return apply_start(s, event);
	p = strmap_get(&s->by_id, json_get_text(event, "processId"));
	if (!p)
		return;
	if (strcmp(type, "process.started") == 0) {
		if (*json_get_text(event, "sandboxId"))
			strmap_put(&s->sandboxes, json_get_text(event, "sandboxId"), s);
		p->started = true;
		apply_refs(p, payload);
		resolve_approval(p, true, payload);
	} else if (strcmp(type, "process.output") == 0) {
		apply_output(p, payload);
	} else if (strcmp(type, "sandbox.violation") == 0) {
		/*
		 * A denial by owner and mode (such as a script that is not executable) would happen without a sandbox
		 * too, so it does not count as one of the sandbox.
		 */
		uint64_t count = json_get_uint(payload, "count");
		if (!json_text_is(payload, "confidence", "hint"))
			p->violations += count ? count : 1;
		if (json_text_is(payload, "source", "audit") &&
		    json_text_is(payload, "reason", "not permitted to its user"))
			p->by_mode += count ? count : 1;
	} else if (strcmp(type, "process.command_exited") == 0) {
		/* For the client the process ends here. What the command left is there for the next ones. */
		apply_end(p, json_object_get(payload, "commandExited"));
		p->has_left = true;
	} else if (strcmp(type, "process.completed") == 0 || strcmp(type, "process.failed") == 0 ||
		   strcmp(type, "process.terminated") == 0) {
		apply_end(p, payload);
		resolve_approval(p, false, payload);
	} else {
		return;
	}
	if (!s->backlog)
		codex_process_notify(p);
}

void codex_process_recovered(struct codex_server *s)
{
	struct codex_process *p;

	TAILQ_FOREACH (p, &s->processes, entry) {
		if (!p->answered)
			continue;
		p->sent = p->count;
		p->end_sent = p->ended;
		for (size_t i = 0; i < p->count; i++)
			free(mem_take(&p->chunk[i].base64));
	}
}

void codex_process_started(struct codex_process *p)
{
	struct codex_call *c = mem_take(&p->start);

	codex_call_reply(c, json_pack("{ss ss sO*}", "processId", p->name, "sandboxType",
				      c->confined ? "linuxSeccomp" : "none", "warnings", c->warnings));
	p->answered = true;
	codex_process_notify(p);
}

/* ---- notifications ---- */

static void notify_client(struct codex_process *p, const char *method, json_t *params)
{
	json_object_set_new(params, "processId", json_string(p->name));
	p->server->ops.send(p->server->ctx, rpc_message_notification(RPC_BARE, method, params));
}

static void send_chunk(struct codex_process *p, const char *base64)
{
	const struct codex_chunk *c = &p->chunk[p->sent++];

	notify_client(
		p, "process/output",
		json_pack("{sI ss ss}", "seq", (json_int_t)p->sent, "stream", streams[c->stream], "chunk", base64));
}

/* A chunk that cannot be read any longer is sent empty, so that sequence numbers stay complete. */
static void on_read(void *ctx, json_t *result, json_t *error)
{
	struct codex_process *p = ctx;
	const char *data = error ? "" : json_get_text(result, "data");

	p->reading = false;
	if (!p->server->exact && !error) {
		buf_auto struct buf bytes = BUF_INIT;

		(void)text_base64_decode(data, strlen(data), &bytes);
		detect_denial(p, buf_cstr(&bytes), bytes.len);
	}
	send_chunk(p, data);
	codex_process_notify(p);
}

/* Sends output in order, one chunk at a time, and waits for the client to read it. The end follows the last chunk. */
void codex_process_notify(struct codex_process *p)
{
	struct codex_server *s = p->server;
	static const struct timeval soon = { .tv_usec = 10000 };

	while (p->answered && !p->reading && p->sent < p->count) {
		if (!s->ops.flushed(s->ctx)) {
			loop_add(&s->later, &soon);
			break;
		}
		mem_auto char *bytes = mem_take(&p->chunk[p->sent].base64);
		if (bytes)
			send_chunk(p, bytes);
		else {
			const struct codex_chunk *c = &p->chunk[p->sent];

			p->reading = true;
			gateway_session_query(p->server->session, "read_output",
					      json_pack("{ss sI sI ss}", "outputRef", p->ref[c->stream], "offset",
							(json_int_t)c->offset, "length", (json_int_t)c->length,
							"encoding", "base64"),
					      on_read, p);
		}
	}
	if (p->answered && p->ended && !p->end_sent && !p->reading && p->sent == p->count) {
		if (!p->server->exact && p->looks_denied && p->exit_code != 0)
			p->denied = true;
		p->end_sent = true;
		notify_client(p, "process/exited",
			      json_pack("{sI si sb}", "seq", (json_int_t)p->count + 1, "exitCode", p->exit_code,
					"sandboxDenied", p->denied));
		notify_client(p, "process/closed", json_pack("{sI}", "seq", (json_int_t)p->count + 2));
	}
	/* Waiting calls saw less output, or no end, the last time. */
	if (p->end_sent || p->count > 0) {
		struct codex_readers now = TAILQ_HEAD_INITIALIZER(now);
		struct codex_call *c;

		/* A resumed call may wait again, so work on a copy of the list. */
		TAILQ_CONCAT(&now, &p->readers, waiting);
		while ((c = TAILQ_FIRST(&now))) {
			TAILQ_REMOVE(&now, c, waiting);
			c->waits = false;
			c->resume(c);
		}
	}
}

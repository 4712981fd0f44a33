/*
 * Requests of clients about a live process: input, signals, its end.
 *
 * Input is written in the order of the requests, one request at a time. The reply is sent when all of it is written and
 * process.input is committed. An idempotent write commits its intent first: if the runtime dies between the intent and
 * the result, a retry gets an error that the outcome is unknown, instead of writing twice.
 *
 * Terminal input is recorded like other input, except while the terminal has echo off in canonical mode. Then it is
 * treated as a password and only its length is recorded. Full-screen programs switch echo off, too, but they also leave
 * canonical mode.
 */

#include "runtime/engine/core/core.h"

#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/process/process.h"
#include "runtime/view/view.h"
#include "runtime/view/view_documents.h"

#include <errno.h>
#include <signal.h>

/* Input of one process that the runtime keeps in memory while the command does not read. */
#define INPUT_QUEUE_MAX (8u << 20)
/* The stored reply of an idempotent write between its intent and its result. */
static const char pending_record[] = "{\"pending\":true}";

struct process *engine_live(struct engine *engine, const char *id, const struct caller *c, struct err *e)
{
	struct process *p = engine_process(engine, id);
	buf_auto struct buf doc = BUF_INIT;

	if (p && process_is_controlled_by(p, c) && p->state <= PROCESS_RUNNING)
		return p;
	/* A process of another user is reported like one that does not exist. */
	if (view_process(engine->o.store, c->uid, id, &doc, e) < 0)
		return NULL;
	if (jval_is_str(jval_get(jval_of(doc.data, doc.len), "status"), "lost"))
		err_because(e, ERR_UNAVAILABLE, REASON_PROCESS_LOST,
			    "process '%s' was lost: nothing can reach it, and whether it ended is not known", id);
	else
		err_set(e, ERR_STATE, "process '%s' has ended", id);
	return NULL;
}

/* ---- rejected requests ---- */

struct lost_refusal {
	struct pending_reply reply;
	struct err err;
};

static void on_lost_recorded(void *ctx, const struct store_result *r)
{
	static const char data[] = "\"outcome\":\"unknown\",\"retryable\":false";
	struct lost_refusal *l = ctx;

	reply_err(&l->reply, r->status < 0 ? r->err : &l->err, data, strlen(data));
	free(l);
}

/* Rejects a request about a lost process. Also records a warning in its session, which is durable before the reply. */
static void reject_lost(struct engine *engine, const struct process_doc *d, const char *request, const struct err *e,
			const struct caller *c, engine_reply_fn fn, void *ctx)
{
	struct lost_refusal *l = mem_zalloc(1, sizeof *l);
	struct transaction *tx = transaction_new_internal(engine);

	l->err = *e;
	reply_copy(&l->reply, c, fn, ctx);
	const struct scope s = { .uid = (uint32_t)d->uid,
				 .session = d->sessionId,
				 .thread = d->threadId,
				 .turn = d->turnId,
				 .process = d->processId,
				 .request = c->request_id };
	EMIT(runtime_warning, tx, s, .code = "process_lost", .detail = e->message,
	     .advice = "check what it may have done, then start it again", .request = request);
	transaction_commit_then(tx, STORE_MUST | STORE_NOW, on_lost_recorded, l);
}

static void reject_request(struct engine *engine, const char *id, const char *request, const struct err *e,
			   const struct caller *c, engine_reply_fn fn, void *ctx)
{
	buf_auto struct buf text = BUF_INIT;
	struct process_doc d;
	struct err ignored = ERR_INIT;

	if (e->code == ERR_UNAVAILABLE && view_read(engine->o.store, &process_schema, id, &text, &d, &ignored) == 0 &&
	    strcmp(d.status, "lost") == 0)
		reject_lost(engine, &d, request, e, c, fn, ctx);
	else
		fn(ctx, e, NULL, 0);
}

static void input_free(struct pending_input *in)
{
	reply_done(&in->reply);
	if (in->redacted)
		explicit_bzero(in->data, in->len);
	free(in->data);
	free(in);
}

static void input_finish(struct process *p, struct pending_input *in)
{
	struct transaction *tx = transaction_new_internal(p->engine);

	TAILQ_REMOVE(&p->inputs, in, link);
	transaction_give_reply(tx, &in->reply);
	if (!in->eof || in->len)
		jw_kuint(&tx->w, "bytes", in->len);
	if (in->eof && in->len) {
		jw_kstr(&tx->w, "sent", "eof");
		jw_kbool(&tx->w, "canonical", in->canonical);
	}
	if (process_has_tty(p)) {
		jw_kuint(&tx->w, "offset", in->offset);
		tx->flags |= STORE_SHORTLY; /* the echo of the terminal follows soon and can share the commit */
	}
	process_input_fact(p, tx, in);
	transaction_commit(tx);
	input_free(in);
}

static void input_fail(struct process *p, struct pending_input *in, const struct err *e)
{
	struct jw w;
	buf_auto struct buf data = BUF_INIT;

	TAILQ_REMOVE(&p->inputs, in, link);
	w = jw_on(&data);
	jw_kuint(&w, "bytes", in->done);
	jw_kstr(&w, "outcome", in->done ? "partial" : "not_written");
	/* Replaces the intent, so that a retry gets this error instead of an unknown outcome. */
	if (in->intended) {
		struct transaction *tx = transaction_new_internal(p->engine);
		buf_auto struct buf record = BUF_INIT;
		reply_error_record(e, data.data, data.len, &record);
		transaction_store_reply(tx, &in->reply, record.data, record.len);
		transaction_commit(tx);
	}
	reply_err(&in->reply, e, data.data, data.len);
	input_free(in);
}

void process_inputs_fail(struct process *p, const char *why)
{
	struct err e = ERR_INIT;

	if (TAILQ_EMPTY(&p->inputs))
		return;
	err_set(&e, ERR_STATE, "write to the standard input of '%s': %s", p->id, why);
	while (!TAILQ_EMPTY(&p->inputs))
		input_fail(p, TAILQ_FIRST(&p->inputs), &e);
}

/*
 * End of input on a terminal: the EOF character. In canonical mode EOF in the middle of a line only submits that line,
 * so it is sent twice; on an empty line it ends the input. Programs outside canonical mode (readline) interpret the
 * character themselves.
 */
static int input_end_terminal(struct process *p, struct pending_input *in, struct err *e)
{
	struct engine *engine = p->engine;
	struct port_line line;

	if (in->len)
		return 0; /* already prepared by an earlier call; the terminal was full */
	if (engine->o.ports->line(engine->o.host, p->id, &line) < 0)
		return err_set(e, ERR_STATE, "end the input of '%s': %s", p->id, strerror(errno));
	if (!line.eof)
		return err_set(e, ERR_STATE, "the terminal of '%s' has no EOF character now", p->id);
	in->canonical = line.canonical;
	in->len = line.canonical && p->last_typed != '\n' ? 2 : 1;
	in->data = mem_realloc(in->data, in->len);
	memset(in->data, line.eof, in->len);
	return 0;
}

/* Checked before each write, because programs switch echo off just before they prompt for a password. */
static void input_check_echo(struct process *p, struct pending_input *in)
{
	struct engine *engine = p->engine;
	struct port_line line;

	if (engine->o.ports->line(engine->o.host, p->id, &line) == 0 && line.canonical && !line.echo)
		in->redacted = !in->eof;
}

static void input_typed(struct process *p, const struct pending_input *in)
{
	char c = in->data[in->done - 1];

	/* Control characters complete the line or discard it: it is empty afterwards. */
	p->last_typed = in->eof || (c > 0 && c < ' ' && c != '\t') ? '\n' : c;
	p->typed = true;
	p->typed_until_ns = engine_now(p->engine) + PROCESS_TYPED_MS * 1000000ull;
}

/* 1 = all written, 0 = the pipe is full, −1 = failed, and `in` is freed. */
static int input_write(struct process *p, struct pending_input *in)
{
	struct engine *engine = p->engine;
	struct err e = ERR_INIT;

	if (process_has_tty(p) && in->eof && input_end_terminal(p, in, &e) < 0) {
		input_fail(p, in, &e);
		return -1;
	}
	if (!in->done)
		in->offset = p->streams[STREAM_PTY].size;
	while (in->done < in->len) {
		if (process_has_tty(p))
			input_check_echo(p, in);
		ssize_t n = engine->o.ports->write_stdin(engine->o.host, p->id, in->data + in->done,
							 in->len - in->done);
		/* Partly written input stays first in the queue; engine_on_stdin_room continues it. */
		if (n == 0)
			return 0;
		if (n < 0) {
			err_set(&e, ERR_STATE, "write to the standard input of '%s': %s", p->id,
				errno == EPIPE ? "the process has closed it"
				: errno == EIO ? "the terminal is closed"
					       : strerror(errno));
			input_fail(p, in, &e);
			return -1;
		}
		in->done += (size_t)n;
		if (process_has_tty(p))
			input_typed(p, in);
	}
	return 1;
}

static void on_intent_committed(void *ctx, const struct store_result *r);

struct input_intent {
	struct engine *engine;
	char process_id[ID_TEXT_MAX];
};

/* Submits the intent; the write continues after its commit. */
static void input_intend(struct process *p, struct pending_input *in)
{
	struct transaction *tx = transaction_new_internal(p->engine);
	struct input_intent *i = mem_zalloc(1, sizeof *i);

	i->engine = p->engine;
	memcpy(i->process_id, p->id, sizeof i->process_id);
	p->input_busy = true;
	in->intended = true;
	transaction_store_reply(tx, &in->reply, pending_record, sizeof pending_record - 1);
	transaction_commit_then(tx, 0, on_intent_committed, i);
}

static void on_intent_committed(void *ctx, const struct store_result *r)
{
	struct input_intent *i = ctx;
	struct process *p = engine_process(i->engine, i->process_id);

	if (p) {
		p->input_busy = false;
		/*
		 * The first one is the one that was intended: nothing is taken from the queue while input_busy is set,
		 * except all of it when the process ends.
		 */
		if (r->status < 0 && !TAILQ_EMPTY(&p->inputs)) {
			TAILQ_FIRST(&p->inputs)->intended = false;
			input_fail(p, TAILQ_FIRST(&p->inputs), r->err);
		}
		process_inputs_pump(p);
	}
	free(i);
}

/* Writes queued input until the pipe is full. While an intent is not committed (input_busy), nothing is written. */
void process_inputs_pump(struct process *p)
{
	struct engine *engine = p->engine;
	struct pending_input *in;

	while (p->state == PROCESS_RUNNING && !p->input_busy && (in = TAILQ_FIRST(&p->inputs))) {
		if (in->reply.idem_key && !in->intended) {
			input_intend(p, in);
			return;
		}
		if (!in->eof || process_has_tty(p)) {
			int r = input_write(p, in);
			if (r == 0)
				return;
			if (r < 0)
				continue;
		} else if (!p->stdin_closed) {
			p->stdin_closed = true;
			engine->o.ports->close_stdin(engine->o.host, p->id);
		}
		input_finish(p, in);
	}
}

struct stdin_write {
	const void *data;
	size_t n;
	bool eof; /* closes it */
	/*
	 * A client's request about any process of its user. What an operator started may have more access than an
	 * agent can get, and a shell runs what is typed into it.
	 */
	bool foreign;
};

static void input_queue(struct engine *engine, const char *id, const struct stdin_write *s, const struct caller *c,
			engine_reply_fn fn, void *ctx)
{
	struct err e = ERR_INIT;
	struct process *p = engine_live(engine, id, c, &e);
	struct pending_input *in;
	size_t queued = 0;

	if (p && s->foreign && c->role != ROLE_OPERATOR && p->of_operator)
		err_set(&e, ERR_NOT_ALLOWED,
			"process '%s' was started by an operator, and may have access that agents do not get: only "
			"operators can write to it (bailiff input)",
			id);
	else if (p && !p->stdin_pipe && !process_has_tty(p))
		err_because(&e, ERR_STATE, REASON_NO_STDIN, "process '%s' has no standard input", id);
	else if (p && p->stdin_closed && !process_has_tty(p) && !s->eof)
		err_set(&e, ERR_STATE, "the standard input of '%s' is closed", id);
	else if (p)
		TAILQ_FOREACH (in, &p->inputs, link)
			queued += in->len;
	if (p && !e.code && s->n > INPUT_QUEUE_MAX)
		err_field(&e, "data", "at most %u bytes can be written at once", INPUT_QUEUE_MAX);
	else if (p && !e.code && queued + s->n > INPUT_QUEUE_MAX)
		err_set(&e, ERR_EXHAUSTED, "the process does not read: %zu bytes wait for it already", queued);
	if (e.code) {
		reject_request(engine, id, s->eof ? "close_process_stdin" : "write_process_stdin", &e, c, fn, ctx);
		return;
	}
	in = mem_zalloc(1, sizeof *in);
	reply_copy(&in->reply, c, fn, ctx);
	in->by = requester_of(c);
	in->data = mem_dup(s->n ? s->data : "", s->n ? s->n : 1);
	in->len = s->n;
	in->eof = s->eof;
	TAILQ_INSERT_TAIL(&p->inputs, in, link);
	process_inputs_pump(p);
}

void engine_write_stdin(struct engine *engine, const char *process_id, const void *p, size_t n, const struct caller *c,
			engine_reply_fn fn, void *ctx)
{
	input_queue(engine, process_id, &(struct stdin_write){ .data = p, .n = n, .foreign = true }, c, fn, ctx);
}

void engine_close_stdin(struct engine *engine, const char *process_id, const struct caller *c, engine_reply_fn fn,
			void *ctx)
{
	input_queue(engine, process_id, &(struct stdin_write){ .eof = true, .foreign = true }, c, fn, ctx);
}

void process_write_own(struct engine *engine, const char *process_id, const void *p, size_t n, const struct caller *c,
		       engine_reply_fn fn, void *ctx)
{
	input_queue(engine, process_id, &(struct stdin_write){ .data = p, .n = n }, c, fn, ctx);
}

void process_close_own(struct engine *engine, const char *process_id, const struct caller *c, engine_reply_fn fn,
		       void *ctx)
{
	input_queue(engine, process_id, &(struct stdin_write){ .eof = true }, c, fn, ctx);
}

/*
 * The transaction of a request that is carried out at once. A signal, a resize or a closed stream must not wait for a
 * slow or full disk, so these are recorded after they happened, and are never rejected for lack of space.
 */
static struct transaction *begin_done(struct engine *engine, const struct process *p, const struct caller *c,
				      engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);

	tx->flags = STORE_MUST;
	jw_kstr(&tx->w, "processId", p->id);
	return tx;
}

/* A holder has no command that a request could be about. */
static void check_command(const struct process *p, struct err *e)
{
	if (p && p->holder)
		err_set(e, ERR_STATE, "process '%s' holds sandbox '%s' and runs no command: close_sandbox ends it",
			p->id, p->sandbox_id);
}

void engine_close_output(struct engine *engine, const char *process_id, int stream, const struct caller *c,
			 engine_reply_fn fn, void *ctx)
{
	struct err e = ERR_INIT;
	struct process *p = engine_live(engine, process_id, c, &e);

	check_command(p, &e);
	if (p && !p->streams[stream].ref[0])
		err_set(&e, ERR_STATE, "process '%s' has no %s of its own", process_id, stream_name(stream));
	if (e.code) {
		fn(ctx, &e, NULL, 0);
		return;
	}
	const struct requester by = requester_of(c);
	struct transaction *tx = begin_done(engine, p, c, fn, ctx);
	engine->o.ports->close_output(engine->o.host, p->id, stream);
	p->streams[stream].ended = true;
	EMIT(process_input, tx, process_input_scope(p, c->request_id), .kind = "close_output",
	     .stream = stream_name(stream), .by = json_requester(&by));
	jw_kstr(&tx->w, "stream", stream_name(stream));
	transaction_commit(tx);
	process_event(p, PROCESS_EV_STREAM_END);
}

int engine_live_output(struct engine *engine, const char *process_id, int stream, const struct caller *c,
		       const char **ret_ref, uint64_t *ret_kept, struct err *e)
{
	const struct process *p = engine_process(engine, process_id);

	if (!p || !process_is_controlled_by(p, c)) /* otherwise also while its end is being recorded */
		p = engine_live(engine, process_id, c, e);
	if (!p)
		return -1;
	if (p->uid != c->uid)
		return err_set(e, ERR_NOT_ALLOWED, "process '%s' belongs to another user", process_id);
	if (!p->streams[stream].ref[0])
		return err_set(e, ERR_STATE, "process '%s' has no %s of its own", process_id, stream_name(stream));
	*ret_ref = p->streams[stream].ref;
	*ret_kept = process_output_kept(p, UINT64_MAX);
	return 0;
}

/* ---- the size of its terminal, signals and the end ---- */

int engine_terminal_size(struct engine *engine, const char *process_id, const struct caller *c, uint32_t *ret_rows,
			 uint32_t *ret_cols, struct err *e)
{
	const struct process *p = engine_live(engine, process_id, c, e);

	if (!p)
		return -1;
	if (!process_has_tty(p))
		return err_because(e, ERR_STATE, REASON_NO_TERMINAL, "process '%s' has no terminal", process_id);
	*ret_rows = p->tty_rows;
	*ret_cols = p->tty_cols;
	return 0;
}

void engine_resize_process(struct engine *engine, const char *process_id, uint32_t rows, uint32_t cols,
			   const struct caller *c, engine_reply_fn fn, void *ctx)
{
	struct err e = ERR_INIT;
	struct process *p = engine_live(engine, process_id, c, &e);

	if (p && !process_has_tty(p))
		err_because(&e, ERR_STATE, REASON_NO_TERMINAL, "process '%s' has no terminal", process_id);
	else if (p && engine->o.ports->resize(engine->o.host, p->id, rows, cols) < 0)
		err_set(&e, ERR_STATE, "resize the terminal of '%s': %s", process_id,
			errno == ENOTTY ? "it has not begun yet" : strerror(errno));
	if (e.code) {
		reject_request(engine, process_id, "resize_process", &e, c, fn, ctx);
		return;
	}
	const struct requester by = requester_of(c);
	p->tty_rows = rows;
	p->tty_cols = cols;
	p->typed = true; /* the client waits for the redraw: flush it without delay */
	p->typed_until_ns = engine_now(engine) + PROCESS_TYPED_MS * 1000000ull;
	struct transaction *tx = begin_done(engine, p, c, fn, ctx);
	/* The offset in the output makes it possible to replay the screen. */
	EMIT(process_input, tx, process_input_scope(p, c->request_id), .kind = "resize", .rows = opt_int(rows),
	     .cols = opt_int(cols), .offset = opt_int(p->streams[STREAM_PTY].size), .by = json_requester(&by));
	jw_kuint(&tx->w, "rows", rows);
	jw_kuint(&tx->w, "cols", cols);
	transaction_commit(tx);
}

void engine_signal_process(struct engine *engine, const char *process_id, int sig, const struct caller *c,
			   engine_reply_fn fn, void *ctx)
{
	struct err e = ERR_INIT;
	struct process *p = engine_live(engine, process_id, c, &e);

	if (p && p->state != PROCESS_RUNNING)
		err_set(&e, ERR_STATE, "process '%s' has not begun yet", process_id);
	else
		check_command(p, &e);
	if (e.code) {
		reject_request(engine, process_id, "signal_process", &e, c, fn, ctx);
		return;
	}
	/* If the command dies of this signal, that is a termination by request, not a crash (ending_of). */
	p->sent_signals |= 1ull << (sig - 1);
	p->signal_by = requester_of(c);
	engine->o.ports->signal(engine->o.host, p->id, sig);
	struct transaction *tx = begin_done(engine, p, c, fn, ctx);
	EMIT(process_input, tx, process_input_scope(p, c->request_id), .kind = "signal",
	     .signal = text_signal_name(sig), .by = json_requester(&p->signal_by));
	jw_kstr(&tx->w, "signal", text_signal_name(sig));
	transaction_commit(tx);
}

/* ---- the end ---- */

/* The request had begun before the runtime was restarted, and the process has ended: as if it had been waited for. */
static bool answer_repeated(struct engine *engine, const char *id, const struct caller *c, engine_reply_fn fn,
			    void *ctx)
{
	buf_auto struct buf text = BUF_INIT, out = BUF_INIT;
	struct err ignored = ERR_INIT;
	struct jw j = jw_on(&out);
	struct process_doc d;

	if (!c->repeated || view_read(engine->o.store, &process_schema, id, &text, &d, &ignored) != 0 ||
	    d.uid != c->uid || strcmp(d.status, "lost") == 0)
		return false;
	jw_obj(&j);
	jw_kstr(&j, "processId", id);
	jw_kstr(&j, "status", d.status);
	jw_kbool(&j, "treeEmpty", true);
	jw_kuint(&j, "sequence", store_last_sequence(engine->o.store));
	jw_obj_end(&j);
	fn(ctx, NULL, out.data, out.len);
	return true;
}

void engine_terminate_process(struct engine *engine, const char *process_id, const char *reason, int sig,
			      uint64_t grace_ms, const struct caller *c, engine_reply_fn fn, void *ctx)
{
	struct process *p = engine_process(engine, process_id);
	struct err e = ERR_INIT;

	if (!p || p->over || !process_is_controlled_by(p, c))
		engine_live(engine, process_id, c, &e);
	else
		check_command(p, &e);
	if (e.code == ERR_STATE && (!p || p->over) && answer_repeated(engine, process_id, c, fn, ctx))
		return;
	if (e.code) {
		reject_request(engine, process_id, "terminate_process", &e, c, fn, ctx);
		return;
	}
	/*
	 * The waiter is added first: the end may be reached before process_enforce_end returns. A process that is
	 * already ending accepts it, too.
	 */
	struct process_waiter *w = mem_zalloc(1, sizeof *w);
	reply_copy(&w->reply, c, fn, ctx);
	w->terminate = true;
	w->deadline_ns = UINT64_MAX;
	TAILQ_INSERT_TAIL(&p->waiters, w, link);
	const struct requester by = requester_of(c);
	sig = sig ? sig : process_stop_signal(p);
	grace_ms = grace_ms == LIMIT_NONE ? engine->o.stop_grace_ms : grace_ms;
	if (c->idem_key && !c->repeated && !p->intent)
		process_intend_end(p, &w->reply, &by, sig, grace_ms, reason);
	else
		process_enforce_end(p, PROCESS_END_USER, &by, sig, grace_ms, reason);
}

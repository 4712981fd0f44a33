#include "runtime/engine/call/process_tools.h"

#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/call/process_report.h"
#include "runtime/engine/call/tool_call.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/view/view.h"

#define BACKGROUND_MS 300u /* long enough to report immediate failures */
#define WAIT_MS 30000u
#define SCREEN_MS 10000u
#define TYPED_MS 1000u   /* usual time for a program to respond to a line of input */
#define TAKEN_MS 2000u   /* enough time for a process that reads its input */
#define KILLED_MS 10000u /* after the grace period */
#define STARTING_NS 5000000u
#define COMMAND_SHOWN 200u

/* A call that waits for a process. */
struct process_wait {
	TAILQ_ENTRY(process_wait) link;
	char call_id[ID_SIZE], process_id[ID_SIZE];
	uint64_t deadline_ns;
	bool shell;   /* the call is that of the process itself: it is left running at the deadline */
	bool whole;   /* until all that the command started has ended */
	bool writing; /* its input is not written yet */
	bool eof;     /* … and is to be closed then, which was not requested yet */
	uint64_t yield_ms;
};

static const char unknown_process[] = "no such process in this conversation; ps lists them";

static uint64_t number(const json_t *args, const char *name, uint64_t otherwise)
{
	const json_t *v = json_object_get(args, name);

	return v ? (uint64_t)json_integer_value(v) : otherwise;
}

static struct caller caller_of(const struct tool_call_doc *d)
{
	return (struct caller){ .uid = (uint32_t)d->uid, .role = ROLE_AGENT, .peer_fd = -1 };
}

/* The process that the call names; false: it names none of this thread, and was failed. */
static bool find_process(struct engine *engine, const struct tool_call_doc *d, const json_t *args, struct buf *text,
			 struct process_doc *ret)
{
	if (process_report_find(engine, d->threadId, json_get_text(args, "processId"), text, ret))
		return true;
	tool_call_fail_as(engine, d->toolCallId, "not_found", unknown_process);
	return false;
}

/* ---- waiting ---- */

static struct process_wait *find_wait(struct engine *engine, const char *call_id)
{
	struct process_wait *w;

	TAILQ_FOREACH (w, &engine->calls->waits, link)
		if (strcmp(w->call_id, call_id) == 0)
			return w;
	return NULL;
}

static struct process_wait *wait_new(struct engine *engine, const char *call_id, const char *process_id,
				     uint64_t deadline_ns)
{
	struct process_wait *w = mem_zalloc(1, sizeof *w);

	id_copy(w->call_id, call_id);
	id_copy(w->process_id, process_id);
	w->deadline_ns = deadline_ns;
	TAILQ_INSERT_TAIL(&engine->calls->waits, w, link);
	engine_wake(engine, deadline_ns);
	return w;
}

/* The time of a call counts from its start, also after a restart. */
static uint64_t deadline_of(struct engine *engine, const struct tool_call_doc *d, uint64_t ms)
{
	const uint64_t now = engine_real(engine), begun = d->startedAt, passed = now > begun ? (now - begun) / 1000 : 0;

	return engine_now(engine) + (passed < ms ? ms - passed : 0) * 1000000;
}

/* The call ends with a report about the process. That of the shell has hooks now and at the end of the process. */
static void report(struct engine *engine, const struct tool_call_doc *d, const struct process_doc *p, const char *note)
{
	struct transaction *tx = transaction_new_internal(engine);
	buf_auto struct buf answer = BUF_INIT;

	process_report_write(engine, p, note, tx, &answer);
	if (strcmp(p->toolCallId, d->toolCallId) == 0) {
		struct scope s = tool_call_scope(d);
		char ref[ID_TEXT_MAX];

		s.process = p->processId;
		id_make(ID_KIND_OUTPUT, ref);
		transaction_add_output(tx, ref, answer.data, answer.len);
		EMIT(tool_result, tx, s, .envelope.status = "completed", .rawOutputRef = ref,
		     .rawOutputBytes = opt_int((int64_t)answer.len), .structuredContentRef = ref,
		     .displayPreview = "it continues in the background",
		     .part = opt_int_if(d->part != VIEW_ABSENT, d->part));
		tool_hooks_follow(tx, d->toolCallId);
	} else {
		tool_call_finish(d, answer.data, answer.len, tx);
	}
	transaction_commit(tx);
}

/* Whether the process of a call of the shell can be left running. One that is ending ends its call itself. */
static bool can_leave(struct engine *engine, const struct process_wait *w)
{
	const struct process *p = engine_process(engine, w->process_id);

	return p && p->state == PROCESS_RUNNING && p->end == PROCESS_END_NONE && !p->command_exited;
}

/* Ends the call that waited, unless it was ended by something else. Frees the wait. */
static void wait_finish(struct engine *engine, struct process_wait *w)
{
	const char *note = !w->writing ? NULL
			   : w->eof ? "Not all input was accepted yet: the process has not read it. The input was not "
				      "closed and stays open: once it is read, call write_stdin with eof again."
				    : "Not all input was accepted yet: the process has not read it.";
	buf_auto struct buf text = BUF_INIT, process_text = BUF_INIT;
	struct tool_call_doc d;
	struct process_doc p;
	struct err e = ERR_INIT;

	TAILQ_REMOVE(&engine->calls->waits, w, link);
	if (tool_call_read(engine, w->call_id, &text, &d, &e) == 0 && !d.endedAt &&
	    (!w->shell || can_leave(engine, w))) {
		if (view_read(engine->o.store, &process_schema, w->process_id, &process_text, &p, &e) == 0)
			report(engine, &d, &p, note);
		else
			tool_call_fail_as(engine, w->call_id, "store", "the process cannot be read");
	}
	free(w);
}

/* A process that is still being started is checked again a little later. */
static bool is_due(struct engine *engine, struct process_wait *w, uint64_t now)
{
	const struct process *p = w->shell ? engine_process(engine, w->process_id) : NULL;

	if (w->deadline_ns > now)
		return false;
	if (!p || p->state >= PROCESS_RUNNING)
		return true;
	w->deadline_ns = now + STARTING_NS;
	return false;
}

static bool has_ended(struct engine *engine, const struct process_wait *w)
{
	buf_auto struct buf text = BUF_INIT;
	struct process_doc p;
	struct err e = ERR_INIT;

	return view_read(engine->o.store, &process_schema, w->process_id, &text, &p, &e) == 0 &&
	       (w->whole ? p.endedAt != 0 : process_report_ended(&p));
}

/* Searches from the start after each: the end of a call may change the list. */
void process_tools_over(struct engine *engine, const char *call_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct process_wait *w;
	struct err e = ERR_INIT;

	if (TAILQ_EMPTY(&engine->calls->waits) || tool_call_read(engine, call_id, &text, &d, &e) != 0)
		return;
	do {
		TAILQ_FOREACH (w, &engine->calls->waits, link)
			if (strcmp(w->process_id, d.processId) == 0 && has_ended(engine, w))
				break;
		if (w)
			wait_finish(engine, w);
	} while (w);
}

uint64_t process_tools_tick(struct engine *engine, uint64_t now)
{
	uint64_t next = UINT64_MAX;
	struct process_wait *w;

	if (engine->stopping)
		return next;
	do {
		TAILQ_FOREACH (w, &engine->calls->waits, link)
			if (is_due(engine, w, now))
				break;
		if (w)
			wait_finish(engine, w);
	} while (w);
	TAILQ_FOREACH (w, &engine->calls->waits, link)
		next = w->deadline_ns < next ? w->deadline_ns : next;
	return next;
}

void process_tools_done(struct engine *engine)
{
	struct process_wait *w;

	while ((w = TAILQ_FIRST(&engine->calls->waits))) {
		TAILQ_REMOVE(&engine->calls->waits, w, link);
		free(w);
	}
}

/* ---- commands that are left running ---- */

/* How long the shell waits for its command; UINT64_MAX = until it ends. */
static uint64_t yield_of(const json_t *args)
{
	return number(args, "yieldMs", json_is_true(json_object_get(args, "background")) ? BACKGROUND_MS : UINT64_MAX);
}

bool process_in_background(struct process *p)
{
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct err e = ERR_INIT;

	return p->owner == OWNER_TOOL && !p->command_exited &&
	       tool_call_read(p->engine, p->owner_id, &text, &d, &e) == 0 && strcmp(d.status, "completed") == 0;
}

struct thread_visit {
	const char *thread_id;
	size_t background;
	struct jw *w; /* for ps; or NULL */
};

static void visit_process(void *ctx, const char *id, void *value)
{
	struct thread_visit *v = ctx;
	struct process *p = value;

	if (p->state != PROCESS_RUNNING || !process_report_covers(p, v->thread_id))
		return;
	v->background += process_in_background(p);
	if (!v->w)
		return;
	const char *line = p->command_line ? p->command_line : p->display ? p->display : "";
	buf_auto struct buf row = BUF_INIT;
	buf_printf(&row, "%s  %s%s, for %llu s: ", p->id,
		   p->command_exited ? "ended, with processes that still run" : "running",
		   process_has_tty(p) ? " on a terminal" : "",
		   (unsigned long long)((engine_now(p->engine) - p->started_boot_ns) / 1000000000u));
	text_sanitize_line(line, text_utf8_cut(line, strnlen(line, COMMAND_SHOWN)), &row);
	jw_strn(v->w, row.data, row.len);
}

int process_tools_check(struct engine *engine, const char *thread_id, const json_t *args, struct err *e)
{
	struct thread_visit v = { .thread_id = thread_id };

	if (yield_of(args) == UINT64_MAX)
		return 0;
	strmap_each(&engine->processes->live, visit_process, &v);
	if (v.background < PROCESS_TOOLS_MAX)
		return 0;
	return err_set(e, ERR_EXHAUSTED,
		       "%zu commands of this conversation run in the background, which is the limit; "
		       "kill one of them first",
		       v.background);
}

void process_tools_started(struct process *p)
{
	struct engine *engine = p->engine;
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct err e = ERR_INIT;

	if (tool_call_read(engine, p->owner_id, &text, &d, &e) != 0 || d.endedAt || strcmp(d.toolName, "shell") != 0)
		return;
	json_auto_t *args = tool_call_arguments(engine, &d, &e);
	const uint64_t ms = yield_of(args);
	if (ms != UINT64_MAX)
		wait_new(engine, d.toolCallId, p->id, p->started_boot_ns + ms * 1000000)->shell = true;
}

/* ---- their end ---- */

struct end_visit {
	const char *session_id, *thread_id, *turn_id; /* NULL = any */
	const struct caller *c;                       /* whose request it is; NULL = the daemon's */
	const char *reason;
	bool any; /* note_ended: there is one */
};

static bool is_or_any(const char *id, const char *wanted) { return !wanted || strcmp(id, wanted) == 0; }

static bool is_ended_by(struct process *p, const struct end_visit *v)
{
	return p->owner == OWNER_TOOL && (p->command_exited || process_in_background(p)) &&
	       (!v->c || process_is_controlled_by(p, v->c)) && is_or_any(p->session_id, v->session_id) &&
	       is_or_any(p->thread_id, v->thread_id) && is_or_any(p->turn_id, v->turn_id);
}

static void end_process(void *ctx, const char *id, void *value)
{
	const struct end_visit *v = ctx;
	struct process *p = value;
	struct requester by;

	if (!is_ended_by(p, v))
		return;
	if (v->c)
		by = requester_of(v->c);
	process_enforce_end(p, PROCESS_END_USER, v->c ? &by : NULL, process_stop_signal(p), p->engine->o.stop_grace_ms,
			    v->reason);
}

void process_tools_end(struct engine *engine, const char *thread_id, const struct caller *c)
{
	struct end_visit v = { .thread_id = thread_id, .c = c, .reason = "ended on request" };

	strmap_visit(&engine->processes->live, end_process, &v);
}

static bool ends_with_turn(struct engine *engine, const char *turn_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;

	return turn_read(engine, turn_id, &text, &t, &e) == 0 && turn_doc_ended(&t) &&
	       jval_bool(jval_get(t.options, "endProcesses"), false);
}

static bool is_archived(struct engine *engine, const char *session_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct session_doc d;
	struct err e = ERR_INIT;

	return view_read_speculative(engine->o.store, &session_schema, session_id, &text, &d, &e) == 0 &&
	       jval_bool(d.archived, false);
}

static void note_ended(void *ctx, const char *id, void *value)
{
	struct end_visit *v = ctx;

	v->any |= is_ended_by(value, v);
}

/* Most turns leave no process, so the turn is read only if one is there. */
static void end_of_turn(struct engine *engine, const char *turn_id)
{
	struct end_visit v = { .turn_id = turn_id, .reason = "its turn has ended" };

	strmap_each(&engine->processes->live, note_ended, &v);
	if (v.any && ends_with_turn(engine, turn_id))
		strmap_visit(&engine->processes->live, end_process, &v);
}

static void end_of_session(struct engine *engine, const char *session_id)
{
	struct end_visit v = { .session_id = session_id, .reason = "its session was archived" };

	strmap_visit(&engine->processes->live, end_process, &v);
}

void process_tools_on_turn_completed(struct transaction *tx, const struct scope *s, const struct turn_completed *p)
{
	transaction_after_commit(tx, end_of_turn, s->turn);
}

void process_tools_on_turn_failed(struct transaction *tx, const struct scope *s, const struct turn_failed *p)
{
	transaction_after_commit(tx, end_of_turn, s->turn);
}

void process_tools_on_session_updated(struct transaction *tx, const struct scope *s, const struct session_updated *p)
{
	if (p->archived == OPT_BOOL_TRUE)
		transaction_after_commit(tx, end_of_session, s->session);
}

/* After a restart: calls that have not left their process yet, and processes whose turn or session has ended. */
static void recover_process(void *ctx, const char *id, void *value)
{
	struct process *p = value;
	struct end_visit v = { .reason = "its turn or session has ended" };

	if (p->owner != OWNER_TOOL)
		return;
	process_tools_started(p);
	if (ends_with_turn(p->engine, p->turn_id) || is_archived(p->engine, p->session_id))
		end_process(&v, id, p);
}

void process_tools_recover(struct engine *engine) { strmap_visit(&engine->processes->live, recover_process, engine); }

/* ---- the tools ---- */

void process_tool_wait(struct engine *engine, const struct tool_call_doc *d, const json_t *args)
{
	buf_auto struct buf text = BUF_INIT;
	struct process_doc p;

	if (!find_process(engine, d, args, &text, &p))
		return;
	if (process_report_ended(&p))
		report(engine, d, &p, NULL);
	else
		wait_new(engine, d->toolCallId, p.processId,
			 deadline_of(engine, d, number(args, "timeoutMs", WAIT_MS)));
}

/* Input that is being written for a call. */
struct typed_input {
	struct engine *engine;
	char call_id[ID_SIZE];
	bool closing;
};

static void on_typed(void *ctx, const struct err *e, const char *json, size_t len);

static void send_input(struct engine *engine, const struct tool_call_doc *d, const char *process_id, const char *text,
		       size_t len, bool closing)
{
	struct typed_input *x = mem_zalloc(1, sizeof *x);
	const struct caller c = caller_of(d);
	/* An agent that makes calls in an operator's turn has an agent's rights, as for a start (tool_process.c). */
	const bool own = jval_is_str(jval_get(d->requestedBy, "role"), role_name(ROLE_OPERATOR));

	x->engine = engine;
	id_copy(x->call_id, d->toolCallId);
	x->closing = closing;
	if (closing)
		(own ? process_close_own : engine_close_stdin)(engine, process_id, &c, on_typed, x);
	else
		(own ? process_write_own : engine_write_stdin)(engine, process_id, text, len, &c, on_typed, x);
}

/* If the process has ended when its input is closed, what was written may have been all that it waited for. */
static void on_typed(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct typed_input x = *(struct typed_input *)ctx;
	struct process_wait *w = find_wait(x.engine, x.call_id);
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct err unread = ERR_INIT;

	free(ctx);
	if (!w)
		return;
	if (e && !(x.closing && e->code == ERR_STATE)) {
		TAILQ_REMOVE(&x.engine->calls->waits, w, link);
		free(w);
		return tool_call_fail_as(x.engine, x.call_id, "tool", e->message);
	}
	if (tool_call_read(x.engine, x.call_id, &text, &d, &unread) != 0 || d.endedAt) { /* interrupted */
		TAILQ_REMOVE(&x.engine->calls->waits, w, link);
		free(w);
		return;
	}
	if (w->eof) {
		w->eof = false;
		return send_input(x.engine, &d, w->process_id, NULL, 0, true);
	}
	w->writing = false;
	w->deadline_ns = engine_now(x.engine) + w->yield_ms * 1000000;
	engine_wake(x.engine, w->deadline_ns);
	if (has_ended(x.engine, w))
		wait_finish(x.engine, w);
}

void process_tool_write_stdin(struct engine *engine, const struct tool_call_doc *d, const json_t *args)
{
	const json_t *input = json_object_get(args, "text");
	const bool eof = json_is_true(json_object_get(args, "eof"));
	const uint64_t ms = number(args, "yieldMs", TYPED_MS);
	buf_auto struct buf text = BUF_INIT;
	struct process_wait *w;
	struct process_doc p;

	if (!find_process(engine, d, args, &text, &p))
		return;
	w = wait_new(engine, d->toolCallId, p.processId, engine_now(engine) + (ms + TAKEN_MS) * 1000000);
	w->writing = true;
	w->eof = eof && json_string_length(input);
	w->yield_ms = ms;
	/* Without text and eof only the output is of interest. */
	if (json_string_length(input))
		send_input(engine, d, p.processId, json_string_value(input), json_string_length(input), false);
	else if (eof)
		send_input(engine, d, p.processId, NULL, 0, true);
	else {
		w->writing = false;
		w->deadline_ns = engine_now(engine) + ms * 1000000;
		if (process_report_ended(&p))
			wait_finish(engine, w);
	}
}

static void ignore_reply(void *ctx, const struct err *e, const char *json, size_t len) {}

static void kill_process(struct engine *engine, const struct tool_call_doc *d, const struct process_doc *p)
{
	const struct caller c = caller_of(d);

	if (p->endedAt)
		return report(engine, d, p, "It had ended before.");
	wait_new(engine, d->toolCallId, p->processId,
		 engine_now(engine) + (engine->o.stop_grace_ms + KILLED_MS) * 1000000ull)
		->whole = true;
	engine_terminate_process(engine, p->processId, "ended by the model", 0, LIMIT_NONE, &c, ignore_reply, NULL);
}

struct signalled {
	struct engine *engine;
	char call_id[ID_SIZE];
};

static void on_signalled(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct signalled s = *(struct signalled *)ctx;
	struct process_wait *w = find_wait(s.engine, s.call_id);

	free(ctx);
	if (!w || !e)
		return;
	TAILQ_REMOVE(&s.engine->calls->waits, w, link);
	free(w);
	tool_call_fail_as(s.engine, s.call_id, "tool", e->message);
}

/* With a signal: what it does within a second. */
void process_tool_kill(struct engine *engine, const struct tool_call_doc *d, const json_t *args)
{
	const char *name = json_get_string(args, "signal");
	const int sig = name ? text_signal_number(name) : 0;
	const struct caller c = caller_of(d);
	buf_auto struct buf text = BUF_INIT;
	struct process_doc p;

	if (!find_process(engine, d, args, &text, &p))
		return;
	if (name && sig < 1)
		return tool_call_fail_as(engine, d->toolCallId, "arguments",
					 "signal: there is no such signal; give a name such as TERM or a number");
	if (!name)
		return kill_process(engine, d, &p);
	struct signalled *s = mem_zalloc(1, sizeof *s);
	s->engine = engine;
	id_copy(s->call_id, d->toolCallId);
	wait_new(engine, d->toolCallId, p.processId, engine_now(engine) + TYPED_MS * 1000000ull);
	engine_signal_process(engine, p.processId, sig, &c, on_signalled, s);
}

void process_tool_ps(struct engine *engine, const struct tool_call_doc *d)
{
	struct transaction *tx = transaction_new_internal(engine);
	buf_auto struct buf answer = BUF_INIT;
	struct jw w = jw_on(&answer);
	struct thread_visit v = { .thread_id = d->threadId, .w = &w };

	jw_obj(&w);
	jw_karr(&w, "entries");
	strmap_each(&engine->processes->live, visit_process, &v);
	jw_arr_end(&w);
	jw_obj_end(&w);
	tool_call_finish(d, answer.data, answer.len, tx);
	transaction_commit(tx);
}

/* ---- screen ---- */

void process_tool_screen(struct engine *engine, const struct tool_call_doc *d, const json_t *args)
{
	const char *wanted = json_get_string(args, "waitForText"), *regex = json_get_string(args, "waitForRegex");
	const uint64_t idle = number(args, "idleMs", UINT64_MAX), now = engine_now(engine);
	buf_auto struct buf text = BUF_INIT;
	struct process_doc p;
	struct err e = ERR_INIT;

	if (!find_process(engine, d, args, &text, &p))
		return;
	const struct port_screen_request r = {
		.id = d->toolCallId,
		.process_id = p.processId,
		.uid = (uint32_t)d->uid,
		.wait = wanted || regex || idle != UINT64_MAX,
		.text = wanted,
		.regex = regex,
		.idle_ms = idle,
		.timeout_ms = (deadline_of(engine, d, number(args, "timeoutMs", SCREEN_MS)) - now) / 1000000,
	};
	if (!engine->o.ports->screen)
		err_set(&e, ERR_UNAVAILABLE, "this runtime does not serve terminals");
	else
		(void)engine->o.ports->screen(engine->o.host, &r, &e);
	if (e.code)
		tool_call_fail_as(engine, d->toolCallId, e.code == ERR_INVALID ? "arguments" : "tool", e.message);
}

void engine_on_screen(struct engine *engine, const char *id, const struct port_screen *s, const struct err *e)
{
	buf_auto struct buf text = BUF_INIT, answer = BUF_INIT, summary = BUF_INIT;
	struct jw w = jw_on(&answer);
	struct tool_call_doc d;
	struct err unread = ERR_INIT;

	if (engine->stopping || tool_call_read(engine, id, &text, &d, &unread) != 0 || d.endedAt)
		return;
	if (e)
		return tool_call_fail_as(engine, id, "tool", e->message);
	buf_printf(&summary, "%s%u rows of %u columns, cursor at row %u, column %u%s:\n",
		   s->timed_out ? "Timed out: the condition was not met. " : "", s->rows, s->cols, s->cursor_row + 1,
		   s->cursor_col + 1, s->ended ? "; the process has ended" : "");
	jw_obj(&w);
	jw_kstr(&w, "processId", s->process_id);
	jw_kbool(&w, "running", !s->ended);
	jw_kstrn(&w, "summary", summary.data, summary.len);
	jw_kstr(&w, "screen", s->text);
	jw_obj_end(&w);
	struct transaction *tx = transaction_new_internal(engine);
	tool_call_finish(&d, answer.data, answer.len, tx);
	transaction_commit(tx);
}

/*
 * Runs the processes of hooks, records their events and reads their answers. hook.h describes the module.
 *
 * A hook is an owner of its process, with the process id as its own id. hook.started is recorded with the step that
 * waits, hook.completed or hook.failed with the end of the process. The answer is read from the output when the process
 * has ended; until then the run has the answer "failed: it has not answered". Every way in which a hook can get lost is
 * therefore treated as its failure: it denies if the hook fails closed, otherwise the work continues with a warning.
 */

#include "runtime/engine/hook/hook.h"

#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/ref.h"
#include "runtime/engine/hook/hook_http.h"
#include "runtime/engine/policy/policy_lookup.h"
#include "runtime/engine/policy/sandbox_setup.h"
#include "runtime/engine/process/process.h"

#include <signal.h>

#define REASON_SHOWN 2000u
/* More than the maximum, so that output at the maximum is never truncated before it is parsed. */
#define KEPT_OUTPUT (2u * HOOK_OUTPUT_MAX)
#define STDERR_READ 8192u

bool hooks_are_at(const struct policy_hooks *hooks, enum hook_point point) { return hooks && hooks->at[point]; }

/* ---- processes ---- */

/* Expands ${CLAUDE_PROJECT_DIR} in arguments: a hook with an argument list runs without a shell that would do it. */
static char *expand_project_dir(const char *s, const char *workspace)
{
	static const char *const names[] = { "${CLAUDE_PROJECT_DIR}", "${BAILIFF_PROJECT_DIR}" };
	struct buf out = BUF_INIT;

	while (*s) {
		size_t i;

		for (i = 0; i < countof(names); i++)
			if (strncmp(s, names[i], strlen(names[i])) == 0)
				break;
		if (i < countof(names)) {
			buf_str(&out, workspace);
			s += strlen(names[i]);
		} else {
			buf_byte(&out, *s++);
		}
	}
	return buf_take(&out);
}

static bool depends_on_workspace(const struct hook_run *r)
{
	bool found = r->has_args && strstr(r->command, "${");

	for (size_t i = 0; i < r->nargs; i++)
		found |= strstr(r->arg[i], "${") != NULL;
	return found;
}

static void argv_of(struct hook_run *r, const struct sandbox_request *where, const struct caller *c, const char **argv,
		    char **made)
{
	sandbox_setup_auto struct sandbox_setup f = { 0 };
	const char *workspace = r->group->cwd;
	struct err e = ERR_INIT;

	if (depends_on_workspace(r) && sandbox_setup_make(r->group->engine, where, c, &f, &e) == 0 &&
	    f.workspace.path[0])
		workspace = f.workspace.path;
	argv[0] = made[0] = expand_project_dir(r->command, workspace);
	for (size_t i = 0; i < r->nargs; i++)
		argv[i + 1] = made[i + 1] = expand_project_dir(r->arg[i], workspace);
}

static void hook_refused(struct engine *engine, const char *id, const struct err *e, const char *data,
			 unsigned long len);

/*
 * Runs an "http" hook through bailiff-webhook, whose sandbox can reach the hook's host in addition to those that its
 * profile names.
 */
static int run_sender(struct hook_run *r, const char **argv, const char **hosts, struct start_request *s)
{
	struct engine *engine = r->group->engine;
	struct err e = ERR_INIT;

	if (!engine->o.webhook_program) {
		err_set(&e, ERR_UNAVAILABLE, "bailiff-webhook, which sends it, was not found next to bailiffd");
		hook_refused(engine, r->process_id, &e, NULL, 0);
		return -1;
	}
	argv[0] = engine->o.webhook_program;
	argv[1] = r->command;
	s->argc = 2;
	hosts[0] = r->host;
	s->sandbox.own_program = engine->o.webhook_program;
	s->sandbox.change = (struct profile_change){ .network = "allow", .hosts = hosts, .nhosts = 1 };
	return 0;
}

static void run_start(struct hook_run *r)
{
	struct hook_group *group = r->group;
	struct engine *engine = group->engine;
	const char *argv[HOOK_NAMES_MAX + 3] = { r->shell, "-c", r->command };
	const char *hosts[1];
	char *made[HOOK_NAMES_MAX + 3] = { 0 }, process[ID_TEXT_MAX];
	const struct caller c = { .uid = group->by.uid, .role = ROLE_OPERATOR, .peer_fd = -1 };
	struct start_request s = {
		.argv = argv,
		.argc = 3,
		.env_set = (const char *const *)r->env,
		.nenv_set = r->nenv,
		.sandbox = { .profile = r->profile, .cwd = group->cwd },
		.stdin_pipe = true,
		.stdin_text = r->input,
		.session_id = group->session_id,
		.thread_id = group->thread_id,
		.turn_id = group->turn_id,
		.task_id = none_if_empty(group->task_id),
		.trace_id = none_if_empty(group->trace_id),
		.process_id = r->process_id,
	};

	if (group->beyond) {
		struct err e = ERR_INIT;

		err_set(&e, ERR_EXHAUSTED,
			"the call names %zu files, and the hook runs once for each, at most %u times; split it into "
			"several calls",
			group->beyond, HOOK_RUNS_MAX);
		hook_refused(engine, r->process_id, &e, NULL, 0);
		return;
	}
	engine_default_limits(engine, &s.limits);
	/* The timeout of a hook is the wall limit of its process. Without an idle limit it may be silent until then. */
	s.limits.wall_ms = r->timeout_ms;
	s.limits.idle_ms = LIMIT_NONE;
	s.limits.output_bytes = KEPT_OUTPUT;
	if (r->host && run_sender(r, argv, hosts, &s) < 0)
		return;
	if (r->has_args) {
		argv_of(r, &s.sandbox, &c, argv, made);
		s.argc = r->nargs + 1;
	}
	process_start_owned(engine, &s, &group->by, OWNER_HOOK, r->process_id, process);
	for (size_t i = 0; i < countof(made); i++)
		free(made[i]);
}

static void pass_over(struct hook_run *r);

void hook_group_run(struct hook_group *group, hook_then_fn then, void *ctx)
{
	group->then = then;
	group->ctx = ctx;
	group->open++;
	for (size_t i = 0; i < group->count; i++)
		/* A hook that cannot be started ends within this loop; `open` keeps the group until all were tried. */
		(group->run[i].passed_over ? pass_over : run_start)(&group->run[i]);
	group->open--;
	hook_group_select(group);
}

void hook_group_cancel(struct hook_group *group, const char *reason)
{
	const struct requester by = group->by;

	group->cancelled = true;
	group->open++;
	for (size_t i = 0; i < group->count; i++) {
		struct process *p = hook_run_waits(&group->run[i])
					    ? engine_process(group->engine, group->run[i].process_id)
					    : NULL;

		if (p)
			process_enforce_end(p, PROCESS_END_USER, &by, SIGKILL, 0, reason);
	}
	group->open--;
	hook_group_select(group);
}

/* ---- facts ---- */

static struct scope hook_scope(const struct hook_doc *d)
{
	return (struct scope){ .uid = (uint32_t)d->uid,
			       .session = d->sessionId,
			       .thread = d->threadId,
			       .turn = d->turnId,
			       .process = d->subjectId,
			       .tool_call = d->toolCallId,
			       .task = d->taskId,
			       .trace = d->traceId };
}

/* Cuts a text to the length that an event shows, at a UTF-8 boundary; NULL for NULL. */
static char *cut_text(const char *text)
{
	return text ? mem_strndup(text, text_utf8_cut(text, strnlen(text, REASON_SHOWN))) : NULL;
}

static uint64_t duration_of(struct engine *engine, const struct hook_doc *d)
{
	uint64_t now = engine->o.ports->real_us(engine->o.host);

	return now > d->startedAt ? (now - d->startedAt) / 1000 : 0;
}

void hook_failed_fact(struct engine *engine, const struct hook_doc *d, const char *category, const char *message,
		      struct transaction *tx)
{
	bool timeout = strcmp(category, "timeout") == 0, lost = strcmp(category, "lost") == 0;
	mem_auto char *handler = jval_strdup(d->handlerRef), *shown = cut_text(message);

	EMIT(hook_failed, tx, hook_scope(d),
	     .envelope = { .status = timeout ? "timed_out"
				     : lost  ? "lost"
					     : "failed",
			   .status_reason = message },
	     .hookPoint = d->hookPoint, .handlerRef = handler, .processId = d->processId, .category = category,
	     .retryable = timeout || lost || strcmp(category, "cancelled") == 0, .failedOpen = !d->failsClosed,
	     .message = shown, .durationMs = opt_int(duration_of(engine, d)));
}

static void store_text(struct transaction *tx, const struct hook_doc *d, const char *text, const char *media,
		       char ret[ID_SIZE])
{
	const struct ref_owner owner = { .uid = (uint32_t)d->uid,
					 .session_id = d->sessionId,
					 .thread_id = d->threadId,
					 .turn_id = d->turnId,
					 .kind = "process",
					 .id = d->processId,
					 .media_type = media };
	char ref[ID_TEXT_MAX];

	ref_store(tx, &owner, text, strlen(text), ref);
	id_copy(ret, ref);
}

static void completed_fact(struct process *p, const struct hook_doc *d, const struct hook_answer *a, struct hook_run *r,
			   struct transaction *tx)
{
	char input[ID_SIZE] = "", output[ID_SIZE] = "", context[ID_SIZE] = "";
	int point = hook_point_find(d->hookPoint);
	bool decides = point == HOOK_PRE_TOOL_USE || point == HOOK_PERMISSION_REQUEST;

	if (a->input)
		store_text(tx, d, a->input, "application/json", input);
	if (a->output)
		store_text(tx, d, a->output, "application/json", output);
	if (a->context)
		store_text(tx, d, a->context, "text/plain", context);
	mem_auto char *handler = jval_strdup(d->handlerRef), *reason = cut_text(a->reason),
		      *message = cut_text(a->message);
	const char *const contexts[] = { context }, *const audits[] = { p->streams[STREAM_STDOUT].ref };
	EMIT(hook_completed, tx, hook_scope(d), .envelope.status = "completed", .hookPoint = d->hookPoint,
	     .handlerRef = handler, .processId = d->processId, .status = "completed",
	     .durationMs = duration_of(p->engine, d),
	     .decision = !decides && a->verdict == HOOK_VERDICT_DENY ? "block" : hook_verdict_name(a->verdict),
	     .reason = reason, .systemMessage = message, .updatedInputRef = none_if_empty(input),
	     .updatedToolOutputRef = none_if_empty(output),
	     .additionalContextRefs = json_from_strings(contexts, context[0] ? 1 : 0), .suppressOutput = a->suppress,
	     .stops = a->stop, .async = a->async,
	     .auditRefs = json_from_strings(audits, audits[0][0] && !a->suppress ? 1 : 0));
	if (r) {
		id_copy(r->input_ref, input);
		id_copy(r->context_ref, context);
	}
}

/* ---- the owner's callbacks (process_owner.h) ---- */

static int doc_of(struct engine *engine, const char *id, struct buf *text, struct hook_doc *ret)
{
	struct err e = ERR_INIT;

	return view_read_speculative(engine->o.store, &hook_schema, id, text, ret, &e);
}

static void warn_open(struct engine *engine, const struct hook_doc *d, const char *why)
{
	char handler[200] = "";

	jval_str(d->handlerRef, handler, sizeof handler);
	if (!d->failsClosed)
		engine_warn(engine, "hook_failed_open", "fix the hook, or set onFailure: block in its entry",
			    "the %s hook of %.150s failed, and work continues: %.200s", d->hookPoint, handler, why);
}

static void hook_over(struct engine *engine, const char *id)
{
	struct hook_run *r = strmap_get(&engine->hook->runs, id);

	if (!r || r->over)
		return;
	r->over = true;
	hook_group_select(r->group);
}

static void hook_refused(struct engine *engine, const char *id, const struct err *e, const char *data,
			 unsigned long len)
{
	struct hook_run *r = strmap_get(&engine->hook->runs, id);
	buf_auto struct buf text = BUF_INIT;
	struct hook_doc d;

	if (r)
		hook_answer_fail(&r->reply->answer, "it could not be started: %s", e->message);
	if (doc_of(engine, id, &text, &d) == 0) {
		struct transaction *own = transaction_new_internal(engine);

		hook_failed_fact(engine, &d, e->code == ERR_SANDBOX ? "sandbox" : "spawn", e->message, own);
		transaction_after_commit(own, hook_over, id);
		warn_open(engine, &d, e->message);
		transaction_commit(own);
	} else {
		hook_over(engine, id);
	}
}

/*
 * Skips a hook that must not run. A skipped hook has denied nothing; if it could have (pre_tool_use), a person is
 * asked instead.
 */
static void pass_over(struct hook_run *r)
{
	struct engine *engine = r->group->engine;
	const bool decides = r->group->point == HOOK_PRE_TOOL_USE && !r->async;
	buf_auto struct buf text = BUF_INIT;
	struct hook_doc d;

	hook_answer_done(&r->reply->answer);
	r->reply->answer = (struct hook_answer){ .verdict = decides ? HOOK_VERDICT_ASK : HOOK_VERDICT_NONE,
						 .reason = mem_strdup(r->passed_over) };
	if (doc_of(engine, r->process_id, &text, &d) != 0) {
		hook_over(engine, r->process_id);
		return;
	}
	struct transaction *own = transaction_new_internal(engine);
	/* Recorded as it is treated here, whatever the entry of the hook says. */
	d.failsClosed = decides;
	hook_failed_fact(engine, &d, "untrusted", r->passed_over, own);
	transaction_after_commit(own, hook_over, r->process_id);
	warn_open(engine, &d, r->passed_over);
	transaction_commit(own);
}

/* Reads at most `most` bytes of the output so far. False: the output cannot be read completely. */
static bool read_stream(struct process *p, int stream, size_t most, struct buf *ret)
{
	struct engine *engine = p->engine;
	size_t want = p->streams[stream].size < most ? (size_t)p->streams[stream].size : most;
	char *at = buf_reserve(ret, want);
	ssize_t n = want ? engine->o.ports->peek_output(engine->o.host, p->id, stream, 0, at, want) : 0;

	buf_extend(ret, n > 0 ? (size_t)n : 0);
	return ret->len == want;
}

void hook_note_async(struct process *p, struct hook_run *r)
{
	buf_auto struct buf out = BUF_INIT;

	if (r->async || p->streams[STREAM_STDOUT].size > STDERR_READ)
		return;
	read_stream(p, STREAM_STDOUT, STDERR_READ, &out);
	/* The tick continues the group: calling `then` here would run it inside the transaction of the output. */
	if (hook_answer_is_async(buf_cstr(&out), out.len)) {
		r->async = true; /* the hook keeps running in the background, its group no longer waits */
		hook_answer_done(&r->reply->answer);
		engine_wake(p->engine, engine_now(p->engine));
	}
}

static void hook_output(struct process *p, struct transaction *tx)
{
	struct hook_run *r = strmap_get(&p->engine->hook->runs, p->owner_id);
	const struct requester by = p->by;

	if (p->state > PROCESS_RUNNING)
		return;
	/* Too long to be an answer: end it now instead of at its timeout. answer_of reports the reason. */
	if (p->streams[STREAM_STDOUT].size > HOOK_OUTPUT_MAX || p->streams[STREAM_STDERR].size > HOOK_OUTPUT_MAX) {
		process_enforce_end(p, PROCESS_END_USER, &by, SIGKILL, 0, "a hook printed too much");
		return;
	}
	if (r)
		hook_note_async(p, r);
}

static void answer_of(struct process *p, const struct process_outcome *o, enum hook_point point,
		      struct hook_answer *ret)
{
	buf_auto struct buf out = BUF_INIT, err = BUF_INIT;
	uint64_t size = p->streams[STREAM_STDOUT].size > p->streams[STREAM_STDERR].size
				? p->streams[STREAM_STDOUT].size
				: p->streams[STREAM_STDERR].size;

	*ret = (struct hook_answer){ 0 };
	if (size > HOOK_OUTPUT_MAX) {
		hook_answer_fail(ret, "its output is longer than %u bytes", HOOK_OUTPUT_MAX);
	} else if (strcmp(o->status, "timed_out") == 0) {
		hook_answer_fail(ret, "it did not answer in time (%llu ms)", (unsigned long long)p->limits.wall_ms);
	} else if (o->exit_code < 0 || !o->ran || strcmp(o->status, "cancelled") == 0) {
		hook_answer_fail(ret, "%s", o->message && o->message[0] ? o->message : "it was killed, or never ran");
	} else if (!read_stream(p, STREAM_STDOUT, HOOK_OUTPUT_MAX, &out)) {
		hook_answer_fail(ret, "what it printed cannot be read");
	} else {
		read_stream(p, STREAM_STDERR, STDERR_READ, &err);
		const struct hook_output printed = { .exit_code = o->exit_code,
						     .out = buf_cstr(&out),
						     .nout = out.len,
						     .err = buf_cstr(&err),
						     .nerr = err.len };
		hook_answer_read(point, &printed, ret);
	}
}

static void hook_ended(struct process *p, const struct process_outcome *o, struct transaction *tx)
{
	struct engine *engine = p->engine;
	struct hook_run *r = strmap_get(&engine->hook->runs, p->owner_id);
	buf_auto struct buf text = BUF_INIT;
	struct hook_answer a;
	struct hook_doc d;

	if (doc_of(engine, p->owner_id, &text, &d) != 0)
		return;
	int point = hook_point_find(d.hookPoint);
	answer_of(p, o, point < 0 ? HOOK_STOP : (enum hook_point)point, &a);
	if (a.failed) {
		const char *category = strcmp(o->status, "timed_out") == 0 ? "timeout"
				       : strcmp(o->status, "lost") == 0    ? "lost"
				       : o->clean                          ? "output"
				       : o->category                       ? o->category
									   : "exit";
		hook_failed_fact(engine, &d, category, a.reason, tx);
		warn_open(engine, &d, a.reason);
	} else {
		completed_fact(p, &d, &a, r, tx);
	}
	/* After a restart there is no run: the outcome is only recorded. */
	if (r && !r->over) {
		hook_answer_done(&r->reply->answer);
		r->reply->answer = a;
	} else {
		hook_answer_done(&a);
	}
}

const struct process_owner_ops hook_owner = {
	.refused = hook_refused, .output = hook_output, .ended = hook_ended, .over = hook_over
};

/* Continues the groups whose last awaited hook has declared itself asynchronous. */
uint64_t hook_tick(struct engine *engine, uint64_t now)
{
	struct hook_group *group, *next;

	for (group = TAILQ_FIRST(&engine->hook->groups); group; group = next) {
		bool waits = group->open > 0;

		next = TAILQ_NEXT(group, link);
		for (size_t i = 0; i < group->count; i++)
			waits |= hook_run_waits(&group->run[i]);
		if (!waits && !group->settled) {
			hook_group_select(group);
			next = TAILQ_FIRST(
				&engine->hook->groups); /* the callback may have changed the list: start over */
		}
	}
	return UINT64_MAX;
}

void hook_init(struct engine *engine)
{
	engine->hook = mem_zalloc(1, sizeof *engine->hook);
	TAILQ_INIT(&engine->hook->groups);
}

void hook_done(struct engine *engine)
{
	struct hook_group *group;

	while ((group = TAILQ_FIRST(&engine->hook->groups))) {
		if (group->then && group->drop && !group->settled)
			group->drop(group->ctx);
		hook_group_free(group);
	}
	strmap_done(&engine->hook->runs);
	free(engine->hook);
}

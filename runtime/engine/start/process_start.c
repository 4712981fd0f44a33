/*
 * Starting a process: a request becomes a plan, the plan a launch, the launch a commit of start facts. Only that commit
 * opens the gate. A request that is rejected before the launch leaves no event.
 *
 * The start facts list the sandbox layers in effect, which is certain only when the init has run its steps (READY).
 * After the first start the answer is known for this machine, so later starts commit while the sandbox is still being
 * built. If READY then reports fewer layers than were recorded, the command does not run.
 *
 * start_process is one pass over the request and may run several times for the same process id: when it arrives, when
 * the policy files of its workspace have been read (pending_start.h), when hooks have answered (hook_start.c), and when
 * a person has approved it (permission_wait.c). Each pass sets up the sandbox and finds the rules again. What was valid
 * before a wait may no longer be: files, mounts, rules and modes change, and a hook may have rewritten the command. The
 * binding of an approval makes such a change visible.
 */

#include "runtime/engine/core/core.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/session/session.h"
#include "runtime/engine/start/process_plan.h"
#include "runtime/engine/start/start.h"

#include "policy/command_text.h"
#include "policy/decision.h"
#include "runtime/base/hash.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/hook/hook.h"
#include "runtime/engine/permission/permission.h"
#include "runtime/engine/policy/policy_lookup.h"
#include "runtime/engine/policy/sandbox_setup.h"
#include "runtime/engine/process/pending_start.h"
#include "runtime/engine/process/process_ports.h"
#include "runtime/engine/sandbox/sandbox.h"

#define HOOKS_EXTRA 4096u /* hook processes allowed in addition to maxProcesses */
#define DISPLAY_MAX 2048u
#define COMMAND_INLINE_MAX (16u * 1024) /* of argv's JSON in events; longer ones go behind a ref */

/* ---- the command, as facts show it ---- */

static void command_take(struct process *p, const char *const *argv, size_t argc)
{
	struct buf display = BUF_INIT;
	struct jw w = jw_on(&p->command_full);

	jw_arr(&w);
	for (size_t i = 0; i < argc; i++)
		jw_str(&w, argv[i]);
	jw_arr_end(&w);
	command_display(argv, argc, DISPLAY_MAX, &display);
	p->display = buf_take(&display);
	if (p->command_full.len <= COMMAND_INLINE_MAX) {
		p->command_json = buf_take(&p->command_full);
		return;
	}
	char ref[ID_TEXT_MAX];
	id_make(ID_KIND_OUTPUT, ref);
	p->command_ref = mem_strdup(ref);
	struct buf cut = BUF_INIT;
	w = jw_on(&cut);
	jw_arr(&w);
	for (size_t i = 0; i < argc && cut.len < COMMAND_INLINE_MAX / 2; i++) {
		size_t n = strlen(argv[i]);
		jw_strn(&w, argv[i], text_utf8_cut(argv[i], n < 1024 ? n : 1024));
	}
	jw_arr_end(&w);
	p->command_json = buf_take(&cut);
}

/* ---- the launch ---- */

static void streams_make(struct process *p, const struct sandbox_setup *f, struct port_streams *ret)
{
	*ret = (struct port_streams){ .uid = p->uid,
				      .limit = p->limits.output_bytes == LIMIT_NONE ? 0 : p->limits.output_bytes,
				      .expected = p->engine->processes->expected };
	ret->within = p->within[0] ? p->within : NULL;
	ret->hosts = f->profile.confined && !ret->within && f->profile.network == PLAN_NET_ALLOW ? &f->profile.hosts
												 : NULL;
	for (int i = 0; i < STREAM_COUNT; i++) {
		bool unused = i == STREAM_PTY ? !process_has_tty(p)
					      : process_has_tty(p) || (i == STREAM_STDERR && p->stderr_merge);
		if (unused) {
			p->streams[i].ended = true;
			continue;
		}
		id_make(ID_KIND_OUTPUT, p->streams[i].ref);
		memcpy(ret->ref[i], p->streams[i].ref, sizeof ret->ref[i]);
	}
}

/* ---- the request ---- */

struct uid_count {
	uint32_t uid;
	bool hooks;
	size_t n;
};

static void count_process(void *ctx, const char *id, void *value)
{
	struct uid_count *c = ctx;
	const struct process *p = value;

	c->n += p->uid == c->uid && (p->owner == OWNER_HOOK) == c->hooks;
}

/* Limits one uid's share, so that it cannot use up all processes. */
static int check_share(struct engine *engine, uint32_t uid, bool hooks, struct err *e)
{
	struct uid_count c = { .uid = uid, .hooks = hooks };
	size_t share = hooks                             ? HOOKS_EXTRA / 2
		       : engine->o.max_processes_per_uid ? engine->o.max_processes_per_uid
							 : (engine->o.max_processes + 1) / 2;

	/* They could stop the daemon anyway. */
	if (uid == 0 || uid == engine->o.owner_uid)
		return 0;
	strmap_each(&engine->processes->live, count_process, &c);
	if (c.n < share)
		return 0;
	return err_set(e, ERR_EXHAUSTED,
		       hooks ? "%zu hooks of uid %u run, which is the limit"
			     : "%zu processes of uid %u are live, which is the limit (maxProcessesPerUid)",
		       c.n, uid);
}

static int request_check(struct engine *engine, const struct start_request *r, const struct caller *c, struct err *e)
{
	if (engine->stopping)
		return err_set(e, ERR_UNAVAILABLE, "the daemon is stopping");
	/*
	 * Hooks have a limit of their own: starts that wait for hooks must not prevent them from running, and hooks
	 * must not use up the processes of others.
	 */
	if (r->owner == OWNER_HOOK && engine->processes->hooks >= HOOKS_EXTRA)
		return err_set(e, ERR_EXHAUSTED, "%zu hooks run, which is the limit", engine->processes->hooks);
	if (r->owner != OWNER_HOOK && !r->hooked &&
	    engine->processes->live.count - engine->processes->hooks >= engine->o.max_processes)
		return err_set(e, ERR_EXHAUSTED, "%zu processes are live, which is the limit (maxProcesses)",
			       engine->processes->live.count - engine->processes->hooks);
	/* A start that waited is already counted: it holds the place of the waiting process. */
	if (!r->hooked && !r->approval && check_share(engine, c->uid, r->owner == OWNER_HOOK, e) < 0)
		return -1;
	if (store_full(engine->o.store))
		return err_set(
			e, ERR_EXHAUSTED, "the store is full: nothing is started until there is room. %s",
			store_disk_full(engine->o.store)
				? "Its disk is full: free space there, or remove old events (bailiff store prune)"
				: "Its quota is used up: remove old events (bailiff store prune), or raise "
				  "storeQuotaBytes");
	for (int (*const *may)(struct engine *, const struct start_request *, struct err *) =
		     engine->modules->may_start;
	     *may; may++)
		if ((*may)(engine, r, e) < 0)
			return -1;
	return 0;
}

static void process_take_request(struct process *p, const struct start_request *r, const struct caller *c)
{
	p->uid = c->uid;
	p->by = requester_of(c);
	p->of_operator = c->role != ROLE_AGENT;
	p->command_line = mem_strdup(r->command_line);
	p->justification = mem_strdup(r->justification);
	id_copy(p->task_id, r->task_id);
	id_copy(p->tool_call_id, r->tool_call_id);
	id_copy(p->trace_id, r->trace_id ? r->trace_id : c->trace_id);
	id_copy(p->span_id, r->trace_id ? NULL : c->span_id);
	id_copy(p->run_id, r->run_id);
	id_copy(p->attempt_id, r->attempt_id);
	id_copy(p->step_id, r->step_id);
	id_copy(p->job_id, r->job_id);
	id_copy(p->job_item_id, r->job_item_id);
	id_copy(p->subagent_id, r->subagent_id);
	p->owner = (enum owner_kind)r->owner;
	p->engine->processes->hooks += p->owner == OWNER_HOOK;
	id_copy(p->owner_id, r->owner_id);
	p->tty_rows = r->tty_rows;
	p->tty_cols = r->tty_cols;
	p->stdin_pipe = r->stdin_pipe && !process_has_tty(p) && !r->holder;
	p->stdin_closed = !p->stdin_pipe;
	p->stderr_merge = (r->stderr_merge && !process_has_tty(p)) || r->holder;
	p->keep_tree = r->keep_tree && !r->holder;
	p->end_with_client = r->end_with_client;
	p->bound_connection = r->end_with_client ? c->connection : 0;
	p->limits = r->limits;
	p->holder = r->holder;
	id_copy(p->sandbox_id, r->sandbox_id);
	p->separate_reason = mem_strdup(r->separate_reason);
	if (r->within)
		snprintf(p->within, sizeof p->within, "%s", r->within);
}

/*
 * Rejects a start before anything was written. If the start was pending (pending_start.h), its owner has already been
 * replied to, so it is notified as if policy had denied the process.
 */
static void reject_start(struct engine *engine, const struct start_request *r, const struct err *e, bool late,
			 engine_reply_fn fn, void *ctx)
{
	buf_auto struct buf data = BUF_INIT;
	struct jw w = jw_on(&data);

	if (e->code == ERR_PERMISSION)
		sandbox_setup_denial_json(e, &w);
	fn(ctx, e, data.len ? data.data : NULL, data.len);
	if (late && r->owner)
		process_owner(engine, r->owner)->refused(engine, r->owner_id, e, data.len ? data.data : NULL, data.len);
}

/* The session, thread and turn were assigned when the start began to wait. */
static int take_approval(struct process *p, const struct start_approval *a)
{
	id_copy(p->session_id, a->session_id);
	id_copy(p->thread_id, a->thread_id);
	id_copy(p->turn_id, a->turn_id);
	p->owns_turn = a->owns_turn;
	p->resumed = true;
	return 0;
}

static int take_hooked(struct process *p, const struct start_hooked *h)
{
	id_copy(p->session_id, h->session_id);
	id_copy(p->thread_id, h->thread_id);
	id_copy(p->turn_id, h->turn_id);
	p->owns_turn = h->owns_turn;
	p->hooked = true;
	return 0;
}

static void process_launch(struct process *p, const struct start_request *r, const struct sandbox_setup *f,
			   const struct buf *plan, const struct caller *c)
{
	const uint32_t flags = ((const struct plan_head *)(const void *)plan->data)->flags;
	struct engine *engine = p->engine;
	struct port_streams streams;

	/* Kept for permission_offer_retry. Owners have their own ways to retry. */
	if (p->mode == MODE_ON_FAILURE && !p->owner) {
		struct buf record = BUF_INIT;
		struct start_request again = *r;

		again.sandbox_id = again.within = NULL; /* with more access it needs a sandbox of its own */
		plan_limits_add(&again.sandbox.change.limits, &r->own_limits);
		start_record_write(&again, &record);
		p->record = buf_take(&record);
	}
	streams_make(p, f, &streams);
	if (p->stdin_pipe && r->stdin_text) {
		/* The host writes it and closes the pipe, so requests to write are rejected from the beginning. */
		p->given_input = mem_printf("%s%s", r->stdin_text, r->stdin_stays ? "\n" : "");
		p->stdin_closed = !r->stdin_stays;
	}
	streams.input = p->given_input;
	streams.input_stays = r->stdin_stays;
	streams.limits = r->own_limits;
	streams.end_awaited = r->end_awaited;
	p->state = PROCESS_LAUNCHING;
	store_prepare(
		engine->o.store); /* the facts follow as soon as the clone exists, and the command waits for them */
	engine->o.ports->launch(engine->o.host, p->id, plan->data, plan->len, flags, &streams, c->peer_fd);
	p->facts = transaction_new_internal(engine); /* encodes what is already known while the spawner works */
	if (!p->resumed)
		process_session_facts(p, p->facts);
	permission_fact(p, p->facts);
}

/* The sandbox of a start that waited for an approval can end meanwhile, as all of them do when the guard dies. */
static void explain_ended_sandbox(const struct start_request *r, struct err *e)
{
	if (!r->approval || !r->sandbox_id || e->code != ERR_STATE || strcmp(e->field, "sandboxId") != 0)
		return;
	mem_auto char *why = mem_strdup(e->message);
	err_at(e, ERR_STATE, "sandboxId",
	       "it did not run, although it was approved, because its sandbox ended while it waited (%.200s): start it "
	       "again",
	       why);
}

/* ---- one pass over the request ---- */

struct start_pass {
	struct engine *engine;
	const struct caller *caller;
	const struct start_request *given;   /* the request of the client or owner */
	const struct start_request *request; /* … with what it takes over from a session sandbox */
	struct start_request member;         /* that request, if it is another one */
	struct pending_start *held;          /* owns `given` and `caller` after a wait; NULL in the first pass */
	engine_reply_fn fn;
	void *ctx;
	const char *shell[3];
	const char *const *argv;
	size_t argc;
	struct sandbox_setup setup;
	const struct policy_rules *rules;
	struct buf plan;
	struct err e;
};

static void start_process(struct engine *engine, const struct start_request *r, const struct caller *c,
			  struct pending_start *held, engine_reply_fn fn, void *ctx);

/* Whether an earlier pass has created the process, which waits for a person or for hooks. */
static bool has_process(const struct start_request *r) { return r->approval || r->hooked; }

static void start_held(struct engine *engine, struct pending_start *h)
{
	const struct start_request *r = &h->record.spec.request;
	struct hook_wait *hooks = r->hooked ? r->hooked->wait : NULL;

	strmap_del(&engine->processes->pending, r->process_id);
	if (r->owner && process_owner(engine, r->owner)->wanted &&
	    !process_owner(engine, r->owner)->wanted(engine, r->owner_id, r->process_id)) {
		struct err e = ERR_INIT;
		err_set(&e, ERR_STATE, "it is no longer wanted");
		/* A tool call ends only with its process; the other owners have ended already. */
		if (has_process(r))
			permission_fail(engine_process(engine, r->process_id), &e);
		else
			reject_start(engine, r, &e, r->owner == OWNER_TOOL, h->fn, h->ctx);
		pending_start_free(h);
		hook_wait_free(hooks);
		return;
	}
	start_process(engine, &h->record.spec.request, &h->caller, h, h->fn, h->ctx);
}

/* The pass ends here and is repeated after a wait: `held` has the request, or gets a copy of it. */
static bool hold_request(struct start_pass *s)
{
	if (!s->held)
		s->held = pending_start_new(s->engine, s->given, s->caller, s->fn, s->ctx, &s->e);
	if (s->held)
		strmap_put(&s->engine->processes->pending, s->held->record.spec.request.process_id, s->held);
	return s->held != NULL;
}

/* 1: the start waits for the search of its folder. A search that began after its first wait counts. */
static int find_folder(struct start_pass *s)
{
	const uint64_t since_ns = s->held && s->held->since_ns ? s->held->since_ns : engine_now(s->engine);
	char folder[PATH_MAX];
	int found = sandbox_setup_lookup(s->engine, &s->request->sandbox, s->caller, since_ns, folder, &s->e);

	if (found <= 0)
		return found;
	if (!hold_request(s))
		return -1;
	s->held->since_ns = since_ns;
	pending_start_await(s->engine, folder, s->held, start_held);
	return 1;
}

/* 1: the start waits for the policy of its workspace. */
static int find_rules(struct start_pass *s)
{
	int found = policy_lookup_rules(s->engine, &s->setup, &s->request->sandbox, s->caller,
					s->held ? s->held->since_ns : 0, &s->rules, &s->e);

	if (found <= 0)
		return found;
	root_authorise(s->engine, &s->setup, s->caller, false);
	if (!hold_request(s))
		return -1;
	pending_start_wait(s->engine, &s->setup, &s->request->sandbox, s->held, start_held);
	return 1;
}

/* Builds the sandbox and finds the rules that apply in it. 1: the start waits for what they depend on. */
static int prepare_sandbox(struct start_pass *s)
{
	int found = request_check(s->engine, s->request, s->caller, &s->e) < 0 ? -1 : find_folder(s);

	if (found)
		return found;
	if (sandbox_setup_make(s->engine, &s->request->sandbox, s->caller, &s->setup, &s->e) < 0)
		return -1;
	s->rules = s->engine->rules;
	return owner_is_internal((enum owner_kind)s->request->owner) ? 0 : find_rules(s);
}

/*
 * The sandbox of the session exists now, or cannot be created. Then the command gets one of its own, or the error that
 * concerns it; a profile without isolation has no sandbox that could be shared.
 */
static void on_session_sandbox(struct engine *engine, void *ctx, const struct err *e)
{
	struct pending_start *h = ctx;
	struct start_request *r = &h->record.spec.request;

	if (e) {
		r->sandbox_id = NULL;
		if (!(e->code == ERR_INVALID && strcmp(e->field, "profile") == 0))
			r->separate_reason = h->separate_reason = mem_printf(
				"that of the session cannot be created: %s", e->message);
	}
	start_held(engine, h);
}

/* `replaces`: why the earlier sandbox of the session is given up; NULL = there was none. */
static void wait_for_session(struct start_pass *s, const char *replaces)
{
	if (!hold_request(s)) {
		reject_start(s->engine, s->given, &s->e, false, s->fn, s->ctx);
		return;
	}
	s->held->replaced |= replaces != NULL; /* once: a second difference is an error */
	sandbox_session_create(s->engine, &s->held->record.spec.request, &s->held->caller, replaces, on_session_sandbox,
			       s->held);
}

/* 0: everything is there from which the process is made; 1: the start waits; −1: it is rejected. */
static int prepare(struct start_pass *s)
{
	/* A client may have ended the process while it waited; then it has been answered, and nothing starts. */
	if (permission_was_ended(s->engine, s->given))
		return -1;
	if (!s->given->hooked && sandbox_session_missing(s->engine, s->given, s->caller)) {
		int found = find_folder(s);

		if (found == 0)
			wait_for_session(s, NULL);
		return found ? found : 1;
	}
	if (sandbox_enter(s->engine, s->given, s->caller, &s->member, &s->e) < 0)
		return -1;
	s->request = &s->member;
	return prepare_sandbox(s);
}

/* The mode may require a narrower sandbox than the one that was built. */
static int confine_for_mode(struct process *p, struct start_pass *s)
{
	int changed = permission_confine(p, s->request, s->caller, s->rules, &s->setup, &s->e);

	if (changed <= 0)
		return changed;
	free(p->cwd);
	free(p->profile);
	free(p->sandbox_json);
	process_plan_take_profile(p, s->request, &s->setup);
	return 0;
}

/* The session of the process, and its plan. */
static int complete_process(struct process *p, struct start_pass *s)
{
	const struct start_request *r = s->request;

	if ((r->approval ? take_approval(p, r->approval)
	     : r->hooked ? take_hooked(p, r->hooked)
			 : process_find_session(p, r, &s->e)) < 0 ||
	    confine_for_mode(p, s) < 0 || process_ports_want(p, r, &s->e) < 0 ||
	    process_plan_build(p, r, &s->setup, s->argv, s->argc, &s->plan, &s->e) < 0)
		return -1;
	return sandbox_check_plan(p, &s->setup, (const struct plan_head *)(const void *)s->plan.data, &s->e);
}

/* NULL: the start is rejected. A process that waited has then ended. */
static struct process *make_process(struct start_pass *s)
{
	const struct start_request *r = s->request;
	struct process *p;
	char id[ID_TEXT_MAX];

	if (r->process_id)
		snprintf(id, sizeof id, "%s", r->process_id);
	else
		id_make(ID_KIND_PROCESS, id);
	if (r->ret_process_id)
		memcpy(r->ret_process_id, id, sizeof id);
	if (has_process(r))
		/* The waiting struct has the state of the earlier pass. A new one takes over its waiters and input. */
		permission_promote(engine_process(s->engine, id), s->engine, id, &p);
	else
		p = process_new(s->engine, id);
	p->wait_ops = &permission_wait_ops;
	process_take_request(p, r, s->caller);
	process_plan_take_profile(p, r, &s->setup);
	p->home = mem_strdup(permission_home(&s->setup, r)); /* before the plan takes the environment over */
	if (complete_process(p, s) == 0) {
		if (p->within[0])
			p->sandbox_note = sandbox_take_note(s->engine, p->sandbox_id);
		return p;
	}
	if (has_process(r))
		permission_fail(p, &s->e);
	else
		process_free(p);
	return NULL;
}

/* Whether a plan was rejected because the policy has changed since the session's sandbox was made. */
static bool needs_other_sandbox(const struct start_pass *s)
{
	return start_wants_session_sandbox(s->given) && s->request->within && !has_process(s->given) &&
	       s->e.code == ERR_STATE && strcmp(s->e.field, "sandboxId") == 0 && !(s->held && s->held->replaced);
}

/* From here on the process answers the request: by its start, a denial, a question or the wait for hooks. */
static void continue_process(struct process *p, struct start_pass *s)
{
	const struct start_request *r = s->request;

	command_take(p, s->argv, s->argc);
	const bool hooks_first = permission_evaluate(p, r, &s->setup, s->argv, s->argc, s->rules, s->caller);
	if (!r->hooked)
		reply_copy(&p->start, s->caller, s->fn, s->ctx);
	if (p->owns_turn)
		thread_claim(s->engine, p->thread_id, p->turn_id, p);
	if (hooks_first || p->answer == POLICY_ASK)
		root_authorise(s->engine, &s->setup, s->caller, true);
	if (hooks_first)
		hook_defer_start(p, r, s->caller);
	else if (p->answer == POLICY_DENY)
		permission_deny(p);
	else if (p->answer == POLICY_ASK)
		permission_ask(p, r, s->caller);
	else
		process_launch(p, r, &s->setup, &s->plan, s->caller);
}

static void reject_pass(struct start_pass *s, bool made)
{
	if (!has_process(s->given)) {
		reject_start(s->engine, s->request, &s->e, s->held != NULL, s->fn, s->ctx);
	} else if (!made) {
		explain_ended_sandbox(s->request, &s->e);
		permission_fail(engine_process(s->engine, s->request->process_id), &s->e);
	}
}

static void run_pass(struct start_pass *s)
{
	struct hook_wait *hooks = s->given->hooked ? s->given->hooked->wait : NULL;
	const int prepared = prepare(s);

	if (prepared > 0)
		return;
	struct process *p = prepared == 0 ? make_process(s) : NULL;
	if (!p && prepared == 0 && needs_other_sandbox(s)) {
		sandbox_session_replace(s->engine, s->given, s->caller);
		wait_for_session(s, s->e.message);
		return;
	}
	if (p)
		continue_process(p, s);
	else
		reject_pass(s, prepared == 0);
	pending_start_free(s->held);
	hook_wait_free(hooks);
}

static void start_process(struct engine *engine, const struct start_request *r, const struct caller *c,
			  struct pending_start *held, engine_reply_fn fn, void *ctx)
{
	static const char *const holder[] = { "(sandbox)" };
	struct start_pass s = { .engine = engine,
				.caller = c,
				.given = r,
				.request = r,
				.held = held,
				.fn = fn,
				.ctx = ctx,
				.shell = { "/bin/sh", "-c", r->command_line },
				.plan = BUF_INIT,
				.e = ERR_INIT };

	s.argv = r->holder ? holder : r->command_line ? s.shell : r->argv;
	s.argc = r->holder ? countof(holder) : r->command_line ? countof(s.shell) : r->argc;
	run_pass(&s);
	buf_done(&s.plan);
	sandbox_setup_done(&s.setup);
}

/* A client that starts many commands usually requests the same sandbox each time. The hash keys the prediction. */
static uint64_t sandbox_hint(const struct sandbox_request *r, uint32_t uid)
{
	const char *cwd = r->cwd ? r->cwd : "", *profile = r->profile ? r->profile : "";

	return hash64(cwd, strlen(cwd), hash64(profile, strlen(profile), uid));
}

void engine_start_process(struct engine *engine, const struct start_request *r, const struct caller *c,
			  engine_reply_fn fn, void *ctx)
{
	if (engine->o.ports->expect && !r->tty_rows && !r->sandbox.change.cow && !r->sandbox_id)
		engine->processes->expected = engine->o.ports->expect(engine->o.host,
								      sandbox_hint(&r->sandbox, c->uid));
	start_process(engine, r, c, NULL, fn, ctx);
	/* The prediction is valid only for a launch within this call. */
	engine->processes->expected = (struct port_expected){ 0 };
}

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
#include "runtime/engine/start/process_environment.h"
#include "runtime/engine/start/start.h"

#include "policy/command_text.h"
#include "policy/decision.h"
#include "runtime/base/clock.h"
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

/* Bits of plan_kind in addition to the plan's flags. */
#define KIND_HOST_NETWORK (1u << 29)
#define KIND_LIMITS (1u << 30)         /* with required limits */
#define KIND_LIMITS_DEFAULT (1u << 31) /* with limits that are not required */
#define ENVIRONMENT_NAMED 200u         /* variable names listed in events */
#define ENVIRONMENT_USUAL 300u         /* bytes of these names, at first */
#define HOOKS_EXTRA 4096u              /* hook processes allowed in addition to maxProcesses */
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

/* ---- the plan ---- */

static void add_limits(struct plan_limits *l, const struct plan_limits *own)
{
	for (int i = 0; i < PLAN_LIMITS; i++)
		if (own->value[i])
			l->value[i] = own->value[i];
	l->required |= own->required;
}

/* Copies what the profile says, for the facts. */
static void take_confinement(struct process *p, const struct start_request *r, const struct sandbox_setup *f)
{
	struct buf json = BUF_INIT;
	struct jw w = jw_on(&json);

	p->cwd = mem_strdup(f->workspace.cwd);
	p->profile = mem_strdup(f->profile.name);
	p->cwd_is_private = sandbox_setup_cwd_is_private(f);
	p->writes = !f->profile.confined;
	for (size_t i = 0; i < f->profile.count; i++)
		p->writes |= f->profile.entry[i].kind == PLAN_MOUNT_WRITE;
	p->limits.tree = f->profile.limits;
	add_limits(&p->limits.tree, &r->own_limits);
	p->limits.tmp_bytes = f->profile.tmp_bytes;
	sandbox_setup_profile_json(f, &p->limits, &w);
	p->sandbox_json = buf_take(&json);
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/*
 * Adds the environment to the profile's facts: the names of the variables, and a reference that is equal for two runs
 * if and only if all values are. The values may be secrets and are never part of a fact.
 */
static void record_environment(struct process *p, const struct process_environment *v)
{
	const char **sorted = mem_dup(v->vars, (v->count + 1) * sizeof *sorted);
	const size_t profile_len = strlen(p->sandbox_json) - 1; /* without its closing brace */
	struct buf json = BUF_INIT, all = BUF_INIT;
	char hash[HASH_SHA256_TEXT];
	struct jw w = jw_on(&json);

	qsort(sorted, v->count, sizeof *sorted, by_text);
	buf_reserve(&json, profile_len + ENVIRONMENT_USUAL);
	buf_append(&json, p->sandbox_json, profile_len);
	w.need_comma = true;
	jw_karr(&w, "environment");
	for (size_t i = 0; i < v->count; i++) {
		size_t name = (size_t)(strchrnul(sorted[i], '=') - sorted[i]);

		if (i < ENVIRONMENT_NAMED)
			jw_strn(&w, sorted[i], text_utf8_cut(sorted[i], name < 128 ? name : 128));
		buf_append(&all, sorted[i], strlen(sorted[i]) + 1);
	}
	jw_arr_end(&w);
	hash_sha256_text(all.data ? all.data : "", all.len, hash);
	char ref[sizeof "env_" + 32];
	snprintf(ref, sizeof ref, "env_%.32s", hash);
	jw_kstr(&w, "environmentRef", ref);
	jw_obj_end(&w);
	free(p->sandbox_json);
	p->sandbox_json = buf_take(&json);
	buf_done(&all);
	free(sorted);
}

/* The kinds of cgroup limits in use: the layer `cgroup` may depend on them. */
static uint32_t limits_kind(const struct plan_limits *l)
{
	uint32_t kind = l->required ? KIND_LIMITS : 0;

	for (int i = 0; i < PLAN_LIMITS; i++)
		if (l->value[i] && !plan_limit_is_required(l, (enum plan_limit)i))
			kind |= KIND_LIMITS_DEFAULT;
	return kind;
}

static int plan_for(struct process *p, const struct start_request *r, struct sandbox_setup *f, const char *const *argv,
		    size_t argc, struct buf *plan, struct err *e)
{
	struct process_environment env = { 0 };

	if ((p->holder || p->within[0]) && !f->profile.confined)
		return err_field(e, "profile", "has no sandbox that commands could share");
	process_environment_build(p, r, f, &env);
	record_environment(p, &env);
	struct plan_spec spec = {
		.flags = p->holder ? PLAN_HOLDER | PLAN_STDIN_PIPE | PLAN_STDERR_MERGE |
					     (sandbox_starts_copied(p) ? PLAN_COW_COPY : 0)
				   : (p->stdin_pipe ? PLAN_STDIN_PIPE : 0) | (p->stderr_merge ? PLAN_STDERR_MERGE : 0) |
					     (p->keep_tree ? PLAN_KEEP_TREE : 0) | (process_has_tty(p) ? PLAN_TTY : 0) |
					     (p->within[0] ? PLAN_MEMBER : 0),
		.tty_rows = p->tty_rows,
		.tty_cols = p->tty_cols,
		.cwd = p->cwd,
		.argv = argv,
		.argc = argc,
		.envv = env.vars,
		.envc = env.count,
		.cpu_ms = p->limits.cpu_ms,
		.open_files = p->limits.open_files,
		.file_bytes = p->limits.file_bytes,
	};
	profile_plan(&f->profile, &f->mounts, &spec);
	p->plan_layers = spec.layers;
	p->plan_kind = (spec.flags & (PLAN_PRIVATE_ROOT | PLAN_COW)) |
		       (spec.network == PLAN_NET_HOST ? KIND_HOST_NETWORK : 0) | limits_kind(&spec.limits) |
		       limits_kind(&r->own_limits);
	int rc = plan_build(&spec, plan, e);
	process_environment_done(&env);
	if (rc == 0)
		hash_sha256_text(plan->data, plan->len, p->plan_hash);
	return rc;
}

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
	p->apart = mem_strdup(r->apart);
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
		add_limits(&again.sandbox.change.limits, &r->own_limits);
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

static void start_process(struct engine *engine, const struct start_request *r, const struct caller *c,
			  struct pending_start *held, engine_reply_fn fn, void *ctx);

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
		if (r->approval || r->hooked)
			permission_fail(engine_process(engine, r->process_id), &e);
		else
			reject_start(engine, r, &e, r->owner == OWNER_TOOL, h->fn, h->ctx);
		pending_start_free(h);
		hook_wait_free(hooks);
		return;
	}
	start_process(engine, &h->record.spec.request, &h->caller, h, h->fn, h->ctx);
}

/* 1: the folder is searched first; the pending start owns the request, as in find_rules. */
static int find_folder(struct engine *engine, const struct start_request *r, const struct start_request *given,
		       const struct caller *c, struct pending_start *held, engine_reply_fn fn, void *ctx, struct err *e)
{
	char folder[PATH_MAX];
	int found = pending_start_folder(engine, r, given, c, &held, fn, ctx, folder, e);

	if (found > 0) {
		strmap_put(&engine->processes->pending, held->record.spec.request.process_id, held);
		pending_start_await(engine, folder, held, start_held);
	}
	return found;
}

/*
 * 1: waits for the policy of the workspace. The pending start then owns the request: `held`, or a new one for `given`,
 * the request before it took anything over from a session sandbox.
 */
static int find_rules(struct engine *engine, const struct start_request *r, const struct start_request *given,
		      const struct caller *c, const struct sandbox_setup *f, struct pending_start *held,
		      engine_reply_fn fn, void *ctx, const struct policy_rules **ret, struct err *e)
{
	int found = policy_lookup_rules(engine, f, &r->sandbox, c, held ? held->since_ns : 0, ret, e);

	if (found <= 0)
		return found;
	root_authorise(engine, f, c, false);
	struct pending_start *h = held ? held : pending_start_new(engine, given, c, fn, ctx, e);
	if (!h)
		return -1;
	strmap_put(&engine->processes->pending, h->record.spec.request.process_id, h);
	pending_start_wait(engine, f, &r->sandbox, h, start_held);
	return 1;
}

/* Builds the sandbox and finds the rules that apply in it. 1 = the start waits for what they depend on. */
static int prepare_sandbox(struct engine *engine, const struct start_request *r, const struct start_request *given,
			   const struct caller *c, struct sandbox_setup *f, struct pending_start *held,
			   engine_reply_fn fn, void *ctx, const struct policy_rules **ret, struct err *e)
{
	int found = request_check(engine, r, c, e) < 0 ? -1 : find_folder(engine, r, given, c, held, fn, ctx, e);

	if (found)
		return found;
	if (sandbox_setup_make(engine, &r->sandbox, c, f, e) < 0)
		return -1;
	*ret = engine->rules;
	if (owner_is_internal((enum owner_kind)r->owner))
		return 0;
	return find_rules(engine, r, given, c, f, held, fn, ctx, ret, e);
}

/* The mode may require a narrower sandbox than the one that was built. */
static int confine_for_mode(struct process *p, const struct start_request *r, const struct caller *c,
			    const struct policy_rules *rules, struct sandbox_setup *f, struct err *e)
{
	int changed = permission_confine(p, r, c, rules, f, e);

	if (changed <= 0)
		return changed;
	free(p->cwd);
	free(p->profile);
	free(p->sandbox_json);
	take_confinement(p, r, f);
	return 0;
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
			r->apart = h->apart = mem_printf("that of the session cannot be created: %s", e->message);
	}
	start_held(engine, h);
}

/* `replaces`: why the earlier sandbox of the session is given up; NULL = there was none. */
static void wait_for_session(struct engine *engine, const struct start_request *r, const struct caller *c,
			     struct pending_start *held, const char *replaces, engine_reply_fn fn, void *ctx)
{
	struct err e = ERR_INIT;
	struct pending_start *h = held ? held : pending_start_new(engine, r, c, fn, ctx, &e);

	if (!h) {
		reject_start(engine, r, &e, false, fn, ctx);
		return;
	}
	h->replaced |= replaces != NULL; /* once: a second difference is an error */
	strmap_put(&engine->processes->pending, h->record.spec.request.process_id, h);
	sandbox_session_create(engine, &h->record.spec.request, &h->caller, replaces, on_session_sandbox, h);
}

/* Creates the process, with its session and its plan; NULL = rejected. */
static struct process *make_process(struct engine *engine, const struct start_request *r, const struct caller *c,
				    const struct policy_rules *rules, struct sandbox_setup *f, const char *const *argv,
				    size_t argc, struct buf *plan, struct err *e)
{
	struct process *p;
	char id[ID_TEXT_MAX];

	if (r->process_id)
		snprintf(id, sizeof id, "%s", r->process_id);
	else
		id_make(ID_KIND_PROCESS, id);
	if (r->ret_process_id)
		memcpy(r->ret_process_id, id, sizeof id);
	const bool waited = r->approval || r->hooked;
	if (waited)
		/* The waiting struct has the state of the earlier pass. A new one takes over its waiters and input. */
		permission_promote(engine_process(engine, id), engine, id, &p);
	else
		p = process_new(engine, id);
	p->wait_ops = &permission_wait_ops;
	process_take_request(p, r, c);
	take_confinement(p, r, f);
	p->home = mem_strdup(permission_home(f, r)); /* before the plan takes the environment over */
	if ((r->approval ? take_approval(p, r->approval)
	     : r->hooked ? take_hooked(p, r->hooked)
			 : process_find_session(p, r, c, e)) == 0 &&
	    confine_for_mode(p, r, c, rules, f, e) == 0 && process_ports_want(p, r, e) == 0 &&
	    plan_for(p, r, f, argv, argc, plan, e) == 0 &&
	    sandbox_check_plan(p, f, (const struct plan_head *)(const void *)plan->data, e) == 0) {
		if (p->within[0])
			p->sandbox_note = sandbox_take_note(engine, p->sandbox_id);
		return p;
	}
	if (waited)
		permission_fail(p, e);
	else
		process_free(p);
	return NULL;
}

static void start_process(struct engine *engine, const struct start_request *r, const struct caller *c,
			  struct pending_start *held, engine_reply_fn fn, void *ctx)
{
	const char *const shell[] = { "/bin/sh", "-c", r->command_line };
	const char *const holder[] = { "(sandbox)" };
	const char *const *argv = r->holder ? holder : r->command_line ? shell : r->argv;
	size_t argc = r->holder ? countof(holder) : r->command_line ? countof(shell) : r->argc;
	buf_auto struct buf plan = BUF_INIT;
	sandbox_setup_auto struct sandbox_setup f = { 0 };
	const struct policy_rules *rules = NULL;
	struct process *p = NULL;
	struct err e = ERR_INIT;
	struct hook_wait *hooks = r->hooked ? r->hooked->wait : NULL;
	struct start_request member;
	const struct start_request *given = r;
	/* A client may have ended the process while it waited; then it has been answered, and nothing starts. */
	int found = permission_was_ended(engine, r) ? -1 : 0;

	if (found == 0 && !r->hooked && sandbox_session_missing(engine, r, c)) {
		found = find_folder(engine, r, r, c, held, fn, ctx, &e);
		if (found == 0)
			wait_for_session(engine, r, c, held, NULL, fn, ctx);
		if (found >= 0)
			return;
	}
	if (found == 0)
		found = sandbox_enter(engine, r, c, &member, &e);
	if (found == 0) {
		r = &member;
		found = prepare_sandbox(engine, r, given, c, &f, held, fn, ctx, &rules, &e);
	}

	if (found > 0)
		return;
	if (found == 0)
		p = make_process(engine, r, c, rules, &f, argv, argc, &plan, &e);
	else if (r->approval || r->hooked) {
		explain_ended_sandbox(r, &e);
		permission_fail(engine_process(engine, r->process_id), &e);
	}
	if (!p && found == 0 && start_wants_session_sandbox(given) && r->within && !r->approval && !r->hooked &&
	    e.code == ERR_STATE && strcmp(e.field, "sandboxId") == 0 && !(held && held->replaced)) {
		/* The policy has changed since the session's sandbox was made. */
		sandbox_session_replace(engine, given, c);
		wait_for_session(engine, given, c, held, e.message, fn, ctx);
		return;
	}
	if (!p) {
		if (!r->approval && !r->hooked)
			reject_start(engine, r, &e, held != NULL, fn, ctx);
		pending_start_free(held);
		hook_wait_free(hooks);
		return;
	}
	/* From here on the process answers the request: by its start, a denial, a question or the wait for hooks. */
	command_take(p, argv, argc);
	const bool hooks_first = permission_judge(p, r, &f, argv, argc, rules, c);
	if (!r->hooked)
		reply_copy(&p->start, c, fn, ctx);
	if (p->owns_turn)
		thread_claim(engine, p->thread_id, p->turn_id, p);
	if (hooks_first || p->answer == POLICY_ASK)
		root_authorise(engine, &f, c, true);
	if (hooks_first)
		hook_defer_start(p, r, c);
	else if (p->answer == POLICY_DENY)
		permission_deny(p);
	else if (p->answer == POLICY_ASK)
		permission_ask(p, r, c);
	else
		process_launch(p, r, &f, &plan, c);
	pending_start_free(held);
	hook_wait_free(hooks);
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

/*
 * The simulator: the whole engine, with its store, against a simulated host. Random requests, random behaviour of
 * processes, jumps of the clock, clients that disconnect, and crashes at any point, all from one seed; after each step
 * the log is checked (sim_check.h), and at each crash, and at the end, the read models against a fresh projection. The
 * control is a log for which the check must fail.
 *
 * SIM_STEPS=n SEED=n choose how many and which; the seed is printed, and a failure names the step.
 */

#include "tests/crash/sim_check.h"

#include "runtime/engine/channel/channel.h"
#include "runtime/engine/model/model.h"
#include "runtime/engine/model/model_registry.h"
#include "runtime/engine/turn/turn.h"
#include "runtime/engine/work/work.h"

#include <check.h>
#include <jansson.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>

#define DEFAULT_STEPS 60000u
#define STEPS_A_STORE 3000u /* a store each: short enough that verifying stays cheap */
#define IDS 24u             /* of each kind, the newest */

/* Ids that requests may name. */
struct pool {
	char id[IDS][80];
	unsigned count;
};

struct sim {
	struct sim_host w;
	struct sim_check check;
	struct pool sessions, threads, turns, tasks, actions, subagents, channels, processes, jobs, calls;
	char token[IDS][80]; /* by channel */
	uint64_t connection;
	unsigned asked, answered, refused, crashes;
};

static const struct caller nobody = { .uid = 0, .role = ROLE_OPERATOR, .connection = 1, .peer_fd = 0 };

static void pool_add(struct pool *p, const char *id)
{
	if (*id)
		snprintf(p->id[p->count++ % IDS], sizeof p->id[0], "%s", id);
}

/* One of them; now and then one that is not there. */
static const char *pool_pick(struct sim *s, const struct pool *p, const char *none)
{
	unsigned n = p->count < IDS ? p->count : IDS;

	return n && !sim_chance(&s->w, 2) ? p->id[sim_pick(&s->w, n)] : none;
}

static void remember(struct pool *p, struct jval result, const char *member)
{
	char id[80];

	jval_str(jval_get(result, member), id, sizeof id);
	pool_add(p, id);
}

static void on_reply(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct sim *s = ctx;
	struct jval r = jval_of(json, e ? 0 : len);

	s->answered++;
	s->refused += e != NULL;
	if (e && (e->code == ERR_INTERNAL || e->code == ERR_CORRUPT) && !s->check.wrong[0])
		snprintf(s->check.wrong, sizeof s->check.wrong, "an answer: %.200s", e->message);
	if (e)
		return;
	remember(&s->sessions, r, "sessionId");
	remember(&s->threads, r, "threadId");
	remember(&s->turns, r, "turnId");
	remember(&s->tasks, r, "taskId");
	remember(&s->actions, r, "actionId");
	remember(&s->subagents, r, "subagentId");
	remember(&s->processes, r, "processId");
	remember(&s->jobs, r, "jobId");
	remember(&s->calls, r, "toolCallId");
	char token[80];
	if (jval_str(jval_get(r, "resumeToken"), token, sizeof token)) {
		snprintf(s->token[s->channels.count % IDS], sizeof token, "%s", token);
		remember(&s->channels, r, "channelId");
	}
}

/* ---- requests ---- */

static struct caller caller_of(struct sim *s)
{
	struct caller c = nobody;

	c.connection = s->connection + sim_pick(&s->w, 3);
	c.request_id = "sim";
	return c;
}

static json_t *object(const char *fmt, ...)
{
	va_list ap;
	json_error_t e;

	va_start(ap, fmt);
	json_t *v = json_vpack_ex(&e, 0, fmt, ap);
	va_end(ap);
	if (!v) {
		fprintf(stderr, "the simulator's own JSON: %s\n", e.text);
		abort();
	}
	return v;
}

typedef void (*json_method)(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn,
			    void *ctx);

static void ask(struct sim *s, json_method method, json_t *params)
{
	const struct caller c = caller_of(s);

	method(s->w.engine, params, &c, on_reply, s);
	json_decref(params);
}

#define ASK(sim, method, ...) ask(sim, method, object(__VA_ARGS__))
#define PICK(kind) pool_pick(s, &s->kind, #kind "_none")

static void do_session(struct sim *s)
{
	const struct session_request r = { .title = "simulated" };
	const struct caller c = caller_of(s);

	engine_create_session(s->w.engine, &r, &c, on_reply, s);
}

static void do_process(struct sim *s)
{
	const struct caller c = caller_of(s);
	struct start_request r = { .command_line = "true",
				   .end_with_client = sim_chance(&s->w, 20),
				   .stdin_pipe = sim_chance(&s->w, 30) };

	engine_default_limits(s->w.engine, &r.limits);
	if (sim_chance(&s->w, 20))
		r.limits.wall_ms = 1000;
	if (sim_chance(&s->w, 30))
		r.session_id = PICK(sessions);
	engine_start_process(s->w.engine, &r, &c, on_reply, s);
}

static void do_terminate(struct sim *s)
{
	const struct caller c = caller_of(s);

	engine_terminate_process(s->w.engine, PICK(processes), "enough", 0, sim_chance(&s->w, 50) ? 0 : 1000, &c,
				 on_reply, s);
}

static void do_submit(struct sim *s)
{
	static const char *const inputs[] = {
		"[{\"type\":\"text\",\"text\":\"hello\"}]",
		"[{\"type\":\"command\",\"commandLine\":\"true\"}]",
		("[{\"type\":\"command\",\"command\":[\"true\"]},{\"type\":\"tool_call\",\"toolName\":\"shell\","
		 "\"arguments\":{\"command\":\"ls\"}}]"),
		"[{\"type\":\"text\",\"text\":\"both\"},{\"type\":\"command\",\"commandLine\":\"true\"}]",
		"[{\"type\":\"tool_call\",\"toolName\":\"nonsense\",\"arguments\":{}}]",
	};
	json_auto_t *input = json_loads(inputs[sim_pick(&s->w, countof(inputs))], 0, NULL);
	json_auto_t *options = object("{s:s}", "whenBusy", sim_chance(&s->w, 80) ? "queue" : "reject");
	struct turn_request r = { .input = input, .options = options };
	const struct caller c = caller_of(s);

	if (sim_chance(&s->w, 70))
		r.thread_id = PICK(threads);
	engine_submit_turn(s->w.engine, &r, &c, on_reply, s);
}

static void do_turn(struct sim *s)
{
	const struct caller c = caller_of(s);
	const char *turn = PICK(turns);
	const struct turn_verdict v = { .turn_id = turn, .category = "client", .message = "no" };
	const struct turn_interrupt i = {
		.session_id = PICK(sessions), .turn_id = turn, .reason = "enough", .clear_queue = sim_chance(&s->w, 20)
	};

	switch (sim_pick(&s->w, 6)) {
	case 0: engine_complete_turn(s->w.engine, &v, &c, on_reply, s); break;
	case 1: engine_fail_turn(s->w.engine, &v, &c, on_reply, s); break;
	case 2: engine_interrupt_turn(s->w.engine, &i, &c, on_reply, s); break;
	case 3: engine_remove_queued_turn(s->w.engine, turn, "not needed", &c, on_reply, s); break;
	case 4: engine_promote_queued_turn(s->w.engine, turn, &c, on_reply, s); break;
	default: engine_resume_thread(s->w.engine, NULL, PICK(threads), &c, on_reply, s);
	}
}

static void do_tool(struct sim *s)
{
	json_auto_t *arguments = object("{s:s}", "command", "true");
	const struct tool_request r = { .turn_id = PICK(turns),
					.tool = "shell",
					.arguments = arguments,
					.timeout_ms = sim_chance(&s->w, 50) ? 0 : LIMIT_NONE };
	const struct caller c = caller_of(s);

	engine_invoke_tool(s->w.engine, &r, &c, on_reply, s);
}

static void do_action(struct sim *s)
{
	const struct caller c = caller_of(s);
	const bool of_task = sim_chance(&s->w, 30);
	const struct action_request r = { .turn_id = of_task ? NULL : PICK(turns),
					  .task_id = of_task ? PICK(tasks) : NULL,
					  .action_type = "approval",
					  .prompt = "may it?",
					  .timeout_ms = sim_chance(&s->w, 50) ? 500 + sim_pick(&s->w, 5000) : 0 };
	const struct action_answer a = { .action_id = PICK(actions),
					 .decision = sim_chance(&s->w, 50) ? "allow" : "deny",
					 .source = "user" };

	if (sim_chance(&s->w, 50))
		engine_request_action(s->w.engine, &r, &c, on_reply, s);
	else
		engine_respond_action(s->w.engine, &a, &c, on_reply, s);
}

static void do_make_task(struct sim *s)
{
	json_t *p = object("{s:s}", "objective", "simulate");

	if (sim_chance(&s->w, 60))
		json_object_set_new(p, "commandLine", json_string("true"));
	if (sim_chance(&s->w, 30))
		json_object_set_new(p, "parentTaskId", json_string(PICK(tasks)));
	if (sim_chance(&s->w, 40))
		json_object_set_new(p, "retryPolicy", object("{s:i,s:i}", "maxAttempts", 3, "backoffMs", 100));
	if (sim_chance(&s->w, 40))
		json_object_set_new(p, "autoComplete", json_true());
	ask(s, engine_create_task, p);
}

static void do_task(struct sim *s)
{
	static const char *const kinds[] = { "blocks", "blocked_by", "parent", "source_task" };
	const char *id = PICK(tasks);

	switch (sim_pick(&s->w, 12)) {
	case 0:
	case 1:
	case 2: ASK(s, engine_start_task, "{s:s}", "taskId", id); break;
	case 3:
		ASK(s, engine_append_task_progress, "{s:s,s:s,s:i}", "taskId", id, "phase", "working", "percent", 50);
		break;
	case 4: ASK(s, engine_pause_task, "{s:s,s:s}", "taskId", id, "reason", "wait"); break;
	case 5: ASK(s, engine_resume_task, "{s:s}", "taskId", id); break;
	case 6: ASK(s, engine_cancel_task, "{s:s,s:s,s:b}", "taskId", id, "reason", "enough", "propagate", 1); break;
	case 7: ASK(s, engine_retry_task, "{s:s,s:s}", "taskId", id, "reason", "again"); break;
	case 8: ASK(s, engine_complete_task, "{s:s}", "taskId", id); break;
	case 9:
		ASK(s, engine_fail_task, "{s:s,s:{s:s,s:s}}", "taskId", id, "error", "category", "x", "message", "y");
		break;
	case 10:
		ASK(s, engine_link_tasks, "{s:s,s:s,s:s}", "taskId", id, "kind", kinds[sim_pick(&s->w, countof(kinds))],
		    "targetId", PICK(tasks));
		break;
	default: ASK(s, engine_archive_task, "{s:s}", "taskId", id);
	}
}

static void do_subagent(struct sim *s)
{
	const char *id = PICK(subagents);

	switch (sim_pick(&s->w, 6)) {
	case 0:
	case 1: {
		json_t *p = object("{s:s,s:s}", "threadId", PICK(threads), "role", "helper");
		if (sim_chance(&s->w, 60))
			json_object_set_new(p, "commandLine", json_string("cat"));
		if (sim_chance(&s->w, 30))
			json_object_set_new(p, "taskId", json_string(PICK(tasks)));
		if (sim_chance(&s->w, 50))
			json_object_set_new(p, "input", json_string("go"));
		ask(s, engine_spawn_subagent, p);
		break;
	}
	case 2: ASK(s, engine_send_subagent_input, "{s:s,s:s}", "subagentId", id, "input", "more"); break;
	case 3: ASK(s, engine_close_subagent, "{s:s}", "subagentId", id); break;
	case 4: ASK(s, engine_resume_subagent, "{s:s}", "subagentId", id); break;
	default:
		ASK(s, engine_report_subagent, "{s:s,s:s}", "subagentId", id, "status",
		    sim_chance(&s->w, 50) ? "completed" : "idle");
	}
}

static void do_channel(struct sim *s)
{
	const struct caller c = caller_of(s);
	const struct channel_request r = { .transport = "json_rpc",
					   .heartbeat_ms = sim_chance(&s->w, 50) ? 1000 : 0,
					   .session_id = sim_chance(&s->w, 50) ? PICK(sessions) : NULL,
					   .capabilities_json = "[\"permissions\"]" };
	unsigned n = s->channels.count < IDS ? s->channels.count : IDS, at = sim_pick(&s->w, n);
	const char *id = n ? s->channels.id[at] : "channel_none";

	switch (sim_pick(&s->w, 4)) {
	case 0: engine_connect_channel(s->w.engine, &r, &c, on_reply, s); break;
	case 1: engine_reconnect_channel(s->w.engine, id, 0, n ? s->token[at] : "", &c, on_reply, s); break;
	case 2: engine_ack_events(s->w.engine, id, sim_pick(&s->w, 100), &c, on_reply, s); break;
	default: engine_disconnect_channel(s->w.engine, id, "done", &c, on_reply, s);
	}
}

static void do_history(struct sim *s)
{
	const struct caller c = caller_of(s);
	struct compaction_request compaction = { .thread_id = PICK(threads), .trigger = "manual" };
	struct rollback_request rollback = { .thread_id = compaction.thread_id };

	switch (sim_pick(&s->w, 4)) {
	case 0: engine_compact_context(s->w.engine, &compaction, &c, on_reply, s); break;
	case 1:
		compaction.summary = "so far";
		engine_compact_context(s->w.engine, &compaction, &c, on_reply, s);
		break;
	default: rollback.to_turn_id = PICK(turns); engine_rollback_thread(s->w.engine, &rollback, &c, on_reply, s);
	}
}

static void do_money(struct sim *s)
{
	const struct caller c = caller_of(s);
	const struct routing_ask r = { .turn_id = PICK(turns),
				       .want = { .latency = LATENCY_COUNT, .budget_class = BUDGET_HIGH },
				       .profile_json = "{}",
				       .profile_len = 2 };
	const struct cost_report cost = {
		.provider = "p", .model = "m", .usd = 0.01, .turn_id = sim_chance(&s->w, 50) ? PICK(turns) : NULL
	};

	const struct model_registration model = { .name = sim_chance(&s->w, 50) ? "a" : "b",
						  .base_url = "http://127.0.0.1/v1",
						  .model = "m",
						  .replace = true };

	switch (sim_pick(&s->w, 4)) {
	case 0: engine_resolve_routing(s->w.engine, &r, &c, on_reply, s); break;
	case 1: engine_add_model(s->w.engine, &model, &c, on_reply, s); break;
	case 2: engine_remove_model(s->w.engine, model.name, &c, on_reply, s); break;
	default: engine_record_cost(s->w.engine, &cost, &c, on_reply, s);
	}
}

static void do_job(struct sim *s)
{
	switch (sim_pick(&s->w, 3)) {
	case 0:
		ASK(s, engine_create_job, "{s:[{s:s},{s:s},{s:s}],s:i,s:{s:i}}", "items", "commandLine", "true",
		    "commandLine", "true", "input", "x", "maxParallel", 2, "retryPolicy", "maxAttempts", 2);
		break;
	case 1: ASK(s, engine_cancel_job, "{s:s,s:s}", "jobId", PICK(jobs), "reason", "enough"); break;
	default: ASK(s, engine_retry_job_item, "{s:s,s:s}", "jobId", PICK(jobs), "itemId", "item_none");
	}
}

static const struct {
	unsigned weight;
	void (*fn)(struct sim *s);
} requests[] = {
	{ 3, do_session }, { 6, do_process }, { 4, do_terminate }, { 12, do_submit }, { 12, do_turn },
	{ 6, do_tool },    { 8, do_action },  { 6, do_make_task }, { 16, do_task },   { 8, do_subagent },
	{ 4, do_channel }, { 4, do_history }, { 3, do_money },     { 3, do_job },
};

static void request(struct sim *s)
{
	unsigned total = 0, at;

	for (size_t i = 0; i < countof(requests); i++)
		total += requests[i].weight;
	at = sim_pick(&s->w, total);
	for (size_t i = 0; i < countof(requests); i++) {
		if (at < requests[i].weight) {
			s->asked++;
			requests[i].fn(s);
			return;
		}
		at -= requests[i].weight;
	}
}

/* ---- a run ---- */

static void on_verified(void *ctx, const struct store_verdict *v, const struct err *e)
{
	struct sim *s = ctx;

	if ((e || !v->ok) && !s->check.wrong[0])
		snprintf(s->check.wrong, sizeof s->check.wrong, "verify: %.200s", e ? e->message : v->problems[0].what);
	s->connection |= 1ull << 62; /* answered */
}

static void verify(struct sim *s)
{
	s->connection &= ~(1ull << 62);
	store_verify(s->w.store, on_verified, s);
	while (!(s->connection & (1ull << 62))) {
		struct pollfd p = { .fd = store_dispatch_fd(s->w.store), .events = POLLIN };

		poll(&p, 1, 1000);
		store_dispatch(s->w.store);
	}
	s->connection &= ~(1ull << 62);
}

static void step(struct sim *s)
{
	unsigned what = sim_pick(&s->w, 1000);

	if (what < 450) {
		request(s);
	} else if (what < 900) {
		sim_live(&s->w);
	} else if (what < 980) {
		sim_advance(&s->w, sim_pick(&s->w, 3000));
	} else if (what < 997) {
		engine_client_disconnected(s->w.engine, s->connection++);
	} else {
		if (sim_chance(&s->w, 50))
			sim_settle(&s->w); /* otherwise queued batches are committed while the store is closed */
		sim_crash(&s->w, sim_chance(&s->w, 20));
		s->crashes++;
		verify(s);
	}
	if (sim_chance(&s->w, 70)) { /* several things may happen before anything is committed */
		sim_settle(&s->w);
		(void)check_log(&s->check, s->w.store);
	}
}

/* The last steps, to analyse a failure. */
static bool tell(void *ctx, const struct event_view *ev)
{
	buf_auto struct buf json = BUF_INIT;

	event_json(ev, &json);
	fprintf(stderr, "  %.*s\n", (int)(json.len < 600 ? json.len : 600), json.data);
	return true;
}

static void tell_end(struct sim *s)
{
	const char *given = getenv("SIM_TELL");
	uint64_t last = store_last_sequence(s->w.store), n = given && *given ? strtoull(given, NULL, 10) : 12;
	const struct store_query q = { .after = last > n ? last - n : 0, .index = -1 };
	struct err e = ERR_INIT;

	(void)store_events(s->w.store, &q, tell, NULL, &e);
}

static void run_store(struct sim *s, unsigned steps, uint64_t seed)
{
	*s = (struct sim){ .connection = 1 };
	s->w.seed = seed;
	s->w.boot_ns = 1000000000000ull;
	s->w.real_us = 1700000000000000ull;
	snprintf(s->w.dir, sizeof s->w.dir, "/dev/shm/bailiff-sim-XXXXXX");
	if (!mkdtemp(s->w.dir)) {
		snprintf(s->w.dir, sizeof s->w.dir, "/tmp/bailiff-sim-XXXXXX");
		ck_assert_ptr_nonnull(mkdtemp(s->w.dir));
	}
	snprintf(s->w.store_dir, sizeof s->w.store_dir, "%s/store", s->w.dir);
	snprintf(s->w.spool, sizeof s->w.spool, "%s/spool", s->w.dir);
	ck_assert_int_eq(mkdir(s->w.store_dir, 0700), 0);
	ck_assert_int_eq(mkdir(s->w.spool, 0700), 0);
	sim_open(&s->w);
	for (unsigned i = 0; i < steps && !s->check.wrong[0]; i++) {
		step(s);
		if (s->check.wrong[0]) {
			tell_end(s);
			fprintf(stderr, "seed %llu, step %u: %s\n", (unsigned long long)seed, i, s->check.wrong);
		}
	}
	if (!s->check.wrong[0]) {
		sim_settle(&s->w);
		(void)check_log(&s->check, s->w.store);
		verify(s);
	}
}

static void close_store(struct sim *s)
{
	store_close(s->w.store);
	engine_free(s->w.engine);
	for (size_t i = 0; i < SIM_PROCESSES; i++)
		if (s->w.processes[i].stage != SIM_FREE)
			sim_release(&s->w, s->w.processes[i].id, 0);
	check_done(&s->check);
	pid_t pid = fork();
	if (pid == 0) {
		execlp("rm", "rm", "-rf", "--", s->w.dir, (char *)NULL);
		_exit(127);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static uint64_t seed_of(void)
{
	const char *given = getenv("SEED");

	return given && *given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
}

START_TEST(whatever_happens_the_facts_hold)
{
	const char *given = getenv("SIM_STEPS");
	unsigned steps = given && *given ? (unsigned)strtoul(given, NULL, 10) : DEFAULT_STEPS, done = 0;
	uint64_t seed = seed_of(), events = 0, types[EVENT_TYPE_COUNT] = { 0 };
	unsigned asked = 0, answered = 0, refused = 0, crashes = 0, kinds = 0;
	struct sim *s = mem_zalloc(1, sizeof *s);

	fprintf(stderr, "seed %llu, %u steps\n", (unsigned long long)seed, steps);
	while (done < steps) {
		unsigned n = steps - done < STEPS_A_STORE ? steps - done : STEPS_A_STORE;

		run_store(s, n, seed + done);
		for (int t = 0; t < EVENT_TYPE_COUNT; t++)
			types[t] += s->check.seen[t];
		events += s->check.sequence;
		asked += s->asked;
		answered += s->answered;
		refused += s->refused;
		crashes += s->crashes;
		done += n;
		ck_assert_msg(!s->check.wrong[0], "seed %llu: %s", (unsigned long long)(seed + done - n),
			      s->check.wrong);
		close_store(s);
	}
	for (int t = 0; t < EVENT_TYPE_COUNT; t++)
		kinds += types[t] > 0;
	fprintf(stderr, "%u steps: %u requests (%u refused), %llu events of %u types, %u crashes\n", done, asked,
		refused, (unsigned long long)events, kinds, crashes);
	ck_assert_uint_le(answered, asked);
	/* A run with hardly any errors or results would prove little. */
	ck_assert_uint_gt(kinds, steps >= 10000 ? 50 : 20);
	ck_assert_uint_gt(asked - refused, asked / 10);
	free(s);
}
END_TEST

/* The control: a log in which a turn ends twice. The check must report it. */
START_TEST(a_broken_log_is_seen)
{
	struct sim *s = mem_zalloc(1, sizeof *s);
	struct event_draft d = {
		.type = EVENT_TURN_FAILED,
		.payload = "{\"category\":\"x\",\"message\":\"y\",\"retryable\":false,\"processes\":[]}"
	};
	struct err e = ERR_INIT;

	run_store(s, 400, 7);
	ck_assert_str_eq(s->check.wrong, "");
	ck_assert_uint_gt(s->turns.count, 0);
	d.payload_len = strlen(d.payload);
	d.ids[ID_SESSION] = s->sessions.id[0];
	d.ids[ID_THREAD] = s->threads.id[0];
	d.ids[ID_TURN] = s->turns.id[0];
	for (int i = 0; i < 2; i++) {
		struct store_batch *b = store_batch_new(s->w.store);

		ck_assert_msg(store_batch_event(b, &d, &e) == 0, "%s", e.message);
		store_submit(s->w.store, b, 0, NULL, NULL);
	}
	sim_settle(&s->w);
	ck_assert_int_lt(check_log(&s->check, s->w.store), 0);
	close_store(s);
	free(s);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("simulator");
	TCase *t = tcase_create("simulator");

	tcase_set_timeout(t, 3600);
	tcase_add_test(t, a_broken_log_is_seen);
	tcase_add_test(t, whatever_happens_the_facts_hold);
	suite_add_tcase(suite, t);
	SRunner *r = srunner_create(suite);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}

/*
 * The simulator: the whole engine, with its store, against a simulated host. Random requests, random behaviour of
 * processes and models, jumps of the clock, clients that disconnect, and crashes at any point, all from one seed; after
 * each step the log is checked (sim_check.h), and at each crash, and at the end, the read models against a fresh
 * projection. The control is a log for which the check must fail.
 *
 * SIM_STEPS=n SEED=n choose how many and which; the seed is printed, and a failure names the step.
 */

#include "tests/crash/sim_requests.h"

#include <check.h>
#include <poll.h>
#include <sys/wait.h>
#include <time.h>

#define DEFAULT_STEPS 40000u
#define STEPS_A_STORE 1500u /* a store each: short enough that verifying stays cheap */

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
	if (s->w.models.wrong[0] && !s->check.wrong[0])
		snprintf(s->check.wrong, sizeof s->check.wrong, "%s", s->w.models.wrong);
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

/* All of a turn: ctx is its id. */
static bool tell_if(void *ctx, const struct event_view *ev)
{
	char id[80];

	event_id_copy(ev, ID_TURN, id, sizeof id);
	return strcmp(id, ctx) != 0 || tell(NULL, ev);
}

static void tell_turn(struct sim *s, char turn_id[ID_SIZE])
{
	const struct store_query q = { .index = -1 };
	struct err e = ERR_INIT;

	(void)store_events(s->w.store, &q, tell_if, turn_id, &e);
}

static void deny(void *ctx, const char *id, void *value)
{
	struct sim *s = ctx;
	const struct action_answer a = { .action_id = id, .decision = "deny", .source = "user" };

	if ((enum sim_life)(intptr_t)value != LIFE_BEGUN)
		return;
	s->asked++;
	engine_respond_action(s->w.engine, &a, &nobody, on_reply, s);
}

static void stuck(void *ctx, const char *id, void *value)
{
	struct sim *s = ctx;
	char turn_id[ID_SIZE];

	id_copy(turn_id, id);
	snprintf(s->check.wrong, sizeof s->check.wrong, "turn %.80s is stuck", id);
	tell_turn(s, turn_id);
}

/* No more requests, every question is answered: what the loop drives comes to its end. */
static void drain(struct sim *s)
{
	for (unsigned i = 0; i < 3000 && s->check.loops.count && !s->check.wrong[0]; i++) {
		strmap_visit(&s->check.actions, deny, s);
		for (unsigned k = 0; k < 32; k++)
			sim_live(&s->w);
		sim_advance(&s->w, 1000);
		sim_settle(&s->w);
		(void)check_log(&s->check, s->w.store);
	}
	if (!s->check.wrong[0])
		strmap_each(&s->check.loops, stuck, s);
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
		drain(s);
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
	unsigned asked = 0, answered = 0, refused = 0, crashes = 0, kinds = 0, model_requests = 0, effects = 0;
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
		model_requests += s->w.models.requests;
		for (unsigned i = 0; i < s->w.models.count; i++)
			effects += s->w.models.effects[i] == EFFECT_DONE;
		done += n;
		ck_assert_msg(!s->check.wrong[0], "seed %llu: %s", (unsigned long long)(seed + done - n),
			      s->check.wrong);
		close_store(s);
	}
	for (int t = 0; t < EVENT_TYPE_COUNT; t++)
		kinds += types[t] > 0;
	fprintf(stderr,
		"%u steps: %u requests (%u refused), %llu events of %u types, %u crashes; %u requests to models, whose "
		"calls had %u effects\n",
		done, asked, refused, (unsigned long long)events, kinds, crashes, model_requests, effects);
	ck_assert_uint_le(answered, asked);
	/* A run with hardly any errors or results would prove little. */
	ck_assert_uint_gt(kinds, steps >= 10000 ? 50 : 20);
	ck_assert_uint_gt(asked - refused, asked / 10);
	ck_assert_uint_gt(effects, steps >= 10000 ? steps / 100 : 0);
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

static const char *broken(enum dialect d, const char *body)
{
	json_auto_t *request = json_loads(body, 0, NULL);

	ck_assert_ptr_nonnull(request);
	return sim_pairs_broken(d, request);
}

/* The controls of the simulated model: requests without pairs, an effect too early and one that is repeated. */
START_TEST(broken_requests_and_effects_are_seen)
{
#define ANTHROPIC(more) "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}" more "]}"
#define CALLS ",{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"a\"}]}"
#define RESULT "{\"type\":\"tool_result\",\"tool_use_id\":\"a\"}"
#define ANSWER(blocks) ",{\"role\":\"user\",\"content\":[" blocks "]}"
	struct sim_models *m = mem_zalloc(1, sizeof *m);

	ck_assert_ptr_null(broken(DIALECT_ANTHROPIC, ANTHROPIC(CALLS ANSWER(RESULT))));
	ck_assert_ptr_nonnull(broken(DIALECT_ANTHROPIC, ANTHROPIC(CALLS)));
	ck_assert_ptr_nonnull(broken(DIALECT_ANTHROPIC, ANTHROPIC(ANSWER(RESULT))));
	ck_assert_ptr_nonnull(broken(DIALECT_ANTHROPIC, ANTHROPIC(CALLS ANSWER(RESULT "," RESULT))));
	ck_assert_ptr_nonnull(broken(DIALECT_ANTHROPIC, ANTHROPIC(CALLS ANSWER("{\"type\":\"text\"}," RESULT))));
	ck_assert_ptr_nonnull(broken(DIALECT_OPENAI_CHAT, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":"
							  "[{\"id\":\"a\"}]},{\"role\":\"user\"}]}"));
	ck_assert_ptr_nonnull(broken(DIALECT_OPENAI_RESPONSES,
				     "{\"input\":[{\"type\":\"function_call_output\",\"call_id\":\"a\"}]}"));
	ck_assert_ptr_nonnull(broken(DIALECT_GEMINI,
				     "{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"x\"}]},{\"role\":"
				     "\"model\",\"parts\":[{\"functionCall\":{\"name\":\"a\"}}]}]}"));
	sim_effect_happens(m, 1);
	ck_assert_str_ne(m->wrong, "");
	m->wrong[0] = '\0';
	m->effects[1] = EFFECT_PERMITTED;
	sim_effect_happens(m, 2);
	ck_assert_str_eq(m->wrong, "");
	sim_effect_happens(m, 2);
	ck_assert_str_ne(m->wrong, "");
	free(m);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("simulator");
	TCase *t = tcase_create("simulator");

	tcase_set_timeout(t, 3600);
	tcase_add_test(t, a_broken_log_is_seen);
	tcase_add_test(t, broken_requests_and_effects_are_seen);
	tcase_add_test(t, whatever_happens_the_facts_hold);
	suite_add_tcase(suite, t);
	SRunner *r = srunner_create(suite);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}

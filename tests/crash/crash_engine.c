/*
 * The simulator: the whole engine, with its store, against a simulated host. Random requests, random behaviour of
 * processes, models and threads, clocks that jump, clients that disconnect, and crashes at any point, all from one
 * seed; after each step the log is checked (sim_check.h), and in a third of the histories, at each crash and at the
 * end, the read models against a fresh projection. A history that fails is shrunk to the steps that it needs.
 *
 * SIM_STEPS=n SEED=n SIM_JOBS=n set the number of steps, the seed, which is printed, and the number of processes. With
 * SIM_DISK=0 no write fails.
 * SEED=n SIM_SCRIPT=all or SIM_SCRIPT=3,17,40 repeats one history, or these steps of it, and prints what happens.
 */

#include "runtime/base/log.h"
#include "tests/crash/sim_shrink.h"

#include <check.h>
#include <sys/resource.h>

#define DEFAULT_STEPS 40000u

/* ---- runs ---- */

/* The totals of a process, in memory that is shared with its parent. */
struct totals {
	uint64_t steps, histories, drained, events, types[EVENT_TYPE_COUNT];
	uint64_t asked, answered, refused, repeated, crashes, kills, model_requests, mcp_calls, effects;
	uint64_t seed; /* of the current history */
	char wrong[300];
};

static void totals_add(struct totals *t, const struct sim *s, unsigned steps)
{
	t->steps += steps;
	t->histories++;
	t->drained += s->drained;
	for (int i = 0; i < EVENT_TYPE_COUNT; i++)
		t->types[i] += s->check.seen[i];
	t->events += s->check.sequence;
	t->asked += s->asked;
	t->answered += s->answered;
	t->refused += s->refused;
	t->crashes += s->crashes;
	t->kills += s->kills;
	t->repeated += s->repeated;
	t->model_requests += s->w.models.requests;
	t->mcp_calls += s->w.models.mcp_calls;
	for (unsigned i = 0; i < s->w.models.count; i++)
		t->effects += s->w.models.effects[i] == EFFECT_DONE;
}

/* Every `each`th seed, until there are enough steps. */
static void run_histories(struct totals *t, uint64_t seed, unsigned each, uint64_t steps)
{
	struct sim *s = mem_zalloc(1, sizeof *s);
	struct script x;

	for (; t->steps < steps; seed += each) {
		t->seed = seed;
		script_init(&x, seed);
		if (t->steps + x.count > steps)
			x.count = (unsigned)(steps - t->steps);
		sim_run(s, &x, SIM_QUIET);
		memcpy(t->wrong, s->check.wrong, sizeof t->wrong);
		totals_add(t, s, x.count);
		sim_end(s);
		if (t->wrong[0])
			_exit(1);
	}
	free(s);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	const char *given = getenv(name);

	return given && *given ? strtoull(given, NULL, 10) : otherwise;
}

static void report(const struct totals *all, unsigned kinds)
{
	struct rusage used = { 0 };

	getrusage(RUSAGE_CHILDREN, &used);
#define U(x) (unsigned long long)all->x
	fprintf(stderr,
		"%llu steps: %llu requests (%llu refused, %llu repeated), %llu events of %u types, %llu histories, "
		"%llu stops and kills (%llu kills at a write); %llu requests to models, %llu calls of MCP servers, "
		"%llu "
		"effects; %llu tasks of peers with %llu reports; "
		"%llu outputs and %llu sessions expired; %llu more steps of processes at the ends; %.0f "
		"steps "
		"per second of processor time\n",
		U(steps), U(asked), U(refused), U(repeated), U(events), kinds, U(histories), U(crashes), U(kills),
		U(model_requests), U(mcp_calls), U(effects), U(types[EVENT_CHANNEL_PEER_TASK_LINKED]),
		U(types[EVENT_CHANNEL_PEER_TASK_UPDATED]), U(types[EVENT_OUTPUT_EXPIRED]),
		U(types[EVENT_SESSION_EXPIRED]), U(drained),
		(double)all->steps / ((double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
				      1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec)));
#undef U
}

/* Adds what each process did. The first failure, if there is one, is shrunk. */
static void wait_for(struct totals *each, const pid_t *pids, unsigned jobs, struct totals *all)
{
	for (unsigned i = 0; i < jobs; i++) {
		struct totals *t = &each[i];
		int status = 0;

		waitpid(pids[i], &status, 0);
		if (status && !t->wrong[0])
			snprintf(t->wrong, sizeof t->wrong, SIGNALLED "%d", WTERMSIG(status));
		if (t->wrong[0] && !all->wrong[0]) {
			memcpy(all->wrong, t->wrong, sizeof all->wrong);
			all->seed = t->seed;
		}
		all->steps += t->steps;
		all->histories += t->histories;
		all->drained += t->drained;
		all->events += t->events;
		all->asked += t->asked;
		all->answered += t->answered;
		all->refused += t->refused;
		all->crashes += t->crashes;
		all->kills += t->kills;
		all->repeated += t->repeated;
		all->model_requests += t->model_requests;
		all->mcp_calls += t->mcp_calls;
		all->effects += t->effects;
		for (int k = 0; k < EVENT_TYPE_COUNT; k++)
			all->types[k] += t->types[k];
	}
}

START_TEST(whatever_happens_the_facts_hold)
{
	const uint64_t steps = number_of("SIM_STEPS", DEFAULT_STEPS), seed = number_of("SEED", (uint64_t)time(NULL));
	const unsigned jobs = (unsigned)number_of("SIM_JOBS", 1);
	struct totals *each = shared_memory(jobs * sizeof *each), all = { 0 };
	pid_t *pids = mem_zalloc(jobs, sizeof *pids);
	unsigned kinds = 0;

	fprintf(stderr, "seed %llu, %llu steps\n", (unsigned long long)seed, (unsigned long long)steps);
	for (unsigned i = 0; i < jobs; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			run_histories(&each[i], seed + i, jobs, steps / jobs + (i < steps % jobs));
			_exit(0);
		}
	}
	wait_for(each, pids, jobs, &all);
	for (int t = 0; t < EVENT_TYPE_COUNT; t++)
		kinds += all.types[t] > 0;
	report(&all, kinds);
	if (all.wrong[0]) {
		struct script x;

		script_init(&x, all.seed);
		shrink(&x, all.wrong, SIM_QUIET);
		tell_script(&x);
	}
	ck_assert_msg(!all.wrong[0], "seed %llu: %s", (unsigned long long)all.seed, all.wrong);
	ck_assert_uint_le(all.answered, all.asked);
	/* A run with hardly any errors or results would prove little. */
	ck_assert_uint_gt(kinds, steps >= 10000 ? 50 : 20);
	ck_assert_uint_gt(all.asked - all.refused, all.asked / 10);
	ck_assert_uint_gt(all.effects, steps >= 10000 ? steps / 400 : 0);
	munmap(each, jobs * sizeof *each);
	free(pids);
}
END_TEST

/* The controls of kills: an event that was read is missing afterwards, or differs. */
START_TEST(a_lost_event_is_seen)
{
	struct sim *s = mem_zalloc(1, sizeof *s);
	struct script x;

	script_init(&x, 7);
	sim_run(s, &x, SIM_QUIET);
	check_survived(&s->check, s->w.store);
	ck_assert_str_eq(s->check.wrong, "");
	s->check.real_us++;
	check_survived(&s->check, s->w.store);
	ck_assert_str_ne(s->check.wrong, "");
	s->check.wrong[0] = '\0';
	s->check.real_us--;
	s->check.sequence = store_last_sequence(s->w.store) + 1;
	check_survived(&s->check, s->w.store);
	ck_assert_str_ne(s->check.wrong, "");
	sim_end(s);
	free(s);
}
END_TEST

/* The first history from seed 7 on that has one of these; sim_end() afterwards. */
static void run_until_there_is(struct sim *s, const struct pool *these)
{
	struct script x;

	for (uint64_t seed = 7; !these->count; seed++) {
		if (seed > 7)
			sim_end(s);
		script_init(&x, seed);
		sim_run(s, &x, SIM_QUIET);
		ck_assert_str_eq(s->check.wrong, "");
	}
}

/* The control: a log in which a turn ends twice. The check must report it. */
START_TEST(a_broken_log_is_seen)
{
	struct sim *s = mem_zalloc(1, sizeof *s);
	struct event_draft d = {
		.type = EVENT_TURN_FAILED,
		.payload = "{\"category\":\"x\",\"message\":\"y\",\"retryable\":false,\"processes\":[]}"
	};
	struct err e = ERR_INIT;

	run_until_there_is(s, &s->turns);
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
	sim_end(s);
	free(s);
}
END_TEST

/* The control of the expiry: an output expires whose process has not ended. */
START_TEST(an_output_that_expires_too_early_is_seen)
{
	struct sim *s = mem_zalloc(1, sizeof *s);
	struct event_draft d = { .type = EVENT_OUTPUT_EXPIRED,
				 .payload = "{\"outputRef\":\"out_x\",\"bytes\":1,\"policy\":\"retention\","
					    "\"expiredAt\":\"2026-11-18T00:00:00Z\"}" };
	struct store_batch *b;
	struct err e = ERR_INIT;

	run_until_there_is(s, &s->sessions);
	d.payload_len = strlen(d.payload);
	d.ids[ID_SESSION] = s->sessions.id[0];
	d.ids[ID_PROCESS] = "proc_x";
	d.ids[ID_OUTPUT] = "out_x";
	b = store_batch_new(s->w.store);
	ck_assert_msg(store_batch_event(b, &d, &e) == 0, "%s", e.message);
	store_submit(s->w.store, b, 0, NULL, NULL);
	sim_settle(&s->w);
	ck_assert_int_lt(check_log(&s->check, s->w.store), 0);
	ck_assert_ptr_nonnull(strstr(s->check.wrong, "its process has not ended"));
	sim_end(s);
	free(s);
}
END_TEST

/* The controls of MCP servers and peers: one is removed that was not added, a report about a task that is not linked.
 */
START_TEST(unknown_servers_and_peers_are_seen)
{
	static const struct {
		enum event_type type;
		const char *payload;
	} facts[] = {
		{ EVENT_MCP_SERVER_REMOVED, "{\"name\":\"x\",\"requestedBy\":{}}" },
		{ EVENT_CHANNEL_PEER_TASK_UPDATED, "{\"remoteTaskId\":\"x\",\"remoteStatus\":\"working\"}" },
	};

	for (size_t i = 0; i < countof(facts); i++) {
		struct sim *s = mem_zalloc(1, sizeof *s);
		struct event_draft d = { .type = facts[i].type,
					 .payload = facts[i].payload,
					 .payload_len = strlen(facts[i].payload) };
		struct err e = ERR_INIT;

		run_until_there_is(s, &s->turns);
		d.ids[ID_SESSION] = s->sessions.id[0];
		d.ids[ID_THREAD] = s->threads.id[0];
		d.ids[ID_TURN] = s->turns.id[0];
		d.ids[ID_CHANNEL] = "channel_x";
		struct store_batch *b = store_batch_new(s->w.store);
		ck_assert_msg(store_batch_event(b, &d, &e) == 0, "%s", e.message);
		store_submit(s->w.store, b, 0, NULL, NULL);
		sim_settle(&s->w);
		ck_assert_int_lt(check_log(&s->check, s->w.store), 0);
		sim_end(s);
		free(s);
	}
}
END_TEST

/* The controls of the simulated model: requests without pairs, an effect too early and one that is repeated. */
START_TEST(broken_requests_and_effects_are_seen)
{
#define ANTHROPIC(more) "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}" more "]}"
#define CALLS ",{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"a\"}]}"
#define RESULT "{\"type\":\"tool_result\",\"tool_use_id\":\"a\"}"
#define ANSWER(blocks) ",{\"role\":\"user\",\"content\":[" blocks "]}"
	struct sim_models *m = mem_zalloc(1, sizeof *m);

	ck_assert_ptr_null(sim_pairs_broken(DIALECT_ANTHROPIC, ANTHROPIC(CALLS ANSWER(RESULT))));
	ck_assert_ptr_nonnull(sim_pairs_broken(DIALECT_ANTHROPIC, ANTHROPIC(CALLS)));
	ck_assert_ptr_nonnull(sim_pairs_broken(DIALECT_ANTHROPIC, ANTHROPIC(ANSWER(RESULT))));
	ck_assert_ptr_nonnull(sim_pairs_broken(DIALECT_ANTHROPIC, ANTHROPIC(CALLS ANSWER(RESULT "," RESULT))));
	ck_assert_ptr_nonnull(
		sim_pairs_broken(DIALECT_ANTHROPIC, ANTHROPIC(CALLS ANSWER("{\"type\":\"text\"}," RESULT))));
	ck_assert_ptr_nonnull(sim_pairs_broken(DIALECT_OPENAI_CHAT,
					       "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":"
					       "[{\"id\":\"a\"}]},{\"role\":\"user\"}]}"));
	ck_assert_ptr_nonnull(sim_pairs_broken(DIALECT_OPENAI_RESPONSES,
					       "{\"input\":[{\"type\":\"function_call_output\",\"call_id\":\"a\"}]}"));
	ck_assert_ptr_nonnull(sim_pairs_broken(
		DIALECT_GEMINI, "{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"x\"}]},{\"role\":"
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

/* The control of the shrinking: a rule that histories break when a person allows something. */
START_TEST(a_failure_is_shrunk)
{
	struct script x, again;
	char wrong[300] = "", shrunk[300] = "", repeated[300] = "";

	for (uint64_t seed = 1; !wrong[0]; seed++) {
		script_init(&x, seed);
		attempt(&x, SIM_BROKEN_RULE, wrong);
	}
	again = x;
	attempt(&again, SIM_BROKEN_RULE, repeated);
	ck_assert_str_eq(repeated, wrong); /* with the same ids */
	shrink(&x, wrong, SIM_BROKEN_RULE);
	attempt(&x, SIM_BROKEN_RULE, shrunk);
	ck_assert(same_failure(wrong, shrunk));
	ck_assert_uint_ge(x.count, 2); /* a question is asked and answered */
	ck_assert_uint_le(x.count, 8);
}
END_TEST

/* Repeats a history, or some steps of it. */
static int repeat(const char *steps)
{
	struct script x;

	script_init(&x, number_of("SEED", 1));
	if (strcmp(steps, "all") != 0)
		script_select(&x, steps);
	return tell_script(&x) ? 1 : 0;
}

int main(void)
{
	Suite *suite = suite_create("simulator");
	TCase *t = tcase_create("simulator");
	const char *script = getenv("SIM_SCRIPT");

	disk.may_fail = number_of("SIM_DISK", 1);
	json_object_seed(1);
	log_setup("simulator", LOG_LEVEL_ERROR, false); /* hooks often fail */
	if (script && *script)
		return repeat(script);
	tcase_set_timeout(t, getenv("SIM_STEPS") ? 0 : 3600);
	tcase_add_test(t, a_broken_log_is_seen);
	tcase_add_test(t, a_lost_event_is_seen);
	tcase_add_test(t, an_output_that_expires_too_early_is_seen);
	tcase_add_test(t, unknown_servers_and_peers_are_seen);
	tcase_add_test(t, broken_requests_and_effects_are_seen);
	tcase_add_test(t, a_failure_is_shrunk);
	tcase_add_test(t, whatever_happens_the_facts_hold);
	suite_add_tcase(suite, t);
	SRunner *r = srunner_create(suite);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}

/*
 * Tasks and jobs under random requests, ends and crashes, from a seed. After each step: what has ended has no open
 * attempt, what is cancelled has no live process, and an answer is either a result or an error that says why. At the
 * end the models equal a fresh projection of the log.
 */

#include "tests/unit/runtime/engine/fake_host.h"

#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/engine/work/work.h"
#include "runtime/view/view_task.h"

#include <check.h>
#include <signal.h>

#define NAMES 6
#define STEPS 400
#define SEEDS 4
#define ATTEMPT 1

static struct fake_host w;
static uint64_t state;
static enum { LAUNCHED, RUNNING, ENDED } lives[FAKE_PROCESSES];

static unsigned dice(unsigned n)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(state >> 33) % n;
}

typedef void engine_fn(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn, void *ctx);

static void ask(engine_fn *fn, const char *params)
{
	struct fake_reply reply = { 0 };
	json_t *json = json_loads(params, 0, NULL);

	ck_assert_msg(json != NULL, "%s", params);
	fn(w.engine, json, &fake_caller, fake_reply_fn, &reply);
	json_decref(json);
	if (dice(2)) /* the next request may come before this one is durable */
		fake_settle(&w);
	while (reply.count == 0)
		fake_settle(&w);
	ck_assert_uint_eq(reply.count, 1);
	ck_assert_int_ne(reply.code, ERR_INTERNAL);
	if (reply.code)
		ck_assert_uint_gt(strlen(reply.message), 0);
	buf_done(&reply.json);
}

/* One of the latest. */
static unsigned any(unsigned made) { return made > NAMES ? made - NAMES + dice(NAMES) : dice(made + 1); }

static void random_request(unsigned *made)
{
	static const struct {
		engine_fn *fn;
		const char *more;
	} verbs[] = {
		{ engine_start_task, "" },
		{ engine_start_task, "" },
		{ engine_start_task, "" },
		{ engine_append_task_progress, ",\"percent\":5" },
		{ engine_pause_task, "" },
		{ engine_resume_task, "" },
		{ engine_resume_task, "" },
		{ engine_cancel_task, "" },
		{ engine_retry_task, "" },
		{ engine_retry_task, "" },
		{ engine_complete_task, "" },
		{ engine_complete_task, "" },
		{ engine_fail_task, ",\"error\":\"x\"" },
		{ engine_archive_task, "" },
		{ engine_update_task, ",\"status\":\"waiting_input\",\"reason\":\"r\"" },
		{ engine_update_task, ",\"status\":\"running\"" },
		{ engine_update_task, ",\"title\":\"t\"" },
	};
	static const char *const kinds[] = { "parent", "child", "blocks", "blocked_by", "source_task" };
	unsigned what = dice(30), one = any(*made), other = any(*made);
	mem_auto char *params = NULL;

	if (what < 6) {
		params = mem_printf("{\"taskId\":\"t%u\",\"objective\":\"o\"%s%s%s}", *made,
				    dice(2) ? ",\"commandLine\":\"true\"" : "", dice(2) ? ",\"autoComplete\":true" : "",
				    dice(3) ? "" : ",\"retryPolicy\":{\"maxAttempts\":3,\"backoffMs\":50}");
		ask(engine_create_task, params);
		(*made)++;
	} else if (what < 10) {
		params = mem_printf("{\"taskId\":\"t%u\",\"kind\":\"%s\",\"targetId\":\"t%u\"}", one,
				    kinds[dice(countof(kinds))], other);
		ask(dice(4) ? engine_link_tasks : engine_unlink_tasks, params);
	} else if (what < 12) {
		params = mem_printf("{\"taskId\":\"t%u\",\"items\":[{},{}],\"maxParallel\":1,\"commandLine\":\"true\","
				    "\"retryPolicy\":{\"maxAttempts\":2}}",
				    one);
		ask(engine_create_job, params);
	} else {
		unsigned v = dice(countof(verbs));
		params = mem_printf("{\"taskId\":\"t%u\"%s}", one, verbs[v].more);
		ask(verbs[v].fn, params);
	}
}

/* Some process goes a step further. */
static void random_process(void)
{
	const struct port_started s = { .pid = 4242, .start_time = 99, .attempt = ATTEMPT };
	unsigned i = w.nprocesses ? dice((unsigned)w.nprocesses) : 0;

	for (size_t n = 0; n < w.nprocesses && lives[i] == ENDED; n++)
		i = (i + 1) % (unsigned)w.nprocesses;
	if (!w.nprocesses || lives[i] == ENDED)
		return;
	struct fake_process *p = &w.processes[i];
	if (lives[i] == LAUNCHED) {
		engine_on_started(w.engine, p->id, &s);
		engine_on_ready(w.engine, p->id, PLAN_LAYER_NAMESPACES | PLAN_LAYER_MOUNTS);
		fake_settle(&w);
		engine_on_execed(w.engine, p->id);
		lives[i] = RUNNING;
	} else {
		lives[i] = ENDED;
		fake_exit(&w, p, p->signals & 1ull << (SIGTERM - 1) ? SIGTERM : dice(2) ? 0 : 1 << 8, 0);
	}
	fake_settle(&w);
}

/* Half of what ran is still held by the guard; what was only launched never was. */
static void random_crash(void)
{
	struct port_held held[FAKE_PROCESSES];
	size_t n = 0;

	fake_settle(&w);
	fake_crash(&w);
	for (size_t i = 0; i < w.nprocesses; i++) {
		if (lives[i] == RUNNING && dice(2))
			held[n++] = (struct port_held){ .id = w.processes[i].id, .attempt = ATTEMPT, .started = true };
		else if (lives[i] == RUNNING)
			lives[i] = ENDED;
	}
	fake_reopen(&w, held, n);
	fake_settle(&w);
}

static void check_tasks(unsigned made)
{
	for (unsigned t = made > 2 * NAMES ? made - 2 * NAMES : 0; t < made; t++) {
		mem_auto char *id = mem_printf("t%u", t);
		buf_auto struct buf text = BUF_INIT;
		struct task_doc d;
		struct err e = ERR_INIT;
		if (view_read(w.store, &task_schema, id, &text, &d, &e) != 0)
			continue;
		ck_assert_int_lt(task_doc_status(&d), TASK_STATUS_COUNT);
		if (!task_status_ended(task_doc_status(&d)))
			continue;
		ck_assert_msg(!d.attemptOpen, "%s is %s with an open attempt", id, d.status);
		ck_assert_msg(d.endedAt != 0, "%s is %s and has not ended", id, d.status);
	}
}

START_TEST(nothing_illegal_comes_of_it)
{
	unsigned made = 0;

	state = (uint64_t)_i * 7919 + 1;
	memset(lives, 0, sizeof lives);
	fake_open(&w);
	for (int i = 0; i < STEPS && w.nprocesses < FAKE_PROCESSES - 16; i++) {
		unsigned what = dice(20);
		if (what < 12)
			random_request(&made);
		else if (what < 18)
			random_process();
		else if (what == 18)
			fake_advance(&w, dice(200));
		else if (dice(4) == 0)
			random_crash();
		fake_settle(&w);
		check_tasks(made);
	}
	/* Everything that is asked to end comes to an end. */
	for (unsigned t = 0; t < made; t++) {
		mem_auto char *params = mem_printf("{\"taskId\":\"t%u\"}", t);
		ask(engine_cancel_task, params);
	}
	for (int i = 0; i < 4 * FAKE_PROCESSES; i++)
		random_process();
	fake_settle(&w);
	for (unsigned t = 0; t < made; t++) {
		mem_auto char *id = mem_printf("t%u", t);
		buf_auto struct buf text = BUF_INIT;
		struct task_doc d;
		struct err e = ERR_INIT;
		if (view_read(w.store, &task_schema, id, &text, &d, &e) == 0)
			ck_assert_msg(task_status_ended(task_doc_status(&d)), "%s is %s", id, d.status);
	}
	ck_assert(fake_verified(&w));
	static const char *const seen[] = { "task.attempt.started", "task.attempt.failed", "task.completed",
					    "task.cancelled",       "job.item.started",    "task.dependency.updated" };
	for (size_t i = 0; i < countof(seen); i++)
		ck_assert_msg(fake_count(&w, seen[i]) > 0, "no %s with seed %d", seen[i], _i);
	fake_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("task random");
	TCase *t = tcase_create("task random");

	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, nothing_illegal_comes_of_it, 0, SEEDS);
	suite_add_tcase(s, t);
	SRunner *runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}

/*
 * Tasks and jobs under random requests, ends and crashes, from a seed. After each step: an ended task has no open
 * attempt, a cancelled one has no live process, and a reply is either a result or an error with a message. At the end
 * the read models equal a new projection of the log.
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

static unsigned random_below(unsigned n)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(state >> 33) % n;
}

typedef void engine_fn(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn, void *ctx);

static void send_request(engine_fn *fn, const char *params)
{
	struct fake_reply reply = { 0 };
	json_t *json = json_loads(params, 0, NULL);

	ck_assert_msg(json != NULL, "%s", params);
	fn(w.engine, json, &fake_caller, fake_reply_fn, &reply);
	json_decref(json);
	if (random_below(2)) /* the next request may arrive before this one is durable */
		fake_settle(&w);
	while (reply.count == 0)
		fake_settle(&w);
	ck_assert_uint_eq(reply.count, 1);
	ck_assert_int_ne(reply.code, ERR_INTERNAL);
	if (reply.code)
		ck_assert_uint_gt(strlen(reply.message), 0);
	buf_done(&reply.json);
}

/* One of the newest. */
static unsigned any(unsigned made)
{
	return made > NAMES ? made - NAMES + random_below(NAMES) : random_below(made + 1);
}

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
	unsigned what = random_below(30), one = any(*made), other = any(*made);
	mem_auto char *params = NULL;

	if (what < 6) {
		params = mem_printf("{\"taskId\":\"t%u\",\"objective\":\"o\"%s%s%s}", *made,
				    random_below(2) ? ",\"commandLine\":\"true\"" : "",
				    random_below(2) ? ",\"autoComplete\":true" : "",
				    random_below(3) ? "" : ",\"retryPolicy\":{\"maxAttempts\":3,\"backoffMs\":50}");
		send_request(engine_create_task, params);
		(*made)++;
	} else if (what < 10) {
		params = mem_printf("{\"taskId\":\"t%u\",\"kind\":\"%s\",\"targetId\":\"t%u\"}", one,
				    kinds[random_below(countof(kinds))], other);
		send_request(random_below(4) ? engine_link_tasks : engine_unlink_tasks, params);
	} else if (what < 12) {
		params = mem_printf("{\"taskId\":\"t%u\",\"items\":[{},{}],\"maxParallel\":1,\"commandLine\":\"true\","
				    "\"retryPolicy\":{\"maxAttempts\":2}}",
				    one);
		send_request(engine_create_job, params);
	} else {
		unsigned v = random_below(countof(verbs));
		params = mem_printf("{\"taskId\":\"t%u\"%s}", one, verbs[v].more);
		send_request(verbs[v].fn, params);
	}
}

/* A random process advances by one step. */
static void random_process(void)
{
	const struct port_started s = { .pid = 4242, .start_time = 99, .attempt = ATTEMPT };
	unsigned i = w.nprocesses ? random_below((unsigned)w.nprocesses) : 0;

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
		fake_exit(&w, p, p->signals & 1ull << (SIGTERM - 1) ? SIGTERM : random_below(2) ? 0 : 1 << 8, 0);
	}
	fake_settle(&w);
}

/* The guard still holds half of the running processes, and none that were only launched. */
static void random_crash(void)
{
	struct port_held held[FAKE_PROCESSES];
	size_t n = 0;

	fake_settle(&w);
	fake_crash(&w);
	for (size_t i = 0; i < w.nprocesses; i++) {
		if (lives[i] == RUNNING && random_below(2))
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

START_TEST(random_requests_ends_and_crashes_keep_tasks_consistent)
{
	unsigned made = 0;

	state = (uint64_t)_i * 7919 + 1;
	memset(lives, 0, sizeof lives);
	fake_open(&w);
	for (int i = 0; i < STEPS && w.nprocesses < FAKE_PROCESSES - 16; i++) {
		unsigned what = random_below(20);
		if (what < 12)
			random_request(&made);
		else if (what < 18)
			random_process();
		else if (what == 18)
			fake_advance(&w, random_below(200));
		else if (random_below(4) == 0)
			random_crash();
		fake_settle(&w);
		check_tasks(made);
	}
	/* Everything that is requested to end ends. */
	for (unsigned t = 0; t < made; t++) {
		mem_auto char *params = mem_printf("{\"taskId\":\"t%u\"}", t);
		send_request(engine_cancel_task, params);
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
	Suite *s = suite_create("task_random");
	TCase *t = tcase_create("task random");

	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, random_requests_ends_and_crashes_keep_tasks_consistent, 0, SEEDS);
	suite_add_tcase(s, t);
	SRunner *runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}

/* Tasks and jobs against a host that does what the test says: a clock that is moved by hand, and crashes where they
 * hurt. */

#include "tests/unit/runtime/engine/fake_host.h"

#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/engine/work/work.h"
#include "runtime/view/view_job.h"
#include "runtime/view/view_task.h"

#include <check.h>
#include <signal.h>

#define EXITED(code) ((code) << 8)

static struct fake_host w;
static struct fake_reply reply;

static void set_up(void)
{
	fake_open(&w);
	reply = (struct fake_reply){ 0 };
}

static void tear_down(void)
{
	fake_settle(&w);
	ck_assert(fake_verified(&w));
	fake_close(&w);
	buf_done(&reply.json);
}

typedef void engine_fn(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn, void *ctx);

/* Asks, waits until it is recorded, and says which error there was (0 = none). */
static int ask(engine_fn *fn, const char *params)
{
	json_t *json = json_loads(params, 0, NULL);

	ck_assert_msg(json != NULL, "%s", params);
	buf_done(&reply.json);
	reply = (struct fake_reply){ 0 };
	fn(w.engine, json, &fake_caller, fake_reply_fn, &reply);
	json_decref(json);
	fake_settle(&w);
	ck_assert_uint_eq(reply.count, 1);
	return reply.code;
}

static bool is(const char *id, const char *path, const char *value)
{
	buf_auto struct buf doc = BUF_INIT;
	struct err e = ERR_INIT;

	ck_assert_msg(view_task(w.store, VIEW_ANY_UID, id, &doc, &e) == 0, "%s", e.message);
	return jval_is_str(jval_path(jval_of(doc.data, doc.len), path), value);
}

static size_t attempts(const char *id)
{
	buf_auto struct buf doc = BUF_INIT;
	struct err e = ERR_INIT;
	size_t n = 0;

	ck_assert_int_eq(view_task(w.store, VIEW_ANY_UID, id, &doc, &e), 0);
	for (struct jiter it = jiter_on(jval_get(jval_of(doc.data, doc.len), "attempts")); jiter_next(&it);)
		n++;
	return n;
}

static uint64_t job_number(const char *id, const char *path)
{
	buf_auto struct buf doc = BUF_INIT;
	struct err e = ERR_INIT;

	ck_assert_msg(view_job(w.store, VIEW_ANY_UID, id, 0, 1000, &doc, &e) == 0, "%s", e.message);
	return jval_uint(jval_path(jval_of(doc.data, doc.len), path), UINT64_MAX);
}

/* The newest process is let run. */
static struct fake_process *runs(void)
{
	struct fake_process *p = fake_last(&w);
	const struct port_started s = { .pid = 4242, .start_time = 99, .attempt = 1 };

	engine_on_started(w.engine, p->id, &s);
	engine_on_ready(w.engine, p->id, PLAN_LAYER_NAMESPACES | PLAN_LAYER_MOUNTS);
	fake_settle(&w);
	engine_on_execed(w.engine, p->id);
	return p;
}

static void dies(struct fake_process *p, int sig) { fake_exit(&w, p, sig, 0); }

START_TEST(an_attempt_is_durable_before_its_process_is_launched)
{
	json_t *params = json_loads("{\"taskId\":\"t\"}", 0, NULL);

	ck_assert_int_eq(ask(engine_create_task, "{\"taskId\":\"t\",\"objective\":\"o\",\"commandLine\":\"true\"}"), 0);
	buf_done(&reply.json);
	reply = (struct fake_reply){ 0 };
	engine_start_task(w.engine, params, &fake_caller, fake_reply_fn, &reply);
	json_decref(params);
	ck_assert_uint_eq(w.nprocesses, 0);
	fake_settle(&w);
	ck_assert_uint_eq(w.nprocesses, 1);
	ck_assert(jval_is_str(jval_get(jval_of(reply.json.data, reply.json.len), "processId"), w.processes[0].id));
	ck_assert(is("t", "status", "preparing"));
	struct fake_process *p = runs();
	ck_assert(is("t", "status", "running"));
	dies(p, EXITED(0));
	ck_assert(is("t", "status", "waiting_input"));
	ck_assert_int_eq(ask(engine_complete_task, "{\"taskId\":\"t\"}"), 0);
	ck_assert(is("t", "status", "completed"));
}
END_TEST

START_TEST(what_certainly_never_ran_is_launched_once_more)
{
	ask(engine_create_task,
	    "{\"taskId\":\"t\",\"objective\":\"o\",\"commandLine\":\"true\",\"autoComplete\":true}");
	ask(engine_start_task, "{\"taskId\":\"t\"}");
	ck_assert_uint_eq(w.nprocesses, 1);
	fake_crash(&w); /* before anything of the process was recorded */
	fake_reopen(&w, NULL, 0);
	fake_settle(&w);
	ck_assert_uint_eq(w.nprocesses, 1);
	ck_assert_uint_eq(w.processes[0].launches, 2);
	ck_assert_uint_eq(attempts("t"), 1);
	dies(runs(), EXITED(0));
	ck_assert(is("t", "status", "completed"));
}
END_TEST

#define FLEET_TASK                                                                               \
	"{\"taskId\":\"t\",\"objective\":\"o\",\"commandLine\":\"true\",\"leaseUntil\":1020000," \
	"\"fleet\":{\"taskId\":\"f\",\"token\":1,\"leaseMs\":30000}}"

/* Another node may have it by now. */
START_TEST(what_never_ran_of_a_fleet_is_not_launched_after_a_restart)
{
	ck_assert_int_eq(ask(engine_create_task, FLEET_TASK), 0);
	ask(engine_start_task, "{\"taskId\":\"t\"}");
	ck_assert_uint_eq(w.processes[0].launches, 1);
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	fake_settle(&w);
	ck_assert_int_eq(ask(engine_renew_lease, "{\"taskId\":\"t\",\"leaseUntil\":1020000}"), ERR_EXPIRED);
	fake_advance(&w, 1);
	ck_assert_uint_eq(w.processes[0].launches, 1);
	ck_assert(is("t", "status", "cancelled"));
	ck_assert(is("t", "statusReason", "lease_over"));
}
END_TEST

/* The process is there, but its command is still at the gate. */
START_TEST(what_has_not_begun_when_the_lease_ends_does_not_begin)
{
	const struct port_started s = { .pid = 4242, .start_time = 99, .attempt = 1 };

	ck_assert_int_eq(ask(engine_create_task, FLEET_TASK), 0);
	ask(engine_start_task, "{\"taskId\":\"t\"}");
	struct fake_process *p = fake_last(&w);
	fake_advance(&w, 30000);
	engine_on_started(w.engine, p->id, &s);
	engine_on_ready(w.engine, p->id, PLAN_LAYER_NAMESPACES | PLAN_LAYER_MOUNTS);
	fake_settle(&w);
	ck_assert(!p->gate_open);
	ck_assert(p->killed);
	fake_exit(&w, p, SIGKILL, 0);
	fake_settle(&w);
	ck_assert(is("t", "status", "cancelled"));
	ck_assert_uint_eq(fake_count(&w, "process.terminated"), 1);
	ck_assert(fake_verified(&w));
}
END_TEST

START_TEST(what_waits_of_a_fleet_is_not_begun_after_a_restart)
{
	ck_assert_int_eq(ask(engine_create_task, "{\"taskId\":\"a\",\"objective\":\"o\"}"), 0);
	ck_assert_int_eq(ask(engine_create_task, FLEET_TASK), 0);
	ask(engine_link_tasks, "{\"taskId\":\"t\",\"kind\":\"blocked_by\",\"targetId\":\"a\"}");
	ask(engine_start_task, "{\"taskId\":\"t\"}");
	ck_assert(is("t", "status", "queued"));
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	fake_settle(&w);
	fake_advance(&w, 1);
	ck_assert_uint_eq(w.nprocesses, 0);
	ck_assert(is("t", "status", "cancelled"));
}
END_TEST

START_TEST(what_cannot_be_proved_is_lost)
{
	ask(engine_create_task, "{\"taskId\":\"t\",\"objective\":\"o\",\"commandLine\":\"true\"}");
	ask(engine_create_task,
	    "{\"taskId\":\"again\",\"objective\":\"o\",\"commandLine\":\"true\",\"retryPolicy\":{\"maxAttempts\":2}}");
	ask(engine_start_task, "{\"taskId\":\"t\"}");
	runs();
	ask(engine_start_task, "{\"taskId\":\"again\"}");
	runs();
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	fake_settle(&w);
	ck_assert(is("t", "status", "lost"));
	ck_assert(is("again", "status", "preparing"));
	ck_assert_uint_eq(attempts("again"), 2);
	ck_assert_int_eq(ask(engine_append_task_progress, "{\"taskId\":\"t\"}"), ERR_STATE);
	ck_assert_int_eq(ask(engine_retry_task, "{\"taskId\":\"t\"}"), 0);
	ck_assert_uint_eq(attempts("t"), 2);
}
END_TEST

START_TEST(what_the_guard_holds_goes_on)
{
	ask(engine_create_task,
	    "{\"taskId\":\"t\",\"objective\":\"o\",\"commandLine\":\"true\",\"autoComplete\":true}");
	ask(engine_start_task, "{\"taskId\":\"t\"}");
	struct fake_process *p = runs();
	const struct port_held held = { .id = p->id, .attempt = 1, .started = true };
	fake_crash(&w);
	fake_reopen(&w, &held, 1);
	fake_settle(&w);
	ck_assert(is("t", "status", "running"));
	dies(p, EXITED(0));
	ck_assert(is("t", "status", "completed"));
}
END_TEST

START_TEST(the_process_of_a_failed_task_ends_after_a_restart)
{
	ask(engine_create_task, "{\"taskId\":\"t\",\"objective\":\"o\",\"commandLine\":\"true\"}");
	ask(engine_start_task, "{\"taskId\":\"t\"}");
	struct fake_process *p = runs();
	const struct port_held held = { .id = p->id, .attempt = 1, .started = true };
	ask(engine_fail_task, "{\"taskId\":\"t\",\"error\":\"no\"}");
	fake_crash(&w);
	p->signals = 0;
	p->gate_open = p->killed = p->kill_tree = false;
	fake_reopen(&w, &held, 1);
	fake_settle(&w);
	ck_assert(!p->gate_open);
	ck_assert(p->signals || p->killed || p->kill_tree);
	dies(p, SIGKILL);
	ck_assert(is("t", "status", "failed"));
	ck_assert_uint_eq(fake_count(&w, "process.terminated"), 1);
}
END_TEST

START_TEST(a_retry_waits_out_its_delay_also_over_a_restart)
{
	ask(engine_create_task, "{\"taskId\":\"t\",\"objective\":\"o\",\"commandLine\":\"false\",\"retryPolicy\":{"
				"\"maxAttempts\":3,\"backoffMs\":1000,\"backoffFactor\":10}}");
	ask(engine_start_task, "{\"taskId\":\"t\"}");
	dies(runs(), EXITED(1));
	ck_assert(is("t", "status", "queued") && is("t", "queuedFor", "backoff"));
	fake_advance(&w, 900);
	ck_assert_uint_eq(attempts("t"), 1);
	fake_advance(&w, 200);
	ck_assert_uint_eq(attempts("t"), 2);
	dies(runs(), EXITED(1));
	fake_advance(&w, 5000);
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	fake_settle(&w);
	ck_assert(is("t", "status", "queued"));
	fake_advance(&w, 4500);
	ck_assert_uint_eq(attempts("t"), 2);
	fake_advance(&w, 1000);
	ck_assert_uint_eq(attempts("t"), 3);
	dies(runs(), EXITED(1));
	ck_assert(is("t", "status", "failed"));
	ck_assert_uint_eq(fake_count(&w, "task.retrying"), 2);
}
END_TEST

START_TEST(a_client_that_is_gone_is_lost_after_its_time)
{
	ask(engine_create_task, "{\"taskId\":\"t\",\"objective\":\"o\",\"heartbeatMs\":5000}");
	ask(engine_start_task, "{\"taskId\":\"t\"}");
	fake_advance(&w, 60000);
	ck_assert(is("t", "status", "running"));
	engine_client_disconnected(w.engine, fake_caller.connection);
	fake_advance(&w, 4000);
	ask(engine_append_task_progress, "{\"taskId\":\"t\",\"percent\":3}"); /* it came back */
	fake_advance(&w, 60000);
	ck_assert(is("t", "status", "running"));
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	fake_advance(&w, 4900);
	fake_settle(&w);
	ck_assert(is("t", "status", "running"));
	fake_advance(&w, 200);
	ck_assert(is("t", "status", "lost"));
}
END_TEST

START_TEST(time_limits_of_a_clients_task)
{
	ask(engine_create_task, "{\"taskId\":\"whole\",\"objective\":\"o\",\"timeoutMs\":10000}");
	ask(engine_create_task, "{\"taskId\":\"idle\",\"objective\":\"o\",\"idleMs\":3000}");
	ask(engine_start_task, "{\"taskId\":\"whole\"}");
	ask(engine_start_task, "{\"taskId\":\"idle\"}");
	fake_advance(&w, 2900);
	ask(engine_append_task_progress, "{\"taskId\":\"idle\",\"percent\":3}");
	fake_advance(&w, 2900);
	ck_assert(is("idle", "status", "running"));
	fake_advance(&w, 200);
	ck_assert(is("idle", "status", "timed_out"));
	ask(engine_pause_task, "{\"taskId\":\"whole\"}");
	fake_advance(&w, 60000);
	ck_assert(is("whole", "status", "paused"));
	ask(engine_resume_task, "{\"taskId\":\"whole\"}");
	fake_advance(&w, 1);
	ck_assert(is("whole", "status", "timed_out"));
}
END_TEST

START_TEST(a_pause_stops_the_clock_of_a_command)
{
	ask(engine_create_task,
	    "{\"taskId\":\"t\",\"objective\":\"o\",\"commandLine\":\"true\",\"retryPolicy\":{\"timeoutMs\":10000}}");
	ask(engine_start_task, "{\"taskId\":\"t\"}");
	struct fake_process *p = runs();
	fake_advance(&w, 6000);
	ask(engine_pause_task, "{\"taskId\":\"t\",\"reason\":\"r\"}");
	ck_assert(p->signals & 1ull << (SIGSTOP - 1));
	fake_advance(&w, 60000);
	ck_assert(!(p->signals & 1ull << (SIGTERM - 1)));
	ask(engine_resume_task, "{\"taskId\":\"t\"}");
	ck_assert(p->signals & 1ull << (SIGCONT - 1));
	fake_advance(&w, 3900);
	ck_assert(!(p->signals & 1ull << (SIGTERM - 1)));
	fake_advance(&w, 200);
	ck_assert(p->signals & 1ull << (SIGTERM - 1));
	dies(p, SIGTERM);
	ck_assert(is("t", "status", "timed_out"));
}
END_TEST

START_TEST(cancelled_is_said_when_nothing_is_left)
{
	ask(engine_create_task, "{\"taskId\":\"top\",\"objective\":\"o\"}");
	ask(engine_create_task,
	    "{\"taskId\":\"below\",\"objective\":\"o\",\"parentTaskId\":\"top\",\"commandLine\":\"true\"}");
	ask(engine_start_task, "{\"taskId\":\"below\"}");
	struct fake_process *p = runs();
	ask(engine_cancel_task, "{\"taskId\":\"top\",\"reason\":\"no\"}");
	ck_assert(is("top", "status", "cancelling") && is("below", "status", "cancelling"));
	ck_assert(p->signals & 1ull << (SIGTERM - 1));
	ck_assert_int_eq(ask(engine_create_task, "{\"objective\":\"o\",\"parentTaskId\":\"top\"}"), ERR_STATE);
	ck_assert_int_eq(ask(engine_create_job, "{\"items\":[{}],\"taskId\":\"top\"}"), ERR_STATE);
	/* The intent holds over a restart. */
	const struct port_held held = { .id = p->id, .attempt = 1, .started = true };
	fake_crash(&w);
	p->signals = 0;
	fake_reopen(&w, &held, 1);
	fake_settle(&w);
	ck_assert(is("top", "status", "cancelling"));
	ck_assert(p->signals & 1ull << (SIGTERM - 1));
	dies(p, SIGTERM);
	ck_assert(is("top", "status", "cancelled") && is("below", "status", "cancelled"));
	ck_assert_uint_eq(fake_count(&w, "task.cancelled"), 2);
}
END_TEST

START_TEST(edges_have_no_cycles_and_release)
{
	for (int i = 0; i < 3; i++) {
		mem_auto char *p = mem_printf("{\"taskId\":\"%c\",\"objective\":\"o\"}", 'a' + i);
		ck_assert_int_eq(ask(engine_create_task, p), 0);
	}
	ck_assert_int_eq(ask(engine_link_tasks, "{\"taskId\":\"a\",\"kind\":\"blocks\",\"targetId\":\"b\"}"), 0);
	ck_assert_int_eq(ask(engine_link_tasks, "{\"taskId\":\"c\",\"kind\":\"parent\",\"targetId\":\"b\"}"), 0);
	/* b waits for a and for its child c: neither may wait for b. */
	ck_assert_int_eq(ask(engine_link_tasks, "{\"taskId\":\"c\",\"kind\":\"blocked_by\",\"targetId\":\"b\"}"),
			 ERR_CONFLICT);
	ck_assert_int_eq(ask(engine_link_tasks, "{\"taskId\":\"a\",\"kind\":\"parent\",\"targetId\":\"c\"}"), 0);
	ck_assert_int_eq(ask(engine_link_tasks, "{\"taskId\":\"b\",\"kind\":\"parent\",\"targetId\":\"a\"}"),
			 ERR_CONFLICT);
	ck_assert_int_eq(ask(engine_link_tasks, "{\"taskId\":\"b\",\"kind\":\"parent\",\"targetId\":\"b\"}"),
			 ERR_CONFLICT);
	ask(engine_start_task, "{\"taskId\":\"b\"}");
	ck_assert(is("b", "status", "queued"));
	ask(engine_start_task, "{\"taskId\":\"a\"}");
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	ask(engine_fail_task, "{\"taskId\":\"a\",\"error\":\"x\"}");
	ck_assert(is("b", "status", "blocked"));
	ask(engine_retry_task, "{\"taskId\":\"a\"}");
	ask(engine_complete_task, "{\"taskId\":\"a\"}");
	ck_assert(is("b", "status", "running"));
}
END_TEST

/* b is a child of a: a waits for b, so b must not wait for a, not even through another task. */
START_TEST(a_new_child_does_not_wait_for_its_parent)
{
	ask(engine_create_task, "{\"taskId\":\"a\",\"objective\":\"o\"}");
	ask(engine_create_task, "{\"taskId\":\"x\",\"objective\":\"o\",\"blockedBy\":[\"a\"]}");
	ask(engine_create_task, "{\"taskId\":\"y\",\"objective\":\"o\"}");
	ck_assert_int_eq(ask(engine_create_task, "{\"taskId\":\"b\",\"objective\":\"o\",\"parentTaskId\":\"a\","
						 "\"blockedBy\":[\"a\"]}"),
			 ERR_CONFLICT);
	ck_assert_int_eq(ask(engine_create_task, "{\"taskId\":\"b\",\"objective\":\"o\",\"parentTaskId\":\"a\","
						 "\"blockedBy\":[\"y\",\"x\"]}"),
			 ERR_CONFLICT);
	ck_assert_msg(strstr(reply.message, "cycle"), "%s", reply.message);
	ck_assert_int_eq(ask(engine_create_task, "{\"taskId\":\"b\",\"objective\":\"o\",\"parentTaskId\":\"a\","
						 "\"blockedBy\":[\"y\"]}"),
			 0);
}
END_TEST

/* The limit also holds when a chain is linked from its end: each new parent has all the others below it. */
START_TEST(tasks_are_not_nested_deeper_from_below)
{
	int linked = 0;

	for (int i = 0; i < 70; i++) {
		mem_auto char *task = mem_printf("{\"taskId\":\"t%d\",\"objective\":\"o\"}", i);
		ck_assert_int_eq(ask(engine_create_task, task), 0);
	}
	for (int i = 0; i + 1 < 70; i++) {
		mem_auto char *edge = mem_printf("{\"taskId\":\"t%d\",\"kind\":\"parent\",\"targetId\":\"t%d\"}", i,
						 i + 1);
		if (ask(engine_link_tasks, edge) != 0)
			break;
		linked++;
	}
	ck_assert_int_eq(linked, 64);
	ck_assert_int_eq(reply.code, ERR_INVALID);
}
END_TEST

START_TEST(verbs_are_refused_where_they_make_no_sense)
{
	static const struct {
		const char *status;
		engine_fn *fn;
	} rows[] = {
		{ "draft", engine_start_task },
		{ "draft", engine_complete_task },
		{ "accepted", engine_complete_task },
		{ "accepted", engine_pause_task },
		{ "accepted", engine_retry_task },
		{ "accepted", engine_resume_task },
		{ "accepted", engine_append_task_progress },
		{ "accepted", engine_archive_task },
	};

	ask(engine_create_task, "{\"taskId\":\"draft\",\"objective\":\"o\",\"draft\":true}");
	ask(engine_create_task, "{\"taskId\":\"accepted\",\"objective\":\"o\"}");
	for (size_t i = 0; i < countof(rows); i++) {
		mem_auto char *p = mem_printf("{\"taskId\":\"%s\"}", rows[i].status);
		ck_assert_int_eq(ask(rows[i].fn, p), ERR_STATE);
		ck_assert_msg(strstr(reply.message, rows[i].status) && strstr(reply.message, "possible"), "%s",
			      reply.message);
	}
}
END_TEST

START_TEST(a_job_runs_as_many_items_as_it_may)
{
	ask(engine_create_job, "{\"jobId\":\"j\",\"items\":[{\"itemId\":\"a\"},{\"itemId\":\"b\"},{\"itemId\":\"c\"}],"
			       "\"maxParallel\":2,\"commandLine\":\"true\","
			       "\"retryPolicy\":{\"maxAttempts\":2,\"backoffMs\":1000}}");
	ck_assert_uint_eq(w.nprocesses, 2);
	struct fake_process *second = runs();
	const struct port_started s = { .pid = 4241, .start_time = 98, .attempt = 1 };
	struct fake_process *first = &w.processes[0];
	engine_on_started(w.engine, first->id, &s);
	engine_on_ready(w.engine, first->id, PLAN_LAYER_NAMESPACES | PLAN_LAYER_MOUNTS);
	fake_settle(&w);
	engine_on_execed(w.engine, first->id);
	dies(first, EXITED(1)); /* to be tried again, after a second */
	ck_assert_uint_eq(w.nprocesses, 3);
	dies(runs(), EXITED(0));
	ck_assert_uint_eq(w.nprocesses, 3);
	ck_assert_uint_eq(job_number("j", "progress.completed"), 1);
	const struct port_held held = { .id = second->id, .attempt = 1, .started = true };
	fake_crash(&w);
	fake_reopen(&w, &held, 1);
	fake_settle(&w);
	ck_assert_uint_eq(job_number("j", "progress.running"), 1);
	fake_advance(&w, 1100);
	ck_assert_uint_eq(w.nprocesses, 4);
	dies(runs(), EXITED(0));
	dies(second, EXITED(0));
	ck_assert_uint_eq(job_number("j", "progress.completed"), 3);
	ck_assert_uint_eq(fake_count(&w, "job.completed"), 1);
	ck_assert_uint_eq(fake_count(&w, "job.item.failed"), 1);
}
END_TEST

/* The start of an item is durable, but its process never ran; a restart launches it again, unless its task is paused.
 */
START_TEST(an_item_of_a_paused_task_is_launched_after_the_pause)
{
	ask(engine_create_task, "{\"taskId\":\"t\",\"objective\":\"o\"}");
	ask(engine_start_task, "{\"taskId\":\"t\"}");
	ask(engine_create_job, "{\"jobId\":\"j\",\"taskId\":\"t\",\"items\":[{}],\"commandLine\":\"true\"}");
	ck_assert_uint_eq(w.processes[0].launches, 1);
	ck_assert_int_eq(ask(engine_pause_task, "{\"taskId\":\"t\"}"), 0);
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	fake_settle(&w);
	fake_advance(&w, 61000);
	ck_assert_uint_eq(w.processes[0].launches, 1);
	ck_assert_int_eq(ask(engine_resume_task, "{\"taskId\":\"t\"}"), 0);
	ck_assert_uint_eq(w.processes[0].launches, 2);
	dies(runs(), EXITED(0));
	ck_assert_uint_eq(fake_count(&w, "job.completed"), 1);
}
END_TEST

START_TEST(a_jobs_time_is_over)
{
	ask(engine_create_job,
	    "{\"jobId\":\"j\",\"items\":[{},{}],\"maxParallel\":1,\"commandLine\":\"true\",\"maxRuntimeMs\":5000}");
	struct fake_process *p = runs();
	fake_advance(&w, 4900);
	ck_assert(!(p->signals & 1ull << (SIGTERM - 1)));
	fake_advance(&w, 200);
	ck_assert(p->signals & 1ull << (SIGTERM - 1));
	dies(p, SIGTERM);
	ck_assert_uint_eq(fake_count(&w, "job.failed"), 1);
	ck_assert_uint_eq(w.nprocesses, 1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("task");
	TCase *t = tcase_create("task");
	const TTest *const tests[] = {
		an_attempt_is_durable_before_its_process_is_launched,
		what_certainly_never_ran_is_launched_once_more,
		what_never_ran_of_a_fleet_is_not_launched_after_a_restart,
		what_has_not_begun_when_the_lease_ends_does_not_begin,
		what_waits_of_a_fleet_is_not_begun_after_a_restart,
		what_cannot_be_proved_is_lost,
		what_the_guard_holds_goes_on,
		the_process_of_a_failed_task_ends_after_a_restart,
		a_retry_waits_out_its_delay_also_over_a_restart,
		a_client_that_is_gone_is_lost_after_its_time,
		time_limits_of_a_clients_task,
		a_pause_stops_the_clock_of_a_command,
		cancelled_is_said_when_nothing_is_left,
		edges_have_no_cycles_and_release,
		a_new_child_does_not_wait_for_its_parent,
		tasks_are_not_nested_deeper_from_below,
		verbs_are_refused_where_they_make_no_sense,
		a_job_runs_as_many_items_as_it_may,
		an_item_of_a_paused_task_is_launched_after_the_pause,
		a_jobs_time_is_over,
	};

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_set_timeout(t, 60);
	for (size_t i = 0; i < countof(tests); i++)
		tcase_add_test(t, tests[i]);
	suite_add_tcase(s, t);
	SRunner *runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}

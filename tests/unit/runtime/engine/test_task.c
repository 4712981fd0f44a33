/* Tasks and jobs on a scripted host: the test moves the clock and lets the runtime crash at the critical points. */

#include "tests/unit/runtime/engine/fake_host.h"
#include "tests/unit/suite.h"

#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/engine/work/work.h"
#include "runtime/view/view_job.h"
#include "runtime/view/view_task.h"

#include <check.h>
#include <signal.h>

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

/* Sends a request, waits until it is recorded, and returns the error code (0: success). */
static int send_request(engine_fn *fn, const char *params)
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

static bool task_has(const char *id, const char *path, const char *value)
{
	buf_auto struct buf doc = BUF_INIT;
	struct err e = ERR_INIT;

	ck_assert_msg(view_task(w.store, VIEW_ANY_UID, id, &doc, &e) == 0, "%s", e.message);
	return jval_is_str(jval_path(jval_of(doc.data, doc.len), path), value);
}

static size_t attempt_count(const char *id)
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

/* Runs the newest process. */
static struct fake_process *run_newest(void) { return fake_begin(&w, fake_last(&w)); }

static void end_process(struct fake_process *p, int sig) { fake_exit(&w, p, sig, 0); }

START_TEST(an_attempt_is_durable_before_its_process_is_launched)
{
	json_t *params = json_loads("{\"taskId\":\"t\"}", 0, NULL);

	ck_assert_int_eq(
		send_request(engine_create_task, "{\"taskId\":\"t\",\"objective\":\"o\",\"commandLine\":\"true\"}"), 0);
	buf_done(&reply.json);
	reply = (struct fake_reply){ 0 };
	engine_start_task(w.engine, params, &fake_caller, fake_reply_fn, &reply);
	json_decref(params);
	ck_assert_uint_eq(w.nprocesses, 0);
	fake_settle(&w);
	ck_assert_uint_eq(w.nprocesses, 1);
	ck_assert(jval_is_str(jval_get(jval_of(reply.json.data, reply.json.len), "processId"), w.processes[0].id));
	ck_assert(task_has("t", "status", "preparing"));
	struct fake_process *p = run_newest();
	ck_assert(task_has("t", "status", "running"));
	end_process(p, FAKE_EXITED(0));
	ck_assert(task_has("t", "status", "waiting_input"));
	ck_assert_int_eq(send_request(engine_complete_task, "{\"taskId\":\"t\"}"), 0);
	ck_assert(task_has("t", "status", "completed"));
}
END_TEST

START_TEST(an_attempt_that_certainly_never_ran_is_launched_again)
{
	send_request(engine_create_task,
		     "{\"taskId\":\"t\",\"objective\":\"o\",\"commandLine\":\"true\",\"autoComplete\":true}");
	send_request(engine_start_task, "{\"taskId\":\"t\"}");
	ck_assert_uint_eq(w.nprocesses, 1);
	fake_crash(&w); /* before anything of the process was recorded */
	fake_reopen(&w, NULL, 0);
	fake_settle(&w);
	ck_assert_uint_eq(w.nprocesses, 1);
	ck_assert_uint_eq(w.processes[0].launches, 2);
	ck_assert_uint_eq(attempt_count("t"), 1);
	end_process(run_newest(), FAKE_EXITED(0));
	ck_assert(task_has("t", "status", "completed"));
}
END_TEST

#define FLEET_TASK                                                                               \
	"{\"taskId\":\"t\",\"objective\":\"o\",\"commandLine\":\"true\",\"leaseUntil\":1020000," \
	"\"fleet\":{\"taskId\":\"f\",\"token\":1,\"leaseMs\":30000}}"

/* Another node may have claimed the task. */
START_TEST(a_fleet_attempt_that_never_ran_is_not_launched_after_a_restart)
{
	ck_assert_int_eq(send_request(engine_create_task, FLEET_TASK), 0);
	send_request(engine_start_task, "{\"taskId\":\"t\"}");
	ck_assert_uint_eq(w.processes[0].launches, 1);
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	fake_settle(&w);
	ck_assert_int_eq(send_request(engine_renew_lease, "{\"taskId\":\"t\",\"leaseUntil\":1020000}"), ERR_EXPIRED);
	fake_advance(&w, 1);
	ck_assert_uint_eq(w.processes[0].launches, 1);
	ck_assert(task_has("t", "status", "cancelled"));
	ck_assert(task_has("t", "statusReason", "lease_over"));
}
END_TEST

/* The process exists, but its command is still at the gate. */
START_TEST(a_command_at_the_gate_when_the_lease_ends_does_not_run)
{
	const struct port_started s = { .pid = 4242, .start_time = 99, .attempt = 1 };

	ck_assert_int_eq(send_request(engine_create_task, FLEET_TASK), 0);
	send_request(engine_start_task, "{\"taskId\":\"t\"}");
	struct fake_process *p = fake_last(&w);
	fake_advance(&w, 30000);
	engine_on_started(w.engine, p->id, &s);
	engine_on_ready(w.engine, p->id, PLAN_LAYER_NAMESPACES | PLAN_LAYER_MOUNTS);
	fake_settle(&w);
	ck_assert(!p->gate_open);
	ck_assert(p->killed);
	fake_exit(&w, p, SIGKILL, 0);
	fake_settle(&w);
	ck_assert(task_has("t", "status", "cancelled"));
	ck_assert_uint_eq(fake_count(&w, "process.terminated"), 1);
	ck_assert(fake_verified(&w));
}
END_TEST

START_TEST(a_queued_fleet_task_is_not_started_after_a_restart)
{
	ck_assert_int_eq(send_request(engine_create_task, "{\"taskId\":\"a\",\"objective\":\"o\"}"), 0);
	ck_assert_int_eq(send_request(engine_create_task, FLEET_TASK), 0);
	send_request(engine_link_tasks, "{\"taskId\":\"t\",\"kind\":\"blocked_by\",\"targetId\":\"a\"}");
	send_request(engine_start_task, "{\"taskId\":\"t\"}");
	ck_assert(task_has("t", "status", "queued"));
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	fake_settle(&w);
	fake_advance(&w, 1);
	ck_assert_uint_eq(w.nprocesses, 0);
	ck_assert(task_has("t", "status", "cancelled"));
}
END_TEST

START_TEST(a_task_whose_end_cannot_be_proved_is_lost)
{
	send_request(engine_create_task, "{\"taskId\":\"t\",\"objective\":\"o\",\"commandLine\":\"true\"}");
	send_request(engine_create_task, "{\"taskId\":\"again\",\"objective\":\"o\",\"commandLine\":\"true\","
					 "\"retryPolicy\":{\"maxAttempts\":2}}");
	send_request(engine_start_task, "{\"taskId\":\"t\"}");
	run_newest();
	send_request(engine_start_task, "{\"taskId\":\"again\"}");
	run_newest();
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	fake_settle(&w);
	ck_assert(task_has("t", "status", "lost"));
	ck_assert(task_has("again", "status", "preparing"));
	ck_assert_uint_eq(attempt_count("again"), 2);
	ck_assert_int_eq(send_request(engine_append_task_progress, "{\"taskId\":\"t\"}"), ERR_STATE);
	ck_assert_int_eq(send_request(engine_retry_task, "{\"taskId\":\"t\"}"), 0);
	ck_assert_uint_eq(attempt_count("t"), 2);
}
END_TEST

START_TEST(a_task_whose_process_the_guard_holds_continues)
{
	send_request(engine_create_task,
		     "{\"taskId\":\"t\",\"objective\":\"o\",\"commandLine\":\"true\",\"autoComplete\":true}");
	send_request(engine_start_task, "{\"taskId\":\"t\"}");
	struct fake_process *p = run_newest();
	const struct port_held held = { .id = p->id, .attempt = 1, .started = true };
	fake_crash(&w);
	fake_reopen(&w, &held, 1);
	fake_settle(&w);
	ck_assert(task_has("t", "status", "running"));
	end_process(p, FAKE_EXITED(0));
	ck_assert(task_has("t", "status", "completed"));
}
END_TEST

START_TEST(the_process_of_a_failed_task_ends_after_a_restart)
{
	send_request(engine_create_task, "{\"taskId\":\"t\",\"objective\":\"o\",\"commandLine\":\"true\"}");
	send_request(engine_start_task, "{\"taskId\":\"t\"}");
	struct fake_process *p = run_newest();
	const struct port_held held = { .id = p->id, .attempt = 1, .started = true };
	send_request(engine_fail_task, "{\"taskId\":\"t\",\"error\":\"no\"}");
	fake_crash(&w);
	p->signals = 0;
	p->gate_open = p->killed = p->kill_tree = false;
	fake_reopen(&w, &held, 1);
	fake_settle(&w);
	ck_assert(!p->gate_open);
	ck_assert(p->signals || p->killed || p->kill_tree);
	end_process(p, SIGKILL);
	ck_assert(task_has("t", "status", "failed"));
	ck_assert_uint_eq(fake_count(&w, "process.terminated"), 1);
}
END_TEST

START_TEST(a_retry_keeps_its_delay_across_a_restart)
{
	send_request(engine_create_task,
		     "{\"taskId\":\"t\",\"objective\":\"o\",\"commandLine\":\"false\",\"retryPolicy\":{"
		     "\"maxAttempts\":3,\"backoffMs\":1000,\"backoffFactor\":10}}");
	send_request(engine_start_task, "{\"taskId\":\"t\"}");
	end_process(run_newest(), FAKE_EXITED(1));
	ck_assert(task_has("t", "status", "queued") && task_has("t", "queuedFor", "backoff"));
	fake_advance(&w, 900);
	ck_assert_uint_eq(attempt_count("t"), 1);
	fake_advance(&w, 200);
	ck_assert_uint_eq(attempt_count("t"), 2);
	end_process(run_newest(), FAKE_EXITED(1));
	fake_advance(&w, 5000);
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	fake_settle(&w);
	ck_assert(task_has("t", "status", "queued"));
	fake_advance(&w, 4500);
	ck_assert_uint_eq(attempt_count("t"), 2);
	fake_advance(&w, 1000);
	ck_assert_uint_eq(attempt_count("t"), 3);
	end_process(run_newest(), FAKE_EXITED(1));
	ck_assert(task_has("t", "status", "failed"));
	ck_assert_uint_eq(fake_count(&w, "task.retrying"), 2);
}
END_TEST

START_TEST(a_task_of_a_disconnected_client_is_lost_after_its_heartbeat_time)
{
	send_request(engine_create_task, "{\"taskId\":\"t\",\"objective\":\"o\",\"heartbeatMs\":5000}");
	send_request(engine_start_task, "{\"taskId\":\"t\"}");
	fake_advance(&w, 60000);
	ck_assert(task_has("t", "status", "running"));
	engine_client_disconnected(w.engine, fake_caller.connection);
	fake_advance(&w, 4000);
	send_request(engine_append_task_progress, "{\"taskId\":\"t\",\"percent\":3}"); /* the client reconnected */
	fake_advance(&w, 60000);
	ck_assert(task_has("t", "status", "running"));
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	fake_advance(&w, 4900);
	fake_settle(&w);
	ck_assert(task_has("t", "status", "running"));
	fake_advance(&w, 200);
	ck_assert(task_has("t", "status", "lost"));
}
END_TEST

START_TEST(a_task_of_a_client_has_time_limits)
{
	send_request(engine_create_task, "{\"taskId\":\"whole\",\"objective\":\"o\",\"timeoutMs\":10000}");
	send_request(engine_create_task, "{\"taskId\":\"idle\",\"objective\":\"o\",\"idleMs\":3000}");
	send_request(engine_start_task, "{\"taskId\":\"whole\"}");
	send_request(engine_start_task, "{\"taskId\":\"idle\"}");
	fake_advance(&w, 2900);
	send_request(engine_append_task_progress, "{\"taskId\":\"idle\",\"percent\":3}");
	fake_advance(&w, 2900);
	ck_assert(task_has("idle", "status", "running"));
	fake_advance(&w, 200);
	ck_assert(task_has("idle", "status", "timed_out"));
	send_request(engine_pause_task, "{\"taskId\":\"whole\"}");
	fake_advance(&w, 60000);
	ck_assert(task_has("whole", "status", "paused"));
	send_request(engine_resume_task, "{\"taskId\":\"whole\"}");
	fake_advance(&w, 3900);
	ck_assert(task_has("whole", "status", "running"));
	fake_advance(&w, 200);
	ck_assert(task_has("whole", "status", "timed_out"));
}
END_TEST

START_TEST(a_pause_stops_the_timeout_of_a_command)
{
	send_request(engine_create_task, "{\"taskId\":\"t\",\"objective\":\"o\",\"commandLine\":\"true\","
					 "\"retryPolicy\":{\"timeoutMs\":10000}}");
	send_request(engine_start_task, "{\"taskId\":\"t\"}");
	struct fake_process *p = run_newest();
	fake_advance(&w, 6000);
	send_request(engine_pause_task, "{\"taskId\":\"t\",\"reason\":\"r\"}");
	ck_assert(p->signals & 1ull << (SIGSTOP - 1));
	fake_advance(&w, 60000);
	ck_assert(!(p->signals & 1ull << (SIGTERM - 1)));
	send_request(engine_resume_task, "{\"taskId\":\"t\"}");
	ck_assert(p->signals & 1ull << (SIGCONT - 1));
	fake_advance(&w, 3900);
	ck_assert(!(p->signals & 1ull << (SIGTERM - 1)));
	fake_advance(&w, 200);
	ck_assert(p->signals & 1ull << (SIGTERM - 1));
	end_process(p, SIGTERM);
	ck_assert(task_has("t", "status", "timed_out"));
}
END_TEST

START_TEST(a_task_is_cancelled_only_when_all_its_work_has_ended)
{
	send_request(engine_create_task, "{\"taskId\":\"top\",\"objective\":\"o\"}");
	send_request(engine_create_task,
		     "{\"taskId\":\"below\",\"objective\":\"o\",\"parentTaskId\":\"top\",\"commandLine\":\"true\"}");
	send_request(engine_start_task, "{\"taskId\":\"below\"}");
	struct fake_process *p = run_newest();
	send_request(engine_cancel_task, "{\"taskId\":\"top\",\"reason\":\"no\"}");
	ck_assert(task_has("top", "status", "cancelling") && task_has("below", "status", "cancelling"));
	ck_assert(p->signals & 1ull << (SIGTERM - 1));
	ck_assert_int_eq(send_request(engine_create_task, "{\"objective\":\"o\",\"parentTaskId\":\"top\"}"), ERR_STATE);
	ck_assert_int_eq(send_request(engine_create_job, "{\"items\":[{}],\"taskId\":\"top\"}"), ERR_STATE);
	/* The request survives a restart. */
	const struct port_held held = { .id = p->id, .attempt = 1, .started = true };
	fake_crash(&w);
	p->signals = 0;
	fake_reopen(&w, &held, 1);
	fake_settle(&w);
	ck_assert(task_has("top", "status", "cancelling"));
	ck_assert(p->signals & 1ull << (SIGTERM - 1));
	end_process(p, SIGTERM);
	ck_assert(task_has("top", "status", "cancelled") && task_has("below", "status", "cancelled"));
	ck_assert_uint_eq(fake_count(&w, "task.cancelled"), 2);
}
END_TEST

START_TEST(dependencies_have_no_cycles_and_release_tasks)
{
	for (int i = 0; i < 3; i++) {
		mem_auto char *p = mem_printf("{\"taskId\":\"%c\",\"objective\":\"o\"}", 'a' + i);
		ck_assert_int_eq(send_request(engine_create_task, p), 0);
	}
	ck_assert_int_eq(send_request(engine_link_tasks, "{\"taskId\":\"a\",\"kind\":\"blocks\",\"targetId\":\"b\"}"),
			 0);
	ck_assert_int_eq(send_request(engine_link_tasks, "{\"taskId\":\"c\",\"kind\":\"parent\",\"targetId\":\"b\"}"),
			 0);
	/* b waits for a and for its child c: neither may wait for b. */
	ck_assert_int_eq(
		send_request(engine_link_tasks, "{\"taskId\":\"c\",\"kind\":\"blocked_by\",\"targetId\":\"b\"}"),
		ERR_CONFLICT);
	ck_assert_int_eq(send_request(engine_link_tasks, "{\"taskId\":\"a\",\"kind\":\"parent\",\"targetId\":\"c\"}"),
			 0);
	ck_assert_int_eq(send_request(engine_link_tasks, "{\"taskId\":\"b\",\"kind\":\"parent\",\"targetId\":\"a\"}"),
			 ERR_CONFLICT);
	ck_assert_int_eq(send_request(engine_link_tasks, "{\"taskId\":\"b\",\"kind\":\"parent\",\"targetId\":\"b\"}"),
			 ERR_CONFLICT);
	send_request(engine_start_task, "{\"taskId\":\"b\"}");
	ck_assert(task_has("b", "status", "queued"));
	send_request(engine_start_task, "{\"taskId\":\"a\"}");
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	send_request(engine_fail_task, "{\"taskId\":\"a\",\"error\":\"x\"}");
	ck_assert(task_has("b", "status", "blocked"));
	send_request(engine_retry_task, "{\"taskId\":\"a\"}");
	send_request(engine_complete_task, "{\"taskId\":\"a\"}");
	ck_assert(task_has("b", "status", "running"));
}
END_TEST

/* b is a child of a: a waits for b, so b must not wait for a, not even through another task. */
START_TEST(a_new_child_does_not_wait_for_its_parent)
{
	send_request(engine_create_task, "{\"taskId\":\"a\",\"objective\":\"o\"}");
	send_request(engine_create_task, "{\"taskId\":\"x\",\"objective\":\"o\",\"blockedBy\":[\"a\"]}");
	send_request(engine_create_task, "{\"taskId\":\"y\",\"objective\":\"o\"}");
	ck_assert_int_eq(send_request(engine_create_task,
				      "{\"taskId\":\"b\",\"objective\":\"o\",\"parentTaskId\":\"a\","
				      "\"blockedBy\":[\"a\"]}"),
			 ERR_CONFLICT);
	ck_assert_int_eq(send_request(engine_create_task,
				      "{\"taskId\":\"b\",\"objective\":\"o\",\"parentTaskId\":\"a\","
				      "\"blockedBy\":[\"y\",\"x\"]}"),
			 ERR_CONFLICT);
	ck_assert_msg(strstr(reply.message, "cycle"), "%s", reply.message);
	ck_assert_int_eq(send_request(engine_create_task,
				      "{\"taskId\":\"b\",\"objective\":\"o\",\"parentTaskId\":\"a\","
				      "\"blockedBy\":[\"y\"]}"),
			 0);
}
END_TEST

/* The limit also applies when a chain is linked from its end: each new parent has all the others below it. */
START_TEST(the_depth_limit_applies_to_links_from_the_bottom)
{
	int linked = 0;

	for (int i = 0; i < 70; i++) {
		mem_auto char *task = mem_printf("{\"taskId\":\"t%d\",\"objective\":\"o\"}", i);
		ck_assert_int_eq(send_request(engine_create_task, task), 0);
	}
	for (int i = 0; i + 1 < 70; i++) {
		mem_auto char *edge = mem_printf("{\"taskId\":\"t%d\",\"kind\":\"parent\",\"targetId\":\"t%d\"}", i,
						 i + 1);
		if (send_request(engine_link_tasks, edge) != 0)
			break;
		linked++;
	}
	ck_assert_int_eq(linked, 64);
	ck_assert_int_eq(reply.code, ERR_INVALID);
}
END_TEST

START_TEST(methods_are_rejected_in_the_wrong_status)
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

	send_request(engine_create_task, "{\"taskId\":\"draft\",\"objective\":\"o\",\"draft\":true}");
	send_request(engine_create_task, "{\"taskId\":\"accepted\",\"objective\":\"o\"}");
	for (size_t i = 0; i < countof(rows); i++) {
		mem_auto char *p = mem_printf("{\"taskId\":\"%s\"}", rows[i].status);
		ck_assert_int_eq(send_request(rows[i].fn, p), ERR_STATE);
		ck_assert_msg(strstr(reply.message, rows[i].status) && strstr(reply.message, "possible"), "%s",
			      reply.message);
	}
}
END_TEST

START_TEST(a_job_runs_up_to_max_parallel_items)
{
	send_request(engine_create_job,
		     "{\"jobId\":\"j\",\"items\":[{\"itemId\":\"a\"},{\"itemId\":\"b\"},{\"itemId\":\"c\"}],"
		     "\"maxParallel\":2,\"commandLine\":\"true\","
		     "\"retryPolicy\":{\"maxAttempts\":2,\"backoffMs\":1000}}");
	ck_assert_uint_eq(w.nprocesses, 2);
	struct fake_process *second = run_newest();
	const struct port_started s = { .pid = 4241, .start_time = 98, .attempt = 1 };
	struct fake_process *first = &w.processes[0];
	engine_on_started(w.engine, first->id, &s);
	engine_on_ready(w.engine, first->id, PLAN_LAYER_NAMESPACES | PLAN_LAYER_MOUNTS);
	fake_settle(&w);
	engine_on_execed(w.engine, first->id);
	end_process(first, FAKE_EXITED(1)); /* retried after a second */
	ck_assert_uint_eq(w.nprocesses, 3);
	end_process(run_newest(), FAKE_EXITED(0));
	ck_assert_uint_eq(w.nprocesses, 3);
	ck_assert_uint_eq(job_number("j", "progress.completed"), 1);
	const struct port_held held = { .id = second->id, .attempt = 1, .started = true };
	fake_crash(&w);
	fake_reopen(&w, &held, 1);
	fake_settle(&w);
	ck_assert_uint_eq(job_number("j", "progress.running"), 1);
	fake_advance(&w, 1100);
	ck_assert_uint_eq(w.nprocesses, 4);
	end_process(run_newest(), FAKE_EXITED(0));
	end_process(second, FAKE_EXITED(0));
	ck_assert_uint_eq(job_number("j", "progress.completed"), 3);
	ck_assert_uint_eq(fake_count(&w, "job.completed"), 1);
	ck_assert_uint_eq(fake_count(&w, "job.item.failed"), 1);
}
END_TEST

/* The start of an item is durable, but its process never ran; a restart launches it again, unless its task is paused.
 */
START_TEST(an_item_of_a_paused_task_is_launched_after_the_pause)
{
	send_request(engine_create_task, "{\"taskId\":\"t\",\"objective\":\"o\"}");
	send_request(engine_start_task, "{\"taskId\":\"t\"}");
	send_request(engine_create_job, "{\"jobId\":\"j\",\"taskId\":\"t\",\"items\":[{}],\"commandLine\":\"true\"}");
	ck_assert_uint_eq(w.processes[0].launches, 1);
	ck_assert_int_eq(send_request(engine_pause_task, "{\"taskId\":\"t\"}"), 0);
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	fake_settle(&w);
	fake_advance(&w, 61000);
	ck_assert_uint_eq(w.processes[0].launches, 1);
	ck_assert_int_eq(send_request(engine_resume_task, "{\"taskId\":\"t\"}"), 0);
	ck_assert_uint_eq(w.processes[0].launches, 2);
	end_process(run_newest(), FAKE_EXITED(0));
	ck_assert_uint_eq(fake_count(&w, "job.completed"), 1);
}
END_TEST

START_TEST(a_job_fails_at_its_maximum_runtime)
{
	send_request(
		engine_create_job,
		"{\"jobId\":\"j\",\"items\":[{},{}],\"maxParallel\":1,\"commandLine\":\"true\",\"maxRuntimeMs\":5000}");
	struct fake_process *p = run_newest();
	fake_advance(&w, 4900);
	ck_assert(!(p->signals & 1ull << (SIGTERM - 1)));
	fake_advance(&w, 200);
	ck_assert(p->signals & 1ull << (SIGTERM - 1));
	end_process(p, SIGTERM);
	ck_assert_uint_eq(fake_count(&w, "job.failed"), 1);
	ck_assert_uint_eq(w.nprocesses, 1);
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "task", set_up, tear_down, 60,
		  SUITE_TESTS(
			  an_attempt_is_durable_before_its_process_is_launched,
			  an_attempt_that_certainly_never_ran_is_launched_again,
			  a_fleet_attempt_that_never_ran_is_not_launched_after_a_restart,
			  a_command_at_the_gate_when_the_lease_ends_does_not_run,
			  a_queued_fleet_task_is_not_started_after_a_restart, a_task_whose_end_cannot_be_proved_is_lost,
			  a_task_whose_process_the_guard_holds_continues,
			  the_process_of_a_failed_task_ends_after_a_restart, a_retry_keeps_its_delay_across_a_restart,
			  a_task_of_a_disconnected_client_is_lost_after_its_heartbeat_time,
			  a_task_of_a_client_has_time_limits, a_pause_stops_the_timeout_of_a_command,
			  a_task_is_cancelled_only_when_all_its_work_has_ended,
			  dependencies_have_no_cycles_and_release_tasks, a_new_child_does_not_wait_for_its_parent,
			  the_depth_limit_applies_to_links_from_the_bottom, methods_are_rejected_in_the_wrong_status,
			  a_job_runs_up_to_max_parallel_items, an_item_of_a_paused_task_is_launched_after_the_pause,
			  a_job_fails_at_its_maximum_runtime) },
	};

	return suite_run_cases("task", cases, 1);
}

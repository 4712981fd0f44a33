/* Violations as facts: written immediately, counted, before the end, and the same after a rebuild. */

#include "tests/unit/runtime/engine/fake_host.h"
#include "tests/unit/suite.h"

#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "sandbox/violation.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>

static struct fake_host w;
static struct fake_reply reply, second;

static void set_up(void)
{
	fake_open(&w);
	reply = second = (struct fake_reply){ 0 };
}

static void tear_down(void)
{
	fake_close(&w);
	buf_done(&reply.json);
	buf_done(&second.json);
}

static struct fake_process *run(void)
{
	struct start_request r = fake_request(&w, "x");
	struct fake_process *p = fake_run(&w, &r, &reply);

	engine_wait_process(w.engine, p->id, LIMIT_NONE, &fake_caller, fake_reply_fn, &second);
	return p;
}

static void report_violation(const struct fake_process *p, const char *operation, const char *path)
{
	struct violation v = { .kind = "filesystem",
			       .operation = operation,
			       .source = "audit",
			       .port = -1,
			       .error = EACCES,
			       .pid = 77,
			       .comm = "sh",
			       .syscall = "openat" };

	snprintf(v.path, sizeof v.path, "%s", path);
	engine_on_violation(w.engine, p->id, &v);
}

START_TEST(the_first_violation_is_reported_immediately_and_repeats_are_counted)
{
	const struct fake_process *p = run();

	report_violation(p, "write", "/etc/hosts");
	fake_settle(&w);
	ck_assert_uint_eq(fake_count(&w, "sandbox.violation"), 1);
	ck_assert_int_eq(fake_event_number(&w, "sandbox.violation", "payload.count"), 1);
	ck_assert_int_eq(fake_event_number(&w, "sandbox.violation", "payload.pid"), 77);
	for (int i = 0; i < 1000; i++)
		report_violation(p, "write", "/etc/hosts");
	fake_advance(&w, 500);
	ck_assert_uint_eq(fake_count(&w, "sandbox.violation"), 1);
	fake_advance(&w, 600);
	fake_settle(&w);
	ck_assert_uint_eq(fake_count(&w, "sandbox.violation"), 2);
	ck_assert_int_eq(fake_event_number(&w, "sandbox.violation", "payload.count"), 1000);
	fake_advance(&w, 5000);
	ck_assert_uint_eq(fake_count(&w, "sandbox.violation"), 2);
}
END_TEST

START_TEST(violations_are_reported_before_the_end_of_the_process)
{
	struct fake_process *p = run();
	uint64_t before = store_last_sequence(w.store);

	report_violation(p, "write", "/etc/hosts");
	report_violation(p, "write", "/etc/hosts");
	report_violation(p, "write", "/etc/hosts");
	report_violation(p, "read", "/etc/shadow");
	fake_exit(&w, p, FAKE_EXITED(0), 0);
	mem_auto char *types = fake_types(&w, before);
	ck_assert_str_eq(types, "sandbox.violation sandbox.violation sandbox.violation process.completed "
				"turn.completed thread.updated");
	ck_assert_int_eq(fake_event_number(&w, "sandbox.violation", "payload.count"), 2);
	ck_assert_int_eq(jval_int(fake_answer(&second, "violationCount"), -1), 4);
	struct jiter it = jiter_on(fake_answer(&second, "violations"));
	ck_assert(jiter_next(&it));
	ck_assert(jval_is_str(jval_get(it.value, "path"), "/etc/hosts"));
	ck_assert_int_eq(jval_int(jval_get(it.value, "count"), -1), 3);
	ck_assert(jiter_next(&it));
	ck_assert(jval_is_str(jval_get(it.value, "path"), "/etc/shadow"));
	ck_assert(!jiter_next(&it));
	ck_assert(fake_verified(&w));
}
END_TEST

static void report_blocked_host(const struct fake_process *p, const char *operation, const char *host,
				const char *address, int port)
{
	struct violation v = {
		.kind = "network", .operation = operation, .source = "audit", .reason = "no network", .port = port
	};

	snprintf(v.host, sizeof v.host, "%s", host);
	snprintf(v.address, sizeof v.address, "%s", address);
	engine_on_violation(w.engine, p->id, &v);
}

START_TEST(hosts_that_were_tried_without_network_are_listed)
{
	struct fake_process *p = run();

	report_blocked_host(p, "connect", "", "10.0.0.53", 53);
	report_blocked_host(p, "connect", "", "192.0.2.7", 443);
	report_blocked_host(p, "connect", "", "2001:db8::1", 80);
	report_blocked_host(p, "lookup", "example.test", "", -1);
	fake_exit(&w, p, FAKE_EXITED(1), 0);
	mem_auto char *json = fake_event(&w, "process.completed");
	struct jval hosts = jval_path(jval_of(json, strlen(json)), "payload.wouldOpen.allowHosts");
	static const char wanted[] = "[\"192.0.2.7:443\",\"[2001:db8::1]:80\",\"example.test\"]";
	ck_assert(hosts.len == sizeof wanted - 1 && memcmp(hosts.text, wanted, hosts.len) == 0);
}
END_TEST

START_TEST(missed_violations_make_the_count_a_minimum)
{
	struct fake_process *p = run();

	engine_on_violations_missed(w.engine, p->id);
	report_violation(p, "write", "/etc/hosts");
	fake_exit(&w, p, FAKE_EXITED(0), 0);
	mem_auto char *json = fake_event(&w, "process.completed");
	struct jval payload = jval_path(jval_of(json, strlen(json)), "payload");
	ck_assert_int_eq(jval_int(jval_get(payload, "violationCount"), -1), 1);
	ck_assert_uint_eq(jval_get(payload, "violationCountIsLeast").type, JT_TRUE);
}
END_TEST

START_TEST(benign_violations_are_only_counted_at_the_end)
{
	struct fake_process *p = run();

	report_violation(p, "read", "/root/.bashrc");
	report_violation(p, "read", "/root/.gitconfig");
	fake_exit(&w, p, FAKE_EXITED(0), 0);
	ck_assert_uint_eq(fake_count(&w, "sandbox.violation"), 0);
	ck_assert_int_eq(jval_int(fake_answer(&second, "benignRefusals"), -1), 2);
	ck_assert_uint_eq(fake_answer(&second, "violationCount").type, JT_NONE);
}
END_TEST

START_TEST(many_different_violations_are_combined)
{
	struct fake_process *p = run();
	char path[64];

	for (int i = 0; i < 5000; i++) {
		snprintf(path, sizeof path, "/etc/%d", i);
		report_violation(p, i % 2 ? "write" : "read", path);
	}
	fake_exit(&w, p, FAKE_EXITED(0), 0);
	ck_assert_uint_le(fake_count(&w, "sandbox.violation"), 70);
	ck_assert_int_eq(jval_int(fake_answer(&second, "violationCount"), -1), 5000);
	size_t n = 0;
	for (struct jiter it = jiter_on(fake_answer(&second, "violations")); jiter_next(&it);)
		n++;
	ck_assert_uint_eq(n, 32);
	ck_assert(fake_verified(&w));
}
END_TEST

START_TEST(denials_of_the_init_are_not_violations)
{
	const struct fake_process *p = run();
	struct violation v = {
		.kind = "filesystem", .operation = "read", .source = "audit", .port = -1, .pid = 4242, .path = "/x"
	};

	mem_auto char *json = fake_event(&w, "process.started");
	v.pid = (int32_t)jval_int(jval_path(jval_of(json, strlen(json)), "payload.pid"), 0);
	engine_on_violation(w.engine, p->id, &v);
	engine_on_violation(w.engine, "proc_nobody", &v);
	fake_settle(&w);
	ck_assert_uint_eq(fake_count(&w, "sandbox.violation"), 0);
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "process_violation", set_up, tear_down, 60,
		  SUITE_TESTS(the_first_violation_is_reported_immediately_and_repeats_are_counted,
			      violations_are_reported_before_the_end_of_the_process,
			      hosts_that_were_tried_without_network_are_listed,
			      missed_violations_make_the_count_a_minimum, benign_violations_are_only_counted_at_the_end,
			      many_different_violations_are_combined, denials_of_the_init_are_not_violations) }
	};

	return suite_run_cases("process_violation", cases, 1);
}

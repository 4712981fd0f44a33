#include "supervisor/cli/exit_status.h"

#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <string.h>

static struct jval json(const char *s) { return jval_of(s, strlen(s)); }

START_TEST(test_events_give_the_exit_status)
{
	static const struct {
		const char *event;
		int status; /* −1: not an end */
	} rows[] = {
		{ "{\"type\":\"process.completed\",\"payload\":{\"exitCode\":0}}", 0 },
		{ "{\"type\":\"process.completed\",\"payload\":{\"exitCode\":139}}", 139 },
		{ "{\"type\":\"process.completed\",\"payload\":{\"signal\":\"SEGV\"}}", 139 },
		{ "{\"type\":\"process.completed\",\"payload\":{\"signal\":9}}", 137 },
		{ "{\"type\":\"process.terminated\",\"payload\":{\"signal\":\"TERM\",\"reason\":\"user\"}}", 143 },
		{ "{\"type\":\"process.terminated\",\"payload\":{\"exitCode\":3,\"reason\":\"user\"}}", 3 },
		{ "{\"type\":\"process.failed\",\"status\":\"timed_out\",\"payload\":{\"category\":\"timeout\","
		  "\"limit\":\"cpu\",\"signal\":\"KILL\"}}",
		  124 },
		{ "{\"type\":\"process.failed\",\"status\":\"lost\",\"payload\":{\"category\":\"transport\"}}", 125 },
		{ "{\"type\":\"process.failed\",\"payload\":{\"category\":\"sandbox\",\"stage\":\"mounts\",\"errno\":2}"
		  "}",
		  125 },
		{ "{\"type\":\"process.failed\",\"payload\":{\"category\":\"spawn\",\"stage\":\"exec\",\"errno\":2}}",
		  127 },
		{ "{\"type\":\"process.failed\",\"payload\":{\"category\":\"spawn\",\"stage\":\"exec\",\"errnoName\":"
		  "\"EACCES\"}}",
		  126 },
		{ "{\"type\":\"process.failed\",\"payload\":{\"category\":\"spawn\",\"stage\":\"exec\",\"errno\":8}}",
		  126 },
		{ "{\"type\":\"process.failed\",\"payload\":{\"category\":\"spawn\",\"stage\":\"cwd\",\"errno\":2}}",
		  125 },
		{ "{\"type\":\"process.failed\",\"payload\":{\"category\":\"permission\"}}", 126 },
		{ "{\"type\":\"process.output\",\"payload\":{}}", -1 },
		{ "{}", -1 },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		struct exit_status o = { .status = -1 };

		ck_assert_int_eq(exit_status_of_event(json(rows[i].event), &o), rows[i].status >= 0);
		ck_assert_msg(o.status == rows[i].status, "%s: %d", rows[i].event, o.status);
	}
}
END_TEST

START_TEST(test_processes_give_the_exit_status)
{
	struct exit_status o = { .status = -1 };

	ck_assert(!exit_status_of_process(json("{\"status\":\"running\"}"), &o));
	ck_assert(exit_status_of_process(json("{\"status\":\"completed\",\"exitCode\":4}"), &o));
	ck_assert_int_eq(o.status, 4);
	ck_assert(exit_status_of_process(json("{\"status\":\"failed\",\"category\":\"timeout\",\"limit\":\"idle\"}"),
					 &o));
	ck_assert_int_eq(o.status, 124);
	ck_assert_str_eq(o.option, "--idle-timeout");
	ck_assert_str_eq(o.parameter, "limits.idleMs");
	ck_assert(exit_status_of_process(json("{\"status\":\"failed\",\"category\":\"sandbox\",\"limit\":\"memory\","
					      "\"message\":\"full\",\"signal\":9}"),
					 &o));
	ck_assert_int_eq(o.status, 137);
	ck_assert_str_eq(o.note, "full");
	ck_assert_str_eq(o.option, "--memory");
	ck_assert(exit_status_of_process(json("{\"status\":\"lost\"}"), &o));
	ck_assert_int_eq(o.status, 125);
	ck_assert(exit_status_of_process(json("{\"status\":\"terminated\",\"signal\":\"KILL\"}"), &o));
	ck_assert_int_eq(o.status, 137);
}
END_TEST

START_TEST(test_errors_give_the_exit_status)
{
	struct exit_status o;

	exit_status_of_error(json("{\"code\":-32014,\"message\":\"m\",\"data\":{\"stage\":\"exec\",\"errno\":2}}"), &o);
	ck_assert_int_eq(o.status, 127);
	exit_status_of_error(json("{\"code\":-32014,\"message\":\"m\",\"data\":{\"stage\":\"exec\",\"errno\":13}}"),
			     &o);
	ck_assert_int_eq(o.status, 126);
	exit_status_of_error(json("{\"code\":-32014,\"message\":\"m\",\"data\":{\"stage\":\"cwd\",\"errno\":2}}"), &o);
	ck_assert_int_eq(o.status, 125);
	exit_status_of_error(json("{\"code\":-32010,\"message\":\"denied\"}"), &o);
	ck_assert_int_eq(o.status, 126);
	exit_status_of_error(json("{\"code\":-32011,\"message\":\"not here\"}"), &o);
	ck_assert_int_eq(o.status, 125);
	ck_assert_str_eq(o.note, "not here");
}
END_TEST

int main(void)
{
	return SUITE("exit_status", test_events_give_the_exit_status, test_processes_give_the_exit_status,
		     test_errors_give_the_exit_status);
}

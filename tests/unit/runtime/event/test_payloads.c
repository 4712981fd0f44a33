#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/event/payload.h"
#include "runtime/event/payloads.h"
#include "tests/unit/suite.h"

#include <string.h>

/* Checks the payload that an emitter writes, and that it passes the check of its row unless a required member is
 * absent.
 */
static void writes(enum event_type type, const struct envelope *payload, const char *wanted)
{
	buf_auto struct buf json = BUF_INIT;
	struct jw w = jw_on(&json);
	struct err e = ERR_INIT;

	jw_obj(&w);
	payload_write(&w, type, payload);
	jw_obj_end(&w);
	ck_assert_str_eq(json.data, wanted);
	ck_assert_msg(payload_check(event_info(type), json.data, json.len, &e) == 0, "%s: %s", json.data, e.message);
}

#define WRITES(NAME, name, wanted, ...) writes(EVENT_##NAME, &(struct name){ __VA_ARGS__ }.envelope, wanted)

START_TEST(absent_members_are_omitted)
{
	WRITES(TASK_QUEUED, task_queued, "{\"reason\":\"backoff\"}", .reason = "backoff");
	WRITES(SESSION_UPDATED, session_updated, "{}");
	WRITES(TURN_STARTED, turn_started, "{\"driver\":\"runtime\"}", .driver = "runtime");
	WRITES(TASK_RESUMED, task_resumed, "{\"status\":\"\"}", .status = "");
}
END_TEST

static bool fits(enum event_type type, const struct envelope *payload)
{
	buf_auto struct buf json = BUF_INIT;
	struct jw w = jw_on(&json);

	jw_obj(&w);
	bool r = payload_write(&w, type, payload);
	jw_obj_end(&w);
	return r;
}

#define FITS(NAME, name, ...) fits(EVENT_##NAME, &(struct name){ __VA_ARGS__ }.envelope)

START_TEST(a_payload_that_breaks_its_row_is_not_reported_as_checked)
{
	ck_assert(FITS(TASK_QUEUED, task_queued, .reason = "backoff"));
	ck_assert(!FITS(TASK_QUEUED, task_queued, .position = opt_int(1)));
	ck_assert(FITS(TURN_STARTED, turn_started, .driver = "d", .executionEnvironment = json_from_text("{}")));
	ck_assert(
		!FITS(TURN_STARTED, turn_started, .driver = "d", .executionEnvironment = json_from_text("{\"a\":1}")));
	ck_assert(!FITS(TURN_STARTED, turn_started, .driver = "d", .executionEnvironment = json_from_text("[]")));
	ck_assert(!FITS(TURN_STARTED, turn_started, .driver = "d", .executionEnvironment = json_from_text("null")));
	ck_assert(!FITS(TURN_COMPLETED, turn_completed, .outcome = "done")); /* members that a function writes */
}
END_TEST

START_TEST(each_kind_is_written_in_the_order_of_the_row)
{
	WRITES(TASK_QUEUED, task_queued, "{\"reason\":\"r\",\"position\":0,\"dueAt\":\"1970-01-01T00:00:01.000000Z\"}",
	       .dueAt = 1000000, .position = opt_int(0), .reason = "r");
	WRITES(SESSION_UPDATED, session_updated, "{\"title\":\"t\",\"scope\":{\"a\":1},\"archived\":false}",
	       .title = "t", .scope = json_from_text("{\"a\":1}"), .archived = opt_bool(false));
	WRITES(TURN_STARTED, turn_started, "{\"driver\":\"client\",\"fromQueue\":true}", .driver = "client",
	       .fromQueue = true);
	WRITES(QUOTA_LOW, quota_low, "{\"limit\":\"l\",\"left\":0.5}", .limit = "l", .left = 0.5);
	WRITES(QUEUE_CHANGED, queue_changed, "{\"order\":[\"a\",\"b\"],\"change\":\"queued\"}",
	       .order = json_from_strings((const char *const[]){ "a", "b" }, 2), .change = "queued");
}
END_TEST

START_TEST(parts_are_not_nested_but_objects_of_them_are)
{
	WRITES(TASK_CREATED, task_created, "{\"objective\":\"o\",\"priority\":\"high\",\"timeoutMs\":5}",
	       .objective = "o", .described.priority = "high", .limits.timeoutMs = opt_int(5));
	WRITES(CHANNEL_RESUMED, channel_resumed, "{\"resumedFrom\":7,\"gap\":{\"from\":3,\"to\":6}}", .resumedFrom = 7,
	       .gap = JSON_OBJECT(event_range, .from = 3, .to = 6));
}
END_TEST

static void write_preview(struct jw *w, const void *text, size_t n)
{
	jw_kstrn(w, "preview", text, n);
	jw_kstr(w, "encoding", "utf8");
	jw_kuint(w, "previewBytes", n);
}

START_TEST(written_members_come_from_a_function_or_a_text)
{
	static const char members[] = "\"preview\":\"ab\",\"encoding\":\"utf8\",\"previewBytes\":2";
	const struct buf text = { .data = (char *)(uintptr_t)members, .len = sizeof(members) - 1 };

	for (int by_text = 0; by_text < 2; by_text++)
		WRITES(PROCESS_OUTPUT, process_output,
		       "{\"stream\":\"stdout\",\"offset\":1,\"length\":2,\"preview\":\"ab\",\"encoding\":\"utf8\","
		       "\"previewBytes\":2}",
		       .stream = "stdout", .offset = 1, .length = 2,
		       .shown = by_text ? json_from_buf(&text) : json_from_writer(write_preview, "ab", 2));
}
END_TEST

static struct event_view event_with(const char *payload)
{
	return (struct event_view){ .payload = jval_of(payload, strlen(payload)) };
}

START_TEST(a_reader_finds_members_in_any_order)
{
	struct event_view ev = event_with(
		"{\"rows\":24,\"other\":[1],\"kind\":\"resize\",\"by\":{\"uid\":1},\"bytes\":3}");
	struct process_input_json input;

	read_process_input(&ev, &input);
	ck_assert(jval_is_str(input.kind, "resize"));
	ck_assert_uint_eq(jval_uint(input.rows, 0), 24);
	ck_assert_uint_eq(jval_uint(input.bytes, 0), 3);
	ck_assert_int_eq(input.by.type, JT_OBJECT);
	ck_assert_int_eq(input.cols.type, JT_NONE);
	ck_assert_int_eq(input.preview.type, JT_NONE);
}
END_TEST

START_TEST(a_reader_finds_no_absent_members)
{
	struct event_view ev = event_with("{\"reason\":\"r\"}");
	struct job_started_json started;
	struct task_queued_json queued;

	read_job_started(&ev, &started);
	read_task_queued(&ev, &queued);
	ck_assert(jval_is_str(queued.reason, "r"));
	ck_assert_int_eq(queued.dueAt.type, JT_NONE);
	ev = event_with("{}");
	read_task_queued(&ev, &queued);
	ck_assert_int_eq(queued.reason.type, JT_NONE);
}
END_TEST

int main(void)
{
	return SUITE("payloads", absent_members_are_omitted, a_payload_that_breaks_its_row_is_not_reported_as_checked,
		     each_kind_is_written_in_the_order_of_the_row, parts_are_not_nested_but_objects_of_them_are,
		     written_members_come_from_a_function_or_a_text, a_reader_finds_members_in_any_order,
		     a_reader_finds_no_absent_members);
}

#include "supervisor/otlp/span.h"

#include "supervisor/common/event_link.h"
#include "supervisor/otlp/otlp_http.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct span_table book;
static struct buf out;

static void setup(void)
{
	span_table_init(&book, "rt_1");
	out = BUF_INIT;
}

static void teardown(void)
{
	span_table_done(&book);
	buf_done(&out);
}

static bool take(const char *event) { return span_table_event(&book, jval_of(event, strlen(event)), &out); }

static bool output_has(const char *text) { return strstr(buf_cstr(&out), text) != NULL; }

#define IDS "\"sessionId\":\"sess_1\",\"turnId\":\"turn_1\",\"processId\":\"proc_1\""
#define STARTED                                                                                           \
	"{\"type\":\"process.started\",\"sequence\":4,\"timestamp\":\"2026-01-01T00:00:00.000000Z\"," IDS \
	",\"payload\":{\"command\":[\"/usr/bin/make\",\"secret\"],\"cwd\":\"/"                            \
	"w\",\"pid\":7,\"tty\":null,\"profile\":\"ci\"}}"
#define COMPLETED                                                                                           \
	"{\"type\":\"process.completed\",\"sequence\":9,\"timestamp\":\"2026-01-01T00:00:02.000000Z\"," IDS \
	",\"payload\":{\"exitCode\":0,\"durationMs\":2000}}"

START_TEST(a_span_is_written_at_its_end)
{
	ck_assert(!take(STARTED));
	ck_assert(take(COMPLETED));
	ck_assert(output_has("\"name\":\"make\"") && output_has("\"kind\":3") && output_has("\"code\":1"));
	ck_assert(output_has("\"startTimeUnixNano\":\"1767225600000000000\"") &&
		  output_has("\"endTimeUnixNano\":\"1767225602000000000\""));
	ck_assert(!output_has("secret") && !output_has("bailiff.start"));
	ck_assert_uint_eq(book.open.count, 0);
	ck_assert_int_eq(jval_of(out.data, out.len).type, JT_OBJECT);
}
END_TEST

START_TEST(a_span_with_an_unknown_start_is_marked)
{
	ck_assert(take(COMPLETED));
	ck_assert(output_has("\"startTimeUnixNano\":\"1767225600000000000\"") && output_has("bailiff.start"));
}
END_TEST

static int find_in_log(void *ctx, const char *type, const char *id_member, const char *id, struct jval like,
		       struct buf *ret)
{
	if (strcmp(type, "process.started") != 0)
		return -1;
	ck_assert_str_eq(id_member, "processId");
	ck_assert_str_eq(id, "proc_1");
	buf_str(ret, STARTED);
	return 0;
}

START_TEST(a_missing_start_is_read_from_the_log)
{
	book.find_start = find_in_log;
	ck_assert(take(COMPLETED));
	ck_assert(output_has("\"name\":\"make\"") && !output_has("bailiff.start"));
}
END_TEST

#define CALLED                                                                                                      \
	"{\"type\":\"process.completed\",\"turnId\":\"turn_1\",\"toolCallId\":\"call_1\",\"processId\":\"proc_1\"," \
	"\"payload\":{\"exitCode\":0}}"
#define TOOL_SPAN "\"parentSpanId\":\"e9e3fa2882095ad0\""
#define TURN_SPAN "\"parentSpanId\":\"645a6e6ec95efbf2\""

START_TEST(only_known_spans_are_parents)
{
	ck_assert(take(CALLED)); /* a call of the client, without events */
	ck_assert(output_has(TURN_SPAN) && !output_has(TOOL_SPAN));
	buf_reset(&out);
	ck_assert(!take("{\"type\":\"tool.started\",\"toolCallId\":\"call_1\",\"payload\":{\"toolName\":\"x\"}}"));
	ck_assert(take(CALLED));
	ck_assert(output_has(TOOL_SPAN));
	buf_reset(&out);
	ck_assert(!take("{\"type\":\"turn.submitted\",\"turnId\":\"turn_1\",\"payload\":{\"source\":\"system\"}}"));
	ck_assert(take(COMPLETED));
	ck_assert(!output_has(TURN_SPAN));
}
END_TEST

START_TEST(turns_of_the_runtime_have_no_span)
{
	ck_assert(!take("{\"type\":\"turn.submitted\",\"turnId\":\"turn_0\",\"payload\":{\"source\":\"system\"}}"));
	ck_assert(!take("{\"type\":\"turn.completed\",\"turnId\":\"turn_0\",\"payload\":{}}"));
	ck_assert_uint_eq(out.len, 0);
}
END_TEST

START_TEST(many_open_spans_are_bounded)
{
	char event[256];

	for (int i = 0; i < 20000; i++) {
		snprintf(event, sizeof(event),
			 "{\"type\":\"tool.started\",\"toolCallId\":\"call_%d\",\"payload\":{\"toolName\":\"x\"}}", i);
		ck_assert(!take(event));
	}
	ck_assert_uint_le(book.open.count, 4096);
}
END_TEST

START_TEST(two_spans_are_separated)
{
	take(COMPLETED);
	take(COMPLETED);
	ck_assert(output_has("},{\"traceId\""));
}
END_TEST

static void count_header(void *ctx, const char *name, const char *value) { snprintf(ctx, 64, "%s|%s", name, value); }

START_TEST(configured_headers_are_parsed)
{
	char last[64] = "";

	ck_assert_int_eq(otlp_http_headers_each("a=1, b = x%20y ,", count_header, last), 0);
	ck_assert_str_eq(last, "b|x y");
	ck_assert_int_eq(otlp_http_headers_each("nonsense", count_header, last), -1);
	ck_assert_int_eq(otlp_http_headers_each("a=%0d%0aEvil: 1", count_header, last), -1);
	ck_assert_int_eq(otlp_http_headers_each("a b=1", count_header, last), -1);
	ck_assert_int_eq(otlp_http_headers_each("a=%4", count_header, last), -1);
}
END_TEST

START_TEST(a_cursor_belongs_to_its_store)
{
	int fd = memfd_create("cursor", 0);
	uint64_t at = 1;

	ck_assert_int_eq(cursor_read(fd, "rt_1", &at), 1);
	ck_assert_int_eq(cursor_write(fd, "rt_1", 42, NULL), 0);
	ck_assert_int_eq(cursor_read(fd, "rt_1", &at), 0);
	ck_assert_uint_eq(at, 42);
	ck_assert_int_eq(cursor_read(fd, "rt_2", &at), 1);
	ck_assert_int_eq(ftruncate(fd, 7), 0);
	ck_assert_int_eq(cursor_read(fd, "rt_1", &at), 1);
	close(fd);
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "spans", setup, teardown, 120,
		  SUITE_TESTS(a_span_is_written_at_its_end, a_span_with_an_unknown_start_is_marked,
			      a_missing_start_is_read_from_the_log, only_known_spans_are_parents,
			      turns_of_the_runtime_have_no_span, many_open_spans_are_bounded, two_spans_are_separated,
			      configured_headers_are_parsed, a_cursor_belongs_to_its_store) },
	};

	return suite_run_cases("span", cases, 1);
}

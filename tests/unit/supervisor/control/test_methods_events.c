#include "tests/unit/supervisor/control/harness.h"

#include <poll.h>

static struct harness w;
static uint32_t me;
static struct end c;
static void setup(void)
{
	harness_new(&w);
	me = (uint32_t)geteuid();
	c = end_new(&w, NULL);
}
static void teardown(void)
{
	end_done(&c);
	harness_done(&w);
}

static json_t *call(const char *method, const char *params)
{
	char text[2000];
	snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{%s}}", method, params);
	return ask(&w, &c, text);
}

static void expect_range(const char *params, long long first, size_t n, bool more)
{
	json_auto_t *reply = call("list_events", params);
	mem_auto char *all = json_dumps(reply, 0);
	ck_assert_msg(json_array_size(at(reply, "result.events")) == n, "%s: %.200s", params, all);
	if (n)
		ck_assert_int_eq(int_at(reply, "result.events.0.sequence"), first);
	ck_assert_int_eq(json_is_true(at(reply, "result.hasMore")), more);
	ck_assert_int_eq(int_at(reply, "result.firstSequence"), 1);
	ck_assert_int_eq(int_at(reply, "result.lastSequence"), (long long)store_last_sequence(w.store));
}

START_TEST(events_are_listed_by_range)
{
	expect_range("", 0, 0, false);
	append(&w, EVENT_RUN_STATUS, me, "sess_1", "proc_1", 150, 1);
	append(&w, EVENT_ARTIFACT_CHANGED, me, "sess_2", NULL, 10, 1);
	expect_range("", 1, 100, true);
	expect_range("\"limit\":1000", 1, 160, false);
	expect_range("\"limit\":99999", 1, 160, false);
	expect_range("\"limit\":160", 1, 160, false);
	expect_range("\"limit\":159", 1, 159, true);
	expect_range("\"limit\":0", 1, 0, true);
	expect_range("\"afterSequence\":155", 156, 5, false);
	expect_range("\"afterSequence\":160", 0, 0, false);
	expect_range("\"afterSequence\":9999", 0, 0, false);
	expect_range("\"beforeSequence\":4", 1, 3, false);
	expect_range("\"beforeSequence\":1", 0, 0, false);
	expect_range("\"beforeSequence\":0", 0, 0, false);
	expect_range("\"afterSequence\":10,\"beforeSequence\":13", 11, 2, false);
	expect_range("\"sessionId\":\"sess_2\"", 151, 10, false);
	expect_range("\"sessionId\":\"sess_2\",\"limit\":4", 151, 4, true);
	expect_range("\"processId\":\"proc_1\",\"afterSequence\":149", 150, 1, false);
	expect_range("\"types\":[\"artifact.*\"],\"limit\":10", 151, 10, false);
	expect_range("\"sessionId\":\"sess_none\"", 0, 0, false);
}
END_TEST

START_TEST(events_are_listed_newest_first)
{
	append(&w, EVENT_RUN_STATUS, me, "sess_1", "proc_1", 150, 1);
	append(&w, EVENT_ARTIFACT_CHANGED, me, "sess_2", NULL, 10, 1);
	append(&w, EVENT_RUN_STATUS, me, "sess_1", NULL, 20000, 1);
	expect_range("\"order\":\"asc\"", 1, 100, true);
	expect_range("\"order\":\"desc\"", 20160, 100, true);
	expect_range("\"order\":\"desc\",\"beforeSequence\":101", 100, 100, false);
	expect_range("\"order\":\"desc\",\"beforeSequence\":102", 101, 100, true);
	expect_range("\"order\":\"desc\",\"beforeSequence\":99999,\"limit\":1", 20160, 1, true);
	expect_range("\"order\":\"desc\",\"beforeSequence\":0", 0, 0, false);
	expect_range("\"order\":\"desc\",\"afterSequence\":20150", 20160, 10, false);
	expect_range("\"order\":\"desc\",\"afterSequence\":20160", 0, 0, false);
	expect_range("\"order\":\"desc\",\"limit\":0", 0, 0, true);
	expect_range("\"order\":\"desc\",\"sessionId\":\"sess_2\"", 160, 10, false);
	expect_range("\"order\":\"desc\",\"sessionId\":\"sess_2\",\"limit\":4", 160, 4, true);
	expect_range("\"order\":\"desc\",\"types\":[\"artifact.*\"],\"limit\":10", 160, 10, false);
	expect_range("\"order\":\"desc\",\"types\":[\"artifact.*\"],\"limit\":9", 160, 9, true);
	expect_range("\"order\":\"desc\",\"processId\":\"proc_1\",\"afterSequence\":149", 150, 1, false);
	expect_range("\"order\":\"desc\",\"sessionId\":\"sess_none\"", 0, 0, false);

	/* Descending pages are the log in reverse. */
	for (long long before = 20161, n = 0;; before -= n) {
		char params[100];
		snprintf(params, sizeof params, "\"order\":\"desc\",\"limit\":997,\"beforeSequence\":%lld", before);
		json_auto_t *reply = call("list_events", params);
		size_t i;
		json_t *event;
		n = 0;
		json_array_foreach (at(reply, "result.events"), i, event)
			ck_assert_int_eq(int_at(event, "sequence"), before - ++n);
		if (!json_is_true(at(reply, "result.hasMore"))) {
			ck_assert_int_eq(before - n, 1);
			break;
		}
		ck_assert_int_eq(n, 997);
	}
}
END_TEST

START_TEST(a_page_is_bounded_in_bytes)
{
	append(&w, EVENT_RUN_STATUS, me, "sess_1", NULL, 200, 60000);
	json_auto_t *newest = call("list_events", "\"order\":\"desc\",\"limit\":1000");
	size_t found = json_array_size(at(newest, "result.events"));
	ck_assert(found > 60 && found < 80 && json_is_true(at(newest, "result.hasMore")));
	ck_assert_int_eq(int_at(newest, "result.events.0.sequence"), 200);
	long long after = 0;
	bool more = true;
	int pages = 0;
	while (more) {
		char params[100];
		snprintf(params, sizeof params, "\"limit\":1000,\"afterSequence\":%lld", after);
		json_auto_t *reply = call("list_events", params);
		json_t *events = at(reply, "result.events");
		size_t n = json_array_size(events);
		ck_assert_uint_gt(n, 0);
		ck_assert_uint_lt(n, 80);
		ck_assert_int_eq(int_at(events, "0.sequence"), after + 1);
		after += (long long)n;
		more = json_is_true(at(reply, "result.hasMore"));
		pages++;
	}
	ck_assert_int_eq(after, 200);
	ck_assert_int_ge(pages, 3);
}
END_TEST

START_TEST(a_long_search_does_not_block_other_clients)
{
	append(&w, EVENT_RUN_STATUS, me, "sess_1", NULL, 20000, 1);
	append(&w, EVENT_ARTIFACT_CHANGED, me, "sess_1", NULL, 1, 1);
	struct end other = end_new(&w, NULL), gone = end_new(&w, NULL);
	end_send(&w, &c,
		 "{\"jsonrpc\":\"2.0\",\"id\":\"long\",\"method\":\"list_events\",\"params\":{\"types\":[\"artifact.*"
		 "\"]}}\n");
	end_send(&w, &gone,
		 "{\"jsonrpc\":\"2.0\",\"id\":\"long\",\"method\":\"list_events\",\"params\":{\"types\":[\"artifact.*"
		 "\"]}}\n");
	until(&w, !TAILQ_EMPTY(&w.control->listings));
	end_done(&gone);
	json_decref(ask(&w, &other, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"get_metrics\"}"));
	json_auto_t *reply = end_line(&w, &c);
	ck_assert_int_eq(int_at(reply, "result.events.0.sequence"), 20001);
	ck_assert(json_is_false(at(reply, "result.hasMore")));
	until(&w, TAILQ_EMPTY(&w.control->listings));
	end_done(&other);
}
END_TEST

static void on_pruned(void *ctx, uint64_t removed, const struct err *e)
{
	ck_assert_msg(!e, "%s", e ? e->message : "");
	*(bool *)ctx = true;
}

/* Sends a search, and removes events while it waits to continue. */
static json_t *list_while_pruned(const char *params, uint64_t floor)
{
	uint64_t deadline = clock_boot_ns() + WAIT_NS;
	bool done = false;
	char text[300];

	snprintf(
		text, sizeof text,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"list_events\",\"params\":{\"types\":[\"artifact.*\"]%s}}\n",
		params);
	end_send(&w, &c, text);
	until(&w, !TAILQ_EMPTY(&w.control->listings));
	store_prune(w.store, floor, 0, on_pruned, &done);
	while (store_first_sequence(w.store) != floor) /* not by steps of the loop: the search would continue */
		ck_assert(poll(NULL, 0, 1) == 0 && clock_boot_ns() < deadline);
	ck_assert(!TAILQ_EMPTY(&w.control->listings));
	until(&w, done);
	return end_line(&w, &c);
}

START_TEST(events_can_be_pruned_while_they_are_listed)
{
	append(&w, EVENT_ARTIFACT_CHANGED, me, "sess_1", NULL, 1, 1);
	append(&w, EVENT_RUN_STATUS, me, "sess_1", NULL, 30000, 1);
	append(&w, EVENT_ARTIFACT_CHANGED, me, "sess_1", NULL, 1, 1);
	/* the first artifact is listed, so the events removed after it are a gap */
	json_auto_t *gap = list_while_pruned("", 10000);
	expect_error(gap, -32013, "10000");
	ck_assert_int_eq(int_at(gap, "error.data.firstSequence"), 10000);
	/* nothing was listed: the log begins later */
	json_auto_t *later = list_while_pruned("", 19500);
	ck_assert_int_eq(int_at(later, "result.events.0.sequence"), 30002);
	ck_assert_uint_eq(json_array_size(at(later, "result.events")), 1);
	ck_assert_int_eq(int_at(later, "result.firstSequence"), 19500);
	/* in descending order the list only ends earlier */
	json_auto_t *newest = list_while_pruned(",\"order\":\"desc\"", 20500);
	ck_assert_int_eq(int_at(newest, "result.events.0.sequence"), 30002);
	ck_assert_uint_eq(json_array_size(at(newest, "result.events")), 1);
	ck_assert(json_is_false(at(newest, "result.hasMore")));
	/* the client named the first event */
	json_auto_t *named = list_while_pruned(",\"afterSequence\":20499", 29000);
	expect_error(named, -32013, "29000");
}
END_TEST

START_TEST(events_are_emitted_with_payload_and_members)
{
	json_auto_t *reply = call("emit_events",
				  "\"sessionId\":\"sess_1\",\"events\":[{\"type\":\"run.status\",\"payload\":{"
				  "\"phase\":\"x\"},\"refs\":{\"a\":1}},"
				  "{\"type\":\"artifact.changed\",\"artifactId\":\"art_1\",\"sessionId\":\"sess_1\"}]");
	ck_assert(json_is_true(at(reply, "result.ok")));
	ck_assert_str_eq(fake.seen, "emit 2 run.status sess_1 {\"phase\":\"x\"} \"refs\":{\"a\":1}");
}
END_TEST

static const struct {
	const char *events;
	int code;
	const char *part;
} bad[] = {
	{ "[]", -32602, "events: expected 1 to 1000" },
	{ "[5]", -32602, "events[0]: expected an object" },
	{ "[{}]", -32602, "events[0].type: missing" },
	{ "[{\"type\":5}]", -32602, "events[0].type: expected a string" },
	{ "[{\"type\":\"run.status\"},{\"type\":\"process.started\"}]", -32003,
	  "events[1].type: process.started is written by the runtime" },
	{ "[{\"type\":\"sandbox.applied\"}]", -32003, "events[0].type" },
	{ "[{\"type\":\"run.state\"}]", -32602, "did you mean run.status" },
	{ "[{\"type\":\"run.status\",\"payload\":[]}]", -32602, "events[0].payload: expected an object" },
	{ "[{\"type\":\"run.status\",\"permissionDecision\":{}}]", -32602, "events[0].permissionDecision: unknown" },
	{ "[{\"type\":\"run.status\",\"taskId\":\"a b\"}]", -32602, "events[0].taskId" },
	{ "[{\"type\":\"run.status\",\"sessionId\":\"sess_2\"}]", -32602, "events[0].sessionId" },
};

START_TEST(invalid_events_are_rejected_with_their_position)
{
	char params[500];
	snprintf(params, sizeof params, "\"sessionId\":\"sess_1\",\"events\":%s", bad[_i].events);
	json_auto_t *reply = call("emit_events", params);
	expect_error(reply, bad[_i].code, bad[_i].part);
	ck_assert_uint_eq(fake.calls, 0);
}
END_TEST

START_TEST(health_metrics_and_methods_are_returned)
{
	json_auto_t *health = call("get_health", "");
	ck_assert_str_eq(text_at(health, "result.status"), "ok");
	ck_assert_int_eq(int_at(health, "result.processes.live"), 3);
	ck_assert_int_eq(int_at(health, "result.connections"), 1);
	ck_assert_str_eq(text_at(health, "result.toolProgram"), "/usr/libexec/bailiff/bailiff-tool");
	json_auto_t *metrics = call("get_metrics", "");
	ck_assert_int_eq(int_at(metrics, "result.methods.get_health.count"), 1);
	ck_assert_int_eq(int_at(metrics, "result.requests"), 1);
	json_auto_t *methods = call("list_methods", "");
	ck_assert_uint_eq(json_array_size(at(methods, "result.methods")), control_methods.count);
	size_t i;
	json_t *m;
	json_array_foreach (at(methods, "result.methods"), i, m)
		if (strcmp(text_at(m, "name"), "initialize") == 0) {
			ck_assert_str_eq(text_at(m, "role"), "observer");
			ck_assert_str_eq(text_at(m, "parameters.2.name"), "role");
			ck_assert_str_eq(text_at(m, "parameters.2.enum.1"), "agent");
		}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("methods_events");
	TCase *t = tcase_create("all");
	tcase_set_timeout(t, 240);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, events_are_listed_by_range);
	tcase_add_test(t, events_are_listed_newest_first);
	tcase_add_test(t, a_page_is_bounded_in_bytes);
	tcase_add_test(t, a_long_search_does_not_block_other_clients);
	tcase_add_test(t, events_can_be_pruned_while_they_are_listed);
	tcase_add_test(t, events_are_emitted_with_payload_and_members);
	tcase_add_loop_test(t, invalid_events_are_rejected_with_their_position, 0, (int)countof(bad));
	tcase_add_test(t, health_metrics_and_methods_are_returned);
	suite_add_tcase(s, t);
	return harness_main(s);
}

#include "tests/unit/supervisor/control/harness.h"

#include "supervisor/control/subscription.h"

static struct harness w;
static uint32_t me;
static void setup(void)
{
	harness_new(&w);
	me = (uint32_t)geteuid();
}
static void teardown(void) { harness_done(&w); }

static json_t *subscribe(struct end *c, const char *params)
{
	char text[500];
	snprintf(text, sizeof text,
		 "{\"jsonrpc\":\"2.0\",\"id\":\"sub\",\"method\":\"subscribe_events\",\"params\":{%s}}", params);
	return ask(&w, c, text);
}

/* The next notification must be an event with this sequence. */
static void expect_event(struct end *c, uint64_t sequence)
{
	json_auto_t *note = end_line(&w, c);
	ck_assert_str_eq(text_at(note, "method"), "event");
	ck_assert_int_eq(int_at(note, "params.event.sequence"), (long long)sequence);
	ck_assert_ptr_nonnull(strstr(text_at(note, "params.subscriptionId"), "stream_"));
}

static void expect_silence(struct end *c)
{
	json_auto_t *reply = ask(&w, c, "{\"jsonrpc\":\"2.0\",\"id\":\"quiet\",\"method\":\"get_metrics\"}");
	ck_assert_str_eq(text_at(reply, "id"), "quiet");
	for (int i = 0; i < 5; i++)
		harness_step(&w);
	ck_assert(!end_has_line(c));
}

START_TEST(a_subscription_continues_live_from_every_sequence)
{
	append(&w, EVENT_RUN_STATUS, me, "sess_1", NULL, 20, 1);
	uint64_t last = store_last_sequence(w.store);
	ck_assert_uint_eq(last, 20);
	struct end c[21];
	for (uint64_t after = 0; after <= last; after++) {
		char params[64];
		c[after] = end_new(&w, NULL);
		snprintf(params, sizeof params, "\"afterSequence\":%u", (unsigned)after);
		json_auto_t *reply = subscribe(&c[after], params); /* the reply comes before any event */
		ck_assert_int_eq(int_at(reply, "result.afterSequence"), (long long)after);
		ck_assert_int_eq(int_at(reply, "result.lastSequence"), (long long)last);
	}
	append(&w, EVENT_RUN_STATUS, me, "sess_1", NULL, 5, 1);
	for (uint64_t after = 0; after <= last; after++) {
		for (uint64_t n = after + 1; n <= last + 5; n++)
			expect_event(&c[after], n);
		expect_silence(&c[after]);
		end_done(&c[after]);
	}
}
END_TEST

START_TEST(a_subscription_is_live_by_default)
{
	append(&w, EVENT_RUN_STATUS, me, "sess_1", NULL, 3, 1);
	struct end c = end_new(&w, NULL);
	json_decref(subscribe(&c, ""));
	expect_silence(&c);
	append(&w, EVENT_RUN_STATUS, me, "sess_1", NULL, 1, 1);
	expect_event(&c, 4);
	json_auto_t *beyond = subscribe(&c, "\"afterSequence\":5");
	expect_error(beyond, -32602, "afterSequence");
	end_done(&c);
}
END_TEST

START_TEST(filters_select_events)
{
	append(&w, EVENT_RUN_STATUS, me, "sess_1", "proc_1", 2, 1);       /* 1 2 */
	append(&w, EVENT_RUN_STATUS, me, "sess_2", "proc_2", 2, 1);       /* 3 4 */
	append(&w, EVENT_ARTIFACT_CHANGED, me, "sess_1", "proc_2", 1, 1); /* 5 */
	append(&w, EVENT_RUN_STATUS, me + 1, "sess_3", "proc_1", 1, 1);   /* 6, another uid's */
	static const struct {
		const char *params;
		unsigned wanted;
	} rows[] = {
		{ "\"processId\":\"proc_1\"", 1 << 1 | 1 << 2 | 1 << 6 },
		{ "\"sessionId\":\"sess_1\"", 1 << 1 | 1 << 2 | 1 << 5 },
		{ "\"sessionId\":\"sess_1\",\"processId\":\"proc_2\"", 1 << 5 },
		{ "\"types\":[\"artifact.*\"]", 1 << 5 },
		{ "\"types\":[\"run.status\"],\"sessionId\":\"sess_2\"", 1 << 3 | 1 << 4 },
		{ "\"types\":[\"artifact.changed\",\"run.*\"]", 0x7e },
		{ "\"types\":[]", 0x7e },
		{ "\"threadId\":\"thr_1\"", 0 },
	};
	for (size_t i = 0; i < countof(rows); i++) {
		char params[200];
		struct end c = end_new(&w, NULL);
		snprintf(params, sizeof params, "\"afterSequence\":0,%s", rows[i].params);
		json_decref(subscribe(&c, params));
		for (unsigned n = 1; n <= 6; n++)
			if (rows[i].wanted & (1u << n))
				expect_event(&c, n);
		expect_silence(&c);
		end_done(&c);
	}
	ck_assert_uint_eq(fake.follows, 2);
	struct end c = end_new(&w, NULL);
	json_auto_t *typo = subscribe(&c, "\"types\":[\"run.status\",\"run.statos\"]");
	expect_error(typo, -32602, "types[1]: no event type matches \"run.statos\"; did you mean run.status");
	end_done(&c);
}
END_TEST

START_TEST(a_peer_receives_only_its_own_events)
{
	append(&w, EVENT_RUN_STATUS, 1234, "sess_1", "proc_1", 1, 1);
	append(&w, EVENT_RUN_STATUS, 5678, "sess_2", "proc_2", 1, 1);
	int fds[2];
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	struct peer stranger = { .uid = 5678, .gid = 5678, .pid = 1 };
	control_adopt(w.control, fds[1], &stranger);
	struct end c = { .fd = fds[0] };
	json_decref(subscribe(&c, "\"afterSequence\":0"));
	expect_event(&c, 2);
	expect_silence(&c);
	json_auto_t *other = ask(
		&w, &c,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"list_events\",\"params\":{\"processId\":\"proc_1\"}}");
	ck_assert_uint_eq(json_array_size(at(other, "result.events")), 0);
	json_auto_t *list = ask(&w, &c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"list_events\"}");
	ck_assert_uint_eq(json_array_size(at(list, "result.events")), 1);
	end_done(&c);
}
END_TEST

START_TEST(a_subscription_by_index_misses_no_events)
{
	/* More events than are kept in memory, so that the log is read through the index. */
	append(&w, EVENT_RUN_STATUS, me, "sess_1", "proc_1", 2, 1);
	append(&w, EVENT_RUN_STATUS, me, "sess_1", "proc_2", 3000, 1);
	append(&w, EVENT_RUN_STATUS, me, "sess_1", "proc_1", 1, 1);
	append(&w, EVENT_RUN_STATUS, me, "sess_1", "proc_2", 3000, 1);
	struct end c = end_new(&w, NULL);
	json_decref(subscribe(&c, "\"afterSequence\":0,\"processId\":\"proc_1\""));
	expect_event(&c, 1);
	expect_event(&c, 2);
	expect_event(&c, 3003);
	expect_silence(&c);
	struct subscription *s = LIST_FIRST(&w.control->subscriptions);
	ck_assert_uint_eq(s->cursor, store_last_sequence(w.store));
	append(&w, EVENT_RUN_STATUS, me, "sess_1", "proc_1", 1, 1);
	expect_event(&c, 6004);
	end_done(&c);
}
END_TEST

START_TEST(only_the_subscriber_can_unsubscribe)
{
	struct end c = end_new(&w, NULL), other = end_new(&w, NULL);
	json_auto_t *reply = subscribe(&c, "");
	char text[200];
	snprintf(text, sizeof text,
		 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"unsubscribe_events\",\"params\":{\"subscriptionId\":\"%"
		 "s\"}}",
		 text_at(reply, "result.subscriptionId"));
	json_auto_t *not_yours = ask(&w, &other, text);
	expect_error(not_yours, -32004, "no subscription");
	json_auto_t *done = ask(&w, &c, text);
	ck_assert_ptr_nonnull(at(done, "result"));
	append(&w, EVENT_RUN_STATUS, me, "sess_1", NULL, 2, 1);
	expect_silence(&c);
	ck_assert_uint_eq(w.control->nsubscriptions, 0);
	end_done(&c);
	end_done(&other);
}
END_TEST

START_TEST(subscriptions_of_a_uid_are_limited)
{
	w.config.max_subscriptions_per_uid = 2;
	struct end a = end_new(&w, NULL), b = end_new(&w, NULL);
	json_decref(subscribe(&a, ""));
	json_decref(subscribe(&a, ""));
	json_auto_t *no = subscribe(&b, "");
	expect_error(no, -32012, "maxSubscriptionsPerUid");
	end_done(&a);
	until(&w, w.control->nclients == 1);
	json_auto_t *yes = subscribe(&b, "");
	ck_assert_ptr_nonnull(at(yes, "result"));
	end_done(&b);
}
END_TEST

START_TEST(events_follow_the_reply_of_a_batch)
{
	append(&w, EVENT_RUN_STATUS, me, "sess_1", NULL, 3, 1);
	struct end c = end_new(&w, NULL);
	fake.hold = true;
	end_send(&w, &c,
		 "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscribe_events\",\"params\":{\"afterSequence\":0}},"
		 "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"create_session\"}]\n");
	until(&w, fake.fn);
	append(&w, EVENT_RUN_STATUS, me, "sess_1", NULL, 1, 1);
	expect_silence(&c);
	fake_release();
	json_auto_t *batch = end_line(&w, &c);
	ck_assert_uint_eq(json_array_size(batch), 2);
	for (unsigned n = 1; n <= 4; n++)
		expect_event(&c, n);
	end_done(&c);
}
END_TEST

START_TEST(a_slow_reader_uses_bounded_memory_and_misses_nothing)
{
	struct client *slow_client;
	struct end slow = end_new(&w, &slow_client), fast = end_new(&w, NULL);
	json_decref(subscribe(&slow, "\"afterSequence\":0"));
	json_decref(subscribe(&fast, "\"afterSequence\":0"));
	uint64_t next = 1;
	for (int round = 0; round < 20; round++) {
		append(&w, EVENT_RUN_STATUS, me, "sess_1", NULL, 100, 1000);
		for (int i = 0; i < 100; i++)
			expect_event(&fast, next++);
		ck_assert_uint_le(client_unsent(slow_client), CLIENT_OUT_LOW + EVENT_MAX);
	}
	ck_assert_uint_lt(LIST_FIRST(&slow_client->subscriptions)->cursor, 2000);
	for (uint64_t n = 1; n <= 2000; n++)
		expect_event(&slow, n);
	expect_silence(&slow);
	/* A hundred clients that never read use the same memory each. */
	struct end stuck[30];
	for (int i = 0; i < 30; i++) {
		stuck[i] = end_new(&w, NULL);
		end_send(&w, &stuck[i],
			 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscribe_events\",\"params\":{\"afterSequence\":"
			 "0}}\n");
	}
	append(&w, EVENT_RUN_STATUS, me, "sess_1", NULL, 50, 1000);
	for (int i = 0; i < 50; i++)
		expect_event(&fast, next++);
	ck_assert_uint_le(slow_client->account->queued, 31ull * (CLIENT_OUT_LOW + EVENT_MAX));
	for (int i = 0; i < 30; i++)
		end_done(&stuck[i]);
	end_done(&slow);
	end_done(&fast);
	until(&w, w.control->nclients == 0);
	ck_assert_uint_eq(w.control->nsubscriptions, 0);
}
END_TEST

static void pruned(void *ctx, uint64_t removed, const struct err *e)
{
	ck_assert_msg(!e, "%s", e ? e->message : "");
	*(bool *)ctx = true;
}

static void prune(uint64_t floor)
{
	bool done = false;
	store_prune(w.store, floor, 0, pruned, &done);
	until(&w, done);
	until(&w, store_first_sequence(w.store) == floor);
}

START_TEST(a_subscription_behind_retention_gets_a_gap_message)
{
	struct client *cl;
	struct end slow = end_new(&w, &cl), c = end_new(&w, NULL);
	end_send(&w, &slow,
		 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscribe_events\",\"params\":{\"afterSequence\":0}}\n");
	append(&w, EVENT_RUN_STATUS, me, "sess_1", NULL, 1500, 1000);
	until(&w, !LIST_EMPTY(&cl->subscriptions) && client_unsent(cl) >= CLIENT_OUT_LOW);
	uint64_t cursor = LIST_FIRST(&cl->subscriptions)->cursor;
	ck_assert_uint_lt(cursor, 1400);
	prune(1450);
	json_auto_t *expired = subscribe(&c, "\"afterSequence\":1448");
	expect_error(expired, -32013, "1450");
	ck_assert_int_eq(int_at(expired, "error.data.firstSequence"), 1450);
	ck_assert_str_eq(text_at(expired, "error.data.category"), "sequence_expired");
	json_auto_t *listed = ask(
		&w, &c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"list_events\",\"params\":{\"afterSequence\":0}}");
	expect_error(listed, -32013, "1450");
	json_decref(subscribe(&c, "\"afterSequence\":1449"));
	for (uint64_t n = 1450; n <= 1500; n++)
		expect_event(&c, n);
	/* The slow one gets a gap message and continues. */
	json_decref(end_line(&w, &slow));
	for (uint64_t n = 1; n <= cursor; n++)
		expect_event(&slow, n);
	json_auto_t *gap = end_line(&w, &slow);
	ck_assert_str_eq(text_at(gap, "method"), "event_gap");
	ck_assert_int_eq(int_at(gap, "params.firstSequence"), 1450);
	ck_assert_int_eq(int_at(gap, "params.lostAfter"), (long long)cursor);
	for (uint64_t n = 1450; n <= 1500; n++)
		expect_event(&slow, n);
	end_done(&slow);
	end_done(&c);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("subscription");
	TCase *t = tcase_create("all");
	tcase_set_timeout(t, 240);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_subscription_continues_live_from_every_sequence);
	tcase_add_test(t, a_subscription_is_live_by_default);
	tcase_add_test(t, filters_select_events);
	tcase_add_test(t, a_peer_receives_only_its_own_events);
	tcase_add_test(t, a_subscription_by_index_misses_no_events);
	tcase_add_test(t, only_the_subscriber_can_unsubscribe);
	tcase_add_test(t, subscriptions_of_a_uid_are_limited);
	tcase_add_test(t, events_follow_the_reply_of_a_batch);
	tcase_add_test(t, a_slow_reader_uses_bounded_memory_and_misses_nothing);
	tcase_add_test(t, a_subscription_behind_retention_gets_a_gap_message);
	suite_add_tcase(s, t);
	return harness_main(s);
}

#include "tests/unit/supervisor/control/harness.h"

#include "supervisor/control/idempotent_calls.h"

#define SESSION(id, title, key)                                                                            \
	"{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"method\":\"create_session\",\"params\":{\"title\":\"" title \
	"\",\"workspaceId\":\"w\",\"idempotencyKey\":\"" key "\"}}"

static struct harness w;
static void setup(void) { harness_new(&w); }
static void teardown(void) { harness_done(&w); }

START_TEST(the_same_key_gives_the_same_result)
{
	struct end c = end_new(&w, NULL);
	fake.answer = "{\"sessionId\":\"sess_first\"}";
	json_auto_t *one = ask(&w, &c, SESSION(1, "a", "k"));
	ck_assert_str_eq(text_at(one, "result.sessionId"), "sess_first");
	ck_assert(fake.had_key);
	fake.answer = "{\"sessionId\":\"sess_second\"}";
	json_auto_t *two = ask(&w, &c, SESSION(2, "a", "k"));
	ck_assert(json_equal(at(one, "result"), at(two, "result")));
	ck_assert_int_eq(int_at(two, "id"), 2);
	/* The order of members is not part of a request. */
	json_auto_t *three = ask(
		&w, &c,
		"{\"id\":3,\"method\":\"create_session\","
		"\"params\":{\"idempotencyKey\":\"k\",\"workspaceId\":\"w\",\"title\":\"a\"},\"jsonrpc\":\"2.0\"}");
	ck_assert(json_equal(at(one, "result"), at(three, "result")));
	ck_assert_uint_eq(fake.calls, 1);
	/* And after a restart. */
	end_done(&c);
	harness_close(&w);
	harness_open_store(&w);
	harness_open_control(&w);
	c = end_new(&w, NULL);
	json_auto_t *four = ask(&w, &c, SESSION(4, "a", "k"));
	ck_assert(json_equal(at(one, "result"), at(four, "result")));
	ck_assert_uint_eq(fake.calls, 1);
	end_done(&c);
}
END_TEST

START_TEST(the_same_key_with_another_request_is_a_conflict)
{
	struct end c = end_new(&w, NULL);
	json_decref(ask(&w, &c, SESSION(1, "a", "k")));
	json_auto_t *body = ask(&w, &c, SESSION(2, "b", "k"));
	expect_error(body, -32009, "idempotencyKey");
	json_auto_t *method = ask(&w, &c,
				  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"close_process_stdin\",\"params\":{"
				  "\"processId\":\"p\",\"idempotencyKey\":\"k\"}}");
	expect_error(method, -32009, "create_session");
	ck_assert_uint_eq(fake.calls, 1);
	/* Invalid keys. */
	json_auto_t *empty = ask(&w, &c, SESSION(2, "b", ""));
	expect_error(empty, -32602, "idempotencyKey: expected 1 to 200");
	json_auto_t *reading = ask(
		&w, &c,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"get_metrics\",\"params\":{\"idempotencyKey\":\"k\"}}");
	expect_error(reading, -32602, "idempotencyKey");
	end_done(&c);
}
END_TEST

START_TEST(a_repeated_request_waits_for_the_first)
{
	struct end a = end_new(&w, NULL), b = end_new(&w, NULL), gone = end_new(&w, NULL);
	fake.hold = true;
	end_send(&w, &a, SESSION(1, "a", "k") "\n" SESSION(2, "a", "k") "\n");
	end_send(&w, &b, SESSION(3, "a", "k") "\n");
	end_send(&w, &gone, SESSION(5, "a", "k") "\n");
	json_auto_t *other = ask(&w, &b, SESSION(4, "b", "k"));
	expect_error(other, -32009, "idempotencyKey");
	until(&w, w.control->nclients == 3 && fake.fn);
	end_done(&gone);
	until(&w, w.control->nclients == 2);
	fake.answer = "{\"sessionId\":\"sess_1\"}";
	fake_release();
	json_auto_t *one = end_line(&w, &a), *two = end_line(&w, &a), *three = end_line(&w, &b);
	ck_assert_str_eq(text_at(one, "result.sessionId"), "sess_1");
	ck_assert(json_equal(at(one, "result"), at(two, "result")) &&
		  json_equal(at(one, "result"), at(three, "result")));
	ck_assert_uint_eq(fake.calls, 1);
	end_done(&a);
	end_done(&b);
}
END_TEST

START_TEST(a_repeated_request_gets_the_result_if_the_first_client_disconnects)
{
	struct end a = end_new(&w, NULL), b = end_new(&w, NULL);
	fake.hold = true;
	end_send(&w, &a, SESSION(1, "a", "k") "\n");
	until(&w, fake.fn);
	end_send(&w, &b, SESSION(2, "a", "k") "\n");
	end_done(&a);
	until(&w, w.control->nclients == 1);
	fake.error = "it failed";
	fake_release();
	json_auto_t *reply = end_line(&w, &b);
	expect_error(reply, -32014, "it failed");
	ck_assert_str_eq(text_at(reply, "error.data.stage"), "cwd");
	/* A failure that the engine did not store is not a result: the request runs again. */
	fake.error = NULL;
	fake.hold = false;
	json_auto_t *again = ask(&w, &b, SESSION(3, "a", "k"));
	ck_assert_ptr_nonnull(at(again, "result"));
	end_done(&b);
}
END_TEST

/* Puts a record as the engine would, for the request SESSION(…, "a", key). */
static void store_record(const char *key, const char *json)
{
	static const char body[] = "create_session\0{\"title\":\"a\",\"workspaceId\":\"w\"}";
	uint8_t hash[32];
	hash_sha256(body, sizeof body - 1, hash);
	struct store_batch *b = store_batch_new(w.store);
	store_batch_idempotency(b, (uint32_t)geteuid(), key, "create_session", hash, json, strlen(json));
	store_submit(w.store, b, 0, NULL, NULL);
	store_flush(w.store);
}

START_TEST(stored_records_give_results_errors_or_unknown_outcomes)
{
	struct end c = end_new(&w, NULL);
	store_record("p", "{\"pending\":true,\"processId\":\"proc_1\"}");
	json_auto_t *pending = ask(&w, &c, SESSION(1, "a", "p"));
	expect_error(pending, -32011, "not known");
	ck_assert_str_eq(text_at(pending, "error.data.outcome"), "unknown");
	ck_assert_str_eq(text_at(pending, "error.data.processId"), "proc_1");
	ck_assert(json_is_false(at(pending, "error.data.retryable")));
	store_record("e", "{\"$error\":{\"code\":\"sandbox\",\"message\":\"no such "
			  "file\",\"field\":\"cwd\",\"data\":{\"stage\":\"cwd\"}}}");
	json_auto_t *error = ask(&w, &c, SESSION(2, "a", "e"));
	expect_error(error, -32014, "cwd: no such file");
	ck_assert_str_eq(text_at(error, "error.data.stage"), "cwd");
	ck_assert_str_eq(text_at(error, "error.data.category"), "sandbox_failed");
	store_record("n", "{\"$error\":{\"code\":\"not_found\",\"message\":\"gone\",\"data\":{}}}");
	json_auto_t *bare = ask(&w, &c, SESSION(3, "a", "n"));
	expect_error(bare, -32004, "gone");
	store_record("r", "{\"sessionId\":\"sess_9\"}");
	json_auto_t *result = ask(&w, &c, SESSION(4, "a", "r"));
	ck_assert_str_eq(text_at(result, "result.sessionId"), "sess_9");
	ck_assert_uint_eq(fake.calls, 0);
	/* The engine can repeat this request. */
	store_record("b", "{\"begun\":true}");
	fake.answer = "{\"sessionId\":\"sess_8\"}";
	for (int i = 0; i < 2; i++) {
		json_auto_t *begun = ask(&w, &c, SESSION(5, "a", "b"));
		ck_assert_str_eq(text_at(begun, "result.sessionId"), "sess_8");
	}
	ck_assert(fake.repeated);
	ck_assert_uint_eq(fake.calls, 1);
	json_auto_t *other = ask(&w, &c, SESSION(6, "b", "b"));
	expect_error(other, -32009, "idempotencyKey");
	end_done(&c);
}
END_TEST

/* The engine's own record lacks the sequence of its commit: a retry gets the first caller's reply. */
START_TEST(the_result_with_the_sequence_is_kept)
{
	struct end c = end_new(&w, NULL);
	fake.hold = true;
	end_send(&w, &c, SESSION(1, "a", "k") "\n");
	until(&w, fake.fn);
	store_record("k", "{\"sessionId\":\"sess_1\"}");
	fake.answer = "{\"sessionId\":\"sess_1\",\"sequence\":7}";
	fake_release();
	json_auto_t *one = end_line(&w, &c), *two = ask(&w, &c, SESSION(2, "a", "k"));
	ck_assert_int_eq(int_at(two, "result.sequence"), 7);
	ck_assert(json_equal(at(one, "result"), at(two, "result")));
	end_done(&c);
}
END_TEST

START_TEST(keys_apply_to_notifications_and_batches)
{
	struct end c = end_new(&w, NULL);
	json_auto_t *batch = ask(&w, &c,
				 "[" SESSION(1, "a", "k") "," SESSION(2, "a", "k") "," SESSION(3, "b", "k") "]");
	ck_assert_uint_eq(json_array_size(batch), 3);
	ck_assert_uint_eq(fake.calls, 1);
	end_send(&w, &c, "{\"jsonrpc\":\"2.0\",\"method\":\"create_session\",\"params\":{\"idempotencyKey\":\"n\"}}\n");
	json_auto_t *reply = ask(
		&w, &c,
		"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"create_session\",\"params\":{\"idempotencyKey\":\"n\"}}");
	ck_assert_int_eq(int_at(reply, "id"), 9);
	ck_assert_uint_eq(fake.calls, 2);
	end_done(&c);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("idempotent_calls");
	TCase *t = tcase_create("all");
	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, the_same_key_gives_the_same_result);
	tcase_add_test(t, the_same_key_with_another_request_is_a_conflict);
	tcase_add_test(t, a_repeated_request_waits_for_the_first);
	tcase_add_test(t, a_repeated_request_gets_the_result_if_the_first_client_disconnects);
	tcase_add_test(t, stored_records_give_results_errors_or_unknown_outcomes);
	tcase_add_test(t, the_result_with_the_sequence_is_kept);
	tcase_add_test(t, keys_apply_to_notifications_and_batches);
	suite_add_tcase(s, t);
	return harness_main(s);
}

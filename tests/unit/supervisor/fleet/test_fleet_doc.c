#include "supervisor/fleet/fleet_doc.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <string.h>

/* A key pair that NATS' own tools generated. */
#define SEED "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
#define KEY "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"

static char seed[FLEET_SEED_TEXT], key[FLEET_KEY_TEXT];

static void setup(void)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(fleet_key_new(seed, key, &e), 0);
}

START_TEST(keys_have_the_format_of_nats)
{
	struct err e = ERR_INIT;
	char public[FLEET_KEY_TEXT];

	ck_assert_msg(fleet_key_of(SEED, public, &e) == 0, "%s", e.message);
	ck_assert_str_eq(public, KEY);
	ck_assert_int_eq(fleet_key_of(seed, public, &e), 0);
	ck_assert_str_eq(public, key);
	ck_assert_int_eq(key[0], 'U');
	ck_assert_int_eq(strlen(seed), 58);
}
END_TEST

START_TEST(a_damaged_key_is_rejected)
{
	struct err e = ERR_INIT;
	char other[FLEET_KEY_TEXT];

	for (size_t i = 0; i < strlen(key); i++) {
		memcpy(other, key, sizeof(other));
		other[i] = other[i] == 'A' ? 'B' : 'A';
		ck_assert_int_eq(fleet_key_check(other, &e), -1);
	}
	ck_assert_int_eq(fleet_key_check("", &e), -1);
	ck_assert_int_eq(fleet_key_check(seed, &e), -1);
	ck_assert_int_eq(fleet_key_check(key, &e), 0);
}
END_TEST

START_TEST(a_signature_is_for_one_text_and_one_key)
{
	struct err e = ERR_INIT;
	char signature[FLEET_SIGNATURE];

	ck_assert_int_eq(fleet_key_sign(seed, "text", 4, signature, &e), 0);
	ck_assert_int_eq(fleet_key_verify(key, "text", 4, signature, &e), 0);
	ck_assert_int_eq(fleet_key_verify(key, "texT", 4, signature, &e), -1);
	ck_assert_int_eq(fleet_key_verify(KEY, "text", 4, signature, &e), -1);
	signature[3] = signature[3] == 'A' ? 'B' : 'A';
	ck_assert_int_eq(fleet_key_verify(key, "text", 4, signature, &e), -1);
	ck_assert_int_eq(fleet_key_verify(key, "text", 4, "short", &e), -1);
}
END_TEST

static int parse_spec(const char *text, struct fleet_spec *ret, struct err *e)
{
	*e = ERR_INIT;
	return fleet_spec_parse(text, strlen(text), ret, e);
}

START_TEST(a_spec_has_defaults)
{
	struct err e;
	struct fleet_spec s;

	ck_assert_msg(parse_spec("{\"v\":1,\"id\":\"t1\",\"command\":[\"true\"]}", &s, &e) == 0, "%s", e.message);
	ck_assert_str_eq(s.id, "t1");
	ck_assert_uint_eq(s.priority, 5);
	ck_assert_uint_eq(s.lease_ms, 30000);
	ck_assert_ptr_null(s.agent);
	ck_assert_uint_eq(s.not_after, 7 * 86400000u);
	fleet_spec_done(&s);
	parse_spec("{\"v\":1,\"id\":\"t1\",\"command\":[\"true\"],\"submittedAt\":5,\"notAfter\":9000000000000}", &s,
		   &e);
	ck_assert_uint_eq(s.not_after, 5 + 30 * 86400000ull); /* not longer */
	fleet_spec_done(&s);
}
END_TEST

START_TEST(an_invalid_spec_names_the_member)
{
	static const struct {
		const char *text, *field;
	} rows[] = {
		{ "{\"v\":2,\"id\":\"t\",\"command\":[\"a\"]}", "v" },
		{ "{\"v\":1,\"command\":[\"a\"]}", "id" },
		{ "{\"v\":1,\"id\":\"a.b\",\"command\":[\"a\"]}", "id" },
		{ "{\"v\":1,\"id\":\"t\"}", "command" },
		{ "{\"v\":1,\"id\":\"t\",\"command\":[]}", "command" },
		{ "{\"v\":1,\"id\":\"t\",\"command\":[1]}", "command" },
		{ "{\"v\":1,\"id\":\"t\",\"command\":[\"a\"],\"agent\":\"b\"}", "command" },
		{ "{\"v\":1,\"id\":\"t\",\"command\":[\"a\"],\"prioritty\":1}", "prioritty" },
		{ "{\"v\":1,\"id\":\"t\",\"command\":[\"a\"],\"priority\":10}", "priority" },
		{ "{\"v\":1,\"id\":\"t\",\"command\":[\"a\"],\"priority\":-1}", "priority" },
		{ "{\"v\":1,\"id\":\"t\",\"command\":[\"a\"],\"cwd\":\"/etc\"}", "cwd" },
		{ "{\"v\":1,\"id\":\"t\",\"command\":[\"a\"],\"cwd\":\"a/../..\"}", "cwd" },
		{ "{\"v\":1,\"id\":\"t\",\"command\":[\"a\"],\"env\":{\"A=\":\"\"}}", "env" },
		{ "{\"v\":1,\"id\":\"t\",\"command\":[\"a\"],\"leaseMs\":1}", "leaseMs" },
		{ "{\"v\":1,\"id\":\"t\",\"command\":[\"a\"],\"bundle\":\"x\"}", "bundle" },
		{ "{\"v\":1,\"id\":\"t\",\"command\":[\"a\"],\"git\":{\"url\":\"--upload-pack=x\"}}", "git" },
		{ "{\"v\":1,\"id\":\"t\",\"command\":[\"a\"],\"needs\":{\"gpu\":1}}", "gpu" },
		{ "{\"v\":1,\"id\":\"t\",\"command\":[\"a\"],\"needs\":{\"labels\":{\"a b\":\"c\"}}}", "needs.labels" },
		{ "{\"v\":1,\"id\":\"t\",\"command\":[\"a\"],\"after\":[\"*\"]}", "after" },
	};
	struct fleet_spec s;
	struct err e;

	for (size_t i = 0; i < countof(rows); i++) {
		ck_assert_msg(parse_spec(rows[i].text, &s, &e) == -1, "%s", rows[i].text);
		ck_assert_msg(strcmp(e.field, rows[i].field) == 0, "%s: %s (%s)", rows[i].text, e.field, e.message);
	}
	ck_assert_int_eq(parse_spec("[]", &s, &e), -1);
	ck_assert_int_eq(parse_spec("{\"v\":1,\"v\":1}", &s, &e), -1);
}
END_TEST

START_TEST(equal_needs_have_the_same_class)
{
	struct fleet_spec a, b, c;
	struct err e;
	char ca[FLEET_CLASS_TEXT], cb[FLEET_CLASS_TEXT], cc[FLEET_CLASS_TEXT];
	struct buf buf_auto text = BUF_INIT;

	parse_spec("{\"v\":1,\"id\":\"a\",\"command\":[\"a\"],\"needs\":{\"memory\":5,\"labels\":{\"x\":\"1\",\"a\":"
		   "\"2\"}}}",
		   &a, &e);
	parse_spec("{\"v\":1,\"id\":\"b\",\"command\":[\"a\"],\"needs\":{\"labels\":{\"a\":\"2\",\"x\":\"1\"},"
		   "\"memory\":5,\"cpus\":0}}",
		   &b, &e);
	parse_spec("{\"v\":1,\"id\":\"c\",\"command\":[\"a\"]}", &c, &e);
	fleet_needs_class(&a.needs, ca);
	fleet_needs_class(&b.needs, cb);
	fleet_needs_class(&c.needs, cc);
	ck_assert_str_eq(ca, cb);
	ck_assert_str_ne(ca, cc);
	fleet_needs_write(&a.needs, &text);
	ck_assert_str_eq(buf_cstr(&text), "{\"labels\":{\"a\":\"2\",\"x\":\"1\"},\"memory\":5}");
	fleet_spec_done(&a);
	fleet_spec_done(&b);
	fleet_spec_done(&c);
}
END_TEST

static void make_task(struct fleet_task *t)
{
	struct fleet_signed s;
	struct err e = ERR_INIT;

	ck_assert_int_eq(
		fleet_signed_make(seed, "{\"v\":1,\"id\":\"t1\",\"command\":[\"é\\\"\"],\"retries\":1}", &s, &e), 0);
	ck_assert_msg(fleet_task_make(&s, t, &e) == 0, "%s", e.message);
}

START_TEST(a_task_is_written_and_read_back)
{
	struct fleet_task t, back;
	struct buf buf_auto text = BUF_INIT, again = BUF_INIT;
	struct err e = ERR_INIT;

	make_task(&t);
	t.state = FLEET_RUNNING;
	t.attempt = 2;
	t.token = 77;
	snprintf(t.node, sizeof(t.node), "n1");
	snprintf(t.claim, sizeof(t.claim), "c1");
	snprintf(t.reason, sizeof(t.reason), "why");
	t.result = mem_strdup("{\"exitCode\":3}");
	fleet_task_note_attempt(&t, "failed", 1, "exit code 1");
	ck_assert_int_eq(fleet_request_make(seed, "cancel", "t1", NULL, &t.cancel, &e), 0);
	fleet_task_write(&t, &text);
	ck_assert_msg(fleet_task_parse(text.data, text.len, &back, &e) == 0, "%s: %s", e.field, e.message);
	fleet_task_write(&back, &again);
	ck_assert_str_eq(buf_cstr(&text), buf_cstr(&again));
	ck_assert_msg(fleet_task_verify(&back, &e) == 0, "%s", e.message);
	ck_assert(fleet_task_cancelled(&back, NULL, NULL));
	fleet_task_done(&t);
	fleet_task_done(&back);
}
END_TEST

static bool all(void *ctx, const char *k) { return true; }

START_TEST(only_the_submitter_and_operators_can_cancel)
{
	struct fleet_task t;
	struct err e = ERR_INIT;
	char other[FLEET_SEED_TEXT], other_key[FLEET_KEY_TEXT];

	make_task(&t);
	fleet_key_new(other, other_key, &e);
	ck_assert(!fleet_task_cancelled(&t, NULL, NULL));
	fleet_request_make(other, "cancel", "t1", NULL, &t.cancel, &e);
	ck_assert(!fleet_task_cancelled(&t, NULL, NULL));
	ck_assert(fleet_task_cancelled(&t, all, NULL));
	/* The submitter's key with another key's signature. */
	memcpy(t.cancel.key, key, sizeof(key));
	ck_assert(!fleet_task_cancelled(&t, all, NULL));
	fleet_signed_done(&t.cancel);
	fleet_request_make(seed, "cancel", "t2", NULL, &t.cancel, &e);
	ck_assert(!fleet_task_cancelled(&t, NULL, NULL));
	fleet_task_done(&t);
}
END_TEST

START_TEST(additional_attempts_need_a_valid_signature)
{
	struct fleet_task t;
	struct err e = ERR_INIT;
	char other[FLEET_SEED_TEXT], other_key[FLEET_KEY_TEXT];

	make_task(&t);
	fleet_key_new(other, other_key, &e);
	ck_assert_uint_eq(fleet_task_attempts_allowed(&t, NULL, NULL), 2);
	fleet_request_make(seed, "retry", "t1", "{\"attempts\":7}", &t.retry, &e);
	ck_assert_uint_eq(fleet_task_attempts_allowed(&t, NULL, NULL), 7);
	fleet_signed_done(&t.retry);
	fleet_request_make(other, "retry", "t1", "{\"attempts\":7}", &t.retry, &e);
	ck_assert_uint_eq(fleet_task_attempts_allowed(&t, NULL, NULL), 2);
	fleet_task_done(&t);
}
END_TEST

START_TEST(a_request_is_written_and_read_back)
{
	struct fleet_signed s, back = { 0 };
	struct fleet_request r;
	struct buf buf_auto text = BUF_INIT;
	struct err e = ERR_INIT;

	ck_assert_int_eq(fleet_request_make(seed, "output", "t1", "{\"offset\":5}", &s, &e), 0);
	fleet_signed_write(&s, &text);
	ck_assert_int_eq(fleet_signed_parse(text.data, text.len, &back, &e), 0);
	ck_assert_int_eq(fleet_signed_verify(&back, &e), 0);
	ck_assert_int_eq(fleet_request_parse(back.text, &r, &e), 0);
	ck_assert_str_eq(r.verb, "output");
	ck_assert_int_eq(json_integer_value(json_object_get(r.args, "offset")), 5);
	fleet_request_done(&r);
	fleet_signed_done(&s);
	fleet_signed_done(&back);
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "documents", setup, NULL, 120,
		  SUITE_TESTS(keys_have_the_format_of_nats, a_damaged_key_is_rejected,
			      a_signature_is_for_one_text_and_one_key, a_spec_has_defaults,
			      an_invalid_spec_names_the_member, equal_needs_have_the_same_class,
			      a_task_is_written_and_read_back, only_the_submitter_and_operators_can_cancel,
			      additional_attempts_need_a_valid_signature, a_request_is_written_and_read_back) },
	};

	return suite_run_cases("fleet_doc", cases, 1);
}

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/event/event.h"
#include "tests/unit/suite.h"

#include <jansson.h>
#include <string.h>

static const struct event_env env = { .runtime_id = "rt_1", .schema_version = "lime-profile-0.4.0" };

static const char output_payload[] = "{\"stream\":\"stdout\",\"offset\":0,\"length\":3,\"preview\":\"a}\\\"\","
				     "\"encoding\":\"utf8\",\"previewBytes\":3}";

static struct event_draft draft(void)
{
	return (struct event_draft){ .type = EVENT_PROCESS_OUTPUT,
				     .uid = 1000,
				     .real_us = 1794708000123456ull,
				     .ids = { [ID_SESSION] = "sess_1",
					      [ID_THREAD] = "thr_1",
					      [ID_PROCESS] = "proc_1",
					      [ID_OUTPUT] = "out_1" },
				     .payload = output_payload,
				     .payload_len = sizeof(output_payload) - 1 };
}

static void encode(const struct event_draft *d, struct buf *out)
{
	struct err e = ERR_INIT;

	ck_assert_msg(event_encode(&env, d, out, &e) == 0, "%s: %s", e.field, e.message);
}

static void check_rejected(const struct event_draft *d, enum err_code code, const char *field)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	buf_str(&out, "before");
	ck_assert_int_eq(event_encode(&env, d, &out, &e), -1);
	ck_assert_int_eq(e.code, code);
	ck_assert_str_eq(e.field, field);
	ck_assert_str_eq(out.data, "before");
	ck_assert_uint_eq(out.len, 6);
}

/* The envelope, parsed strictly. */
static json_t *envelope(const struct buf *record, uint64_t sequence)
{
	buf_auto struct buf text = BUF_INIT;
	struct err e = ERR_INIT;
	struct event_view v;
	json_error_t why;
	json_t *j;

	ck_assert_msg(event_view_of(record->data, record->len, sequence, &v, &e) == 0, "%s", e.message);
	event_json(&v, &text);
	j = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &why);
	ck_assert_msg(j != NULL, "%s in %s", why.text, text.data);
	return j;
}

static const char *member(json_t *j, const char *name) { return json_string_value(json_object_get(j, name)); }

START_TEST(an_envelope_is_valid_json)
{
	buf_auto struct buf out = BUF_INIT;
	struct event_draft d = draft();

	d.status = "run\"ning";
	d.status_reason = "because\n";
	d.phase = "p";
	d.ids[ID_REQUEST] = "7 {\"odd\"}";
	d.members = "\"refs\":{\"a\":[1]},\"output\":{}";
	d.members_len = strlen(d.members);
	encode(&d, &out);
	json_auto_t *j = envelope(&out, 17);

	ck_assert_int_eq(json_integer_value(json_object_get(j, "sequence")), 17);
	ck_assert_str_eq(member(j, "type"), "process.output");
	ck_assert_str_eq(member(j, "timestamp"), "2026-11-15T02:00:00.123456Z");
	ck_assert_str_eq(member(j, "schemaVersion"), "lime-profile-0.4.0");
	ck_assert_str_eq(member(j, "runtimeId"), "rt_1");
	ck_assert_str_eq(member(j, "sessionId"), "sess_1");
	ck_assert_str_eq(member(j, "processId"), "proc_1");
	ck_assert_str_eq(member(j, "requestId"), "7 {\"odd\"}");
	ck_assert_str_eq(member(j, "status"), "run\"ning");
	ck_assert_str_eq(member(j, "statusReason"), "because\n");
	ck_assert_int_eq(strncmp(member(j, "eventId"), "evt_", 4), 0);
	ck_assert_ptr_null(json_object_get(j, "turnId"));
	ck_assert_str_eq(member(json_object_get(j, "payload"), "preview"), "a}\"");
	ck_assert_int_eq((int)json_array_size(json_object_get(json_object_get(j, "refs"), "a")), 1);
}
END_TEST

START_TEST(a_view_has_the_members_of_the_draft)
{
	buf_auto struct buf out = BUF_INIT;
	struct event_draft d = draft();
	struct event_view v;
	char id[ID_TEXT_MAX], small[4];

	encode(&d, &out);
	ck_assert_int_eq(event_view_of(out.data, out.len, 9, &v, NULL), 0);
	ck_assert_uint_eq(v.sequence, 9);
	ck_assert_int_eq(v.type, EVENT_PROCESS_OUTPUT);
	ck_assert_uint_eq(v.uid, 1000);
	ck_assert_uint_eq(v.real_us, d.real_us);
	event_id_copy(&v, ID_PROCESS, id, sizeof(id));
	ck_assert_str_eq(id, "proc_1");
	event_id_copy(&v, ID_PROCESS, small, sizeof(small));
	ck_assert_str_eq(small, "pro");
	event_id_copy(&v, ID_TURN, id, sizeof(id));
	ck_assert_str_eq(id, "");
	ck_assert_int_eq(jval_int(jval_get(event_payload(&v), "length"), 0), 3);
	ck_assert(jval_is_str(event_member(&v, "threadId"), "thr_1"));
	ck_assert_int_eq(event_member(&v, "offset").type, JT_NONE);
}
END_TEST

/* Checks that lookups give the same result with and without an index, for every member and for a missing one. `known`:
 * the payload is known before. */
static void check_index_of(const char *payload, bool known, bool indexed)
{
	buf_auto struct buf out = BUF_INIT;
	struct event_draft d = draft();
	struct event_view plain, v;
	struct event_index space;

	d.payload = payload;
	d.payload_len = strlen(payload);
	d.payload_fits = true;
	encode(&d, &out);
	ck_assert_int_eq(event_view_of(out.data, out.len, 9, &plain, NULL), 0);
	v = plain;
	if (known)
		v.payload = event_payload(&plain);
	event_view_index(&v, &space);
	ck_assert_int_eq(v.index != NULL, indexed);
	ck_assert_ptr_eq(event_payload(&v).text, event_payload(&plain).text);
	ck_assert_uint_eq(event_payload(&v).len, event_payload(&plain).len);
	for (struct jiter it = jiter_on(event_payload(&plain)); jiter_next(&it);) {
		char name[64];

		jval_str(it.key, name, sizeof(name));
		ck_assert_ptr_eq(event_payload_member(&v, name).text, event_payload_member(&plain, name).text);
		ck_assert_uint_eq(event_payload_member(&v, name).len, it.value.len);
	}
	static const char *const members[] = { "type", "threadId", "status", "refs", "payload", "stream", "absent" };
	for (size_t i = 0; i < countof(members); i++) {
		ck_assert_ptr_eq(event_member(&v, members[i]).text, event_member(&plain, members[i]).text);
		ck_assert_uint_eq(event_member(&v, members[i]).len, event_member(&plain, members[i]).len);
	}
	ck_assert_int_eq(event_payload_member(&v, "threadId").type, JT_NONE);
}

static void check_index(const char *payload, bool indexed)
{
	check_index_of(payload, false, indexed);
	check_index_of(payload, true, indexed);
}

START_TEST(an_index_does_not_change_lookups)
{
	buf_auto struct buf many = BUF_INIT;

	check_index("{}", true);
	check_index(output_payload, true);
	check_index("{\"a\":{\"payload\":{}},\"b\":[1,\"}\"],\"bb\":null}", true);
	check_index("{\"a\\u0062\":1,\"c\":2}", false); /* a name with an escape */
	for (int i = 0; i <= EVENT_INDEX_MAX; i++)
		buf_printf(&many, "%c\"m%d\":%d", i ? ',' : '{', i, i);
	buf_byte(&many, '}');
	check_index(buf_cstr(&many), false); /* too many */
}
END_TEST

START_TEST(several_records_can_be_encoded_in_one_buffer)
{
	buf_auto struct buf out = BUF_INIT;
	struct event_draft d = draft();
	struct event_view v;
	size_t first;

	encode(&d, &out);
	first = out.len;
	encode(&d, &out);
	ck_assert_int_eq(event_view_of(out.data + first, out.len - first, 2, &v, NULL), 0);
	ck_assert_int_eq(event_view_of(out.data, first, 1, &v, NULL), 0);
	ck_assert_int_eq(event_view_of(out.data, out.len, 1, &v, NULL), -1);
}
END_TEST

START_TEST(an_event_without_a_time_gets_the_current_time)
{
	buf_auto struct buf out = BUF_INIT;
	struct event_draft d = draft();
	uint64_t before = clock_real_us();
	struct event_view v;

	d.real_us = 0;
	encode(&d, &out);
	ck_assert_int_eq(event_view_of(out.data, out.len, 2, &v, NULL), 0);
	ck_assert_uint_ge(v.real_us, before);
	ck_assert_uint_le(v.real_us, clock_real_us());
}
END_TEST

START_TEST(required_ids_must_be_present)
{
	struct event_draft d = draft();

	d.ids[ID_SESSION] = NULL;
	check_rejected(&d, ERR_INVALID, "sessionId");
	d = draft();
	d.ids[ID_PROCESS] = NULL;
	check_rejected(&d, ERR_INVALID, "processId");
	d = draft();
	d.type = EVENT_TURN_STARTED;
	check_rejected(&d, ERR_INVALID, "turnId");
}
END_TEST

START_TEST(ids_must_be_valid)
{
	char longer[300];
	struct event_draft d = draft();

	d.ids[ID_TURN] = "";
	check_rejected(&d, ERR_INVALID, "turnId");
	d.ids[ID_TURN] = "a\"b";
	check_rejected(&d, ERR_INVALID, "turnId");
	d = draft();
	memset(longer, 'x', 255);
	longer[255] = '\0';
	d.ids[ID_TRACE] = longer;
	{
		buf_auto struct buf out = BUF_INIT;

		encode(&d, &out);
		json_auto_t *j = envelope(&out, 1);
		ck_assert_str_eq(member(j, "traceId"), longer);
	}
	memset(longer, 'x', 256);
	longer[256] = '\0';
	check_rejected(&d, ERR_INVALID, "traceId");
	d.ids[ID_TRACE] = "\xff";
	check_rejected(&d, ERR_INVALID, "traceId");
}
END_TEST

START_TEST(the_payload_is_checked)
{
	struct event_draft d = draft();

	d.payload = "{\"stream\":\"stdout\"}";
	d.payload_len = strlen(d.payload);
	check_rejected(&d, ERR_INVALID, "payload.offset");
	d.payload = NULL;
	check_rejected(&d, ERR_INVALID, "payload.stream");
	d.type = EVENT_JOB_STARTED;
	{
		buf_auto struct buf out = BUF_INIT;

		encode(&d, &out);
		json_auto_t *j = envelope(&out, 1);
		ck_assert(json_is_object(json_object_get(j, "payload")));
	}
}
END_TEST

static void check_members_rejected(const char *members, const char *field)
{
	struct event_draft d = draft();

	d.members = members;
	d.members_len = strlen(members);
	check_rejected(&d, ERR_INVALID, field);
}

START_TEST(further_members_cannot_break_the_envelope)
{
	check_members_rejected("\"status\":\"x\"", "members");
	check_members_rejected("\"sessionId\":\"other\"", "members");
	check_members_rejected("\"se\\u0073sionId\":\"other\"", "members");
	check_members_rejected("\"payload\":{}", "members");
	check_members_rejected("\"a\":1,\"a\":2", "members");
	check_members_rejected("\"a\":1}", "members");
	check_members_rejected("\"a\":", "members");
	check_members_rejected("\"a\":1,", "members");
	check_members_rejected(",\"a\":1", "members");
	check_members_rejected("a", "members");
}
END_TEST

START_TEST(members_that_the_profile_requires_must_be_present)
{
	struct event_draft d = draft();
	buf_auto struct buf out = BUF_INIT;

	d.type = EVENT_BENCHMARK_COMPARISON_COMPLETED;
	d.payload = NULL;
	check_rejected(&d, ERR_INVALID, "benchmark");
	d.members = "\"benchmark\":{},\"refs\":{}";
	d.members_len = strlen(d.members);
	check_rejected(&d, ERR_INVALID, "comparison");
	d.members = "\"benchmark\":{},\"refs\":{},\"comparison\":{}";
	d.members_len = strlen(d.members);
	encode(&d, &out);
}
END_TEST

START_TEST(events_beyond_the_size_limit_are_rejected)
{
	buf_auto struct buf payload = BUF_INIT;
	struct event_draft d = draft();

	d.type = EVENT_JOB_STARTED;
	buf_str(&payload, "{\"x\":\"");
	for (int i = 0; i < EVENT_MAX - 100; i++)
		buf_byte(&payload, 'x');
	buf_str(&payload, "\"}");
	d.payload = payload.data;
	d.payload_len = payload.len;
	check_rejected(&d, ERR_EXHAUSTED, "");
	d.payload_len = (size_t)1 << 40;
	check_rejected(&d, ERR_EXHAUSTED, "");
}
END_TEST

START_TEST(a_damaged_record_is_corrupt_or_harmless)
{
	buf_auto struct buf out = BUF_INIT;
	struct event_draft d = draft();

	encode(&d, &out);
	for (size_t n = 0; n < out.len; n++) {
		mem_auto char *cut = mem_dup(out.data, n);
		struct err e = ERR_INIT;
		struct event_view v;

		ck_assert_int_eq(event_view_of(cut, n, 1, &v, &e), -1);
		ck_assert_int_eq(e.code, ERR_CORRUPT);
	}
	for (size_t i = 0; i < out.len; i++) {
		for (int bit = 0; bit < 8; bit++) {
			mem_auto char *bent = mem_dup(out.data, out.len);
			buf_auto struct buf text = BUF_INIT;
			struct event_view v;

			bent[i] ^= (char)(1 << bit);
			if (event_view_of(bent, out.len, 1, &v, NULL) < 0)
				continue;
			event_payload(&v);
			event_json(&v, &text);
			/* uid and time are only numbers; the rest of the head is checked */
			ck_assert(i >= sizeof(struct event_head) || (i >= 8 && i < 12) || i >= 24);
		}
	}
}
END_TEST

int main(void)
{
	return SUITE("event", an_envelope_is_valid_json, a_view_has_the_members_of_the_draft,
		     an_index_does_not_change_lookups, several_records_can_be_encoded_in_one_buffer,
		     an_event_without_a_time_gets_the_current_time, required_ids_must_be_present, ids_must_be_valid,
		     the_payload_is_checked, further_members_cannot_break_the_envelope,
		     members_that_the_profile_requires_must_be_present, events_beyond_the_size_limit_are_rejected,
		     a_damaged_record_is_corrupt_or_harmless);
}

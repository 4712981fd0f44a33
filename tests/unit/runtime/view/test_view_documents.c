/* Documents as documents.def declares them: decoding and encoding lose nothing. */

#include "runtime/view/view_documents.h"

#include "runtime/base/buf.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"

#include <check.h>
#include <string.h>

static const struct view_schema *const schemas[] = {
#define KEY(name, member, field)
#define ID(name, member, field)
#define STRING(name, member)
#define STRING_INIT(name, member, initial)
#define UINT(name, member)
#define COUNT(name, member)
#define UID(name)
#define TIME(name, member)
#define CREATED(name, member)
#define UPDATED(name, member)
#define FLAG(name, member)
#define JSON(name, member)
#define JSON_AS(name, member, text)
#define DOCUMENT(name, KIND) &name##_schema,
#define DOCUMENT_COMMITTED(name, KIND) &name##_schema,
#define DOCUMENT_END(name)
#include "runtime/view/documents.def"
};

static const struct event_view event = { .uid = 7, .real_us = 1700000000000000ull };

/* A text with every member of the schema. */
static void write_full(const struct view_schema *schema, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	for (size_t i = 0; i < schema->nfields; i++) {
		const struct view_field *f = &schema->fields[i];

		switch (f->type) {
		case VIEW_STRING: jw_kstr(&w, f->member, "a word"); break;
		case VIEW_UINT: jw_kuint(&w, f->member, i); break;
		case VIEW_TIME: jw_kstr(&w, f->member, "2023-11-14T22:13:20.000001Z"); break;
		case VIEW_FLAG: jw_kbool(&w, f->member, true); break;
		case VIEW_JSON: jw_kraw(&w, f->member, "{\"a\":[1]}", 9); break;
		}
	}
	jw_obj_end(&w);
}

START_TEST(every_member_survives_decoding_and_encoding)
{
	_Alignas(max_align_t) char doc[VIEW_DOCUMENT_MAX];
	buf_auto struct buf before = BUF_INIT, after = BUF_INIT;

	write_full(schemas[_i], &before);
	view_decode(schemas[_i], jval_of(before.data, before.len), doc);
	view_encode(schemas[_i], doc, &after);
	ck_assert_str_eq(buf_cstr(&after), buf_cstr(&before));
}
END_TEST

START_TEST(a_cleared_document_is_empty)
{
	_Alignas(max_align_t) char doc[VIEW_DOCUMENT_MAX];
	buf_auto struct buf text = BUF_INIT;

	view_clear(schemas[_i], doc);
	view_encode(schemas[_i], doc, &text);
	ck_assert_str_eq(buf_cstr(&text), "{}");
}
END_TEST

START_TEST(a_new_document_gets_owner_and_times_from_its_event)
{
	struct job_doc d;

	view_create(&job_schema, &event, &d);
	ck_assert_uint_eq(d.uid, 7);
	ck_assert_uint_eq(d.createdAt, event.real_us);
	ck_assert_uint_eq(d.updatedAt, event.real_us);
	ck_assert_uint_eq(d.running, 0);
	ck_assert_uint_eq(d.itemCount, VIEW_ABSENT);
	ck_assert(view_is_visible(&job_schema, &d, 7) && view_is_visible(&job_schema, &d, VIEW_ANY_UID));
	ck_assert(!view_is_visible(&job_schema, &d, 8));
}
END_TEST

START_TEST(members_are_written_by_name_in_the_requested_order)
{
	buf_auto struct buf text = BUF_INIT;
	struct jw w = jw_on(&text);
	struct thread_doc d;

	view_create(&thread_schema, &event, &d);
	id_copy(d.phase, "streaming");
	jw_obj(&w);
	view_write_members(&w, &thread_schema, &d, "owner=uid reason phase status at=createdAt turnNumber");
	jw_obj_end(&w);
	ck_assert_str_eq(buf_cstr(&text), "{\"owner\":7,\"phase\":\"streaming\",\"status\":\"idle\","
					  "\"at\":\"2023-11-14T22:13:20.000000Z\"}");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("view_documents");
	TCase *t = tcase_create("documents");
	SRunner *r = srunner_create(s);

	suite_add_tcase(s, t);
	tcase_add_loop_test(t, every_member_survives_decoding_and_encoding, 0, (int)countof(schemas));
	tcase_add_loop_test(t, a_cleared_document_is_empty, 0, (int)countof(schemas));
	tcase_add_test(t, a_new_document_gets_owner_and_times_from_its_event);
	tcase_add_test(t, members_are_written_by_name_in_the_requested_order);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}

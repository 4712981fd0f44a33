/* The builder of exports on a store of its own, and the check of packs on its files and on modified copies. */

#include "runtime/base/fd.h"
#include "runtime/evidence/evidence.h"
#include "runtime/evidence/pack_check.h"
#include "runtime/view/view.h"
#include "tests/unit/runtime/store/rig.h"

#define S "sess_1"
#define T "thr_1"
#define U "turn_1"

static struct rig rig;

static void queue_as(uint32_t uid, enum event_type type, const char *call, const char *payload, const char *members)
{
	struct store_batch *b = store_batch_new(rig.s);
	struct event_draft d = {
		.type = type,
		.uid = uid,
		.payload = payload,
		.payload_len = strlen(payload),
		.members = members,
		.members_len = members ? strlen(members) : 0,
		.ids = { [ID_SESSION] = S,
			 [ID_THREAD] = T,
			 [ID_TURN] = U,
			 [ID_TOOL_CALL] = call,
			 [ID_STEP] = call,
			 [ID_MODEL_REQUEST] = call,
			 [ID_EVIDENCE] = "evd_1" },
	};
	struct err e = ERR_INIT;

	ck_assert_msg(store_batch_event(b, &d, &e) == 0, "%s: %s", e.field, e.message);
	store_submit(rig.s, b, 0, NULL, NULL);
}

static void put_as(uint32_t uid, enum event_type type, const char *call, const char *payload, const char *members)
{
	queue_as(uid, type, call, payload, members);
	store_flush(rig.s);
}

static void put(enum event_type type, const char *call, const char *payload) { put_as(7, type, call, payload, NULL); }

static void put_work(void)
{
	put(EVENT_SESSION_CREATED, NULL, "{\"kind\":\"user\",\"createdBy\":{\"uid\":7}}");
	put(EVENT_THREAD_STARTED, NULL, "{\"origin\":\"session\"}");
	put(EVENT_TURN_SUBMITTED, NULL,
	    "{\"source\":\"client\",\"status\":\"accepted\",\"preview\":\"do \\\"it\\\"\"}");
	put(EVENT_TURN_STARTED, NULL, "{\"driver\":\"client\"}");
	put(EVENT_TOOL_STARTED, "call_1", "{\"toolName\":\"shell\"}");
	put(EVENT_TOOL_FAILED, "call_1", "{\"category\":\"exit\",\"message\":\"no\",\"exitCode\":3}");
	put(EVENT_MODEL_REQUESTED, "mr_1", "{\"provider\":\"p\",\"model\":\"m\"}");
	put(EVENT_TURN_COMPLETED, NULL, "{\"outcome\":\"done\",\"processes\":[],\"outputRefs\":[]}");
}

struct build {
	struct evidence_job job;
	bool done;
	struct err e;
};

static int work(struct background_read *a, void *ctx, struct err *e)
{
	return evidence_build(a, &((struct build *)ctx)->job, e);
}

static void built(void *ctx, const struct err *e)
{
	struct build *b = ctx;

	b->done = true;
	if (e)
		b->e = *e;
}

/* The text of one export of the turn or session; mem_free it. */
static char *export(enum evidence_kind kind, enum id_field field, const char *id, char sha256[HASH_SHA256_TEXT])
{
	struct build b = { .job = { .scope = { .field = field, .session_id = S, .through = store_last_sequence(rig.s) },
				    .nfiles = 1 } };
	struct evidence_file *f = &b.job.file[0];
	char *text;

	snprintf(b.job.scope.id, sizeof(b.job.scope.id), "%s", id);
	f->kind = kind;
	f->fd = -1;
	id_make(ID_KIND_OUTPUT, f->ref);
	store_background_read(rig.s, work, built, &b);
	rig_wait(&rig, &b.done);
	ck_assert_msg(b.e.code == 0, "%s", b.e.message);
	text = mem_zalloc(1, f->bytes + 1);
	ck_assert_int_eq(pread(f->fd, text, f->bytes, 0), (ssize_t)f->bytes);
	if (sha256)
		memcpy(sha256, f->sha256, HASH_SHA256_TEXT);
	fd_close(&f->fd);
	store_spool_unref(rig.s, f->ref);
	return text;
}

static void begin(void)
{
	rig_init(&rig);
	rig.o.project = view_project;
	rig_open(&rig);
}

static struct jval signal_of(const char *text, const char *name)
{
	return jval_get(jval_get(jval_of(text, strlen(text)), "signals"), name);
}

START_TEST(a_pack_is_verified_by_projecting_its_events)
{
	struct pack_verdict v;
	struct err e = ERR_INIT;

	begin();
	put_work();
	mem_auto char *text = export(EVIDENCE_PACK, ID_SESSION, S, NULL);
	ck_assert_msg(pack_check(text, strlen(text), &v, &e) == 0, "%s", e.message);
	ck_assert_msg(v.ok, "%s", v.problem[0]);
	ck_assert_uint_eq(v.events, 8);
	ck_assert_uint_ge(v.models, 5);
	/* one digit of the events, one of the models */
	mem_auto char *other = mem_strdup(text);
	*strstr(strstr(other, "tool.failed"), "\"exitCode\":3") = '#';
	ck_assert(pack_check(other, strlen(other), &v, &e) < 0 || !v.ok);
	mem_auto char *model = mem_strdup(text);
	memcpy(strstr(strstr(model, "\"readModels\""), "completed"), "cancelled", 9);
	ck_assert_int_eq(pack_check(model, strlen(model), &v, &e), 0);
	ck_assert(!v.ok && v.nproblems == 2);
	ck_assert_ptr_nonnull(strstr(v.problem[0], "\"cancelled\""));
	ck_assert_ptr_nonnull(strstr(v.problem[1], "seal"));
	/* one letter of a member that no read model has */
	mem_auto char *unseen = mem_strdup(text);
	*(strstr(unseen, "\"signals\"") + 1) = 'z';
	ck_assert_int_eq(pack_check(unseen, strlen(unseen), &v, &e), 0);
	ck_assert(!v.ok && v.nproblems == 1);
	rig_done(&rig);
}
END_TEST

START_TEST(a_pack_lists_the_owners_of_events)
{
	struct pack_verdict v;
	struct err e = ERR_INIT;

	begin();
	put_work();
	put_as(8, EVENT_TOOL_STARTED, "call_2", "{\"toolName\":\"shell\"}", NULL);
	mem_auto char *text = export(EVIDENCE_PACK, ID_SESSION, S, NULL);
	ck_assert_ptr_nonnull(
		strstr(text, "\"ownerUids\":[{\"fromSequence\":1,\"uid\":7},{\"fromSequence\":9,\"uid\":8}]"));
	ck_assert_int_eq(pack_check(text, strlen(text), &v, &e), 0);
	ck_assert_msg(v.ok, "%s", v.problem[0]);
	rig_done(&rig);
}
END_TEST

START_TEST(a_pack_lists_every_change_of_owner)
{
	struct pack_verdict v;
	struct err e = ERR_INIT;

	begin();
	put_work();
	for (unsigned i = 0; i < 4000; i++)
		queue_as(8 + i % 2, EVENT_TOOL_STARTED, "call_2", "{\"toolName\":\"shell\"}", NULL);
	store_flush(rig.s);
	mem_auto char *text = export(EVIDENCE_PACK, ID_SESSION, S, NULL);
	ck_assert_ptr_nonnull(strstr(text, "{\"fromSequence\":4008,\"uid\":9}]"));
	ck_assert_int_eq(pack_check(text, strlen(text), &v, &e), 0);
	ck_assert_msg(v.ok, "%s", v.problem[0]);
	rig_done(&rig);
}
END_TEST

START_TEST(events_about_exports_are_not_exported)
{
	char first[HASH_SHA256_TEXT], second[HASH_SHA256_TEXT];

	begin();
	put_work();
	mem_auto char *a = export(EVIDENCE_PACK, ID_SESSION, S, first);
	ck_assert_ptr_null(strstr(a, "evidence.changed"));
	put(EVENT_EVIDENCE_CHANGED, NULL, "{\"kind\":\"evidence_pack\",\"packRef\":\"out_1\",\"files\":[]}");
	mem_auto char *b = export(EVIDENCE_PACK, ID_SESSION, S, second);
	ck_assert_str_eq(first, second);
	ck_assert_str_eq(a, b);
	/* events of a client about evidence are */
	put_as(7, EVENT_EVIDENCE_CHANGED, NULL, "{\"verificationOutcomes\":[{\"name\":\"t\",\"status\":\"passed\"}]}",
	       "\"correlation\":{\"emittedBy\":{\"uid\":7,\"role\":\"agent\"}}");
	mem_auto char *c = export(EVIDENCE_PACK, ID_SESSION, S, second);
	ck_assert_str_ne(first, second);
	ck_assert_ptr_nonnull(strstr(c, "\"outcome\":{\"name\":\"t\",\"status\":\"passed\"}"));
	rig_done(&rig);
}
END_TEST

START_TEST(signals_report_what_is_recorded)
{
	begin();
	put_work();
	mem_auto char *text = export(EVIDENCE_PACK, ID_TURN, U, NULL);
	ck_assert(jval_is_str(signal_of(text, "tool_calls"), "exported"));
	ck_assert(jval_is_str(signal_of(text, "permissions"), "not_recorded"));
	ck_assert(jval_is_str(signal_of(text, "hooks"), "not_applicable"));
	ck_assert(jval_is_str(signal_of(text, "traces"), "missing_correlation"));
	ck_assert(jval_is_str(signal_of(text, "provider_payloads"), "unsupported"));
	ck_assert(jval_is_str(signal_of(text, "model_requests"), "exported"));
	put(EVENT_MODEL_DELTA, NULL, "{\"text\":\"x\"}");
	mem_auto char *apart = export(EVIDENCE_PACK, ID_TURN, U, NULL);
	ck_assert(jval_is_str(signal_of(apart, "model_requests"), "missing_correlation"));
	/* an unknown thread has no beginning */
	mem_auto char *none = export(EVIDENCE_REVIEW, ID_THREAD, "thr_none", NULL);
	ck_assert(!jval_bool(jval_path(jval_of(none, strlen(none)), "runtimeSummary.complete"), true));
	rig_done(&rig);
}
END_TEST

START_TEST(every_kind_of_export_is_one_object)
{
	begin();
	put_work();
	for (int k = 0; k < EVIDENCE_TRIAL; k++) {
		mem_auto char *text = export((enum evidence_kind)k, ID_SESSION, S, NULL);
		struct jval v = jval_of(text, strlen(text));
		struct jiter it = jiter_on(v);

		ck_assert_int_eq(v.type, JT_OBJECT);
		ck_assert_uint_eq(v.len + 1, strlen(text));
		while (jiter_next(&it))
			;
		ck_assert_ptr_nonnull(it.p);
	}
	mem_auto char *empty = export(EVIDENCE_TRAJECTORY, ID_SESSION, "sess_none", NULL);
	ck_assert_ptr_nonnull(strstr(empty, "\"step_id\":1,"));
	rig_done(&rig);
}
END_TEST

START_TEST(invalid_packs_are_rejected)
{
	static const char *const texts[] = {
		"",
		"[]",
		"{}",
		"{\"packKind\":5}",
		"{\"packKind\":\"evidence_pack\"}",
		"{\"packKind\":\"review\",\"packVersion\":1}",
		"{\"packKind\":\"evidence_pack\",\"packVersion\":1,\"events\":[5],\"readModels\":[]}",
		"{\"packKind\":\"evidence_pack\",\"packVersion\":1,\"events\":[{\"sequence\":1}],\"readModels\":[]}",
		"{\"packKind\":\"evidence_pack\",\"packVersion\":1,\"events\":[{\"sequence\":1,\"type\":\"turn."
		"started\"}],\"readModels\":[]}",
		"{\"packKind\":\"replay_case\",\"packVersion\":1,\"events\":[{\"sequence\":0,\"timestamp\":\"2026-01-"
		"01T00:00:00Z\"}],\"readModels\":[]}",
	};
	struct pack_verdict v;

	for (size_t i = 0; i < countof(texts); i++) {
		struct err e = ERR_INIT;

		ck_assert_msg(pack_check(texts[i], strlen(texts[i]), &v, &e) < 0, "%s", texts[i]);
		ck_assert(e.code == ERR_INVALID && e.message[0]);
	}
}
END_TEST

int main(void)
{
	return SUITE("evidence", a_pack_is_verified_by_projecting_its_events, a_pack_lists_the_owners_of_events,
		     a_pack_lists_every_change_of_owner, events_about_exports_are_not_exported,
		     signals_report_what_is_recorded, every_kind_of_export_is_one_object, invalid_packs_are_rejected);
}

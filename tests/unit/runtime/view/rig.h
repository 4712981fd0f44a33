#ifndef BAILIFF_TESTS_VIEW_RIG_H
#define BAILIFF_TESTS_VIEW_RIG_H

/* A real store for every test, functions that write events into it, and functions that read documents:
 * int main(void) { return VIEW_SUITE("noun", { a_test }, { a_test_with_rows, 4 }); } */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"

#include <check.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define S1 "sess_a"
#define T1 "thr_a"
#define U1 "turn_a"
#define P1 "proc_00000000000000000000000001"
#define P2 "proc_00000000000000000000000002"
#define O1 "out_1"
#define O2 "out_2"

static char home[64];
static struct store *store;
static uint64_t now_us = 1700000000000000ull;

static inline void set_up(void)
{
	static char dir[96], spool[96];
	const struct store_options o = {
		.dir = dir, .spool_dir = spool, .project = view_project, .map_bytes = 64 << 20
	};
	struct err e = ERR_INIT;

	(void)snprintf(home, sizeof(home), "/tmp/bailiff-view.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(home));
	(void)snprintf(dir, sizeof(dir), "%s/store", home);
	(void)snprintf(spool, sizeof(spool), "%s/spool", home);
	ck_assert_int_eq(mkdir(dir, 0700), 0);
	ck_assert_int_eq(mkdir(spool, 0700), 0);
	ck_assert_msg(store_open(&o, &store, &e) == 0, "%s", e.message);
}

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *f) { return remove(path); }

static inline void tear_down(void)
{
	store_close(store);
	(void)nftw(home, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- running ---- */

/* `rows`: how often it runs, with _i from 0; 0: once. */
struct view_test {
	const TTest *test;
	int rows;
};

static inline int view_suite_run(const char *name, const struct view_test *tests, size_t n)
{
	Suite *s = suite_create(name);
	TCase *t = tcase_create(name);
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_set_timeout(t, 60);
	for (size_t i = 0; i < n; i++)
		tcase_add_loop_test(t, tests[i].test, 0, tests[i].rows ? tests[i].rows : 1);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}

#define VIEW_SUITE(name, ...)                                           \
	view_suite_run(name, (const struct view_test[]){ __VA_ARGS__ }, \
		       sizeof((const struct view_test[]){ __VA_ARGS__ }) / sizeof(struct view_test))

/* ---- writing ---- */

struct ids {
	const char *session, *thread, *turn, *process, *output, *task, *step, *call, *action;
};
static const struct ids turn_ids = { S1, T1, U1 };

static inline void put_as(uint32_t uid, enum event_type type, struct ids ids, const char *status, const char *payload)
{
	struct store_batch *b = store_batch_new(store);
	struct event_draft d = {
		.type = type,
		.uid = uid,
		.status = status,
		.real_us = ++now_us,
		.payload = payload,
		.payload_len = strlen(payload),
		.ids = { [ID_SESSION] = ids.session,
			 [ID_THREAD] = ids.thread,
			 [ID_TURN] = ids.turn,
			 [ID_PROCESS] = ids.process,
			 [ID_OUTPUT] = ids.output,
			 [ID_TASK] = ids.task,
			 [ID_STEP] = ids.step,
			 [ID_TOOL_CALL] = ids.call,
			 [ID_ACTION] = ids.action },
	};
	struct err e = ERR_INIT;

	ck_assert_msg(store_batch_event(b, &d, &e) == 0, "%s: %s", e.field, e.message);
	store_submit(store, b, 0, NULL, NULL);
	store_flush(store);
}

static inline void put(enum event_type type, struct ids ids, const char *status, const char *payload)
{
	put_as(1000, type, ids, status, payload);
}

static inline void put_session(void)
{
	put(EVENT_SESSION_CREATED, (struct ids){ .session = S1, .thread = T1 }, NULL,
	    "{\"kind\":\"user\",\"title\":\"a title\",\"createdBy\":{\"uid\":1000,\"pid\":7}}");
	put(EVENT_THREAD_STARTED, (struct ids){ .session = S1, .thread = T1 }, NULL, "{\"origin\":\"session\"}");
}

static inline void put_turn(void)
{
	put(EVENT_TURN_SUBMITTED, turn_ids, NULL, "{\"source\":\"process\",\"status\":\"accepted\"}");
	put(EVENT_TURN_STARTED, turn_ids, NULL, "{\"driver\":\"runtime\"}");
	put(EVENT_THREAD_UPDATED, (struct ids){ .session = S1, .thread = T1 }, NULL,
	    "{\"status\":\"running\",\"previous\":\"idle\",\"reason\":\"turn started\"}");
	put(EVENT_PERMISSION_EVALUATED, turn_ids, NULL,
	    "{\"permissionDecision\":{\"decision\":\"allow\",\"decisionSource\":\"mode\",\"decisionReason\":\"x\","
	    "\"ruleRefs\":[],"
	    "\"scope\":\"once\",\"destructive\":false},\"command\":{\"display\":\"ls\",\"argv\":[\"ls\"],"
	    "\"subcommands\":[],\"paths\":[],\"network\":[]}}");
}

static inline void put_process(const char *id, const char *out, const char *err)
{
	mem_auto char *payload = mem_printf(
		"{\"command\":[\"ls\",\"a "
		"b\"],\"cwd\":\"/tmp\",\"tty\":false,\"pid\":42,\"startTime\":9,\"bootId\":\"b\",\"startedBootNs\":5,"
		"\"planHash\":\"h\",\"profile\":\"plain\",\"stdin\":\"pipe\",\"stderr\":\"separate\",\"keepTree\":"
		"false,\"onDisconnect\":\"keep\","
		"\"limits\":{\"wallMs\":1000},\"outputRefs\":[{\"outputRef\":\"%s\",\"stream\":\"stdout\"},{"
		"\"outputRef\":\"%s\",\"stream\":\"stderr\"}]}",
		out, err);

	put(EVENT_PROCESS_STARTED, (struct ids){ S1, T1, U1, id, NULL, "task_1" }, NULL, payload);
}

static inline void put_output(uint64_t offset, uint64_t length, const char *preview, const char *encoding,
			      uint64_t shown)
{
	mem_auto char *payload = mem_printf(
		"{\"stream\":\"stdout\",\"offset\":%llu,\"length\":%llu,\"preview\":\"%s\",\"encoding\":\"%s\","
		"\"previewBytes\":%llu}",
		(unsigned long long)offset, (unsigned long long)length, preview, encoding, (unsigned long long)shown);

	put(EVENT_PROCESS_OUTPUT, (struct ids){ S1, T1, U1, P1, O1, NULL }, NULL, payload);
}

static inline void put_completed(const char *id, const char *out, uint64_t bytes)
{
	mem_auto char *payload = mem_printf(
		"{\"exitCode\":3,\"durationMs\":12,\"status\":\"completed\",\"usage\":{\"maxRssBytes\":1,\"userMs\":1,"
		"\"systemMs\":1},"
		"\"outputs\":{\"stdout\":{\"outputRef\":\"%s\",\"bytes\":%llu,\"truncated\":false}},\"leftBehind\":0}",
		out, (unsigned long long)bytes);

	put(EVENT_PROCESS_COMPLETED, (struct ids){ S1, T1, U1, id, NULL, NULL }, NULL, payload);
}

static inline void put_start(void)
{
	put_session();
	put_turn();
	put_process(P1, O1, O2);
}

static inline void put_end(void)
{
	put_completed(P1, O1, 5);
	put(EVENT_TURN_FAILED, turn_ids, "failed",
	    "{\"category\":\"exit\",\"message\":\"exit code 3\",\"retryable\":false,\"processes\":[\"" P1 "\"]}");
	put(EVENT_THREAD_UPDATED, (struct ids){ .session = S1, .thread = T1 }, NULL,
	    "{\"status\":\"failed\",\"previous\":\"running\",\"reason\":\"exit\"}");
}

/* ---- reading ---- */

static inline struct jval value_of(const struct buf *b)
{
	struct jval v = jval_of(buf_cstr(b), b->len);

	ck_assert_msg(v.type == JT_OBJECT && v.len == b->len, "not one object: %s", buf_cstr(b));
	return v;
}

static inline void is_text(struct jval doc, const char *path, const char *expected)
{
	struct jval v = jval_path(doc, path);

	ck_assert_msg(jval_is_str(v, expected), "%s is %.*s, not %s", path, (int)v.len, v.text ? v.text : "", expected);
}

static inline void is_number(struct jval doc, const char *path, int64_t expected)
{
	struct jval v = jval_path(doc, path);

	ck_assert_msg(v.type == JT_NUMBER && jval_int(v, -1) == expected, "%s is %.*s, not %lld", path, (int)v.len,
		      v.text ? v.text : "", (long long)expected);
}

static inline void is_raw(struct jval doc, const char *path, const char *expected)
{
	struct jval v = jval_path(doc, path);

	ck_assert_msg(v.len == strlen(expected) && memcmp(v.text, expected, v.len) == 0, "%s is %.*s, not %s", path,
		      (int)v.len, v.text ? v.text : "", expected);
}

static inline void is_absent(struct jval doc, const char *path)
{
	ck_assert_msg(jval_path(doc, path).type == JT_NONE, "%s is present", path);
}

static inline struct jval process(struct buf *out)
{
	struct err e = ERR_INIT;

	buf_reset(out);
	ck_assert_msg(view_process(store, 1000, P1, out, &e) == 0, "%s", e.message);
	return value_of(out);
}

static inline size_t count(struct jval list)
{
	size_t n = 0;

	for (struct jiter it = jiter_on(list); jiter_next(&it);)
		n++;
	return n;
}

static inline struct jval element(struct jval list, size_t i)
{
	for (struct jiter it = jiter_on(list); jiter_next(&it);)
		if (i-- == 0)
			return it.value;
	return (struct jval){ 0 };
}

struct verdict {
	bool done, ok;
	char what[ERR_MESSAGE_MAX];
};

static inline void on_verdict(void *ctx, const struct store_verdict *v, const struct err *e)
{
	struct verdict *r = ctx;

	r->done = true;
	r->ok = v && v->ok;
	(void)snprintf(r->what, sizeof(r->what), "%s", v && v->nproblems ? v->problems[0].what : e ? e->message : "");
}

static inline void wait_for(const bool *done)
{
	while (!*done) {
		struct pollfd p = { .fd = store_dispatch_fd(store), .events = POLLIN };

		(void)poll(&p, 1, -1);
		store_dispatch(store);
	}
}

/* Checks that the models equal a new projection of the log, and that rebuilding them changes nothing. */
static inline void projects_again(void)
{
	struct verdict v = { 0 }, r = { 0 };

	store_verify(store, on_verdict, &v);
	wait_for(&v.done);
	ck_assert_msg(v.ok, "%s", v.what);
	store_rebuild(store, on_verdict, &r);
	wait_for(&r.done);
	ck_assert_msg(r.ok, "%s", r.what);
	v = (struct verdict){ 0 };
	store_verify(store, on_verdict, &v);
	wait_for(&v.done);
	ck_assert_msg(v.ok, "%s", v.what);
}

#endif

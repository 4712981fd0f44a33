/* Real events in a real store: what the documents say, and that a fresh fold gives the same bytes. */

#include "runtime/view/view.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define S1 "sess_a"
#define T1 "thr_a"
#define U1 "turn_a"
#define P1 "proc_00000000000000000000000001"
#define P2 "proc_00000000000000000000000002"
#define O1 "out_1"
#define O2 "out_2"

static char home[64], store_dir[96], spool_dir[96];
static struct store *store;
static uint64_t now_us;

static void open_store(void)
{
	struct store_options o = { .dir = store_dir, .spool_dir = spool_dir, .fold = view_fold, .map_bytes = 64 << 20 };
	struct err e = ERR_INIT;

	ck_assert_msg(store_open(&o, &store, &e) == 0, "%s", e.message);
}

static void setup(void)
{
	(void)snprintf(home, sizeof(home), "/tmp/bailiff-view.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(home));
	(void)snprintf(store_dir, sizeof(store_dir), "%s/store", home);
	(void)snprintf(spool_dir, sizeof(spool_dir), "%s/spool", home);
	ck_assert_int_eq(mkdir(store_dir, 0700), 0);
	ck_assert_int_eq(mkdir(spool_dir, 0700), 0);
	now_us = 1700000000000000ull;
	open_store();
}

static void remove_in(const char *dir)
{
	static const char *const names[] = { "data.mdb", "lock.mdb", "lock", "ballast", "version" };
	char path[200];

	for (size_t i = 0; i < countof(names); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		(void)unlink(path);
	}
	(void)rmdir(dir);
}

static void teardown(void)
{
	store_close(store);
	remove_in(store_dir);
	remove_in(spool_dir);
	(void)rmdir(home);
}

/* ---- writing ---- */

struct ids {
	const char *session, *thread, *turn, *process, *output, *task;
};
static const struct ids turn_ids = { S1, T1, U1, NULL, NULL, NULL };

static void put_as(uint32_t uid, enum event_type type, struct ids ids, const char *status, const char *payload)
{
	struct store_batch *b = store_batch_new(store);
	struct event_draft d = {
		.type = type, .uid = uid, .status = status, .real_us = ++now_us, .payload = payload, .payload_len = strlen(payload),
		.ids = { [ID_SESSION] = ids.session, [ID_THREAD] = ids.thread, [ID_TURN] = ids.turn, [ID_PROCESS] = ids.process,
			 [ID_OUTPUT] = ids.output, [ID_TASK] = ids.task },
	};
	struct err e = ERR_INIT;

	ck_assert_msg(store_batch_event(b, &d, &e) == 0, "%s: %s", e.field, e.message);
	store_submit(store, b, 0, NULL, NULL);
	store_flush(store);
}

static void put(enum event_type type, struct ids ids, const char *status, const char *payload)
{
	put_as(1000, type, ids, status, payload);
}

static void put_session(void)
{
	put(EVENT_SESSION_CREATED, (struct ids){ .session = S1, .thread = T1 }, NULL,
	    "{\"kind\":\"user\",\"title\":\"a title\",\"createdBy\":{\"uid\":1000,\"pid\":7}}");
	put(EVENT_THREAD_STARTED, (struct ids){ .session = S1, .thread = T1 }, NULL, "{\"origin\":\"session\"}");
}

static void put_turn(void)
{
	put(EVENT_TURN_SUBMITTED, turn_ids, NULL, "{\"source\":\"process\",\"status\":\"accepted\"}");
	put(EVENT_TURN_STARTED, turn_ids, NULL, "{\"driver\":\"runtime\"}");
	put(EVENT_THREAD_UPDATED, (struct ids){ .session = S1, .thread = T1 }, NULL,
	    "{\"status\":\"running\",\"previous\":\"idle\",\"reason\":\"turn started\"}");
	put(EVENT_PERMISSION_EVALUATED, turn_ids, NULL,
	    "{\"permissionDecision\":{\"decision\":\"allow\",\"decisionSource\":\"mode\",\"decisionReason\":\"x\",\"ruleRefs\":[],"
	    "\"scope\":\"once\",\"destructive\":false},\"command\":{\"display\":\"ls\",\"argv\":[\"ls\"],\"subcommands\":[],\"paths\":[],\"network\":[]}}");
}

static void put_process(const char *id, const char *out, const char *err)
{
	mem_auto char *payload = mem_printf(
		"{\"command\":[\"ls\",\"a b\"],\"cwd\":\"/tmp\",\"tty\":false,\"pid\":42,\"startTime\":9,\"bootId\":\"b\",\"startedBootNs\":5,"
		"\"planHash\":\"h\",\"profile\":\"plain\",\"stdin\":\"pipe\",\"stderr\":\"separate\",\"keepTree\":false,\"onDisconnect\":\"keep\","
		"\"limits\":{\"wallMs\":1000},\"outputRefs\":[{\"outputRef\":\"%s\",\"stream\":\"stdout\"},{\"outputRef\":\"%s\",\"stream\":\"stderr\"}]}",
		out, err);

	put(EVENT_PROCESS_STARTED, (struct ids){ S1, T1, U1, id, NULL, "task_1" }, NULL, payload);
}

static void put_output(uint64_t offset, uint64_t length, const char *preview, const char *encoding, uint64_t shown)
{
	mem_auto char *payload = mem_printf("{\"stream\":\"stdout\",\"offset\":%llu,\"length\":%llu,\"preview\":\"%s\",\"encoding\":\"%s\","
					    "\"previewBytes\":%llu}",
					    (unsigned long long)offset, (unsigned long long)length, preview, encoding,
					    (unsigned long long)shown);

	put(EVENT_PROCESS_OUTPUT, (struct ids){ S1, T1, U1, P1, O1, NULL }, NULL, payload);
}

static void put_completed(const char *id, const char *out, uint64_t bytes)
{
	mem_auto char *payload = mem_printf(
		"{\"exitCode\":3,\"durationMs\":12,\"status\":\"completed\",\"usage\":{\"maxRssBytes\":1,\"userMs\":1,\"systemMs\":1},"
		"\"outputs\":{\"stdout\":{\"outputRef\":\"%s\",\"bytes\":%llu,\"truncated\":false}},\"leftBehind\":0}",
		out, (unsigned long long)bytes);

	put(EVENT_PROCESS_COMPLETED, (struct ids){ S1, T1, U1, id, NULL, NULL }, NULL, payload);
}

static void put_start(void)
{
	put_session();
	put_turn();
	put_process(P1, O1, O2);
}

static void put_end(void)
{
	put_completed(P1, O1, 5);
	put(EVENT_TURN_FAILED, turn_ids, "failed", "{\"category\":\"exit\",\"message\":\"exit code 3\",\"retryable\":false,\"processes\":[\"" P1 "\"]}");
	put(EVENT_THREAD_UPDATED, (struct ids){ .session = S1, .thread = T1 }, NULL,
	    "{\"status\":\"failed\",\"previous\":\"running\",\"reason\":\"exit\"}");
}

/* ---- reading ---- */

static struct jval value_of(const struct buf *b)
{
	struct jval v = jval_of(buf_cstr(b), b->len);

	ck_assert_msg(v.type == JT_OBJECT && v.len == b->len, "not one object: %s", buf_cstr(b));
	return v;
}

static void is_text(struct jval doc, const char *path, const char *expected)
{
	struct jval v = jval_path(doc, path);

	ck_assert_msg(jval_is_str(v, expected), "%s is %.*s, not %s", path, (int)v.len, v.text ? v.text : "", expected);
}

static void is_number(struct jval doc, const char *path, int64_t expected)
{
	struct jval v = jval_path(doc, path);

	ck_assert_msg(v.type == JT_NUMBER && jval_int(v, -1) == expected, "%s is %.*s, not %lld", path, (int)v.len, v.text ? v.text : "",
		      (long long)expected);
}

static void is_raw(struct jval doc, const char *path, const char *expected)
{
	struct jval v = jval_path(doc, path);

	ck_assert_msg(v.len == strlen(expected) && memcmp(v.text, expected, v.len) == 0, "%s is %.*s, not %s", path, (int)v.len,
		      v.text ? v.text : "", expected);
}

static void is_absent(struct jval doc, const char *path)
{
	ck_assert_msg(jval_path(doc, path).type == JT_NONE, "%s is there", path);
}

static struct jval process(struct buf *out)
{
	struct err e = ERR_INIT;

	buf_reset(out);
	ck_assert_msg(view_process(store, 1000, P1, out, &e) == 0, "%s", e.message);
	return value_of(out);
}

static size_t count(struct jval list)
{
	size_t n = 0;

	for (struct jiter it = jiter_on(list); jiter_next(&it);)
		n++;
	return n;
}

static struct jval element(struct jval list, size_t i)
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

static void on_verdict(void *ctx, const struct store_verdict *v, const struct err *e)
{
	struct verdict *r = ctx;

	r->done = true;
	r->ok = v && v->ok;
	(void)snprintf(r->what, sizeof(r->what), "%s", v && v->nproblems ? v->problems[0].what : e ? e->message : "");
}

static void wait_for(const bool *done)
{
	while (!*done) {
		struct pollfd p = { .fd = store_dispatch_fd(store), .events = POLLIN };

		(void)poll(&p, 1, -1);
		store_dispatch(store);
	}
}

/* Models equal a fresh fold of the log, and rebuilding them changes nothing. */
static void folds_again(void)
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

/* ---- processes ---- */

START_TEST(a_started_process_is_running)
{
	buf_auto struct buf out = BUF_INIT;
	struct jval d;

	put_start();
	d = process(&out);
	is_text(d, "processId", P1);
	is_text(d, "status", "running");
	is_raw(d, "command", "[\"ls\",\"a b\"]");
	is_text(d, "cwd", "/tmp");
	is_number(d, "pid", 42);
	is_number(d, "startTime", 9);
	is_number(d, "startedBootNs", 5);
	is_text(d, "stdin", "pipe");
	is_text(d, "stderr", "separate");
	is_text(d, "sandboxProfile", "plain");
	is_text(d, "taskId", "task_1");
	is_text(d, "sessionId", S1);
	is_number(d, "uid", 1000);
	is_number(d, "limits.wallMs", 1000);
	is_text(d, "outputs.stdout.outputRef", O1);
	is_number(d, "outputs.stdout.bytes", 0);
	is_text(d, "outputs.stderr.preview", "");
	is_raw(d, "violations", "[]");
	is_absent(d, "endedAt");
	is_absent(d, "exitCode");
	folds_again();
}
END_TEST

START_TEST(output_is_counted_and_its_beginning_kept)
{
	buf_auto struct buf out = BUF_INIT;
	struct view_output_brief b;
	struct err e = ERR_INIT;
	struct jval d;

	put_start();
	put_output(0, 3, "ab\\n", "utf8", 3);
	put_output(3, 2, "w6Q=", "base64", 2);
	put_output(5, 1000000, "cd", "utf8", 2);
	put_output(1000005, 1, "z", "utf8", 1);
	d = process(&out);
	is_number(d, "outputs.stdout.bytes", 1000006);
	is_text(d, "outputs.stdout.preview", "ab\näcd");
	ck_assert_int_eq(view_output_brief(store, 1000, O1, &b, &e), 0);
	ck_assert_uint_eq(b.bytes, 1000006);
	ck_assert_str_eq(b.process_id, P1);
	ck_assert(!b.ended && !b.expired);
	ck_assert_int_eq(view_output_brief(store, 1001, O1, &b, &e), 1);
	folds_again();
}
END_TEST

START_TEST(a_character_cut_by_two_events_is_whole_again)
{
	buf_auto struct buf out = BUF_INIT;

	put_start();
	put_output(0, 1, "ww==", "base64", 1);
	put_output(1, 1, "pA==", "base64", 1);
	is_text(process(&out), "outputs.stdout.preview", "ä");
}
END_TEST

START_TEST(a_preview_stops_at_its_limit)
{
	buf_auto struct buf out = BUF_INIT, text = BUF_INIT;

	memset(buf_reserve(&text, 1500), 'x', 1500);
	text.len = 1500;
	text.data[1500] = '\0';
	put_start();
	put_output(0, 1500, text.data, "utf8", 1500);
	put_output(1500, 1500, text.data, "utf8", 1500);
	put_output(3000, 1500, text.data, "utf8", 1500);
	ck_assert_uint_eq(jval_path(process(&out), "outputs.stdout.preview").len, 2048 + 2);
}
END_TEST

START_TEST(a_completed_process_says_how)
{
	buf_auto struct buf out = BUF_INIT;
	struct view_output_brief b;
	struct err e = ERR_INIT;
	struct jval d;

	put_start();
	put_output(0, 5, "hello", "utf8", 5);
	put_end();
	d = process(&out);
	is_text(d, "status", "completed");
	is_number(d, "exitCode", 3);
	is_number(d, "durationMs", 12);
	is_number(d, "usage.maxRssBytes", 1);
	is_number(d, "outputs.stdout.bytes", 5);
	ck_assert_int_eq(jval_path(d, "endedAt").type, JT_STRING);
	ck_assert_int_eq(view_output_brief(store, 0, O1, &b, &e), 0);
	ck_assert(b.ended);
	/* also the one that the terminal event does not name */
	ck_assert_int_eq(view_output_brief(store, 0, O2, &b, &e), 0);
	ck_assert(b.ended);
	folds_again();
}
END_TEST

START_TEST(the_first_end_counts)
{
	buf_auto struct buf out = BUF_INIT;
	struct jval d;

	put_start();
	put_completed(P1, O1, 5);
	put(EVENT_PROCESS_TERMINATED, (struct ids){ S1, T1, U1, P1, NULL, NULL }, NULL,
	    "{\"reason\":\"user\",\"cause\":\"user\",\"requestedBy\":{\"uid\":1},\"signal\":\"TERM\",\"treeEmpty\":true,\"durationMs\":99,\"outputs\":{}}");
	d = process(&out);
	is_text(d, "status", "completed");
	is_number(d, "durationMs", 12);
	folds_again();
}
END_TEST

START_TEST(ends_have_their_own_status)
{
	static const struct {
		enum event_type type;
		const char *envelope, *payload, *status, *reason;
	} rows[] = {
		{ EVENT_PROCESS_TERMINATED, NULL,
		  "{\"reason\":\"shutdown\",\"cause\":\"shutdown\",\"requestedBy\":{\"uid\":1},\"signal\":\"TERM\",\"treeEmpty\":true,\"durationMs\":9,\"outputs\":{}}",
		  "terminated", "shutdown" },
		{ EVENT_PROCESS_FAILED, "timed_out", "{\"category\":\"timeout\",\"message\":\"m\",\"limit\":\"wall\"}", "failed", "timed_out" },
		{ EVENT_PROCESS_FAILED, "lost", "{\"category\":\"transport\",\"message\":\"m\"}", "lost", NULL },
		{ EVENT_PROCESS_FAILED, "failed", "{\"category\":\"spawn\",\"stage\":\"exec\",\"errno\":2,\"errnoName\":\"ENOENT\",\"message\":\"m\"}",
		  "failed", NULL },
	};
	buf_auto struct buf out = BUF_INIT;
	struct jval d;

	put_start();
	put(rows[_i].type, (struct ids){ S1, T1, U1, P1, NULL, NULL }, rows[_i].envelope, rows[_i].payload);
	d = process(&out);
	is_text(d, "status", rows[_i].status);
	if (rows[_i].reason)
		is_text(d, "statusReason", rows[_i].reason);
	else
		is_absent(d, "statusReason");
	folds_again();
}
END_TEST

START_TEST(truncation_is_exact)
{
	buf_auto struct buf out = BUF_INIT;
	struct view_output_brief b;
	struct err e = ERR_INIT;
	struct jval d;

	put_start();
	put_output(0, 9000, "", "utf8", 0);
	put(EVENT_OUTPUT_TRUNCATED, (struct ids){ S1, T1, U1, P1, O1, NULL }, NULL,
	    "{\"outputRef\":\"" O1 "\",\"stream\":\"stdout\",\"bytes\":9000,\"omittedBytes\":4096,\"omittedFrom\":1000,\"omittedTo\":5096,"
	    "\"limit\":4000,\"reason\":\"output_limit\"}");
	d = process(&out);
	is_raw(d, "outputs.stdout.truncated", "true");
	is_number(d, "outputs.stdout.omittedBytes", 4096);
	ck_assert_int_eq(view_output_brief(store, 0, O1, &b, &e), 0);
	ck_assert_uint_eq(b.omitted_from, 1000);
	ck_assert_uint_eq(b.omitted_to, 5096);
}
END_TEST

START_TEST(closing_stdin_is_remembered)
{
	buf_auto struct buf out = BUF_INIT;

	put_start();
	put(EVENT_PROCESS_INPUT, (struct ids){ S1, T1, U1, P1, NULL, NULL }, NULL,
	    "{\"kind\":\"data\",\"bytes\":1,\"preview\":\"x\",\"encoding\":\"utf8\",\"redacted\":false,\"by\":{\"uid\":1}}");
	is_absent(process(&out), "stdinClosed");
	put(EVENT_PROCESS_INPUT, (struct ids){ S1, T1, U1, P1, NULL, NULL }, NULL, "{\"kind\":\"eof\",\"redacted\":false,\"by\":{\"uid\":1}}");
	is_raw(process(&out), "stdinClosed", "true");
	folds_again();
}
END_TEST

START_TEST(others_do_not_see_it)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	put_start();
	ck_assert_int_lt(view_process(store, 1001, P1, &out, &e), 0);
	ck_assert_int_eq(e.code, ERR_NOT_FOUND);
	ck_assert_int_lt(view_session(store, 1001, S1, NULL, &out, &e), 0);
	ck_assert_int_lt(view_thread(store, 1001, T1, &out, &e), 0);
	ck_assert_uint_eq(out.len, 0);
	ck_assert_int_eq(view_process(store, 0, P1, &out, &e), 0);
}
END_TEST

START_TEST(events_about_unknown_things_make_documents)
{
	buf_auto struct buf out = BUF_INIT;
	struct jval d;

	put_completed(P1, "out_unknown", 5);
	put_output(7, 1, "!", "base64", 1);
	put(EVENT_TURN_STARTED, turn_ids, NULL, "{\"driver\":\"runtime\"}");
	put(EVENT_THREAD_UPDATED, (struct ids){ .session = S1, .thread = T1 }, NULL,
	    "{\"status\":\"waiting_permission\",\"previous\":\"\",\"reason\":\"\"}");
	d = process(&out);
	is_text(d, "status", "completed");
	is_raw(d, "outputs", "{}");
	folds_again();
}
END_TEST

/* ---- lists ---- */

static struct jval list(struct view_process_query q, uint32_t uid, struct buf *out)
{
	struct err e = ERR_INIT;

	if (!q.limit)
		q.limit = 100;
	buf_reset(out);
	ck_assert_msg(view_processes(store, uid, &q, out, &e) == 0, "%s", e.message);
	return value_of(out);
}

static size_t listed(struct view_process_query q, uint32_t uid)
{
	buf_auto struct buf out = BUF_INIT;

	return count(jval_get(list(q, uid, &out), "processes"));
}

START_TEST(lists_are_filtered)
{
	buf_auto struct buf out = BUF_INIT;
	struct jval d;

	put_start();
	put_process(P2, "out_3", "out_4");
	put_completed(P2, "out_3", 1);
	d = list((struct view_process_query){ 0 }, 1000, &out);
	is_text(element(jval_get(d, "processes"), 0), "processId", P2);
	is_text(element(jval_get(d, "processes"), 1), "processId", P1);
	is_absent(d, "nextCursor");
	ck_assert_uint_eq(listed((struct view_process_query){ .live_only = true }, 1000), 1);
	ck_assert_uint_eq(listed((struct view_process_query){ .status = "completed" }, 1000), 1);
	ck_assert_uint_eq(listed((struct view_process_query){ .status = "running" }, 1000), 1);
	ck_assert_uint_eq(listed((struct view_process_query){ .session_id = S1 }, 0), 2);
	ck_assert_uint_eq(listed((struct view_process_query){ .session_id = "sess_b" }, 0), 0);
	ck_assert_uint_eq(listed((struct view_process_query){ .task_id = "task_2" }, 0), 0);
	ck_assert_uint_eq(listed((struct view_process_query){ 0 }, 1001), 0);
	ck_assert_uint_eq(listed((struct view_process_query){ .match = P2 }, 0), 1);
	ck_assert_uint_eq(listed((struct view_process_query){ .match = "pro" }, 0), 2);
	ck_assert_uint_eq(listed((struct view_process_query){ .match = "000000000" }, 0), 2);
	ck_assert_uint_eq(listed((struct view_process_query){ .match = "0002" }, 0), 1);
	ck_assert_uint_eq(listed((struct view_process_query){ .match = "002" }, 0), 0);
	ck_assert_uint_eq(listed((struct view_process_query){ .match = "nothing" }, 0), 0);
}
END_TEST

START_TEST(pages_follow_each_other)
{
	buf_auto struct buf out = BUF_INIT;
	char cursor[80] = "";
	size_t seen = 0;

	put_session();
	put_turn();
	for (int i = 0; i < 7; i++) {
		char id[40], ref[40], other[40];

		(void)snprintf(id, sizeof(id), "proc_%d", i);
		(void)snprintf(ref, sizeof(ref), "out_%d", i);
		(void)snprintf(other, sizeof(other), "err_%d", i);
		put_process(id, ref, other);
	}
	do {
		struct jval d = list((struct view_process_query){ .limit = 3, .cursor = *cursor ? cursor : NULL, .session_id = _i ? S1 : NULL },
				     1000, &out);
		struct jval next = jval_get(d, "nextCursor");

		for (struct jiter it = jiter_on(jval_get(d, "processes")); jiter_next(&it); seen++) {
			char expected[40];

			(void)snprintf(expected, sizeof(expected), "proc_%zu", 6 - seen);
			is_text(it.value, "processId", expected);
		}
		cursor[0] = '\0';
		if (next.type == JT_STRING)
			(void)jval_str(next, cursor, sizeof(cursor));
	} while (*cursor);
	ck_assert_uint_eq(seen, 7);
}
END_TEST

START_TEST(bad_queries_name_the_field)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	ck_assert_int_lt(view_processes(store, 0, &(struct view_process_query){ .limit = 0 }, &out, &e), 0);
	ck_assert_str_eq(e.field, "limit");
	ck_assert_int_lt(view_processes(store, 0, &(struct view_process_query){ .limit = 1, .cursor = "a/b" }, &out, &e), 0);
	ck_assert_str_eq(e.field, "cursor");
	ck_assert_int_lt(view_processes(store, 0, &(struct view_process_query){ .limit = 1, .match = "*" }, &out, &e), 0);
	ck_assert_str_eq(e.field, "match");
	ck_assert_int_lt(view_sessions(store, 0, 2000, NULL, &out, &e), 0);
	ck_assert_str_eq(e.field, "limit");
	ck_assert_uint_eq(out.len, 0);
}
END_TEST

/* ---- sessions, threads, turns ---- */

START_TEST(a_session_snapshot_holds_what_the_schemas_want)
{
	static const char *const required[] = { "schemaVersion", "runtimeId", "sessionId", "updatedAt", "threads", "tasks", "taskSummary",
						"routingLimitSummary", "telemetrySummary", "evidenceRefs" };
	static const char *const of_thread[] = { "threadId", "status", "turns", "pendingRequests", "queuedTurns", "incidents",
						 "evidenceSummary" };
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	struct jval d, thread, turn;

	put_start();
	put_output(0, 5, "hello", "utf8", 5);
	put_end();
	ck_assert_msg(view_session(store, 1000, S1, NULL, &out, &e) == 0, "%s", e.message);
	d = value_of(&out);
	for (size_t i = 0; i < countof(required); i++)
		ck_assert_msg(jval_get(d, required[i]).type != JT_NONE, "%s", required[i]);
	thread = element(jval_get(d, "threads"), 0);
	for (size_t i = 0; i < countof(of_thread); i++)
		ck_assert_msg(jval_get(thread, of_thread[i]).type != JT_NONE, "%s", of_thread[i]);
	is_text(d, "title", "a title");
	is_text(thread, "status", "failed");
	is_absent(thread, "activeTurnId");
	turn = element(jval_get(thread, "turns"), 0);
	is_text(turn, "status", "failed");
	is_text(turn, "permissionState.decision", "allow");
	is_text(element(jval_get(turn, "processes"), 0), "processId", P1);
	is_text(element(jval_get(thread, "incidents"), 0), "category", "exit");
	if (getenv("VIEW_TEST_PRINT"))
		printf("%s\n", out.data);
	folds_again();
}
END_TEST

START_TEST(a_thread_follows_its_turn)
{
	buf_auto struct buf out = BUF_INIT;
	struct view_thread_brief t;
	struct view_turn_brief u;
	struct err e = ERR_INIT;
	struct jval d;

	put_start();
	ck_assert_int_eq(view_thread_brief(store, 1000, T1, &t, &e), 0);
	ck_assert_str_eq(t.session_id, S1);
	ck_assert_str_eq(t.active_turn, U1);
	ck_assert_str_eq(t.status, "running");
	ck_assert_int_eq(view_turn_brief(store, 1000, U1, &u, &e), 0);
	ck_assert(!u.ended);
	ck_assert_str_eq(u.thread_id, T1);
	put_end();
	ck_assert_int_eq(view_thread_brief(store, 1000, T1, &t, &e), 0);
	ck_assert_str_eq(t.active_turn, "");
	ck_assert_str_eq(t.status, "failed");
	ck_assert_int_eq(view_turn_brief(store, 1000, U1, &u, &e), 0);
	ck_assert(u.ended);
	ck_assert_int_eq(view_turn_brief(store, 1000, "turn_none", &u, &e), 1);
	ck_assert_int_eq(view_thread(store, 1000, T1, &out, &e), 0);
	d = value_of(&out);
	is_text(d, "sessionId", S1);
	ck_assert_int_eq(jval_get(d, "updatedAt").type, JT_STRING);
}
END_TEST

START_TEST(fine_statuses_become_the_small_ones)
{
	static const char *const rows[][2] = { { "accepted", "running" }, { "waiting_permission", "blocked" }, { "timed_out", "failed" },
					       { "lost", "unknown" },     { "cancelled", "cancelled" },        { "no such", "unknown" } };
	mem_auto char *payload = mem_printf("{\"status\":\"%s\",\"previous\":\"idle\",\"reason\":\"r\"}", rows[_i][0]);
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	put_session();
	put(EVENT_THREAD_UPDATED, (struct ids){ .session = S1, .thread = T1 }, NULL, payload);
	ck_assert_int_eq(view_thread(store, 1000, T1, &out, &e), 0);
	is_text(value_of(&out), "status", rows[_i][1]);
	if (strcmp(rows[_i][0], rows[_i][1]) != 0)
		is_text(value_of(&out), "phase", rows[_i][0]);
}
END_TEST

START_TEST(windows_go_back_through_a_session)
{
	buf_auto struct buf out = BUF_INIT;
	struct view_window w = { .limit = 2 };
	struct err e = ERR_INIT;
	struct jval d;

	put_session();
	for (int i = 0; i < 3; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "thr_b%d", i);
		put(EVENT_THREAD_STARTED, (struct ids){ .session = S1, .thread = id }, NULL, "{\"origin\":\"process\"}");
	}
	ck_assert_int_eq(view_session(store, 1000, S1, &w, &out, &e), 0);
	d = value_of(&out);
	is_text(element(jval_get(d, "threads"), 0), "threadId", "thr_b1");
	is_text(element(jval_get(d, "threads"), 1), "threadId", "thr_b2");
	is_text(d, "historyCursor", "thr_b1");
	buf_reset(&out);
	w.before = "thr_b1";
	ck_assert_int_eq(view_session(store, 1000, S1, &w, &out, &e), 0);
	d = value_of(&out);
	is_text(element(jval_get(d, "threads"), 0), "threadId", T1);
	is_absent(d, "historyCursor");
	w.before = T1;
	ck_assert_int_lt(view_session(store, 1000, S1, &w, &out, &e), 0);
	ck_assert_str_eq(e.field, "window.before");
}
END_TEST

START_TEST(sessions_are_listed_by_owner)
{
	buf_auto struct buf out = BUF_INIT;
	struct view_session_brief b;
	struct err e = ERR_INIT;

	put_session();
	put_as(1001, EVENT_SESSION_CREATED, (struct ids){ .session = "sess_b", .thread = "thr_c" }, NULL,
	       "{\"kind\":\"user\",\"createdBy\":{\"uid\":1001,\"pid\":7}}");
	ck_assert_int_eq(view_sessions(store, 1001, 10, NULL, &out, &e), 0);
	ck_assert_uint_eq(count(jval_get(value_of(&out), "sessions")), 1);
	buf_reset(&out);
	ck_assert_int_eq(view_sessions(store, 0, 1, NULL, &out, &e), 0);
	is_text(element(jval_get(value_of(&out), "sessions"), 0), "sessionId", "sess_b");
	is_text(value_of(&out), "nextCursor", "sess_b");
	buf_reset(&out);
	ck_assert_int_eq(view_sessions(store, 0, 1, "sess_b", &out, &e), 0);
	is_text(element(jval_get(value_of(&out), "sessions"), 0), "sessionId", S1);
	is_absent(value_of(&out), "nextCursor");
	ck_assert_int_eq(view_session_brief(store, 1000, S1, &b, &e), 0);
	ck_assert_str_eq(b.first_thread, T1);
	ck_assert_int_eq(view_session_brief(store, 1001, S1, &b, &e), 1);
}
END_TEST

/* ---- recovery, retention ---- */

START_TEST(the_system_session_is_found)
{
	char session[72], thread[72], turn[72];
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	ck_assert_int_eq(view_system_ids(store, session, thread, turn, &e), 1);
	put_session();
	put_as(0, EVENT_SESSION_CREATED, (struct ids){ .session = "sess_s", .thread = "thr_s" }, NULL,
	       "{\"kind\":\"system\",\"createdBy\":{\"uid\":0,\"pid\":1}}");
	put_as(0, EVENT_THREAD_STARTED, (struct ids){ .session = "sess_s", .thread = "thr_s" }, NULL, "{\"origin\":\"system\"}");
	put_as(0, EVENT_TURN_SUBMITTED, (struct ids){ .session = "sess_s", .thread = "thr_s", .turn = "turn_s" }, NULL,
	       "{\"source\":\"system\",\"status\":\"accepted\"}");
	put_as(0, EVENT_HISTORY_RECONSTRUCTED, (struct ids){ .session = "sess_s", .thread = "thr_s", .turn = "turn_s" }, NULL,
	       "{\"bootId\":\"b\",\"alive\":[{\"processId\":\"p\"}],\"exited\":[],\"lost\":[{},{}],\"aborted\":0,\"outputs\":[],"
	       "\"openActions\":[],\"queuedTurns\":[],\"degraded\":false}");
	ck_assert_int_eq(view_system_ids(store, session, thread, turn, &e), 0);
	ck_assert_str_eq(session, "sess_s");
	ck_assert_str_eq(thread, "thr_s");
	ck_assert_str_eq(turn, "turn_s");
	ck_assert_int_eq(view_runtime(store, &out, &e), 0);
	is_number(value_of(&out), "alive", 1);
	is_number(value_of(&out), "lost", 2);
	is_number(value_of(&out), "reconstructions", 1);
	folds_again();
}
END_TEST

struct each {
	char ids[8][72];
	size_t n;
	uint64_t bytes;
};

static bool on_each(void *ctx, const char *id, const char *json, size_t len)
{
	struct each *s = ctx;

	ck_assert_uint_lt(s->n, countof(s->ids));
	(void)snprintf(s->ids[s->n++], sizeof(s->ids[0]), "%s", id);
	s->bytes = jval_uint(jval_path(jval_of(json, len), "outputs.stdout.bytes"), 0);
	return true;
}

START_TEST(only_what_has_not_ended_is_live)
{
	struct each p = { 0 }, t = { 0 }, none = { 0 };
	struct err e = ERR_INIT;

	put_start();
	put_output(0, 5, "hello", "utf8", 5);
	put_process(P2, "out_3", "out_4");
	put_completed(P2, "out_3", 1);
	ck_assert_int_eq(view_live_processes(store, on_each, &p, &e), 0);
	ck_assert_uint_eq(p.n, 1);
	ck_assert_str_eq(p.ids[0], P1);
	ck_assert_uint_eq(p.bytes, 5);
	ck_assert_int_eq(view_live_turns(store, on_each, &t, &e), 0);
	ck_assert_uint_eq(t.n, 1);
	ck_assert_str_eq(t.ids[0], U1);
	put_end();
	ck_assert_int_eq(view_live_processes(store, on_each, &none, &e), 0);
	ck_assert_int_eq(view_live_turns(store, on_each, &none, &e), 0);
	ck_assert_uint_eq(none.n, 0);
}
END_TEST

static bool on_expirable(void *ctx, const struct view_expirable *x)
{
	struct each *s = ctx;

	ck_assert_str_eq(x->session_id, S1);
	ck_assert_uint_eq(x->uid, 1000);
	(void)snprintf(s->ids[s->n++], sizeof(s->ids[0]), "%s", x->output_ref);
	return true;
}

static size_t expirable(uint64_t floor)
{
	struct each s = { 0 };
	struct err e = ERR_INIT;

	ck_assert_int_eq(view_expirable_outputs(store, floor, 10, on_expirable, &s, &e), 0);
	return s.n;
}

START_TEST(ended_outputs_expire_once)
{
	buf_auto struct buf out = BUF_INIT;
	uint64_t end;

	put_start();
	put_output(0, 5, "hello", "utf8", 5);
	ck_assert_uint_eq(expirable(1000), 0);
	put_completed(P1, O1, 5);
	end = store_last_sequence(store);
	ck_assert_uint_eq(expirable(end), 0);
	ck_assert_uint_eq(expirable(end + 1), 2);
	put(EVENT_OUTPUT_EXPIRED, (struct ids){ S1, T1, U1, P1, O1, NULL }, NULL,
	    "{\"outputRef\":\"" O1 "\",\"bytes\":5,\"policy\":\"retention\",\"expiredAt\":\"2026-01-01T00:00:00Z\"}");
	ck_assert_uint_eq(expirable(end + 1), 0);
	is_raw(process(&out), "outputs.stdout.expired", "true");
	is_text(process(&out), "outputs.stdout.preview", "");
	folds_again();
}
END_TEST

START_TEST(a_wait_result_is_what_the_contract_says)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	struct jval d;

	put_start();
	ck_assert_int_eq(view_wait_result(store, 1000, P1, true, &out, &e), 0);
	d = value_of(&out);
	is_text(d, "status", "running");
	is_raw(d, "timedOut", "true");
	put_output(0, 5, "hello", "utf8", 5);
	put_end();
	buf_reset(&out);
	ck_assert_int_eq(view_wait_result(store, 1000, P1, false, &out, &e), 0);
	d = value_of(&out);
	is_number(d, "exitCode", 3);
	is_raw(d, "timedOut", "false");
	is_text(d, "outputs.stdout.preview", "hello");
	is_raw(d, "outputs.stdout.truncated", "false");
	is_raw(d, "violations", "[]");
	ck_assert_int_lt(view_wait_result(store, 1001, P1, false, &out, &e), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("view");
	TCase *t = tcase_create("view");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, a_started_process_is_running);
	tcase_add_test(t, output_is_counted_and_its_beginning_kept);
	tcase_add_test(t, a_character_cut_by_two_events_is_whole_again);
	tcase_add_test(t, a_preview_stops_at_its_limit);
	tcase_add_test(t, a_completed_process_says_how);
	tcase_add_test(t, the_first_end_counts);
	tcase_add_loop_test(t, ends_have_their_own_status, 0, 4);
	tcase_add_test(t, truncation_is_exact);
	tcase_add_test(t, closing_stdin_is_remembered);
	tcase_add_test(t, others_do_not_see_it);
	tcase_add_test(t, events_about_unknown_things_make_documents);
	tcase_add_test(t, lists_are_filtered);
	tcase_add_loop_test(t, pages_follow_each_other, 0, 2);
	tcase_add_test(t, bad_queries_name_the_field);
	tcase_add_test(t, a_session_snapshot_holds_what_the_schemas_want);
	tcase_add_test(t, a_thread_follows_its_turn);
	tcase_add_loop_test(t, fine_statuses_become_the_small_ones, 0, 6);
	tcase_add_test(t, windows_go_back_through_a_session);
	tcase_add_test(t, sessions_are_listed_by_owner);
	tcase_add_test(t, the_system_session_is_found);
	tcase_add_test(t, only_what_has_not_ended_is_live);
	tcase_add_test(t, ended_outputs_expire_once);
	tcase_add_test(t, a_wait_result_is_what_the_contract_says);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}

/* What a process writes and reads: how output becomes events and refs, and input is acknowledged. */

#include "tests/unit/runtime/engine/fake_host.h"
#include "tests/unit/suite.h"

#include "runtime/base/err.h"

#include <errno.h>

static struct fake_host w;
static struct fake_reply reply, second;

static void set_up(void)
{
	fake_open(&w);
	reply = second = (struct fake_reply){ 0 };
}

static void tear_down(void)
{
	fake_close(&w);
	buf_done(&reply.json);
	buf_done(&second.json);
}

/* ---- output ---- */

START_TEST(small_output_is_stored_in_events_and_its_file_is_removed)
{
	struct start_request r = fake_request(&w, "x");
	struct fake_process *p = fake_run(&w, &r, &reply);

	fake_print(&w, p, STREAM_STDOUT, "hello\n", 6);
	fake_advance(&w, 60);
	ck_assert(fake_event_has(&w, "process.output", "payload.preview", "hello\n"));
	fake_exit(&w, p, FAKE_EXITED(0), 0);
	ck_assert_uint_eq(fake_count(&w, "output.spilled"), 0);
	ck_assert_uint_eq(p->unspilled, 3);
	struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	ck_assert_int_eq(store_output_read(w.store, p->streams.ref[0], 0, 100, &out, &e), 0);
	ck_assert_str_eq(buf_cstr(&out), "hello\n");
	buf_done(&out);
}
END_TEST

START_TEST(large_output_is_spilled_once_and_reads_back)
{
	struct start_request r = fake_request(&w, "x");
	struct fake_process *p = fake_run(&w, &r, &reply);
	static char block[3000];
	struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	memset(block, 'a', sizeof block);
	for (int i = 0; i < 5; i++) {
		fake_print(&w, p, STREAM_STDOUT, block, sizeof block);
		fake_advance(&w, 60);
	}
	fake_exit(&w, p, FAKE_EXITED(0), 0);
	ck_assert_uint_eq(fake_count(&w, "output.spilled"), 1);
	ck_assert_uint_eq(p->unspilled, 2); /* stderr only */
	ck_assert_int_eq(fake_event_number(&w, "process.completed", "payload.outputs.stdout.bytes"), 15000);
	ck_assert_msg(store_output_read(w.store, p->streams.ref[0], 0, 20000, &out, &e) == 0, "%s", e.message);
	ck_assert_uint_eq(out.len, 15000);
	buf_done(&out);
	ck_assert(fake_verified(&w));
}
END_TEST

START_TEST(output_beyond_the_limit_keeps_head_and_tail_and_is_counted)
{
	struct start_request r = fake_request(&w, "x");
	r.limits.output_bytes = 64 * 1024;
	struct fake_process *p = fake_run(&w, &r, &reply);
	static char block[16 * 1024];

	for (int i = 0; i < 20; i++) {
		memset(block, 'a' + i, sizeof block);
		fake_print(&w, p, STREAM_STDOUT, block, sizeof block);
		fake_advance(&w, 60);
	}
	fake_exit(&w, p, FAKE_EXITED(0), 0);
	ck_assert_uint_eq(fake_count(&w, "output.truncated"), 1);
	int64_t from = fake_event_number(&w, "output.truncated", "payload.omittedFrom");
	int64_t to = fake_event_number(&w, "output.truncated", "payload.omittedTo");
	ck_assert_int_eq(fake_event_number(&w, "output.truncated", "payload.omittedBytes"), to - from);
	ck_assert_int_eq(from, 48 * 1024);
	ck_assert_int_eq(to, 304 * 1024);
	struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	ck_assert_msg(store_output_read(w.store, p->streams.ref[0], (uint64_t)to, 16384, &out, &e) == 0, "%s",
		      e.message);
	ck_assert_uint_eq(out.len, 16384);
	ck_assert_int_eq(out.data[0], 'a' + 19);
	buf_done(&out);
	ck_assert(fake_verified(&w));
}
END_TEST

START_TEST(a_stream_that_stays_open_delays_the_end_only_for_a_while)
{
	struct start_request r = fake_request(&w, "x");
	struct fake_process *p = fake_run(&w, &r, &reply);
	const struct status_msg m = { .kind = STATUS_EXITED };

	engine_on_gone(w.engine, p->id, &m);
	engine_on_output_end(w.engine, p->id, STREAM_STDOUT);
	fake_settle(&w);
	ck_assert_uint_eq(fake_count(&w, "process.completed"), 0);
	fake_advance(&w, 2001);
	ck_assert(p->reading_stopped);
	ck_assert_uint_eq(fake_count(&w, "process.completed"), 1);
}
END_TEST

START_TEST(an_end_waits_until_its_output_can_be_written)
{
	struct start_request r = fake_request(&w, "x");
	struct fake_process *p = fake_run(&w, &r, &reply);
	const struct status_msg m = { .kind = STATUS_EXITED };

	engine_on_output_stalled(w.engine, p->id, STREAM_STDOUT, ENOSPC);
	engine_on_gone(w.engine, p->id, &m);
	engine_on_output_end(w.engine, p->id, STREAM_STDERR);
	fake_advance(&w, 3600000);
	ck_assert(!p->reading_stopped);
	ck_assert_uint_eq(fake_count(&w, "process.completed"), 0);
	fake_print(&w, p, STREAM_STDOUT, "kept\n", 5);
	engine_on_output_stalled(w.engine, p->id, STREAM_STDOUT, 0);
	engine_on_output_end(w.engine, p->id, STREAM_STDOUT);
	fake_settle(&w);
	ck_assert_int_eq(fake_event_number(&w, "process.completed", "payload.outputs.stdout.bytes"), 5);
}
END_TEST

START_TEST(a_requested_end_does_not_wait_for_space)
{
	struct start_request r = fake_request(&w, "x");
	struct fake_process *p = fake_run(&w, &r, &reply);
	const struct status_msg m = { .kind = STATUS_EXITED };

	engine_on_output_stalled(w.engine, p->id, STREAM_STDOUT, ENOSPC);
	engine_on_gone(w.engine, p->id, &m);
	fake_advance(&w, 5000);
	ck_assert(!p->reading_stopped);
	engine_terminate_process(w.engine, p->id, NULL, 0, LIMIT_NONE, &fake_caller, fake_reply_fn, &second);
	fake_advance(&w, 2001);
	ck_assert(p->reading_stopped);
	ck_assert_uint_eq(fake_count(&w, "process.completed"), 1);
}
END_TEST

/* ---- input ---- */

START_TEST(a_write_replies_when_the_pipe_has_accepted_all_input)
{
	struct start_request r = fake_request(&w, "cat");
	r.stdin_pipe = true;
	struct fake_process *p = fake_run(&w, &r, &reply);

	p->stdin_room = 3;
	engine_write_stdin(w.engine, p->id, "abcdef", 6, &fake_caller, fake_reply_fn, &second);
	engine_close_stdin(w.engine, p->id, &fake_caller, fake_reply_fn, &reply);
	fake_settle(&w);
	ck_assert_uint_eq(second.count, 0);
	ck_assert(!p->stdin_closed);
	p->stdin_room = 100;
	engine_on_stdin_room(w.engine, p->id);
	fake_settle(&w);
	ck_assert_uint_eq(second.count, 1);
	ck_assert_int_eq(jval_int(fake_answer(&second, "bytes"), 0), 6);
	ck_assert_str_eq(buf_cstr(&p->input), "abcdef");
	ck_assert(p->stdin_closed);
	ck_assert_uint_eq(fake_count(&w, "process.input"), 2);
	engine_write_stdin(w.engine, p->id, "x", 1, &fake_caller, fake_reply_fn, &second);
	ck_assert_int_eq(second.code, ERR_STATE);
}
END_TEST

START_TEST(an_idempotent_write_stores_its_intent_before_it_writes)
{
	struct start_request r = fake_request(&w, "cat");
	struct caller c = fake_caller;
	struct buf stored = BUF_INIT;
	struct err e = ERR_INIT;
	char method[64];
	uint8_t hash[32];

	r.stdin_pipe = true;
	struct fake_process *p = fake_run(&w, &r, &reply);
	p->stdin_room = 0;
	c.idem_key = "k1";
	c.idem_method = "write_process_stdin";
	engine_write_stdin(w.engine, p->id, "abc", 3, &c, fake_reply_fn, &second);
	fake_settle(&w);
	ck_assert_int_eq(store_idempotency_get(w.store, c.uid, "k1", method, hash, &stored, &e), 0);
	ck_assert_str_eq(buf_cstr(&stored), "{\"pending\":true}");
	p->stdin_room = 100;
	engine_on_stdin_room(w.engine, p->id);
	fake_settle(&w);
	ck_assert_uint_eq(second.count, 1);
	buf_reset(&stored);
	ck_assert_int_eq(store_idempotency_get(w.store, c.uid, "k1", method, hash, &stored, &e), 0);
	ck_assert_str_eq(buf_cstr(&stored), "{\"bytes\":3}");
	buf_done(&stored);
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "io", set_up, tear_down, 60,
		  SUITE_TESTS(small_output_is_stored_in_events_and_its_file_is_removed,
			      large_output_is_spilled_once_and_reads_back,
			      output_beyond_the_limit_keeps_head_and_tail_and_is_counted,
			      a_stream_that_stays_open_delays_the_end_only_for_a_while,
			      an_end_waits_until_its_output_can_be_written, a_requested_end_does_not_wait_for_space,
			      a_write_replies_when_the_pipe_has_accepted_all_input,
			      an_idempotent_write_stores_its_intent_before_it_writes) },
	};

	return suite_run_cases("process_io", cases, 1);
}

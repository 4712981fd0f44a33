/* The text of a tool call's result, as sent to the model. */

#include "runtime/engine/call/tool_result.h"

#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/view/view.h"
#include "runtime/view/view_documents.h"
#include "sandbox/violation.h"
#include "tests/unit/runtime/engine/fake_host.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

static struct fake_host w;
static struct fake_reply reply;
static struct buf text;
static bool failed;

static void set_up(void)
{
	fake_open(&w);
	reply = (struct fake_reply){ 0 };
}

static void tear_down(void)
{
	fake_close(&w);
	buf_done(&reply.json);
	buf_done(&text);
}

/* Submits a turn with one tool call and lets its process run. */
static struct fake_process *call(const char *tool, const char *arguments)
{
	json_t *parts = json_pack("[{ss ss so}]", "type", "tool_call", "toolName", tool, "arguments",
				  json_loads(arguments, 0, NULL));
	json_t *options = json_pack("{ss}", "sandboxId", "own"); /* no holder */
	const struct turn_request q = { .input = parts, .options = options };

	ck_assert_ptr_nonnull(parts);
	engine_submit_turn(w.engine, &q, &fake_caller, fake_reply_fn, &reply);
	fake_settle(&w);
	json_decref(parts);
	json_decref(options);
	ck_assert_msg(reply.code == 0, "%s", reply.message);
	return fake_begin(&w, fake_last(&w));
}

/* The text of the newest call. */
static const char *result(size_t max)
{
	mem_auto char *json = fake_event(&w, "tool.started");
	buf_auto struct buf doc = BUF_INIT;
	struct tool_call_doc d;
	struct err e = ERR_INIT;
	char id[ID_SIZE];

	jval_str(jval_get(jval_of(json, strlen(json)), "toolCallId"), id, sizeof id);
	ck_assert_int_eq(view_read(w.store, &tool_call_schema, id, &doc, &d, &e), 0);
	buf_reset(&text);
	tool_result_text(w.engine, &d, max, &text, &failed);
	return buf_cstr(&text);
}

static void print(struct fake_process *p, int stream, const char *s) { fake_print(&w, p, stream, s, strlen(s)); }

#define HAS(part) ck_assert_msg(strstr(text.data, part), "no '%s' in:\n%s", part, text.data)
#define HAS_NOT(part) ck_assert_msg(!strstr(text.data, part), "'%s' in:\n%s", part, text.data)

START_TEST(a_command_has_its_status_and_both_streams)
{
	struct fake_process *p = call("shell", "{\"commandLine\":\"x\"}");

	print(p, STREAM_STDOUT, "hello\n");
	print(p, STREAM_STDERR, "careful");
	fake_exit(&w, p, FAKE_EXITED(3), 0);
	result(0);
	ck_assert(failed);
	HAS("Exit code 3");
	HAS("--- stdout ---\nhello\n--- stderr ---\ncareful\n");
	fake_exit(&w, call("shell", "{\"commandLine\":\"x\"}"), FAKE_EXITED(0), 0);
	result(0);
	ck_assert(!failed);
	HAS("Exit code 0");
	HAS("(no output)\n");
	p = call("shell", "{\"commandLine\":\"x\"}");
	print(p, STREAM_STDOUT, "only\n");
	fake_exit(&w, p, 9, 0);
	result(0);
	ck_assert(failed);
	HAS("Killed by signal ");
	HAS("only\n");
	HAS_NOT("---");
}
END_TEST

START_TEST(long_output_keeps_head_and_tail_with_whole_lines)
{
	struct fake_process *p = call("shell", "{\"commandLine\":\"x\"}");
	char line[64];

	for (int i = 0; i < 2000; i++) {
		snprintf(line, sizeof line, "line %04d of öutput\n", i);
		print(p, STREAM_STDOUT, line);
	}
	fake_exit(&w, p, FAKE_EXITED(0), 0);
	mem_auto char *whole = mem_strdup(result(1000));
	ck_assert_uint_lt(text.len, 1400);
	HAS("line 0000 of öutput\n");
	HAS("line 1999 of öutput\n");
	HAS("of 42000 bytes are not shown; read_output with {\"ref\":\"out_");
	/* Every line is whole. */
	for (const char *s = strstr(text.data, "line "); s; s = strstr(s + 1, "line "))
		ck_assert_msg(strncmp(s + 9, " of öutput\n", 11) == 0, "%.40s", s);
	char *at = strstr(whole, "\"offset\":");
	unsigned long offset = strtoul(at + 9, NULL, 10);
	ck_assert_uint_eq(offset % 21, 0);
	ck_assert_uint_le(offset, 500);
	ck_assert_str_eq(result(1000), whole);
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	ck_assert_str_eq(result(1000), whole);
}
END_TEST

START_TEST(bytes_that_are_not_text_are_replaced)
{
	struct fake_process *p = call("shell", "{\"commandLine\":\"x\"}");

	fake_print(&w, p, STREAM_STDOUT, "a\xff\033[31mb\n", 9);
	fake_exit(&w, p, FAKE_EXITED(0), 0);
	result(0);
	HAS("a\\xffb\n");
}
END_TEST

START_TEST(denials_name_the_argument_that_would_ask_for_access)
{
	struct fake_process *p = call("shell", "{\"commandLine\":\"x\"}");
	struct violation v = { .kind = "filesystem",
			       .operation = "write",
			       .source = "audit",
			       .port = -1,
			       .error = EROFS,
			       .pid = 77,
			       .comm = "sh",
			       .reason = "outside the write roots",
			       .path = "/srv/data/file" };

	engine_on_violation(w.engine, p->id, &v);
	fake_settle(&w);
	fake_exit(&w, p, FAKE_EXITED(1), 0);
	result(0);
	HAS("Denied by the sandbox: write /srv/data/file (outside the write roots)\n");
	HAS("\"sandbox\":{\"writeRoots\":[\"/srv/data\"]}");
}
END_TEST

START_TEST(a_file_has_numbered_lines_and_an_offset_to_continue)
{
	struct fake_process *p = call("read_file", "{\"path\":\"a\",\"offset\":10}");

	print(p, STREAM_STDOUT,
	      "{\"path\":\"a\",\"bytes\":90,\"lines\":30,\"truncated\":true,\"encoding\":\"utf8\","
	      "\"content\":\"one\\r\\ntwo\\r\\n\"}\n");
	fake_exit(&w, p, FAKE_EXITED(0), 0);
	result(0);
	ck_assert(!failed);
	ck_assert_str_eq(text.data, "    11\tone\n    12\ttwo\n[lines 11 to 12 of 30; go on with offset 12]\n");
	result(14);
	ck_assert_str_eq(text.data, "    11\tone\n[lines 11 to 11 of 30; go on with offset 11]\n");
}
END_TEST

START_TEST(changed_files_and_listings_are_lines)
{
	struct fake_process *p = call("write_file", "{\"path\":\"a\",\"content\":\"x\"}");

	print(p, STREAM_STDOUT, "{\"files\":[{\"path\":\"a\",\"change\":\"created\",\"bytes\":1}]}\n");
	fake_exit(&w, p, FAKE_EXITED(0), 0);
	ck_assert_str_eq(result(0), "created a (1 bytes)\n");
	p = call("list_directory", "{}");
	print(p, STREAM_STDOUT,
	      "{\"path\":\".\",\"entries\":[{\"name\":\"d\",\"type\":\"directory\"},{\"name\":\"f\",\"type\":\"file\","
	      "\"bytes\":7}],\"truncated\":false}\n");
	fake_exit(&w, p, FAKE_EXITED(0), 0);
	ck_assert_str_eq(result(0), "d/\nf  7\n");
	p = call("read_file", "{\"path\":\"a\"}");
	print(p, STREAM_STDOUT, "{\"error\":{\"category\":\"not_found\",\"message\":\"read 'a': no such file\"}}\n");
	fake_exit(&w, p, FAKE_EXITED(1), 0);
	result(0);
	ck_assert(failed);
	HAS("Failed (not_found): read 'a': no such file\n");
}
END_TEST

START_TEST(matches_and_near_misses_are_shown)
{
	struct fake_process *p = call("grep", "{\"pattern\":\"x\"}");

	print(p, STREAM_STDOUT, "{\"matches\":2,\"truncated\":true,\"text\":\"a:1:x\\nb:2:x\\n\"}\n");
	fake_exit(&w, p, FAKE_EXITED(0), 0);
	ck_assert_str_eq(result(0), "a:1:x\nb:2:x\n[there are more matches; search fewer files or for something more "
				    "specific]\n");
	result(8);
	HAS("a:1:x\n[there");
	p = call("edit_file", "{\"path\":\"a\",\"oldText\":\"x\",\"newText\":\"y\"}");
	print(p, STREAM_STDOUT,
	      "{\"nearMiss\":\"at line 7:\\n\",\"error\":{\"category\":\"conflict\",\"message\":\"not there\"}}\n");
	fake_exit(&w, p, FAKE_EXITED(1), 0);
	result(0);
	ck_assert(failed);
	HAS("Failed (conflict): not there\nat line 7:\n");
}
END_TEST

START_TEST(the_result_of_a_lost_call_reports_that_it_may_have_run)
{
	call("write_file", "{\"path\":\"a\",\"content\":\"x\"}");
	result(0);
	ck_assert(failed);
	HAS("It may have run");
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	fake_settle(&w);
	result(0);
	ck_assert(failed);
	HAS("Interrupted (lost)");
	HAS("It may have run, completely or partly.");
	struct fake_process *p = call("shell", "{\"commandLine\":\"x\"}");
	print(p, STREAM_STDOUT, "begun\n");
	fake_settle(&w);
	fake_crash(&w);
	fake_reopen(&w, NULL, 0);
	fake_settle(&w);
	result(0);
	ck_assert(failed);
	HAS("it may have run");
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "result", set_up, tear_down, 60,
		  SUITE_TESTS(
			  a_command_has_its_status_and_both_streams, long_output_keeps_head_and_tail_with_whole_lines,
			  bytes_that_are_not_text_are_replaced, denials_name_the_argument_that_would_ask_for_access,
			  a_file_has_numbered_lines_and_an_offset_to_continue, changed_files_and_listings_are_lines,
			  matches_and_near_misses_are_shown, the_result_of_a_lost_call_reports_that_it_may_have_run) },
	};

	return suite_run_cases("tool_result", cases, 1);
}

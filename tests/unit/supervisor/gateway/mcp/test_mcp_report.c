#include "supervisor/gateway/mcp/mcp_report.h"

#include "runtime/base/err.h"
#include "runtime/base/json_schema.h"
#include "supervisor/gateway/mcp/mcp_session.h"
#include "supervisor/gateway/mcp/mcp_tool.h"
#include "tests/unit/suite.h"

#include <string.h>

/* The output schema of the tool exec. */
static const char *exec_output(void)
{
	struct mcp_config config;

	mcp_config_init(&config);
	return mcp_tool_find(&config, "exec")->output;
}

/* The text of the report on a process. Checks that the structured content matches exec's schema, and `isError`.
 */
static const char *report_of(const char *process, bool wrong, struct buf *out)
{
	json_auto_t *p = json_loads(process, 0, NULL), *schema = json_loads(exec_output(), 0, NULL);
	const struct mcp_report r = { .process = p, .changes = -1 };
	json_auto_t *result = mcp_report_result(&r);
	struct err e = ERR_INIT;

	ck_assert_ptr_nonnull(p);
	ck_assert_msg(json_schema_check(schema, json_object_get(result, "structuredContent"), &e) == 0, "%s %s",
		      e.field, e.message);
	ck_assert_msg(json_is_true(json_object_get(result, "isError")) == wrong, "%s", process);
	buf_reset(out);
	buf_str(out, json_string_value(json_object_get(json_array_get(json_object_get(result, "content"), 0), "text")));
	return out->data;
}

START_TEST(a_report_describes_the_end_of_a_process)
{
	buf_auto struct buf b = BUF_INIT;

	ck_assert_str_eq(
		report_of("{\"processId\":\"proc_1\",\"status\":\"completed\",\"exitCode\":0,\"durationMs\":12345}",
			  false, &b),
		"Exit code 0 after 12 s.\n");
	ck_assert_str_eq(
		report_of("{\"processId\":\"proc_1\",\"status\":\"completed\",\"exitCode\":2,\"durationMs\":15}", true,
			  &b),
		"Exit code 2 after 0.01 s.\n");
	ck_assert_str_eq(report_of("{\"processId\":\"proc_1\",\"status\":\"completed\",\"signal\":\"SEGV\"}", true, &b),
			 "Killed by signal SEGV.\n");
	ck_assert_str_eq(report_of("{\"processId\":\"proc_1\",\"status\":\"failed\",\"category\":\"timeout\",\"limit\":"
				   "\"idle\",\"message\":\"m\"}",
				   true, &b),
			 "Stopped by its idle limit: m.\n");
	ck_assert_str_eq(report_of("{\"processId\":\"proc_1\",\"status\":\"failed\",\"category\":\"timeout\",\"limit\":"
				   "\"cpu\",\"message\":\"m\"}",
				   true, &b),
			 "Stopped by its cpu limit: m.\n");
	ck_assert_str_eq(report_of("{\"processId\":\"proc_1\",\"status\":\"failed\",\"category\":\"permission\","
				   "\"message\":\"no\"}",
				   true, &b),
			 "Not run: no.\n");
	ck_assert_ptr_nonnull(strstr(report_of("{\"processId\":\"proc_1\",\"status\":\"lost\"}", true, &b), "unknown"));
	ck_assert_ptr_nonnull(
		strstr(report_of("{\"processId\":\"proc_1\",\"status\":\"running\",\"stdin\":\"none\"}", false, &b),
		       "Still running as proc_1"));
	ck_assert_ptr_null(strstr(b.data, "write_stdin"));
	ck_assert_ptr_nonnull(strstr(
		report_of("{\"processId\":\"proc_1\",\"status\":\"running\",\"stdin\":\"tty\"}", false, &b), "screen"));
	ck_assert_ptr_nonnull(
		strstr(report_of("{\"processId\":\"proc_1\",\"status\":\"waiting_permission\",\"actionId\":\"act_2\"}",
				 false, &b),
		       "bailiff approve act_2"));
}
END_TEST

START_TEST(a_report_lists_denials_once_with_a_suggestion)
{
	buf_auto struct buf b = BUF_INIT;

	report_of("{\"processId\":\"proc_1\",\"status\":\"completed\",\"exitCode\":0,\"violations\":["
		  "{\"kind\":\"filesystem\",\"operation\":\"write\",\"path\":\"/srv/hosts\",\"reason\":\"outside the "
		  "write "
		  "roots\"},"
		  "{\"kind\":\"filesystem\",\"operation\":\"write\",\"path\":\"/srv/hosts\",\"reason\":\"outside the "
		  "write "
		  "roots\"},"
		  "{\"kind\":\"network\",\"operation\":\"connect\",\"host\":\"a.example\",\"port\":443,\"source\":"
		  "\"proxy\","
		  "\"reason\":\"not in the allowed hosts\"}]}",
		  false, &b);
	ck_assert_ptr_nonnull(strstr(b.data, "denied: write /srv/hosts (outside the write roots)\ndenied: connect "
					     "a.example:443 (not in the allowed hosts)\nto allow it: "));
	ck_assert_ptr_nonnull(strstr(b.data,
				     "in policy.json: {\"profiles\":{\"workspace\":{\"writeRoots\":[\"/srv\"],"
				     "\"network\":{\"allow\":[\"a.example:443\"]},\"extends\":\"workspace\"}}}"));
	report_of("{\"processId\":\"proc_1\",\"status\":\"completed\",\"exitCode\":0,\"sandboxProfile\":\"ci\","
		  "\"violations\":["
		  "{\"kind\":\"filesystem\",\"operation\":\"write\",\"path\":\"/a\\\"b/c\",\"reason\":\"outside the "
		  "write "
		  "roots\"}]}",
		  false, &b);
	ck_assert_ptr_nonnull(
		strstr(b.data, "{\"profiles\":{\"ci\":{\"writeRoots\":[\"/a\\\"b\"],\"extends\":\"ci\"}}}"));
}
END_TEST

START_TEST(a_report_of_a_denied_start_cites_the_rules)
{
	static const char denied[] =
		"{\"code\":-32010,\"message\":\"policy denies it: "
		"x\",\"data\":{\"processId\":\"proc_1\",\"permissionDecision\":{"
		"\"decisionReason\":\"'rm' is denied by Bash(rm)\",\"impact\":\"deletes\",\"ruleRefs\":["
		"{\"file\":\"p.json\",\"line\":3,\"rule\":\"Bash(rm)\",\"effect\":\"deny\"},"
		"{\"sessionId\":\"sess_1\",\"list\":\"deny\",\"number\":2,\"rule\":\"Bash\",\"effect\":\"deny\","
		"\"layer\":\"session\"}]}}}";
	json_auto_t *error = json_loads(denied, 0, NULL);
	json_auto_t *schema = json_loads(exec_output(), 0, NULL), *result = mcp_report_denied(error);
	const char *text = json_string_value(
		json_object_get(json_array_get(json_object_get(result, "content"), 0), "text"));
	struct err e = ERR_INIT;

	ck_assert_ptr_nonnull(error);
	ck_assert_ptr_nonnull(strstr(text, "Denied by policy: 'rm' is denied by Bash(rm).\nrule: Bash(rm) (deny, "
					   "p.json:3)\nrule: Bash (deny, sess_1:2)\nit deletes\n"));
	ck_assert_int_eq(json_schema_check(schema, json_object_get(result, "structuredContent"), &e), 0);
	ck_assert(json_is_true(json_object_get(result, "isError")));
}
END_TEST

int main(void)
{
	return SUITE("mcp_report", a_report_describes_the_end_of_a_process,
		     a_report_lists_denials_once_with_a_suggestion, a_report_of_a_denied_start_cites_the_rules);
}

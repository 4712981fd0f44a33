#include "policy/decision.h"
#include "policy/hook_answer.h"

#include "policy/command_analysis.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include "tests/unit/suite.h"

#define TREE(event, group) "{\"hooks\":{\"" event "\":[" group "]}}"
#define HOOK(more) "{\"type\":\"command\",\"command\":\"x\"" more "}"

static void load(struct policy_hooks *s, enum rule_layer layer, const char *text)
{
	struct err e = ERR_INIT;

	if (policy_hooks_parse(s, layer, "policy.json", text, strlen(text), &e) < 0)
		ck_abort_msg("%s", e.message);
}

static size_t selected(const struct policy_hooks *s, enum hook_point point, const char *name, const char *line)
{
	static const struct analysis_options where = { .cwd = "/w" };
	command_facts_auto struct command_facts f = { 0 };
	const struct policy_hook *list[HOOKS_SELECTED_MAX];
	const struct rules_query use = { .facts = &f, .bases = { .cwd = "/w", .workspace = "/w" } };
	const struct hook_query q = { .point = point, .name = &name, .nnames = 1, .use = line ? &use : NULL };

	if (line)
		command_analyse_line(line, strlen(line), &where, &f);
	return policy_hooks_select(s, &q, list);
}

/* ---- selection ---- */

START_TEST(matchers_are_names_lists_or_regular_expressions)
{
	static const struct {
		const char *matcher, *name;
		bool meant;
	} rows[] = {
		{ "", "Bash", true },
		{ "*", "Bash", true },
		{ "Bash", "Bash", true },
		{ "Bash", "BashOutput", false },
		{ "Bas", "Bash", false },
		{ "bash", "Bash", false },
		{ "Edit|Write", "Write", true },
		{ "Edit|Write", "Edit", true },
		{ "Edit|Write", "MultiEdit", false },
		{ "Edit | Write", "Write", true },
		{ "Edit, Write", "Write", true },
		{ "Edit|", "", false },
		{ "mcp__a__.*", "mcp__a__b", true },
		{ "mcp__.*__write.*", "mcp__fs__write_file", true },
		{ "mcp__a__.*", "mcp__b__a", false },
		{ "^Bash$", "Bash", true },
		{ "^Bash$", "BashOutput", false },
		{ "Not(?:e|ed)book\\d", "Notebook7", true },
		{ ".*Edit", "MultiEdit", true },
		{ "mcp__memory", "mcp__memory__x", false },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		buf_auto struct buf text = BUF_INIT;
		struct policy_hooks s = { 0 };

		buf_str(&text, "{\"hooks\":{\"PreToolUse\":[{\"matcher\":\"");
		for (const char *c = rows[i].matcher; *c; c++)
			buf_printf(&text, "%s%c", *c == '\\' ? "\\" : "", *c);
		buf_str(&text, "\",\"hooks\":[" HOOK("") "]}]}}");
		load(&s, RULE_OF_USER, text.data);
		ck_assert_msg((selected(&s, HOOK_PRE_TOOL_USE, rows[i].name, "ls") == 1) == rows[i].meant,
			      "'%s' and '%s'", rows[i].matcher, rows[i].name);
		policy_hooks_done(&s);
	}
}
END_TEST

START_TEST(conditions_match_whatever_may_run_the_command)
{
	static const struct {
		const char *rule, *line;
		bool meant;
	} rows[] = {
		{ "Bash(git *)", "git push", true },   { "Bash(git *)", "true && git push", true },
		{ "Bash(git *)", "gitk", false },      { "Bash(git *)", "ls", false },
		{ "Bash(rm *)", "'r'm x", true },      { "Bash(rm *)", "/bin/rm x", true },
		{ "Bash(rm *)", "eval \"$X\"", true }, { "Bash(rm *)", "$X y", true },
		{ "Bash", "anything", true },          { "Bash(rm *)", NULL, false },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		mem_auto char *text = mem_printf(TREE("PreToolUse", "{\"hooks\":[" HOOK(",\"if\":\"%s\"") "]}"),
						 rows[i].rule);
		struct policy_hooks s = { 0 };

		load(&s, RULE_OF_USER, text);
		ck_assert_msg((selected(&s, HOOK_PRE_TOOL_USE, "Bash", rows[i].line) == 1) == rows[i].meant,
			      "'%s' and '%s'", rows[i].rule, rows[i].line ? rows[i].line : "no command");
		policy_hooks_done(&s);
	}
}
END_TEST

START_TEST(points_have_two_names_and_the_same_hook_runs_once)
{
	struct policy_hooks s = { 0 };

	load(&s, RULE_OF_HOST, TREE("pre_tool_use", "{\"hooks\":[" HOOK("") "," HOOK(",\"timeout\":5") "]}"));
	load(&s, RULE_OF_USER,
	     TREE("PreToolUse", "{\"hooks\":[" HOOK("") ",{\"type\":\"command\",\"command\":\"y\"}]}"));
	load(&s, RULE_OF_USER, TREE("Stop", "{\"matcher\":\"ignored here\",\"hooks\":[" HOOK("") "]}"));
	ck_assert_uint_eq(s.count, 5);
	ck_assert_uint_eq(s.at[HOOK_PRE_TOOL_USE], 4);
	ck_assert_uint_eq(selected(&s, HOOK_PRE_TOOL_USE, "Bash", "ls"), 2);
	ck_assert_uint_eq(selected(&s, HOOK_STOP, "", NULL), 1);
	ck_assert_uint_eq(selected(&s, HOOK_SESSION_START, "startup", NULL), 0);
	policy_hooks_done(&s);
}
END_TEST

START_TEST(a_hook_keeps_its_line_and_options)
{
	struct policy_hooks s = { 0 };

	load(&s, RULE_OF_USER,
	     "{\n \"hooks\": {\n  \"PreToolUse\": [\n   { \"matcher\": \"Bash\",\n     \"hooks\": [\n"
	     "      { \"type\": \"command\", \"command\": \"a\" },\n      { \"type\": \"command\", \"command\": \"b\", "
	     "\"args\": [\"1\"], \"timeout\": 1.5,\n"
	     "        \"onFailure\": \"allow\", \"shell\": \"sh\", \"profile\": \"ci\", \"allowedEnvVars\": [\"T\"], "
	     "\"async\": true }\n     ] } ] } }\n");
	ck_assert_uint_eq(s.count, 2);
	ck_assert_uint_eq(s.hook[0]->line, 6);
	ck_assert_uint_eq(s.hook[1]->line, 7);
	ck_assert_uint_eq(s.hook[0]->timeout_ms, HOOK_TIMEOUT_MS);
	ck_assert_str_eq(s.hook[0]->profile, HOOK_PROFILE);
	ck_assert_str_eq(s.hook[0]->shell, "/bin/bash");
	ck_assert(policy_hook_closed(s.hook[0]));
	ck_assert(!policy_hook_closed(s.hook[1]));
	ck_assert_uint_eq(s.hook[1]->timeout_ms, 1500);
	ck_assert_str_eq(s.hook[1]->profile, "ci");
	ck_assert_str_eq(s.hook[1]->env[0], "T");
	ck_assert(s.hook[1]->async && s.hook[1]->has_args && !s.hook[0]->has_args);
	policy_hooks_done(&s);
}
END_TEST

START_TEST(workspace_hooks_cannot_widen_their_profile_or_environment)
{
	static const char text[] = TREE("PreToolUse",
					"{\"hooks\":[" HOOK(",\"profile\":\"host\",\"env\":[\"TOKEN\"]") "," HOOK(
						",\"profile\":\"readonly\"") "]}");
	struct policy_hooks s = { 0 };

	load(&s, RULE_OF_WORKSPACE, text);
	ck_assert_str_eq(s.hook[0]->profile, HOOK_PROFILE);
	ck_assert_uint_eq(s.hook[0]->nenv, 0);
	ck_assert_str_eq(s.hook[1]->profile, "readonly");
	ck_assert_uint_eq(s.nnotes, 2);
	load(&s, RULE_OF_USER, text);
	ck_assert_str_eq(s.hook[2]->profile, "host");
	ck_assert_uint_eq(s.hook[2]->nenv, 1);
	policy_hooks_done(&s);
}
END_TEST

/* Only the host and the user can trust a workspace's hooks, and only the exact text. */
START_TEST(workspace_hooks_are_trusted_by_hash)
{
	static const char file[] = TREE("PreToolUse", "{\"hooks\":[" HOOK("") "]}");
	char hash[HASH_SHA256_TEXT];

	hash_sha256_text(file, strlen(file), hash);
	for (int who = 0; who < 3; who++) {
		const enum rule_layer layers[] = { RULE_OF_HOST, RULE_OF_USER, RULE_OF_WORKSPACE };
		mem_auto char *vouches = mem_printf("{\"trustedHooks\":[\"%s\"]}", hash);
		mem_auto char *changed = mem_printf("%s ", file);
		struct policy_hooks s = { 0 };

		load(&s, layers[who], vouches);
		load(&s, RULE_OF_WORKSPACE, file);
		load(&s, RULE_OF_WORKSPACE, changed);
		load(&s, RULE_OF_USER, file);
		ck_assert_int_eq(s.hook[0]->trusted, layers[who] != RULE_OF_WORKSPACE);
		ck_assert_str_eq(s.hook[0]->hash, hash);
		ck_assert(!s.hook[1]->trusted);
		ck_assert_str_eq(s.hook[2]->hash, "");
		policy_hooks_done(&s);
	}
}
END_TEST

#define SENT(url, more) TREE("Stop", "{\"hooks\":[{\"type\":\"http\",\"url\":\"" url "\"" more "}]}")

START_TEST(an_http_hook_names_one_host)
{
	static const struct {
		const char *text, *host, *shown, *words; /* words: part of the error message */
	} rows[] = {
		{ SENT("http://example.com", ""), "example.com:80", "POST http://example.com", NULL },
		{ SENT("https://example.com/a/b?token=x", ""), "example.com:443", "POST https://example.com/a/b",
		  NULL },
		{ SENT("http://localhost:8080/#x", ""), "localhost:8080", "POST http://localhost:8080/", NULL },
		{ SENT("https://[2001:db8::1]/x", ""), "[2001:db8::1]:443", "POST https://[2001:db8::1]/x", NULL },
		{ SENT("https://[2001:db8::1]:8443", ""), "[2001:db8::1]:8443", "POST https://[2001:db8::1]:8443",
		  NULL },
		{ SENT("http://127.0.0.1:9", ",\"headers\":{\"A\":\"b\"}"), "127.0.0.1:9", "POST http://127.0.0.1:9",
		  NULL },
		{ SENT("http://", ""), NULL, NULL, "url has an invalid host" },
		{ SENT("http://:80/", ""), NULL, NULL, "url has an invalid host" },
		{ SENT("http://x:99999/", ""), NULL, NULL, "url has an invalid host" },
		{ SENT("http://*/", ""), NULL, NULL, "one host" },
		{ SENT("http://127.1/", ""), NULL, NULL, "url has an invalid host" },
		{ SENT("file:///etc/passwd", ""), NULL, NULL, "must begin with http" },
		{ SENT("http://a@example.com/", ""), NULL, NULL, "no user or password" },
		{ SENT("http://example.com\\u000a/", ""), NULL, NULL, "characters" },
		{ SENT("http://x/", ",\"headers\":{\"A\":1}"), NULL, NULL, "one line of text" },
		{ SENT("http://x/", ",\"headers\":{\"A:\":\"b\"}"), NULL, NULL, "not a valid header name" },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		struct policy_hooks s = { 0 };
		struct err e = ERR_INIT;
		int r = policy_hooks_parse(&s, RULE_OF_USER, "policy.json", rows[i].text, strlen(rows[i].text), &e);

		ck_assert_msg(r == (rows[i].host ? 0 : -1), "%s: %s", rows[i].text, e.message);
		if (r == 0) {
			ck_assert_str_eq(s.hook[0]->host, rows[i].host);
			ck_assert_str_eq(s.hook[0]->command, rows[i].shown);
			ck_assert_str_eq(s.hook[0]->profile, HOOK_HTTP_PROFILE);
		} else {
			ck_assert_msg(strstr(e.message, rows[i].words), "'%s' in '%s'", rows[i].words, e.message);
		}
		ck_assert_int_eq(policy_hooks_parse(&s, RULE_OF_WORKSPACE, "policy.json", rows[i].text,
						    strlen(rows[i].text), &e),
				 -1);
		policy_hooks_done(&s);
	}
}
END_TEST

START_TEST(invalid_hooks_are_rejected_with_their_key)
{
	static const struct {
		const char *text, *words;
	} rows[] = {
		{ "{", "line 1" },
		{ "[]", "must be an object" },
		{ "{\"hooks\":[]}", "hooks: must be an object" },
		{ "{\"hooks\":{\"PreTool\":[]}}", "unknown hook point; expected one of SessionStart" },
		{ "{\"hooks\":{\"Stop\":{}}}", "hooks.Stop: must be an array" },
		{ TREE("Stop", "1"), "hooks.Stop[0]: must be an object" },
		{ TREE("Stop", "{}"), "hooks must be an array" },
		{ TREE("Stop", "{\"hooks\":[1]}"), "hooks.Stop[0].hooks[0]: must be an object" },
		{ TREE("Stop", "{\"hooks\":[{\"command\":\"x\"}]}"), "type is missing" },
		{ TREE("Stop", "{\"hooks\":[{\"type\":\"prompt\",\"prompt\":\"x\"}]}"), "\"prompt\" is unavailable" },
		{ TREE("Stop", "{\"hooks\":[{\"type\":\"x\",\"command\":\"x\"}]}"), "type must be" },
		{ TREE("Stop", "{\"hooks\":[{\"type\":\"command\"}]}"), "command must be" },
		{ TREE("Stop", "{\"hooks\":[{\"type\":\"command\",\"command\":\"\"}]}"), "command must be" },
		{ TREE("Stop", "{\"matcher\":1,\"hooks\":[]}"), "matcher must be" },
		{ TREE("Stop", "{\"matcher\":\"(a{1,999}){1,999}\",\"hooks\":[" HOOK("") "]}"), "not supported" },
		{ TREE("Stop", "{\"matcher\":\"(a*)\\\\1\",\"hooks\":[" HOOK("") "]}"), "not supported" },
		{ TREE("Stop", "{\"hooks\":[" HOOK(",\"timeout\":0") "]}"), "timeout must be" },
		{ TREE("Stop", "{\"hooks\":[" HOOK(",\"timeout\":1e9") "]}"), "timeout must be" },
		{ TREE("Stop", "{\"hooks\":[" HOOK(",\"onFailure\":\"ask\"") "]}"), "onFailure must be" },
		{ TREE("Stop", "{\"hooks\":[" HOOK(",\"args\":\"x\"") "]}"), "args must be" },
		{ TREE("Stop", "{\"hooks\":[" HOOK(",\"env\":[1]") "]}"), "env[0] must be" },
		{ TREE("Stop", "{\"hooks\":[" HOOK(",\"async\":1") "]}"), "async must be" },
		{ TREE("Stop", "{\"hooks\":[" HOOK(",\"shell\":\"zsh\"") "]}"), "shell must be" },
		{ TREE("Stop", "{\"hooks\":[" HOOK("") "," HOOK(",\"if\":7") "]}"), "if must be" },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		struct policy_hooks s = { 0 };
		struct err e = ERR_INIT;

		ck_assert_int_eq(
			policy_hooks_parse(&s, RULE_OF_USER, "policy.json", rows[i].text, strlen(rows[i].text), &e),
			-1);
		ck_assert_msg(strstr(e.message, rows[i].words) && strncmp(e.message, "policy.json: ", 13) == 0,
			      "'%s' in '%s'", rows[i].words, e.message);
		ck_assert_uint_eq(s.count, 0);
		ck_assert_uint_eq(s.at[HOOK_STOP], 0);
		policy_hooks_done(&s);
	}
}
END_TEST

/* ---- answers ---- */

static void answer(enum hook_point point, int code, const char *out, const char *err, struct hook_answer *ret)
{
	const struct hook_output o = {
		.exit_code = code, .out = out, .nout = strlen(out), .err = err, .nerr = strlen(err)
	};

	hook_answer_read(point, &o, ret);
}

#define SAYS(members) "{\"hookSpecificOutput\":{\"hookEventName\":\"PreToolUse\"," members "}}"

START_TEST(exit_codes_and_output_determine_the_verdict)
{
	static const struct {
		enum hook_point point;
		int code;
		const char *out, *err;
		const char *says;   /* a verdict, or "failed" */
		const char *reason; /* or NULL */
	} rows[] = {
		{ HOOK_PRE_TOOL_USE, 0, "", "", "continue", NULL },
		{ HOOK_PRE_TOOL_USE, 0, "checked 3 files\n", "noise", "continue", NULL },
		{ HOOK_PRE_TOOL_USE, 0, "  {}  ", "", "continue", NULL },
		{ HOOK_PRE_TOOL_USE, 2, "{\"decision\":\"approve\"}", " no \n", "deny", "no" },
		{ HOOK_PRE_TOOL_USE, 2, "", "", "deny", NULL },
		{ HOOK_PRE_TOOL_USE, 1, "", "it broke", "failed", "exit code 1: it broke" },
		{ HOOK_PRE_TOOL_USE, 127, "", "", "failed", "exit code 127" },
		{ HOOK_PRE_TOOL_USE, -1, "", "", "failed", "it was killed, or never ran" },
		{ HOOK_PRE_TOOL_USE, 0, "{\"decision\":\"block\",\"reason\":\"old\"}", "", "deny", "old" },
		{ HOOK_PRE_TOOL_USE, 0, "{\"decision\":\"approve\"}", "", "allow", NULL },
		{ HOOK_PRE_TOOL_USE, 0, "{\"decision\":\"maybe\"}", "", "failed", "decision must be" },
		{ HOOK_PRE_TOOL_USE, 0, SAYS("\"permissionDecision\":\"allow\",\"permissionDecisionReason\":\"fine\""),
		  "", "allow", "fine" },
		{ HOOK_PRE_TOOL_USE, 0, SAYS("\"permissionDecision\":\"ask\""), "", "ask", NULL },
		{ HOOK_PRE_TOOL_USE, 0, SAYS("\"permissionDecision\":\"defer\""), "", "defer", NULL },
		{ HOOK_PRE_TOOL_USE, 0, SAYS("\"permissionDecision\":\"deny\""), "", "deny", NULL },
		{ HOOK_PRE_TOOL_USE, 0, SAYS("\"permissionDecision\":7"), "", "failed", "permissionDecision must be" },
		{ HOOK_PRE_TOOL_USE, 0, SAYS("\"updatedInput\":[]"), "", "failed", "updatedInput must be an object" },
		{ HOOK_PRE_TOOL_USE, 0, "{\"hookSpecificOutput\":{\"hookEventName\":\"PostToolUse\"}}", "", "failed",
		  "hookEventName is not PreToolUse" },
		{ HOOK_PRE_TOOL_USE, 0,
		  "{\"hookSpecificOutput\":{\"hookEventName\":\"pre_tool_use\",\"permissionDecision\":\"deny\"}}", "",
		  "deny", NULL },
		{ HOOK_PRE_TOOL_USE, 0, "{\"continue\":\"no\"}", "", "failed", "continue must be" },
		{ HOOK_PRE_TOOL_USE, 0, "{\"continue\":false,\"stopReason\":\"enough\",\"decision\":\"approve\"}", "",
		  "deny", "enough" },
		/* Of two decisions the stricter one applies; output that would be ignored is a failure. */
		{ HOOK_PRE_TOOL_USE, 0,
		  "{\"decision\":\"block\",\"reason\":\"no\",\"hookSpecificOutput\":{\"permissionDecision\":\"allow\"}"
		  "}",
		  "", "deny", "no" },
		{ HOOK_PRE_TOOL_USE, 0, SAYS("\"permissionDecision\":\"deny\",\"permissionDecision\":\"allow\""), "",
		  "failed", "not valid JSON" },
		{ HOOK_PRE_TOOL_USE, 0, "{\"permissionDecision\":\"deny\"}", "", "failed",
		  "permissionDecision belongs in hookSpecificOutput" },
		/* Members that are null are not set. */
		{ HOOK_PRE_TOOL_USE, 0, "{\"continue\":true,\"decision\":null,\"hookSpecificOutput\":null}", "",
		  "continue", NULL },
		{ HOOK_PERMISSION_REQUEST, 0, "{\"hookSpecificOutput\":{\"decision\":null}}", "", "continue", NULL },
		{ HOOK_PRE_TOOL_USE, 0, "\xef\xbb\xbf" SAYS("\"permissionDecision\":\"deny\""), "", "deny", NULL },
		{ HOOK_PRE_TOOL_USE, 0, "{\"decision\":", "", "failed", "not valid JSON" },
		{ HOOK_PRE_TOOL_USE, 0, "{} trailing", "", "failed", "not valid JSON" },
		{ HOOK_STOP, 0, "{\"decision\":\"block\",\"reason\":\"more\"}", "", "deny", "more" },
		{ HOOK_STOP, 0, "{\"decision\":\"block\",\"reason\":\"more\",\"continue\":false}", "", "continue",
		  "more" },
		{ HOOK_STOP, 0, "{\"decision\":\"approve\"}", "", "continue", NULL },
		{ HOOK_USER_PROMPT_SUBMIT, 2, "", "no secrets", "deny", "no secrets" },
		{ HOOK_PERMISSION_REQUEST, 0, "{\"hookSpecificOutput\":{\"decision\":{\"behavior\":\"allow\"}}}", "",
		  "allow", NULL },
		{ HOOK_PERMISSION_REQUEST, 0,
		  "{\"hookSpecificOutput\":{\"decision\":{\"behavior\":\"deny\",\"message\":\"no\"}}}", "", "deny",
		  "no" },
		{ HOOK_PERMISSION_REQUEST, 0, "{\"hookSpecificOutput\":{\"decision\":{\"behavior\":\"ask\"}}}", "",
		  "failed", "behavior" },
		{ HOOK_POST_TOOL_USE, 0, "{\"decision\":\"block\",\"reason\":\"lint\"}", "", "deny", "lint" },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		struct hook_answer a;

		answer(rows[i].point, rows[i].code, rows[i].out, rows[i].err, &a);
		ck_assert_msg(strcmp(a.failed ? "failed" : hook_verdict_name(a.verdict), rows[i].says) == 0, "%zu: %s",
			      i, a.reason ? a.reason : "");
		ck_assert_msg(!rows[i].reason == !a.reason && (!a.reason || strstr(a.reason, rows[i].reason)),
			      "%zu: '%s'", i, a.reason ? a.reason : "none");
		hook_answer_done(&a);
	}
}
END_TEST

START_TEST(answers_carry_input_context_and_message)
{
	struct hook_answer a;

	answer(HOOK_PRE_TOOL_USE, 0,
	       "{\"systemMessage\":\"hello\",\"suppressOutput\":true,\"hookSpecificOutput\":{\"updatedInput\":{"
	       "\"command\":\"ls\"},"
	       "\"additionalContext\":\"know this\"}}",
	       "", &a);
	ck_assert_str_eq(a.input, "{\"command\":\"ls\"}");
	ck_assert_str_eq(a.context, "know this");
	ck_assert_str_eq(a.message, "hello");
	ck_assert(a.suppress && !a.stop && !a.failed);
	hook_answer_done(&a);
	answer(HOOK_POST_TOOL_USE, 0, "{\"hookSpecificOutput\":{\"updatedToolOutput\":\"other\"}}", "", &a);
	ck_assert_str_eq(a.output, "\"other\"");
	hook_answer_done(&a);
	answer(HOOK_SESSION_START, 0, " plain words \n", "", &a);
	ck_assert_str_eq(a.context, "plain words");
	hook_answer_done(&a);
	answer(HOOK_PRE_TOOL_USE, 2, "", "\x1b[31mred\x1b[0m", &a);
	ck_assert_ptr_null(strchr(a.reason, 0x1b));
	hook_answer_done(&a);
	ck_assert(hook_answer_is_async("{\"async\":true}\nmore", 19));
	ck_assert(!hook_answer_is_async("{\"async\":false}", 15) && !hook_answer_is_async("{\"async\":", 9) &&
		  !hook_answer_is_async("", 0));
}
END_TEST

/* ---- the result of several hooks ---- */

static struct hook_reply reply_of(enum rule_layer layer, enum hook_verdict v, bool failed, bool closed,
				  const char *input)
{
	return (struct hook_reply){ .ref = { .file = mem_strdup("f"),
					     .text = mem_strdup("t"),
					     .line = 1,
					     .layer = layer,
					     .closed = closed },
				    .answer = { .verdict = v, .failed = failed, .input = mem_strdup(input) } };
}

static void sum(struct hook_reply *all, size_t n, struct hook_result *ret) { hook_result_of(all, n, ret); }

static void free_replies(struct hook_reply *all, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		hook_ref_done(&all[i].ref);
		hook_answer_done(&all[i].answer);
	}
}

START_TEST(the_strictest_verdict_wins)
{
	for (int a = HOOK_VERDICT_NONE; a <= HOOK_VERDICT_DENY; a++)
		for (int b = HOOK_VERDICT_NONE; b <= HOOK_VERDICT_DENY; b++) {
			struct hook_reply all[] = { reply_of(RULE_OF_HOST, (enum hook_verdict)a, false, true, NULL),
						    reply_of(RULE_OF_USER, (enum hook_verdict)b, false, true, NULL) };
			struct hook_result s;

			sum(all, 2, &s);
			ck_assert_int_eq(s.verdict, a > b ? a : b);
			ck_assert_ptr_eq(s.by, s.verdict == HOOK_VERDICT_NONE ? NULL : a >= b ? &all[0] : &all[1]);
			free_replies(all, 2);
		}
}
END_TEST

START_TEST(workspace_hooks_and_failed_hooks_allow_nothing)
{
	struct hook_reply all[] = {
		reply_of(RULE_OF_WORKSPACE, HOOK_VERDICT_ALLOW, false, true, "{\"command\":\"theirs\"}"),
		reply_of(RULE_OF_USER, HOOK_VERDICT_NONE, false, true, "{\"command\":\"mine\"}"),
		reply_of(RULE_OF_USER, HOOK_VERDICT_ALLOW, true, false, "{\"command\":\"broken\"}"),
		reply_of(RULE_OF_USER, HOOK_VERDICT_NONE, true, true, NULL),
	};
	struct hook_result s;

	sum(all, 1, &s);
	ck_assert(s.verdict == HOOK_VERDICT_NONE && !s.rewriter);
	sum(all, 3, &s);
	ck_assert(s.verdict == HOOK_VERDICT_NONE && s.rewriter == &all[1]);
	sum(all, 4, &s);
	ck_assert(s.verdict == HOOK_VERDICT_DENY && s.by == &all[3]);
	free_replies(all, 4);
}
END_TEST

/* ---- together with the rules ---- */

struct row {
	enum policy_answer rules;
	bool ruled;
	enum permission_mode mode;
	enum hook_verdict says;
	enum policy_answer want;
	bool by_hook;
};

START_TEST(hooks_can_tighten_a_rule_and_answer_for_a_mode)
{
	static const struct row rows[] = {
		{ POLICY_ALLOW, false, MODE_DEFAULT, HOOK_VERDICT_NONE, POLICY_ALLOW, false },
		{ POLICY_ALLOW, false, MODE_DEFAULT, HOOK_VERDICT_ALLOW, POLICY_ALLOW, false },
		{ POLICY_ALLOW, true, MODE_DEFAULT, HOOK_VERDICT_ASK, POLICY_ASK, true },
		{ POLICY_ALLOW, true, MODE_BYPASS, HOOK_VERDICT_ASK, POLICY_ASK, true },
		{ POLICY_ALLOW, true, MODE_NEVER, HOOK_VERDICT_ASK, POLICY_DENY, true },
		{ POLICY_ALLOW, true, MODE_NEVER, HOOK_VERDICT_DEFER, POLICY_DENY, true },
		{ POLICY_ALLOW, true, MODE_BYPASS, HOOK_VERDICT_DENY, POLICY_DENY, true },
		{ POLICY_ASK, false, MODE_UNTRUSTED, HOOK_VERDICT_ALLOW, POLICY_ALLOW, true },
		{ POLICY_ASK, false, MODE_AUTO, HOOK_VERDICT_ALLOW, POLICY_ALLOW, true },
		{ POLICY_ASK, true, MODE_DEFAULT, HOOK_VERDICT_ALLOW, POLICY_ASK, false },
		{ POLICY_ASK, true, MODE_DEFAULT, HOOK_VERDICT_ASK, POLICY_ASK, false },
		{ POLICY_ASK, true, MODE_DEFAULT, HOOK_VERDICT_DEFER, POLICY_ASK, true },
		{ POLICY_ASK, true, MODE_DEFAULT, HOOK_VERDICT_DENY, POLICY_DENY, true },
		{ POLICY_DENY, true, MODE_DEFAULT, HOOK_VERDICT_ALLOW, POLICY_DENY, false },
		{ POLICY_DENY, false, MODE_PLAN, HOOK_VERDICT_ALLOW, POLICY_DENY, false },
		{ POLICY_DENY, true, MODE_DEFAULT, HOOK_VERDICT_DENY, POLICY_DENY, false },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		struct policy_decision d = { .answer = rows[i].rules,
					     .source = POLICY_BY_MODE,
					     .ruled = rows[i].ruled };
		struct hook_reply one = reply_of(RULE_OF_USER, rows[i].says, false, true, NULL);
		buf_auto struct buf text = BUF_INIT;
		struct hook_result s;

		sum(&one, 1, &s);
		policy_decision_hooks(&d, (int)rows[i].mode, &s);
		ck_assert_msg(d.answer == rows[i].want && (d.source == POLICY_BY_HOOK) == rows[i].by_hook, "%zu: %s", i,
			      d.reason);
		ck_assert(!rows[i].by_hook == !d.hook);
		policy_decision_json(&d, &text);
		ck_assert(!rows[i].by_hook == !strstr(text.data, "\"effect\":\"hook\""));
		free_replies(&one, 1);
	}
}
END_TEST

START_TEST(a_later_hook_cannot_allow_a_deferred_decision)
{
	struct policy_decision d = { .answer = POLICY_ALLOW };
	struct hook_reply later = reply_of(RULE_OF_USER, HOOK_VERDICT_DEFER, false, true, NULL),
			  yes = reply_of(RULE_OF_USER, HOOK_VERDICT_ALLOW, false, true, NULL);
	struct hook_result s;

	sum(&later, 1, &s);
	policy_decision_hooks(&d, MODE_DEFAULT, &s);
	ck_assert(d.answer == POLICY_ASK && d.deferred);
	sum(&yes, 1, &s);
	policy_decision_hooks(&d, MODE_DEFAULT, &s);
	ck_assert_int_eq(d.answer, POLICY_ASK);
	free_replies(&later, 1);
	free_replies(&yes, 1);
}
END_TEST

int main(void)
{
	return SUITE("hooks", matchers_are_names_lists_or_regular_expressions,
		     conditions_match_whatever_may_run_the_command, points_have_two_names_and_the_same_hook_runs_once,
		     a_hook_keeps_its_line_and_options, workspace_hooks_cannot_widen_their_profile_or_environment,
		     workspace_hooks_are_trusted_by_hash, an_http_hook_names_one_host,
		     invalid_hooks_are_rejected_with_their_key, exit_codes_and_output_determine_the_verdict,
		     answers_carry_input_context_and_message, the_strictest_verdict_wins,
		     workspace_hooks_and_failed_hooks_allow_nothing, hooks_can_tighten_a_rule_and_answer_for_a_mode,
		     a_later_hook_cannot_allow_a_deferred_decision);
}

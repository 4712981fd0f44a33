/* Rules that make an approval permanent: which ones are suggested, and how they are added to a policy file. */

#include "policy/decision.h"
#include "policy/policy_edit.h"
#include "policy/rule_suggestions.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <string.h>

static const struct {
	const char *policy; /* or NULL */
	const char *line;
	int mode;
	const char *allow; /* rules, one a line; NULL: none can cover the command */
	const char *deny;
} commands[] = {
	{ NULL, "npm test", MODE_UNTRUSTED, "Bash(npm test)\n", "Bash(npm test)\n" },
	{ NULL, "npm test && git push origin main", MODE_UNTRUSTED, "Bash(npm test)\nBash(git push origin main)\n",
	  "Bash(npm test)\nBash(git push origin main)\n" },
	{ NULL, "cd src && make -j4", MODE_UNTRUSTED, "Bash(cd src)\nBash(make -j4)\n", "Bash(make -j4)\n" },
	{ "{\"permissions\":{\"allow\":[\"Bash(cd:*)\"]}}", "cd src && make -j4", MODE_UNTRUSTED, "Bash(make -j4)\n",
	  "Bash(make -j4)\n" },
	{ NULL, "make; make; make", MODE_UNTRUSTED, "Bash(make)\n", "Bash(make)\n" },
	{ NULL, "env FOO=1 timeout 5 make", MODE_UNTRUSTED, "Bash(make)\n", "Bash(make)\n" },
	{ NULL, "sudo make install", MODE_UNTRUSTED, "Bash(sudo make install)\nBash(make install)\n",
	  "Bash(sudo make install)\nBash(make install)\n" },
	{ NULL, "'r'm -r build", MODE_UNTRUSTED, "Bash(rm -r build)\n", "Bash(rm -r build)\n" },
	{ NULL, "rm -r \"a b\"", MODE_UNTRUSTED, "Bash(rm -r 'a b')\n", "Bash(rm -r 'a b')\n" },
	/* Nothing wider than the request. */
	{ NULL, "rm -rf $DIR", MODE_UNTRUSTED, NULL, NULL },
	{ NULL, "rm *.o", MODE_UNTRUSTED, NULL, NULL },
	{ NULL, "grep 'a*b' f > out", MODE_UNTRUSTED, NULL, NULL },
	/* The target of a redirection is part of the approval. */
	{ NULL, "echo text > notes", MODE_UNTRUSTED, "Bash(echo text > notes)\n", "Bash(echo text)\n" },
	{ NULL, "echo text >> notes 2>'a b' >/dev/null", MODE_UNTRUSTED, "Bash(echo text >> notes 2> 'a b')\n",
	  "Bash(echo text)\n" },
	{ NULL, "echo ')' > '(x)' ; make 2>&1 >| log", MODE_UNTRUSTED, "Bash(echo ')' > '(x)')\nBash(make >| log)\n",
	  "Bash(echo ')')\nBash(make)\n" },
	{ NULL, "sort < a > ~/b", MODE_UNTRUSTED, "Bash(sort > /h/b)\n", "Bash(sort)\n" },
	{ NULL, "sh -c 'touch a' > b", MODE_UNTRUSTED, "Bash(sh -c 'touch a' > b)\nBash(touch a)\n",
	  "Bash(touch a)\n" },
	{ NULL, "sh -c 'touch a > b'", MODE_UNTRUSTED, "Bash(touch a > b)\n", "Bash(touch a)\n" },
	{ NULL, "cat a | tee b > c", MODE_UNTRUSTED, "Bash(cat a)\nBash(tee b > c)\n", "Bash(tee b)\n" },
	{ "{\"permissions\":{\"allow\":[\"Bash(make:*)\"]}}", "make x > log", MODE_UNTRUSTED, "Bash(make x > log)\n",
	  "Bash(make x)\n" },
	{ NULL, "echo text > $X", MODE_UNTRUSTED, NULL, "Bash(echo text)\n" },
	{ NULL, "echo text > 'a*'", MODE_UNTRUSTED, NULL, "Bash(echo text)\n" },
	{ NULL, "{ make; } > log", MODE_UNTRUSTED, NULL, "Bash(make)\n" },
	{ NULL, "f() { make; }; f > log", MODE_UNTRUSTED, NULL, "Bash(make)\n" },
	{ NULL, "make &> log", MODE_UNTRUSTED, NULL, "Bash(make)\n" }, /* to dash these are two commands */
	{ NULL, "> log", MODE_UNTRUSTED, NULL, NULL },
	{ NULL, "make >/dev/null 2>&1", MODE_UNTRUSTED, "Bash(make)\n", "Bash(make)\n" },
	{ NULL, "eval \"$X\"", MODE_UNTRUSTED, NULL, NULL },
	{ NULL, "$X now", MODE_UNTRUSTED, NULL, NULL },
	{ NULL, "make $(cat targets)", MODE_UNTRUSTED, NULL, NULL },
	/* Commands that no allowing rule can cover. */
	{ "{\"permissions\":{\"ask\":[\"Bash(git push:*)\"]}}", "git push", MODE_DEFAULT, NULL, "Bash(git push)\n" },
	{ "{\"permissions\":{\"deny\":[\"Bash(git push:*)\"]}}", "git push", MODE_DEFAULT, NULL, "Bash(git push)\n" },
	{ "{\"permissions\":{\"deny\":[\"Read(//etc/shadow)\"]}}", "cat /etc/shadow", MODE_DEFAULT, NULL,
	  "Bash(cat /etc/shadow)\n" },
	{ NULL, "make", MODE_PLAN, NULL, "Bash(make)\n" },
};

static char *lines(const struct rule_suggestions *l)
{
	struct buf out = BUF_INIT;

	for (size_t i = 0; i < l->count; i++)
		buf_printf(&out, "%s\n", l->rule[i]);
	return l->count ? buf_take(&out) : NULL;
}

/* A file with these rules allows the request; without any one of them it does not. */
static void check_minimal(size_t i, const struct policy_request *r, const struct rule_suggestions *l)
{
	for (size_t without = 0; without <= l->count; without++) {
		struct policy_rules rules = RULES_INIT;
		buf_auto struct buf text = BUF_INIT, next = BUF_INIT;
		struct policy_request again = *r;
		struct policy_decision d;
		struct err e = ERR_INIT;
		unsigned line;

		buf_str(&text, commands[i].policy ? commands[i].policy : "");
		for (size_t k = 0; k < l->count; k++) {
			const char *one = l->rule[k];

			if (k == without)
				continue;
			buf_reset(&next);
			ck_assert_msg(policy_edit_add(text.data ? text.data : "", text.len, "allow", &one, 1, &next,
						      &line, &e) == 0,
				      "%s", e.message);
			buf_reset(&text);
			buf_append(&text, next.data, next.len);
		}
		if (text.len)
			ck_assert_msg(policy_rules_parse(&rules, RULE_OF_USER, "p", text.data, text.len, &e) == 0,
				      "%s: %s", e.message, text.data);
		again.rules = &rules;
		policy_decide(&again, &d);
		ck_assert_msg((d.answer == POLICY_ALLOW) == (without == l->count), "row %zu, without rule %zu: %s: %s",
			      i, without, policy_answer_name(d.answer), d.reason);
		policy_rules_done(&rules);
	}
}

START_TEST(test_suggestions_for_commands_are_minimal)
{
	for (size_t i = 0; i < countof(commands); i++) {
		const struct analysis_options o = { .cwd = "/w", .workspace = "/w", .home = "/h" };
		command_facts_auto struct command_facts facts = { 0 };
		rule_suggestions_auto struct rule_suggestions allow = { 0 }, deny = { 0 };
		struct policy_rules rules = RULES_INIT;
		struct err e = ERR_INIT;

		command_analyse_line(commands[i].line, strlen(commands[i].line), &o, &facts);
		if (commands[i].policy)
			ck_assert_msg(policy_rules_parse(&rules, RULE_OF_USER, "p", commands[i].policy,
							 strlen(commands[i].policy), &e) == 0,
				      "%s", e.message);
		const struct policy_request r = { .facts = &facts,
						  .rules = &rules,
						  .mode = commands[i].mode,
						  .cwd = "/w",
						  .workspace = "/w",
						  .home = "/h",
						  .profile = "workspace" };
		rule_suggestions_make(&r, RULE_ALLOW, &allow);
		rule_suggestions_make(&r, RULE_DENY, &deny);
		mem_auto char *a = lines(&allow), *d = lines(&deny);
		ck_assert_msg((!a && !commands[i].allow) ||
				      (a && commands[i].allow && strcmp(a, commands[i].allow) == 0),
			      "%s: allow: %s (%s)", commands[i].line, a ? a : "none", allow.why);
		ck_assert_msg((!d && !commands[i].deny) || (d && commands[i].deny && strcmp(d, commands[i].deny) == 0),
			      "%s: deny: %s (%s)", commands[i].line, d ? d : "none", deny.why);
		ck_assert_int_eq(allow.why[0] != 0, !a);
		if (a)
			check_minimal(i, &r, &allow);
		policy_rules_done(&rules);
	}
}
END_TEST

START_TEST(test_suggestions_for_tools)
{
	static const struct {
		const char *tool, *path, *host, *rule;
		bool exact;
	} rows[] = {
		{ "mcp__tickets__close", NULL, NULL, "mcp__tickets__close", true },
		{ "read_file", "/w/a.txt", NULL, "Read(//w/a.txt)", true },
		{ "write_file", "/w/a.txt", NULL, "Edit(//w/a.txt)", true },
		{ "write_file", "/w/a*", NULL, NULL, true },
		{ "write_file", "/w/a", NULL, NULL, false },
		{ "WebFetch", NULL, "example.com", "WebFetch(domain:example.com)", true },
		{ "WebFetch", NULL, NULL, NULL, true },
		{ "WebFetch", NULL, "*", NULL, true },
		{ "WebFetch", NULL, "*.com", NULL, true },
		{ "mcp__tickets", NULL, NULL, NULL, true },
		{ "mcp__*", NULL, NULL, NULL, true },
		{ "Bash(*)", NULL, NULL, NULL, true },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		const struct command_path p = { .path = rows[i].path,
						.exact = rows[i].exact,
						.access = COMMAND_READS | COMMAND_WRITES };
		const struct policy_request r = { .tool = rows[i].tool,
						  .tool_path = &p,
						  .ntool_paths = rows[i].path != NULL,
						  .tool_host = rows[i].host,
						  .mode = MODE_UNTRUSTED,
						  .cwd = "/w",
						  .workspace = "/w" };
		rule_suggestions_auto struct rule_suggestions l = { 0 };

		rule_suggestions_make(&r, RULE_ALLOW, &l);
		if (rows[i].rule)
			ck_assert_msg(l.count == 1 && strcmp(l.rule[0], rows[i].rule) == 0, "%s: %s (%s)", rows[i].tool,
				      l.count ? l.rule[0] : "none", l.why);
		else
			ck_assert_msg(!l.count && l.why[0], "%s: %s", rows[i].tool, l.count ? l.rule[0] : "none");
	}
}
END_TEST

/* ---- edits of the file ---- */

static const struct {
	const char *before, *after;
	unsigned line;
} edits[] = {
	{ "", "{\n  \"permissions\": {\n    \"allow\": [\n      \"Bash(a \\\"b\\\")\"\n    ]\n  }\n}\n", 4 },
	{ "{}", "{\n  \"permissions\": {\n    \"allow\": [\n      \"Bash(a \\\"b\\\")\"\n    ]\n  }\n}", 4 },
	{ "{ \"models\": {} }",
	  "{\n  \"permissions\": {\n    \"allow\": [\n      \"Bash(a \\\"b\\\")\"\n    ]\n  }, \"models\": {} }", 4 },
	{ "{\n\t\"permissions\": {\n\t\t\"deny\": [\"Bash(x)\"]\n\t}\n}\n",
	  "{\n\t\"permissions\": {\n\t\t\"allow\": [\n\t\t  \"Bash(a \\\"b\\\")\"\n\t\t],\n\t\t\"deny\": "
	  "[\"Bash(x)\"]\n\t}\n}\n",
	  4 },
	{ "{\"permissions\":{\"allow\":[]}}", "{\"permissions\":{\"allow\":[\"Bash(a \\\"b\\\")\"]}}", 1 },
	{ "{\"permissions\":{\"allow\":[ \"Bash(x)\" ]}}",
	  "{\"permissions\":{\"allow\":[ \"Bash(x)\", \"Bash(a \\\"b\\\")\" ]}}", 1 },
	{ "{\n \"permissions\": {\n  \"allow\": [\n   \"Bash(x)\",\n   \"Bash(y)\"\n  ]\n }\n}\n",
	  "{\n \"permissions\": {\n  \"allow\": [\n   \"Bash(x)\",\n   \"Bash(y)\",\n   \"Bash(a \\\"b\\\")\"\n  ]\n "
	  "}\n}\n",
	  6 },
	/* The rule is already there. */
	{ "{\"permissions\":{\n\"allow\":[\"Bash(a \\\"b\\\")\"]}}",
	  "{\"permissions\":{\n\"allow\":[\"Bash(a \\\"b\\\")\"]}}", 2 },
	{ "{\"permissions\":{\"allow\":[\"Bash(]\\\"[)\"]}}",
	  "{\"permissions\":{\"allow\":[\"Bash(]\\\"[)\", \"Bash(a \\\"b\\\")\"]}}", 1 },
};

START_TEST(test_a_rule_is_added_once_and_the_rest_of_the_file_stays)
{
	static const char *const rule = "Bash(a \"b\")";

	for (size_t i = 0; i < countof(edits); i++) {
		buf_auto struct buf out = BUF_INIT, again = BUF_INIT;
		struct err e = ERR_INIT;
		unsigned line = 0;

		ck_assert_msg(policy_edit_add(edits[i].before, strlen(edits[i].before), "allow", &rule, 1, &out, &line,
					      &e) == 0,
			      "%s: %s", edits[i].before, e.message);
		ck_assert_str_eq(buf_cstr(&out), edits[i].after);
		ck_assert_uint_eq(line, edits[i].line);
		ck_assert_int_eq(policy_edit_add(out.data, out.len, "allow", &rule, 1, &again, &line, &e), 0);
		ck_assert_str_eq(buf_cstr(&again), buf_cstr(&out));
		ck_assert_uint_eq(line, edits[i].line);
	}
}
END_TEST

START_TEST(test_invalid_files_are_not_edited)
{
	static const char *const bad[] = { "{",
					   "[]",
					   "{\"permissions\":[]}",
					   "{\"permissions\":{\"allow\":{}}}",
					   "{\"permissions\":{\"allow\":[\"Bash(\"]}}",
					   "\"{}\"" };
	static const char *const rule = "Bash(a)";

	for (size_t i = 0; i < countof(bad); i++) {
		buf_auto struct buf out = BUF_INIT;
		struct err e = ERR_INIT;
		unsigned line = 77;

		ck_assert_msg(policy_edit_add(bad[i], strlen(bad[i]), "allow", &rule, 1, &out, &line, &e) < 0, "%s",
			      bad[i]);
		ck_assert_uint_eq(out.len, 0);
		ck_assert_uint_eq(line, 77);
	}
	/* accepted as a policy file, but not valid JSON */
	static const char nul[] = "{ \"a\" : [ { \"b\" : 1\0} ] }";
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	unsigned line = 77;

	ck_assert_int_lt(policy_edit_add(nul, sizeof(nul) - 1, "allow", &rule, 1, &out, &line, &e), 0);
	ck_assert_uint_eq(out.len, 0);
}
END_TEST

int main(void)
{
	return SUITE("rule_suggestions", test_suggestions_for_commands_are_minimal, test_suggestions_for_tools,
		     test_a_rule_is_added_once_and_the_rest_of_the_file_stays, test_invalid_files_are_not_edited);
}

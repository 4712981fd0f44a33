/* Layers of rules (the files of host, user and workspace, and a session): what each may do, and how its rules are
 * cited. */

#include "tests/unit/policy/rules_rig.h"

START_TEST(a_workspace_may_only_tighten)
{
	struct policy_rules s = RULES_INIT;
	struct policy_decision d;

	load(&s, RULE_OF_WORKSPACE,
	     "{\"permissions\":{\"allow\":[\"Bash(make:*)\"],\"deny\":[\"Bash(rm:*)\"],\"defaultMode\":"
	     "\"bypassPermissions\"},"
	     "\"prefixRules\":[{\"pattern\":[\"touch\"]}]}");
	ck_assert_uint_eq(s.count, 1);
	ck_assert_uint_eq(s.nnotes, 3);
	ck_assert_int_eq(s.mode, -1);
	decide(&s, MODE_UNTRUSTED, "make", &d);
	ck_assert_int_eq(d.answer, POLICY_ASK);
	decide(&s, MODE_DEFAULT, "rm x", &d);
	ck_assert_int_eq(d.answer, POLICY_DENY);
	policy_rules_done(&s);
}
END_TEST

START_TEST(a_decision_cites_the_line_of_its_rule)
{
	struct policy_rules s = RULES_INIT;
	struct policy_decision d;

	load(&s, RULE_OF_USER,
	     "{\n \"permissions\": {\n  \"deny\": [\n   \"Bash(a)\",\n   \"Bash(b)\"\n  ],\n  \"ask\": [\"Bash(c)\"]\n "
	     "},\n"
	     " \"prefixRules\": [\n  {\"pattern\": [\"d\"],\n   \"decision\": \"forbidden\"}\n ]\n}\n");
	static const struct {
		const char *line;
		unsigned at;
	} rows[] = { { "a", 4 }, { "b", 5 }, { "c", 7 }, { "d", 10 } };
	for (size_t i = 0; i < countof(rows); i++) {
		decide(&s, MODE_DEFAULT, rows[i].line, &d);
		ck_assert_uint_eq(d.nrules, 1);
		ck_assert_uint_eq(d.rules[0]->line, rows[i].at);
	}
	policy_rules_done(&s);
}
END_TEST

START_TEST(invalid_files_are_rejected_with_file_line_and_key)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{ "{\"permissions\":[]}", "policy.json: line 1: permissions: must be an object" },
		{ "{\"permissions\":{\n\"deny\":[\n\"Bash(x\"]}}",
		  "policy.json: line 3: permissions.deny: 'Bash(x' is not a valid rule" },
		{ "{\"permissions\":{\"deny\":[3]}}", "permissions.deny: [0] must be a rule" },
		{ "{\"permissions\":{\"deny\":\"Bash\"}}", "permissions.deny: must be an array" },
		{ "{\"permissions\":{\"defaultMode\":\"yolo\"}}",
		  "permissions.defaultMode: must be one of default, untrusted" },
		{ "{\"permissions\":{\"deny\":[\"WebFetch(x)\"]}}", "WebFetch(domain:example.com)" },
		{ "{\"permissions\":{\"deny\":[\"Read(../x)\"]}}", "contains '..'" },
		{ "{\"permissions\":{\"deny\":[\"Bash(a)\"]},\"prefixRules\":[{\"pattern\":[]}]}",
		  "prefixRules.pattern: must be an array of 1" },
		{ "{\"prefixRules\":[{\"pattern\":[\"a\"],\"decision\":\"maybe\"}]}",
		  "prefixRules.decision: must be allow, prompt or forbidden" },
		{ "{\"prefixRules\":[{\"pattern\":[\"a\"],\"dcision\":\"forbidden\"}]}",
		  "unknown key 'dcision'; expected pattern, decision" },
		{ "{\"prefixRules\":[{\"pattern\":[\"a\"],\"not_match\":[\"a b\"]}]}",
		  "matches \"a b\", but the example says that it does not" },
		{ "{\n\"permissions\":{\"deny\":[],\n\"denny\":[\"Bash(a)\"]}}",
		  "line 3: permissions.denny: unknown key (did you mean 'deny'?)" },
		{ "{\"permissions\":{\"forbid\":[\"Bash(a)\"]}}",
		  "permissions.forbid: unknown list; expected deny, ask or allow" },
		{ "{\n\"permission\":{\"deny\":[\"Bash(a)\"]}}",
		  "line 2: permission: unknown key (did you mean 'permissions'?)" },
		{ "{\"permissions\":{\"allow\":[\"Bash()\"]}}",
		  "'Bash()': the parentheses are empty; write Bash to match everything" },
		{ "{\"prefixRules\":[{\"pattern\":[\"a\"],\"match\":[\"b\"]}]}",
		  "does not match \"b\", but the example says that it does" },
		{ "{\"prefixRules\":[{\"pattern\":[\"a\"],\"notMatch\":[\"a b\"]}]}",
		  "matches \"a b\", but the example says that it does not" },
		{ "{", "policy.json: line 1" },
		{ "[]", "must be an object" },
	};
	struct policy_rules s = RULES_INIT;

	load(&s, RULE_OF_HOST, "{\"permissions\":{\"deny\":[\"Bash(rm:*)\"]}}");
	for (size_t i = 0; i < countof(rows); i++) {
		struct err e = ERR_INIT;

		ck_assert_int_eq(
			policy_rules_parse(&s, RULE_OF_USER, "policy.json", rows[i].text, strlen(rows[i].text), &e),
			-1);
		if (!strstr(e.message, rows[i].says))
			ck_abort_msg("%s: %s", rows[i].text, e.message);
		ck_assert_uint_eq(s.count, 1);
	}
	struct policy_decision d;
	decide(&s, MODE_DEFAULT, "rm x", &d);
	ck_assert_int_eq(d.answer, POLICY_DENY);
	policy_rules_done(&s);
}
END_TEST

START_TEST(ignored_keys_are_noted)
{
	struct policy_rules s = RULES_INIT;

	load(&s, RULE_OF_USER,
	     "{\n\"statusLine\":{\"type\":\"command\"},\n\"permissions\":{\"additionalDirectories\":[\"x\"]},\"hooks\":"
	     "{},\"models\":[]}");
	ck_assert_uint_eq(s.nnotes, 2);
	ck_assert_str_eq(s.note[0], "policy.json: line 2: 'statusLine' is ignored");
	ck_assert_str_eq(s.note[1], "policy.json: line 3: permissions.additionalDirectories is ignored");
	policy_rules_done(&s);
}
END_TEST

START_TEST(session_rules_are_the_lowest_layer)
{
	static const struct {
		const char *files, *session, *line, *answer, *by; /* the layer of the first rule, or NULL */
	} rows[] = {
		/* Deny over ask over allow, in whichever layer. */
		{ "{\"permissions\":{\"allow\":[\"Bash(make:*)\"]}}", "{\"deny\":[\"Bash(make:*)\"]}", "make", "deny",
		  "session" },
		{ "{\"permissions\":{\"allow\":[\"Bash(make:*)\"]}}", "{\"ask\":[\"Bash(make all)\"]}", "make all",
		  "ask", "session" },
		{ "{\"permissions\":{\"allow\":[\"Bash(make:*)\"]}}", "{\"ask\":[\"Bash(make all)\"]}", "make x",
		  "allow", "user" },
		{ "{\"permissions\":{\"deny\":[\"Bash(make:*)\"]}}", "{\"allow\":[\"Bash\"]}", "make", "deny", "user" },
		{ "{\"permissions\":{\"ask\":[\"Bash(make:*)\"]}}", "{\"allow\":[\"Bash\"]}", "make", "ask", "user" },
		{ "{\"permissions\":{\"ask\":[\"Bash(make:*)\"]}}", "{\"deny\":[\"Bash(make)\"]}", "make", "deny",
		  "session" },
		{ "{\"permissions\":{\"deny\":[\"Bash(make:*)\"]}}", "{\"ask\":[\"Bash(make)\"]}", "make", "deny",
		  "user" },
		{ "{\"permissions\":{\"deny\":[\"Bash(make:*)\"]}}", "{\"deny\":[\"Bash(make)\"]}", "make", "deny",
		  "user" },
		/* Allowed only by both together. */
		{ "{\"permissions\":{\"allow\":[\"Bash(make:*)\"]}}", "{\"allow\":[\"Bash(touch:*)\"]}",
		  "make && touch x", "allow", "user" },
		{ "{\"permissions\":{\"allow\":[\"Edit(./out/**)\"]}}", "{\"allow\":[\"Bash(touch:*)\"]}",
		  "touch a > out/b", "allow", "session" },
		{ "{\"permissions\":{\"allow\":[\"Bash(touch:*)\"]}}", "{\"allow\":[\"Edit(./out/**)\"]}",
		  "touch a > out/b", "allow", "user" },
		{ "{\"permissions\":{\"allow\":[\"Bash(make:*)\"]}}", "{\"allow\":[\"Bash(touch:*)\"]}", "make && rm x",
		  "ask", NULL },
		{ "{}", "{\"prefixRules\":[{\"pattern\":[\"make\"]}]}", "make all", "allow", "session" },
		{ "{}", "{\"prefixRules\":[{\"pattern\":[\"git\",\"push\"],\"decision\":\"forbidden\"}]}", "git push",
		  "deny", "session" },
		/* Words that may match, and unknown commands. */
		{ "{}", "{\"deny\":[\"Bash(git push:*)\"]}", "git $X", "ask", "session" },
		{ "{\"permissions\":{\"allow\":[\"Bash\"]}}", "{\"deny\":[\"Bash(git push:*)\"]}", "eval \"$X\"", "ask",
		  NULL },
		/* A file can restrict sessions to rules that tighten. */
		{ "{\"permissions\":{\"sessionAllow\":false}}", "{\"allow\":[\"Bash(make:*)\",\"Edit\"]}", "make",
		  "ask", NULL },
		{ "{\"permissions\":{\"sessionAllow\":false}}", "{\"allow\":[\"Bash\"],\"deny\":[\"Bash(make:*)\"]}",
		  "make", "deny", "session" },
		{ "{\"permissions\":{\"sessionAllow\":true}}", "{\"allow\":[\"Bash(make:*)\"]}", "make", "allow",
		  "session" },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		struct policy_rules s = RULES_INIT, session;
		struct policy_decision d;
		struct err e = ERR_INIT;

		load(&s, RULE_OF_USER, rows[i].files);
		ck_assert_msg(give(&session, rows[i].session, &e) == 0, "%s", e.message);
		decide_in(&s, &session, MODE_UNTRUSTED, rows[i].line, &d);
		const char *by = d.nrules ? rule_layer_name(d.rules[0]->layer) : NULL;
		if (strcmp(policy_answer_name(d.answer), rows[i].answer) != 0 || !by != !rows[i].by ||
		    (by && strcmp(by, rows[i].by) != 0))
			ck_abort_msg("%s with %s: '%s' is %s by %s (%s)", rows[i].files, rows[i].session, rows[i].line,
				     policy_answer_name(d.answer), by, d.reason);
		policy_rules_done(&s);
		policy_rules_done(&session);
	}
}
END_TEST

START_TEST(session_rules_are_cited_by_number)
{
	static const struct {
		const char *line, *list, *where;
		unsigned number;
	} rows[] = {
		{ "a", "deny", "session sess_1, deny rule 1", 1 },
		{ "b", "deny", "session sess_1, deny rule 2", 2 },
		{ "c", "ask", "session sess_1, ask rule 1", 1 },
		{ "e", "prefix", "session sess_1, prefix rule 2", 2 },
	};
	struct policy_rules session;
	struct err e = ERR_INIT;

	ck_assert_int_eq(
		give(&session,
		     "{\"deny\":[\"Bash(a)\",\"Bash(b)\"],\"ask\":[\"Bash(c)\"],\"prefixRules\":[{\"pattern\":[\"d\"]},"
		     "{\"pattern\":[\"e\"],\"decision\":\"prompt\"}]}",
		     &e),
		0);
	for (size_t i = 0; i < countof(rows); i++) {
		buf_auto struct buf out = BUF_INIT;
		char where_text[RULE_WHERE_MAX], wanted[100];
		struct policy_decision d;

		decide_in(NULL, &session, MODE_DEFAULT, rows[i].line, &d);
		ck_assert_uint_eq(d.nrules, 1);
		policy_rule_where(d.rules[0], where_text, sizeof where_text);
		ck_assert_str_eq(where_text, rows[i].where);
		policy_decision_json(&d, &out);
		snprintf(wanted, sizeof wanted, "{\"sessionId\":\"sess_1\",\"list\":\"%s\",\"number\":%u,\"rule\":\"",
			 rows[i].list, rows[i].number);
		ck_assert_msg(strstr(out.data, wanted) && strstr(out.data, "\"layer\":\"session\""), "%s", out.data);
	}
	policy_rules_done(&session);
}
END_TEST

START_TEST(invalid_session_rules_are_rejected_with_their_field)
{
	static const struct {
		const char *text, *field, *says;
	} rows[] = {
		{ "{\"deny\":[\"Bash(x)\",\"Bash(x\"]}", "permissions.deny[1]", "'Bash(x' is not a valid rule" },
		{ "{\"deny\":[3]}", "permissions.deny[0]", "must be a rule" },
		{ "{\"allow\":{}}", "permissions.allow", "must be an array" },
		{ "{\"ask\":[\"Read(../x)\"]}", "permissions.ask[0]", "contains '..'" },
		{ "{\"deny\":[\"Bash(a)\"],\"prefixRules\":[{\"pattern\":[\"b\"]},{\"pattern\":[]}]}",
		  "permissions.prefixRules[1].pattern", "must be an array of 1" },
		{ "{\"prefixRules\":[{\"pattern\":[\"a\"],\"match\":[\"b\"]}]}", "permissions.prefixRules[0].match",
		  "does not match" },
		{ "{\"prefixRules\":[7]}", "permissions.prefixRules[0]", "must be an array of objects" },
		{ "{\"prefixRules\":{}}", "permissions.prefixRules", "must be an array of objects" },
	};
	buf_auto struct buf many = BUF_INIT;
	struct policy_rules session;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < countof(rows); i++) {
		e = ERR_INIT;
		ck_assert_int_eq(give(&session, rows[i].text, &e), -1);
		if (strcmp(e.field, rows[i].field) != 0 || strncmp(e.message, e.field, strlen(e.field)) != 0 ||
		    !strstr(e.message, rows[i].says))
			ck_abort_msg("%s: %s: %s", rows[i].text, e.field, e.message);
		ck_assert_uint_eq(session.count, 0);
	}
	buf_str(&many, "{\"deny\":[");
	for (unsigned i = 0; i <= RULES_SESSION_MAX; i++)
		buf_printf(&many, "%s\"Bash(c%u)\"", i ? "," : "", i);
	buf_str(&many, "]}");
	ck_assert_int_eq(give(&session, many.data, &e), -1);
	ck_assert_msg(strstr(e.message, "permissions.deny[256]: there are more than 256 rules"), "%s", e.message);
}
END_TEST

int main(void)
{
	return SUITE("rule_layers", a_workspace_may_only_tighten, a_decision_cites_the_line_of_its_rule,
		     invalid_files_are_rejected_with_file_line_and_key, ignored_keys_are_noted,
		     session_rules_are_the_lowest_layer, session_rules_are_cited_by_number,
		     invalid_session_rules_are_rejected_with_their_field);
}

#include "tests/unit/policy/line_answer.h"

#include "policy/command_analysis.h"
#include "policy/decision.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <string.h>

static bool is_answered(const struct policy_rules *rules, const char *line, const char *answer, bool terminal)
{
	const struct analysis_options o = {
		.cwd = "/w/proj", .workspace = "/w/proj", .home = "/home/u", .terminal = terminal
	};
	command_facts_auto struct command_facts f = { 0 };
	struct policy_decision d;
	const struct policy_request q = { .cwd = o.cwd,
					  .workspace = o.workspace,
					  .home = o.home,
					  .mode = MODE_DEFAULT,
					  .facts = &f,
					  .rules = rules };

	command_analyse_line(line, strlen(line), &o, &f);
	policy_decide(&q, &d);
	if (strcmp(policy_answer_name(d.answer), answer) == 0)
		return true;
	fprintf(stderr, "%.200s: %s, not %s: %s\n", line, policy_answer_name(d.answer), answer, d.reason);
	return false;
}

bool line_is_answered(const struct policy_rules *rules, const char *line, const char *answer)
{
	return is_answered(rules, line, answer, false);
}

unsigned lines_answered_otherwise(const char *rule, const char *const *lines, size_t n, const char *answer,
				  bool terminal)
{
	mem_auto char *text = mem_printf("{\"permissions\":{\"deny\":[\"%s\"]}}", rule);
	struct policy_rules rules = RULES_INIT;
	struct err e = ERR_INIT;
	unsigned bad = 0;

	ck_assert_int_eq(policy_rules_parse(&rules, RULE_OF_USER, "p", text, strlen(text), &e), 0);
	for (size_t i = 0; i < n; i++)
		bad += !is_answered(&rules, lines[i], answer, terminal);
	policy_rules_done(&rules);
	return bad;
}

/* What rules as people write them answer to command lines as coding agents write them: corpus/agent_lines.list. */

#include "policy/decision.h"
#include "runtime/base/err.h"
#include "tests/unit/policy/line_answer.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <string.h>

static const char path[] = "tests/unit/policy/corpus/agent_lines.list";
static const char rules_text[] =
	"{\"permissions\":{\"deny\":[\"Read(.env)\",\"Read(secrets/**)\",\"Bash(rm:*)\",\"Bash("
	"curl:*)\"],\"ask\":[\"Bash(git push:*)\"]}}";

START_TEST(lines_of_agents_are_answered_as_listed)
{
	struct policy_rules rules = RULES_INIT;
	struct err e = ERR_INIT;
	unsigned count = 0, bad = 0;
	char row[1024];
	FILE *f = fopen(path, "re");

	ck_assert_msg(f != NULL, "%s: run this from the top of the tree", path);
	ck_assert_int_eq(policy_rules_parse(&rules, RULE_OF_USER, "p", rules_text, sizeof rules_text - 1, &e), 0);
	while (fgets(row, sizeof row, f)) {
		char *line = strchr(row, '\t');

		row[strcspn(row, "\n")] = '\0';
		if (*row == '#' || !*row)
			continue;
		ck_assert_msg(line != NULL, "no tab: %s", row);
		*line++ = '\0';
		bad += !line_is_answered(&rules, line, row);
		count++;
	}
	fclose(f);
	policy_rules_done(&rules);
	ck_assert_uint_gt(count, 400);
	ck_assert_uint_eq(bad, 0);
}
END_TEST

int main(void) { return SUITE("agent_lines", lines_of_agents_are_answered_as_listed); }

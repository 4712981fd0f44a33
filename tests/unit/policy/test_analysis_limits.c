/* What the analysis of a command line does not read counts as unknown. */

#include "policy/decision.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "tests/unit/policy/line_answer.h"
#include "tests/unit/suite.h"

#include <string.h>

/* The rest of a text that is too long, or has too many commands, may use any file. */
START_TEST(what_is_not_analysed_asks)
{
	static const char *const texts[] = { "{\"permissions\":{\"deny\":[\"Read(.env)\"]}}",
					     "{\"permissions\":{\"ask\":[\"Edit(/infra/**)\"]}}",
					     "{\"permissions\":{\"deny\":[\"WebFetch(domain:x.example)\"]}}" };
	buf_auto struct buf many = BUF_INIT, large = BUF_INIT;

	for (int i = 0; i < 2100; i++)
		buf_str(&many, "true;");
	buf_str(&many, "cat x");
	for (int i = 0; i < 110000; i++)
		buf_str(&large, ": aaaaaaaaaa\n");
	for (size_t i = 0; i < countof(texts); i++) {
		struct policy_rules rules = RULES_INIT;
		struct err e = ERR_INIT;

		ck_assert_int_eq(policy_rules_parse(&rules, RULE_OF_USER, "p", texts[i], strlen(texts[i]), &e), 0);
		ck_assert(line_is_answered(&rules, buf_cstr(&many), "ask"));
		ck_assert(line_is_answered(&rules, buf_cstr(&large), "ask"));
		ck_assert(line_is_answered(&rules, "cat <<\"$x\"\ncat x\n$x\n", "ask"));
		ck_assert(line_is_answered(&rules, "cat x", "allow"));
		policy_rules_done(&rules);
	}
}
END_TEST

/* The text has the value: that it is not followed that far must not allow it. */
START_TEST(a_path_among_too_many_values_asks)
{
	static const char text[] = "{\"permissions\":{\"deny\":[\"Read(.env)\"]}}";
	struct policy_rules rules = RULES_INIT;
	struct err e = ERR_INIT;

	ck_assert_int_eq(policy_rules_parse(&rules, RULE_OF_USER, "p", text, sizeof text - 1, &e), 0);
	for (int same = 0; same < 2; same++) {
		buf_auto struct buf line = BUF_INIT;

		for (int i = 0; i < 300; i++)
			buf_printf(&line, "v%d=a; ", same ? 0 : i);
		for (int i = 0; same && i < 100; i++)
			buf_printf(&line, "v0=a%d; ", i);
		buf_printf(&line, "%s=.e; cat \"$%snv\"", same ? "v0" : "last", same ? "v0" : "last");
		ck_assert(line_is_answered(&rules, buf_cstr(&line), "ask"));
	}
	policy_rules_done(&rules);
}
END_TEST

int main(void) { return SUITE("analysis_limits", what_is_not_analysed_asks, a_path_among_too_many_values_asks); }

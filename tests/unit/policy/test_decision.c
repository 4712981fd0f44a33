#include "policy/decision.h"

#include "runtime/base/buf.h"

#include "tests/unit/suite.h"

START_TEST(the_default_mode_allows_with_a_reason)
{
	static const char *const argv[] = { "true" };
	struct policy_request q = { .uid = 7, .argv = argv, .argc = 1, .cwd = "/", .profile = "plain" };
	buf_auto struct buf out = BUF_INIT;
	struct policy_decision d;

	policy_decide(&q, &d);
	policy_decision_json(&d, &out);
	ck_assert_str_eq(buf_cstr(&out),
			 "{\"decision\":\"allow\",\"decisionSource\":\"mode\","
			 "\"decisionReason\":\"no rule applies; mode default allows commands in profile plain\","
			 "\"ruleRefs\":[],\"scope\":\"once\",\"destructive\":false}");
}
END_TEST

START_TEST(the_same_request_gives_the_same_decision)
{
	struct policy_request q = { .mode = MODE_DEFAULT };
	buf_auto struct buf one = BUF_INIT, two = BUF_INIT;
	struct policy_decision d;

	policy_decide(&q, &d);
	policy_decision_json(&d, &one);
	memset(&d, 0xff, sizeof(d));
	policy_decide(&q, &d);
	policy_decision_json(&d, &two);
	ck_assert_str_eq(buf_cstr(&one), buf_cstr(&two));
}
END_TEST

int main(void)
{
	return SUITE("decision", the_default_mode_allows_with_a_reason, the_same_request_gives_the_same_decision);
}

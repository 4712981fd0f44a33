#include "policy/denied_reads.h"
#include "tests/unit/policy/rules_rig.h"

static void check_rules(const char *deny, const char *wanted)
{
	const struct rule_base_paths bases = { .cwd = "/w/proj/sub", .workspace = "/w/proj", .home = "/home/u" };
	mem_auto char *text = mem_printf("{\"permissions\":{\"deny\":[%s],\"ask\":[\"Read(/asked)\"],\"allow\":[\"Read("
					 "/allowed)\"]}}",
					 deny);
	struct policy_rules rules = RULES_INIT;
	buf_auto struct buf found = BUF_INIT;

	load(&rules, RULE_OF_USER, text);
	ck_assert(policy_denied_reads(&rules, &bases, &found));
	for (size_t i = 0; i < found.len; i++)
		found.data[i] = found.data[i] ? found.data[i] : ' ';
	ck_assert_str_eq(buf_cstr(&found), wanted);
	policy_rules_done(&rules);
}

START_TEST(paths_without_wildcards_in_the_workspace_are_found)
{
	check_rules("\"Read(/secrets/**)\"", "/w/proj/secrets ");
	check_rules("\"Read(/secrets/*)\",\"Read(/secrets/)\",\"Read(/secrets)\"", "/w/proj/secrets ");
	check_rules("\"Read(./a/b)\",\"Read(c/d/**)\"", "/w/proj/sub/a/b /w/proj/sub/c/d ");
	check_rules("\"Read(.env)\"", "/w/proj/.env /w/proj/sub/.env ");
	check_rules("\"Read(**/.env)\"", "/w/proj/sub/.env /w/proj/.env ");
	check_rules("\"Read(//w/proj/y)\"", "/w/proj/y ");
	check_rules("\"Read(/etc/passwd)\"", "/w/proj/etc/passwd ");
}
END_TEST

START_TEST(other_rules_hide_nothing)
{
	check_rules("\"Read(*.pem)\",\"Read(/a*/b)\",\"Read(/a/**/b)\",\"Read(/a/[bc])\",\"Read(/a?)\"", "");
	check_rules("\"Read(//etc/passwd)\",\"Read(~/.ssh/**)\",\"Read(//w/other/x)\"", "");
	check_rules("\"Read\",\"Read(/**)\",\"Read(//w/proj)\",\"Read(//w/**)\",\"Read(**)\",\"Edit(/x)\",\"Bash(x)\"",
		    "");
}
END_TEST

/* The paths that are found among n rules. */
static size_t find_many(unsigned n, bool *ret_all)
{
	const struct rule_base_paths bases = { .cwd = "/w/proj", .workspace = "/w/proj" };
	struct policy_rules rules = RULES_INIT;
	buf_auto struct buf text = BUF_INIT, found = BUF_INIT;
	size_t paths = 0;

	buf_str(&text, "{\"permissions\":{\"deny\":[\"Read(*.pem)\"");
	for (unsigned i = 0; i < n; i++)
		buf_printf(&text, ",\"Read(/x%u)\",\"Read(/x%u/**)\"", i, i);
	buf_str(&text, "]}}");
	load(&rules, RULE_OF_USER, buf_cstr(&text));
	*ret_all = policy_denied_reads(&rules, &bases, &found);
	for (size_t i = 0; i < found.len; i++)
		paths += !found.data[i];
	policy_rules_done(&rules);
	return paths;
}

START_TEST(their_number_is_limited)
{
	const struct rule_base_paths bases = { .cwd = "/w/proj", .workspace = "/w/proj" };
	buf_auto struct buf found = BUF_INIT;
	bool all;

	ck_assert_uint_eq(find_many(DENIED_READS_MAX, &all), DENIED_READS_MAX);
	ck_assert(all);
	ck_assert_uint_eq(find_many(DENIED_READS_MAX + 1, &all), DENIED_READS_MAX);
	ck_assert(!all);
	ck_assert(policy_denied_reads(NULL, &bases, &found));
	ck_assert_uint_eq(found.len, 0);
}
END_TEST

int main(void)
{
	return SUITE("denied_reads", paths_without_wildcards_in_the_workspace_are_found, other_rules_hide_nothing,
		     their_number_is_limited);
}

#include "tests/unit/policy/rules_rig.h"

/* The published behaviour of prefix rules: words are compared whole, from the first on, the strictest rule wins. */
static const char prefix_rules[] =
	"{\"prefixRules\":["
	"{\"pattern\":[\"git\",\"status\"],\"decision\":\"allow\",\"match\":[\"git "
	"status\",[\"git\",\"status\",\"-s\"]],\"notMatch\":[\"git stash\"]},"
	"{\"pattern\":[\"git\",[\"push\",\"fetch\"]],\"decision\":\"prompt\",\"justification\":\"talks to the "
	"server\"},"
	"{\"pattern\":[\"git\",\"push\",[\"--force\",\"-f\"]],\"decision\":\"forbidden\",\"justification\":\"rewrites "
	"history\"},"
	"{\"pattern\":[[\"npm\",\"pnpm\"],\"run\",\"test\"]},"
	"{\"pattern\":[\"cargo\"],\"decision\":\"allow\"},"
	"{\"pattern\":[\"cargo\",\"publish\"],\"decision\":\"prompt\"},"
	"{\"pattern\":[\"cargo\",\"publish\",\"--no-verify\"],\"decision\":\"forbidden\"},"
	"{\"pattern\":[\"docker\",[\"run\",\"exec\"],\"--privileged\"],\"decision\":\"forbidden\"},"
	"{\"pattern\":[\"docker\"],\"decision\":\"prompt\"},"
	"{\"pattern\":[\"rm\"],\"decision\":\"forbidden\"},"
	"{\"pattern\":[\"touch\"],\"decision\":\"allow\"}"
	"]}";

static const struct {
	const char *line, *answer;
} prefix_cases[] = {
	{ "git status", "allow" },
	{ "git status -s", "allow" },
	{ "git status --short --branch", "allow" },
	{ "git stash", "ask" },
	{ "git", "ask" },
	{ "git statusx", "ask" },
	{ "gits status", "ask" },
	{ "git -C x commit x", "ask" },
	{ "git push", "ask" },
	{ "git push origin", "ask" },
	{ "git push origin main", "ask" },
	{ "git fetch", "ask" },
	{ "git fetch --all", "ask" },
	{ "git push --force", "deny" },
	{ "git push -f", "deny" },
	{ "git push --force origin main", "deny" },
	{ "git push -f origin", "deny" },
	{ "git push origin --force", "ask" },
	{ "git fetch --force", "ask" },
	{ "git push --forceful", "ask" },
	{ "npm run test", "allow" },
	{ "npm run test -- -u", "allow" },
	{ "pnpm run test", "allow" },
	{ "pnpm run test a b c", "allow" },
	{ "npm run tests", "ask" },
	{ "npm run", "ask" },
	{ "npm test", "ask" },
	{ "yarn run test", "ask" },
	{ "npm run build", "ask" },
	{ "cargo build", "allow" },
	{ "cargo", "allow" },
	{ "cargo test --all", "allow" },
	{ "cargo publish", "ask" },
	{ "cargo publish --dry-run", "ask" },
	{ "cargo publish --no-verify", "deny" },
	{ "cargo publish --no-verify --token x", "deny" },
	{ "cargo publish --dry-run --no-verify", "ask" },
	{ "cargo-fuzz run", "ask" },
	{ "docker ps", "ask" },
	{ "docker run x", "ask" },
	{ "docker run --privileged x", "deny" },
	{ "docker exec --privileged x sh", "deny" },
	{ "docker start --privileged", "ask" },
	{ "docker run x --privileged", "ask" },
	{ "rm x", "deny" },
	{ "rm -rf /", "deny" },
	{ "rm", "deny" },
	{ "rmdir x", "ask" },
	{ "touch x", "allow" },
	{ "touch", "allow" },
	{ "touch a b c", "allow" },
	{ "touchx", "ask" },
	{ "touch a; touch b", "allow" },
	{ "touch a && git status", "allow" },
	{ "touch a && git push", "ask" },
	{ "touch a && rm b", "deny" },
	{ "touch a || rm b", "deny" },
	{ "touch a | rm b", "deny" },
	{ "git push; rm x", "deny" },
	{ "rm x; git push", "deny" },
	{ "touch a; unknown", "ask" },
	{ "unknown; touch a", "ask" },
	{ "(touch a)", "allow" },
	{ "(rm a)", "deny" },
	{ "{ touch a; }", "allow" },
	{ "if true; then rm a; fi", "deny" },
	{ "for i in 1 2; do rm $i; done", "deny" },
	{ "while true; do touch a; done", "ask" },
	{ "touch $(rm a)", "deny" },
	{ "touch `rm a`", "deny" },
	{ "touch <(rm a)", "deny" },
	{ "bash -c 'rm a'", "deny" },
	{ "bash -lc 'touch a'", "allow" },
	{ "bash -lc 'touch a && git push --force'", "deny" },
	{ "sh -c 'git status'", "allow" },
	{ "sh -c 'sh -c \"rm a\"'", "deny" },
	{ "env A=1 touch a", "allow" },
	{ "env A=1 rm a", "deny" },
	{ "nohup rm a", "deny" },
	{ "nohup touch a", "allow" },
	{ "timeout 5 cargo build", "allow" },
	{ "timeout 5 cargo publish --no-verify", "deny" },
	{ "sudo rm a", "deny" },
	{ "sudo touch a", "ask" },
	{ "xargs rm", "deny" },
	{ "xargs touch", "allow" },
	{ "find . -exec rm {} +", "deny" },
	{ "time touch a", "allow" },
	{ "time rm a", "deny" },
	{ "command rm a", "deny" },
	{ "command touch a", "allow" },
	{ "exec touch a", "allow" },
	{ "/bin/rm a", "deny" },
	{ "/usr/bin/git push -f", "deny" },
	{ "/bin/touch a", "ask" },
	{ "./touch a", "ask" },
	{ "\"touch\" a", "allow" },
	{ "t\"ou\"ch a", "allow" },
	{ "'touch' a", "allow" },
	{ "'touch a'", "ask" },
	{ "\\touch a", "allow" },
	{ "r''m a", "deny" },
	{ "$'\\x72m' a", "deny" },
	{ "r\\\nm a", "deny" },
	{ "git \"push\" '--force'", "deny" },
	{ "git push${IFS}--force", "ask" },
	{ "eval 'rm a'", "deny" },
	{ "eval \"$X\"", "ask" },
	{ "$X a", "ask" },
	{ "git $X", "ask" },
	{ "git push $X", "ask" },
	{ "cargo $X", "ask" },
	{ "touch $X", "allow" },
	{ "touch *", "allow" },
	{ "touch a # rm b", "allow" },
	{ "touch 'a; rm b'", "allow" },
	{ "touch \"$(rm b)\"", "deny" },
	{ "touch '$(rm b)'", "allow" },
	{ "touch a >b", "ask" },
	{ "touch a 2>&1", "allow" },
	{ "A=1 touch a", "allow" },
	{ "A=$(rm b) touch a", "deny" },
	{ "A=1", "allow" },
	{ "touch a && (git status; rm b)", "deny" },
	{ "! touch a", "allow" },
	{ "! rm a", "deny" },
	{ "touch a &", "allow" },
};

START_TEST(prefix_rules_decide_as_published)
{
	struct policy_rules s = RULES_INIT;
	struct policy_decision d;

	ck_assert_uint_ge(countof(prefix_cases), 100);
	load(&s, RULE_OF_USER, prefix_rules);
	for (size_t i = 0; i < countof(prefix_cases); i++) {
		decide(&s, MODE_UNTRUSTED, prefix_cases[i].line, &d);
		if (strcmp(policy_answer_name(d.answer), prefix_cases[i].answer) != 0)
			ck_abort_msg("'%s' is %s, not %s (%s)", prefix_cases[i].line, policy_answer_name(d.answer),
				     prefix_cases[i].answer, d.reason);
	}
	decide(&s, MODE_DEFAULT, "git push -f", &d);
	ck_assert_ptr_nonnull(strstr(d.reason, "rewrites history"));
	policy_rules_done(&s);
}
END_TEST

int main(void) { return SUITE("prefix_rules", prefix_rules_decide_as_published); }

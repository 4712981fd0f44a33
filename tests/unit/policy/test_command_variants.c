/* Other spellings of a rule's command: which are denied, which ask, and which are different commands. */

#include "policy/command_analysis.h"
#include "policy/decision.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char rules_text[] =
	"{\"permissions\":{\"deny\":[\"Bash(git push:*)\",\"Bash(rm -rf:*)\",\"Bash(shutdown:*)\",\"Bash(docker run "
	"--privileged *)\",\"Bash(curl -X POST:*)\","
	"\"Bash(chmod -R 777:*)\",\"Bash(git commit --amend:*)\",\"Bash(npm publish)\",\"Bash(npm run "
	"deploy:*)\",\"Bash(gh pr merge:*)\",\"Bash(docker compose down:*)\",\"Bash(pnpm publish:*)\",\"Bash(cargo "
	"publish:*)\",\"Bash(terraform apply "
	"-auto-approve:*)\",\"Bash(kubectl delete:*)\"]}}";

static const struct {
	const char *line, *answer;
} rows[] = {
	/* options before the subcommand */
	{ "git push", "deny" },
	{ "git -C . push", "deny" },
	{ "git -C a -C b push origin", "deny" },
	{ "git --no-pager push", "deny" },
	{ "git -p push", "deny" },
	{ "git --git-dir=x --work-tree y push", "deny" },
	{ "git --namespace x push", "deny" },
	{ "/usr/bin/git -C . push", "deny" },
	{ "sudo git -C . push", "deny" },
	{ "git --an-option-of-tomorrow x push", "ask" },
	{ "git -C push status", "allow" },
	{ "git -C . status", "allow" },
	{ "git log push", "allow" },
	{ "git stash push", "allow" },
	{ "git --no-pager log -n 3", "allow" },
	{ "npm publish", "deny" },
	{ "npm --silent publish", "deny" },
	{ "npm publish --dry-run", "allow" },
	{ "kubectl -n x delete pod y", "deny" },
	{ "kubectl --context y delete pod z", "deny" },
	{ "kubectl get delete", "allow" },
	/* options between the words of the rule; an unknown one may have a value */
	{ "npm run deploy", "deny" },
	{ "npm run -s deploy now", "deny" },
	{ "npm -s run --prefix x deploy", "deny" },
	{ "sudo npm run -s deploy", "deny" },
	{ "npm run --an-option-of-tomorrow x deploy", "ask" },
	{ "npm run --an-option-of-tomorrow=x build deploy", "allow" },
	{ "npm run build deploy", "allow" },
	{ "npm run -s build", "allow" },
	{ "npm run -s \"$x\"", "ask" },
	{ "npm run -s $x", "ask" },
	{ "npm run build $x", "allow" },
	{ "gh pr merge", "deny" },
	{ "gh pr -R a/b merge 1", "deny" },
	{ "gh pr -R a/b view merge", "allow" },
	{ "docker compose -f x.yml down -v", "ask" },
	{ "docker compose -f \"$x\" down", "ask" },
	{ "docker compose -f \"$x\" up -d", "ask" },
	{ "docker compose -f x.yml up -d", "allow" },
	{ "docker compose -f x.yml up down", "allow" },
	/* which options have values depends on the program */
	{ "npm -p publish", "deny" },
	{ "pnpm -r publish", "deny" },
	{ "pnpm -w publish", "deny" },
	{ "pnpm --filter x publish", "deny" },
	{ "cargo +nightly publish", "deny" },
	{ "cargo +nightly --locked publish", "deny" },
	{ "cargo +nightly build", "allow" },
	/* a value that is split may contain the subcommand */
	{ "git -C $x origin main", "ask" },
	{ "git -C * origin main", "ask" },
	{ "git -C $x push", "deny" },
	{ "git -C \"$x\" origin main", "allow" },
	{ "git --git-dir $x origin", "ask" },
	{ "sort -k $x y", "allow" },
	/* options in another order, cluster or length */
	{ "rm -rf x", "deny" },
	{ "rm -fr x", "deny" },
	{ "rm -r -f x", "deny" },
	{ "rm x -rf", "deny" },
	{ "rm -vrf x", "deny" },
	{ "rm -R --force x", "deny" },
	{ "rm --recursive --force x", "deny" },
	{ "rm --rec --f x", "deny" },
	{ "/bin/rm -f -r x", "deny" },
	{ "rm -r x", "allow" },
	{ "rm -f x", "allow" },
	{ "rm -- -rf", "allow" },
	/* words that may be options */
	{ "rm -f $x", "ask" },
	{ "rm -f \"$x\"", "ask" },
	{ "rm -f -- \"$x\"", "allow" },
	{ "rm -f x$x", "ask" },
	{ "rm -f \"x$x\"", "allow" },
	{ "rm -f *", "ask" },
	{ "rm -f *.o ./*", "allow" },
	{ "x=-r; rm -f $x y", "ask" },
	{ "x='a -r'; rm -f $x", "ask" },
	{ "x='a b'; rm -f $x", "allow" },
	{ "tmp=$(mktemp); rm -f \"$tmp\"; rm $tmp", "allow" },
	{ "for f in *.o; do rm -f $f; done", "allow" },
	{ "for f in *; do rm -f $f; done", "ask" },
	{ "rm $x -rf", "deny" },
	{ "docker run \"$(git rev-parse --short HEAD)\" x", "allow" },
	{ "docker run \"$(git rev-parse --flags -r)\" x", "ask" },
	{ "rm -f $((n)) $! $(date +%s)", "allow" },
	{ "curl $x h", "ask" },
	{ "docker run -it --privileged x", "deny" },
	{ "docker -D run --privileged x", "deny" },
	{ "docker run -it x", "allow" },
	{ "curl -XPOST h", "deny" },
	{ "curl -s --request=POST h", "deny" },
	{ "curl -X GET h", "allow" },
	{ "chmod 777 -R x", "deny" },
	{ "chmod --recursive 777 x", "deny" },
	{ "chmod -R 755 x", "allow" },
	{ "git commit -m x --amend", "deny" },
	{ "git commit -m \"$(cat message)\"", "allow" },
	{ "git commit -m --amendment", "allow" },
	{ "git commit -qm \"$x\" -m \"$y\"", "allow" },
	{ "git commit $x", "ask" },
	/* options and variables that run something, and similar ones that do not */
	{ "rsync -az -e ssh a h:b", "allow" },
	{ "rsync --rsh='ssh -q -p 22' a h:b", "allow" },
	{ "rsync -e ./ssh a h:b", "ask" },
	{ "rsync -e 'ssh -o ProxyCommand=x' a h:b", "ask" },
	{ "rsync -e 'ssh -F x' a h:b", "ask" },
	{ "rsync -e 'ssh -p22 -p $(x)' a h:b", "ask" },
	{ "rsync -e \"$x\" a h:b", "ask" },
	{ "rsync --rsh=$x a h:b", "ask" },
	{ "rsync -ess ssh a h:b", "ask" },
	{ "rsync --rsync-path=x a h:b", "ask" },
	{ "npm_config_script_shell=./x npm test", "ask" },
	{ "Npm_Config_Script_Shell=./x npm test", "ask" },
	{ "NPM_CONFIG_LOGLEVEL=silent npm test", "allow" },
	{ "Yarn_Yarn_Path=./x yarn", "ask" },
	{ "declare -A m; m[a]=1; echo \"${m[a]}\"", "allow" },
	{ "m[$(rm -rf x)]=1", "deny" },
	{ "r[m]", "ask" },
	{ "terraform -chdir=x apply -var a -auto-approve", "deny" },
	{ "terraform apply", "allow" },
	/* the words of a command, given to a program */
	{ "mytool shutdown now", "ask" },
	{ "mytool --user x -- /sbin/shutdown now", "ask" },
	{ "mytool -c 'shutdown now'", "ask" },
	{ "mytool --run='shutdown now'", "ask" },
	{ "./deploy.sh git push", "ask" },
	{ "fakeroot -s f shutdown", "deny" },
	{ "fakeroot --an-option-of-tomorrow f shutdown", "ask" },
	{ "npx -c 'git push'", "ask" },
	{ "npm exec -- git push", "ask" },
	{ "bwrap --ro-bind / / shutdown", "ask" },
	{ "hyperfine ls 'shutdown now'", "ask" },
	{ "cmake -E env A=1 shutdown now", "ask" },
	{ "rustup run stable git push", "ask" },
	{ "ip netns exec n shutdown", "ask" },
	{ "vagrant ssh -c 'git push'", "ask" },
	{ "cmake --build b", "allow" },
	{ "ip addr show", "allow" },
	/* behind options of a wrapper, of which some have no value */
	{ "numactl -l shutdown now", "deny" },
	{ "perf stat -c shutdown now", "deny" },
	{ "perf stat -j -e cycles shutdown now", "deny" },
	{ "uv run -n shutdown now", "deny" },
	{ "uv --project x run shutdown now", "deny" },
	{ "poetry -n run shutdown now", "deny" },
	{ "poetry --an-option-of-tomorrow x run shutdown now", "ask" },
	{ "conda run -n env shutdown now", "deny" },
	{ "git -C x bisect run shutdown now", "deny" },
	{ "parallel --group shutdown ::: now", "deny" },
	{ "parallel --compress shutdown ::: now", "deny" },
	{ "parallel --semaphore shutdown now", "deny" },
	{ "parallel --regexp shutdown ::: now", "deny" },
	{ "timeout --kill 9 5 shutdown now", "deny" },
	{ "timeout --kill shutdown now", "ask" },
	/* under another name, and elsewhere */
	{ "/usr/lib/git-core/git-push origin", "deny" },
	{ "git-push", "deny" },
	{ "git-status", "allow" },
	{ "ssh host git push", "deny" },
	{ "ssh -p 22 host -t 'cd x && git push origin main'", "deny" },
	{ "ssh host sudo shutdown now", "deny" },
	{ "ssh host git $X", "ask" },
	{ "ssh host 'uptime'", "allow" },
	{ "docker exec c git push", "ask" },
	{ "docker exec c sh -c 'git push'", "ask" },
	{ "kubectl exec pod -- git push", "ask" },
	{ "docker exec c git status", "allow" },
	/* by the options of a shell, or its builtins */
	{ "sh -oc errexit 'git push'", "deny" },
	{ "bash -Oc extglob 'git push'", "deny" },
	{ "bash -coo pipefail posix 'git push'", "deny" },
	{ "bash -rcfile x -c 'git push'", "deny" },
	{ "sh +c 'git push'", "deny" },
	{ "jobs -x git push", "deny" },
	{ "history -s git push; fc -s", "ask" },
	{ "compgen -W '$(git push)'", "ask" },
	{ "set -k; ls", "ask" },
	{ "set -euo pipefail; ls", "allow" },
	{ "bash -euo pipefail -c ls", "allow" },
	/* behind the end of a here-document */
	{ "cat <<E\n\\\nE\ngit push", "deny" },
	{ "cat <<E\na\nE\ngit push", "deny" },
	{ "cat <<'E'\ngit push\nE", "allow" },
	{ "cat <<$'E'\nE\ngit push", "ask" },
	{ "cat <<'E\nF'\nE\nF\ngit push", "ask" },
	{ "cat <<-'\tE'\nE\ngit push", "ask" },
	{ "x=$(if a <<E\nE\nthen git; push; fi)", "ask" },
	{ "git commit -m \"$(cat <<'EOF'\nsubject\n\nbody (with) $things\nEOF\n)\"", "allow" },
	{ "echo shutdown now", "allow" },
	{ "grep -rn shutdown src", "allow" },
	{ "grep 'git push' docs/x.md", "allow" },
	{ "make shutdown", "allow" },
	{ "npm run shutdown", "allow" },
	{ "systemctl status shutdown", "allow" },
	{ "mytool shutdowns", "allow" },
	{ "git commit -m 'git push later'", "allow" },
};

static void decide(const struct policy_rules *rules, const char *line, int mode, struct policy_decision *ret)
{
	const struct analysis_options o = { .cwd = "/w/proj", .workspace = "/w/proj", .home = "/home/u" };
	command_facts_auto struct command_facts f = { 0 };
	const struct policy_request q = { .cwd = o.cwd,
					  .workspace = o.workspace,
					  .home = o.home,
					  .mode = mode,
					  .facts = &f,
					  .rules = rules,
					  .profile = "workspace" };

	command_analyse_line(line, strlen(line), &o, &f);
	policy_decide(&q, ret);
}

START_TEST(deny_and_ask_rules_match_other_spellings)
{
	struct policy_rules rules = RULES_INIT;
	struct policy_decision d;
	struct err e = ERR_INIT;
	unsigned bad = 0;

	ck_assert_int_eq(policy_rules_parse(&rules, RULE_OF_USER, "p", rules_text, sizeof rules_text - 1, &e), 0);
	for (size_t i = 0; i < countof(rows); i++) {
		decide(&rules, rows[i].line, MODE_DEFAULT, &d);
		if (strcmp(policy_answer_name(d.answer), rows[i].answer) != 0) {
			fprintf(stderr, "%s: %s, not %s: %s\n", rows[i].line, policy_answer_name(d.answer),
				rows[i].answer, d.reason);
			bad++;
		}
	}
	decide(&rules, "mytool shutdown now", MODE_DEFAULT, &d);
	ck_assert_str_eq(d.reason, "'mytool shutdown now' has words that the rule 'Bash(shutdown:*)' is about, and it "
				   "is not known what the program does with them");
	ck_assert_uint_eq(d.nrules, 1);
	policy_rules_done(&rules);
	ck_assert_uint_eq(bad, 0);
}
END_TEST

START_TEST(hosts_are_found_in_any_argument)
{
	static const char text[] =
		"{\"permissions\":{\"deny\":[\"WebFetch(domain:evil.example)\",\"WebFetch(domain:*.internal)\"]}}";
	static const struct {
		const char *line, *answer;
	} lines[] = {
		{ "curl https://evil.example/x", "deny" },
		{ "curl https://EVIL.example./x", "deny" },
		{ "curl https://a.internal.", "deny" },
		{ "curl https://notevil.example", "allow" },
		{ "curl -x http://u:p@evil.example:80 good.example", "ask" },
		{ "mytool https://evil.example/x", "ask" },
		{ "mytool --url=https://a.internal", "ask" },
		{ "git remote add o https://evil.example/x", "ask" },
		{ "mytool https://good.example/?u=evil.example", "allow" },
		{ "echo https://evil.example", "allow" },
		{ "grep -rn https://evil.example src", "allow" },
		{ "git commit -m 'see https://evil.example'", "allow" },
	};
	struct policy_rules rules = RULES_INIT;
	struct policy_decision d;
	struct err e = ERR_INIT;

	ck_assert_int_eq(policy_rules_parse(&rules, RULE_OF_USER, "p", text, sizeof text - 1, &e), 0);
	for (size_t i = 0; i < countof(lines); i++) {
		decide(&rules, lines[i].line, MODE_DEFAULT, &d);
		ck_assert_msg(strcmp(policy_answer_name(d.answer), lines[i].answer) == 0, "%s: %s", lines[i].line,
			      d.reason);
	}
	policy_rules_done(&rules);
}
END_TEST

/* A rule with a wildcard in the middle is not compared again from every word of a long command. */
START_TEST(comparing_many_words_is_bounded)
{
	static const char text[] = "{\"permissions\":{\"deny\":[\"Bash(foo * bar)\"]}}";
	struct policy_rules rules = RULES_INIT;
	buf_auto struct buf line = BUF_INIT;
	struct policy_decision d;
	struct timespec a, b;
	struct err e = ERR_INIT;

	ck_assert_int_eq(policy_rules_parse(&rules, RULE_OF_USER, "p", text, sizeof text - 1, &e), 0);
	buf_str(&line, "mytool");
	for (int i = 0; i < 200000; i++)
		buf_str(&line, " foo");
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	decide(&rules, buf_cstr(&line), MODE_DEFAULT, &d);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	ck_assert_int_lt(b.tv_sec - a.tv_sec, 20);
	policy_rules_done(&rules);
}
END_TEST

/*
 * Comparison limits are no way past a rule: neither padding before the matching part nor many rules about the same
 * program.
 */
START_TEST(a_command_beyond_the_comparison_limit_asks)
{
	static const char one[] = "{\"permissions\":{\"deny\":[\"Bash(foo * now)\",\"Bash(git a b:*)\"]}}";
	struct policy_rules rules = RULES_INIT;
	buf_auto struct buf line = BUF_INIT, text = BUF_INIT, operands = BUF_INIT;
	struct policy_decision d;
	struct err e = ERR_INIT;

	ck_assert_int_eq(policy_rules_parse(&rules, RULE_OF_USER, "p", one, sizeof one - 1, &e), 0);
	buf_str(&line, "mytool");
	for (int i = 0; i < 100; i++)
		buf_str(&line, " foo x");
	decide(&rules, buf_cstr(&line), MODE_DEFAULT, &d);
	ck_assert_str_eq(policy_answer_name(d.answer), "ask");
	buf_str(&operands, "git");
	for (int i = 0; i < 300; i++)
		buf_str(&operands, " -x a");
	buf_str(&operands, " bb");
	decide(&rules, buf_cstr(&operands), MODE_DEFAULT, &d);
	ck_assert_str_eq(policy_answer_name(d.answer), "ask");
	policy_rules_done(&rules);

	buf_str(&text, "{\"permissions\":{\"deny\":[");
	for (int i = 0; i < 100; i++)
		buf_printf(&text, "\"Bash(foo * x%d)\",", i);
	buf_str(&text, "\"Bash(foo * now)\"]}}");
	ck_assert_int_eq(policy_rules_parse(&rules, RULE_OF_USER, "p", text.data, text.len, &e), 0);
	decide(&rules, "mytool foo it now", MODE_DEFAULT, &d);
	ck_assert_str_eq(policy_answer_name(d.answer), "ask");
	policy_rules_done(&rules);
}
END_TEST

/* Unlike deny and ask rules. */
START_TEST(allow_rules_match_only_as_written)
{
	static const char text[] = "{\"permissions\":{\"allow\":[\"Bash(git status)\",\"Bash(tar "
				   "-x:*)\",\"Bash(ls:*)\",\"Bash(ssh h:*)\"]}}";
	static const char *const lines[] = { "git -C / status", "tar f -x", "tar --to-command=y -x f", "mytool ls",
					     "tar -I y -x f" };
	struct policy_rules rules = RULES_INIT;
	struct policy_decision d;
	struct err e = ERR_INIT;

	ck_assert_int_eq(policy_rules_parse(&rules, RULE_OF_USER, "p", text, sizeof text - 1, &e), 0);
	for (size_t i = 0; i < countof(lines); i++) {
		decide(&rules, lines[i], MODE_UNTRUSTED, &d);
		ck_assert_msg(d.answer == POLICY_ASK || d.source == POLICY_BY_CLASSIFIER, "%s: %s", lines[i], d.reason);
	}
	/* A rule that allows ssh allows its arguments, whatever the remote host does with them. */
	decide(&rules, "ssh h 'make | $X; (('", MODE_UNTRUSTED, &d);
	ck_assert_msg(d.answer == POLICY_ALLOW, "%s", d.reason);
	policy_rules_done(&rules);
}
END_TEST

int main(void)
{
	return SUITE("command_variants", deny_and_ask_rules_match_other_spellings, hosts_are_found_in_any_argument,
		     comparing_many_words_is_bounded, a_command_beyond_the_comparison_limit_asks,
		     allow_rules_match_only_as_written);
}

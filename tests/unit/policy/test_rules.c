#include "tests/unit/policy/rules_rig.h"

struct row {
	const char *rule; /* "deny Bash(rm *)" */
	const char *line;
	const char *answer; /* of mode untrusted, where everything that no rule allows asks */
};

static const struct row matching[] = {
	{ "allow Bash(npm test)", "npm test", "allow" },
	{ "allow Bash(npm test)", "npm test --watch", "ask" },
	{ "allow Bash(npm test)", "npm tests", "ask" },
	{ "allow Bash(npm run test:*)", "npm run test", "allow" },
	{ "allow Bash(npm run test:*)", "npm run test --watch", "allow" },
	{ "allow Bash(npm run test:*)", "npm run testing", "ask" },
	{ "allow Bash(npm run test:*)", "npm run test && npm run build", "ask" },
	{ "allow Bash(npm run test *)", "npm run test -- a b", "allow" },
	{ "allow Bash(npm run test *)", "npm run test", "allow" },
	{ "allow Bash(ls *)", "ls -la", "allow" },
	{ "allow Bash(make *)", "makefoo", "ask" },
	{ "allow Bash(make*)", "makefoo", "allow" },
	{ "allow Bash(make*)", "make all", "allow" },
	{ "allow Bash(git * main)", "git push origin main", "allow" },
	{ "allow Bash(git * main)", "git push origin dev", "ask" },
	{ "allow Bash(git * main)", "git push main-x", "ask" },
	{ "allow Bash(* --version)", "node --version", "allow" },
	{ "allow Bash(* --version)", "node --version x", "ask" },
	{ "allow Bash(*)", "make; touch x", "allow" },
	{ "allow Bash", "touch a b c", "allow" },
	{ "allow Bash(touch:*)", "touch a && touch b; touch c | touch d", "allow" },
	{ "allow Bash(touch:*)", "touch a && rm b", "ask" },
	{ "allow Bash(touch:*)", "touch $(rm b)", "ask" },
	{ "allow Bash(touch:*)", "touch a\nrm b", "ask" },
	{ "allow Bash(touch:*)", "touch a & rm b", "ask" },
	{ "allow Bash(touch:*)", "timeout 5 touch a", "allow" },
	{ "allow Bash(touch:*)", "timeout -k 1 --foreground 5 touch a", "allow" },
	{ "allow Bash(touch:*)", "nice -5 touch a", "allow" },
	{ "allow Bash(touch:*)", "xargs -0 -n1 touch", "allow" },
	{ "allow Bash(touch:*)", "strace -f -e trace=file touch a", "allow" },
	{ "allow Bash(touch:*)", "strace -f -o b touch a", "ask" },
	{ "allow Bash(touch:*)", "strace -fob touch a", "ask" },
	{ "allow Bash(touch:*)", "/usr/bin/time -f x -o Makefile touch a", "ask" },
	{ "allow Bash(touch:*)", "/usr/bin/time --outp=Makefile touch a", "ask" },
	{ "allow Bash(touch:*)", "rlwrap -z./x touch a", "ask" },
	{ "allow Bash(touch:*)", "parallel --rpl '{x} system(1)' touch {x} ::: a", "ask" },
	{ "allow Bash(touch:*)", "valgrind --log-file=b touch a", "ask" },
	{ "allow Bash(touch:*)", "parallel touch {= unlink =} ::: a", "ask" },
	{ "allow Bash(touch:*)", "parallel touch '{= unlink =}' ::: a", "ask" },
	{ "allow Bash(touch:*)", "parallel touch {} ::: a", "allow" },
	{ "deny Bash(rm:*)", "zsh -c 'setopt promptsubst; print -P \"\\$(rm x)\"'", "ask" },
	{ "allow Bash(touch:*)", "perf stat --pre=./x touch a", "ask" },
	{ "allow Bash(touch:*)", "bundle exec touch a", "ask" },
	{ "allow Bash(touch:*)", "uv run --env-file x touch a", "ask" },
	{ "allow Bash(make test)", "env -C other make test", "ask" },
	/* bash evaluates quoted subscripts, and 0/touch may be anything. */
	{ "allow Bash(*)", "test -v 'a[x=0]'; touch a", "allow" },
	{ "allow Bash(*)", "test -v 'a[PATH=0]'; touch a", "ask" },
	{ "allow Bash(*)", "[[ -v a[PATH=0] ]]; touch a", "ask" },
	{ "allow Bash(*)", "read 'a[PATH=0]'; touch a", "ask" },
	{ "allow Bash(*)", "printf -v 'a[b[PATH++]]' x; touch a", "ask" },
	{ "allow Bash(*)", "declare 'a[PATH=0]=3'; touch a", "ask" },
	{ "allow Bash(*)", "declare -a 'b=([PATH=0]=1)'; touch a", "ask" },
	{ "allow Bash(*)", "a=([PATH=0]=1); touch a", "ask" },
	{ "allow Bash(*)", ": {a[PATH=0]}>/dev/null; touch a", "ask" },
	{ "allow Bash(*)", ": {a[${x}+(PATH=0)]}>/dev/null; touch a", "ask" },
	{ "allow Bash(*)", ": {a[PATH=${x}]}>/dev/null; touch a", "ask" },
	{ "allow Bash(*)", "x='a[PATH=0]'; echo ${!x}; touch a", "ask" },
	{ "allow Bash(*)", "printf '[PATH=%s]' x; echo 'a[PATH=0]'", "allow" },
	{ "allow Bash(touch:*)", "sh -c 'touch a'", "allow" },
	{ "allow Bash(touch:*)", "sh -c 'touch a; rm b'", "ask" },
	{ "allow Bash(touch:*)", "sudo touch a", "ask" },
	{ "allow Bash(touch:*)", "eval \"$X\"", "ask" },
	{ "allow Bash(touch:*)", "touch a; $X", "ask" },
	{ "allow Bash(touch:*)", "LD_PRELOAD=./x.so touch a", "ask" },
	{ "allow Bash(touch:*)", "/bin/touch a", "ask" },
	{ "allow Bash(touch:*)", "'touch a'", "ask" },
	{ "allow Bash(touch 'a b')", "touch 'a b'", "allow" },
	{ "allow Bash(touch \"a b\")", "touch 'a b'", "allow" },
	{ "allow Bash(touch \"a b\")", "touch a b", "ask" },
	{ "allow Bash(python3 -c:*)", "python3 -c 'print(1)'", "allow" },
	/* The target of a redirection is not among a command's words. */
	{ "allow Bash(touch:*)", "touch a > b", "ask" },
	{ "allow Bash(touch:*)", "touch a >> b", "ask" },
	{ "allow Bash(touch:*)", "touch a 2> b", "ask" },
	{ "allow Bash(touch:*)", "touch a &> b", "ask" },
	{ "allow Bash(touch:*)", "touch a >& b", "ask" },
	{ "allow Bash(touch:*)", "touch a >| b", "ask" },
	{ "allow Bash(touch:*)", "touch a <> b", "ask" },
	{ "allow Bash(touch:*)", "touch a > \"$X\"", "ask" },
	{ "allow Bash(touch:*)", "touch a > /dev/tcp/h/80", "ask" },
	{ "allow Bash(touch:*)", "> b touch a", "ask" },
	{ "allow Bash(touch:*)", "touch a; > b", "ask" },
	{ "allow Bash(touch:*)", "{ touch a; } > b", "ask" },
	{ "allow Bash(touch:*)", "(touch a) > b", "ask" },
	{ "allow Bash(touch:*)", "if touch a; then touch b; fi > c", "ask" },
	{ "allow Bash(touch:*)", "f() { touch a; }; f > b", "ask" },
	{ "allow Bash(touch:*)", "sh -c 'touch a' > b", "ask" },
	{ "allow Bash(touch:*)", "sh -c 'touch a > b'", "ask" },
	{ "allow Bash(touch:*)", "timeout 5 touch a > b", "ask" },
	{ "allow Bash(touch:*)", "touch a && touch b > c", "ask" },
	{ "allow Bash(touch a)", "touch a > b", "ask" },
	{ "allow Bash(touch * b)", "touch a > b", "ask" },
	{ "allow Bash(touch *b)", "touch a > b", "ask" },
	{ "allow Bash(touch:*)", "touch a > /dev/null 2>&1", "allow" },
	{ "allow Bash(touch:*)", "touch a 2>/dev/stderr >/dev/stdout", "allow" },
	{ "allow Bash(touch:*)", "touch a >&2", "allow" },
	{ "allow Bash(touch:*)", "touch a 3>&-", "allow" },
	{ "allow Bash(touch:*)", "touch a < b", "allow" },
	{ "allow Bash(touch:*)", "{ touch a; } 2>&1", "allow" },
	{ "allow Bash(touch a > b)", "touch a > b", "allow" },
	{ "allow Bash(touch a > b)", "touch a >b", "allow" },
	{ "allow Bash(touch a > b)", "> 'b' touch a", "allow" },
	{ "allow Bash(touch a > b)", "touch a > c", "ask" },
	{ "allow Bash(touch a > b)", "touch a >> b", "ask" },
	{ "allow Bash(touch a > b)", "touch a > c > b", "ask" },
	{ "allow Bash(touch a > b)", "touch a > b; touch a > c", "ask" },
	{ "allow Bash(touch a > b)", "touch a", "ask" },
	{ "allow Bash", "touch a > b; > c; { touch d; } > e", "allow" },
	{ "allow Bash(*)", "touch a > b", "allow" },
	{ "allow Edit(b)", "touch a > b", "ask" },
	{ "deny Bash(touch:*)", "touch a > b", "deny" },
	{ "deny Bash(touch a > b)", "touch a > b", "deny" },
	{ "deny Edit(src/**)", "f() { echo x; }; f > src/y", "deny" },
	{ "deny Bash(rm:*)", "rm x", "deny" },
	{ "deny Bash(rm:*)", "rm", "deny" },
	{ "deny Bash(rm:*)", "rmdir x", "ask" },
	{ "deny Bash(rm:*)", "/bin/rm x", "deny" },
	{ "deny Bash(rm:*)", "'r'm x", "deny" },
	{ "deny Bash(rm:*)", "r\\m x", "deny" },
	{ "deny Bash(rm:*)", "true && rm x", "deny" },
	{ "deny Bash(rm:*)", "echo $(rm x)", "deny" },
	{ "deny Bash(rm:*)", "sudo env A=1 sh -c 'rm x'", "deny" },
	{ "deny Bash(rm:*)", "find . -exec rm {} \\;", "deny" },
	{ "deny Bash(rm:*)", "xargs rm", "deny" },
	{ "deny Bash(rm:*)", "f() { rm x; }; f", "deny" },
	{ "deny Bash(rm -rf *)", "rm -rf x", "deny" },
	{ "deny Bash(sudo:*)", "sudo ls", "deny" },
	{ "deny Bash(git push:*)", "git push", "deny" },
	{ "deny Bash(git push:*)", "git pull", "ask" },
	{ "deny Bash(git push --force*)", "git push --force-with-lease", "deny" },
	{ "deny Bash", "ls", "deny" },
	{ "deny Read(~/.ssh/**)", "cat ~/.ssh/id_ed25519", "deny" },
	{ "deny Read(~/.ssh/**)", "cat /home/u/.ssh/config", "deny" },
	{ "deny Read(~/.ssh/**)", "cat ~/.sshx", "allow" },
	{ "deny Edit(~/.ssh/**)", "rm -r ~", "deny" },
	{ "deny Read(.env)", "cat .env", "deny" },
	{ "deny Read(.env)", "cat a/b/.env", "deny" },
	{ "deny Read(.env)", "cat a.env", "allow" },
	{ "deny Read(*.pem)", "cat /etc/ssl/x.pem", "deny" },
	{ "deny Read(//etc/shadow)", "cat /etc/shadow", "deny" },
	{ "deny Read(//etc/*)", "cat /etc/ssl/x", "deny" },
	{ "deny Read(/secrets/**)", "cat ../secrets/a", "deny" },
	{ "deny Read(/secrets/**)", "cat secrets/a", "allow" },
	{ "deny Read(./secrets/**)", "cat secrets/a", "deny" },
	/* A recursive read covers the paths of rules below it; a pattern without a fixed location may be below it. */
	{ "deny Read(~/.ssh/**)", "grep -r key ~", "deny" },
	{ "deny Read(~/.ssh/**)", "grep -R key /home/u", "deny" },
	{ "deny Read(~/.ssh/**)", "grep -rn -e key /home", "deny" },
	{ "deny Read(~/.ssh/**)", "rg key ~", "deny" },
	{ "deny Read(~/.ssh/**)", "rg --files /", "allow" },
	{ "deny Read(~/.ssh/**)", "ag key ~/", "deny" },
	{ "deny Read(~/.ssh/**)", "find ~ -name x", "allow" },
	{ "deny Read(~/.ssh/**)", "find / -type f", "allow" },
	{ "deny Read(~/.ssh/**)", "cp -r ~ /tmp/x", "deny" },
	{ "deny Read(~/.ssh/**)", "cp -a /home/u/. /tmp/x", "deny" },
	{ "deny Read(~/.ssh/**)", "cp -R -t /tmp ~", "deny" },
	{ "deny Read(~/.ssh/**)", "tar cf /tmp/x.tar ~", "deny" },
	{ "deny Read(~/.ssh/**)", "tar -czf /tmp/x.tgz -C /tmp /home/u", "deny" },
	{ "deny Read(~/.ssh/**)", "zip -r x.zip ~", "deny" },
	{ "deny Read(~/.ssh/**)", "rsync -a ~/ /tmp/x", "deny" },
	{ "deny Read(~/.ssh/**)", "rsync -r /home host:x", "deny" },
	{ "deny Read(~/.ssh/**)", "scp -r ~ host:x", "deny" },
	{ "deny Read(~/.ssh/**)", "ls -R ~", "allow" },
	{ "deny Read(~/.ssh/**)", "tree ~", "allow" },
	{ "deny Read(~/.ssh/**)", "du -a /home/u", "allow" },
	{ "deny Read(~/.ssh/**)", "diff -r ~ /tmp/x", "deny" },
	{ "deny Read(~/.ssh/**)", "cd ~ && grep -r key", "deny" },
	{ "deny Read(~/.ssh/**)", "cd ~ && find", "allow" },
	{ "deny Read(~/.ssh/**)", "cd ~ && tree", "allow" },
	{ "deny Read(~/.ssh/**)", "sh -c 'cd /home/u; tar c . > /tmp/x'", "deny" },
	{ "deny Read(~/.ssh/**)", "cd / && git grep key home", "deny" },
	{ "deny Read(.env)", "grep -r key .", "ask" },
	{ "deny Read(.env)", "rg key", "ask" },
	{ "deny Read(.env)", "find .", "allow" },
	/* names are only listed, unless another command may get them */
	{ "deny Read(~/.ssh/**)", "find ~ -type f 2>/dev/null | grep x | sort | head -n 3", "allow" },
	{ "deny Read(~/.ssh/**)", "ls -R ~/.ssh", "deny" },
	{ "deny Read(~/.ssh/**)", "tree -a ~/.ssh/..", "allow" },
	{ "deny Read(~/.ssh/**)", "find ~ -type f | xargs cat", "deny" },
	{ "deny Read(~/.ssh/**)", "find ~ -type f | sort | parallel cat", "deny" },
	{ "deny Read(~/.ssh/**)", "find ~ -type f | wc --files0-from=-", "deny" },
	{ "deny Read(~/.ssh/**)", "find ~ -type f | grep $x", "deny" },
	{ "deny Read(~/.ssh/**)", "sh -c 'rg --files ~' | xargs cat", "deny" },
	{ "deny Read(~/.ssh/**)", "ls -R ~ | while read -r f; do cat \"$f\"; done", "deny" },
	{ "deny Read(~/.ssh/**)", "cat $(ls -R ~)", "deny" },
	{ "deny Read(~/.ssh/**)", "for f in $(fd . ~); do cat \"$f\"; done", "deny" },
	{ "deny Read(~/.ssh/**)", "ls -R ~ > list", "deny" },
	{ "deny Read(~/.ssh/**)", "ls -R ~ > \"$x\"", "deny" },
	{ "deny Read(~/.ssh/**)", "ls -R ~ >> $(mktemp)", "deny" },
	{ "deny Read(~/.ssh/**)", "f() { ls -R ~; }; f | xargs cat", "deny" },
	{ "deny Read(~/.ssh/**)", "find ~ -exec cat {} +", "deny" },
	{ "deny Read(~/.ssh/**)", "fd . ~ -x cat", "deny" },
	{ "deny Read(~/.ssh/**)", "{ ls -R ~; } | cpio -o", "deny" },
	{ "deny Read(~/.ssh/**)", "mapfile -t f < <(find ~); cat \"${f[@]}\"", "deny" },
	{ "deny Read(~/.ssh/**)", "tar c -T <(find ~)", "deny" },
	{ "deny Read(~/.ssh/**)", "find ~ > >(xargs cat)", "deny" },
	{ "deny Read(~/.ssh/**)", "{ find ~; } > >(xargs cat)", "deny" },
	{ "deny Read(~/.ssh/**)", "( ls -R ~ ) > list; xargs cat < list", "deny" },
	{ "deny Read(~/.ssh/**)", "for d in x; do find ~; done > list", "deny" },
	{ "deny Read(~/.ssh/**)", "if true; then find ~; fi > >(xargs cat)", "deny" },
	{ "deny Read(~/.ssh/**)", "timeout 5 find ~ > list; xargs cat < list", "deny" },
	{ "deny Read(~/.ssh/**)", "timeout 5 find ~ > >(xargs cat)", "deny" },
	{ "deny Read(~/.ssh/**)", "bash -c 'find ~' > list", "deny" },
	{ "deny Read(~/.ssh/**)", "command find ~ > list", "deny" },
	{ "deny Read(~/.ssh/**)", "exec > list; find ~; xargs cat < list", "deny" },
	{ "deny Read(~/.ssh/**)", "exec 3> >(xargs cat); find ~ >&3", "deny" },
	{ "deny Read(~/.ssh/**)", "coproc find ~; xargs cat <&${COPROC[0]}", "deny" },
	{ "deny Read(~/.ssh/**)", "coproc { find ~; }; xargs cat <&${COPROC[0]}", "deny" },
	{ "deny Read(~/.ssh/**)", "find ~ | sort -o list", "deny" },
	{ "deny Read(~/.ssh/**)", "find ~ | sort > list", "deny" },
	{ "deny Read(~/.ssh/**)", "find ~ | uniq - list", "deny" },
	{ "deny Read(~/.ssh/**)", "find ~ | sort --compress-program=x", "deny" },
	{ "deny Read(~/.ssh/**)", "head() { xargs cat; }; find ~ | head", "deny" },
	{ "deny Read(~/.ssh/**)", "find ~ | ./head", "deny" },
	{ "deny Read(~/.ssh/**)", "rg --file pats ~", "deny" },
	{ "deny Read(~/.ssh/**)", "rg --file=pats ~", "deny" },
	{ "deny Read(~/.ssh/**)", "X='-x cat'; fd . ~ $X", "deny" },
	{ "deny Read(~/.ssh/**)", "fd . ~ -* cat", "deny" },
	{ "deny Read(~/.ssh/**)", "tree --infofile=/home/u/.ssh/id --info", "deny" },
	{ "deny Read(~/.ssh/**)", "find ~ -name x; pwd; echo done", "allow" },
	{ "deny Read(~/.ssh/**)", "cd ~ && ls -R && find . -type d 2>&1 | sort -u | wc -l", "allow" },
	{ "deny Read(.env)", "cp -r a b", "ask" },
	{ "deny Read(.env)", "tree", "allow" },
	{ "deny Read(.env)", "grep key a.txt", "allow" },
	{ "deny Read(.env)", "ls", "allow" },
	{ "deny Read(.env)", "cat x", "allow" },
	{ "deny Read(/secrets/**)", "grep -r key ..", "deny" },
	{ "deny Read(/secrets/**)", "grep -r key .", "allow" },
	{ "deny Read(/a/*/key)", "grep -r x /w/proj/a/b", "ask" },
	{ "deny Read(/a/*/key)", "grep -r x /w/proj/b/a", "allow" },
	{ "deny Read(/a/**/key)", "cp -r /w/proj/a/b/c /tmp/z", "ask" },
	{ "deny Read(~/.ssh/**)", "grep -r key ~/src", "allow" },
	{ "deny Read(~/.ssh/**)", "find /tmp", "allow" },
	{ "deny Read(~/.ssh/**)", "grep key ~/.bashrc", "allow" },
	{ "deny Read(~/.ssh/**)", "ls ~", "allow" },
	{ "allow Read(/src/**)", "grep -r x /", "allow" },
	{ "deny Read(a/**/z)", "cat a/z", "deny" },
	{ "deny Read(a/**/z)", "cat a/b/c/z", "deny" },
	{ "deny Read(a/**/z)", "cat a/b/c/y", "allow" },
	{ "deny Edit(src/**)", "cp x src/y", "deny" },
	{ "deny Edit(src/**)", "cat src/y", "allow" },
	{ "deny Edit(src/**)", "echo x > src/y", "deny" },
	{ "deny Write(src/**)", "echo x > src/y", "deny" },
	{ "deny Write(src/**)", "rm -r src", "deny" },
	{ "deny WebFetch(domain:example.com)", "curl https://example.com/x", "deny" },
	{ "deny WebFetch(domain:example.com)", "curl https://example.org/x", "ask" },
	{ "deny WebFetch(domain:*.example.com)", "curl https://a.example.com", "deny" },
	{ "deny WebFetch(domain:*.example.com)", "curl https://example.com", "ask" },
	{ "deny mcp__server__tool", "ls", "allow" },
};

static void check_row(const struct row *r)
{
	const char *space = strchr(r->rule, ' ');
	mem_auto char *rule = mem_strdup(space + 1);
	buf_auto struct buf text = BUF_INIT;
	struct policy_rules s = RULES_INIT, session;
	struct policy_decision d;
	struct err e = ERR_INIT;

	buf_printf(&text, "{\"permissions\":{\"%.*s\":[\"", (int)(space - r->rule), r->rule);
	for (const char *p = rule; *p; p++)
		buf_printf(&text, "%s%c", *p == '"' || *p == '\\' ? "\\" : "", *p);
	buf_str(&text, "\"]}}");
	load(&s, RULE_OF_USER, text.data);
	decide(&s, MODE_UNTRUSTED, r->line, &d);
	if (strcmp(policy_answer_name(d.answer), r->answer) != 0)
		ck_abort_msg("%s: '%s' is %s, not %s (%s)", r->rule, r->line, policy_answer_name(d.answer), r->answer,
			     d.reason);
	if (d.answer == POLICY_DENY)
		ck_assert(d.nrules == 1 && strcmp(d.rules[0]->text, rule) == 0 && d.rules[0]->line == 1);
	policy_rules_done(&s);
	/* A session's rule matches as a file's does. */
	text.data[text.len - 1] = '\0';
	ck_assert_int_eq(give(&session, text.data + strlen("{\"permissions\":"), &e), 0);
	for (int with = 0; with < 2; with++) {
		decide_in(with ? &s : NULL, &session, MODE_UNTRUSTED, r->line, &d);
		if (strcmp(policy_answer_name(d.answer), r->answer) != 0)
			ck_abort_msg("a session's %s: '%s' is %s, not %s (%s)", r->rule, r->line,
				     policy_answer_name(d.answer), r->answer, d.reason);
		if (d.answer == POLICY_DENY)
			ck_assert(d.nrules == 1 && strcmp(d.rules[0]->text, rule) == 0 &&
				  strstr(d.reason, "of session sess_1 (deny rule 1)"));
	}
	policy_rules_done(&session);
}

START_TEST(rules_match_by_the_documented_convention)
{
	for (size_t i = 0; i < countof(matching); i++)
		check_row(&matching[i]);
}
END_TEST

START_TEST(unknown_words_may_match_a_rule)
{
	static const struct {
		const char *rules, *line;
		enum policy_answer answer;
	} rows[] = {
		{ "{\"permissions\":{\"deny\":[\"Bash(git push:*)\"]}}", "git $X", POLICY_ASK },
		{ "{\"permissions\":{\"deny\":[\"Bash(git push:*)\"]}}", "git status $X", POLICY_ALLOW },
		{ "{\"permissions\":{\"deny\":[\"Bash(git push:*)\"]}}", "echo $X", POLICY_ALLOW },
		{ "{\"permissions\":{\"deny\":[\"Bash(git * main)\"]}}", "git push $X", POLICY_ASK },
		{ "{\"permissions\":{\"deny\":[\"Bash(git push:*)\"]}}", "$X push", POLICY_ASK },
		{ "{\"permissions\":{\"deny\":[\"Bash(git push:*)\"]}}", "eval \"$X\"", POLICY_ASK },
		{ "{\"permissions\":{\"allow\":[\"Bash(git push:*)\"]}}", "eval \"$X\"", POLICY_ALLOW },
		{ "{\"prefixRules\":[{\"pattern\":[\"git\",\"push\"],\"decision\":\"forbidden\"}]}", "git $X",
		  POLICY_ASK },
		{ "{\"prefixRules\":[{\"pattern\":[\"git\",\"push\"],\"decision\":\"forbidden\"}]}", "git pull $X",
		  POLICY_ALLOW },
		/* Wildcards that may become the path. */
		{ "{\"permissions\":{\"deny\":[\"Read(secret/**)\"]}}", "cat s*/x", POLICY_ASK },
		{ "{\"permissions\":{\"deny\":[\"Read(secret/**)\"]}}", "cat secre?/x", POLICY_ASK },
		{ "{\"permissions\":{\"deny\":[\"Read(secret/**)\"]}}", "cat [s]ecret/x", POLICY_ASK },
		{ "{\"permissions\":{\"deny\":[\"Read(secret/**)\"]}}", "cat */*", POLICY_ASK },
		{ "{\"permissions\":{\"deny\":[\"Read(secret/**)\"]}}", "cp -r s* /tmp", POLICY_ASK },
		{ "{\"permissions\":{\"deny\":[\"Read(secret/**)\"]}}", "cat secret/*", POLICY_DENY },
		{ "{\"permissions\":{\"deny\":[\"Read(secret/**)\"]}}", "cat *.txt src/*", POLICY_ALLOW },
		{ "{\"permissions\":{\"deny\":[\"Read(secret/key)\"]}}", "cat secret/*.txt", POLICY_ALLOW },
		{ "{\"permissions\":{\"deny\":[\"Read(.env)\"]}}", "cat .e*", POLICY_ASK },
		{ "{\"permissions\":{\"deny\":[\"Read(.env)\"]}}", "cat * a/*.c", POLICY_ALLOW },
		{ "{\"permissions\":{\"deny\":[\"Read(~/.ssh/**)\"]}}", "cat *", POLICY_ALLOW },
		{ "{\"permissions\":{\"deny\":[\"Read(~/.ssh/**)\"]}}", "cat ~/.s*/id*", POLICY_ASK },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		struct policy_rules s = RULES_INIT;
		struct policy_decision d;

		load(&s, RULE_OF_USER, rows[i].rules);
		decide(&s, MODE_DEFAULT, rows[i].line, &d);
		if (d.answer != rows[i].answer)
			ck_abort_msg("%s: '%s' is %s (%s)", rows[i].rules, rows[i].line, policy_answer_name(d.answer),
				     d.reason);
		policy_rules_done(&s);
	}
}
END_TEST

START_TEST(deny_wins_over_ask_and_ask_over_allow_in_any_order)
{
	static const char *const texts[] = {
		"{\"permissions\":{\"allow\":[\"Bash(git push origin main)\"],\"ask\":[\"Bash(git "
		"push:*)\"],\"deny\":[\"Bash(git:*)\"]}}",
		"{\"permissions\":{\"deny\":[\"Bash(git:*)\"],\"allow\":[\"Bash(git push origin "
		"main)\"],\"ask\":[\"Bash(git push:*)\"]}}",
	};
	struct policy_decision d;

	for (size_t i = 0; i < countof(texts); i++) {
		struct policy_rules s = RULES_INIT;

		load(&s, RULE_OF_USER, texts[i]);
		decide(&s, MODE_DEFAULT, "git push origin main", &d);
		ck_assert_int_eq(d.answer, POLICY_DENY);
		ck_assert_int_eq(d.source, POLICY_BY_RULE);
		policy_rules_done(&s);
	}
	struct policy_rules s = RULES_INIT;
	load(&s, RULE_OF_HOST, "{\"permissions\":{\"ask\":[\"Bash(git push:*)\"]}}");
	load(&s, RULE_OF_USER, "{\"permissions\":{\"allow\":[\"Bash(git:*)\"]}}");
	decide(&s, MODE_DEFAULT, "git push", &d);
	ck_assert_int_eq(d.answer, POLICY_ASK);
	decide(&s, MODE_UNTRUSTED, "git fetch", &d);
	ck_assert_int_eq(d.answer, POLICY_ALLOW);
	decide(&s, MODE_NEVER, "git push", &d);
	ck_assert_int_eq(d.answer, POLICY_DENY);
	policy_rules_done(&s);
}
END_TEST

START_TEST(modes_decide_where_no_rule_matches)
{
	static const struct {
		enum permission_mode mode;
		const char *line;
		enum policy_answer answer;
		enum policy_source source;
	} rows[] = {
		{ MODE_DEFAULT, "touch x", POLICY_ALLOW, POLICY_BY_MODE },
		{ MODE_DEFAULT, "rm -rf x", POLICY_ALLOW, POLICY_BY_MODE },
		{ MODE_DEFAULT, "eval \"$X\"", POLICY_ALLOW, POLICY_BY_MODE },
		{ MODE_UNTRUSTED, "ls", POLICY_ALLOW, POLICY_BY_CLASSIFIER },
		{ MODE_UNTRUSTED, "touch x", POLICY_ASK, POLICY_BY_MODE },
		{ MODE_ON_REQUEST, "touch x", POLICY_ALLOW, POLICY_BY_MODE },
		{ MODE_ON_REQUEST, "rm -rf x", POLICY_ASK, POLICY_BY_CLASSIFIER },
		{ MODE_ON_FAILURE, "rm -rf x", POLICY_ALLOW, POLICY_BY_MODE },
		{ MODE_NEVER, "touch x", POLICY_ALLOW, POLICY_BY_MODE },
		{ MODE_PLAN, "ls", POLICY_ALLOW, POLICY_BY_CLASSIFIER },
		{ MODE_PLAN, "touch x", POLICY_DENY, POLICY_BY_MODE },
		{ MODE_PLAN, "echo x > y", POLICY_DENY, POLICY_BY_MODE },
		{ MODE_BYPASS, "ls", POLICY_DENY, POLICY_BY_HOST },
		{ MODE_AUTO, "touch x", POLICY_ALLOW, POLICY_BY_CLASSIFIER },
		{ MODE_AUTO, "rm -rf x", POLICY_ASK, POLICY_BY_CLASSIFIER },
		{ MODE_AUTO, "eval \"$X\"", POLICY_ASK, POLICY_BY_CLASSIFIER },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		struct policy_decision d;

		decide(NULL, rows[i].mode, rows[i].line, &d);
		if (d.answer != rows[i].answer || d.source != rows[i].source)
			ck_abort_msg("%s: '%s' is %s (%s)", permission_mode_name(rows[i].mode), rows[i].line,
				     policy_answer_name(d.answer), d.reason);
		ck_assert(d.destructive == (strcmp(rows[i].line, "rm -rf x") == 0));
	}
}
END_TEST

START_TEST(only_the_host_permits_bypass_and_rules_apply_in_it)
{
	struct policy_rules s = RULES_INIT;
	struct policy_decision d;

	load(&s, RULE_OF_HOST,
	     "{\"permissions\":{\"allowBypass\":true,\"deny\":[\"Bash(rm:*)\"],\"ask\":[\"Bash(git push:*)\"]}}");
	decide(&s, MODE_BYPASS, "touch x", &d);
	ck_assert_int_eq(d.answer, POLICY_ALLOW);
	decide(&s, MODE_BYPASS, "rm x", &d);
	ck_assert_int_eq(d.answer, POLICY_DENY);
	ck_assert_int_eq(d.source, POLICY_BY_HOST);
	decide(&s, MODE_BYPASS, "git push", &d);
	ck_assert_int_eq(d.answer, POLICY_ASK);
	policy_rules_done(&s);
	s = RULES_INIT;
	load(&s, RULE_OF_USER, "{\"permissions\":{\"allowBypass\":true}}");
	decide(&s, MODE_BYPASS, "touch x", &d);
	ck_assert_int_eq(d.answer, POLICY_DENY);
	ck_assert_uint_eq(s.nnotes, 1);
	policy_rules_done(&s);
}
END_TEST

START_TEST(redirections_need_rules_about_files)
{
	static const struct {
		enum permission_mode mode;
		const char *line;
		enum policy_answer answer;
		enum policy_source source;
	} rows[] = {
		{ MODE_UNTRUSTED, "touch a > out/b", POLICY_ALLOW, POLICY_BY_RULE },
		{ MODE_UNTRUSTED, "touch a > out/b 2>> out/c", POLICY_ALLOW, POLICY_BY_RULE },
		{ MODE_UNTRUSTED, "sh -c 'touch a' > out/b", POLICY_ALLOW, POLICY_BY_RULE },
		{ MODE_UNTRUSTED, "{ touch a; touch b; } > out/b", POLICY_ALLOW, POLICY_BY_RULE },
		{ MODE_UNTRUSTED, "f() { touch a; }; f > out/b", POLICY_ALLOW, POLICY_BY_RULE },
		{ MODE_UNTRUSTED, "gcc a.c > out/b", POLICY_ALLOW, POLICY_BY_RULE },
		{ MODE_UNTRUSTED, "touch x > named; touch a > out/b", POLICY_ASK, POLICY_BY_MODE },
		{ MODE_UNTRUSTED, "touch x > named", POLICY_ALLOW, POLICY_BY_RULE },
		{ MODE_UNTRUSTED, "touch a > b", POLICY_ASK, POLICY_BY_MODE },
		{ MODE_UNTRUSTED, "gcc a.c > b", POLICY_ASK, POLICY_BY_MODE },
		{ MODE_UNTRUSTED, "touch a > out/b > b", POLICY_ASK, POLICY_BY_MODE },
		{ MODE_UNTRUSTED, "touch a > out/../b", POLICY_ASK, POLICY_BY_MODE },
		{ MODE_UNTRUSTED, "touch a > out/$X", POLICY_ASK, POLICY_BY_MODE },
		{ MODE_UNTRUSTED, "cp a b > out/b", POLICY_ASK, POLICY_BY_MODE },
		/* Modes that run confined commands still do. */
		{ MODE_DEFAULT, "touch a > b", POLICY_ALLOW, POLICY_BY_MODE },
		{ MODE_ON_REQUEST, "touch a > b", POLICY_ALLOW, POLICY_BY_MODE },
		{ MODE_ON_FAILURE, "touch a > b", POLICY_ALLOW, POLICY_BY_MODE },
		{ MODE_AUTO, "touch a > b", POLICY_ALLOW, POLICY_BY_CLASSIFIER },
	};
	struct policy_rules s = RULES_INIT;

	load(&s, RULE_OF_USER,
	     "{\"permissions\":{\"allow\":[\"Bash(touch:*)\",\"Bash(touch x > named)\",\"Edit(./out/**)\"]},"
	     "\"prefixRules\":[{\"pattern\":[\"gcc\"]}]}");
	for (size_t i = 0; i < countof(rows); i++) {
		struct policy_decision d;

		decide(&s, rows[i].mode, rows[i].line, &d);
		if (d.answer != rows[i].answer || d.source != rows[i].source)
			ck_abort_msg("%s: '%s' is %s (%s)", permission_mode_name(rows[i].mode), rows[i].line,
				     policy_answer_name(d.answer), d.reason);
	}
	policy_rules_done(&s);
}
END_TEST

START_TEST(reasons_name_the_part_and_the_rule)
{
	static const struct {
		const char *line, *reason;
	} rows[] = {
		{ "ls && rm x; git push", "'rm x' is denied by Bash(rm:*)" },
		{ "ls && git push x", "'git push x' asks by Bash(git push:*)" },
		{ "cat > secret/x", "'cat > secret/x' is denied by Edit(secret/**)" },
		{ "> secret/x", "'> secret/x' is denied by Edit(secret/**)" },
		{ "{ ls; } 2>> secret/x", "'2>> secret/x' is denied by Edit(secret/**)" },
		{ "cp a secret/x", "'cp a secret/x' is denied by Edit(secret/**)" },
		{ "sh -c 'cat .env'", "'cat .env' is denied by Read(.env)" },
		{ "grep -r x .",
		  "which files 'grep -r x .' uses is known only when it runs, and the rule 'Read(.env)' may "
		  "apply to one" },
		{ "git $X",
		  "'git $X' has words that are known only when it runs, and the rule 'Bash(git push:*)' may apply "
		  "to them" },
	};
	struct policy_rules s = RULES_INIT;

	load(&s, RULE_OF_USER,
	     "{\"permissions\":{\"deny\":[\"Bash(rm:*)\",\"Read(.env)\",\"Edit(secret/**)\"],\"ask\":[\"Bash(git "
	     "push:*)\"]}}");
	for (size_t i = 0; i < countof(rows); i++) {
		struct policy_decision d;

		decide(&s, MODE_DEFAULT, rows[i].line, &d);
		ck_assert_str_eq(d.reason, rows[i].reason);
	}
	policy_rules_done(&s);
}
END_TEST

START_TEST(plan_mode_denies_changes_whatever_rules_allow)
{
	struct policy_rules s = RULES_INIT;
	struct policy_decision d;

	load(&s, RULE_OF_USER, "{\"permissions\":{\"allow\":[\"Bash\"]}}");
	decide(&s, MODE_PLAN, "touch x", &d);
	ck_assert_int_eq(d.answer, POLICY_DENY);
	/* Plan mode denies instead of asking, for a rule or for an unknown; for reads a rule may ask. */
	load(&s, RULE_OF_USER, "{\"permissions\":{\"ask\":[\"Bash(touch:*)\",\"Bash(ls:*)\"]}}");
	decide(&s, MODE_PLAN, "touch x", &d);
	ck_assert_int_eq(d.answer, POLICY_DENY);
	decide(&s, MODE_PLAN, "$X", &d);
	ck_assert_int_eq(d.answer, POLICY_DENY);
	decide(&s, MODE_PLAN, "ls", &d);
	ck_assert_int_eq(d.answer, POLICY_ASK);
	policy_rules_done(&s);
}
END_TEST

START_TEST(tools_match_rules_by_name_and_path)
{
	static const struct {
		const char *rules, *tool, *path;
		enum policy_answer answer;
	} rows[] = {
		{ "{\"permissions\":{\"deny\":[\"mcp__db__drop\"]}}", "mcp__db__drop", NULL, POLICY_DENY },
		{ "{\"permissions\":{\"deny\":[\"mcp__db__drop\"]}}", "mcp__db__list", NULL, POLICY_ASK },
		{ "{\"permissions\":{\"deny\":[\"mcp__db\"]}}", "mcp__db__drop", NULL, POLICY_DENY },
		{ "{\"permissions\":{\"deny\":[\"mcp__db\"]}}", "mcp__dbx__drop", NULL, POLICY_ASK },
		{ "{\"permissions\":{\"allow\":[\"mcp__db__*\"]}}", "mcp__db__drop", NULL, POLICY_ALLOW },
		{ "{\"permissions\":{\"deny\":[\"Read(~/.ssh/**)\"]}}", "read_file", "/home/u/.ssh/id", POLICY_DENY },
		{ "{\"permissions\":{\"deny\":[\"Read(~/.ssh/**)\"]}}", "read_file", "/w/proj/x", POLICY_ALLOW },
		{ "{\"permissions\":{\"allow\":[\"Edit(/src/**)\"]}}", "write_file", "/w/proj/src/x", POLICY_ALLOW },
		{ "{\"permissions\":{\"allow\":[\"Edit(/src/**)\"]}}", "write_file", "/w/proj/x", POLICY_ASK },
		{ "{\"permissions\":{\"deny\":[\"Write\"]}}", "apply_patch", "/w/proj/x", POLICY_DENY },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		bool writes = rule_kind_of_tool(rows[i].tool) == RULE_EDIT;
		const struct command_path path = { .path = rows[i].path,
						   .word = rows[i].path,
						   .exact = true,
						   .access = writes ? COMMAND_WRITES : COMMAND_READS };
		struct policy_rules s = RULES_INIT;
		struct policy_decision d;
		struct policy_request q = { .cwd = where.cwd,
					    .workspace = where.workspace,
					    .home = where.home,
					    .mode = MODE_UNTRUSTED,
					    .tool = rows[i].tool,
					    .tool_path = &path,
					    .ntool_paths = rows[i].path ? 1 : 0,
					    .rules = &s };

		load(&s, RULE_OF_USER, rows[i].rules);
		policy_decide(&q, &d);
		if (d.answer != rows[i].answer)
			ck_abort_msg("%s: %s %s is %s (%s)", rows[i].rules, rows[i].tool, rows[i].path,
				     policy_answer_name(d.answer), d.reason);
		policy_rules_done(&s);
		/* The same as a session's. */
		struct policy_rules session;
		struct err e = ERR_INIT;
		mem_auto char *lists = mem_strndup(rows[i].rules + strlen("{\"permissions\":"),
						   strlen(rows[i].rules) - strlen("{\"permissions\":}"));
		ck_assert_int_eq(give(&session, lists, &e), 0);
		q.rules = NULL;
		q.session_rules = &session;
		policy_decide(&q, &d);
		if (d.answer != rows[i].answer)
			ck_abort_msg("a session's %s: %s %s is %s (%s)", lists, rows[i].tool, rows[i].path,
				     policy_answer_name(d.answer), d.reason);
		policy_rules_done(&session);
	}
}
END_TEST

/* The JSON parser would stop there, and the rest would not be in effect. */
START_TEST(a_file_with_a_nul_byte_is_an_error)
{
	static const char text[] = "{}\n\0{\"permissions\":{\"deny\":[\"Bash(rm *)\"]}}";
	struct policy_rules rules = { 0 };
	struct err e = ERR_INIT;
	ck_assert_int_lt(policy_rules_parse(&rules, RULE_OF_USER, "p.json", text, sizeof text - 1, &e), 0);
	ck_assert_str_eq(e.message, "p.json: line 2: NUL byte");
	policy_rules_done(&rules);
}
END_TEST

START_TEST(rules_that_name_files_are_known)
{
	static const struct {
		const char *text;
		bool name_files;
	} rows[] = {
		{ "{\"permissions\":{\"deny\":[\"Bash(rm:*)\",\"Read\",\"write_file\"]}}", false },
		{ "{\"permissions\":{\"deny\":[\"Read(.env)\"]}}", true },
		{ "{\"permissions\":{\"ask\":[\"Write(/x)\"]}}", true },
		{ "{\"permissions\":{\"allow\":[\"Edit(docs/**)\"]}}", true },
	};

	ck_assert(!policy_rules_name_files(NULL));
	for (size_t i = 0; i < countof(rows); i++) {
		struct policy_rules s = RULES_INIT;

		load(&s, RULE_OF_USER, rows[i].text);
		ck_assert_msg(policy_rules_name_files(&s) == rows[i].name_files, "%s", rows[i].text);
		policy_rules_done(&s);
	}
}
END_TEST

int main(void)
{
	return SUITE("rules", rules_that_name_files_are_known, rules_match_by_the_documented_convention,
		     unknown_words_may_match_a_rule, deny_wins_over_ask_and_ask_over_allow_in_any_order,
		     modes_decide_where_no_rule_matches, only_the_host_permits_bypass_and_rules_apply_in_it,
		     redirections_need_rules_about_files, reasons_name_the_part_and_the_rule,
		     plan_mode_denies_changes_whatever_rules_allow, tools_match_rules_by_name_and_path,
		     a_file_with_a_nul_byte_is_an_error);
}

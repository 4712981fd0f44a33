/* A rule about a file stops a command that lists names above it only if another command may get the names. */

#include "policy/sed_script.h"
#include "runtime/base/mem.h"
#include "tests/unit/policy/line_answer.h"
#include "tests/unit/suite.h"

static const char rule[] = "Read(~/.ssh/**)";

static const char *const allowed[] = {
	/* filters */
	"find ~ | less",
	"find ~ | less -FRX",
	"find ~ | more",
	"find ~ | sed 's/x/y/'",
	"find ~ | sed -n -e '/x/p' -e 's,a,b,gp'",
	"find ~ | sed -nE 's|^/home/[a-z]+/(.*)$|\\1|p;$!d' | sort",
	"find ~ | jq -R .",
	"ls -R ~ | jq -Rsc 'split(\"\\n\")'",
	"find ~ | timeout 5 head",
	"find ~ | env LC_ALL=C sort -u | nice -n 5 tail -n 3",
	"timeout 5 find ~ | head",
	"sudo find ~ | head",
	"echo ~ | xargs find",
	"bash -c 'find ~ | head; make'",
	"f() { :; }; find ~",
	/* numbers */
	"n=$(find ~ | wc -l)",
	"n=$(find ~ -type f 2>/dev/null | sort -u | wc -l); echo \"$n\"; make",
	"n=`find ~ 2>&1 | grep -c x`",
	"echo \"$(find ~ | timeout 5 wc -l) files\" | tee list",
	"find ~ | wc -l > list",
	"if [ $(ls -R ~ | wc -l) -gt 5 ]; then cat README.md; fi",
	/* error messages */
	"find ~ 2> errs",
	"find ~ -name x 2>>errs | head; make",
	/* other pipelines */
	"ls -R ~; cat README.md",
	"ls -R ~; cat x | xargs cat",
	"xargs cat < x; ls -R ~ | head",
	"find ~ | head && make",
	"find ~ | head; make test > log 2>&1",
	"find ~ | wc -l; echo x > list; git log | tee log | python3 x.py",
	"ls -R ~; echo $(date) \"$(git rev-parse HEAD)\"",
	"ls -R ~ && sh -c 'cat x | xargs cat'",
	"sh -c 'find ~ | head; make' && ssh host ls",
	"while find ~ | grep -q x; do sleep 1; done; make &",
	"cat <<EOF\nx\nEOF\nfind ~ | head; cat a | xargs cat",
};

static const char *const denied[] = {
	/* filters that may do more */
	"find ~ | less -o list",
	"find ~ | less +s",
	"find ~ | sed -i s/x/y/",
	"find ~ | sed 's/x/cat &/e'",
	"find ~ | sed 'w list'",
	"find ~ | sed 's/x/y/w list'",
	"find ~ | sed 'r x'",
	"find ~ | sed -f x.sed",
	"find ~ | sed --file=x.sed",
	"find ~ | sed s/x/y/ file",
	"find ~ | sed",
	"find ~ | sed -e",
	"find ~ | sed \"$x\"",
	"find ~ | sed 's/[/]e/x/;s/[/]x/e;y/'",
	"find ~ | ./sed p",
	"find ~ | jq -Rf x",
	"find ~ | jq --from-file x",
	"find ~ | jq -R 'import \"x\" as $x; .'",
	"find ~ | timeout 5 xargs cat",
	"find ~ | env ./head",
	"find ~ | ./timeout 5 head",
	"find ~ | env -S 'xargs cat'",
	"find ~ | time -o list head",
	"find ~ | timeout \"$x\" head",
	"find ~ | nohup head",
	"find ~ | xargs head",
	"find ~ | sh -c 'xargs cat'",
	"find ~ | sh",
	/* not only numbers */
	"n=$(find ~)",
	"n=$(find ~ | head)",
	"n=$(find ~ | wc --files0-from=-)",
	"n=$(find ~ | tee list | wc -l)",
	"n=$(find ~ | sort -o list | wc -l)",
	"n=$(find ~ | sort > list | wc -l)",
	"n=$(exec 3>&1; find ~ >&3 | wc -l)",
	"n=$(exec 3>&1; find ~ | sort >&3 | wc -l)",
	"n=$(exec 3>&1; timeout 5 find ~ >&3 | wc -l)",
	"n=$(find ~ | wc -l; find ~)",
	"n=$(find ~ | { wc -l; xargs cat; })",
	"n=$({ find ~; } | xargs cat | wc -l)",
	"n=$(find ~ | { xargs cat | cat; } | wc -l)",
	"n=$(find ~ | { { xargs cat; } | cat; wc -l; })",
	"n=$(find ~ | wc -l $(xargs cat))",
	"n=$(find ~ | grep -c $x)",
	"n=$(find ~ | grep -cl x)",
	"wc() { xargs cat; }; n=$(find ~ | wc -l)",
	/* error messages and what goes with them */
	"find ~ -D search 2> errs",
	"rg --files --debug ~ 2> errs",
	"find ~ 2> errs 1>&2",
	"find ~ >&2 2> errs",
	"{ find ~ >&2; } 2> errs",
	"exec 2> errs; find ~ >&2",
	"sh -c 'find ~ >&2' 2> errs",
	"tree ~ -o /dev/stderr 2> errs",
	"find ~ | sort -o /dev/stderr 2> errs",
	"find ~ &> errs",
	/* the same line, and the same pipeline */
	"find ~; find ~ | xargs cat",
	"make; find ~ | python3 x.py",
	"find ~ | head | xargs cat; make",
	"sh -c 'find ~ | head' | xargs cat",
	"{ ls -R ~ | head; echo; } | xargs cat",
	"{ find ~ >&3 | cat; } 3>&1 | xargs cat",
	"find ~ | head -n $(xargs cat)",
	"find ~ | cat <<EOF\n$(xargs cat)\nEOF",
	"touch list; find ~ | sort -o list; xargs cat < list",
	"echo x > list; find ~ > list; xargs cat < list",
	"coproc xargs cat; find ~ 1>&${COPROC[1]}",
	"coproc xargs cat; find ~ > /dev/fd/63",
	"if x; then head() { xargs cat; }; fi; find ~ | head",
	"exec > list; find ~ | head; make",
	"command exec > list; find ~",
	"exec 3<>list; find ~ >&3",
	". ./x; find ~ | head",
	"eval \"$x\"; find ~",
	"$x > list; find ~",
	"alias head='xargs cat'; find ~ | head",
	"find ~ > /dev/tcp/localhost/80",
	"echo 1 | parallel --results x find ~",
	"nohup find ~",
	"systemd-cat find ~",
	"zsh -c 'find ~'",
	"f() { :; }; find ~ | head",
};

START_TEST(names_that_are_only_printed_filtered_or_counted_are_allowed)
{
	ck_assert_uint_eq(lines_answered_otherwise(rule, allowed, countof(allowed), "allow", false), 0);
}
END_TEST

START_TEST(names_that_another_command_may_get_are_denied)
{
	ck_assert_uint_eq(lines_answered_otherwise(rule, denied, countof(denied), "deny", false), 0);
}
END_TEST

START_TEST(at_a_terminal_a_pager_may_do_more)
{
	static const char *const pagers[] = { "find ~ | less", "find ~ | more" }, *const filters[] = {
		"find ~ | sed p"
	};

	ck_assert_uint_eq(lines_answered_otherwise(rule, pagers, countof(pagers), "deny", true), 0);
	ck_assert_uint_eq(lines_answered_otherwise(rule, filters, countof(filters), "allow", true), 0);
}
END_TEST

START_TEST(sed_scripts_that_only_print_are_recognised)
{
	static const char *const prints[] = { "",
					      "p",
					      "s/a/b/",
					      "s/a\\/b/c\\/d/g;s,x,y,2p",
					      "/a/,/b/d",
					      "1,5p",
					      "$!N;P;D",
					      "0,/x/I{s//y/;q}",
					      "\\,x,!d",
					      "2~3p # w x",
					      ":a;N;$!ba;s/\\n/ /g",
					      "y/abc/xyz/",
					      "s/[[:space:]]*$//",
					      "s/[]x^]//;s/[^]]//",
					      "/x/ , +3 { = ; p }",
					      "$=" };
	static const char *const others[] = { "w x",
					      "1w x",
					      "s/a/b/w x",
					      "s/a/b/gw x",
					      "s/a/b/e",
					      "s/a/b/ge",
					      "e",
					      "e date",
					      "1e",
					      "r x",
					      "R x",
					      "W x",
					      "s/a/b/;w x",
					      "/x/{w x",
					      "a\\\nw x",
					      "i x",
					      "c x",
					      "s/a/b",
					      "s/a",
					      "s",
					      "/x",
					      "\\",
					      "s/[/]/x/w/y/",
					      "s/[^/]*$//",
					      "s\nx\ny\n",
					      "y/a/b/w x",
					      "p w x",
					      "ba w x",
					      "}w x",
					      "s/\\[/]/w x/;e",
					      "s/a/\xc3\xa4/",
					      "v",
					      "q5w x",
					      "1,",
					      "/a/I,/b/Mw x",
					      "s/[[:a]/x/]w x",
					      "# c\nw x" };

	for (size_t i = 0; i < countof(prints); i++)
		ck_assert_msg(sed_only_prints((const char *const[]){ "sed", prints[i] }, 2), "%s", prints[i]);
	for (size_t i = 0; i < countof(others); i++)
		ck_assert_msg(!sed_only_prints((const char *const[]){ "sed", others[i] }, 2), "%s", others[i]);
}
END_TEST

int main(void)
{
	return SUITE("listed_names", names_that_are_only_printed_filtered_or_counted_are_allowed,
		     names_that_another_command_may_get_are_denied, at_a_terminal_a_pager_may_do_more,
		     sed_scripts_that_only_print_are_recognised);
}

/* Real scripts: the parser accepts a script of an installed package if and only if its shell does. */

#include "tests/unit/policy/corpus.h"
#include "tests/unit/policy/scripts.h"
#include "tests/unit/suite.h"

#include <string.h>

static int shell_accepts(const char *shell, const char *path)
{
	const char *const argv[] = { shell, "-n", path, NULL };
	buf_auto struct buf said = BUF_INIT;
	int status = oracle_run(argv, 2, &said);

	ck_assert_msg(status >= 0, "%s cannot be run", shell);
	return status == 0;
}

START_TEST(the_parser_accepts_the_real_scripts_that_shells_accept)
{
	struct scripts s = { 0 };
	unsigned bad = 0, commands = 0;

	scripts_find(&s);
	for (size_t i = 0; i < s.count; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct shell_script parsed;

		scripts_read(s.path[i], &text);
		int ours = shell_parse(text.data, text.len, s.bash[i] ? SHELL_BASH : SHELL_POSIX, &parsed) == 0;
		if (ours != shell_accepts(s.bash[i] ? "bash" : "dash", s.path[i])) {
			fprintf(stderr, "%s:%zu:%zu: the parser accepts it: %s %s\n", s.path[i], parsed.error.line,
				parsed.error.column, ours ? "yes" : "no", parsed.error.message);
			bad++;
		}
		commands += (unsigned)parsed.count;
		shell_script_done(&parsed);
	}
	fprintf(stderr, "%zu scripts with %u commands\n", s.count, commands);
	ck_assert_uint_eq(bad, 0);
	ck_assert_uint_ge(s.count, 50);
	scripts_done(&s);
}
END_TEST

int main(void) { return SUITE("scripts", the_parser_accepts_the_real_scripts_that_shells_accept); }

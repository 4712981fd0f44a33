/*
 * The policy parser as a filter, for shell_differential.py: reads pairs of NUL-terminated strings, a shell and a
 * script, and writes one line of JSON for each: what `SHELL -c SCRIPT` runs according to policy.
 *
 *   {"understood":true,"commands":[["k1","a",null],…]}     null: a word that is only known at run time
 *
 * `understood` is false if the line has an unknown that no allow rule covers: such a line is never allowed without a
 * question.
 */

#include "policy/command_analysis.h"
#include "runtime/base/buf.h"
#include "runtime/base/jw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_facts(const struct command_facts *f, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kbool(&w, "understood", !(f->unknown & ~(unsigned)COMMAND_UNKNOWN_COVERED));
	jw_karr(&w, "commands");
	for (size_t i = 0; i < f->ncommands; i++) {
		const struct command_simple *c = &f->command[i];

		jw_arr(&w);
		for (size_t k = 0; k < c->argc; k++)
			if (c->argv[k])
				jw_str(&w, c->argv[k]);
			else
				jw_null(&w);
		jw_arr_end(&w);
	}
	jw_arr_end(&w);
	jw_obj_end(&w);
	buf_byte(out, '\n');
}

int main(void)
{
	static const struct analysis_options here = { .cwd = "/w/proj", .workspace = "/w/proj" };
	char *shell = NULL, *script = NULL;
	size_t shell_room = 0, script_room = 0;

	while (getdelim(&shell, &shell_room, '\0', stdin) > 0 && getdelim(&script, &script_room, '\0', stdin) > 0) {
		const char *const argv[] = { shell, "-c", script };
		command_facts_auto struct command_facts f = { 0 };
		buf_auto struct buf line = BUF_INIT;

		command_analyse_argv(argv, 3, &here, &f);
		write_facts(&f, &line);
		fwrite(line.data, 1, line.len, stdout);
	}
	free(shell);
	free(script);
	return ferror(stdin) || fflush(stdout) != 0;
}

/* Shell text from outside, read as bash and as sh: no crash, within the limits, and all reported properties of words
 * are true.
 */

#include "policy/shell/shell.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void word(const struct shell_word *w)
{
	if (!w->plain || (w->value && w->unknown) || (!w->value && !w->unknown) ||
	    (w->value && strcmp(w->value, w->plain) != 0))
		abort();
}

static void script(const uint8_t *data, size_t size, enum shell_dialect dialect)
{
	struct shell_script s;
	int rc = shell_parse((const char *)data, size, dialect, &s);

	if (s.count > SHELL_COMMANDS_MAX || (rc != 0) != (s.error.message[0] != '\0') ||
	    (rc && (s.error.line < 1 || s.error.column < 1)))
		abort();
	for (size_t i = 0; i < s.count; i++) {
		const struct shell_command *c = &s.command[i];

		if (c->offset > size || (c->kind == SHELL_COMPOUND && c->nwords))
			abort();
		for (size_t k = 0; k < c->nwords; k++)
			word(&c->word[k]);
		for (size_t k = 0; k < c->nassignments; k++)
			word(&c->assignment[k].value);
		for (size_t k = 0; k < c->nredirects; k++)
			word(&c->redirect[k].target);
	}
	shell_script_done(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	script(data, size, SHELL_BASH);
	script(data, size, SHELL_POSIX);
	return 0;
}

/*
 * Commands that list the names of files (role l of command_paths.def) do not read the files. But another command that
 * gets the names may, and which files those are is not known: then the command counts as reading all of them.
 */

#include "policy/analysis.h"

#include <string.h>

/* Whether the line stores output in a file: by a redirection, a command of a pipeline, or one around this one. */
static bool stores_output(const struct command_facts *f, const struct command_simple *c)
{
	for (size_t i = 0; i < f->npaths; i++) {
		const struct command_path *p = &f->path[i];
		const struct command_simple *by = &f->command[p->command];

		if (!(p->access & (COMMAND_WRITES | COMMAND_DELETES)))
			continue;
		if (p->access & COMMAND_REDIRECTED || by->context & SHELL_IN_PIPE_FROM || by == c)
			return true;
		for (int k = c->parent; k >= 0; k = f->command[k].parent)
			if (&f->command[k] == by)
				return true;
	}
	return false;
}

/* Whether it only prints what it gets. */
static bool only_prints(const struct command_simple *c)
{
	static const char printing[] = "head|tail|wc|sort|uniq|grep|egrep|fgrep|cut|tr|nl|column|cat|rev|tac|true|echo";

	if (!c->name || c->flags & COMMAND_FUNCTION_CALL || !args_named(c->name, printing) || !c->argv[0] ||
	    !command_class_is_system_program(c->argv[0]))
		return false;
	for (size_t k = 1; k < c->argc; k++)
		if (!c->argv[k] || strncmp(c->argv[k], "--f", 3) == 0 || strncmp(c->argv[k], "--co", 4) == 0)
			return false; /* --files0-from, --file, --compress-program */
	return true;
}

/* Whether another command may get what this one prints, other than to print it, too. */
static bool passes_names_on(const struct command_facts *f, const struct command_simple *c)
{
	if (c->context & (SHELL_IN_SUBSTITUTION | SHELL_IN_FUNCTION | SHELL_IN_BACKGROUND))
		return true;
	for (size_t k = 0; k < c->argc; k++)
		if (c->option[k] || (!c->argv[k] && c->plain[k][0] == '-'))
			return true; /* it may be an option that runs a command */
	for (size_t i = 0; i < f->ncommands; i++) {
		const struct command_simple *to = &f->command[i];

		/* >(…) may be what the output goes to, whose redirection may be that of a group or of exec. */
		const bool reads = to->context & SHELL_IN_SUBSTITUTION ||
				   (c->context & SHELL_IN_PIPE_TO && to->context & SHELL_IN_PIPE_FROM);

		if (reads && !only_prints(to))
			return true;
	}
	return stores_output(f, c);
}

void listed_names_of_line(struct analysis *r)
{
	struct command_facts *f = r->facts;

	for (size_t i = 0; i < f->npaths; i++) {
		struct command_path *p = &f->path[i];

		if (p->access & COMMAND_LISTS && (f->unknown || passes_names_on(f, &f->command[p->command])))
			p->access |= COMMAND_RECURSES;
	}
}

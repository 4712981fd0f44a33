#include "runtime/base/buf.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"

int cmd_help(struct cli *c)
{
	const char *name = c->opts.nargs ? c->opts.args[0] : NULL;
	const struct verb *v = name ? verb_find(c->verbs, name) : NULL;
	buf_auto struct buf out = BUF_INIT;

	if (name && !v) {
		const char *near = verb_nearest(c->verbs, name);

		cli_error("help: unknown verb '%s'", name);
		if (near)
			cli_hint("did you mean 'bailiff help %s'?", near);
		return EXIT_USAGE;
	}
	if (v)
		verb_help(v, &out);
	else
		verb_overview(c->verbs, &out);
	return format_out(&out);
}

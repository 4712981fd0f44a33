#include "runtime/base/buf.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/completion.h"
#include "supervisor/cli/completion_words.h"
#include "supervisor/cli/format.h"

#include <string.h>

int cmd_completion(struct cli *c)
{
	buf_auto struct buf out = BUF_INIT;

	if (c->opts.nargs >= 1 && strcmp(c->opts.args[0], "words") == 0) {
		completion_words_write(c, c->opts.args + 1, c->opts.nargs - 1, &out);
		return format_out(&out);
	}
	if (c->opts.nargs != 1)
		return cli_usage(c, "for which shell?");
	if (!completion_write(c->verbs, c->opts.args[0], &out))
		return cli_usage(c, "unsupported shell '%s'", c->opts.args[0]);
	return format_out(&out);
}

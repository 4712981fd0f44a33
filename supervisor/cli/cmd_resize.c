#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/client/remote.h"

#include <stdio.h>

/* "24x80" */
static bool parse_size(const char *text, unsigned *ret_rows, unsigned *ret_cols)
{
	int end = 0;

	return sscanf(text, "%5u%*[xX]%5u%n", ret_rows, ret_cols, &end) == 2 && !text[end] && *ret_rows && *ret_cols;
}

int cmd_resize(struct cli *c)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;
	char id[ID_LOOKUP_MAX];
	unsigned rows, cols;

	if (c->opts.nargs != 2)
		return cli_usage(c, "missing process or size");
	if (!parse_size(c->opts.args[1], &rows, &cols))
		return cli_usage(c, "'%s' is not a size; expected ROWSxCOLS, for example 24x80", c->opts.args[1]);
	if (cli_connect(c, CLI_START_IF_STORE) < 0 || id_lookup_process(c, c->opts.args[0], id) < 0)
		return EXIT_FAILED;
	jw_obj(&w);
	jw_kstr(&w, "processId", id);
	jw_kuint(&w, "rows", rows);
	jw_kuint(&w, "cols", cols);
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	if (cli_call(c, "resize_process", &params, &a, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "%s", id);
	return 0;
}

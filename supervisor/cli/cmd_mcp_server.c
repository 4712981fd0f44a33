/* `mcp-server add` and `test`: both start the server and show what it lists. */

#include "runtime/base/buf.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/noun.h"

#include <limits.h>
#include <unistd.h>

/* The names of the tools, one a line, and a warning for each that cannot be called. */
static int print_tools(struct cli *c, struct jval result)
{
	buf_auto struct buf out = BUF_INIT;
	char name[128], reason[128];

	if (cli_as_json(c))
		return format_record(result, true);
	jval_str(jval_get(result, "name"), name, sizeof name);
	for (struct jiter it = jiter_on(jval_get(result, "tools")); jiter_next(&it);) {
		buf_printf(&out, "mcp__%s__", name);
		format_scalar(it.value, &out);
		buf_byte(&out, '\n');
	}
	for (struct jiter it = jiter_on(jval_get(result, "leftOut")); jiter_next(&it);) {
		buf_auto struct buf tool = BUF_INIT;

		format_scalar(jval_get(it.value, "name"), &tool);
		jval_str(jval_get(it.value, "reason"), reason, sizeof reason);
		cli_error("warning: tool '%s' is left out: %s", buf_cstr(&tool), reason);
	}
	if (jval_bool(jval_get(result, "changed"), false))
		cli_error("warning: these are not the stored tools; add with --replace stores them");
	return format_out(&out);
}

static int send_request(struct cli *c, struct request *q, const char *method, const char *verb)
{
	char cwd[PATH_MAX];
	int status;

	jw_kstr(&q->w, "name", c->opts.args[1]);
	if (getcwd(cwd, sizeof cwd))
		jw_kstr(&q->w, "cwd", cwd);
	if ((status = noun_options(c, "profile", &q->w)))
		return status;
	if (request_change(c, q, method) < 0)
		return cli_fail(c, EXIT_FAILED, &q->e, "%s", verb);
	return print_tools(c, q->result);
}

int mcp_server_add(struct cli *c)
{
	request_auto struct request q = REQUEST_INIT(q);
	int status;

	if (c->opts.nargs < 3 && !opts_get(&c->opts, OPT_mcp_server_URL))
		return cli_usage(c, "add needs the command of the server: add NAME -- CMD ARG...");
	if (c->opts.nargs > 2)
		jw_kstrv(&q.w, "command", (const char *const *)c->opts.args + 2, c->opts.nargs - 2);
	if ((status = noun_options(c, "url replace:yes", &q.w)))
		return status;
	return send_request(c, &q, "add_mcp_server", "mcp-server add");
}

int mcp_server_test(struct cli *c)
{
	request_auto struct request q = REQUEST_INIT(q);

	return send_request(c, &q, "test_mcp_server", "mcp-server test");
}

/* `mcp-server add` and `test`: both start the server and show what it lists. */

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/file_option.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/noun.h"
#include "supervisor/cli/sandbox_options.h"

#include <string.h>

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
	int status;

	jw_kstr(&q->w, "name", c->opts.args[1]);
	if ((status = file_option_cwd(c, -1, &q->w)) || (status = noun_options(c, "profile", &q->w)))
		return status;
	if (request_change(c, q, method) < 0)
		return cli_fail(c, EXIT_FAILED, &q->e, "%s", verb);
	return print_tools(c, q->result);
}

/* --env-file K=FILE; the last one for a variable counts. 0, or the exit status. */
static int write_env_files(struct cli *c, struct jw *w)
{
	int status = 0;

	jw_kobj(w, "envFiles");
	for (size_t i = 0; i < c->opts.ngiven && status == 0; i++) {
		const char *text = c->opts.given[i].value, *equals;

		if (c->opts.given[i].option != OPT_mcp_server_ENV_FILE)
			continue;
		if (!(equals = strchr(text, '=')) || equals == text)
			return cli_usage(c, "option '--env-file' takes K=FILE, not '%s'", text);
		mem_auto char *key = mem_strndup(text, (size_t)(equals - text));
		if (!env_option_overridden(&c->opts, i, OPT_mcp_server_ENV_FILE, -1))
			status = file_option_write(equals + 1, "--env-file", true, key, w);
	}
	jw_obj_end(w);
	return status;
}

static int write_env(struct cli *c, struct jw *w)
{
	struct err e = ERR_INIT;

	jw_kobj(w, "env");
	if (env_options_write(&c->opts, OPT_mcp_server_ENV, -1, w, &e) < 0)
		return cli_usage(c, "%s", e.message);
	jw_obj_end(w);
	return 0;
}

int mcp_server_add(struct cli *c)
{
	request_auto struct request q = REQUEST_INIT(q);
	int status;

	if (c->opts.nargs < 3 && !opts_get(&c->opts, OPT_mcp_server_URL))
		return cli_usage(c, "add needs the command of the server: add NAME -- CMD ARG..., or --url URL");
	if (c->opts.nargs > 2)
		jw_kstrv(&q.w, "command", (const char *const *)c->opts.args + 2, c->opts.nargs - 2);
	if ((status = noun_options(c, "url insecure:yes stateful:yes replace:yes", &q.w)) ||
	    (opts_has(&c->opts, OPT_mcp_server_ENV) && (status = write_env(c, &q.w))) ||
	    (opts_has(&c->opts, OPT_mcp_server_ENV_FILE) && (status = write_env_files(c, &q.w))) ||
	    (status = file_option_write(opts_get(&c->opts, OPT_mcp_server_KEY_FILE), "--key-file", true, "keyFile",
					&q.w)) ||
	    (status = file_option_write(opts_get(&c->opts, OPT_mcp_server_CA_FILE), "--ca-file", false, "caFile",
					&q.w)))
		return status;
	return send_request(c, &q, "add_mcp_server", "mcp-server add");
}

int mcp_server_test(struct cli *c)
{
	request_auto struct request q = REQUEST_INIT(q);

	return send_request(c, &q, "test_mcp_server", "mcp-server test");
}

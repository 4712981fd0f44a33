#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/list_pages.h"
#include "supervisor/client/remote.h"

static void add_row(struct format_table *t, struct jval p, uint64_t now_us)
{
	buf_auto struct buf ago = BUF_INIT, took = BUF_INIT, end = BUF_INIT, command = BUF_INIT;
	char id[72], status[32];

	jval_str(jval_get(p, "processId"), id, sizeof(id));
	jval_str(jval_get(p, "status"), status, sizeof(status));
	format_exit(p, &end);
	format_ago(jval_get(p, "startedAt"), now_us, &ago);
	format_duration(p, now_us, &took);
	format_command(p, &command);
	format_table_cell(t, FORMAT_PLAIN, id);
	format_table_cell(t, format_status_colour(status), status);
	format_table_cell(t, FORMAT_PLAIN, buf_cstr(&end));
	format_table_cell(t, FORMAT_DIM, buf_cstr(&ago));
	format_table_cell(t, FORMAT_PLAIN, buf_cstr(&took));
	format_table_cell(t, FORMAT_PLAIN, buf_cstr(&command));
}

static void on_process(void *ctx, struct jval process)
{
	struct format_list *l = ctx;

	if (!format_list_takes(l, process))
		add_row(&l->table, process, l->now_us);
}

int cmd_ps(struct cli *c)
{
	static const char *const heads[] = { "PROCESS", "STATUS", "EXIT", "STARTED", "DURATION", "COMMAND" };
	format_list_auto struct format_list l;
	struct err e = ERR_INIT;

	format_list_init(&l, heads, 6, opts_has(&c->opts, OPT_ps_JSON));
	if (c->opts.nargs)
		return cli_usage(c, "unexpected argument '%s'", c->opts.args[0]);
	if (cli_connect(c, CLI_START_IF_STORE) < 0)
		return EXIT_FAILED;
	if (list_pages_processes(c, !opts_has(&c->opts, OPT_ps_ALL), opts_has(&c->opts, OPT_ps_HELPERS), on_process, &l,
				 &e) < 0) {
		cli_fail(c, EXIT_FAILED, &e, "list processes");
		return EXIT_FAILED;
	}
	return format_list_print(&l);
}

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/listing.h"
#include "supervisor/cli/show.h"
#include "supervisor/client/remote.h"

static void add_row(struct show_table *t, struct jval p, uint64_t now_us)
{
	buf_auto struct buf ago = BUF_INIT, took = BUF_INIT, end = BUF_INIT, command = BUF_INIT;
	char id[72], status[32];

	jval_str(jval_get(p, "processId"), id, sizeof(id));
	jval_str(jval_get(p, "status"), status, sizeof(status));
	show_exit(p, &end);
	show_ago(jval_get(p, "startedAt"), now_us, &ago);
	show_duration(p, now_us, &took);
	show_command(p, &command);
	show_table_cell(t, SHOW_PLAIN, id);
	show_table_cell(t, show_status_colour(status), status);
	show_table_cell(t, SHOW_PLAIN, buf_cstr(&end));
	show_table_cell(t, SHOW_DIM, buf_cstr(&ago));
	show_table_cell(t, SHOW_PLAIN, buf_cstr(&took));
	show_table_cell(t, SHOW_PLAIN, buf_cstr(&command));
}

static void on_process(void *ctx, struct jval process)
{
	struct show_list *l = ctx;

	if (!show_list_takes(l, process))
		add_row(&l->table, process, l->now_us);
}

int cmd_ps(struct cli *c)
{
	static const char *const heads[] = { "PROCESS", "STATUS", "EXIT", "STARTED", "DURATION", "COMMAND" };
	show_list_auto struct show_list l;
	struct err e = ERR_INIT;

	show_list_init(&l, heads, 6, opts_has(&c->opts, OPT_ps_JSON));
	if (c->opts.nargs)
		return cli_usage(c, "'%s' is one argument too many", c->opts.args[0]);
	if (cli_connect(c, CLI_START_IF_STORE) < 0)
		return EXIT_FAILED;
	if (listing_processes(c, !opts_has(&c->opts, OPT_ps_ALL), opts_has(&c->opts, OPT_ps_HELPERS), on_process, &l,
			      &e) < 0) {
		cli_fail(c, EXIT_FAILED, &e, "list processes");
		return EXIT_FAILED;
	}
	return show_list_print(&l);
}

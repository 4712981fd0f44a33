#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/listing.h"
#include "supervisor/cli/remote.h"
#include "supervisor/cli/show.h"

#include <unistd.h>

struct ps {
	struct show_table table;
	struct buf json;
	uint64_t now_us;
	bool as_json;
};

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
	struct ps *ps = ctx;

	if (!ps->as_json) {
		add_row(&ps->table, process, ps->now_us);
		return;
	}
	buf_str(&ps->json, ps->json.len > 1 ? ",\n" : "\n");
	buf_append(&ps->json, process.text, process.len);
}

int cmd_ps(struct cli *c)
{
	static const char *const heads[] = { "PROCESS", "STATUS", "EXIT", "STARTED", "DURATION", "COMMAND" };
	struct ps ps = { .now_us = clock_real_us(), .as_json = opts_has(&c->opts, OPT_ps_JSON) };
	buf_auto struct buf out = BUF_INIT;
	int status = EXIT_FAILED;
	struct err e = ERR_INIT;

	if (c->opts.nargs)
		return cli_usage(c, "'%s' is one argument too many", c->opts.args[0]);
	if (cli_connect(c, CLI_START_IF_STORE) < 0)
		return EXIT_FAILED;
	show_table_init(&ps.table, heads, 6);
	buf_byte(&ps.json, '[');
	if (listing_processes(c, !opts_has(&c->opts, OPT_ps_ALL), on_process, &ps, &e) < 0) {
		cli_fail(c, EXIT_FAILED, &e, "list processes");
	} else if (ps.as_json) {
		buf_str(&ps.json, "\n]\n");
		status = show_out(&ps.json);
	} else {
		show_table_render(&ps.table, show_coloured(STDOUT_FILENO), show_width(STDOUT_FILENO), &out);
		status = show_out(&out);
	}
	show_table_done(&ps.table);
	buf_done(&ps.json);
	return status;
}

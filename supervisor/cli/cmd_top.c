#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/list_pages.h"
#include "supervisor/cli/tree_usage.h"
#include "supervisor/client/remote.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

static volatile sig_atomic_t stop_signal;

struct top {
	struct cli *cli;
	struct format_table table;
	struct tree_usage usage;
	uint64_t now_us;
	unsigned rows, rows_most;
};

static void add_usage(struct top *top, struct jval p)
{
	struct format_table *t = &top->table;
	uint64_t cpu_ms, rss, bytes = 0;
	char cpu[16] = "-", mem[16] = "-", out[16], id[72];

	jval_str(jval_get(p, "processId"), id, sizeof(id));
	if (tree_usage_get(&top->usage, id, jval_uint(jval_get(p, "pid"), 0), jval_uint(jval_get(p, "startTime"), 0),
			   &cpu_ms, &rss) == 0) {
		text_format_duration(cpu_ms, cpu);
		text_format_size(rss, mem);
	}
	for (struct jiter it = jiter_on(jval_get(p, "outputs")); jiter_next(&it);)
		bytes += jval_uint(jval_get(it.value, "bytes"), 0);
	text_format_size(bytes, out);
	format_table_cell(t, FORMAT_PLAIN, cpu);
	format_table_cell(t, FORMAT_PLAIN, mem);
	format_table_cell(t, FORMAT_PLAIN, out);
}

/* Counts all processes, but shows only as many as the terminal has rows. */
static void on_process(void *ctx, struct jval p)
{
	struct top *top = ctx;
	buf_auto struct buf took = BUF_INIT, command = BUF_INIT;
	char id[72], pid[24];

	top->rows++;
	if (top->rows_most && top->rows > top->rows_most)
		return;
	jval_str(jval_get(p, "processId"), id, sizeof(id));
	snprintf(pid, sizeof(pid), "%llu", (unsigned long long)jval_uint(jval_get(p, "pid"), 0));
	format_duration(p, top->now_us, &took);
	format_command(p, &command);
	format_table_cell(&top->table, FORMAT_PLAIN, id);
	format_table_cell(&top->table, FORMAT_PLAIN, pid);
	format_table_cell(&top->table, FORMAT_PLAIN, buf_cstr(&took));
	add_usage(top, p);
	format_table_cell(&top->table, FORMAT_PLAIN, buf_cstr(&command));
}

static int read_processes(struct cli *c, bool on_terminal, struct buf *out, struct err *e)
{
	static const char *const heads[] = { "PROCESS", "PID", "TIME", "CPU", "MEMORY", "OUTPUT", "COMMAND" };
	unsigned height = format_height(STDOUT_FILENO);
	struct top top = { .cli = c,
			   .now_us = clock_real_us(),
			   .rows_most = on_terminal && height > 3 ? height - 3 : 0 };
	int r;

	format_table_init(&top.table, heads, 7);
	tree_usage_read(&top.usage);
	r = list_pages_processes(c, true, true, on_process, &top, e);
	if (r == 0) {
		if (on_terminal)
			buf_printf(out, "bailiff: %u running   (q quits)\n\n", top.rows);
		format_table_render(&top.table, format_coloured(STDOUT_FILENO), format_width(STDOUT_FILENO), out);
	}
	tree_usage_done(&top.usage);
	format_table_done(&top.table);
	return r;
}

static void on_stop(int sig) { stop_signal = sig; }

/* True if the user wants to quit. */
static bool wait_for_key(unsigned interval_ms)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	char key;

	if (poll(&p, 1, (int)interval_ms) <= 0)
		return stop_signal != 0;
	ssize_t n = read(STDIN_FILENO, &key, 1);
	return n == 0 || (n == 1 && (key == 'q' || key == 'Q' || key == 3));
}

static int refresh_screen(struct cli *c, unsigned interval_ms, struct err *e)
{
	do {
		buf_auto struct buf out = BUF_INIT, screen = BUF_INIT;

		if (read_processes(c, true, &out, e) < 0)
			return -1;
		/* Clear each line as it is written, then the rest below: this avoids flicker. */
		buf_str(&screen, "\033[H");
		for (const char *p = buf_cstr(&out), *nl; (nl = strchr(p, '\n')); p = nl + 1) {
			buf_append(&screen, p, (size_t)(nl - p));
			buf_str(&screen, "\033[K\n");
		}
		buf_str(&screen, "\033[J");
		if (fd_write_all(STDOUT_FILENO, screen.data, screen.len) < 0)
			return err_sys(e, errno, "write to the terminal");
	} while (!wait_for_key(interval_ms));
	return 0;
}

static int run_screen(struct cli *c, unsigned interval_ms)
{
	static const char enter[] = "\033[?1049h\033[?25l", leave[] = "\033[?25h\033[?1049l";
	struct sigaction sa = { .sa_handler = on_stop };
	struct termios old, raw;
	struct err e = ERR_INIT;
	int r;

	if (tcgetattr(STDIN_FILENO, &old) < 0)
		return -1;
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	raw = old;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	fd_write_all(STDOUT_FILENO, enter, sizeof(enter) - 1);
	r = refresh_screen(c, interval_ms, &e);
	fd_write_all(STDOUT_FILENO, leave, sizeof(leave) - 1);
	tcsetattr(STDIN_FILENO, TCSANOW, &old);
	return r < 0 ? cli_fail(c, EXIT_FAILED, &e, "top") : 0;
}

int cmd_top(struct cli *c)
{
	const char *interval = opts_get(&c->opts, OPT_top_INTERVAL);
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	uint64_t ms = 1000;

	if (c->opts.nargs)
		return cli_usage(c, "unexpected argument '%s'", c->opts.args[0]);
	if (interval && text_duration_ms(interval, &ms, &e) < 0)
		return cli_usage(c, "option '--interval': %s", e.message);
	if (ms < 100 || ms > 3600000)
		return cli_usage(c, "option '--interval': must be between 100ms and 1h");
	if (cli_connect(c, CLI_START_IF_STORE) < 0)
		return EXIT_FAILED;
	if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		return run_screen(c, (unsigned)ms);
	if (read_processes(c, false, &out, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "top");
	return format_out(&out);
}

/*
 * `top`: the running processes with what they use, refreshed until q is pressed. The daemon reads the figures
 * (supervisor/host/tree_usage.h); a percentage is the CPU time between two readings over the time between them.
 */

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#define HEADER_ROWS 4 /* two lines above the table, its head, and the line for messages */
#define SAMPLE_MS 250 /* between the two readings if only one table is printed */
#define SHORT_ID 6    /* characters at the end of an id, which every verb accepts */
#define UNKNOWN UINT64_MAX
#define KEY_UP 1 /* as bytes that no key sends */
#define KEY_DOWN 2

struct top_row {
	char process_id[ID_LOOKUP_MAX], session_id[ID_LOOKUP_MAX], sandbox_id[ID_LOOKUP_MAX];
	char user[32], took[24];
	char *command, *json;
	uint64_t time_us, cpu_us, permille; /* of a processor; UNKNOWN until the second reading */
	uint64_t memory, tasks, read, written, pid;
	bool is_session; /* tree: the sum of the rows below it */
};

struct top_list {
	struct top_row *row;
	size_t n;
};

static const struct {
	char key;
	const char *name, *help;
} sorts[] = { { 'c', "cpu", "CPU" }, { 'm', "memory", "memory" }, { 't', "time", "CPU time" },
	      { 'i', "io", "I/O" },  { 'n', "new", "newest" },    { 'u', "user", "user" } };
enum { SORT_CPU, SORT_MEMORY, SORT_TIME, SORT_IO, SORT_NEW, SORT_USER };

struct top {
	struct cli *cli;
	struct top_list now, before;
	uint64_t now_us;
	unsigned sort, interval_ms;
	bool tree, terminal;
	char filter[128];
	size_t selected;            /* a row of the screen */
	char chosen[ID_LOOKUP_MAX]; /* its process; "" = none */
	enum { MODE_LIST, MODE_FILTER, MODE_CONFIRM } mode;
	char message[160];
};

static volatile sig_atomic_t stop_signal;
static void on_stop(int sig) { stop_signal = sig; }

/* ---- reading ---- */

static void list_done(struct top_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->row[i].command);
		free(l->row[i].json);
	}
	free(l->row);
	*l = (struct top_list){ 0 };
}

/* The filter matches the command, the user, and the ids. */
static bool is_shown(const struct top *t, const struct top_row *r)
{
	return !t->filter[0] || strcasestr(r->command, t->filter) || strstr(r->user, t->filter) ||
	       strstr(r->process_id, t->filter) || strstr(r->session_id, t->filter) || strstr(r->sandbox_id, t->filter);
}

static void set_share(const struct top *t, struct top_row *r)
{
	for (size_t i = 0; i < t->before.n; i++) {
		const struct top_row *old = &t->before.row[i];

		if (strcmp(old->process_id, r->process_id) != 0 || r->cpu_us == UNKNOWN || old->cpu_us == UNKNOWN)
			continue;
		/* The same reading may be seen twice: the previous share still holds. */
		if (r->time_us <= old->time_us)
			r->permille = old->permille;
		else
			r->permille = r->cpu_us < old->cpu_us
					      ? 0
					      : (r->cpu_us - old->cpu_us) * 1000 / (r->time_us - old->time_us);
		return;
	}
}

static bool on_process(void *ctx, struct jval p)
{
	struct top *t = ctx;
	struct jval usage = jval_get(p, "usage");
	buf_auto struct buf took = BUF_INIT, command = BUF_INIT;
	struct top_row r = { .permille = UNKNOWN, .pid = jval_uint(jval_get(p, "pid"), 0) };

	jval_str(jval_get(p, "processId"), r.process_id, sizeof(r.process_id));
	jval_str(jval_get(p, "sessionId"), r.session_id, sizeof(r.session_id));
	jval_str(jval_get(p, "sandboxId"), r.sandbox_id, sizeof(r.sandbox_id));
	if (jval_str(jval_get(p, "user"), r.user, sizeof(r.user)) == 0)
		(void)snprintf(r.user, sizeof(r.user), "%llu", (unsigned long long)jval_uint(jval_get(p, "uid"), 0));
	format_duration(p, t->now_us, &took);
	(void)snprintf(r.took, sizeof(r.took), "%s", buf_cstr(&took));
	format_command(p, &command);
	r.command = mem_strdup(buf_cstr(&command));
	r.time_us = jval_uint(jval_get(usage, "timeUs"), 0);
	r.cpu_us = jval_uint(jval_get(usage, "cpuUs"), UNKNOWN);
	r.memory = jval_uint(jval_get(usage, "memoryBytes"), UNKNOWN);
	r.tasks = jval_uint(jval_get(usage, "tasks"), UNKNOWN);
	r.read = jval_uint(jval_get(usage, "readBytes"), UNKNOWN);
	r.written = jval_uint(jval_get(usage, "writeBytes"), UNKNOWN);
	set_share(t, &r);
	if (!is_shown(t, &r)) {
		free(r.command);
		return true;
	}
	r.json = mem_strndup(p.text, p.len);
	t->now.row = mem_realloc(t->now.row, (t->now.n + 1) * sizeof(r));
	t->now.row[t->now.n++] = r;
	return true;
}

static uint64_t known(uint64_t v) { return v == UNKNOWN ? 0 : v; }

static uint64_t value_of(const struct top_row *r, unsigned sort)
{
	switch (sort) {
	case SORT_CPU: return known(r->permille);
	case SORT_MEMORY: return known(r->memory);
	case SORT_TIME: return known(r->cpu_us);
	case SORT_IO: return known(r->read) + known(r->written);
	default: return 0;
	}
}

/* Of a tree: by session, its sum first, then by sandbox. Then by the key; newest first where that is equal. */
static int compare_rows(const void *x, const void *y, void *ctx)
{
	const struct top_row *a = x, *b = y;
	const struct top *t = ctx;
	uint64_t va = value_of(a, t->sort), vb = value_of(b, t->sort);
	int r = t->tree ? -strcmp(a->session_id, b->session_id) : 0;

	if (!r && a->is_session != b->is_session)
		r = a->is_session ? -1 : 1;
	if (!r && t->tree)
		r = strcmp(a->sandbox_id, b->sandbox_id);
	if (!r && t->sort == SORT_USER)
		r = strcmp(a->user, b->user);
	if (!r)
		r = va > vb ? -1 : va < vb;
	return r ? r : -strcmp(a->process_id, b->process_id);
}

static void add_known(uint64_t *sum, uint64_t v)
{
	if (v != UNKNOWN)
		*sum = known(*sum) + v;
}

/* A row for each session, with the sums of its processes. */
static void add_sessions(struct top_list *l)
{
	size_t n = l->n;

	for (size_t i = 0; i < n; i++) {
		struct top_row *sum = NULL;

		for (size_t k = n; k < l->n && !sum; k++)
			if (strcmp(l->row[k].session_id, l->row[i].session_id) == 0)
				sum = &l->row[k];
		if (!sum) {
			l->row = mem_realloc(l->row, (l->n + 1) * sizeof(*l->row));
			sum = &l->row[l->n++];
			*sum = (struct top_row){ .is_session = true,
						 .permille = UNKNOWN,
						 .cpu_us = UNKNOWN,
						 .memory = UNKNOWN,
						 .tasks = UNKNOWN,
						 .read = UNKNOWN,
						 .written = UNKNOWN,
						 .command = mem_strdup("session") };
			memcpy(sum->session_id, l->row[i].session_id, sizeof(sum->session_id));
			memcpy(sum->user, l->row[i].user, sizeof(sum->user));
		}
		const struct top_row *r = &l->row[i];
		add_known(&sum->permille, r->permille);
		add_known(&sum->cpu_us, r->cpu_us);
		add_known(&sum->memory, r->memory);
		add_known(&sum->tasks, r->tasks);
		add_known(&sum->read, r->read);
		add_known(&sum->written, r->written);
	}
}

static int read_list(struct top *t, struct err *e)
{
	buf_auto struct buf filter = BUF_INIT;

	list_done(&t->before);
	t->before = t->now;
	t->now = (struct top_list){ 0 };
	t->now_us = clock_real_us();
	buf_str(&filter, "\"liveOnly\":true,\"usage\":true");
	return list_pages(t->cli, "list_processes", "processes", &filter, on_process, t, e);
}

/* ---- printing ---- */

/* Its last characters on a terminal, where it would be the widest column. */
static const char *handle(const struct top *t, const char *id)
{
	size_t n = strlen(id);

	return t->terminal && n > SHORT_ID ? id + n - SHORT_ID : id;
}

static void format_bytes(uint64_t v, char out[16])
{
	if (v == UNKNOWN)
		memcpy(out, "-", 2);
	else
		text_format_size(v, out);
}

static void add_row(const struct top *t, const struct top_row *r, bool chosen, struct format_table *table)
{
	char cpu[24] = "-", time[16] = "-", memory[16], tasks[24] = "-", read[16], written[16];
	mem_auto char *command = mem_printf("%s%s", t->tree && !r->is_session ? "  " : "", r->command);
	/* Not only by its colour, which not everybody sees. */
	mem_auto char *process = mem_printf("%s%s", chosen ? ">" : "", r->is_session ? "" : handle(t, r->process_id));

	if (r->permille != UNKNOWN)
		(void)snprintf(cpu, sizeof(cpu), "%llu.%llu", (unsigned long long)(r->permille / 10),
			       (unsigned long long)(r->permille % 10));
	if (r->cpu_us != UNKNOWN)
		text_format_duration(r->cpu_us / 1000, time);
	if (r->tasks != UNKNOWN)
		(void)snprintf(tasks, sizeof(tasks), "%llu", (unsigned long long)r->tasks);
	format_bytes(r->memory, memory);
	format_bytes(r->read, read);
	format_bytes(r->written, written);
	const char *const cells[] = {
		process, r->user, handle(t, r->session_id), r->took, cpu, time, memory, tasks, read, written, command
	};
	for (size_t i = 0; i < countof(cells); i++)
		format_table_cell(table, chosen ? FORMAT_CYAN : r->is_session ? FORMAT_BOLD : FORMAT_PLAIN, cells[i]);
}

/*
 * The selection stays with its process while the order changes. When that ends, the selection is the row that took its
 * place; a question whether to end it was about the process, and is withdrawn.
 */
static void follow_selection(struct top *t)
{
	bool found = false;

	for (size_t i = 0; i < t->now.n && t->chosen[0] && !found; i++) {
		found = strcmp(t->now.row[i].process_id, t->chosen) == 0;
		t->selected = found ? i : t->selected;
	}
	if (t->selected >= t->now.n)
		t->selected = t->now.n ? t->now.n - 1 : 0;
	if (!t->chosen[0] || found)
		return;
	if (t->mode == MODE_CONFIRM) {
		t->mode = MODE_LIST;
		(void)snprintf(t->message, sizeof(t->message), "%s has ended by itself", t->chosen);
	}
	(void)snprintf(t->chosen, sizeof(t->chosen), "%s", t->now.n ? t->now.row[t->selected].process_id : "");
}

static void print_table(struct top *t, size_t most, struct buf *out)
{
	static const char *const heads[] = { "PROCESS", "USER",  "SESSION", "TIME",  "%CPU",   "CPU",
					     "MEMORY",  "TASKS", "READ",    "WRITE", "COMMAND" };
	struct format_table table;

	if (t->tree)
		add_sessions(&t->now);
	if (t->now.n)
		qsort_r(t->now.row, t->now.n, sizeof(*t->now.row), compare_rows, t);
	follow_selection(t);
	size_t first = most && t->selected >= most ? t->selected - most + 1 : 0;
	format_table_init(&table, heads, countof(heads));
	for (size_t i = 0; i < countof(heads); i++)
		table.optional[i] = strstr(" SESSION TASKS READ WRITE ", heads[i]) != NULL;
	for (size_t i = first; i < t->now.n && (!most || i - first < most); i++)
		add_row(t, &t->now.row[i], t->chosen[0] && i == t->selected, &table);
	format_table_finish(&table, out);
}

static void print_screen(struct top *t, struct buf *out)
{
	unsigned height = format_height(STDOUT_FILENO);
	size_t running = t->now.n;
	buf_auto struct buf table = BUF_INIT;

	print_table(t, height > HEADER_ROWS ? height - HEADER_ROWS : 1, &table);
	buf_printf(out, "bailiff: %zu running%s%s%s   by %s%s   ? help\n", running, t->filter[0] ? ", filter \"" : "",
		   t->filter, t->filter[0] ? "\"" : "", sorts[t->sort].help, t->tree ? ", tree" : "");
	if (t->mode == MODE_FILTER)
		buf_printf(out, "filter (Enter keeps it, Esc clears it): %s_\n", t->filter);
	else if (t->mode == MODE_CONFIRM)
		buf_printf(out, "end %s with all its processes? [y]es [n]o\n", t->chosen);
	else
		buf_printf(out, "%s\n", t->message);
	buf_append(out, table.data, table.len);
}

/* ---- keys ---- */

static void on_ended(void *ctx, struct jval result, struct jval error)
{
	struct top *t = ctx;
	struct err e = ERR_INIT;

	if (error.type == JT_NONE) {
		(void)snprintf(t->message, sizeof(t->message), "ended");
	} else {
		remote_error(error, &e);
		(void)snprintf(t->message, sizeof(t->message), "cannot end it: %.120s", e.message);
	}
}

/* Does not wait: the tree may take its grace time to end. */
static void end_chosen(struct top *t)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);

	jw_obj(&w);
	jw_kstr(&w, "processId", t->chosen);
	jw_kstr(&w, "reason", "user");
	remote_key(t->cli->remote, &w);
	jw_obj_end(&w);
	remote_send(t->cli->remote, "terminate_process", &params, on_ended, t);
	(void)snprintf(t->message, sizeof(t->message), "ending %s", t->chosen);
}

static void type_filter(struct top *t, char key)
{
	size_t n = strlen(t->filter);

	if (key == '\n' || key == '\r') {
		t->mode = MODE_LIST;
	} else if (key == 27) {
		t->filter[0] = '\0';
		t->mode = MODE_LIST;
	} else if ((key == 127 || key == 8) && n) {
		t->filter[n - 1] = '\0';
	} else if (key >= ' ' && key < 127 && n + 1 < sizeof(t->filter)) {
		t->filter[n] = key;
		t->filter[n + 1] = '\0';
	}
}

/* The sums of sessions have no process and are passed over; each is above a process. */
static void select_row(struct top *t, int by)
{
	size_t at = t->selected;

	if (!t->now.n)
		return;
	if (t->chosen[0] && by > 0 && at + 1 < t->now.n)
		at++;
	else if (t->chosen[0] && by < 0 && at)
		at--;
	if (t->now.row[at].is_session)
		at = by < 0 && at ? at - 1 : at + 1;
	t->selected = at;
	(void)snprintf(t->chosen, sizeof(t->chosen), "%s", t->now.row[at].process_id);
}

/* True if the user wants to quit. */
static bool on_key(struct top *t, char key)
{
	if (t->mode == MODE_FILTER) {
		type_filter(t, key);
		return false;
	}
	if (t->mode == MODE_CONFIRM) {
		t->mode = MODE_LIST;
		if (key == 'y' || key == 'Y')
			end_chosen(t);
		else
			(void)snprintf(t->message, sizeof(t->message), "not ended");
		return false;
	}
	t->message[0] = '\0';
	for (unsigned i = 0; i < countof(sorts); i++)
		if (sorts[i].key == key)
			t->sort = i;
	switch (key) {
	case 'q':
	case 'Q': return true;
	case 'j':
	case KEY_DOWN: select_row(t, 1); break;
	case KEY_UP: select_row(t, -1); break;
	case 'v': t->tree = !t->tree; break;
	case '/':
		t->filter[0] = '\0';
		t->mode = MODE_FILTER;
		break;
	case 'k':
		if (t->chosen[0])
			t->mode = MODE_CONFIRM;
		else
			(void)snprintf(t->message, sizeof(t->message),
				       "choose a process first, with j or the arrow keys");
		break;
	case '?':
		(void)snprintf(t->message, sizeof(t->message),
			       "c CPU m memory t time i I/O n new u user  v tree / filter ↑↓ k ends q quits");
		break;
	default: break;
	}
	return false;
}

/* All keys that are there; waits for the first one. True if the user wants to quit. */
static bool wait_for_keys(struct top *t)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	char keys[64];

	if (poll(&p, 1, (int)t->interval_ms) <= 0)
		return stop_signal != 0;
	ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));
	if (n <= 0)
		return n == 0;
	for (ssize_t i = 0; i < n; i++) {
		/* An arrow key is ESC [ A; ESC alone is a key of its own. */
		bool sequence = keys[i] == 27 && i + 2 < n && keys[i + 1] == '[';
		char key = !sequence ? keys[i] : keys[i + 2] == 'A' ? KEY_UP : keys[i + 2] == 'B' ? KEY_DOWN : 0;

		if (on_key(t, key))
			return true;
		i += sequence ? 2 : 0;
	}
	return stop_signal != 0;
}

/* ---- the verb ---- */

/* Until q, Ctrl-C or a signal. An error ends it: the daemon may be gone. */
static int refresh_screen(struct top *t, struct err *e)
{
	do {
		buf_auto struct buf out = BUF_INIT, screen = BUF_INIT;

		if (read_list(t, e) < 0)
			return -1;
		print_screen(t, &out);
		/* Clear each line as it is written, then the rest below: this avoids flicker. */
		buf_str(&screen, "\033[H");
		for (const char *p = buf_cstr(&out), *nl; (nl = strchr(p, '\n')); p = nl + 1) {
			buf_append(&screen, p, (size_t)(nl - p));
			buf_str(&screen, "\033[K\n");
		}
		buf_str(&screen, "\033[J");
		if (fd_write_all(STDOUT_FILENO, screen.data, screen.len) < 0)
			return err_sys(e, errno, "write to the terminal");
	} while (!wait_for_keys(t));
	return 0;
}

/* Uses the alternate screen without echo, and restores both however it ends, or while it is stopped. */
static int run_screen(struct top *t)
{
	static const char enter[] = "\033[?1049h\033[?25l\033[?7l", leave[] = "\033[?7h\033[?25h\033[?1049l";
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGTSTP };
	struct sigaction sa = { .sa_handler = on_stop };
	struct termios old, raw;
	struct err e = ERR_INIT;
	bool stopped;
	int r;

	if (tcgetattr(STDIN_FILENO, &old) < 0)
		return -1;
	for (size_t i = 0; i < countof(signals); i++)
		sigaction(signals[i], &sa, NULL);
	raw = old;
	/* ISIG stays: Ctrl-C is a signal, and on_stop lets the loop end in order. */
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	do {
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
		fd_write_all(STDOUT_FILENO, enter, sizeof(enter) - 1);
		r = refresh_screen(t, &e);
		fd_write_all(STDOUT_FILENO, leave, sizeof(leave) - 1);
		tcsetattr(STDIN_FILENO, TCSANOW, &old);
		stopped = r == 0 && stop_signal == SIGTSTP;
		if (stopped) {
			stop_signal = 0;
			signal(SIGTSTP, SIG_DFL); /* without a shell that could continue us the kernel ignores it */
			raise(SIGTSTP);
			sigaction(SIGTSTP, &sa, NULL);
		}
	} while (stopped);
	return r < 0 ? cli_fail(t->cli, EXIT_FAILED, &e, "top") : 0;
}

/* The processes as an array, each with cpuPercent. */
static int print_json(const struct top *t)
{
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);

	jw_arr(&w);
	for (size_t i = 0; i < t->now.n; i++) {
		const struct top_row *r = &t->now.row[i];

		jw_obj(&w);
		buf_append(&out, r->json + 1, strlen(r->json) - 2); /* its members */
		w.need_comma = true;
		if (r->permille != UNKNOWN) {
			jw_key(&w, "cpuPercent");
			jw_real(&w, (double)r->permille / 10);
		}
		jw_obj_end(&w);
	}
	jw_arr_end(&w);
	return format_record(jval_of(out.data, out.len), true);
}

/* One table, or JSON: two readings, since a percentage needs them. */
static int run_once(struct top *t)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	if (read_list(t, &e) < 0)
		return cli_fail(t->cli, EXIT_FAILED, &e, "top");
	poll(NULL, 0, t->now.n ? SAMPLE_MS : 0);
	if (read_list(t, &e) < 0)
		return cli_fail(t->cli, EXIT_FAILED, &e, "top");
	if (cli_as_json(t->cli)) {
		if (t->now.n)
			qsort_r(t->now.row, t->now.n, sizeof(*t->now.row), compare_rows, t);
		return print_json(t);
	}
	print_table(t, 0, &out);
	return format_out(&out);
}

int cmd_top(struct cli *c)
{
	const char *interval = opts_get(&c->opts, OPT_top_INTERVAL), *sort = opts_get(&c->opts, OPT_top_SORT),
		   *filter = opts_get(&c->opts, OPT_top_FILTER);
	struct top t = { .cli = c, .sort = sort ? countof(sorts) : SORT_CPU, .tree = opts_has(&c->opts, OPT_top_TREE) };
	struct err e = ERR_INIT;
	uint64_t ms = 1000;

	if (c->opts.nargs)
		return cli_usage(c, "unexpected argument '%s'", c->opts.args[0]);
	if (interval && text_duration_ms(interval, &ms, &e) < 0)
		return cli_usage(c, "option '--interval': %s", e.message);
	if (ms < 100 || ms > 3600000)
		return cli_usage(c, "option '--interval': must be between 100ms and 1h");
	for (unsigned i = 0; sort && i < countof(sorts); i++)
		if (strcmp(sorts[i].name, sort) == 0)
			t.sort = i;
	if (t.sort == countof(sorts))
		return cli_usage(c, "option '--sort': '%s' is not cpu, memory, time, io, new or user", sort);
	(void)snprintf(t.filter, sizeof(t.filter), "%s", filter ? filter : "");
	if (cli_connect(c, CLI_START_IF_STORE) < 0)
		return EXIT_FAILED;
	t.interval_ms = (unsigned)ms;
	t.terminal = !cli_as_json(c) && isatty(STDIN_FILENO) && format_has_control(STDOUT_FILENO);
	int status = t.terminal ? run_screen(&t) : run_once(&t);
	list_done(&t.now);
	list_done(&t.before);
	return status;
}

/*
 * `top`: the running processes with their resource usage, refreshed until q is pressed. CPU time and memory are read
 * here, from /proc and cgroups; the daemon is asked only for the list.
 */

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

/* ---- usage ---- */

/*
 * CPU time and memory of process trees, from one pass over /proc. All processes of a command are descendants of its
 * sandbox's init, which adopts orphans, so the sum over a subtree is the whole tree; the CPU time of ended members is
 * included in their parents'.
 *
 * If a sandbox has its own cgroup, the kernel's values are used instead: they include children that were never waited
 * for and, with the memory controller, count each page once.
 */

struct tree_usage {
	struct tree_usage_member {
		uint64_t pid, parent, start_time;
		uint64_t cpu_ticks, rss_pages; /* with all descendants */
	} * members;                           /* sorted by pid */
	size_t count;
	char *tree, *root; /* mount point of the cgroup v2 tree, and its root; NULL: not mounted */
};

/* Parents may change while /proc is read: a longer chain to the root is a loop. */
#define DEPTH_MAX 4096

/* The name in parentheses may contain any character, so parse after the last ')'. */
static int read_member(const char *pid, struct tree_usage_member *ret)
{
	unsigned long long parent, utime, stime, start, rss;
	long long children_utime, children_stime;
	char path[300], text[1024];
	const char *after;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return -1;
	text[n] = 0;
	after = strrchr(text, ')');
	if (!after ||
	    sscanf(after + 1,
		   " %*c %llu %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %lld %lld %*d %*d %*d %*d %llu %*u %llu",
		   &parent, &utime, &stime, &children_utime, &children_stime, &start, &rss) != 7)
		return -1;
	*ret = (struct tree_usage_member){ .pid = strtoull(pid, NULL, 10),
					   .parent = parent,
					   .start_time = start,
					   .rss_pages = rss,
					   .cpu_ticks = utime + stime + (uint64_t)children_utime +
							(uint64_t)children_stime };
	return 0;
}

static int compare_pid(const void *a, const void *b)
{
	uint64_t x = ((const struct tree_usage_member *)a)->pid, y = ((const struct tree_usage_member *)b)->pid;

	return x < y ? -1 : x > y;
}

static struct tree_usage_member *find_process(const struct tree_usage *u, uint64_t pid)
{
	struct tree_usage_member key = { .pid = pid };

	return u->count ? bsearch(&key, u->members, u->count, sizeof(key), compare_pid) : NULL;
}

/* Adds each member's own usage to all of its ancestors. */
static void add_to_ancestors(struct tree_usage *u)
{
	struct tree_usage_member *own = mem_alloc(u->count * sizeof(*own));

	memcpy(own, u->members, u->count * sizeof(*own));
	for (size_t i = 0; i < u->count; i++) {
		struct tree_usage_member *m = find_process(u, own[i].parent);

		for (unsigned depth = 0; m && depth < DEPTH_MAX; depth++, m = find_process(u, m->parent)) {
			m->cpu_ticks += own[i].cpu_ticks;
			m->rss_pages += own[i].rss_pages;
		}
	}
	free(own);
}

/* "36 35 98:0 /root /mount/point opts … - cgroup2 source opts" */
static void find_cgroup_mount(struct tree_usage *u)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char line[2 * PATH_MAX], root[PATH_MAX], point[PATH_MAX];

	while (f && !u->tree && fgets(line, sizeof(line), f)) {
		if (!strstr(line, " - cgroup2 ") || sscanf(line, "%*s %*s %*s %4095s %4095s", root, point) != 2)
			continue;
		u->tree = mem_strdup(point);
		u->root = mem_strdup(strcmp(root, "/") == 0 ? "" : root);
	}
	if (f)
		fclose(f);
}

/* A file of /proc or of a cgroup; false if it is gone, because its process has ended. */
static bool read_text(const char *path, char *text, size_t cap)
{
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, text, cap - 1);

	text[n > 0 ? n : 0] = 0;
	return n > 0;
}

/* The directory of the cgroup of this sandbox alone: PROCESS-ATTEMPT, or ahead_… for a prebuilt sandbox. */
static bool find_leaf(const struct tree_usage *u, const char *process_id, uint64_t pid, char ret[PATH_MAX])
{
	char path[64], text[8192];
	const char *own, *name;

	snprintf(path, sizeof(path), "/proc/%llu/cgroup", (unsigned long long)pid);
	if (!u->tree || !read_text(path, text, sizeof(text)) || !(own = strstr(text, "0::/")))
		return false;
	own += 3;
	text[strcspn(own, "\n") + (size_t)(own - text)] = 0;
	name = strrchr(own, '/') + 1;
	if (strncmp(name, "ahead_", 6) != 0 && strncmp(name, process_id, strlen(process_id)) != 0)
		return false;
	if (strncmp(own, u->root, strlen(u->root)) != 0)
		return false;
	return snprintf(ret, PATH_MAX, "%s%s", u->tree, own + strlen(u->root)) < PATH_MAX;
}

/* One pass over /proc for all trees: reading it once per process would take too long. */
static void tree_usage_read(struct tree_usage *u)
{
	DIR *d = opendir("/proc");
	struct dirent *entry;
	size_t capacity = 0;

	find_cgroup_mount(u);
	while (d && (entry = readdir(d))) {
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
			continue;
		if (u->count == capacity)
			u->members = mem_realloc(u->members,
						 (capacity = capacity ? 2 * capacity : 512) * sizeof(*u->members));
		if (read_member(entry->d_name, &u->members[u->count]) == 0)
			u->count++;
	}
	if (d)
		closedir(d);
	if (!u->count)
		return;
	qsort(u->members, u->count, sizeof(*u->members), compare_pid);
	add_to_ancestors(u);
}

static void tree_usage_done(struct tree_usage *u)
{
	free(u->members);
	free(u->tree);
	free(u->root);
}

/*
 * The usage of the tree below `pid`, which must have started at `start_time` (0: any), for this bailiff process. −1 if
 * there is none.
 */
static int tree_usage_get(const struct tree_usage *u, const char *process_id, uint64_t pid, uint64_t start_time,
			  uint64_t *ret_cpu_ms, uint64_t *ret_memory_bytes)
{
	const struct tree_usage_member *m = find_process(u, pid);
	char leaf[PATH_MAX], path[PATH_MAX + 32], text[2048];
	const char *usage;

	/* The pid may have been reused. */
	if (!m || (start_time && m->start_time != start_time))
		return -1;
	*ret_cpu_ms = m->cpu_ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
	*ret_memory_bytes = m->rss_pages * (uint64_t)sysconf(_SC_PAGESIZE);
	if (!find_leaf(u, process_id, pid, leaf))
		return 0;
	/* Values from the cgroup replace those that were summed up. */
	snprintf(path, sizeof(path), "%s/cpu.stat", leaf);
	if (read_text(path, text, sizeof(text)) && (usage = strstr(text, "usage_usec ")))
		*ret_cpu_ms = strtoull(usage + 11, NULL, 10) / 1000;
	snprintf(path, sizeof(path), "%s/memory.current", leaf);
	if (read_text(path, text, sizeof(text)))
		*ret_memory_bytes = strtoull(text, NULL, 10);
	return 0;
}

/* ---- the verb ---- */

static volatile sig_atomic_t stop_signal;

struct top {
	struct format_table table;
	struct tree_usage usage;
	uint64_t now_us;
	unsigned rows, rows_max; /* processes so far; how many are shown, 0: all */
};

/* Counts all processes, but shows only as many as the terminal has rows. */
static bool on_process(void *ctx, struct jval p)
{
	struct top *top = ctx;
	struct format_table *t = &top->table;
	buf_auto struct buf took = BUF_INIT, command = BUF_INIT;
	char id[ID_LOOKUP_MAX], pid[24], cpu[16] = "-", memory[16] = "-", output[16];
	uint64_t number = jval_uint(jval_get(p, "pid"), 0), cpu_ms, memory_bytes, bytes = 0;

	top->rows++;
	if (top->rows_max && top->rows > top->rows_max)
		return true;
	jval_str(jval_get(p, "processId"), id, sizeof(id));
	snprintf(pid, sizeof(pid), "%llu", (unsigned long long)number);
	format_duration(p, top->now_us, &took);
	format_command(p, &command);
	if (tree_usage_get(&top->usage, id, number, jval_uint(jval_get(p, "startTime"), 0), &cpu_ms, &memory_bytes) ==
	    0) {
		text_format_duration(cpu_ms, cpu);
		text_format_size(memory_bytes, memory);
	}
	for (struct jiter it = jiter_on(jval_get(p, "outputs")); jiter_next(&it);)
		bytes += jval_uint(jval_get(it.value, "bytes"), 0);
	text_format_size(bytes, output);
	const char *const cells[] = { id, pid, buf_cstr(&took), cpu, memory, output, buf_cstr(&command) };
	for (size_t i = 0; i < countof(cells); i++)
		format_table_cell(t, FORMAT_PLAIN, cells[i]);
	return true;
}

static int read_processes(struct cli *c, bool on_terminal, struct buf *out, struct err *e)
{
	static const char *const heads[] = { "PROCESS", "PID", "TIME", "CPU", "MEMORY", "OUTPUT", "COMMAND" };
	unsigned height = format_height(STDOUT_FILENO);
	struct top top = { .now_us = clock_real_us(), .rows_max = on_terminal && height > 3 ? height - 3 : 0 };
	buf_auto struct buf live = BUF_INIT, table = BUF_INIT;
	int r;

	format_table_init(&top.table, heads, countof(heads));
	tree_usage_read(&top.usage);
	buf_str(&live, "\"liveOnly\":true");
	r = list_pages(c, "list_processes", "processes", &live, on_process, &top, e);
	format_table_finish(&top.table, &table);
	if (r == 0 && on_terminal)
		buf_printf(out, "bailiff: %u running   (q quits)\n\n", top.rows);
	if (r == 0)
		buf_append(out, table.data, table.len);
	tree_usage_done(&top.usage);
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

/* Until q, Ctrl-C or a signal. An error ends it: the daemon may be gone. */
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

/* Uses the alternate screen without echo, and restores both however it ends. */
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
	/* ISIG stays: Ctrl-C is a signal, and on_stop lets the loop end in order. */
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

/*
 * `daemon`: the daemon itself. None of its verbs starts one. The process to signal is the parent of the one that
 * answers on the control socket: a pid in a file may be another process's by now.
 */

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/client/home_candidates.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXIT_NOT_RUNNING 3 /* as of systemctl status */
#define POLL_MS 100
#define LOG_PIECE (64u << 10)

/* 0, or the exit status after saying that there is none. */
static int connect_running(struct cli *c)
{
	const struct remote_options none = { 0 };
	struct err e = ERR_INIT;

	if (remote_open(&none, &c->remote, &e) == 0)
		return 0;
	if (e.code != ERR_UNAVAILABLE)
		return cli_fail(c, EXIT_FAILED, &e, "daemon");
	if (cli_as_json(c)) {
		static const char stopped[] = "{\"status\":\"not_running\"}";

		(void)format_record(jval_of(stopped, sizeof(stopped) - 1), true);
	} else {
		cli_error("no daemon is running");
	}
	return EXIT_NOT_RUNNING;
}

/* ---- status ---- */

static void put_line(struct buf *out, const char *name, const char *text)
{
	buf_printf(out, "%-12s ", name);
	text_sanitize_line(text, strlen(text), out);
	buf_byte(out, '\n');
}

int daemon_status(struct cli *c)
{
	request_auto struct request q = REQUEST_INIT(q);
	buf_auto struct buf out = BUF_INIT, text = BUF_INIT;
	struct jw w = jw_on(&out);
	char up[16], size[16], status[24], version[64];
	int r = connect_running(c);

	if (r)
		return r;
	if (request_read(c, &q, "get_health") < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "daemon status");
	if (cli_as_json(c)) {
		jw_obj(&w);
		buf_append(&out, q.result.text + 1, q.result.len - 2); /* its members */
		w.need_comma = true;
		jw_kstr(&w, "socket", remote_socket_path(c->remote));
		jw_kstr(&w, "home", remote_kind(c->remote));
		jw_obj_end(&w);
		return format_record(jval_of(out.data, out.len), true);
	}
	jval_str(jval_get(q.result, "status"), status, sizeof(status));
	jval_str(jval_get(q.result, "version"), version, sizeof(version));
	text_format_duration(jval_uint(jval_get(q.result, "uptimeMs"), 0), up);
	text_format_size(jval_uint(jval_path(q.result, "store.databaseBytes"), 0) +
				 jval_uint(jval_path(q.result, "store.spoolBytes"), 0),
			 size);
	put_line(&out, "status", jval_bool(jval_get(q.result, "draining"), false) ? "draining" : status);
	put_line(&out, "version", version);
	put_line(&out, "up", up);
	put_line(&out, "socket", remote_socket_path(c->remote));
	buf_printf(&out, "%-12s %llu running, %llu ended\n", "processes",
		   (unsigned long long)jval_uint(jval_path(q.result, "processes.live"), 0),
		   (unsigned long long)jval_uint(jval_path(q.result, "processes.ended"), 0));
	put_line(&out, "store", size);
	jval_str_buf(jval_path(q.result, "store.error"), &text);
	jval_str_buf(jval_path(q.result, "store.note"), &text);
	if (text.len)
		put_line(&out, "note", text.data);
	return format_out(&out);
}

/* ---- stop and drain ---- */

static pid_t parent_of(uint64_t pid)
{
	char path[64], text[1024];
	const char *after;
	int parent = 0;

	(void)snprintf(path, sizeof(path), "/proc/%llu/stat", (unsigned long long)pid);
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	after = strrchr(text, ')');
	return after && sscanf(after + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* The daemon's main process, the parent of the one that answers; −1 after printing why it cannot be found. */
static int open_daemon(struct cli *c)
{
	request_auto struct request q = REQUEST_INIT(q);

	if (request_read(c, &q, "get_health") < 0)
		return cli_fail(c, -1, &q.e, "daemon");
	uint64_t runtime = jval_uint(jval_get(q.result, "pid"), 0);
	pid_t guard = parent_of(runtime);
	fd_auto int pidfd = guard > 1 ? (int)syscall(SYS_pidfd_open, guard, 0) : -1;
	/* If it is still the parent, the descriptor is not that of a process which got its pid meanwhile. */
	if (pidfd >= 0 && parent_of(runtime) == guard)
		return fd_take(&pidfd);
	cli_error("daemon: its main process is not visible here: another container, or /proc is restricted");
	cli_hint("systemctl stop bailiff stops the service");
	return -1;
}

struct work {
	uint64_t processes, jobs;
};

static bool count_element(void *ctx, struct jval element)
{
	++*(uint64_t *)ctx;
	return true;
}

/* What runs: commands, without the holders of sandboxes, and jobs, which start more of them. */
static int count_work(struct cli *c, struct work *ret, struct err *e)
{
	buf_auto struct buf live = BUF_INIT;

	*ret = (struct work){ 0 };
	buf_str(&live, "\"liveOnly\":true");
	if (list_pages(c, "list_processes", "processes", &live, count_element, &ret->processes, e) < 0)
		return -1;
	return list_pages(c, "list_jobs", "jobs", &live, count_element, &ret->jobs, e);
}

/* SIGTERM, and until it has ended: it records the ends of what it runs first. */
static int stop_daemon(struct cli *c)
{
	fd_auto int pidfd = open_daemon(c);
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	if (pidfd < 0)
		return EXIT_FAILED;
	if (syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0) < 0) {
		cli_error("daemon: stop it: %s", strerror(errno));
		if (errno == EPERM)
			cli_hint("it is another user's; root can stop it");
		return EXIT_FAILED;
	}
	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
	return 0;
}

int daemon_stop(struct cli *c)
{
	struct err e = ERR_INIT;
	struct work work;
	int status = connect_running(c);

	if (status)
		return status == EXIT_NOT_RUNNING ? 0 : status;
	if (count_work(c, &work, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "daemon stop");
	if (work.processes && !opts_has(&c->opts, OPT_daemon_FORCE)) {
		cli_error("daemon stop: %llu %s running, and would be ended", (unsigned long long)work.processes,
			  work.processes == 1 ? "process is" : "processes are");
		cli_hint("bailiff daemon drain waits for them; --force ends them");
		return EXIT_FAILED;
	}
	return stop_daemon(c);
}

static int set_draining(struct cli *c, bool on)
{
	request_auto struct request q = REQUEST_INIT(q);

	jw_kbool(&q.w, "on", on);
	return request_change(c, &q, "drain") < 0 ? cli_fail(c, EXIT_FAILED, &q.e, "daemon drain") : 0;
}

/* Ctrl-C leaves it draining; --cancel ends that. */
int daemon_drain(struct cli *c)
{
	const char *limit = opts_get(&c->opts, OPT_daemon_TIMEOUT);
	uint64_t left = UINT64_MAX, shown = UINT64_MAX;
	struct err e = ERR_INIT;
	int status;

	if (limit && text_duration_ms(limit, &left, &e) < 0)
		return cli_usage(c, "option '--timeout': %s", e.message);
	if ((status = connect_running(c)))
		return status == EXIT_NOT_RUNNING ? 0 : status;
	if ((status = set_draining(c, !opts_has(&c->opts, OPT_daemon_CANCEL))) || opts_has(&c->opts, OPT_daemon_CANCEL))
		return status;
	for (;;) {
		struct work work;

		if (count_work(c, &work, &e) < 0)
			return cli_fail(c, EXIT_FAILED, &e, "daemon drain");
		if (!work.processes && !work.jobs)
			return stop_daemon(c);
		if (work.processes != shown && isatty(STDERR_FILENO))
			cli_error("waiting for %llu processes and %llu jobs", (unsigned long long)work.processes,
				  (unsigned long long)work.jobs);
		shown = work.processes;
		if (left < POLL_MS) {
			cli_error("daemon drain: %llu processes are still running", (unsigned long long)work.processes);
			cli_hint("it starts nothing new until bailiff daemon drain --cancel");
			return EXIT_TIME_LIMIT;
		}
		left -= left == UINT64_MAX ? 0 : POLL_MS;
		poll(NULL, 0, POLL_MS);
	}
}

/* ---- logs ---- */

/* The log is next to the store. A service logs to the journal. */
static int open_log(void)
{
	struct home homes[HOME_CANDIDATES_MAX];
	size_t n = home_candidates(getuid(), homes);
	char path[PATH_MAX + 32];

	for (size_t i = 0; i < n; i++) {
		char *slash = strrchr(homes[i].store, '/');

		(void)snprintf(path, sizeof(path), "%.*s/daemon.log", slash ? (int)(slash - homes[i].store) : 0,
			       homes[i].store);
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0)
			return fd;
		if (errno != ENOENT)
			cli_error("%s: %s", path, strerror(errno));
	}
	cli_error("daemon logs: there is no log file");
	cli_hint("journalctl -u bailiff shows the log of the service");
	return -1;
}

/* The offset of the last `lines` lines. */
static off_t tail_start(int fd, uint64_t lines)
{
	off_t at = lseek(fd, 0, SEEK_END);
	mem_auto char *piece = mem_alloc(LOG_PIECE);
	uint64_t seen = 0;

	for (off_t end = at; lines && end > 0;) {
		off_t from = end > (off_t)LOG_PIECE ? end - (off_t)LOG_PIECE : 0;
		ssize_t n = pread(fd, piece, (size_t)(end - from), from);

		for (ssize_t i = n; i-- > 0;)
			if (piece[i] == '\n' && from + i + 1 != at && ++seen == lines)
				return from + i + 1;
		end = from;
	}
	return lines ? 0 : at;
}

int daemon_logs(struct cli *c)
{
	const char *tail = opts_get(&c->opts, OPT_daemon_TAIL);
	mem_auto char *piece = mem_alloc(LOG_PIECE);
	struct pollfd reader = { .fd = STDOUT_FILENO };
	fd_auto int fd = -1;
	ssize_t n;

	if (tail && (!tail[0] || strspn(tail, "0123456789") != strlen(tail) || strlen(tail) > 18))
		return cli_usage(c, "option '--tail': '%s' is not a number of lines", tail);
	if ((fd = open_log()) < 0)
		return EXIT_FAILED;
	(void)lseek(fd, tail ? tail_start(fd, strtoull(tail, NULL, 10)) : 0, SEEK_SET);
	while ((n = read(fd, piece, LOG_PIECE)) > 0 || (n == 0 && opts_has(&c->opts, OPT_daemon_FOLLOW))) {
		buf_auto struct buf safe = BUF_INIT;

		text_sanitize(piece, (size_t)n, &safe);
		if (n && format_out(&safe))
			return EXIT_FAILED;
		/* With no events requested, poll reports only that the reader of stdout has exited. */
		if (n == 0 && poll(&reader, 1, POLL_MS) > 0)
			return EXIT_FAILED;
	}
	return n < 0 ? EXIT_FAILED : 0;
}

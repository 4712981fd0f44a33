/*
 * Spawn to exit of /bin/true, in turns: executed plainly, by unshare and bwrap where they are given, and by bailiff
 * over its socket. A program in C, because an interpreter would add its own time to each of them, and the most to the
 * one that speaks JSON.
 *
 * bench_spawn SOCKET WORK ROUNDS PAUSE_MS UNSHARE BWRAP     ("" = not there); prints a line "NAME<tab>MICROSECONDS"
 *                                                           for each
 * bench_spawn SOCKET WORK ROUNDS PAUSE_MS UNSHARE BWRAP NAME CLIENTS
 *                                                           only this way, by so many clients at once, ROUNDS each;
 *                                                           prints "WALL<tab>CPU", microseconds of all of them: CPU is
 *                                                           that of the clients and of their children, which is the
 *                                                           whole cost of a way without a daemon
 */

#include "runtime/base/buf.h"

#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct bench {
	int fd;
	const char *work, *unshare, *bwrap;
	struct buf answer;
};

static _Noreturn void stop(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- the others ---- */

static void run(const char *const *argv)
{
	static char *const none[] = { NULL };
	pid_t pid;
	int status;

	if (posix_spawn(&pid, argv[0], NULL, NULL, (char *const *)argv, none) != 0 || waitpid(pid, &status, 0) != pid ||
	    status != 0)
		stop(argv[0]);
}

static void by_vfork(struct bench *b) { run((const char *const[]){ "/bin/true", NULL }); }

static void by_unshare(struct bench *b)
{
	run((const char *const[]){ b->unshare, "--pid", "--fork", "--mount-proc",
				   geteuid() ? "--map-root-user" : "/bin/true", geteuid() ? "/bin/true" : NULL, NULL });
}

/* What the profile workspace is made of, as far as bwrap has it: no Landlock, no filter, no limits, no facts. */
static void by_bwrap(struct bench *b)
{
	run((const char *const[]){ b->bwrap,
				   "--unshare-all",
				   "--die-with-parent",
				   "--new-session",
				   "--ro-bind",
				   "/",
				   "/",
				   "--dev",
				   "/dev",
				   "--proc",
				   "/proc",
				   "--tmpfs",
				   "/tmp",
				   "--tmpfs",
				   "/home",
				   "--tmpfs",
				   "/root",
				   "--tmpfs",
				   "/run",
				   "--bind",
				   b->work,
				   b->work,
				   "--chdir",
				   b->work,
				   "--cap-drop",
				   "ALL",
				   "--clearenv",
				   "--setenv",
				   "PATH",
				   "/usr/bin:/bin",
				   "/bin/true",
				   NULL });
}

/* ---- bailiff ---- */

/* One request at a time: what comes back is its answer, a line. */
static const char *call(struct bench *b, const struct buf *request)
{
	char piece[8192];
	ssize_t n;

	if (send(b->fd, request->data, request->len, MSG_NOSIGNAL) != (ssize_t)request->len)
		stop("send");
	b->answer.len = 0;
	do {
		n = recv(b->fd, piece, sizeof(piece), 0);
		if (n <= 0)
			stop("recv");
		buf_append(&b->answer, piece, (size_t)n);
	} while (piece[n - 1] != '\n');
	if (strstr(buf_cstr(&b->answer), "\"error\":{")) {
		fprintf(stderr, "%s", buf_cstr(&b->answer));
		exit(1);
	}
	return buf_cstr(&b->answer);
}

/* Start and wait are one request. `where` is the parameter that names the profile or the session sandbox. */
static void by_bailiff(struct bench *b, const char *where)
{
	buf_auto struct buf start = BUF_INIT;

	buf_printf(&start,
		   "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"start_process\",\"params\":{\"command\":[\"/bin/"
		   "true\"],%s,\"cwd\":\"%s\",\"yieldMs\":60000}}\n",
		   where, b->work);
	if (!strstr(call(b, &start), "\"exitCode\":0"))
		stop("start_process");
}

static void by_workspace(struct bench *b) { by_bailiff(b, "\"profile\":\"workspace\""); }

static void by_isolated(struct bench *b) { by_bailiff(b, "\"profile\":\"isolated\""); }

/* bench.py has created it. */
static void by_session(struct bench *b) { by_bailiff(b, "\"sandboxId\":\"bench\""); }

static int connect_to(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0)
		stop(path);
	return fd;
}

struct way {
	const char *name;
	void (*run)(struct bench *b);
	bool there;
};

static void measure_in_turns(struct bench *b, const struct way *ways, size_t n, int rounds,
			     const struct timespec *pause)
{
	for (int round = -1; round < rounds; round++) {
		for (size_t i = 0; i < n; i++) {
			if (!ways[i].there)
				continue;
			uint64_t begin = now_ns();
			ways[i].run(b);
			if (round >= 0)
				printf("%s\t%.1f\n", ways[i].name, (double)(now_ns() - begin) / 1e3);
			nanosleep(pause, NULL);
		}
	}
}

static double cpu_us(int who)
{
	struct rusage u;

	getrusage(who, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/*
 * Each client is a process with a connection of its own. It reaps what its children leave behind (bwrap does not wait
 * for the sandbox's pid 1), so that their CPU time counts.
 */
static void measure_clients(struct bench *b, const char *path, const struct way *way, int rounds, int clients,
			    const struct timespec *pause)
{
	uint64_t begin = now_ns();

	for (int i = 0; i < clients; i++) {
		pid_t pid = fork();
		if (pid < 0)
			stop("fork");
		if (pid > 0)
			continue;
		prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
		b->fd = connect_to(path);
		for (int round = 0; round < rounds; round++) {
			way->run(b);
			if (pause->tv_nsec)
				nanosleep(pause, NULL);
		}
		while (wait(NULL) > 0)
			continue;
		_exit(0);
	}
	for (int status; wait(&status) > 0;) {
		if (status != 0)
			stop("a client failed");
	}
	printf("%.1f\t%.1f\n", (double)(now_ns() - begin) / 1e3, cpu_us(RUSAGE_SELF) + cpu_us(RUSAGE_CHILDREN));
}

int main(int argc, char **argv)
{
	if (argc != 7 && argc != 9) {
		fprintf(stderr, "usage: bench_spawn SOCKET WORK ROUNDS PAUSE_MS UNSHARE BWRAP [NAME CLIENTS]\n");
		return 2;
	}
	struct bench b = { .fd = connect_to(argv[1]), .work = argv[2], .unshare = argv[5], .bwrap = argv[6] };
	const struct timespec pause = { .tv_nsec = atol(argv[4]) * 1000000 };
	const struct way ways[] = {
		{ "vfork+exec", by_vfork, true },  { "unshare", by_unshare, b.unshare[0] },
		{ "bwrap", by_bwrap, b.bwrap[0] }, { "workspace", by_workspace, true },
		{ "isolated", by_isolated, true }, { "session", by_session, true },
	};
	const size_t n = sizeof(ways) / sizeof(ways[0]);

	if (argc == 7)
		measure_in_turns(&b, ways, n, atoi(argv[3]), &pause);
	for (size_t i = 0; argc == 9 && i < n; i++) {
		if (strcmp(ways[i].name, argv[7]) == 0)
			measure_clients(&b, argv[1], &ways[i], atoi(argv[3]), atoi(argv[8]), &pause);
	}
	buf_done(&b.answer);
	close(b.fd);
	return 0;
}

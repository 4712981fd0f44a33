#ifndef BAILIFF_TESTS_RIG_H
#define BAILIFF_TESTS_RIG_H

/*
 * A real guard with a real spawner and the test as runtime: the program that the guard starts as runtime only sends its
 * links to the test and waits to be killed. So a test can send and receive the messages of both protocols one by one.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "sandbox/plan.h"
#include "sandbox/status.h"
#include "sandbox/tree_limit.h"
#include "supervisor/common/process_title.h"
#include "supervisor/guard/guard.h"
#include "supervisor/proxy/proxy.h"
#include "supervisor/spawner/spawner.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define RIG_TIMEOUT_MS 60000

struct rig {
	pid_t guard;
	int guard_pidfd;
	int meet;       /* new runtimes send their links here */
	int link, peer; /* copies of the current runtime's */
	pid_t runtime;
	int client[2];
	unsigned started;
};

/* What the runtime's program sends with its two links. */
struct rig_hello {
	int32_t pid;
};

static char *const rig_runtime_argv[] = { (char *)"rig: runtime", (char *)"--role", (char *)"runtime", NULL };
static char rig_tag[32]; /* of its cgroups: tests run in parallel */
static char *const rig_spawner_argv[] = { (char *)"rig: spawner", (char *)"--role", (char *)"spawner", rig_tag, NULL };
static char *const rig_proxy_argv[] = { (char *)"rig: proxy", (char *)"--role", (char *)"proxy", NULL };
static char *const rig_guard_argv[] = { (char *)"rig: guard", (char *)"--role", (char *)"guard", rig_tag, NULL };

static inline struct guard_options rig_guard_options(const char *exe)
{
	return (struct guard_options){
		.exe = exe,
		.spawner_fd = -1,
		.argv = { [GUARD_RUNTIME] = rig_runtime_argv,
			  [GUARD_SPAWNER] = rig_spawner_argv,
			  [GUARD_PROXY] = rig_proxy_argv },
		.listen_fd = -1,
		.store_fd = -1,
		.spool_fd = -1,
		.cow_fd = -1,
		.lock_fd = -1,
		.audit_fd = -1,
		.ready_fd = -1,
		.upgrade_exe = exe,
		.upgrade_argv = rig_guard_argv,
		.resume_fd = -1,
	};
}

static inline int rig_role_runtime(void)
{
	struct rig_hello hello = { .pid = getpid() };
	int links[2] = { GUARD_FD_LINK, GUARD_FD_PEER };
	if (fd_send(GUARD_FD_LISTEN, &hello, sizeof hello, links, 2, 0) < 0)
		return 1;
	close(GUARD_FD_LINK);
	close(GUARD_FD_PEER);
	for (;;)
		pause();
}

static inline char *rig_exe(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
	path[n > 0 ? n : 0] = 0;
	return mem_strdup(path);
}

/* A test has no cgroup of its own: cgroups of sandboxes are created below the one that it is in. */
static inline const struct cgroup_base *rig_base(void)
{
	static struct cgroup_base base;
	if (!base.path[0] && cgroup_own_folder(base.path, NULL) < 0)
		base.path[0] = 0;
	return &base;
}

/* Must be called first in main: ≥ 0 is the exit status of a role, −1: this process is the test. */
static inline int rig_role(int argc, char **argv)
{
	static struct process_title title;
	if (argc < 3 || strcmp(argv[1], "--role") != 0)
		return -1;
	log_setup("rig", LOG_LEVEL_ERROR, false);
	process_title_init(&title, argc, argv);
	if (strcmp(argv[2], "runtime") == 0)
		return rig_role_runtime();
	if (strcmp(argv[2], "proxy") == 0)
		return proxy_main();
	snprintf(rig_tag, sizeof rig_tag, "%s", argv[3]);
	if (strcmp(argv[2], "spawner") == 0)
		return spawner_main(&(struct spawner_options){ .cgroup_tag = rig_tag,
							       .cgroup_base = rig_base(),
							       .title = &title,
							       .allow_host = !getenv("RIG_NO_HOST"),
							       .zygotes = getenv("RIG_PREBUILT") ? 2 : 0,
							       .spare_ms = getenv("RIG_IDLE") ? 0 : 10 * RIG_TIMEOUT_MS,
							       .config_dir = getenv("RIG_CONFIG"),
							       .state_dir = getenv("RIG_STATE") });
	mem_auto char *exe = rig_exe();
	struct guard_options o = rig_guard_options(exe);
	o.resume_fd = (int)strtol(argv[5], NULL, 10);
	return guard_run(&o);
}

static inline void rig_readable(int fd, const char *what)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ck_assert_msg(poll(&p, 1, RIG_TIMEOUT_MS) == 1, "timeout while waiting for %s", what);
}

/* The links of the runtime that the guard started last. */
static inline void rig_await_runtime(struct rig *r)
{
	struct rig_hello hello;
	int links[2];
	size_t n = 2;
	rig_readable(r->meet, "a runtime");
	ck_assert_int_eq(fd_recv(r->meet, &hello, sizeof hello, links, &n, 0), sizeof hello);
	ck_assert_uint_eq(n, 2);
	r->runtime = hello.pid;
	r->link = links[0];
	r->peer = links[1];
	struct guard_msg m = { .kind = GUARD_READY };
	ck_assert_int_eq(fd_send(r->link, &m, sizeof m, NULL, 0, 0), 0);
}

static inline void rig_start(struct rig *r)
{
	int meet[2];
	*r = (struct rig){ .link = -1, .peer = -1 };
	log_setup("rig", LOG_LEVEL_ERROR, false);
	snprintf(rig_tag, sizeof rig_tag, "bailiff-unit-%d", getpid());
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, meet), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, r->client), 0);
	r->guard = fork();
	if (r->guard == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		close(meet[0]);
		close(r->client[0]);
		close(r->client[1]);
		char *exe = rig_exe();
		struct guard_options o = rig_guard_options(exe);
		o.listen_fd = meet[1];
		_exit(guard_run(&o));
	}
	close(meet[1]);
	r->meet = meet[0];
	r->guard_pidfd = fd_pidfd_open(r->guard);
	rig_await_runtime(r);
}

static inline void rig_drop_links(struct rig *r)
{
	fd_close(&r->link);
	fd_close(&r->peer);
}

static inline void rig_kill_runtime(struct rig *r)
{
	kill(r->runtime, SIGKILL);
	rig_drop_links(r);
}

/* An init begins as a copy of the spawner and has its name for a moment, even if the spawner is dead; its namespace
 * tells them apart.
 */
static inline bool rig_in_own_namespace(pid_t pid)
{
	char name[64], text[4096];
	snprintf(name, sizeof name, "/proc/%d/status", pid);
	fd_auto int fd = open(name, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	text[len > 0 ? len : 0] = 0;
	const char *pids = strstr(text, "\nNSpid:\t");
	return !pids || pids[8 + strcspn(pids + 8, "\t\n")] == '\t';
}

/* 0: not started yet. */
static inline pid_t rig_spawner_pid(const struct rig *r)
{
	char name[64];
	snprintf(name, sizeof name, "/proc/%d/task/%d/children", r->guard, r->guard);
	FILE *f = fopen(name, "re");
	ck_assert_ptr_nonnull(f);
	int pid, found = 0;
	while (!found && fscanf(f, "%d", &pid) == 1) {
		char comm[32] = "", path[64];
		snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
		fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, comm, sizeof comm - 1) > 0 && strcmp(comm, "rig: spawner") == 0 &&
		    !rig_in_own_namespace(pid))
			found = pid;
	}
	fclose(f);
	return found;
}

/* The number of prebuilt sandboxes, and up to `room` of their pids. */
static inline size_t rig_prebuilt(const struct rig *r, pid_t *ret, size_t room)
{
	char name[64];
	size_t n = 0;
	int pid;
	snprintf(name, sizeof name, "/proc/%d/task/%d/children", r->guard, r->guard);
	FILE *f = fopen(name, "re");
	ck_assert_ptr_nonnull(f);
	while (fscanf(f, "%d", &pid) == 1) {
		char comm[32] = "", path[64];
		snprintf(path, sizeof path, "/proc/%d/comm", pid);
		fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || read(fd, comm, sizeof comm - 1) <= 0 || strcmp(comm, "bailiff-zygote\n") != 0)
			continue;
		if (n < room)
			ret[n] = pid;
		n++;
	}
	fclose(f);
	return n;
}

/* Waits until there are at least n. */
static inline void rig_await_prebuilt(const struct rig *r, size_t n)
{
	for (int ms = 0; rig_prebuilt(r, NULL, 0) < n; ms++) {
		ck_assert_int_lt(ms, RIG_TIMEOUT_MS);
		poll(NULL, 0, 1);
	}
}

static inline struct guard_msg rig_guard_message(struct rig *r, int *ret_fds, size_t *nfds)
{
	struct guard_msg m;
	rig_readable(r->link, "the guard");
	ck_assert_int_eq(fd_recv(r->link, &m, sizeof m, ret_fds, nfds, 0), sizeof m);
	return m;
}

static inline void rig_take_new_peer(struct rig *r)
{
	int fd = -1;
	size_t n = 1;
	struct guard_msg m = rig_guard_message(r, &fd, &n);
	ck_assert_uint_eq(m.kind, GUARD_PEER);
	ck_assert_uint_eq(n, 1);
	fd_close(&r->peer);
	r->peer = fd;
}

static inline void rig_sync(struct rig *r)
{
	struct spawn_msg m = { .kind = SPAWN_SYNC };
	ck_assert_int_eq(fd_send(r->peer, &m, sizeof m, NULL, 0, 0), 0);
	rig_readable(r->peer, "SYNCED");
	ck_assert_int_eq(fd_recv(r->peer, &m, sizeof m, NULL, NULL, 0), sizeof m);
	ck_assert_uint_eq(m.kind, SPAWN_SYNCED);
}

static inline void rig_kill_guard(struct rig *r)
{
	if (!r->guard)
		return;
	kill(r->guard, SIGKILL);
	ck_assert_int_eq(waitpid(r->guard, NULL, 0), r->guard);
	r->guard = 0;
	rig_drop_links(r);
	fd_close(&r->meet);
}

static inline void rig_stop(struct rig *r)
{
	struct tree_limiter limiter = { 0 };

	rig_kill_guard(r);
	cgroup_kill_leftovers(rig_base()->path, rig_tag);
	tree_limiter_open(&limiter, rig_base(), rig_tag);
	tree_limiter_close(&limiter);
	fd_close(&r->guard_pidfd);
	fd_close(&r->client[0]);
	fd_close(&r->client[1]);
}

/* ---- one command ---- */

struct run {
	struct plan_key key;
	int fd[GUARD_SLOT_COUNT]; /* our ends */
	pid_t pid;
	struct spawn_msg answer;
};

struct run_spec {
	const char *const *argv; /* NULL-terminated */
	const char *cwd;         /* "/" */
	uint32_t flags, require;
	uint64_t cpu_ms, open_files; /* 0 = none */
	const struct plan_mount_spec *mounts;
	size_t nmounts;
	uint32_t network;
	uint64_t tmp_bytes;
	uint32_t less_layers; /* not requested */
	uint64_t hint, token; /* of rig_expect */
};

static inline int run_plan(const struct run_spec *s)
{
	static const char *const envv[] = { "PATH=/usr/bin:/bin", "RIG=1" };
	struct plan_spec p = {
		.flags = s->flags,
		.layers = PLAN_LAYER_NAMESPACES | PLAN_LAYER_MOUNTS | PLAN_LAYER_CAPABILITIES | PLAN_LAYER_CGROUP |
			  s->require,
		.require = s->require,
		.cwd = s->cwd ? s->cwd : "/",
		.argv = s->argv,
		.envv = envv,
		.envc = countof(envv),
		.cpu_ms = s->cpu_ms ? s->cpu_ms : PLAN_UNLIMITED,
		.open_files = s->open_files ? s->open_files : PLAN_UNLIMITED,
		.file_bytes = PLAN_UNLIMITED,
		.mounts = s->mounts,
		.nmounts = s->nmounts,
		.network = s->network,
		.tmp_bytes = s->tmp_bytes,
	};
	p.layers &= ~s->less_layers;
	if (s->flags & PLAN_TTY) {
		p.tty_rows = 24;
		p.tty_cols = 80;
	}
	while (s->argv[p.argc])
		p.argc++;
	buf_auto struct buf b = BUF_INIT;
	struct err e = ERR_INIT;
	ck_assert_msg(plan_build(&p, &b, &e) == 0, "%s", e.message);
	return fd_memfd_sealed("plan", b.data, b.len);
}

/* Creates the pipes, deposits our ends and sends START; does not wait for the reply. */
/* Announces that a start may follow. */
static inline void rig_expect(struct rig *r, uint64_t hint, uint64_t token)
{
	const struct spawn_msg m = { .kind = SPAWN_ANNOUNCE, .hint = hint, .token = token, .cpu = -1 };
	ck_assert_int_eq(fd_send(r->peer, &m, sizeof m, NULL, 0, 0), 0);
}

static inline void run_send(struct rig *r, struct run *run, const struct run_spec *s)
{
	int out[2], err[2], in[2], gate[2], status[2], fds[8];
	*run = (struct run){ 0 };
	for (int i = 0; i < GUARD_SLOT_COUNT; i++)
		run->fd[i] = -1;
	snprintf(run->key.id, sizeof run->key.id, "proc_%d_%u", getpid(), r->started++);
	ck_assert(pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0 && pipe2(gate, O_CLOEXEC) == 0);
	ck_assert((s->flags & PLAN_HOLDER ? socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, in)
					  : pipe2(in, O_CLOEXEC)) == 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, status), 0);
	run->fd[GUARD_SLOT_STDOUT] = out[0];
	run->fd[GUARD_SLOT_STDERR] = err[0];
	run->fd[GUARD_SLOT_STDIN] = in[1];
	run->fd[GUARD_SLOT_STATUS] = status[0];
	run->fd[GUARD_SLOT_GATE] = gate[1];
	struct guard_msg d = { .kind = GUARD_DEPOSIT, .key = run->key, .slots = (1u << GUARD_SLOT_PIDFD) - 1 };
	ck_assert_int_eq(fd_send(r->link, &d, sizeof d, run->fd, 5, 0), 0);
	size_t n = 0;
	fds[n++] = run_plan(s);
	fds[n++] = r->client[0];
	fds[n++] = status[1];
	fds[n++] = gate[0];
	if (!(s->flags & PLAN_TTY))
		fds[n++] = out[1];
	if (!(s->flags & (PLAN_STDERR_MERGE | PLAN_TTY)))
		fds[n++] = err[1];
	if (s->flags & PLAN_STDIN_PIPE)
		fds[n++] = in[0];
	struct spawn_msg m = {
		.kind = SPAWN_START, .flags = s->flags, .key = run->key, .hint = s->hint, .token = s->token, .cpu = -1
	};
	ck_assert_int_eq(fd_send(r->peer, &m, sizeof m, fds, n, 0), 0);
	close(fds[0]);
	int ours[] = { status[1], gate[0], out[1], err[1], in[0] };
	for (size_t i = 0; i < countof(ours); i++)
		close(ours[i]);
}

static inline void run_answer(struct rig *r, struct run *run)
{
	int fd = -1;
	size_t n = 1;
	rig_readable(r->peer, "the spawner's answer");
	ck_assert_int_eq(fd_recv(r->peer, &run->answer, sizeof run->answer, &fd, &n, 0), sizeof run->answer);
	run->fd[GUARD_SLOT_PIDFD] = n ? fd : -1;
	run->pid = run->answer.pid;
}

static inline void run_open_gate(struct run *run)
{
	/* If a step before the gate failed, the init has exited: the status has the reason. */
	void (*before)(int) = signal(SIGPIPE, SIG_IGN);
	ck_assert(write(run->fd[GUARD_SLOT_GATE], "g", 1) == 1 || errno == EPIPE);
	signal(SIGPIPE, before);
	fd_close(&run->fd[GUARD_SLOT_GATE]);
}

static inline struct status_msg run_status(struct run *run)
{
	struct status_msg m = { 0 };
	rig_readable(run->fd[GUARD_SLOT_STATUS], "a status message");
	int fd = -1;
	size_t nfds = 1;
	ssize_t n = fd_recv(run->fd[GUARD_SLOT_STATUS], &m, sizeof m, &fd, &nfds, 0);
	ck_assert_msg(n == 0 || n == (ssize_t)sizeof m, "status: %zd bytes", n);
	if (n > 0 && nfds && m.kind == STATUS_EXITED) { /* a report on files that the command changed */
		close(fd);
	} else if (n > 0 && nfds) {
		int listens = 0;
		socklen_t len = sizeof listens;
		ck_assert_uint_eq(m.kind, STATUS_READY);
		bool net = getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && listens;
		run->fd[net ? GUARD_SLOT_NET : GUARD_SLOT_PTY] = fd;
	}
	return m;
}

/* Starts a command and opens its gate; returns when it has been executed. */
static inline void run_start(struct rig *r, struct run *run, const struct run_spec *s)
{
	run_send(r, run, s);
	run_answer(r, run);
	ck_assert_msg(run->answer.kind == SPAWN_STARTED, "not started: %s: %s", strerror(run->answer.error),
		      run->answer.path);
	ck_assert_uint_ne(run->answer.start_time, 0);
	ck_assert_uint_eq(run_status(run).kind, STATUS_READY);
	run_open_gate(run);
	struct status_msg m = run_status(run);
	ck_assert_msg(m.kind == STATUS_EXECED, "not executed: %s: %s: %s", sandbox_step_name(m.step), m.path,
		      strerror(m.error));
}

static inline size_t run_read(struct run *run, enum guard_slot slot, char *out, size_t cap)
{
	size_t have = 0;
	for (;;) {
		rig_readable(run->fd[slot], "output");
		ssize_t n = read(run->fd[slot], out + have, cap - 1 - have);
		ck_assert_int_ge(n, 0);
		if (n == 0)
			break;
		have += (size_t)n;
	}
	out[have] = 0;
	return have;
}

static inline void run_send_status(struct run *run, uint32_t kind, uint32_t sig)
{
	struct status_msg m = { .kind = kind, .signal = sig };
	ck_assert_int_eq(fd_send(run->fd[GUARD_SLOT_STATUS], &m, sizeof m, NULL, 0, 0), 0);
}

/* Releases a process and returns the value of RELEASED. */
static inline uint32_t run_release(struct rig *r, struct run *run)
{
	struct guard_msg m = { .kind = GUARD_RELEASE, .key = run->key };
	ck_assert_int_eq(fd_send(r->link, &m, sizeof m, NULL, 0, 0), 0);
	m = rig_guard_message(r, NULL, NULL);
	ck_assert_uint_eq(m.kind, GUARD_RELEASED);
	ck_assert_int_eq(memcmp(&m.key, &run->key, sizeof m.key), 0);
	struct spawn_msg clean = { .kind = SPAWN_CLEAN, .key = run->key };
	ck_assert_int_eq(fd_send(r->peer, &clean, sizeof clean, NULL, 0, 0), 0);
	return m.value;
}

static inline void run_close(struct run *run)
{
	for (int i = 0; i < GUARD_SLOT_COUNT; i++)
		fd_close(&run->fd[i]);
}

#define SH(script) ((const char *const[]){ "sh", "-c", script, NULL })

/* ---- the program ---- */

static inline int rig_suite(int argc, char **argv, const char *name, const struct suite_case *cases, size_t n)
{
	int role = rig_role(argc, argv);
	return role >= 0 ? role : suite_run_cases(name, cases, n);
}

/* int main(int argc, char **argv) { return RIG_SUITE(argc, argv, "noun", "case", setup, teardown, 300, a_test,
 * another_test); } */
#define RIG_SUITE(argc, argv, name, case_name, setup, teardown, seconds, ...) \
	rig_suite(argc, argv, name,                                           \
		  (const struct suite_case[]){ { case_name, setup, teardown, seconds, SUITE_TESTS(__VA_ARGS__) } }, 1)

#endif

/*
 * The kernel's audit, through its netlink sockets. A socket that receives records is never used for requests, because
 * replies and records would mix.
 *
 * Records are read from the multicast group, which any number of programs can join, so an audit daemon and several
 * bailiff daemons each get all of them. If no program is registered as the recipient, the kernel prints each record to
 * its log instead. To keep the log clean the guard then registers a second socket. Its filter drops everything except
 * the kernel's check whether the recipient is alive, which the kernel makes when an audit daemon wants to register; the
 * guard then withdraws (audit_recipient_wanted).
 */

#include "sandbox/audit.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/audit_private.h"
#include "sandbox/violation.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define RECEIVE_BYTES (64 << 20) /* records queued while the runtime is restarted or starved */
#define BACKLOG 8192u            /* records in the kernel before the tasks that cause them are delayed */
#define TRIAL_UID 65534

/* ---- filters ---- */

/*
 * Accepts messages of these types only. Messages that a filter drops count as delivered and need no buffer space.
 * Filter loads are big-endian; the header is in host byte order.
 */
static int accept_only(int fd, const uint16_t *types, size_t n)
{
	struct sock_filter code[2 * 16 + 2];
	size_t k = 0;
	if (n > 16) {
		errno = E2BIG;
		return -1;
	}
	code[k++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_H | BPF_ABS, offsetof(struct nlmsghdr, nlmsg_type));
	for (size_t i = 0; i < n; i++) {
		code[k++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(types[i]), 0, 1);
		code[k++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, UINT32_MAX);
	}
	code[k++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
	const struct sock_fprog program = { .len = (unsigned short)k, .filter = code };
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

/*
 * Joins the multicast group with a receive buffer for bursts. Records that do not fit are dropped and counted by the
 * socket (audit_congestions). ENOBUFS is switched off, since a socket with that error receives nothing until it was
 * drained.
 */
static int open_reader(void)
{
	static const uint16_t types[] = {
		AUDIT_SYSCALL,   AUDIT_CWD, AUDIT_PATH,    AUDIT_PROCTITLE,
		AUDIT_SOCKADDR,  AUDIT_EOE, AUDIT_SECCOMP, AUDIT_LANDLOCK_ACCESS,
		AUDIT_MARK_TYPE,
	};
	const struct sockaddr_nl group = { .nl_family = AF_NETLINK, .nl_groups = 1u << (AUDIT_NLGRP_READLOG - 1) };
	const int size = RECEIVE_BYTES, on = 1;
	fd_auto int fd = audit_open();
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0 ||
	    setsockopt(fd, SOL_NETLINK, NETLINK_NO_ENOBUFS, &on, sizeof on) < 0 ||
	    accept_only(fd, types, countof(types)) < 0 || bind(fd, (const struct sockaddr *)&group, sizeof group) < 0 ||
	    fd_nonblock(fd, true) < 0)
		return -1;
	return fd_take(&fd);
}

uint32_t audit_congestions(int fd)
{
	uint32_t info[SK_MEMINFO_VARS] = { 0 };
	socklen_t n = sizeof info;
	return getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &n) < 0 ? 0 : info[SK_MEMINFO_DROPS];
}

bool audit_is_reader(int fd)
{
	struct sockaddr_nl name = { 0 };
	socklen_t n = sizeof name;
	return getsockname(fd, (struct sockaddr *)&name, &n) == 0 && name.nl_groups;
}

/* ---- the host's state ---- */

static bool is_alive(uint32_t pid) { return pid && (kill((pid_t)pid, 0) == 0 || errno == EPERM); }

static int set_unavailable(struct err *e, const char *what)
{
	int errnum = errno;
	if (errnum == ECONNREFUSED || errnum == EPERM)
		return err_set(e, ERR_UNAVAILABLE,
			       "%s: requires the host's own namespaces, CAP_AUDIT_CONTROL and CAP_AUDIT_READ", what);
	return err_set(e, ERR_UNAVAILABLE, "%s: %s", what, strerror(errnum));
}

struct host_audit {
	struct audit_status status;
	struct audit_rules_state rules;
	pid_t owner; /* alive, and not this process; 0 = none */
};

static int read_host(int ctl, struct host_audit *h, struct err *e)
{
	if (audit_get_status(ctl, &h->status) < 0)
		return set_unavailable(e, "the kernel does not answer about audit");
	bool self = h->status.pid == (uint32_t)getpid();
	h->owner = !self && is_alive(h->status.pid) ? (pid_t)h->status.pid : 0;
	if (audit_rules_read(ctl, self ? getpid() : h->owner, &h->rules) < 0)
		return set_unavailable(e, "list the audit rules");
	return 0;
}

static bool belongs_to_another(const struct host_audit *h)
{
	return h->rules.foreign || (h->owner && !h->rules.owner_is_bailiff);
}

/* Switches audit on. If no other program uses it, excludes tasks outside of sandboxes. */
static int apply_settings(int ctl, const struct host_audit *h, struct err *e)
{
	bool was_off = !h->status.enabled || h->rules.task_rule || h->rules.others_task_rule;
	bool another = belongs_to_another(h);
	if (h->status.enabled == 2)
		return err_set(e, ERR_UNAVAILABLE,
			       "the audit rules are immutable until the next boot (auditctl -e 2); boot without that "
			       "to get exact denials");
	if (!h->status.enabled && h->owner && !h->rules.owner_is_bailiff)
		return err_set(e, ERR_UNAVAILABLE,
			       "audit is switched off although process %d owns it; auditctl -e 1 switches it on",
			       (int)h->owner);
	if (another && h->rules.task_rule && audit_rules_remove_task(ctl) < 0)
		return set_unavailable(e, "remove an audit rule");
	if (audit_rules_add(ctl, was_off && !another) < 0)
		return set_unavailable(e, "add audit rules");
	struct audit_status s = { .mask = AUDIT_STATUS_ENABLED, .enabled = 1 };
	if (!another) { /* otherwise its user sets the limits */
		s.mask |= AUDIT_STATUS_RATE_LIMIT | AUDIT_STATUS_BACKLOG_LIMIT;
		s.backlog_limit = BACKLOG;
	}
	if ((!h->status.enabled || !another) && audit_request(ctl, AUDIT_SET, &s, sizeof s) < 0)
		return set_unavailable(e, "switch audit on");
	return 0;
}

/* ---- a trial ---- */

/*
 * In a separate process: reports its session, then its child attempts an operation that is denied to all but root.
 * Nothing here allocates.
 */
static void trial_child(int out)
{
	uint32_t session = audit_enter_session();
	(void)!write(out, &session, sizeof session);
	pid_t pid = fork(); /* the kernel decides whether to audit a task when it is created */
	if (pid == 0) {
		if (syscall(SYS_setresuid, TRIAL_UID, TRIAL_UID, TRIAL_UID) == 0)
			(void)kill(1, 0);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
	_exit(0);
}

static bool record_comes(int reader, uint32_t session, unsigned ms)
{
	struct audit_message m;
	char word[32];
	int n = snprintf(word, sizeof word, " ses=%u ", session);
	for (;;) {
		ssize_t got = audit_receive_within(reader, (int)ms, &m);
		if (got < 0 && errno == ETIMEDOUT)
			return false;
		if (got > 0 && m.head.nlmsg_type == AUDIT_SYSCALL && memmem(&m, (size_t)got, word, (size_t)n))
			return true;
	}
}

/*
 * Other programs' rules, a namespace or a locked login uid can suppress records. So provoke a denial and wait for its
 * record.
 */
static int try_out(int reader, const struct host_audit *h, unsigned ms, struct err *e)
{
	int fds[2];
	uint32_t session = AUDIT_NO_SESSION;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return set_unavailable(e, "try audit");
	pid_t pid = fork();
	if (pid == 0)
		trial_child(fds[1]);
	close(fds[1]);
	if (pid > 0) {
		(void)fd_read_all(fds[0], &session, sizeof session);
		waitpid(pid, NULL, 0);
	}
	close(fds[0]);
	if (session == AUDIT_NO_SESSION)
		return err_set(
			e, ERR_UNAVAILABLE,
			"commands get no audit session; look for locked login uids (auditctl -s: loginuid_immutable)");
	if (record_comes(reader, session, ms))
		return 0;
	if (h->rules.never_task)
		return err_set(e, ERR_UNAVAILABLE,
			       "an audit rule of this host switches auditing off for all tasks (task,never in auditctl "
			       "-l); remove it to get exact denials");
	return err_set(e, ERR_UNAVAILABLE,
		       "audit records of a trial did not arrive; look for rules of this host that suppress them "
		       "(auditctl -l)");
}

int audit_take(unsigned trial_ms, int *ret_fd, struct err *e)
{
	fd_auto int ctl = audit_open(), reader = -1;
	struct host_audit h;
	if (ctl < 0)
		return set_unavailable(e, "the kernel has no audit");
	if (read_host(ctl, &h, e) < 0)
		return -1;
	reader = open_reader();
	if (reader < 0)
		return set_unavailable(e, "listen to audit records");
	if (apply_settings(ctl, &h, e) < 0 || try_out(reader, &h, trial_ms, e) < 0) {
		audit_leave();
		return -1;
	}
	*ret_fd = fd_take(&reader);
	return 0;
}

int audit_keep(struct err *e)
{
	fd_auto int ctl = audit_open();
	struct host_audit h;
	if (ctl < 0)
		return set_unavailable(e, "the kernel has no audit");
	if (read_host(ctl, &h, e) < 0)
		return -1;
	bool whole = h.status.enabled && audit_rules_complete(&h.rules);
	if (whole && !(belongs_to_another(&h) && h.rules.task_rule))
		return 0;
	return apply_settings(ctl, &h, e) < 0 ? -1 : whole ? 0 : 1;
}

void audit_leave(void)
{
	fd_auto int ctl = audit_open();
	struct err e = ERR_INIT;
	struct host_audit h;
	if (ctl < 0 || read_host(ctl, &h, &e) < 0)
		return;
	(void)audit_rules_remove(ctl);
	if (!h.rules.task_rule || h.rules.other_daemons || belongs_to_another(&h))
		return;
	const struct audit_status off = { .mask = AUDIT_STATUS_ENABLED };
	(void)audit_request(ctl, AUDIT_SET, &off, sizeof off);
}

/* ---- the recipient ---- */

int audit_owner(pid_t *ret)
{
	struct audit_status s;
	fd_auto int ctl = audit_open();
	if (ctl < 0 || audit_get_status(ctl, &s) < 0)
		return -1;
	*ret = is_alive(s.pid) ? (pid_t)s.pid : 0;
	return 0;
}

int audit_recipient_open(void)
{
	static const uint16_t types[] = { AUDIT_REPLACE };
	const struct audit_status s = { .mask = AUDIT_STATUS_PID, .pid = (uint32_t)getpid() };
	fd_auto int fd = audit_open();
	if (fd < 0 || audit_request(fd, AUDIT_SET, &s, sizeof s) < 0 || accept_only(fd, types, countof(types)) < 0 ||
	    fd_nonblock(fd, true) < 0)
		return -1;
	return fd_take(&fd);
}

bool audit_recipient_wanted(int fd)
{
	struct audit_message m;
	bool wanted = false;
	while (recv(fd, &m, sizeof m, MSG_DONTWAIT) >= (ssize_t)sizeof m.head)
		wanted |= m.head.nlmsg_type == AUDIT_REPLACE;
	return wanted;
}

void audit_recipient_close(int fd)
{
	const struct audit_status s = { .mask = AUDIT_STATUS_PID };
	(void)audit_send(fd, AUDIT_SET, 0, &s, sizeof s); /* the filter drops the reply */
	close(fd);
}

/* ---- marks and sessions ---- */

int audit_mark(int fd, uint64_t token)
{
	char text[80];
	struct audit_status s;
	int n = snprintf(text, sizeof text, AUDIT_MARK "%llu", (unsigned long long)token);
	if (audit_get_status(fd, &s) == 0)
		n += snprintf(text + n, sizeof text - (size_t)n, AUDIT_MARK_LOST "%u", s.lost);
	return audit_send(fd, AUDIT_MARK_TYPE, 0, text, (size_t)n + 1);
}

/* Reads loginuid or sessionid; both use the same value for "none". */
static uint32_t read_number(const char *path)
{
	char text[16] = "";
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (n <= 0)
		return AUDIT_NO_SESSION;
	uint64_t v = 0;
	for (ssize_t i = 0; i < n && text[i] >= '0' && text[i] <= '9'; i++)
		v = v * 10 + (uint64_t)(text[i] - '0');
	return v < AUDIT_NO_SESSION ? (uint32_t)v : AUDIT_NO_SESSION;
}

/* Runs after a clone: nothing here allocates. */
uint32_t audit_enter_session(void)
{
	static const char uid[] = "4294967280";
	_Static_assert(AUDIT_LOGIN_UID == 4294967280u, "the text says the same");
	fd_auto int fd = open("/proc/self/loginuid", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, uid, sizeof uid - 1) != (ssize_t)sizeof uid - 1)
		return AUDIT_NO_SESSION;
	return read_number("/proc/self/sessionid");
}

uint32_t audit_session_of(pid_t pid)
{
	char path[40];
	snprintf(path, sizeof path, "/proc/%d/loginuid", (int)pid);
	if (read_number(path) != AUDIT_LOGIN_UID)
		return AUDIT_NO_SESSION; /* any session is the one in which the daemon was started */
	snprintf(path, sizeof path, "/proc/%d/sessionid", (int)pid);
	return read_number(path);
}

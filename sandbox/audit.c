/*
 * Taking and leaving audit, by its netlink socket. Two sockets: the one that records come to is never used to ask
 * anything, since answers and records would mix; the kernel knows it by the one message that must be sent from it.
 */

#include "sandbox/audit.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/violation.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECEIVE_BYTES (64 << 20) /* records that wait while the runtime is restarted, or does not get to run */
#define BACKLOG 8192u            /* records in the kernel before offenders are made to wait */
#define RULES_MAX 64             /* of ours */
#define ANSWER_MS 2000
#define DYING_LOOK_MS 20

struct message {
	struct nlmsghdr head;
	char body[9000 - sizeof(struct nlmsghdr)];
};

int audit_open(void)
{
	return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_AUDIT);
}

static int send_message(int fd, uint16_t type, uint16_t flags, const void *body, size_t n)
{
	struct message m = { .head = { .nlmsg_len = (uint32_t)NLMSG_LENGTH(n), .nlmsg_type = type,
				       .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags) } };
	const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	if (n > sizeof m.body) {
		errno = EMSGSIZE;
		return -1;
	}
	memcpy(m.body, body, n);
	return sendto(fd, &m, NLMSG_ALIGN(m.head.nlmsg_len), 0, (const struct sockaddr *)&kernel, sizeof kernel) < 0 ? -1 : 0;
}

/* The next message; its length, or −1. */
static ssize_t receive(int fd, struct message *ret)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	if (poll(&p, 1, ANSWER_MS) != 1) {
		errno = ETIMEDOUT;
		return -1;
	}
	ssize_t n = recv(fd, ret, sizeof *ret, MSG_DONTWAIT);
	if (n >= 0 && n < (ssize_t)sizeof ret->head) {
		errno = EPROTO;
		return -1;
	}
	return n;
}

static int take_error(const struct message *m, ssize_t n)
{
	int error = 0;
	if (n < (ssize_t)(sizeof m->head + sizeof error))
		return 0;
	memcpy(&error, m->body, sizeof error);
	errno = -error;
	return error == 0 ? 0 : -1;
}

/* Asks and waits for the kernel's word on it. */
static int request(int fd, uint16_t type, const void *body, size_t n)
{
	struct message m;
	if (send_message(fd, type, NLM_F_ACK, body, n) < 0)
		return -1;
	for (;;) {
		ssize_t got = receive(fd, &m);
		if (got < 0)
			return -1;
		if (m.head.nlmsg_type == NLMSG_ERROR)
			return take_error(&m, got);
	}
}

static int get_status(int fd, struct audit_status *ret)
{
	struct message m;
	if (send_message(fd, AUDIT_GET, 0, "", 0) < 0)
		return -1;
	for (;;) {
		ssize_t n = receive(fd, &m);
		if (n < 0 || (m.head.nlmsg_type == NLMSG_ERROR && take_error(&m, n) < 0))
			return -1;
		if (m.head.nlmsg_type != AUDIT_GET)
			continue;
		size_t len = (size_t)n - sizeof m.head;
		*ret = (struct audit_status){ 0 }; /* older kernels tell less */
		memcpy(ret, m.body, len < sizeof *ret ? len : sizeof *ret);
		return 0;
	}
}

/* ---- rules ---- */

static void rule_field(struct audit_rule_data *r, uint32_t field, uint32_t op, uint32_t value)
{
	r->fields[r->field_count] = field;
	r->fieldflags[r->field_count] = op;
	r->values[r->field_count++] = value;
}

static bool is_ours(const struct audit_rule_data *r)
{
	for (uint32_t i = 0; i < r->field_count && i < AUDIT_MAX_FIELDS; i++) {
		if (r->fields[i] == AUDIT_LOGINUID && r->values[i] == AUDIT_LOGIN_UID)
			return true;
	}
	return false;
}

static int rule_add(int fd, struct audit_rule_data *r, uint32_t list, uint32_t action)
{
	r->flags = list;
	r->action = action;
	return request(fd, AUDIT_ADD_RULE, r, sizeof *r) < 0 && errno != EEXIST ? -1 : 0;
}

#define KIND(k) (1u << REFUSAL_##k)

/* Which errors of which system calls are refusals. EBUSY: a protected path, or a parent of one, was to be moved away. */
static const struct {
	int error;
	unsigned kinds;
} refusal_errors[] = {
	{ EACCES, KIND(FILE) | KIND(NET) | KIND(PRIVILEGE) },
	{ EPERM, KIND(FILE) | KIND(NET) | KIND(PRIVILEGE) },
	{ EROFS, KIND(FILE) | KIND(NET) }, /* a socket's name, too */
	{ EBUSY, KIND(MOVE) },
	{ ENETUNREACH, KIND(NET) },
};

static int add_exit_rules(int fd)
{
	for (size_t i = 0; i < countof(refusal_errors); i++) {
		struct audit_rule_data r = { 0 };
		for (size_t k = 0; k < refusal_count; k++) {
			int nr = seccomp_syscall_resolve_name(refusals[k].syscall);
			if (nr < 0 || nr >= AUDIT_BITMASK_SIZE * 32 || !(refusal_kinds(&refusals[k]) & refusal_errors[i].kinds))
				continue;
			r.mask[AUDIT_WORD(nr)] |= (uint32_t)AUDIT_BIT(nr);
		}
		/* What seldom holds first: a call that succeeds is through with one comparison. */
		rule_field(&r, AUDIT_EXIT, AUDIT_EQUAL, (uint32_t)-refusal_errors[i].error);
		rule_field(&r, AUDIT_LOGINUID, AUDIT_EQUAL, AUDIT_LOGIN_UID);
		rule_field(&r, AUDIT_ARCH, AUDIT_EQUAL, seccomp_arch_native());
		if (rule_add(fd, &r, AUDIT_FILTER_EXIT, AUDIT_ALWAYS) < 0)
			return -1;
	}
	return 0;
}

/* What no record of a sandbox needs to say. An older kernel may not know a login uid here: then it is told, and passed over. */
static void add_exclusions(int fd)
{
	static const uint32_t types[] = { AUDIT_BPRM_FCAPS, AUDIT_EXECVE };
	for (size_t i = 0; i < countof(types); i++) {
		struct audit_rule_data r = { 0 };
		memset(r.mask, 0xff, sizeof r.mask);
		rule_field(&r, AUDIT_MSGTYPE, AUDIT_EQUAL, types[i]);
		rule_field(&r, AUDIT_LOGINUID, AUDIT_EQUAL, AUDIT_LOGIN_UID);
		(void)rule_add(fd, &r, AUDIT_FILTER_EXCLUDE, AUDIT_ALWAYS);
	}
}

/* Tasks outside sandboxes get no audit context at all: they run as if audit were off. */
static int add_task_rule(int fd)
{
	struct audit_rule_data r = { 0 };
	memset(r.mask, 0xff, sizeof r.mask);
	rule_field(&r, AUDIT_LOGINUID, AUDIT_NOT_EQUAL, AUDIT_LOGIN_UID);
	return rule_add(fd, &r, AUDIT_FILTER_TASK, AUDIT_NEVER);
}

struct leftovers {
	struct audit_rule_data rules[RULES_MAX];
	size_t count;
	bool task_rule; /* one of ours: audit was off before we came */
	bool foreign;   /* somebody else has rules */
};

static int list_rules(int fd, struct leftovers *l)
{
	struct message m;
	*l = (struct leftovers){ .count = 0 };
	if (send_message(fd, AUDIT_LIST_RULES, 0, "", 0) < 0)
		return -1;
	for (;;) {
		ssize_t n = receive(fd, &m);
		if (n < 0 || (m.head.nlmsg_type == NLMSG_ERROR && take_error(&m, n) < 0))
			return -1;
		if (m.head.nlmsg_type == NLMSG_DONE)
			return 0;
		struct audit_rule_data r;
		if (m.head.nlmsg_type != AUDIT_LIST_RULES || n < (ssize_t)(sizeof m.head + sizeof r))
			continue;
		memcpy(&r, m.body, sizeof r);
		if (!is_ours(&r)) {
			l->foreign = true;
			continue;
		}
		l->task_rule |= r.flags == AUDIT_FILTER_TASK;
		if (l->count < RULES_MAX)
			l->rules[l->count++] = r;
	}
}

static void remove_rules(int fd, const struct leftovers *l)
{
	for (size_t i = 0; i < l->count; i++) {
		if (request(fd, AUDIT_DEL_RULE, &l->rules[i], sizeof l->rules[i]) < 0 && errno == ETIMEDOUT)
			return; /* it answers at once or not at all */
	}
}

/* ---- taking ---- */

static bool is_alive(uint32_t pid)
{
	return pid && (kill((pid_t)pid, 0) == 0 || errno == EPERM);
}

/*
 * The kernel takes the sender of this message for the reader, by socket and process. It forgets an earlier one whose
 * socket is closed; that of a daemon that was killed may be a moment away from it.
 */
static int register_reader(int records, int ctl, unsigned wait_ms)
{
	const struct audit_status s = {
		.mask = AUDIT_STATUS_ENABLED | AUDIT_STATUS_PID | AUDIT_STATUS_RATE_LIMIT | AUDIT_STATUS_BACKLOG_LIMIT,
		.enabled = 1, .pid = (uint32_t)getpid(), .rate_limit = 0, .backlog_limit = BACKLOG,
	};
	struct audit_status now;
	for (unsigned ms = 0;; ms += DYING_LOOK_MS) {
		if (request(records, AUDIT_SET, &s, sizeof s) == 0)
			return 0;
		if (errno != EEXIST || ms >= wait_ms || get_status(ctl, &now) < 0)
			return -1;
		if (is_alive(now.pid)) {
			errno = EEXIST;
			return -1;
		}
		poll(NULL, 0, DYING_LOOK_MS);
	}
}

static int unavailable(struct err *e, const char *what)
{
	int errnum = errno;
	if (errnum == ECONNREFUSED || errnum == EPERM)
		return err_set(e, ERR_UNAVAILABLE, "%s: only from the host's own namespaces and with CAP_AUDIT_CONTROL", what);
	return err_set(e, ERR_UNAVAILABLE, "%s: %s", what, strerror(errnum));
}

static int taken_by(uint32_t pid, struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE, "audit records go to process %u (an audit daemon, or another bailiffd)", pid);
}

static int check_owner(int ctl, struct audit_status *s, struct err *e)
{
	if (get_status(ctl, s) < 0)
		return unavailable(e, "the kernel does not answer about audit");
	if (s->enabled == 2)
		return err_set(e, ERR_UNAVAILABLE, "the audit rules are immutable until the next boot");
	if (is_alive(s->pid))
		return taken_by(s->pid, e);
	return 0;
}

/*
 * The kernel waits 100 ms for room, puts the records aside, tries for 500 ms more and then drops them without a word. Told of
 * that by an error (ENOBUFS), a reader would be sent nothing until it had read all there is, which may take longer than
 * those 500 ms: so there is to be none, and audit_congestions is asked instead.
 */
static int make_room(int records)
{
	const int size = RECEIVE_BYTES, on = 1;
	if (setsockopt(records, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0)
		return -1;
	return setsockopt(records, SOL_NETLINK, NETLINK_NO_ENOBUFS, &on, sizeof on);
}

uint32_t audit_congestions(int fd)
{
	uint32_t info[SK_MEMINFO_VARS] = { 0 };
	socklen_t n = sizeof info;
	return getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &n) < 0 ? 0 : info[SK_MEMINFO_DROPS];
}

int audit_owner(pid_t *ret)
{
	struct audit_status s;
	fd_auto int ctl = audit_open();
	if (ctl < 0 || get_status(ctl, &s) < 0)
		return -1;
	*ret = is_alive(s.pid) ? (pid_t)s.pid : 0;
	return 0;
}

int audit_take(unsigned wait_ms, int *ret_fd, struct err *e)
{
	fd_auto int records = audit_open(), ctl = audit_open();
	struct audit_status s;
	struct leftovers left;
	if (records < 0 || ctl < 0)
		return unavailable(e, "the kernel has no audit");
	if (check_owner(ctl, &s, e) < 0)
		return -1;
	if (list_rules(ctl, &left) < 0)
		return unavailable(e, "list the audit rules");
	bool alone = (s.enabled == 0 || left.task_rule) && !left.foreign;
	if (make_room(records) < 0)
		return unavailable(e, "room for audit records");
	if (register_reader(records, ctl, wait_ms) < 0) {
		int errnum = errno;
		if (errnum == EEXIST && get_status(ctl, &s) == 0 && is_alive(s.pid)) /* it was faster */
			return taken_by(s.pid, e);
		errno = errnum;
		return unavailable(e, "become the reader of audit records");
	}
	remove_rules(ctl, &left);
	add_exclusions(ctl);
	if ((alone && add_task_rule(ctl) < 0) || add_exit_rules(ctl) < 0) {
		unavailable(e, "add audit rules");
		audit_leave(records);
		return -1;
	}
	if (fd_nonblock(records, true) < 0)
		return unavailable(e, "audit socket");
	*ret_fd = fd_take(&records);
	return 0;
}

void audit_leave(int fd)
{
	fd_auto int ctl = audit_open();
	struct leftovers left = { .count = 0 };
	struct audit_status now;
	if (ctl < 0 || list_rules(ctl, &left) < 0)
		return;
	remove_rules(ctl, &left);
	if (get_status(ctl, &now) < 0 || now.pid != (uint32_t)getpid())
		return; /* whether audit is on is for the new reader to say */
	struct audit_status s = { .mask = AUDIT_STATUS_PID | (left.task_rule ? AUDIT_STATUS_ENABLED : 0u) };
	/* No answer is waited for: records may still be on their way to this socket. */
	(void)send_message(fd, AUDIT_SET, 0, &s, sizeof s);
}

/* ---- marks and sessions ---- */

int audit_mark(int fd, uint64_t token)
{
	char text[64];
	int n = snprintf(text, sizeof text, AUDIT_MARK "%llu", (unsigned long long)token);
	return send_message(fd, AUDIT_MARK_TYPE, 0, text, (size_t)n + 1);
}

/* What loginuid and sessionid hold; both have the same value for "none". */
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

/* After a clone: nothing here allocates. */
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
		return AUDIT_NO_SESSION; /* the session, if any, is the one that the daemon was started in */
	snprintf(path, sizeof path, "/proc/%d/sessionid", (int)pid);
	return read_number(path);
}

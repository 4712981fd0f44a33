/*
 * A hand-written D-Bus client: it connects, makes four calls and waits for one signal. libsystemd has no static
 * library, which the static build needs; libdbus and libsystemd would bring far more code into the process that
 * outlives all others.
 *
 * It is strictly sequential, and every wait has a deadline: short while nothing has answered yet, longer once a bus is
 * there. It runs before the guard has children, so blocking delays only the start.
 *
 * A reply to StartTransientUnit means that the job is queued. The process is in the scope when JobRemoved reports
 * "done"; a cgroup that is used before that could still be the old one.
 */

#include "supervisor/daemon/systemd_scope.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "supervisor/daemon/dbus_message.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define STOP_USEC 30000000u /* systemd's timeout when it stops the scope: as in bailiff.service */
#define PRIVATE_END "/systemd/private"
#define LINE_MAX_BYTES 256

static const struct dbus_call hello = { "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus",
					"Hello", "" };
static const struct dbus_call add_match = { "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus",
					    "AddMatch", "s" };
#define MANAGER(member, signature)                                                                                   \
	{                                                                                                            \
		"org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", member, \
			signature                                                                                    \
	}
static const struct dbus_call subscribe = MANAGER("Subscribe", "");
static const struct dbus_call start_unit = MANAGER("StartTransientUnit", "ssa(sv)a(sa(sv))");
static const struct dbus_call stop_unit = MANAGER("StopUnit", "ss");
#define MATCH                                                                                                   \
	"type='signal',sender='org.freedesktop.systemd1',interface='org.freedesktop.systemd1.Manager',member='" \
	"JobRemoved'"

struct bus {
	int fd;
	uint32_t serial;
	const struct systemd_scope *scope;
	uint64_t timeout_ms, deadline; /* boot time, ns */
	struct buf in;                 /* the message that was read last */
	char job[128], job_result[32]; /* the job of the scope that finished last, and its result */
};

/* ---- bytes, with a deadline ---- */

static int wait_for(struct bus *b, short events, struct err *e)
{
	struct pollfd p = { .fd = b->fd, .events = events };
	for (;;) {
		uint64_t now = clock_boot_ns();
		int r = now >= b->deadline ? 0 : poll(&p, 1, (int)((b->deadline - now) / 1000000 + 1));
		if (r > 0)
			return 0;
		if (r == 0)
			return err_set(e, ERR_UNAVAILABLE, "no answer within %llu ms",
				       (unsigned long long)b->timeout_ms);
		if (errno != EINTR)
			return err_sys(e, errno, "poll the bus");
	}
}

static int send_bytes(struct bus *b, const char *p, size_t n, struct err *e)
{
	while (n) {
		ssize_t w = send(b->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (w < 0 && errno != EAGAIN && errno != EINTR)
			return err_sys(e, errno, "send to the bus");
		if (w < 0 && wait_for(b, POLLOUT, e) < 0)
			return -1;
		if (w > 0) {
			p += w;
			n -= (size_t)w;
		}
	}
	return 0;
}

static int receive_bytes(struct bus *b, void *p, size_t n, struct err *e)
{
	for (size_t have = 0; have < n;) {
		ssize_t r = recv(b->fd, (char *)p + have, n - have, MSG_DONTWAIT);
		if (r == 0)
			return err_set(e, ERR_UNAVAILABLE, "the bus closed the connection");
		if (r < 0 && errno != EAGAIN && errno != EINTR)
			return err_sys(e, errno, "read from the bus");
		if (r < 0 && wait_for(b, POLLIN, e) < 0)
			return -1;
		have += r > 0 ? (size_t)r : 0;
	}
	return 0;
}

static void set_deadline(struct bus *b, uint64_t timeout_ms)
{
	b->timeout_ms = timeout_ms;
	b->deadline = clock_boot_ns() + timeout_ms * 1000000;
}

/* ---- the connection ---- */

/* The peer must be root or this user, because it gets to move this process. */
static int connect_socket(struct bus *b, const char *path, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct ucred peer;
	socklen_t len = sizeof peer;
	if (strlen(path) >= sizeof a.sun_path)
		return err_set(e, ERR_UNAVAILABLE, "%.100s…: the socket's path is too long", path);
	memcpy(a.sun_path, path, strlen(path));
	fd_auto int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
		return err_sys(e, errno, "connect to %s", path);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return err_sys(e, errno, "ask who listens on %s", path);
	/* The system's socket is bound by systemd, which is root. */
	if (peer.uid != 0 && peer.uid != geteuid())
		return err_set(e, ERR_UNAVAILABLE, "%s belongs to uid %u", path, (unsigned)peer.uid);
	b->fd = fd_take(&fd);
	return 0;
}

/* SASL EXTERNAL: the bus checks the uid with the credentials of the socket. */
static int authenticate_bus(struct bus *b, struct err *e)
{
	char uid[16], line[LINE_MAX_BYTES];
	buf_auto struct buf out = BUF_INIT;
	snprintf(uid, sizeof uid, "%u", (unsigned)geteuid());
	buf_byte(&out, 0);
	buf_str(&out, "AUTH EXTERNAL ");
	for (const char *p = uid; *p; p++)
		buf_printf(&out, "%02x", (unsigned)*p);
	buf_str(&out, "\r\n");
	if (send_bytes(b, out.data, out.len, e) < 0)
		return -1;
	size_t n = 0;
	do {
		if (n == sizeof line)
			return err_set(e, ERR_UNAVAILABLE, "the bus does not speak D-Bus");
		if (receive_bytes(b, line + n, 1, e) < 0)
			return -1;
	} while (line[n++] != '\n');
	if (n < 3 || memcmp(line, "OK ", 3) != 0)
		return err_set(e, ERR_UNAVAILABLE, "the bus refuses uid %s", uid);
	return send_bytes(b, "BEGIN\r\n", 7, e);
}

/* ---- messages ---- */

static int receive_message(struct bus *b, struct dbus_message *ret, struct err *e)
{
	buf_reset(&b->in);
	if (receive_bytes(b, buf_reserve(&b->in, DBUS_HEAD_SIZE), DBUS_HEAD_SIZE, e) < 0)
		return -1;
	buf_extend(&b->in, DBUS_HEAD_SIZE);
	ptrdiff_t size = dbus_message_size((const uint8_t *)b->in.data);
	if (size < 0)
		return err_set(e, ERR_UNAVAILABLE, "the bus sent a message that cannot be read");
	size_t rest = (size_t)size - DBUS_HEAD_SIZE;
	if (receive_bytes(b, buf_reserve(&b->in, rest), rest, e) < 0)
		return -1;
	buf_extend(&b->in, rest);
	if (dbus_message_read(b->in.data, b->in.len, ret) < 0)
		return err_set(e, ERR_UNAVAILABLE, "the bus sent a message that cannot be read");
	return 0;
}

/*
 * JobRemoved may arrive before the reply that names the job, so the scope's last one is always recorded. Jobs of other
 * units end at the same time, also between the two: they must not replace it.
 */
static void note_job(struct bus *b, const struct dbus_message *m)
{
	struct dbus_reader r = { .p = m->body, .len = m->body_len };
	char job[sizeof b->job], unit[256], result[sizeof b->job_result];
	uint32_t id;
	if (m->type != DBUS_SIGNAL || strcmp(m->member, "JobRemoved") != 0 || strcmp(m->signature, "uoss") != 0 ||
	    !dbus_get_u32(&r, &id) || !dbus_get_str(&r, job, sizeof job) || !dbus_get_str(&r, unit, sizeof unit) ||
	    !dbus_get_str(&r, result, sizeof result) || strcmp(unit, b->scope->name) != 0)
		return;
	memcpy(b->job, job, sizeof job);
	memcpy(b->job_result, result, sizeof result);
}

/* Makes the call and waits for its reply. An error reply is positive, with its name in e->field. */
static int call_bus(struct bus *b, const struct dbus_call *c, const struct buf *body, struct dbus_message *ret,
		    struct err *e)
{
	buf_auto struct buf out = BUF_INIT;
	uint32_t serial = ++b->serial;
	set_deadline(b, c == &hello || c == &add_match ? b->scope->bus_timeout_ms : b->scope->manager_timeout_ms);
	dbus_put_call(&out, c, serial, body);
	if (send_bytes(b, out.data, out.len, e) < 0)
		return err_wrap(e, "%s", c->member);
	do {
		if (receive_message(b, ret, e) < 0)
			return err_wrap(e, "%s", c->member);
		note_job(b, ret);
	} while (ret->reply_serial != serial || (ret->type != DBUS_RETURN && ret->type != DBUS_ERROR));
	if (ret->type == DBUS_RETURN)
		return 0;
	char text[256] = "";
	struct dbus_reader r = { .p = ret->body, .len = ret->body_len };
	if (ret->signature[0] == 's')
		dbus_get_str(&r, text, sizeof text);
	err_set(e, ERR_UNAVAILABLE, "%s: %s", c->member, text[0] ? text : ret->error);
	return 1;
}

/* Waits until the job of this reply is finished; anything but "done" is an error. */
static int finish_job(struct bus *b, const struct dbus_message *reply, const char *unit, struct err *e)
{
	char job[sizeof b->job];
	struct dbus_message m;
	struct dbus_reader r = { .p = reply->body, .len = reply->body_len };
	if (reply->signature[0] != 'o' || !dbus_get_str(&r, job, sizeof job))
		return err_set(e, ERR_UNAVAILABLE, "systemd's answer names no job");
	set_deadline(b, b->scope->manager_timeout_ms);
	while (strcmp(b->job, job) != 0) {
		if (receive_message(b, &m, e) < 0)
			return err_wrap(e, "wait for systemd's job for %s", unit);
		note_job(b, &m);
	}
	return strcmp(b->job_result, "done") == 0
		       ? 0
		       : err_set(e, ERR_UNAVAILABLE, "systemd's job for %s: %s", unit, b->job_result);
}

/* ---- the calls ---- */

static int open_bus(struct bus *b, const char *socket, struct err *e)
{
	buf_auto struct buf none = BUF_INIT, match = BUF_INIT;
	struct dbus_message m;
	size_t n = strlen(socket), end = strlen(PRIVATE_END);
	set_deadline(b, b->scope->bus_timeout_ms);
	if (connect_socket(b, socket, e) < 0 || authenticate_bus(b, e) < 0)
		return -1;
	if (n > end && strcmp(socket + n - end, PRIVATE_END) == 0)
		return 0; /* systemd itself: no Hello, and signals without a match */
	dbus_put_str(&match, MATCH);
	return call_bus(b, &hello, &none, &m, e) == 0 && call_bus(b, &add_match, &match, &m, e) == 0 &&
			       call_bus(b, &subscribe, &none, &m, e) == 0
		       ? 0
		       : -1;
}

static void put_property(struct buf *b, const char *name, const char *type)
{
	dbus_put_align(b, 8);
	dbus_put_str(b, name);
	dbus_put_signature(b, type);
}

static void put_text_property(struct buf *b, const char *name, const char *value)
{
	put_property(b, name, "s");
	dbus_put_str(b, value);
}

static void put_scope(struct buf *b, const struct systemd_scope *s)
{
	dbus_put_str(b, s->name);
	dbus_put_str(b, "fail");
	size_t properties = dbus_put_array(b);
	put_text_property(b, "Description", "bailiff's sandboxes");
	put_text_property(b, "Slice", s->slice);
	put_text_property(b, "CollectMode", "inactive-or-failed");
	put_property(b, "Delegate", "b");
	dbus_put_u32(b, 1);
	put_property(b, "TasksMax", "t");
	dbus_put_u64(b, UINT64_MAX); /* each sandbox has a limit of its own */
	put_property(b, "TimeoutStopUSec", "t");
	dbus_put_u64(b, STOP_USEC);
	put_property(b, "PIDs", "au");
	dbus_put_u32(b, 4);
	dbus_put_u32(b, (uint32_t)s->pid);
	dbus_end_array(b, properties);
	dbus_end_array(b, dbus_put_array(b)); /* no auxiliary units */
}

/* Stops what an earlier daemon of this home left. That one is dead, or it would have the home's lock. */
static int stop_old(struct bus *b, const char *name, struct err *e)
{
	buf_auto struct buf body = BUF_INIT;
	struct dbus_message m;
	dbus_put_str(&body, name);
	dbus_put_str(&body, "replace");
	return call_bus(b, &stop_unit, &body, &m, e) == 0 ? finish_job(b, &m, name, e) : -1;
}

static int start_scope(struct bus *b, const struct systemd_scope *s, struct err *e)
{
	buf_auto struct buf body = BUF_INIT;
	struct dbus_message m;
	put_scope(&body, s);
	int r = call_bus(b, &start_unit, &body, &m, e);
	if (r > 0 && strcmp(m.error, "org.freedesktop.systemd1.UnitExists") == 0) {
		if (stop_old(b, s->name, e) < 0)
			return err_wrap(e, "stop what is left of an earlier daemon");
		r = call_bus(b, &start_unit, &body, &m, e);
	}
	return r == 0 ? finish_job(b, &m, s->name, e) : -1;
}

int systemd_scope_start(const struct systemd_scope *s, struct err *e)
{
	struct bus b = { .fd = -1, .scope = s, .in = BUF_INIT };
	struct err first = ERR_INIT;
	int r = -1;
	for (size_t i = 0; r < 0 && s->sockets[i]; i++) {
		struct err *to = i == 0 ? &first : NULL; /* report the error of the bus, which should exist */
		fd_close(&b.fd);
		b.serial = 0;
		r = open_bus(&b, s->sockets[i], to);
	}
	if (r < 0 && e)
		*e = first;
	if (r == 0)
		r = start_scope(&b, s, e);
	fd_close(&b.fd);
	buf_done(&b.in);
	return r;
}

/* ---- sockets ---- */

static bool is_folder_of(const char *path, uid_t uid)
{
	struct stat st;
	return path && path[0] == '/' && stat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == uid;
}

const char *const *systemd_sockets(uid_t uid)
{
	static char bus[PATH_MAX], direct[PATH_MAX];
	static const char *const sockets[] = { bus, direct, NULL };
	static const char unix_path[] = "unix:path=";
	if (uid == 0) {
		const char *given = getenv("DBUS_SYSTEM_BUS_ADDRESS");
		bool is_path = given && strncmp(given, unix_path, strlen(unix_path)) == 0;
		snprintf(bus, sizeof bus, "%s", is_path ? given + strlen(unix_path) : "/run/dbus/system_bus_socket");
		bus[strcspn(bus, ",;")] = 0;
		snprintf(direct, sizeof direct, "/run" PRIVATE_END);
		return sockets;
	}
	const char *given = getenv("XDG_RUNTIME_DIR");
	char folder[PATH_MAX - 32];
	if (is_folder_of(given, uid))
		snprintf(folder, sizeof folder, "%s", given);
	else
		snprintf(folder, sizeof folder, "/run/user/%u", (unsigned)uid);
	snprintf(bus, sizeof bus, "%s/bus", folder);
	snprintf(direct, sizeof direct, "%s" PRIVATE_END, folder);
	return sockets;
}

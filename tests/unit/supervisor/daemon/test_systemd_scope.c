/* The client of systemd's manager against a fake bus, which is a thread of the test. */

#include "supervisor/daemon/systemd_scope.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "supervisor/daemon/dbus_message.h"
#include "tests/unit/suite.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define JOB "/org/freedesktop/systemd1/job/17"
#define TIMEOUT_MS 300

enum behaviour { WORKS, SILENT, REFUSES_USER, GARBAGE, DISCONNECTS, DENIES, HAS_OLD_SCOPE, JOB_FAILS, NO_JOB, HUGE };

/* The script of the fake bus, and its observations. */
static struct {
	enum behaviour behaviour;
	char folder[64], path[96];
	const char *sockets[3];
	int listen;
	pthread_t thread;
	char calls[512]; /* members, each followed by a space */
	unsigned starts;
	struct buf body; /* of StartTransientUnit */
	uint8_t flags;
} bus;

static void put_header_text(struct buf *b, uint8_t code, char type, const char *value)
{
	dbus_put_align(b, 8);
	buf_byte(b, (char)code);
	dbus_put_signature(b, (char[]){ type, 0 });
	if (type == 'g')
		dbus_put_signature(b, value);
	else
		dbus_put_str(b, value);
}

/* Independent of dbus_put_call, which only writes calls. */
static void send_message(int fd, enum dbus_type type, uint32_t reply_to, const char *name, const char *signature,
			 const struct buf *body)
{
	buf_auto struct buf m = BUF_INIT;
	const char head[] = { 'l', (char)type, 1, 1 };
	buf_append(&m, head, sizeof head);
	dbus_put_u32(&m, (uint32_t)body->len);
	dbus_put_u32(&m, 99);
	size_t fields = dbus_put_array(&m);
	if (reply_to) {
		dbus_put_align(&m, 8);
		buf_byte(&m, 5);
		dbus_put_signature(&m, "u");
		dbus_put_u32(&m, reply_to);
	}
	put_header_text(&m, 7, 's', ":1.0");
	if (name)
		put_header_text(&m, type == DBUS_SIGNAL ? 3 : 4, 's', name);
	if (signature[0])
		put_header_text(&m, 8, 'g', signature);
	dbus_end_array(&m, fields);
	dbus_put_align(&m, 8);
	buf_append(&m, body->len ? body->data : "", body->len);
	(void)!send(fd, m.data, m.len, MSG_NOSIGNAL); /* the client may have given up */
}

static void send_error(int fd, uint32_t to, const char *name, const char *text)
{
	buf_auto struct buf body = BUF_INIT;
	dbus_put_str(&body, text);
	send_message(fd, DBUS_ERROR, to, name, "s", &body);
}

static void send_job_end(int fd, const char *job, const char *unit, const char *result)
{
	buf_auto struct buf body = BUF_INIT;
	dbus_put_u32(&body, 17);
	dbus_put_str(&body, job);
	dbus_put_str(&body, unit);
	dbus_put_str(&body, result);
	send_message(fd, DBUS_SIGNAL, 0, "JobRemoved", "uoss", &body);
}

static void answer(int fd, const struct dbus_message *m, uint32_t serial)
{
	buf_auto struct buf body = BUF_INIT;
	bool start = strcmp(m->member, "StartTransientUnit") == 0;
	if (!start && strcmp(m->member, "StopUnit") != 0) {
		send_message(fd, DBUS_RETURN, serial, NULL, "", &body);
		return;
	}
	if (start) {
		buf_reset(&bus.body);
		buf_append(&bus.body, m->body, m->body_len);
		bus.starts++;
	}
	if (bus.behaviour == DENIES) {
		send_error(fd, serial, "org.freedesktop.DBus.Error.AccessDenied", "Permission denied");
		return;
	}
	if (bus.behaviour == HAS_OLD_SCOPE && start && bus.starts == 1) {
		send_error(fd, serial, "org.freedesktop.systemd1.UnitExists", "Unit t.scope was already loaded");
		return;
	}
	send_job_end(fd, "/org/freedesktop/systemd1/job/16", "other.service", "failed"); /* of another unit */
	if (bus.behaviour == NO_JOB) {
		send_message(fd, DBUS_RETURN, serial, NULL, "", &body);
		return;
	}
	dbus_put_str(&body, JOB);
	if (start) { /* the signal arrives before the reply, with one of another unit between them */
		send_job_end(fd, JOB, "t.scope", bus.behaviour == JOB_FAILS ? "failed" : "done");
		send_job_end(fd, "/org/freedesktop/systemd1/job/18", "other.service", "done");
		send_message(fd, DBUS_RETURN, serial, NULL, "o", &body);
	} else {
		send_message(fd, DBUS_RETURN, serial, NULL, "o", &body);
		send_job_end(fd, JOB, "t.scope", "done");
	}
}

static bool read_line(int fd, char *line, size_t cap)
{
	for (size_t n = 0; n + 1 < cap && read(fd, line + n, 1) == 1; n++) {
		if (line[n] != '\n')
			continue;
		line[n + 1] = 0;
		return true;
	}
	return false;
}

static bool greet(int fd)
{
	char line[128], expected[64], zero;
	int n = snprintf(expected, sizeof expected, "AUTH EXTERNAL ");
	char uid[16];
	snprintf(uid, sizeof uid, "%u", (unsigned)geteuid());
	for (const char *p = uid; *p; p++)
		n += snprintf(expected + n, sizeof expected - (size_t)n, "%02x", (unsigned)*p);
	snprintf(expected + n, sizeof expected - (size_t)n, "\r\n");
	if (read(fd, &zero, 1) != 1 || zero || !read_line(fd, line, sizeof line) || strcmp(line, expected) != 0)
		return false;
	const char *reply = bus.behaviour == REFUSES_USER ? "REJECTED EXTERNAL\r\n"
			    : bus.behaviour == GARBAGE    ? "HTTP/1.1 400 Bad\r\n"
							  : "OK 0123456789abcdef0123456789abcdef\r\n";
	return send(fd, reply, strlen(reply), MSG_NOSIGNAL) > 0 && read_line(fd, line, sizeof line) &&
	       strcmp(line, "BEGIN\r\n") == 0;
}

static void serve(int fd)
{
	uint8_t text[4096];
	struct dbus_message m;
	if (bus.behaviour == SILENT) {
		(void)!read(fd, text, sizeof text);
		while (read(fd, text, sizeof text) > 0)
			continue;
		return;
	}
	if (!greet(fd) || bus.behaviour == DISCONNECTS)
		return;
	if (bus.behaviour == HUGE) {
		const uint8_t head[16] = { 'l', 2, 0, 1, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff };
		(void)!send(fd, head, sizeof head, MSG_NOSIGNAL);
	}
	while (fd_read_all(fd, text, DBUS_HEAD_SIZE) == DBUS_HEAD_SIZE) {
		ptrdiff_t size = dbus_message_size(text);
		if (size < 0 || size > (ptrdiff_t)sizeof text ||
		    fd_read_all(fd, text + DBUS_HEAD_SIZE, (size_t)size - DBUS_HEAD_SIZE) != size - DBUS_HEAD_SIZE ||
		    dbus_message_read(text, (size_t)size, &m) < 0)
			return;
		snprintf(bus.calls + strlen(bus.calls), sizeof bus.calls - strlen(bus.calls), "%s ", m.member);
		bus.flags |= text[2];
		answer(fd, &m, (uint32_t)text[8] | (uint32_t)text[9] << 8);
	}
}

static void *run_bus(void *unused)
{
	fd_auto int fd = accept(bus.listen, NULL, NULL);
	if (fd >= 0)
		serve(fd);
	return unused;
}

static void begin(enum behaviour behaviour, const char *name)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	bus.behaviour = behaviour;
	snprintf(bus.folder, sizeof bus.folder, "/tmp/bailiff-bus.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(bus.folder));
	mem_auto char *inner = mem_printf("%s/systemd", bus.folder);
	ck_assert_int_eq(mkdir(inner, 0700), 0);
	snprintf(bus.path, sizeof bus.path, "%s/%s", bus.folder, name);
	snprintf(a.sun_path, sizeof a.sun_path, "%s", bus.path);
	bus.listen = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(bus.listen, (struct sockaddr *)&a, sizeof a), 0);
	ck_assert_int_eq(listen(bus.listen, 1), 0);
	bus.sockets[0] = bus.path;
	ck_assert_int_eq(pthread_create(&bus.thread, NULL, run_bus, NULL), 0);
}

static int start(struct err *e)
{
	const struct systemd_scope s = { .sockets = bus.sockets,
					 .name = "t.scope",
					 .slice = "app.slice",
					 .pid = 4711,
					 .bus_timeout_ms = TIMEOUT_MS,
					 .manager_timeout_ms = TIMEOUT_MS };
	int r = systemd_scope_start(&s, e);
	shutdown(bus.listen, SHUT_RDWR);
	pthread_join(bus.thread, NULL);
	return r;
}

static void end(void)
{
	mem_auto char *inner = mem_printf("%s/systemd", bus.folder);
	close(bus.listen);
	unlink(bus.path);
	rmdir(inner);
	rmdir(bus.folder);
	buf_done(&bus.body);
}

static void expect_property(struct dbus_reader *r, const char *name, const char *type)
{
	char text[64];
	r->at = (r->at + 7) / 8 * 8;
	ck_assert(dbus_get_str(r, text, sizeof text));
	ck_assert_str_eq(text, name);
	ck_assert_uint_eq(r->p[r->at], strlen(type));
	ck_assert_str_eq((const char *)r->p + r->at + 1, type);
	r->at += strlen(type) + 2;
}

static void expect_text(struct dbus_reader *r, const char *value)
{
	char text[64];
	ck_assert(dbus_get_str(r, text, sizeof text));
	ck_assert_str_eq(text, value);
}

START_TEST(a_delegated_scope_with_the_process_is_requested)
{
	struct err e = ERR_INIT;
	uint32_t n;
	begin(WORKS, "bus");
	ck_assert_msg(start(&e) == 0, "%s", e.message);
	ck_assert_str_eq(bus.calls, "Hello AddMatch Subscribe StartTransientUnit ");
	ck_assert_uint_eq(bus.flags, 0); /* 4 would permit systemd to prompt for a password */
	struct dbus_reader r = { .p = (const uint8_t *)bus.body.data, .len = bus.body.len };
	expect_text(&r, "t.scope");
	expect_text(&r, "fail");
	ck_assert(dbus_get_u32(&r, &n));
	size_t properties_end = (r.at + 7) / 8 * 8 + n;
	expect_property(&r, "Description", "s");
	ck_assert(dbus_get_str(&r, (char[64]){ 0 }, 64));
	expect_property(&r, "Slice", "s");
	expect_text(&r, "app.slice");
	expect_property(&r, "CollectMode", "s");
	expect_text(&r, "inactive-or-failed");
	expect_property(&r, "Delegate", "b");
	ck_assert(dbus_get_u32(&r, &n) && n == 1);
	expect_property(&r, "TasksMax", "t");
	r.at = (r.at + 7) / 8 * 8 + 8;
	expect_property(&r, "TimeoutStopUSec", "t");
	r.at = (r.at + 7) / 8 * 8 + 8;
	expect_property(&r, "PIDs", "au");
	ck_assert(dbus_get_u32(&r, &n) && n == 4 && dbus_get_u32(&r, &n) && n == 4711);
	ck_assert_uint_eq(r.at, properties_end);
	ck_assert(dbus_get_u32(&r, &n) && n == 0);
	ck_assert_uint_eq((r.at + 7) / 8 * 8, r.len);
	end();
}
END_TEST

START_TEST(without_a_bus_systemd_is_called_directly)
{
	struct err e = ERR_INIT;
	begin(WORKS, "systemd/private");
	bus.sockets[0] = "/nonexistent/bus";
	bus.sockets[1] = bus.path;
	ck_assert_msg(start(&e) == 0, "%s", e.message);
	ck_assert_str_eq(bus.calls, "StartTransientUnit ");
	end();
}
END_TEST

START_TEST(a_scope_of_an_earlier_daemon_is_stopped)
{
	struct err e = ERR_INIT;
	begin(HAS_OLD_SCOPE, "bus");
	ck_assert_msg(start(&e) == 0, "%s", e.message);
	ck_assert_str_eq(bus.calls, "Hello AddMatch Subscribe StartTransientUnit StopUnit StartTransientUnit ");
	end();
}
END_TEST

START_TEST(errors_explain_why_there_is_no_scope)
{
	static const struct {
		enum behaviour behaviour;
		const char *message;
	} rows[] = {
		{ SILENT, "no answer within 300 ms" },
		{ REFUSES_USER, "the bus refuses uid" },
		{ GARBAGE, "the bus refuses uid" },
		{ DISCONNECTS, "Hello: " },
		{ DENIES, "StartTransientUnit: Permission denied" },
		{ JOB_FAILS, "systemd's job for t.scope: failed" },
		{ NO_JOB, "systemd's answer names no job" },
		{ HUGE, "Hello: the bus sent a message that cannot be read" },
	};
	for (size_t i = 0; i < countof(rows); i++) {
		struct err e = ERR_INIT;
		uint64_t before = clock_boot_ns();
		begin(rows[i].behaviour, "bus");
		ck_assert_int_eq(start(&e), -1);
		ck_assert_msg(strstr(e.message, rows[i].message), "%s", e.message);
		ck_assert_uint_lt(clock_boot_ns() - before, 20ull * TIMEOUT_MS * 1000000);
		end();
	}
}
END_TEST

START_TEST(a_missing_bus_is_an_error)
{
	const char *const sockets[] = { "/nonexistent/bus", "/nonexistent/systemd/private", NULL };
	const struct systemd_scope s = { .sockets = sockets,
					 .name = "t.scope",
					 .slice = "app.slice",
					 .pid = 1,
					 .bus_timeout_ms = TIMEOUT_MS,
					 .manager_timeout_ms = TIMEOUT_MS };
	struct err e = ERR_INIT;
	ck_assert_int_eq(systemd_scope_start(&s, &e), -1);
	ck_assert_str_eq(e.message, "connect to /nonexistent/bus: No such file or directory");
}
END_TEST

START_TEST(sockets_of_systemd_are_found)
{
	setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/run/elsewhere,guid=00", 1);
	ck_assert_str_eq(systemd_sockets(0)[0], "/run/elsewhere");
	unsetenv("DBUS_SYSTEM_BUS_ADDRESS");
	ck_assert_str_eq(systemd_sockets(0)[0], "/run/dbus/system_bus_socket");
	ck_assert_str_eq(systemd_sockets(0)[1], "/run/systemd/private");
	/* The runtime directory of another user, as after su, is not used. */
	setenv("XDG_RUNTIME_DIR", "/", 1);
	ck_assert_str_eq(systemd_sockets(4242)[0], "/run/user/4242/bus");
	ck_assert_str_eq(systemd_sockets(4242)[1], "/run/user/4242/systemd/private");
	ck_assert_ptr_null(systemd_sockets(4242)[2]);
}
END_TEST

START_TEST(truncated_messages_are_rejected)
{
	buf_auto struct buf m = BUF_INIT, body = BUF_INIT;
	struct dbus_message got;
	const struct dbus_call c = { "a.b", "/a", "a.b", "Member", "s" };
	dbus_put_str(&body, "text");
	dbus_put_call(&m, &c, 7, &body);
	ck_assert_int_eq(dbus_message_size((const uint8_t *)m.data), (ptrdiff_t)m.len);
	ck_assert_int_eq(dbus_message_read(m.data, m.len, &got), 0);
	ck_assert_str_eq(got.member, "Member");
	ck_assert_str_eq(got.signature, "s");
	for (size_t n = 0; n < m.len; n++)
		ck_assert_int_eq(dbus_message_read(m.data, n, &got), -1);
	/* A text that is longer than the body, and one whose end is not marked. */
	struct dbus_reader r = { .p = (const uint8_t *)body.data, .len = body.len - 1 };
	ck_assert(!dbus_get_str(&r, (char[16]){ 0 }, 16));
	body.data[body.len - 1] = 'x';
	r = (struct dbus_reader){ .p = (const uint8_t *)body.data, .len = body.len };
	ck_assert(!dbus_get_str(&r, (char[16]){ 0 }, 16));
}
END_TEST

int main(void)
{
	return SUITE("systemd_scope", a_delegated_scope_with_the_process_is_requested,
		     without_a_bus_systemd_is_called_directly, a_scope_of_an_earlier_daemon_is_stopped,
		     errors_explain_why_there_is_no_scope, a_missing_bus_is_an_error, sockets_of_systemd_are_found,
		     truncated_messages_are_rejected);
}

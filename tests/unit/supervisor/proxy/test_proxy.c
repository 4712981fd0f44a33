/* The proxy from outside: started by a real guard on demand, with this test as its runtime. */

#include "sandbox/host_rule.h"
#include "supervisor/proxy/proxy_msg.h"
#include "supervisor/proxy/served_sandbox.h"
#include "supervisor/spawner/dialer.h"
#include "tests/unit/supervisor/rig.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <time.h>

static struct rig rig;
static int proxy = -1; /* our link to it */

static const struct plan_key key = { .id = "proc_one", .attempt = 1 };

/* The next link to the proxy from the guard; links to the spawner are skipped. */
static void take_proxy(void)
{
	for (;;) {
		int fd = -1;
		size_t n = 1;
		struct guard_msg m = rig_guard_message(&rig, &fd, &n);
		ck_assert_uint_eq(m.kind, GUARD_PEER);
		ck_assert_uint_eq(n, 1);
		if (m.index == GUARD_PROXY) {
			fd_close(&proxy);
			proxy = fd;
			return;
		}
		fd_close(&fd);
	}
}

static void want_proxy(void)
{
	const struct guard_msg m = { .kind = GUARD_WANT_PROXY };
	ck_assert_int_eq(fd_send(rig.link, &m, sizeof m, NULL, 0, 0), 0);
	take_proxy();
}

static void setup(void)
{
	rig_start(&rig);
	want_proxy();
}

static void teardown(void)
{
	fd_close(&proxy);
	rig_stop(&rig);
}

static void send_message(enum proxy_kind kind, const struct plan_key *k, const int *fds, size_t n)
{
	struct proxy_msg m = { .kind = kind };
	if (k)
		m.key = *k;
	ck_assert_int_eq(fd_send(proxy, &m, sizeof m, fds, n, 0), 0);
}

static struct proxy_msg receive_message(enum proxy_kind kind)
{
	struct proxy_msg m;
	rig_readable(proxy, "a report");
	ck_assert_int_eq(fd_recv(proxy, &m, sizeof m, NULL, NULL, 0), sizeof m);
	ck_assert_uint_eq(m.kind, kind);
	return m;
}

/* Opens a socket that listens on the loopback device, and sets its port. */
static int listening(uint16_t *ret_port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof at;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 16) == 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	*ret_port = ntohs(at.sin_port);
	return fd;
}

static int rules_of(const char *text)
{
	struct host_rule r;
	ck_assert_int_eq(host_rule_parse(text, false, &r, NULL), 0);
	int fd = fd_memfd_sealed("rules", &r, sizeof r);
	ck_assert_int_ge(fd, 0);
	return fd;
}

static int dial(uint16_t port)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
	return fd;
}

/* Sends CONNECT and reads the status line of the response. */
static void send_connect(int fd, const char *host, uint16_t port, char answer[128])
{
	char text[256];
	int n = snprintf(text, sizeof text, "CONNECT %s:%u HTTP/1.1\r\nHost: %s:%u\r\n\r\n", host, port, host, port);
	ck_assert_int_eq(write(fd, text, (size_t)n), n);
	rig_readable(fd, "an answer");
	ssize_t got = recv(fd, answer, 127, 0);
	ck_assert_int_gt(got, 0);
	answer[got] = 0;
	answer[strcspn(answer, "\r")] = 0;
}

/* A sandbox's socket that the proxy serves, with a server that is allowed. */
struct scene {
	int inside, rules, server;
	uint16_t port, server_port;
};

static void scene_open(struct scene *s)
{
	char rule[64];
	s->inside = listening(&s->port);
	s->server = listening(&s->server_port);
	snprintf(rule, sizeof rule, "127.0.0.1:%u", s->server_port);
	s->rules = rules_of(rule);
	send_message(PROXY_SERVE, &key, (const int[]){ s->inside, s->rules }, 2);
	send_message(PROXY_SYNC, NULL, NULL, 0);
}

static void scene_close(struct scene *s)
{
	fd_close(&s->inside);
	fd_close(&s->rules);
	fd_close(&s->server);
}

/* Opens a connection through the proxy and sends these bytes in both directions. */
static void pass(struct scene *s, const char *bytes)
{
	char answer[128], got[64];
	fd_auto int client = dial(s->port);
	send_connect(client, "127.0.0.1", s->server_port, answer);
	ck_assert_str_eq(answer, "HTTP/1.1 200 Connection established");
	fd_auto int server = accept(s->server, NULL, NULL);
	ck_assert_int_eq(write(client, bytes, strlen(bytes)), (ssize_t)strlen(bytes));
	rig_readable(server, "bytes");
	ck_assert_int_eq(recv(server, got, sizeof got, 0), (ssize_t)strlen(bytes));
}

START_TEST(the_proxy_serves_reports_and_ends)
{
	struct scene s;
	char answer[128];
	scene_open(&s);
	fd_auto int client = dial(s.port);
	send_connect(client, "other.test", 443, answer);
	ck_assert_str_eq(answer, "HTTP/1.1 403 Forbidden");
	struct proxy_msg m = receive_message(PROXY_REFUSED);
	ck_assert_str_eq(m.host, "other.test");
	ck_assert(m.port == 443 && m.count == 1 && m.reason == PROXY_NOT_LISTED &&
		  memcmp(&m.key, &key, sizeof key) == 0);
	pass(&s, "\1hello");
	m = receive_message(PROXY_TRAFFIC);
	ck_assert_str_eq(m.host, "127.0.0.1");
	ck_assert(m.port == s.server_port && m.count == 1 && m.sent == 6 && m.received == 0);
	/* At the end live connections are closed and counted before the end is reported. */
	fd_auto int live = dial(s.port);
	send_connect(live, "127.0.0.1", s.server_port, answer);
	send_message(PROXY_END, &key, NULL, 0);
	ck_assert_uint_eq(receive_message(PROXY_TRAFFIC).count, 1);
	receive_message(PROXY_ENDED);
	rig_readable(live, "the end");
	ck_assert_int_eq(recv(live, answer, sizeof answer, 0), 0);
	send_message(PROXY_END, &key, NULL, 0); /* an unknown key */
	receive_message(PROXY_ENDED);
	scene_close(&s);
}
END_TEST

START_TEST(another_runtime_gets_the_whole_traffic)
{
	struct scene s;
	char answer[128];
	scene_open(&s);
	pass(&s, "\1one");
	receive_message(PROXY_TRAFFIC);
	fd_auto int live = dial(s.port);
	send_connect(live, "127.0.0.1", s.server_port, answer);
	fd_auto int server = accept(s.server, NULL, NULL);
	fd_close(&proxy);
	rig_kill_runtime(&rig);
	rig_await_runtime(&rig);
	take_proxy();
	send_message(PROXY_SERVE, &key, (const int[]){ s.inside, s.rules }, 2);
	send_message(PROXY_SYNC, NULL, NULL, 0);
	struct proxy_msg m = receive_message(PROXY_TRAFFIC);
	ck_assert(m.count == 1 && m.sent == 4);
	/* The connection is not affected. */
	ck_assert_int_eq(write(live, "\1two", 4), 4);
	rig_readable(server, "bytes");
	ck_assert_int_eq(recv(server, answer, sizeof answer, 0), 4);
	fd_close(&live);
	fd_close(&server);
	m = receive_message(PROXY_TRAFFIC);
	ck_assert(m.count == 1 && m.sent == 4);
	scene_close(&s);
}
END_TEST

START_TEST(sandboxes_that_another_runtime_does_not_name_are_dropped)
{
	struct scene s;
	char answer[128];
	scene_open(&s);
	fd_auto int live = dial(s.port);
	send_connect(live, "127.0.0.1", s.server_port, answer);
	fd_close(&proxy);
	rig_kill_runtime(&rig);
	rig_await_runtime(&rig);
	take_proxy();
	send_message(PROXY_SYNC, NULL, NULL, 0);
	rig_readable(live, "the end");
	ck_assert_int_eq(recv(live, answer, sizeof answer, 0), 0);
	scene_close(&s);
}
END_TEST

/* ---- published ports ---- */

/* An init that answers on this end until the other one is closed. */
static void *run_dialer(void *ctx)
{
	int fd = (int)(intptr_t)ctx;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while (poll(&p, 1, RIG_TIMEOUT_MS) > 0 && dialer_answer(fd))
		continue;
	close(fd);
	return NULL;
}

/* Publishes a port as a runtime does, with a link to an init; returns the reply. */
static struct proxy_msg publish(uint16_t port, uint16_t host_port)
{
	struct proxy_msg m = { .kind = PROXY_PUBLISH, .key = key, .port = port, .host_port = host_port };
	pthread_t thread;
	int ends[2];

	snprintf(m.address, sizeof m.address, "127.0.0.1");
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, run_dialer, (void *)(intptr_t)ends[1]), 0);
	pthread_detach(thread);
	ck_assert_int_eq(fd_send(proxy, &m, sizeof m, &ends[0], 1, 0), 0);
	close(ends[0]);
	struct proxy_msg reply = receive_message(PROXY_PUBLISHED);
	ck_assert(memcmp(&reply.key, &key, sizeof key) == 0 && reply.port == port);
	return reply;
}

static void expect_bytes(int fd, const char *bytes)
{
	char got[64] = "";

	rig_readable(fd, bytes);
	ck_assert_int_eq(recv(fd, got, sizeof got, 0), (ssize_t)strlen(bytes));
	ck_assert_str_eq(got, bytes);
}

static void expect_end(int fd)
{
	char byte;

	rig_readable(fd, "the end");
	ck_assert_int_le(recv(fd, &byte, 1, 0), 0);
}

START_TEST(a_published_port_leads_into_the_sandbox)
{
	uint16_t port;
	fd_auto int listener = listening(&port);
	struct proxy_msg m = publish(port, 0);

	ck_assert(m.reason == 0 && m.host_port != 0 && m.host_port != port);
	fd_auto int client = dial((uint16_t)m.host_port), server = accept(listener, NULL, NULL);
	ck_assert_int_eq(write(client, "request", 7), 7);
	expect_bytes(server, "request");
	/* Half-closed: the server can still answer. */
	ck_assert_int_eq(shutdown(client, SHUT_WR), 0);
	expect_end(server);
	ck_assert_int_eq(write(server, "answer", 6), 6);
	expect_bytes(client, "answer");
	fd_close(&server);
	expect_end(client);
	m = receive_message(PROXY_PORT_TRAFFIC);
	ck_assert(m.port == port && m.count == 1 && m.sent == 6 && m.received == 7);
}
END_TEST

START_TEST(unpublishing_and_the_end_of_the_sandbox_close_everything)
{
	uint16_t port;
	fd_auto int listener = listening(&port);
	struct proxy_msg m = publish(port, 0), un = { .kind = PROXY_UNPUBLISH, .key = key, .port = port };
	uint16_t host_port = (uint16_t)m.host_port;

	fd_auto int client = dial(host_port), server = accept(listener, NULL, NULL);
	ck_assert_int_eq(write(client, "x", 1), 1);
	expect_bytes(server, "x");
	ck_assert_int_eq(fd_send(proxy, &un, sizeof un, NULL, 0, 0), 0);
	ck_assert_uint_eq(receive_message(PROXY_PORT_TRAFFIC).received, 1);
	ck_assert_uint_eq(receive_message(PROXY_UNPUBLISHED).port, port);
	expect_end(client);
	expect_end(server);
	/* It is unknown now; the host port can be used again although old connections linger. */
	ck_assert_int_eq(fd_send(proxy, &un, sizeof un, NULL, 0, 0), 0);
	receive_message(PROXY_UNPUBLISHED);
	m = publish(port, host_port);
	ck_assert(m.reason == 0 && m.host_port == host_port);
	fd_auto int again = dial(host_port);
	send_message(PROXY_END, &key, NULL, 0);
	do {
		rig_readable(proxy, "the end");
		ck_assert_int_eq(fd_recv(proxy, &m, sizeof m, NULL, NULL, 0), sizeof m);
	} while (m.kind == PROXY_PORT_TRAFFIC);
	ck_assert_uint_eq(m.kind, PROXY_ENDED);
	expect_end(again);
}
END_TEST

START_TEST(a_port_in_use_is_an_error_and_a_dead_server_resets)
{
	uint16_t taken, port;
	fd_auto int other = listening(&taken), listener = listening(&port);

	ck_assert_int_ge(other, 0);
	ck_assert_uint_eq(publish(port, taken).reason, EADDRINUSE);
	struct proxy_msg m = publish(port, 0);
	ck_assert_uint_eq(m.reason, 0);
	fd_close(&listener);
	fd_auto int client = dial((uint16_t)m.host_port);
	expect_end(client);
}
END_TEST

START_TEST(a_publication_survives_the_runtime)
{
	uint16_t port, unclaimed_port;
	fd_auto int listener = listening(&port), unclaimed = listening(&unclaimed_port);
	uint16_t host_port = (uint16_t)publish(port, 0).host_port;
	uint16_t dropped = (uint16_t)publish(unclaimed_port, 0).host_port;
	fd_auto int client = dial(host_port), server = accept(listener, NULL, NULL);
	fd_auto int lost = dial(dropped);

	ck_assert_int_ge(unclaimed, 0);
	ck_assert_int_eq(write(client, "one", 3), 3);
	expect_bytes(server, "one");
	fd_close(&proxy);
	rig_kill_runtime(&rig);
	rig_await_runtime(&rig);
	take_proxy();
	ck_assert_uint_eq(publish(port, host_port).host_port, host_port);
	send_message(PROXY_SYNC, NULL, NULL, 0);
	expect_end(lost);
	ck_assert_int_eq(write(client, "two", 3), 3);
	expect_bytes(server, "two");
	/* With the new link to the init. */
	fd_auto int second = dial(host_port), second_server = accept(listener, NULL, NULL);
	ck_assert_int_eq(write(second_server, "hi", 2), 2);
	expect_bytes(second, "hi");
}
END_TEST

/* A compromised runtime gains nothing by malformed messages: the proxy exits, and another one is started. */
START_TEST(malformed_messages_end_the_proxy)
{
	fd_auto int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
	uint16_t port;
	fd_auto int socket = listening(&port), rules = rules_of("*");
	struct host_rule odd = { .kind = 77 };
	fd_auto int odd_rules = fd_memfd_sealed("rules", &odd, sizeof odd);
	const struct {
		enum proxy_kind kind;
		bool has_key;
		int fds[2];
		size_t n;
	} bad[] = {
		{ (enum proxy_kind)77, false, { -1, -1 }, 0 }, { PROXY_SERVE, true, { -1, -1 }, 0 },
		{ PROXY_SERVE, false, { socket, rules }, 2 },  { PROXY_SERVE, true, { file, rules }, 2 },
		{ PROXY_SERVE, true, { socket, file }, 2 },    { PROXY_SERVE, true, { socket, odd_rules }, 2 },
		{ PROXY_NAME, false, { -1, -1 }, 0 },          { PROXY_CREDENTIAL, false, { file, -1 }, 1 },
		{ PROXY_REFUSED, true, { -1, -1 }, 0 },        { PROXY_PUBLISH, true, { -1, -1 }, 0 },
		{ PROXY_PUBLISH, true, { file, -1 }, 1 },      { PROXY_UNPUBLISH, false, { -1, -1 }, 0 },
	};
	for (size_t i = 0; i < countof(bad); i++) {
		send_message(bad[i].kind, bad[i].has_key ? &key : NULL, bad[i].fds, bad[i].n);
		take_proxy();
	}
	struct scene s;
	scene_open(&s);
	pass(&s, "\1x");
	receive_message(PROXY_TRAFFIC);
	scene_close(&s);
}
END_TEST

/* A sandbox of this user, with a socket that listens for many. Returns the socket. */
static int serve_many(unsigned number, uint32_t uid, int rules, uint16_t *ret_port)
{
	struct proxy_msg m = { .kind = PROXY_SERVE, .uid = uid, .key.attempt = 1 };
	int inside = listening(ret_port);
	ck_assert_int_eq(listen(inside, SERVED_CONNECTIONS_MAX), 0);
	snprintf(m.key.id, sizeof m.key.id, "proc_%u", number);
	ck_assert_int_eq(fd_send(proxy, &m, sizeof m, (const int[]){ inside, rules }, 2, 0), 0);
	return inside;
}

/* The proxy answers this connection, so it has handled what came before. */
static void is_served(uint16_t port)
{
	char answer[128];
	fd_auto int client = dial(port);
	send_connect(client, "other.test", 443, answer);
	ck_assert_str_eq(answer, "HTTP/1.1 403 Forbidden");
}

/* Returns when the proxy has accepted every connection to this socket that listens. */
static void wait_for_accepts(int inside)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct tcp_info info;
	socklen_t n = sizeof info;
	while (getsockopt(inside, IPPROTO_TCP, TCP_INFO, &info, &n) == 0 && info.tcpi_unacked) /* its queue */
		nanosleep(&pause, NULL);
}

START_TEST(one_user_cannot_have_all_connections)
{
	enum { SANDBOXES = USER_CONNECTIONS_MAX / SERVED_CONNECTIONS_MAX };
	static int client[USER_CONNECTIONS_MAX];
	static const char ask[] = "CONNECT other.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n";
	SKIP_IF(fd_raise_nofile() < 3 * (int)USER_CONNECTIONS_MAX, "needs descriptors");
	int inside[SANDBOXES + 2];
	uint16_t port[SANDBOXES + 2];
	fd_auto int rules = rules_of("127.0.0.1:1");
	char answer[128];
	for (unsigned i = 0; i < SANDBOXES + 2; i++)
		inside[i] = serve_many(i, i <= SANDBOXES ? 1000 : 1001, rules, &port[i]);
	send_message(PROXY_SYNC, NULL, NULL, 0);
	is_served(port[SANDBOXES]);
	for (unsigned i = 0; i < USER_CONNECTIONS_MAX; i++) {
		client[i] = dial(port[i / SERVED_CONNECTIONS_MAX]);
		if (i % SERVED_CONNECTIONS_MAX == 0 && i)
			is_served(port[SANDBOXES + 1]);
	}
	for (unsigned i = 0; i < SANDBOXES; i++)
		wait_for_accepts(inside[i]);
	fd_auto int waits = dial(port[SANDBOXES]);
	ck_assert_int_eq(write(waits, ask, sizeof ask - 1), (ssize_t)sizeof ask - 1);
	is_served(port[SANDBOXES + 1]);
	ck_assert(recv(waits, answer, sizeof answer, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	fd_close(&client[0]);
	rig_readable(waits, "an answer");
	ck_assert_int_gt(recv(waits, answer, sizeof answer, 0), 0);
	for (unsigned i = 0; i < USER_CONNECTIONS_MAX; i++)
		fd_close(&client[i]);
	for (unsigned i = 0; i < SANDBOXES + 2; i++)
		fd_close(&inside[i]);
}
END_TEST

int main(int argc, char **argv)
{
	return RIG_SUITE(argc, argv, "proxy", "proxy", setup, teardown, 120, the_proxy_serves_reports_and_ends,
			 another_runtime_gets_the_whole_traffic,
			 sandboxes_that_another_runtime_does_not_name_are_dropped, malformed_messages_end_the_proxy,
			 a_published_port_leads_into_the_sandbox,
			 unpublishing_and_the_end_of_the_sandbox_close_everything,
			 a_port_in_use_is_an_error_and_a_dead_server_resets, a_publication_survives_the_runtime,
			 one_user_cannot_have_all_connections);
}

#include "supervisor/spawner/dialer.h"

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "sandbox/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUESTS_A_TURN 32 /* the init has other work */
#define CHECKS_SKIPPED_MAX 4
#define CHECK_MS 1000

/* ---- sockets for the proxy ---- */

static void answer_request(int fd, const struct dialer_msg *request)
{
	struct dialer_msg reply = { .family = request->family, .error = EAFNOSUPPORT };
	fd_auto int sock = -1;

	if (request->family == AF_INET || request->family == AF_INET6) {
		sock = socket((int)request->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		reply.error = sock < 0 ? errno : 0;
	}
	/* Not sent: the proxy does not read or is gone. It limits its requests, and its connection times out. */
	(void)!fd_send(fd, &reply, sizeof reply, &sock, sock >= 0, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool dialer_answer(int fd)
{
	for (int i = 0; i < REQUESTS_A_TURN; i++) {
		struct dialer_msg request;
		ssize_t n = recv(fd, &request, sizeof request, MSG_DONTWAIT);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR || errno == ENOMEM || errno == ENOBUFS;
		if (n == 0)
			return false;
		if (n == (ssize_t)sizeof request)
			answer_request(fd, &request);
	}
	return true;
}

/* ---- listening ports ---- */

/* Addresses are printed as 32-bit words in the byte order of the machine. */
static bool is_reachable(const char *text, size_t len)
{
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };
	static const unsigned char any[16], own4[4] = { 127, 0, 0, 1 }, own6[16] = { [15] = 1 };
	unsigned char b[16];

	for (size_t i = 0; i < len / 8; i++) {
		char word[9] = "";
		memcpy(word, text + 8 * i, 8);
		uint32_t v = (uint32_t)strtoul(word, NULL, 16);
		memcpy(b + 4 * i, &v, 4);
	}
	if (len == 8)
		return memcmp(b, any, 4) == 0 || memcmp(b, own4, 4) == 0;
	return memcmp(b, any, 16) == 0 || memcmp(b, own6, 16) == 0 ||
	       (memcmp(b, mapped, 12) == 0 && memcmp(b + 12, own4, 4) == 0);
}

uint16_t listening_ports_parse(const char *line)
{
	enum { TCP_STATE_LISTEN = 0x0a };
	char local[33], remote[33];
	unsigned port, remote_port, state;

	if (sscanf(line, " %*u: %32[0-9A-Fa-f]:%4x %32[0-9A-Fa-f]:%4x %2x", local, &port, remote, &remote_port,
		   &state) != 5 ||
	    state != TCP_STATE_LISTEN || port > UINT16_MAX)
		return 0;
	size_t len = strlen(local);
	return (len == 8 || len == 32) && is_reachable(local, len) ? (uint16_t)port : 0;
}

/* Ordered, without duplicates; ports beyond the limit are not reported. */
static void add_port(struct status_ports *set, uint16_t port)
{
	uint16_t at = 0;

	while (at < set->count && set->port[at] < port)
		at++;
	if ((at < set->count && set->port[at] == port) || set->count == STATUS_PORTS_MAX)
		return;
	memmove(&set->port[at + 1], &set->port[at], (size_t)(set->count - at) * sizeof set->port[0]);
	set->port[at] = port;
	set->count++;
}

/* Listening sockets are the first ones in the file: the rest of a long table is not read. */
static void read_table(const char *path, uint16_t except, struct status_ports *set)
{
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[4096];
	size_t have = 0;
	ssize_t n;

	while (fd >= 0 && (n = read(fd, text + have, sizeof text - 1 - have)) > 0) {
		char *line = text, *end;
		bool found = false;

		have += (size_t)n;
		text[have] = '\0';
		for (; (end = memchr(line, '\n', have - (size_t)(line - text))); line = end + 1) {
			*end = '\0';
			uint16_t port = listening_ports_parse(line);
			found |= strstr(line, " 0A ") != NULL || strstr(line, "local_address") != NULL;
			if (port && port != except)
				add_port(set, port);
		}
		have -= (size_t)(line - text);
		memmove(text, line, have);
		if (!found)
			return;
	}
}

/* The number in "TCP: inuse N" of /proc/net/sockstat and its like; 0 = none, or unknown. */
static uint64_t count_sockets(const char *path, const char *key)
{
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[512];
	ssize_t n = fd >= 0 ? fd_read_all(fd, text, sizeof text - 1) : -1;

	text[n > 0 ? n : 0] = '\0';
	const char *at = strstr(text, key);
	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

/*
 * Reading the tables takes the kernel as long as its hash table of all connections of the machine is; the number of
 * sockets in this namespace is cheap. So the tables are read only if there is a socket, and while their number is the
 * same only from time to time.
 */
bool listening_ports_check(struct listening_ports *l, uint16_t except)
{
	uint64_t v4 = count_sockets("/proc/self/net/sockstat", "\nTCP: inuse ");
	uint64_t v6 = count_sockets("/proc/self/net/sockstat6", "TCP6: inuse "), in_use = v4 << 32 | v6;
	struct status_ports found = { 0 };

	if (in_use == l->in_use && (in_use == 0 || l->skipped++ < CHECKS_SKIPPED_MAX))
		return false;
	l->in_use = in_use;
	l->skipped = 0;
	if (v4)
		read_table("/proc/self/net/tcp", except, &found);
	if (v6)
		read_table("/proc/self/net/tcp6", except, &found);
	if (memcmp(&found, &l->ports, sizeof found) == 0)
		return false;
	l->ports = found;
	return true;
}

/* ---- in the loop of an init ---- */

void port_watch_init(struct port_watch *w, bool on)
{
	*w = (struct port_watch){ .on = on, .dialer_fd = -1, .check_at_ms = clock_boot_ms() + CHECK_MS };
}

void port_watch_take(struct port_watch *w, const struct status_msg *m, int *fd)
{
	if (m->kind == STATUS_DIALER && *fd >= 0 && w->on) {
		fd_close(&w->dialer_fd);
		w->dialer_fd = fd_take(fd);
	} else if (m->kind == STATUS_PORTS) {
		w->listening = (struct listening_ports){ 0 };
	}
}

int port_watch_timeout(const struct port_watch *w, int other)
{
	if (!w->on || other == 0)
		return other;
	uint64_t now = clock_boot_ms();
	int left = now < w->check_at_ms ? (int)(w->check_at_ms - now) : 0;
	return other < 0 || left < other ? left : other;
}

void port_watch_run(struct port_watch *w, bool readable, int status_fd)
{
	struct status_msg m = { .kind = STATUS_PORTS };

	if (readable && !dialer_answer(w->dialer_fd))
		fd_close(&w->dialer_fd);
	uint64_t now = w->on ? clock_boot_ms() : 0;
	if (!w->on || now < w->check_at_ms)
		return;
	w->check_at_ms = now + CHECK_MS;
	if (!listening_ports_check(&w->listening, PLAN_PROXY_PORT))
		return;
	m.ports = w->listening.ports;
	/* Not sent: the runtime is busy or being restarted. The next check finds a difference again. */
	if (fd_send(status_fd, &m, sizeof m, NULL, 0, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		w->listening = (struct listening_ports){ .in_use = UINT64_MAX, .ports.count = UINT16_MAX };
}

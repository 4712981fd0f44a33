/*
 * From a target to a connected socket. Every resolved address is checked, and exactly the checked addresses are
 * dialled. Nothing is resolved twice, so DNS rebinding between check and connect is not possible.
 */

#include "supervisor/proxy/dial.h"

#include "runtime/base/mem.h"
#include "supervisor/proxy/connection.h"
#include "supervisor/proxy/served_sandbox.h"

#include <errno.h>
#include <event2/bufferevent.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DIAL_S 60

static void fail_dial(struct connection *c, const char *why)
{
	connection_answer(c, 502, "connect %s:%u: %s", c->target.host, c->target.port, why);
}

static int connect_address(const struct net_address *a, uint16_t port)
{
	struct sockaddr_storage to;
	size_t len = net_address_sockaddr(a, port, &to);
	int one = 1, fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (connect(fd, (struct sockaddr *)&to, (socklen_t)len) == 0 || errno == EINPROGRESS)
		return fd;
	int saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

void dial_next(struct connection *c, int error)
{
	if (c->server)
		bufferevent_free(c->server);
	c->server = NULL;
	while (c->next_address < c->naddresses) {
		int fd = connect_address(&c->address[c->next_address++], c->target.port);

		if (fd < 0) {
			error = errno;
			continue;
		}
		c->server = c->wire(c, fd, true);
		if (!c->server)
			abort();
		/* The socket is connecting: libevent reports the outcome. */
		bufferevent_socket_connect(c->server, NULL, 0);
		return;
	}
	fail_dial(c, error ? strerror(error) : "no address");
}

/* Keeps the addresses that the rules allow. */
static void on_addresses(void *ctx, int error, const struct net_address *found, size_t n)
{
	struct connection *c = ctx;
	enum host_verdict first = HOST_NOT_LISTED;
	char text[NET_ADDRESS_TEXT] = "";

	c->lookup = NULL;
	if (error) {
		fail_dial(c, gai_strerror(error));
		return;
	}
	for (size_t i = 0; i < n; i++) {
		enum host_verdict v = host_rules_address(&c->sandbox->rules, c->target.host, &found[i], c->target.port);

		if (v == HOST_ALLOWED && c->naddresses < countof(c->address)) {
			c->address[c->naddresses++] = found[i];
		} else if (!text[0]) {
			first = v;
			net_address_text(&found[i], text);
		}
	}
	if (c->naddresses == 0)
		connection_refuse(c, first == HOST_DENIED ? PROXY_DENIED : PROXY_INSIDE, text);
	else
		dial_next(c, 0);
}

void dial_begin(struct connection *c)
{
	connection_phase(c, CONNECTION_DIAL, DIAL_S);
	if (c->target.is_address) {
		c->address[c->naddresses++] = c->target.address;
		dial_next(c, 0);
		return;
	}
	c->lookup = resolver_ask(c->sandbox->resolver, c->target.host, on_addresses, c);
	if (!c->lookup)
		fail_dial(c, "too many lookups are in progress");
}

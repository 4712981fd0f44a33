#ifndef BAILIFF_SUPERVISOR_PROXY_CONNECTION_H
#define BAILIFF_SUPERVISOR_PROXY_CONNECTION_H

/*
 * One client connection: its request is read, checked, dialled, and then relayed. See relay.c.
 *
 *   FIRST     the first byte selects the protocol           → SOCKS_GREETING, ASK
 *   SOCKS_GREETING → SOCKS_ASK → DIAL
 *   ASK       an HTTP request or CONNECT                    → DIAL
 *   DIAL      resolve, check the address, connect           → SNIFF (tunnels), BODY (requests)
 *   SNIFF     a tunnel's first bytes: TLS, HTTP, or another → RAW, HTTP
 *   HTTP      the head of the next request to this server   → BODY
 *   BODY      the body of a request                         → HTTP
 *   RAW       bytes are relayed unparsed
 *   SHUT      the last bytes are being sent
 *
 * The sandbox's list owns the connection; connection_free removes it there. connection_answer, connection_refuse and
 * connection_close do not free it immediately unless everything was sent and the client has closed its half; the caller
 * must still treat the connection as gone and return.
 *
 * One thread: every function runs in the event loop.
 */

#include "supervisor/proxy/http_head.h"
#include "supervisor/proxy/proxy_msg.h"
#include "supervisor/proxy/resolver.h"
#include "supervisor/proxy/socks.h"

#include <sys/queue.h>

struct served_sandbox;
struct bufferevent;
struct event;

enum connection_state {
	CONNECTION_FIRST,
	CONNECTION_SOCKS_GREETING,
	CONNECTION_SOCKS_ASK,
	CONNECTION_ASK,
	CONNECTION_DIAL,
	CONNECTION_SNIFF,
	CONNECTION_HTTP,
	CONNECTION_BODY,
	CONNECTION_RAW,
	CONNECTION_SHUT,
	CONNECTION_STATE_COUNT
};

#define CONNECTION_HEAD_S 30 /* for a request's head */

enum connection_via { VIA_HTTP, VIA_CONNECT, VIA_SOCKS };

struct connection {
	LIST_ENTRY(connection) link;
	struct served_sandbox *sandbox;
	enum connection_state state;
	enum connection_via via;
	struct bufferevent *client, *server;
	struct event *timer;
	uint64_t deadline_ns; /* of the state; UINT64_MAX = only the idle limit applies */
	uint64_t active_ns;   /* when bytes were last relayed */
	struct connect_target target;
	struct http_head head; /* VIA_HTTP: the request, until the server is connected */
	struct http_body body;
	struct lookup *lookup;
	struct net_address address[LOOKUP_ADDRESSES_MAX];
	size_t naddresses, next_address;
	bool established;
	bool client_eof, client_held, server_held, drained;
	bool answering; /* VIA_HTTP: the head of the server's response has not arrived yet */
	uint64_t sent, received;
};

void connection_free(struct connection *c);

/* Changes the state; seconds 0 = no deadline. */
void connection_phase(struct connection *c, enum connection_state state, unsigned seconds);
void connection_on_timer(int fd, short what, void *c);
/* Replies with an HTTP status, or the corresponding SOCKS reply, and closes. */
void connection_answer(struct connection *c, unsigned status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void connection_answer_socks(struct connection *c, enum socks_reply reply);
/* Reports the denial to the runtime, replies with it, and closes. */
void connection_refuse(struct connection *c, enum proxy_reason why, const char *address);
void connection_close(struct connection *c);
void connection_close_written(struct connection *c);
/* Sends a request's head to the server, with a credential if one is configured for this host. */
void connection_send_head(struct connection *c, const char *p, const struct http_head *h);

#endif

#ifndef BAILIFF_SUPERVISOR_PROXY_CONNECTION_H
#define BAILIFF_SUPERVISOR_PROXY_CONNECTION_H

/*
 * One client connection: what it asks for is read, judged, dialled, and then relayed. See connection.c.
 *
 *   FIRST     the first byte tells the protocol            → SOCKS_GREETING, ASK
 *   SOCKS_GREETING → SOCKS_ASK → DIAL
 *   ASK       an HTTP request or CONNECT                   → DIAL
 *   DIAL      resolved, judged again, connected            → SNIFF (tunnels), BODY (requests)
 *   SNIFF     a tunnel's first bytes: TLS, HTTP, or another → RAW, HTTP
 *   HTTP      the head of the next request on this server   → BODY
 *   BODY      of a request                                 → HTTP
 *   RAW       bytes
 *   SHUT      the last words are being sent
 */

#include "supervisor/proxy/http_head.h"
#include "supervisor/proxy/proxy_msg.h"
#include "supervisor/proxy/resolver.h"

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

enum connection_via { VIA_HTTP, VIA_CONNECT, VIA_SOCKS };

struct connection {
	LIST_ENTRY(connection) link;
	struct served_sandbox *sandbox;
	enum connection_state state;
	enum connection_via via;
	struct bufferevent *client, *server;
	struct event *timer;
	uint64_t deadline_ns; /* of the phase at hand; UINT64_MAX = only idleness counts */
	uint64_t active_ns;   /* when something last went through */
	struct connect_target target;
	struct http_head head; /* VIA_HTTP: the request that waits for its server */
	struct http_body body;
	struct lookup *lookup;
	struct net_address address[LOOKUP_ADDRESSES_MAX];
	size_t naddresses, next_address;
	bool established;
	bool client_eof, client_held, server_held, drained;
	bool answering; /* VIA_HTTP: the head of the server's answer is still to come */
	uint64_t sent, received;
};

void connection_new(struct served_sandbox *b, int fd);
void connection_free(struct connection *c);

/* ---- between connection.c, dial.c and access_check.c ---- */

/* Each takes what it can of the client's bytes; true = go on with the next state, false = wait, or c is gone. */
typedef bool (*connection_step)(struct connection *c);
bool access_check_first_bytes(struct connection *c);
bool access_check_http(struct connection *c);
bool access_check_target(struct connection *c); /* false: refused, and told so */
void connection_refuse(struct connection *c, enum proxy_reason why, const char *address);
/* An answer of the proxy's own, and the end. status is HTTP's; SOCKS gets its equivalent. */
void connection_answer(struct connection *c, unsigned status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void connection_close(struct connection *c);
void connection_phase(struct connection *c, enum connection_state state, unsigned seconds);
void connection_pump(struct connection *c);
void connection_send_head(struct connection *c, const char *p, const struct http_head *h);

/* dial.c */
void dial_begin(struct connection *c);
void dial_next(struct connection *c, int error);
void dial_failed(struct connection *c, const char *why);
void connection_established(struct connection *c);
/* A bufferevent with the connection's callbacks. */
struct bufferevent *connection_wire(struct connection *c, int fd, bool server);

#endif

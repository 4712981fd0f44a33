#ifndef BAILIFF_SUPERVISOR_PROXY_MSG_H
#define BAILIFF_SUPERVISOR_PROXY_MSG_H

/*
 * Messages between runtime and proxy: SOCK_SEQPACKET, one fixed struct, with descriptors as ancillary data.
 *
 * The runtime sends the listening sockets to serve and their rules, and the ports to publish; the proxy reports denials
 * and traffic. A new runtime sends PROXY_SERVE and PROXY_PUBLISH again for each sandbox that it has taken over, then
 * PROXY_SYNC: the proxy drops all the others. A new proxy receives everything again. Reports are state, not a queue:
 * equal denials are added up until they can be sent, and a new runtime receives the traffic from the beginning.
 */

#include "sandbox/plan.h"

#include <stdint.h>

struct err;

enum proxy_kind {
	/* runtime → proxy */
	PROXY_NAME = 1,  /* host, address: the name resolves to this address without the resolver (configuration) */
	PROXY_SERVE = 2, /* key, uid; descriptors: the listening socket, the rules (sealed memfd of struct host_rule) */
	PROXY_SYNC = 3,  /* every sandbox to keep has been named */
	PROXY_END = 4,   /* key: close everything, send the reports, reply with ENDED */
	PROXY_CREDENTIAL = 5, /* one descriptor: struct proxy_credential in a sealed memfd */
	PROXY_PUBLISH = 6, /* key, uid, port, address, host_port (0 = any); descriptor: the link to the init (dialer.h);
			      → PUBLISHED */
	PROXY_UNPUBLISH = 7, /* key, port → UNPUBLISHED */
	/* proxy → runtime */
	PROXY_REFUSED = 16, /* key, host, port, address?, reason, count */
	PROXY_TRAFFIC = 17, /* key, host, port, count (connections), sent, received: since the last one on this link */
	PROXY_ENDED = 18,   /* key */
	PROXY_PUBLISHED = 19,    /* key, port, host_port, reason: an errno, 0 = it is listening */
	PROXY_UNPUBLISHED = 20,  /* key, port: its connections are closed and reported */
	PROXY_PORT_TRAFFIC = 21, /* key, port, count (connections), sent and received by the sandbox: as with TRAFFIC */
};

/* Why a connection was denied; proxy_reason_text has the words for documents and messages. */
enum proxy_reason {
	PROXY_NOT_LISTED = 1,
	PROXY_DENIED,
	PROXY_INSIDE, /* `address` is the address that the name resolved to */
	PROXY_HOST_DIFFERS,
	PROXY_SNI_DIFFERS,
	PROXY_SNI_MISSING,
	PROXY_SNI_HIDDEN,
	PROXY_NOT_WEB,
	PROXY_MALFORMED,
	PROXY_REASON_COUNT
};

/* Unused members are 0. Strings are NUL-terminated, which the receiver checks. */
struct proxy_msg {
	uint32_t kind;
	uint32_t reason;
	uint32_t port;
	uint32_t host_port;
	uint32_t uid; /* whose sandbox it is */
	uint32_t reserved;
	uint64_t count, sent, received;
	struct plan_key key;
	char host[256];
	char address[48];
};

/* A header for plain HTTP requests of sandboxes that have a rule with this name. */
struct proxy_credential {
	char name[256], host[256], header[64], value[1024]; /* NUL-terminated; host: in the syntax of host_rule_parse */
};

const char *proxy_reason_text(uint32_t reason); /* "not in the allowed hosts" … */

#endif

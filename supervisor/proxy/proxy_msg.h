#ifndef BAILIFF_SUPERVISOR_PROXY_MSG_H
#define BAILIFF_SUPERVISOR_PROXY_MSG_H

/*
 * Messages between runtime and proxy (SOCK_SEQPACKET, one fixed struct, descriptors beside it).
 *
 * The runtime says which listening sockets are to be served and by which rules; the proxy reports what it refused and
 * what went through. A new runtime serves again what it has taken over, and then says SYNC: whatever it did not name is
 * dropped. A new proxy is told everything again. Reports are state, not a queue: equal refusals are added up until they
 * can be sent, and what went through is told to a new runtime from the beginning.
 */

#include "sandbox/plan.h"

#include <stdint.h>

struct err;

enum proxy_kind {
	/* runtime → proxy */
	PROXY_NAME = 1,       /* host, address: resolves to this, whatever the resolver says (configuration) */
	PROXY_SERVE = 2,      /* key; descriptors: the listening socket, the rules (sealed memfd of struct host_rule) */
	PROXY_SYNC = 3,       /* everything is named */
	PROXY_END = 4,        /* key: close all of it, report, and answer ENDED */
	PROXY_CREDENTIAL = 5, /* one descriptor: struct proxy_credential in a sealed memfd */
	/* proxy → runtime */
	PROXY_REFUSED = 16, /* key, host, port, address?, reason, count */
	PROXY_TRAFFIC = 17, /* key, host, port, count (connections), sent, received: since the last one on this link */
	PROXY_ENDED = 18,   /* key */
};

/* Why, in the words of docs and messages; see proxy_reason_text. */
enum proxy_reason {
	PROXY_NOT_LISTED = 1,
	PROXY_DENIED,
	PROXY_INSIDE, /* address tells where it led to */
	PROXY_HOST_DIFFERS,
	PROXY_SNI_DIFFERS,
	PROXY_SNI_MISSING,
	PROXY_SNI_HIDDEN,
	PROXY_NOT_WEB,
	PROXY_MALFORMED,
	PROXY_REASON_COUNT
};

struct proxy_msg {
	uint32_t kind;
	uint32_t reason;
	uint32_t port;
	uint32_t reserved;
	uint64_t count, sent, received;
	struct plan_key key;
	char host[256];
	char address[48];
};

/* Put into plain HTTP requests of sandboxes that have a rule with its name. */
struct proxy_credential {
	char name[256], host[256], header[64], value[1024]; /* NUL-terminated; host: as host_rule_parse reads it */
};

const char *proxy_reason_text(uint32_t reason); /* "not in the allowed hosts" … */

#endif

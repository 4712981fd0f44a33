#ifndef BAILIFF_SUPERVISOR_PROXY_CONNECT_TARGET_H
#define BAILIFF_SUPERVISOR_PROXY_CONNECT_TARGET_H

/*
 * The host and port that a client requests, normalised: a lower-case name, or an address. Comparing is safe only after
 * this: Example.COM, example.com. and example.com are one host, and an address has many spellings.
 */

#include "sandbox/host_rule.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct connect_target {
	char host[HOST_NAME_MAX_LEN + 1]; /* the name, or the address as text */
	bool is_address;
	struct net_address address;
	uint16_t port;
};

/* The result of parsing the bytes received so far. */
enum parsed { PARSED_MORE, PARSED_OK, PARSED_BAD };

/* Parses "host", "host:port" or "[v6]:port"; default_port 0 = the port is required. */
bool connect_target_parse(const char *text, size_t len, uint16_t default_port, struct connect_target *ret);
void connect_target_of_address(const struct net_address *a, uint16_t port, struct connect_target *ret);
/* Whether both name the same host, and the same port unless the port of `given` is 0 (not given). */
bool connect_target_agrees(const struct connect_target *asked, const struct connect_target *given);

#endif

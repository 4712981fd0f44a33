#ifndef BAILIFF_SUPERVISOR_PROXY_SOCKS_H
#define BAILIFF_SUPERVISOR_PROXY_SOCKS_H

/*
 * SOCKS 5 (RFC 1928): CONNECT only, no authentication. Pure. BIND would need a listening socket, which the proxy cannot
 * open; UDP is not proxied. Names are resolved by the proxy, so that rules by name apply.
 */

#include "supervisor/proxy/connect_target.h"

#define SOCKS_VERSION 5
#define SOCKS_REPLY_LEN 10

enum socks_reply {
	SOCKS_OK = 0,
	SOCKS_FAILED = 1,
	SOCKS_NOT_ALLOWED = 2,
	SOCKS_UNREACHABLE = 4,
	SOCKS_REFUSED = 5,
	SOCKS_NO_COMMAND = 7,
	SOCKS_NO_ADDRESS = 8,
};

/* The client's greeting of *ret_len bytes. *ret_ok: it offers "no authentication". */
enum parsed socks_greeting(const uint8_t *p, size_t n, size_t *ret_len, bool *ret_ok);
/* PARSED_BAD: *ret_reply is the reply to send. */
enum parsed socks_request(const uint8_t *p, size_t n, struct connect_target *ret, size_t *ret_len,
			  enum socks_reply *ret_reply);
void socks_reply(enum socks_reply reply, uint8_t out[SOCKS_REPLY_LEN]);

#endif

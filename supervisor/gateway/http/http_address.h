#ifndef BAILIFF_GATEWAY_HTTP_ADDRESS_H
#define BAILIFF_GATEWAY_HTTP_ADDRESS_H

/* Where to listen: an address of this machine that no other machine can reach. */

#include <stdint.h>

struct err;

#define HTTP_ADDRESS_TEXT 32

struct http_address {
	char host[16]; /* "127.0.0.1" or "::1" */
	uint16_t port;
};

/* "HOST:PORT", ":PORT" or "PORT"; a HOST that is not a loopback address is refused. */
int http_address_parse(const char *text, struct http_address *ret, struct err *e);
/* "127.0.0.1:8080", "[::1]:8080" */
void http_address_format(const struct http_address *a, char ret[HTTP_ADDRESS_TEXT]);

#endif

#ifndef BAILIFF_GATEWAY_HTTP_ADDRESS_H
#define BAILIFF_GATEWAY_HTTP_ADDRESS_H

/* A listening address. Only loopback addresses are valid, so no other machine can connect. */

#include <stdint.h>

struct err;

#define HTTP_ADDRESS_TEXT 32

struct http_address {
	char host[16]; /* "127.0.0.1" or "::1" */
	uint16_t port;
};

/* Parses "HOST:PORT", ":PORT" or "PORT". A HOST that is not a loopback address is rejected. */
int http_address_parse(const char *text, struct http_address *ret, struct err *e);
/* "127.0.0.1:8080", "[::1]:8080" */
void http_address_format(const struct http_address *a, char ret[HTTP_ADDRESS_TEXT]);

#endif

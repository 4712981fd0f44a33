#ifndef BAILIFF_GATEWAY_HTTP_ACCESS_H
#define BAILIFF_GATEWAY_HTTP_ACCESS_H

/*
 * Access control. Three checks; failing any of them rejects the request:
 *
 *   Host     names this machine (localhost, 127.0.0.1, [::1]; any port, since a tunnel may change it). Under DNS
 *            rebinding, where a foreign name resolves to 127.0.0.1, the header still carries the foreign name.
 *   Origin   if a browser sends one, it must also name this machine: pages of other sites cannot even read errors.
 *   token    "Authorization: Bearer …", compared with each token in a time that depends on the lengths only.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct http_request;
struct http_token;

struct http_access {
	bool open; /* every local user may connect, without a token */
	const struct http_token *tokens;
	size_t ntokens;
};

#define HTTP_AUTHENTICATE "Bearer realm=\"bailiff\"" /* WWW-Authenticate of a 401 */

struct http_refusal {
	unsigned status;
	const char *why; /* static */
};

/* True if the request is allowed, with the token that it carried (NULL if access is open). Otherwise *ret is filled. */
bool http_access_allows(const struct http_access *a, const struct http_request *r, const struct http_token **ret_who,
			struct http_refusal *ret);

/* "localhost", "127.0.0.1:80", "[::1]:8080", …: a name of this machine, with or without a port. */
bool http_access_is_local(const char *host, size_t len);
/* "http://localhost:8080": scheme and host only. */
bool http_access_is_local_origin(const char *origin, size_t len);
/* Constant-time comparison: the time depends on the lengths only. */
bool http_access_same(const char *a, size_t a_len, const char *b, size_t b_len);

/* ---- listening addresses ---- */

/* A listening address. Only loopback addresses are valid, so no other machine can connect. */

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

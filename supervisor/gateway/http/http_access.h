#ifndef BAILIFF_GATEWAY_HTTP_ACCESS_H
#define BAILIFF_GATEWAY_HTTP_ACCESS_H

/*
 * Who may ask. Three questions, each of them enough to refuse:
 *
 *   Host     names this machine (localhost, 127.0.0.1, [::1]; any port, since a tunnel may change it). A page whose
 *            name was
 *            made to resolve to 127.0.0.1 (DNS rebinding) still carries its own name there.
 *   Origin   where a browser sends one, it is such a name too: pages of other sites get nothing, not even errors to
 *            read.
 *   token    "Authorization: Bearer …", compared with each in a time that does not depend on how much of it is right.
 */

#include <stdbool.h>
#include <stddef.h>

struct http_request;
struct http_token;

struct http_access {
	bool open; /* to every local user, without a token */
	const struct http_token *tokens;
	size_t ntokens;
};

#define HTTP_AUTHENTICATE "Bearer realm=\"bailiff\"" /* WWW-Authenticate of a 401 */

struct http_refusal {
	unsigned status;
	const char *why; /* static */
};

/* True if the request may go on, with whose token it came (NULL where it is open); *ret is filled otherwise. */
bool http_access_allows(const struct http_access *a, const struct http_request *r, const struct http_token **ret_who,
			struct http_refusal *ret);

/* Of "localhost", "127.0.0.1:80", "[::1]:8080", …: a name of this machine with or without a port. */
bool http_access_is_local(const char *host, size_t len);
/* Of "http://localhost:8080": scheme and name only. */
bool http_access_is_local_origin(const char *origin, size_t len);
/* Equal; the time depends on the lengths only. */
bool http_access_same(const char *a, size_t a_len, const char *b, size_t b_len);

#endif

#ifndef BAILIFF_GATEWAY_HTTP_TOKENS_H
#define BAILIFF_GATEWAY_HTTP_TOKENS_H

/*
 * The bearer tokens of HTTP clients, in a file that only its owner can read (mode 0600). It is created when `bailiff
 * serve` runs for the first time. A file that others can read or that another user owns is rejected, not repaired: a
 * token that was readable once is no longer secret.
 *
 *   TOKEN          the shared token, at most one such line: for all clients without a name
 *   NAME TOKEN     the token of one client, which gets a session of its own
 *   # …            comment
 *
 * The modern era of the protocol has no sessions, and nothing in a request distinguishes two agents of the same kind.
 * The token is what identifies a client. The name "console" is reserved: only its token gets codes for the console,
 * which can do all that the user may; the tokens that agents have cannot.
 *
 * The file is read again when it changes, so that clients can be added and removed while others are served. If it
 * becomes unreadable or invalid, the previous tokens stay in effect.
 */

#include <stdbool.h>
#include <stddef.h>

struct err;
#define HTTP_CONSOLE_CLIENT "console"

struct http_tokens;

#define HTTP_TOKEN_MIN 16
#define HTTP_TOKEN_MAX 1024
#define HTTP_CLIENT_NAME_MAX 32
#define HTTP_PRINCIPAL_MAX 80

struct http_token {
	char name[HTTP_CLIENT_NAME_MAX + 1]; /* "": the shared token */
	char *text;
	char principal[HTTP_PRINCIPAL_MAX]; /* "client:NAME:…" or "token:…" with the token's digest, so that a new token
					       is a new principal */
};

/* The default path: next to the daemon's configuration ($BAILIFF_HOME, /etc/bailiff, $XDG_CONFIG_HOME/bailiff). */
int http_tokens_path(char *ret, unsigned cap, struct err *e);
/* Reads the file. If there is no token for `name` ("": no token at all), creates one if `create`. */
int http_tokens_load(const char *path, const char *name, bool create, struct http_tokens **ret, struct err *e);
int http_tokens_parse(const char *text, size_t len, struct http_tokens **ret, struct err *e);
void http_tokens_free(struct http_tokens *t);

/* Reads the file again if it has changed. The result is valid until the next call. */
const struct http_token *http_tokens_all(struct http_tokens *t, size_t *ret_n);
const struct http_token *http_tokens_named(const struct http_tokens *t, const char *name); /* or NULL */
bool http_tokens_is_name(const char *name);
const char *http_tokens_file(const struct http_tokens *t); /* the file they were read from, or NULL */
/* `gone` is called for each principal whose token was removed from the file. */
void http_tokens_listen(struct http_tokens *t, void (*gone)(void *ctx, const char *principal), void *ctx);

#endif

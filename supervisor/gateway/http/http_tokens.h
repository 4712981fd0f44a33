#ifndef BAILIFF_GATEWAY_HTTP_TOKENS_H
#define BAILIFF_GATEWAY_HTTP_TOKENS_H

/*
 * The secrets that HTTP clients show, in a file that only its owner can read (mode 0600), made when `bailiff serve`
 * runs for the first time. A file that others could read or that someone else owns is refused, not repaired: what was
 * readable once is no secret.
 *
 *   TOKEN          at most one such line: that of everyone who has no name
 *   NAME TOKEN     that of one client; what it does has a session of its own
 *   # …            nothing
 *
 * The protocol's modern era has no sessions, and nothing in its requests says which of two agents of the same make has
 * sent one. So the token is what tells them apart.
 *
 * The file is read again when it has changed, so that clients come and go while others are served. One that cannot be
 * read any more, or makes no sense, changes nothing.
 */

#include <stdbool.h>
#include <stddef.h>

struct err;
struct http_tokens;

#define HTTP_TOKEN_MIN 16
#define HTTP_TOKEN_MAX 1024
#define HTTP_CLIENT_NAME_MAX 32
#define HTTP_PRINCIPAL_MAX 80

struct http_token {
	char name[HTTP_CLIENT_NAME_MAX + 1]; /* "": of everyone */
	char *text;
	char principal[HTTP_PRINCIPAL_MAX]; /* "client:NAME:…" or "token:…", with the token's digest: another token is
					       someone else */
};

/* Where it is without --token-file: beside the daemon's configuration ($BAILIFF_HOME, /etc/bailiff,
 * $XDG_CONFIG_HOME/bailiff). */
int http_tokens_path(char *ret, unsigned cap, struct err *e);
/* Reads it. Where there is no token for `name` ("": none at all), one is made if `create`. */
int http_tokens_load(const char *path, const char *name, bool create, struct http_tokens **ret, struct err *e);
int http_tokens_parse(const char *text, size_t len, struct http_tokens **ret, struct err *e);
void http_tokens_free(struct http_tokens *t);

/* After looking whether the file has changed; what it returns is good until the next look. */
const struct http_token *http_tokens_all(struct http_tokens *t, size_t *ret_n);
const struct http_token *http_tokens_named(const struct http_tokens *t, const char *name); /* or NULL */
bool http_tokens_is_name(const char *name);
const char *http_tokens_file(const struct http_tokens *t); /* that they come from, or NULL */
/* `gone` is called for a principal whose token was taken out of the file. */
void http_tokens_listen(struct http_tokens *t, void (*gone)(void *ctx, const char *principal), void *ctx);

#endif

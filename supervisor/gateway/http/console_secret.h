#ifndef BAILIFF_GATEWAY_HTTP_CONSOLE_SECRET_H
#define BAILIFF_GATEWAY_HTTP_CONSOLE_SECRET_H

/*
 * The secrets of the console: one-time codes, session cookies, nonces. Each is 32 random bytes as hex.
 *
 * A login code is valid once and for CONSOLE_CODE_MS. It carries the role of the session and the principal of the token
 * with which it was requested. The clock is a parameter, in ms.
 */

#include "supervisor/gateway/http/http_tokens.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONSOLE_SECRET_TEXT 65 /* with its NUL */
#define CONSOLE_CODE_MS 60000
#define CONSOLE_CODES_MOST 16
#define CONSOLE_ROLE_MAX 16

void console_secret_new(char ret[CONSOLE_SECRET_TEXT]);

struct console_code {
	char text[CONSOLE_SECRET_TEXT]; /* "": unused */
	char role[CONSOLE_ROLE_MAX];    /* "": the user's own */
	char principal[HTTP_PRINCIPAL_MAX];
	uint64_t until;
};

struct console_codes {
	struct console_code rows[CONSOLE_CODES_MOST]; /* a ring */
	size_t next;
};

/* Of more than CONSOLE_CODES_MOST unused codes the oldest becomes invalid. */
const char *console_codes_add(struct console_codes *c, const char *role, const char *principal, uint64_t now);
/* True: the code was valid, and *ret has its role and principal. Compares in constant time; a valid code is consumed.
 */
bool console_codes_take(struct console_codes *c, const char *text, uint64_t now, struct console_code *ret);
/* The principal's token was removed. */
void console_codes_forget(struct console_codes *c, const char *principal);

#endif

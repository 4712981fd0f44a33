#ifndef BAILIFF_WEBHOOK_H
#define BAILIFF_WEBHOOK_H

/*
 * bailiff-webhook: a hook of type "http" (policy/hooks.h), as a program that runs inside of a sandbox like the others.
 * It reads what hooks read, sends it to the hook's address through the sandbox's proxy, and prints what comes back, so
 * that whoever started it need not know that this was no command:
 *
 *   2xx              the answer on stdout, exit code 0
 *   anything else    why, on stderr, exit code 1: the hook failed
 *
 * What it is to do is in its environment (runtime/engine/hook/hook_http.h).
 */

struct err;

/*
 * "Name: value" of each header, as libcurl takes it. A variable that may not be read is empty, and so is one that does
 * not exist. −1: a name or value that is none.
 */
int webhook_headers(const char *json, const char *allowed, const char *(*env)(const char *name),
		    void (*fn)(void *ctx, const char *line), void *ctx, struct err *e);

#endif

#ifndef BAILIFF_WEBHOOK_H
#define BAILIFF_WEBHOOK_H

/*
 * bailiff-webhook: a hook of type "http" (policy/hooks.h), as a program that runs inside a sandbox like other hooks. It
 * reads the hook's input, sends it to the hook's URL through the sandbox's proxy and prints the response, so the engine
 * handles it like a command:
 *
 *   2xx              the response on stdout, exit code 0
 *   anything else    the reason on stderr, exit code 1: the hook failed
 *
 * The URL and headers are in its environment (runtime/engine/hook/hook_http.h).
 */

struct err;

/*
 * Appends "Name: value" for each header, in libcurl's syntax. A variable that is not in `allowed`, or does not exist,
 * is replaced by an empty string. −1: an invalid name or value.
 */
int webhook_headers(const char *json, const char *allowed, const char *(*env)(const char *name),
		    void (*fn)(void *ctx, const char *line), void *ctx, struct err *e);

#endif

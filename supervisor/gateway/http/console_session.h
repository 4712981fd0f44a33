#ifndef BAILIFF_GATEWAY_HTTP_CONSOLE_SESSION_H
#define BAILIFF_GATEWAY_HTTP_CONSOLE_SESSION_H

/*
 * One login to the console: its cookie and key, its role, and its own connection to the daemon, which alone decides
 * what the role may do.
 *
 * A call waits while the daemon is away, for CONSOLE_WAIT_MS at most. One whose connection broke before the reply is
 * sent again on the next connection if that is safe: the method only reads, or it has an idempotency key, which is
 * added to each method that takes one. The methods are those of supervisor/control/methods.def; an unknown one, of a
 * newer daemon, is sent once.
 */

#include "runtime/base/jscan.h"
#include "supervisor/gateway/http/console_secret.h"

#include <jansson.h>
#include <sys/queue.h>

struct console_call;
struct console_download;
struct console_session;
struct console_stream;
struct event_base;

#define CONSOLE_WAIT_MS 10000
#define CONSOLE_CALLS_MOST 128

/* status 200: one of result and error is set, as the daemon sent it. 503: the error is {"code":"unavailable", …}. */
typedef void (*console_reply_fn)(void *ctx, unsigned status, struct jval result, struct jval error);

struct console_session {
	TAILQ_ENTRY(console_session) entry; /* of the owner */
	TAILQ_HEAD(, console_stream) streams;
	size_t nstreams;
	struct event_base *base;
	char cookie[CONSOLE_SECRET_TEXT];
	char key[CONSOLE_SECRET_TEXT]; /* of the header X-Bailiff */
	char role[CONSOLE_ROLE_MAX];   /* as requested; "": the user's own */
	char principal[HTTP_PRINCIPAL_MAX];
	uint64_t until, used; /* ms */
	struct console_link *link;
	TAILQ_HEAD(, console_call) calls;
	size_t ncalls;
	TAILQ_HEAD(, console_download) downloads;
};

struct console_session *console_session_new(struct event_base *base, const struct console_code *code);
/* Ends its streams; open calls get 503. Its downloads must have ended (console_output_stop_all). */
void console_session_free(struct console_session *s);

/* NULL, or why this method cannot be called over HTTP; static. */
const char *console_method_refused(const char *method);
/* Calls a method; fn is called exactly once, later, unless the call is cancelled. `params` may be NULL. */
struct console_call *console_session_call(struct console_session *s, const char *method, const json_t *params,
					  console_reply_fn fn, void *ctx);
/* fn will not be called; the daemon still gets the request. */
void console_call_cancel(struct console_call *c);

#endif

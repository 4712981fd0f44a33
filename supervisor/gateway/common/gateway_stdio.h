#ifndef BAILIFF_GATEWAY_STDIO_H
#define BAILIFF_GATEWAY_STDIO_H

/*
 * A gateway that serves one client on standard input and output, one message per line.
 *
 * The end of stdin, a signal, a write error and gateway_stdio_leave all end it: the server is freed, and the loop
 * continues until the daemon has received the server's last requests. Then no event is left, and it returns.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct event_base;
struct gateway_stdio;

struct gateway_stdio_ops {
	void (*line)(void *server, const char *line, size_t len);
	void (*too_long)(void *server); /* a line of more than `line_max` bytes */
	bool (*busy)(void *server);     /* stop reading for now; or NULL */
	void (*free)(void *server);
	size_t line_max;
};

struct gateway_stdio *gateway_stdio_new(const struct gateway_stdio_ops *ops);
struct event_base *gateway_stdio_base(const struct gateway_stdio *s);
/* Serves, then frees `s`. 0, or −1 if the loop failed. */
int gateway_stdio_run(struct gateway_stdio *s, void *server);

/* What servers call, with the gateway_stdio as their ctx. All but leave do nothing once the client has left. */
void gateway_stdio_send(void *ctx, json_t *message); /* takes ownership */
bool gateway_stdio_lags(void *ctx);                  /* the client reads slowly */
bool gateway_stdio_flushed(void *ctx);               /* all messages were written */
void gateway_stdio_wake(void *ctx);                  /* `busy` may have become false */
void gateway_stdio_leave(void *ctx);                 /* ends the service; the server is not freed in this call */

#endif

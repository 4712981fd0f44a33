#ifndef BAILIFF_GATEWAY_HTTP_MCP_ENDPOINT_H
#define BAILIFF_GATEWAY_HTTP_MCP_ENDPOINT_H

/*
 * MCP's streamable HTTP transport: one path for both eras.
 *
 *   legacy   initialize creates a session, whose id the client sends from then on. POST carries messages; GET reads
 *            messages that belong to no request, or resumes a stream; DELETE ends the session, as does a long time
 *            without any connection. A broken connection does not stop what runs for the session.
 *   modern   POST only, and each request is independent. Requests with the same token share one session with the
 *            daemon, because the token identifies the principal. A broken connection cancels its request.
 *
 * A session id is as secret as a token, but not sufficient without one: it is valid only with the token that created
 * it.
 */

#include <stddef.h>
#include <stdint.h>

struct event_base;
struct http_server;
struct mcp_config;
struct mcp_endpoint;

struct mcp_endpoint_options {
	struct event_base *base;
	const struct mcp_config *config;
	size_t sessions;  /* maximum */
	unsigned idle_ms; /* a session without a connection ends after this time */
};

struct mcp_endpoint_counts {
	uint64_t sessions_started, sessions_expired;
	uint64_t sessions; /* current number */
};

struct mcp_endpoint *mcp_endpoint_new(const struct mcp_endpoint_options *o);
void mcp_endpoint_serve(struct mcp_endpoint *p, struct http_server *s, const char *path);
/* Ends all sessions. The loop must keep running briefly so that the daemon receives the requests. */
void mcp_endpoint_stop(struct mcp_endpoint *p);
/* Ends everything that belongs to this principal, whose token was removed. */
void mcp_endpoint_forget(struct mcp_endpoint *p, const char *principal);
void mcp_endpoint_free(struct mcp_endpoint *p);
struct mcp_endpoint_counts mcp_endpoint_counts(const struct mcp_endpoint *p);

#endif

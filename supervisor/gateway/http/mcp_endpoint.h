#ifndef BAILIFF_GATEWAY_HTTP_MCP_ENDPOINT_H
#define BAILIFF_GATEWAY_HTTP_MCP_ENDPOINT_H

/*
 * MCP's streamable HTTP transport: one path, both eras.
 *
 *   legacy   initialize makes a session, whose id the client shows from then on; POST brings messages, GET reads what
 *            belongs to
 *            no request or resumes a stream, DELETE ends the session, as does a long time without any connection.
 *              What runs for
 *            it goes on when a connection breaks.
 *   modern   POST alone, and every request stands for itself. Those that come with the same token share one session
 *            with the
 *            daemon, since they come from one principal: whoever has it. A connection that breaks cancels its
 *              request.
 *
 * A session's id is as secret as the token is, but never enough without it: it belongs to the token that it began with.
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
	size_t sessions;  /* at most */
	unsigned idle_ms; /* a session without a connection ends */
};

struct mcp_endpoint_counts {
	uint64_t sessions_started, sessions_expired;
	uint64_t sessions; /* now */
};

struct mcp_endpoint *mcp_endpoint_new(const struct mcp_endpoint_options *o);
void mcp_endpoint_serve(struct mcp_endpoint *p, struct http_server *s, const char *path);
/* Ends all sessions; the loop must go on for a moment so that the daemon is told. */
void mcp_endpoint_stop(struct mcp_endpoint *p);
/* Ends what this principal has: its token is none any more. */
void mcp_endpoint_forget(struct mcp_endpoint *p, const char *principal);
void mcp_endpoint_free(struct mcp_endpoint *p);
struct mcp_endpoint_counts mcp_endpoint_counts(const struct mcp_endpoint *p);

#endif

#ifndef BAILIFF_GATEWAY_MCP_REQUEST_STATE_H
#define BAILIFF_GATEWAY_MCP_REQUEST_STATE_H

/*
 * Request states: data that a modern client stores for us between the rounds of a call. The client may publish it and
 * send anything back, so an HMAC binds it to the method, the subject (name and arguments, or URI), the principal and an
 * expiry time. It is not secret: it must contain nothing that the client may not read.
 *
 * The key is generated for each gateway process. A state that outlives its gateway is rejected like a forged one, and
 * the client starts again; an operator can still answer what waits for approval meanwhile.
 */

#include <jansson.h>
#include <stdint.h>

struct err;

struct mcp_request_state {
	const uint8_t *key; /* 32 bytes */
	const char *method;
	const json_t *params; /* its name, uri and arguments are bound */
	const char *principal;
	uint64_t now_s;
};
#define MCP_REQUEST_STATE_LIFE_S 3600u
#define MCP_REQUEST_STATE_MAX (64u << 10)

char *mcp_request_state_sign(const struct mcp_request_state *s, const json_t *kept);
/* The stored data; NULL with *e if it is forged, for another request, or expired. */
json_t *mcp_request_state_verify(const struct mcp_request_state *s, const char *text, struct err *e);

#endif

#ifndef BAILIFF_GATEWAY_MCP_REQUEST_STATE_H
#define BAILIFF_GATEWAY_MCP_REQUEST_STATE_H

/*
 * Request states: what a modern client keeps for us between the rounds of a call. The client may show it to anybody and
 * send anything back, so it is bound by an HMAC to what it is for: the method, what was asked for (name and arguments,
 * or URI), who asked, and a time after which it is void. It is not secret: nothing is put into it that the client must
 * not read.
 *
 * The key is made anew for each gateway process. A state that outlives its gateway is refused like a forged one, and
 * the client asks again from the start; what waits for permission meanwhile can still be answered by an operator.
 */

#include <jansson.h>
#include <stdint.h>

struct err;

struct mcp_request_state {
	const uint8_t *key; /* 32 bytes */
	const char *method;
	const json_t *params; /* name, uri and arguments of it count */
	const char *principal;
	uint64_t now_s;
};
#define MCP_REQUEST_STATE_LIFE_S 3600u
#define MCP_REQUEST_STATE_MAX (64u << 10)

char *mcp_request_state_sign(const struct mcp_request_state *s, const json_t *kept);
/* What was kept; NULL with *e when it is forged, of something else, or too old. */
json_t *mcp_request_state_verify(const struct mcp_request_state *s, const char *text, struct err *e);

#endif

#ifndef BAILIFF_GATEWAY_MCP_CLIENT_STATE_H
#define BAILIFF_GATEWAY_MCP_CLIENT_STATE_H

/*
 * State of a client between calls: the offset up to which it has seen each process's output, so that the next reply
 * continues there, and the turn in which its file tools run. Calls work without it: a client that reconnects starts
 * with empty state.
 */

#include <stdbool.h>
#include <stdint.h>

struct mcp_client_state;
struct gateway_session;

struct mcp_client_state *mcp_client_state_new(void);
/* The client disconnected: ends its turn, if there is one. `up` may be NULL. */
void mcp_client_state_free(struct mcp_client_state *m, struct gateway_session *up);

/* 0 for output never shown. The least recently used of many processes are dropped. */
uint64_t mcp_client_state_offset(struct mcp_client_state *m, const char *process_id, const char *stream);
void mcp_client_state_set_offset(struct mcp_client_state *m, const char *process_id, const char *stream,
				 uint64_t offset);

/* The id of the client's turn, and how it stands: one call opens it, others wait for that. */
enum mcp_client_state_turn { MCP_TURN_NONE, MCP_TURN_OPENING, MCP_TURN_OPEN };
const char *mcp_client_state_turn(struct mcp_client_state *m);
enum mcp_client_state_turn mcp_client_state_turn_state(const struct mcp_client_state *m);
void mcp_client_state_turn_is(struct mcp_client_state *m, enum mcp_client_state_turn state);
/* It was ended by another client: the next one has another id. */
void mcp_client_state_turn_gone(struct mcp_client_state *m);
/* Tool calls of the turn that have not ended: added up. */
void mcp_client_state_turn_uses(struct mcp_client_state *m, int more);
/* A new id for a tool call. */
void mcp_client_state_call_id(char ret[72]);

#endif

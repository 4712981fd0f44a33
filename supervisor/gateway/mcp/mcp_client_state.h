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

/* The id of the client's turn, and its state. One call opens the turn; others wait until it is open. */
enum mcp_client_state_turn { MCP_TURN_NONE, MCP_TURN_OPENING, MCP_TURN_OPEN };
const char *mcp_client_state_turn(struct mcp_client_state *m);
enum mcp_client_state_turn mcp_client_state_turn_state(const struct mcp_client_state *m);
void mcp_client_state_turn_is(struct mcp_client_state *m, enum mcp_client_state_turn state);
/* This turn has ended, by another client: if it is still the client's, the next one gets a new id. */
void mcp_client_state_turn_gone(struct mcp_client_state *m, const char *turn_id);
/* Adds to the number of the turn's tool calls in progress. */
void mcp_client_state_turn_uses(struct mcp_client_state *m, int more);
/* A new id for a tool call. */
void mcp_client_state_call_id(char ret[72]);

#endif

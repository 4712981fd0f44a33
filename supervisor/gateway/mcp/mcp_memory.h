#ifndef BAILIFF_MCP_MEMORY_H
#define BAILIFF_MCP_MEMORY_H

/*
 * What the tools remember of a client from call to call: how far it has seen each process's output, so that the next
 * answer goes on there, and the turn in which its file tools run. Nothing that a call could not do without: a client
 * that comes back begins anew.
 */

#include <stdbool.h>
#include <stdint.h>

struct mcp_memory;
struct session;

struct mcp_memory *mcp_memory_new(void);
/* The client has gone: its turn is ended, if there is one. `up` may be NULL. */
void mcp_memory_free(struct mcp_memory *m, struct session *up);

/* 0 for what was never shown. The least recently used of many processes are forgotten. */
uint64_t mcp_memory_seen(struct mcp_memory *m, const char *process_id, const char *stream);
void mcp_memory_saw(struct mcp_memory *m, const char *process_id, const char *stream, uint64_t offset);

/* The id of the client's turn, and how it stands: one call opens it, others wait for that. */
enum mcp_memory_turn { MCP_TURN_NONE, MCP_TURN_OPENING, MCP_TURN_OPEN };
const char *mcp_memory_turn(struct mcp_memory *m);
enum mcp_memory_turn mcp_memory_turn_state(const struct mcp_memory *m);
void mcp_memory_turn_is(struct mcp_memory *m, enum mcp_memory_turn state);
/* It was ended by somebody else: the next one has another id. */
void mcp_memory_turn_gone(struct mcp_memory *m);
/* Tool calls of the turn that have not ended: added up. */
void mcp_memory_turn_uses(struct mcp_memory *m, int more);
/* A new id for a tool call. */
void mcp_memory_call_id(char ret[72]);

#endif

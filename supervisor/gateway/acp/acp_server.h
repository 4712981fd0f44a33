#ifndef BAILIFF_GATEWAY_ACP_SERVER_H
#define BAILIFF_GATEWAY_ACP_SERVER_H

/*
 * An agent for editors that speak the Agent Client Protocol, version 1. The agent is the execution loop of the daemon:
 * a prompt is a turn with the driver "loop", and everything that the editor shows is derived from the turn's events.
 *
 * Each session of the editor is a bailiff session of its own. The editor is the user's side of the protocol, unlike an
 * MCP client: its answers to questions, and the mode that it selects, are decisions of a person.
 *
 *   acp_server    handshake, dispatch, the sessions
 *   acp_session   one session: opening, prompts, cancellation, modes
 *   acp_list      session/list
 *   acp_replay    session/load: the conversation so far, from the log
 *   acp_update    events as session/update
 *   acp_question  action.required as session/request_permission or elicitation/create
 *   acp_buffer    the text of files in the editor, for file tools
 *   path_guard    … whether a path was exchanged meanwhile
 *   acp_message   replies and notifications
 *   acp_content   prompts as text; the arguments of tools as titles, locations and diffs
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct acp_server;
struct event_base;

struct acp_options {
	const char *model, *profile; /* NULL = the defaults */
	json_t *limits;              /* of each turn, as in submit_turn; or NULL */
};

struct acp_server_ops {
	void (*send)(void *ctx, json_t *message); /* takes ownership */
	bool (*lags)(void *ctx);                  /* the editor reads slowly: omit what can be omitted */
};

struct acp_server *acp_server_new(struct event_base *base, const struct acp_options *o,
				  const struct acp_server_ops *ops, void *ctx);
/*
 * The editor has disconnected: interrupts running turns, since nobody can answer their questions or see what they do.
 * The loop stays busy until the daemon has received the requests.
 */
void acp_server_free(struct acp_server *s);
void acp_server_feed(struct acp_server *s, const char *line, size_t len);
void acp_server_too_long(struct acp_server *s);

#endif

#ifndef BAILIFF_MCP_LISTEN_H
#define BAILIFF_MCP_LISTEN_H

/* subscriptions/listen: the notifications that a modern client subscribes to. The call lasts until it is cancelled. */

#include <jansson.h>
#include <stdbool.h>

struct mcp_session;

/* notifications/<what>/list_changed, to calls that subscribed to it. what: tools, prompts, resources. */
void mcp_listen_list(struct mcp_session *m, const char *what);
void mcp_listen_resource(struct mcp_session *m, const char *uri);
/* Sends notifications/resources/updated to listening calls and legacy subscribers. */
void mcp_listen_tell_updated(struct mcp_session *m, const char *uri);
bool mcp_listen_wants(const struct mcp_session *m, const char *uri); /* a call listens to this resource */
/* `task`: in the format of tasks/get. */
void mcp_listen_task(struct mcp_session *m, const char *id, const json_t *task);
/* Ends all listening calls when the server exits. */
void mcp_listen_end(struct mcp_session *m);

#endif

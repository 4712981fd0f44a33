#ifndef BAILIFF_MCP_LISTEN_H
#define BAILIFF_MCP_LISTEN_H

/* subscriptions/listen: the notifications that a modern client subscribes to. A call that lasts until it is cancelled.
 */

#include <jansson.h>
#include <stdbool.h>

struct mcp_session;

/* notifications/<what>/list_changed, to calls that subscribed to it. what: tools, prompts, resources. */
void mcp_listen_list(struct mcp_session *m, const char *what);
void mcp_listen_resource(struct mcp_session *m, const char *uri);
/* notifications/resources/updated, to those who listen and to legacy subscribers. */
void mcp_listen_tell_updated(struct mcp_session *m, const char *uri);
bool mcp_listen_wants(const struct mcp_session *m, const char *uri); /* a call listens to this resource */
/* `task` as tasks/get has it. */
void mcp_listen_task(struct mcp_session *m, const char *id, const json_t *task);
/* Ends them, when the server exits. */
void mcp_listen_end(struct mcp_session *m);

#endif

/*
 * subscriptions/listen of modern clients, and notifications of changes for both eras.
 *
 * A subscription is a call that never finishes by itself: its `data` is the filter that was agreed on, and it ends when
 * the client cancels it, closes its stream, or the gateway exits. So it needs no bookkeeping of its own, and everything
 * that ends calls ends it as well. It is not part of the limit of calls in progress (mcp_call_uncount), which it would
 * use up; on stdio it has a limit of its own.
 *
 * Legacy clients have no filter: `subscribed` has the resources that they named, and changes of lists are always sent.
 */

#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_private.h"
#include "supervisor/gateway/mcp/mcp_task.h"
#include "supervisor/gateway/mcp/mcp_version.h"

#include <string.h>

#define WATCHED_MAX 1000u
#define LISTENING_MAX 64u

static const char *const flags[] = { "toolsListChanged", "promptsListChanged", "resourcesListChanged" };
static const char *const lists[] = { "resourceSubscriptions", "taskIds" };

static void send_notification(struct mcp_call_private *p, const char *method, json_t *params)
{
	json_object_set_new(params, "_meta", json_pack("{sO}", MCP_META "subscriptionId", p->id));
	mcp_send(p->call.mcp, p->stream, rpc_message_notification(RPC_VERSIONED, method, params), false);
}

/* −1: the call has failed. */
static int read_lists(struct mcp_call *c, const json_t *asked, json_t *agreed)
{
	for (size_t i = 0; i < countof(lists); i++) {
		const json_t *list = json_object_get(asked, lists[i]), *one;
		size_t k;

		if (!list)
			continue;
		if (!json_is_array(list) || json_array_size(list) > WATCHED_MAX) {
			mcp_call_fail(c, RPC_INVALID_PARAMS, NULL,
				      "notifications.%s: expected an array of at most %u strings", lists[i],
				      WATCHED_MAX);
			return -1;
		}
		json_array_foreach (list, k, one)
			if (!json_is_string(one)) {
				mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "notifications.%s[%zu]: expected a string",
					      lists[i], k);
				return -1;
			}
		json_object_set_new(agreed, lists[i], json_copy((json_t *)list));
	}
	return 0;
}

/*
 * Only subscriptions on a shared connection (stdio) count. Those with a stream each use an HTTP connection and are
 * limited by that.
 */
static bool is_listening(const struct mcp_call_private *p) { return p->listens && !p->stream; }

void mcp_method_listen(struct mcp_call *c)
{
	struct mcp_call_private *p = c->priv;
	const json_t *asked = json_object_get(c->params, "notifications");

	if (!json_is_object(asked))
		return mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "notifications: expected an object");
	if (json_object_get(asked, "taskIds") && !mcp_call_can(c, "extensions." MCP_TASKS_EXTENSION))
		return mcp_call_lacks(c, "extensions." MCP_TASKS_EXTENSION);
	if (!p->stream && mcp_call_count(c->mcp, is_listening) >= LISTENING_MAX)
		return mcp_call_fail(c, RPC_INVALID_REQUEST, NULL, "%u subscriptions are open already", LISTENING_MAX);
	/* Unknown members are left out of the acknowledgement, which tells the client that they have no effect. */
	json_t *agreed = json_object();
	for (size_t i = 0; i < countof(flags); i++)
		if (json_is_true(json_object_get(asked, flags[i])))
			json_object_set_new(agreed, flags[i], json_true());
	c->data = agreed;
	c->data_free = mcp_call_free_json;
	if (read_lists(c, asked, agreed) < 0)
		return;
	mcp_call_uncount(p);
	p->listens = true;
	send_notification(p, "notifications/subscriptions/acknowledged", json_pack("{sO}", "notifications", agreed));
}

static bool lists_value(const struct mcp_call_private *p, const char *list, const char *value)
{
	const json_t *one;
	size_t i;

	if (!p->listens)
		return false;
	json_array_foreach (json_object_get(p->call.data, list), i, one)
		if (strcmp(json_string_value(one), value) == 0)
			return true;
	return false;
}

/* notifications/<what>/list_changed, to calls that subscribed to it. what: tools, prompts, resources. */
static void mcp_listen_list(struct mcp_session *m, const char *what)
{
	mem_auto char *flag = mem_printf("%sListChanged", what),
		      *method = mem_printf("notifications/%s/list_changed", what);
	struct mcp_call_private *p;

	TAILQ_FOREACH (p, &m->calls, entry)
		if (p->listens && json_get_flag(p->call.data, flag))
			send_notification(p, method, json_object());
}

/* Whether a call listens to this resource. */
static bool is_listened_to(const struct mcp_session *m, const char *uri)
{
	const struct mcp_call_private *p;

	TAILQ_FOREACH (p, &m->calls, entry)
		if (lists_value(p, "resourceSubscriptions", uri))
			return true;
	return false;
}

/* notifications/resources/updated, to calls that subscribed to this URI. */
static void mcp_listen_resource(struct mcp_session *m, const char *uri)
{
	struct mcp_call_private *p;

	TAILQ_FOREACH (p, &m->calls, entry)
		if (lists_value(p, "resourceSubscriptions", uri))
			send_notification(p, "notifications/resources/updated", json_pack("{ss}", "uri", uri));
}

void mcp_listen_task(struct mcp_session *m, const char *id, const json_t *task)
{
	struct mcp_call_private *p;

	TAILQ_FOREACH (p, &m->calls, entry)
		if (lists_value(p, "taskIds", id))
			send_notification(p, "notifications/tasks", json_deep_copy(task));
}

void mcp_listen_end(struct mcp_session *m)
{
	struct mcp_call_private *p;
	uint64_t at = 0;

	/* By serial: finishing a call frees it. */
	for (p = mcp_call_after(m, 0); p; p = mcp_call_after(m, at)) {
		at = p->serial;
		if (p->listens)
			mcp_call_finish(&p->call, json_pack("{s{sO}}", "_meta", MCP_META "subscriptionId", p->id));
	}
}

void mcp_listen_notify_updated(struct mcp_session *m, const char *uri)
{
	mcp_listen_resource(m, uri);
	if (json_object_get(m->subscribed, uri))
		mcp_send(m, NULL,
			 rpc_message_notification(RPC_VERSIONED, "notifications/resources/updated",
						  json_pack("{ss}", "uri", uri)),
			 false);
}

/*
 * Changes arrive as long as processes run, so for a client that does not read at most one pending notification per URI
 * is kept.
 */
void mcp_session_resource_updated(struct mcp_session *m, const char *uri)
{
	if (!mcp_is_behind(m))
		mcp_listen_notify_updated(m, uri);
	else if (json_object_get(m->subscribed, uri) || is_listened_to(m, uri))
		json_object_set_new(m->unsent, uri, json_true());
}

void mcp_session_list_changed(struct mcp_session *m, const char *what)
{
	mem_auto char *method = mem_printf("notifications/%s/list_changed", what);

	mcp_listen_list(m, what);
	if (m->version)
		mcp_send(m, NULL, rpc_message_notification(RPC_VERSIONED, method, NULL), false);
}

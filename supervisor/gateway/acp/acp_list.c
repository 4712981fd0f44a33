/*
 * session/list: the sessions that session/load shows something of, those with a turn of the loop. The protocol wants a
 * working directory for each; turns have one, so it is that of the newest turn. The title is the first prompt.
 *
 * There may be no session yet, so lists have a connection to the daemon of their own: one for all of them, which is
 * closed with the last one.
 */

#include "supervisor/gateway/acp/acp_private.h"

#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"

#include <string.h>

#define PAGE 25
#define TURNS_MAX 1000

struct acp_list {
	TAILQ_ENTRY(acp_list) entry;
	struct acp_server *server;
	json_t *id, *params;
	json_t *page; /* list_sessions */
	size_t at;    /* in its sessions */
	json_t *shown;
};

static void read_next(struct acp_list *l);

void acp_list_free(struct acp_list *l)
{
	if (l->server->lister)
		gateway_session_cancel_callbacks(l->server->lister, l);
	TAILQ_REMOVE(&l->server->lists, l, entry);
	if (TAILQ_EMPTY(&l->server->lists))
		gateway_session_free(mem_take(&l->server->lister));
	json_decref(l->id);
	json_decref(l->params);
	json_decref(l->page);
	json_decref(l->shown);
	free(l);
}

static void list_failed(struct acp_list *l, const json_t *error)
{
	acp_fail_with(l->server, l->id, "list the sessions", error);
	acp_list_free(l);
}

/* The turns of the loop in a session, oldest first; a subagent's are a part of another. */
static void on_turns(void *ctx, json_t *result, json_t *error)
{
	struct acp_list *l = ctx;
	const json_t *session = json_array_get(json_object_get(l->page, "sessions"), l->at++), *event;
	const char *wanted = json_get_string(l->params, "cwd"), *cwd = NULL;
	const json_t *title = NULL;
	size_t i;

	if (error)
		return list_failed(l, error);
	json_array_foreach (json_object_get(result, "events"), i, event) {
		const json_t *payload = json_object_get(event, "payload");
		const char *at = json_get_string(json_object_get(payload, "options"), "cwd");

		if (!json_text_is(payload, "driver", "loop") || json_get_string(event, "toolCallId"))
			continue;
		cwd = at ? at : cwd;
		title = title ? title : json_object_get(payload, "preview");
	}
	if (cwd && (!wanted || strcmp(wanted, cwd) == 0))
		json_array_append_new(l->shown,
				      json_pack("{sO ss sO* sO*}", "sessionId", json_object_get(session, "sessionId"),
						"cwd", cwd, "title", (json_t *)(uintptr_t)title, "updatedAt",
						json_object_get(session, "updatedAt")));
	read_next(l);
}

static void read_next(struct acp_list *l)
{
	const json_t *session = json_array_get(json_object_get(l->page, "sessions"), l->at),
		     *next = json_object_get(l->page, "nextCursor");

	if (session) {
		gateway_session_query(l->server->lister, "list_events",
				      json_pack("{sO s[s] si}", "sessionId", json_object_get(session, "sessionId"),
						"types", "turn.submitted", "limit", TURNS_MAX),
				      on_turns, l);
		return;
	}
	acp_reply(l->server, l->id,
		  json_pack("{sO sO*}", "sessions", l->shown, "nextCursor", (json_t *)(uintptr_t)next));
	acp_list_free(l);
}

static void on_sessions(void *ctx, json_t *result, json_t *error)
{
	struct acp_list *l = ctx;

	if (error)
		return list_failed(l, error);
	l->page = json_deep_copy(result);
	read_next(l);
}

static void read_sessions(struct acp_list *l)
{
	json_t *query = json_pack("{si}", "limit", PAGE);

	if (json_get_string(l->params, "cursor"))
		json_object_set(query, "cursor", json_object_get(l->params, "cursor"));
	gateway_session_query(l->server->lister, "list_sessions", query, on_sessions, l);
}

/* With an error there is no connection: the next list opens another one. */
static void on_ready(void *ctx, const struct err *failed)
{
	struct acp_server *s = ctx;
	json_auto_t *error = failed ? json_pack("{so}", "message",
						rpc_message_text(failed->message, strlen(failed->message)))
				    : NULL;
	struct acp_list *l;

	if (!failed) {
		TAILQ_FOREACH (l, &s->lists, entry)
			read_sessions(l); /* the replies come from the loop */
		return;
	}
	while ((l = TAILQ_FIRST(&s->lists)))
		list_failed(l, error);
}

void acp_list_sessions(struct acp_server *s, struct acp_session *session, const json_t *id, const json_t *params)
{
	static const struct gateway_session_ops ops = { .ready = on_ready };
	const struct gateway_session_options o = { .base = s->base, .client_name = "acp", .reads_only = true };
	static const char *const texts[] = { "cwd", "cursor" };
	struct acp_list *l;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < countof(texts); i++) {
		const json_t *v = json_object_get(params, texts[i]);

		if (v && !json_is_null(v) && !json_is_string(v))
			return acp_fail(s, id, RPC_INVALID_PARAMS, NULL, "%s: must be a string", texts[i]);
	}
	l = mem_zalloc(1, sizeof(*l));
	l->server = s;
	l->id = json_deep_copy(id);
	l->params = json_deep_copy(params);
	l->shown = json_array();
	TAILQ_INSERT_TAIL(&s->lists, l, entry);
	if (s->lister && gateway_session_ready(s->lister)) {
		read_sessions(l);
	} else if (!s->lister && gateway_session_open(&o, &ops, s, &s->lister, &e) < 0) {
		acp_fail(s, id, RPC_INTERNAL_ERROR, NULL, "%s", e.message);
		acp_list_free(l);
	}
}

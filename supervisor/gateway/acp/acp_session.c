/*
 * One session of the editor: a gateway session, and at most one prompt at a time, which is a turn of the loop.
 *
 * Events may arrive before the reply to submit_turn, which has the turn's id. They are kept in `backlog` until then.
 */

#include "supervisor/gateway/acp/acp_private.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "runtime/base/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SESSIONS_MAX 64u

/* ---- modes ---- */

static const struct {
	const char *id, *text;
} modes[] = {
#define MODE(NAME, name, other, text) { name, text },
#include "policy/modes.def"
#undef MODE
};

/* "on_request" as "On request". */
static json_t *mode_title(const char *id)
{
	mem_auto char *name = mem_strdup(id);

	name[0] = (char)toupper((unsigned char)name[0]);
	for (char *c = name; *c; c++)
		if (*c == '_')
			*c = ' ';
	return json_string(name);
}

/* Modes that the policy does not permit are not offered. */
static json_t *mode_state(const json_t *policy)
{
	json_t *list = json_array();

	for (size_t i = 0; i < countof(modes); i++)
		if (strcmp(modes[i].id, "bypass") != 0 || json_get_flag(policy, "bypassPermitted"))
			json_array_append_new(list, json_pack("{ss so ss}", "id", modes[i].id, "name",
							      mode_title(modes[i].id), "description", modes[i].text));
	return json_pack("{ss so}", "currentModeId", json_get_text(policy, "mode"), "availableModes", list);
}

static void on_mode_set(void *ctx, json_t *result, json_t *error)
{
	struct acp_session *s = ctx;
	json_auto_t *id = mem_take(&s->mode_id);

	if (error)
		acp_fail_with(s->server, id, "set the mode", error);
	else
		acp_reply(s->server, id, json_object());
}

void acp_session_set_mode(struct acp_server *s, struct acp_session *session, const json_t *id, const json_t *params)
{
	const char *mode = json_get_string(params, "modeId");

	if (!mode)
		return acp_fail(s, id, RPC_INVALID_PARAMS, NULL, "modeId: must be a string");
	if (session->mode_id)
		return acp_fail(s, id, RPC_INVALID_REQUEST, NULL, "the mode is being changed already");
	session->mode_id = json_deep_copy(id);
	gateway_session_answer(session->up, "set_permission_mode",
			       json_pack("{ss ss}", "sessionId", session->id, "mode", mode), on_mode_set, session);
}

/* ---- opening ---- */

static void open_failed(struct acp_session *s, const char *what, const json_t *error)
{
	acp_fail_with(s->server, s->opening_id, what, error);
	acp_session_free(s);
}

static void on_policy(void *ctx, json_t *result, json_t *error)
{
	struct acp_session *s = ctx;
	json_t *reply;

	if (error)
		return open_failed(s, "read the policy", error);
	snprintf(s->mode, sizeof(s->mode), "%s", json_get_text(result, "mode"));
	reply = json_pack("{so}", "modes", mode_state(result));
	if (s->opening == ACP_NEW)
		json_object_set_new(reply, "sessionId", json_string(s->id));
	s->opening = ACP_OPEN;
	acp_reply(s->server, s->opening_id, reply);
	json_decref(mem_take(&s->opening_id));
}

/* The editor has everything that it needs before the reply. */
static void answer_opening(struct acp_session *s)
{
	gateway_session_query(s->up, "get_policy", json_pack("{ss ss}", "sessionId", s->id, "cwd", s->cwd), on_policy,
			      s);
}

static void submit_prompt(struct acp_session *s);
static void turn_ended(struct acp_session *s, const json_t *event);
static void args_read(struct acp_session *s);

/* The prompt cannot be continued: the daemon is gone, and with it the events of the turn. */
static void fail_prompt(struct acp_session *s, const char *what, const json_t *error)
{
	json_auto_t *id = mem_take(&s->prompt_id);

	json_decref(mem_take(&s->prompt));
	json_decref(mem_take(&s->backlog));
	json_decref(mem_take(&s->ending));
	s->turn_id[0] = '\0';
	acp_question_withdraw_all(s);
	if (id)
		acp_fail_with(s->server, id, what, error);
}

static void on_ready(void *ctx, const struct err *failed)
{
	struct acp_session *s = ctx;
	json_auto_t *error = failed ? json_pack("{so}", "message",
						rpc_message_text(failed->message, strlen(failed->message)))
				    : NULL;

	if (failed && failed->code == ERR_NOT_FOUND)
		json_object_set_new(error, "data", json_pack("{ss}", "category", "not_found"));
	if (failed && s->opening != ACP_OPEN)
		return open_failed(s, "open the session", error);
	if (failed)
		return fail_prompt(s, "the connection to the daemon is lost", error);
	snprintf(s->id, sizeof(s->id), "%s", gateway_session_id(s->up));
	acp_servers_connect(s);
	if (s->opening == ACP_LOAD)
		acp_replay_start(s);
	else if (s->opening != ACP_OPEN)
		answer_opening(s);
	else
		submit_prompt(s);
}

static void on_resumed(void *ctx) { acp_servers_connect(ctx); }

/* Another client, or a command of this one, has changed the mode. */
static void note_mode(struct acp_session *s, const json_t *event)
{
	const json_t *payload = json_object_get(event, "payload");
	const char *mode = json_get_string(payload, "mode");

	if (!mode || !json_text_is(payload, "layer", "session") || strcmp(mode, s->mode) == 0)
		return;
	snprintf(s->mode, sizeof(s->mode), "%s", mode);
	acp_message_update(s, json_pack("{ss ss}", "sessionUpdate", "current_mode_update", "currentModeId", mode));
}

static void apply_event(struct acp_session *s, const json_t *event)
{
	if (s->turn_id[0] && json_text_is(event, "turnId", s->turn_id))
		acp_update_event(s, event);
	else if (s->turn_id[0])
		acp_update_other(s, event);
}

static void on_event(void *ctx, struct jval text)
{
	struct acp_session *s = ctx;
	struct jval type = jval_get(text, "type");
	bool mode = jval_is_str(type, "policy.changed");

	if (s->opening != ACP_OPEN || (!mode && (!s->prompt_id || !acp_update_handles(type))))
		return;
	json_auto_t *event = json_loadb(text.text, text.len, JSON_ALLOW_NUL, NULL);
	if (mode)
		note_mode(s, event);
	else if (s->backlog)
		json_array_append(s->backlog, event);
	else
		apply_event(s, event);
}

/* An existing session can be opened without its folder, to read its conversation. */
static int check_folder(const char *cwd, enum acp_opening how, char ret[PATH_MAX], struct err *e)
{
	struct stat st;

	if (!cwd || path_clean(cwd, ret, e) < 0)
		return err_set(e, ERR_INVALID, "cwd: must be an absolute path");
	if (how != ACP_NEW)
		return 0;
	if (stat(ret, &st) < 0 && errno != ENOENT && errno != ENOTDIR)
		return err_set(e, ERR_INVALID, "cwd: '%.400s' cannot be opened: %s", ret, strerror(errno));
	if (stat(ret, &st) < 0)
		return err_set(e, ERR_INVALID, "cwd: '%.400s' does not exist; create it, or open another folder", ret);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, "cwd: '%.400s' is not a folder; open the folder that it is in", ret);
	return 0;
}

/* As the protocol's schema requires it. */
static int check_opening(const json_t *params, enum acp_opening how, char ret_folder[PATH_MAX], struct err *e)
{
	const json_t *servers = json_object_get(params, "mcpServers");

	if (check_folder(json_get_string(params, "cwd"), how, ret_folder, e) < 0)
		return -1;
	if (!servers && how != ACP_RESUME)
		return err_set(e, ERR_INVALID, "mcpServers: is missing; without servers, send an empty array");
	if (acp_servers_check(servers, e) < 0)
		return -1;
	if (how != ACP_NEW && !json_get_string(params, "sessionId"))
		return err_set(e, ERR_INVALID, "sessionId: must be a string");
	return 0;
}

static void open_session(struct acp_server *s, const json_t *id, const json_t *params, enum acp_opening how,
			 const char folder[PATH_MAX])
{
	static const struct gateway_session_ops up_ops = { .ready = on_ready,
							   .event = on_event,
							   .resumed = on_resumed };
	static const struct acp_session_ops ops = {
		.turn_ended = turn_ended,
		.args_read = args_read,
		.opened = answer_opening,
		.open_failed = open_failed,
		.servers_known = submit_prompt,
	};
	const char *existing = json_get_string(params, "sessionId");
	struct acp_session *session;
	struct err e = ERR_INIT;

	if (s->nsessions >= SESSIONS_MAX)
		return acp_fail(s, id, RPC_INVALID_REQUEST, NULL, "%u sessions are open; close one with session/close",
				SESSIONS_MAX);
	session = mem_zalloc(1, sizeof(*session));
	session->server = s;
	session->ops = &ops;
	session->opening = how;
	session->opening_id = json_deep_copy(id);
	session->calls = json_object();
	session->subagents = json_object();
	TAILQ_INIT(&session->questions);
	TAILQ_INIT(&session->buffers);
	TAILQ_INIT(&session->args);
	snprintf(session->cwd, sizeof(session->cwd), "%s", folder);
	TAILQ_INSERT_TAIL(&s->sessions, session, entry);
	s->nsessions++;
	session->servers = json_deep_copy(json_object_get(params, "mcpServers"));
	const struct gateway_session_options o = {
		.base = s->base,
		.client_name = s->client_name ? s->client_name : "acp",
		.client_version = s->client_version,
		.native_protocol = "acp",
		.transport = "stdio",
		.asks = true,
		.session_id = how == ACP_NEW ? NULL : existing,
		.folder = session->cwd,
	};
	if (gateway_session_open(&o, &up_ops, session, &session->up, &e) < 0) {
		acp_fail(s, id, RPC_INTERNAL_ERROR, NULL, "%s", e.message);
		acp_session_free(session);
	}
}

void acp_session_create(struct acp_server *s, struct acp_session *session, const json_t *id, const json_t *params)
{
	char folder[PATH_MAX];
	struct err e = ERR_INIT;

	if (check_opening(params, ACP_NEW, folder, &e) < 0)
		return acp_fail(s, id, RPC_INVALID_PARAMS, NULL, "%s", e.message);
	open_session(s, id, params, ACP_NEW, folder);
}

/* Every request has an answer, also one whose reply from the daemon is not awaited. */
static void end_session(struct acp_session *s)
{
	if (s->mode_id)
		acp_fail(s->server, s->mode_id, RPC_INVALID_REQUEST, NULL,
			 "the session was closed before the daemon answered");
	acp_session_free(s);
}

/* A session that is open already is opened anew: editors do so after a reload of their window. */
static void reopen_session(struct acp_server *s, const json_t *id, const json_t *params, enum acp_opening how)
{
	const char *existing = json_get_text(params, "sessionId");
	struct acp_session *one;
	char folder[PATH_MAX];
	struct err e = ERR_INIT;

	if (check_opening(params, how, folder, &e) < 0)
		return acp_fail(s, id, RPC_INVALID_PARAMS, NULL, "%s", e.message);
	TAILQ_FOREACH (one, &s->sessions, entry)
		if (strcmp(one->id, existing) == 0 && one->prompt_id)
			return acp_fail(s, id, RPC_INVALID_REQUEST, NULL,
					"sessionId: a prompt is running in this session");
	TAILQ_FOREACH (one, &s->sessions, entry)
		if (*existing && one->opening == ACP_OPEN && strcmp(one->id, existing) == 0)
			break;
	if (one)
		end_session(one);
	open_session(s, id, params, how, folder);
}

void acp_session_load(struct acp_server *s, struct acp_session *session, const json_t *id, const json_t *params)
{
	reopen_session(s, id, params, ACP_LOAD);
}

void acp_session_resume(struct acp_server *s, struct acp_session *session, const json_t *id, const json_t *params)
{
	reopen_session(s, id, params, ACP_RESUME);
}

/* ---- prompts ---- */

static void interrupt_turn(struct acp_session *s)
{
	gateway_session_mutate(s->up, "interrupt_turn",
			       json_pack("{ss ss}", "turnId", s->turn_id, "reason", "cancelled in the editor"), NULL,
			       NULL, NULL);
}

static void on_submitted(void *ctx, json_t *result, json_t *error)
{
	struct acp_session *s = ctx;
	json_auto_t *backlog = mem_take(&s->backlog);
	const json_t *event;
	size_t i;

	if (error)
		return fail_prompt(s, "submit the prompt", error);
	snprintf(s->turn_id, sizeof(s->turn_id), "%s", json_get_text(result, "turnId"));
	memcpy(s->last_turn_id, s->turn_id, sizeof(s->turn_id));
	if (s->cancelled)
		interrupt_turn(s);
	json_array_foreach (backlog, i, event)
		apply_event(s, event);
}

/* Submits the prompt if there is one and the tools of the editor's servers are known. */
static void submit_prompt(struct acp_session *s)
{
	const struct acp_options *o = &s->server->o;

	if (!s->prompt || acp_servers_waiting(s))
		return;
	if (s->notice)
		acp_message_text(s, "agent_message_chunk", json_string_value(s->notice), json_string_length(s->notice),
				 NULL);
	json_decref(mem_take(&s->notice));
	json_t *params = json_pack("{ss ss so s{ss}}", "sessionId", s->id, "driver", "loop", "input",
				   mem_take(&s->prompt), "options", "cwd", s->cwd);

	if (o->model)
		json_object_set_new(params, "model", json_string(o->model));
	if (o->profile)
		json_object_set_new(json_object_get(params, "options"), "profile", json_string(o->profile));
	if (s->server->buffers)
		json_object_set_new(json_object_get(params, "options"), "editor", json_true());
	if (o->limits)
		json_object_set(params, "limits", o->limits);
	s->backlog = json_array();
	gateway_session_mutate(s->up, "submit_turn", params, NULL, on_submitted, s);
}

void acp_session_prompt(struct acp_server *s, struct acp_session *session, const json_t *id, const json_t *params)
{
	struct err e = ERR_INIT;

	if (session->prompt_id)
		return acp_fail(s, id, RPC_INVALID_REQUEST, NULL,
				"a prompt is running in this session; wait for its end or send session/cancel");
	json_t *prompt = acp_content_prompt(json_object_get(params, "prompt"), &e);
	if (!prompt)
		return acp_fail(s, id, RPC_INVALID_PARAMS, NULL, "%s: %s", e.field, e.message);
	session->prompt_id = json_deep_copy(id);
	session->prompt = prompt;
	session->cancelled = false;
	acp_update_reset(session);
	if (gateway_session_ready(session->up)) {
		submit_prompt(session);
	} else if (gateway_session_reconnect(session->up, &e) < 0) {
		json_auto_t *error = json_pack("{ss}", "message", e.message);
		fail_prompt(session, "connect to the daemon", error);
	}
}

void acp_session_cancel(struct acp_session *s)
{
	if (!s->prompt_id || s->cancelled)
		return;
	s->cancelled = true;
	if (s->turn_id[0])
		interrupt_turn(s);
}

/* Why the turn ended; NULL: with an error. */
static const char *stop_reason(const struct acp_session *s, const json_t *event)
{
	const json_t *payload = json_object_get(event, "payload");

	if (json_text_is(event, "type", "turn.completed"))
		return s->cancelled ? "cancelled" : "end_turn";
	if (s->cancelled || json_text_is(payload, "category", "cancelled"))
		return "cancelled";
	if (json_text_is(payload, "category", "refusal"))
		return "refusal";
	if (json_text_is(payload, "category", "limit") || json_text_is(payload, "category", "budget"))
		return "max_turn_requests";
	return NULL;
}

static void answer_prompt(struct acp_session *s, const json_t *event)
{
	const json_t *payload = json_object_get(event, "payload");
	const char *stop = stop_reason(s, event), *message = json_get_text(payload, "message");
	json_auto_t *id = mem_take(&s->prompt_id);

	/* Editors show a stop reason at best as one word. */
	if (stop && strcmp(stop, "max_turn_requests") == 0)
		acp_message_text(s, "agent_message_chunk", message, strlen(message), NULL);
	if (stop)
		acp_reply(s->server, id, json_pack("{ss}", "stopReason", stop));
	else
		acp_fail(s->server, id, RPC_INTERNAL_ERROR,
			 json_pack("{ss ss}", "category", json_get_text(payload, "category"), "turnId", s->turn_id),
			 "%s", *message ? message : "the turn failed");
	s->turn_id[0] = '\0';
}

/* Every update precedes the answer to the prompt, also one that needs arguments that are still being read. */
static void turn_ended(struct acp_session *s, const json_t *event)
{
	acp_question_withdraw_all(s);
	if (!s->prompt_id)
		return;
	if (TAILQ_EMPTY(&s->args))
		answer_prompt(s, event);
	else
		s->ending = json_deep_copy(event);
}

static void args_read(struct acp_session *s)
{
	acp_replay_continue(s);
	if (s->ending && TAILQ_EMPTY(&s->args)) {
		json_auto_t *event = mem_take(&s->ending);

		answer_prompt(s, event);
	}
}

/* ---- closing ---- */

void acp_session_close(struct acp_server *s, struct acp_session *session, const json_t *id, const json_t *params)
{
	json_auto_t *prompt = mem_take(&session->prompt_id);

	if (prompt) {
		acp_reply(s, prompt, json_pack("{ss}", "stopReason", "cancelled"));
		session->prompt_id = json_null(); /* the turn still runs: acp_session_free interrupts it */
	}
	end_session(session);
	acp_reply(s, id, json_object());
}

void acp_session_free(struct acp_session *s)
{
	acp_question_withdraw_all(s);
	acp_servers_done(s);
	if (s->up && s->backlog) /* submitted, and its id is not known yet */
		gateway_session_mutate(s->up, "interrupt_turn",
				       json_pack("{ss sb}", "sessionId", s->id, "clearQueue", 1), NULL, NULL, NULL);
	else if (s->up && s->last_turn_id[0]) /* also what its commands have left running */
		gateway_session_mutate(s->up, "interrupt_turn",
				       json_pack("{ss ss sb}", "turnId", s->last_turn_id, "reason",
						 "closed by the editor", "endProcesses", 1),
				       NULL, NULL, NULL);
	gateway_session_free(s->up);
	acp_update_done(s);
	TAILQ_REMOVE(&s->server->sessions, s, entry);
	s->server->nsessions--;
	json_decref(s->opening_id);
	json_decref(s->prompt_id);
	json_decref(s->mode_id);
	json_decref(s->ending);
	json_decref(s->replayed);
	json_decref(s->page);
	json_decref(s->backlog);
	json_decref(s->calls);
	json_decref(s->subagents);
	json_decref(s->prompt);
	json_decref(s->notice);
	free(s);
}

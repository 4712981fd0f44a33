/*
 * Handshake, dispatch, and the events of the session.
 *
 * initialize opens a gateway session, asks whether violations are exact, and, if it resumes a session, checks that no
 * other gateway serves it and loads its events from the beginning. Only then is it answered: the client may use a
 * process id from before in its next message. Live events arrive as soon as the session is open, so they are collected
 * in `backlog` until the loaded ones were applied; those with a sequence number that was loaded are dropped.
 *
 * When the client disconnects its processes are terminated, as by Codex's own executor. When this program is killed
 * instead, nothing can be terminated here; the session reaper does it after a delay, unless the client returns.
 */

#include "supervisor/gateway/codex/codex_private.h"

#include "runtime/base/err.h"
#include "runtime/base/find_program.h"
#include "runtime/base/jscan.h"
#include "runtime/base/json_get.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/codex/session_reaper.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

/* Above these, reading stops. */
#define CALLS_MAX 64u /* concurrent calls, without parked ones */
#define PARKED_MAX 1024u
#define PARKED_BYTES_MAX (64u << 20)
/* Of list_events, for a session that is resumed. */
#define EVENTS_PAGE 1000
#define CHANNELS_PAGE 1000 /* newest first, so connected ones are among them */
#define NATIVE_PROTOCOL "codex"

static const struct codex_method methods[] = {
#define METHOD(name, family, run) { name, family, run },
#include "supervisor/gateway/codex/codex_methods.def"
#undef METHOD
};

/*
 * The events from which processes are computed. permission.evaluated comes first for each process: its justification
 * has the client's ids.
 */
static const char *const kept_types[] = {
	"permission.evaluated", "process.started",   "process.output", "process.command_exited",
	"sandbox.violation",    "process.completed", "process.failed", "process.terminated",
};

/* An error without a request id gets the id −1, as from Codex's own executor: its clients reject null. */
static void send_error(struct codex_server *s, const json_t *id, int code, const char *message)
{
	json_auto_t *none = json_integer(-1);

	s->ops.send(s->ctx, rpc_message_error(RPC_BARE, id && !json_is_null(id) ? id : none, code, message, NULL));
}

/* ---- events ---- */

static bool is_kept(struct jval type)
{
	for (size_t i = 0; i < countof(kept_types); i++)
		if (jval_is_str(type, kept_types[i]))
			return true;
	return false;
}

static void on_event(void *ctx, struct jval event)
{
	struct codex_server *s = ctx;

	if (jval_is_str(jval_get(event, "type"), "permission.evaluated")) {
		/*
		 * Policy requires an approval for a file method. File methods run often and unattended, so the answer
		 * is no. Approvals that other clients of the session wait for are left alone.
		 */
		char id[CODEX_ID_MAX], why[sizeof(CODEX_FILE_REASON) + 1];

		jval_str(jval_get(event, "processId"), id, sizeof(id));
		jval_str(jval_path(event, "payload.justification"), why, sizeof(why));
		if (*id && strncmp(why, CODEX_FILE_REASON, sizeof(CODEX_FILE_REASON) - 1) == 0 &&
		    jval_is_str(jval_path(event, "permissionDecision.decision"), "ask"))
			strmap_put(&s->file_questions, id, s);
	} else if (jval_is_str(jval_get(event, "type"), "permission.requested")) {
		char id[CODEX_ID_MAX];

		jval_str(jval_get(event, "processId"), id, sizeof(id));
		if (*id && strmap_del(&s->file_questions, id))
			gateway_session_terminate(s->session, id, "file methods do not wait for permission");
	}
	if (!is_kept(jval_get(event, "type")))
		return;
	json_auto_t *e = json_loadb(event.text, event.len, JSON_ALLOW_NUL, NULL);
	if (!e)
		return;
	if (s->backlog)
		json_array_append(s->backlog, e);
	else
		codex_process_fold(s, e);
}

/* ---- the handshake ---- */

static void free_value(void *ctx, const char *key, void *value) { free(value); }

/* All state that comes from events. Calls that refer to a process must be gone. */
static void forget_processes(struct codex_server *s)
{
	struct codex_process *p;

	while ((p = TAILQ_FIRST(&s->processes)))
		codex_process_free(p);
	strmap_each(&s->threads, free_value, NULL);
	strmap_done(&s->threads);
	s->threads = STRMAP_INIT;
}

static void on_opened(struct codex_server *s)
{
	struct codex_call *c = mem_take(&s->opening);

	s->opened = true;
	session_reaper_set_session(s->o.reaper_fd, gateway_session_id(s->session));
	codex_call_reply(c, json_pack("{ss so}", "sessionId", gateway_session_id(s->session), "environmentInfo",
				      codex_environment_json()));
}

static void request_events(struct codex_server *s);
static void close_session(struct codex_server *s);

/*
 * Loads the events from before this connection page by page. Live events wait in the backlog, and those that were
 * loaded too are skipped.
 */
static void on_events(void *ctx, json_t *result, json_t *error)
{
	struct codex_server *s = ctx;
	json_t *events = json_object_get(result, "events"), *late;
	size_t i;
	json_t *v;

	if (!s->opening)
		return;
	if (error) {
		codex_call_fail_daemon(mem_take(&s->opening), error);
		close_session(s);
		return;
	}
	json_array_foreach (events, i, v) {
		s->recovered = (uint64_t)json_integer_value(json_object_get(v, "sequence"));
		codex_process_fold(s, v);
	}
	if (json_get_flag(result, "hasMore") && json_array_size(events))
		return request_events(s);
	codex_process_recovered(s);
	/* The reply to initialize is sent before the collected events are applied, so it precedes all notifications. */
	late = mem_take(&s->backlog);
	on_opened(s);
	json_array_foreach (late, i, v)
		if ((uint64_t)json_integer_value(json_object_get(v, "sequence")) > s->recovered)
			codex_process_fold(s, v);
	json_decref(late);
}

static void request_events(struct codex_server *s)
{
	json_t *types = json_array();

	for (size_t i = 0; i < countof(kept_types); i++)
		json_array_append_new(types, json_string(kept_types[i]));
	json_t *params = json_pack("{ss si so}", "sessionId", gateway_session_id(s->session), "limit", EVENTS_PAGE,
				   "types", types);
	if (s->recovered) /* otherwise from the oldest event kept */
		json_object_set_new(params, "afterSequence", json_integer((json_int_t)s->recovered));
	gateway_session_query(s->session, "list_events", params, on_events, s);
}

/* The client may retry initialize, without a session to resume or with another one. */
static void close_session(struct codex_server *s)
{
	forget_processes(s);
	s->recovered = 0;
	gateway_session_free(mem_take(&s->session));
	json_decref(mem_take(&s->backlog));
}

/*
 * Another gateway serves this session for a client. Two would both receive all events, and the first to disconnect
 * would terminate the other's processes.
 */
static bool is_foreign_channel(const struct codex_server *s, const json_t *channel)
{
	const char *id = json_get_string(channel, "channelId"), *status = json_get_string(channel, "status");
	const char *protocol = json_get_string(channel, "nativeProtocol");

	return id && status && protocol && strcmp(status, "connected") == 0 && strcmp(protocol, NATIVE_PROTOCOL) == 0 &&
	       strcmp(id, gateway_session_channel_id(s->session)) != 0;
}

static void on_channels(void *ctx, json_t *result, json_t *error)
{
	struct codex_server *s = ctx;
	const json_t *channels = json_object_get(result, "channels");

	if (!s->opening)
		return;
	if (error) {
		codex_call_fail_daemon(mem_take(&s->opening), error);
		close_session(s);
		return;
	}
	for (size_t i = 0; i < json_array_size(channels); i++)
		if (is_foreign_channel(s, json_array_get(channels, i))) {
			codex_call_fail(mem_take(&s->opening), CODEX_ALREADY_ATTACHED,
					"session %s is already attached to another connection",
					gateway_session_id(s->session));
			close_session(s);
			return;
		}
	request_events(s);
}

static void on_health(void *ctx, json_t *result, json_t *error)
{
	struct codex_server *s = ctx;
	const char *state = json_string_value(json_object_get(json_object_get(result, "violations"), "state"));

	if (!s->opening)
		return;
	/* False on an error, too: denials are then guessed from the output. */
	s->exact = state && strcmp(state, "enforced") == 0;
	if (s->backlog)
		gateway_session_query(
			s->session, "list_channels",
			json_pack("{ss si}", "sessionId", gateway_session_id(s->session), "limit", CHANNELS_PAGE),
			on_channels, s);
	else
		on_opened(s);
}

/* Called when the session is ready; with the reason if opening it failed or the daemon was lost. */
static void on_ready(void *ctx, const struct err *failed)
{
	struct codex_server *s = ctx;

	if (!failed) {
		if (s->opening)
			gateway_session_query(s->session, "get_health", NULL, on_health, s);
		return;
	}
	if (s->opening) {
		struct codex_call *c = mem_take(&s->opening);
		const char *resume = json_get_string(c->params, "resumeSessionId");

		if (resume)
			codex_call_fail(c, RPC_INVALID_REQUEST, "unknown session id %.100s (%s)", resume,
					failed->message);
		else
			codex_call_fail(c, RPC_INTERNAL_ERROR, "bailiff: %s", failed->message);
		close_session(s);
		return;
	}
	s->ops.lost(s->ctx, failed);
}

static void initialize_client(struct codex_call *c)
{
	static const struct gateway_session_ops ops = { .ready = on_ready, .event = on_event };
	struct codex_server *s = c->server;
	const char *client = codex_call_str(c, "clientName");
	const json_t *resume = client ? json_object_get(c->params, "resumeSessionId") : NULL;
	struct err e = ERR_INIT;

	if (!client)
		return;
	if (resume && !json_is_null(resume) && !json_is_string(resume))
		return codex_call_fail(c, RPC_INVALID_PARAMS, "resumeSessionId must be a string or null");
	if (s->session)
		return codex_call_fail(c, RPC_INVALID_REQUEST, "initialize may only be sent once per connection");
	char folder[PATH_MAX];
	const struct gateway_session_options o = {
		.folder = getcwd(folder, sizeof(folder)),
		.base = s->base,
		.client_name = client,
		.native_protocol = NATIVE_PROTOCOL,
		.transport = "stdio",
		.session_id = json_string_value(resume),
	};
	s->backlog = json_is_string(resume) ? json_array() : NULL;
	s->opening = c;
	if (gateway_session_open(&o, &ops, s, &s->session, &e) < 0) {
		s->opening = NULL;
		json_decref(mem_take(&s->backlog));
		codex_call_fail(c, RPC_INTERNAL_ERROR, "bailiff: %s", e.message);
	}
}

/* ---- messages ---- */

static const struct codex_method *find_method(const char *name)
{
	for (size_t i = 0; i < countof(methods); i++)
		if (strcmp(methods[i].name, name) == 0)
			return &methods[i];
	return NULL;
}

static void handle_request(struct codex_server *s, const struct rpc_message *m)
{
	static const struct codex_method first = { .name = "initialize" };
	const struct codex_method *method = strcmp(m->method, first.name) == 0 ? &first : find_method(m->method);
	char why[300];

	if (!method) {
		snprintf(why, sizeof(why), "bailiff does not implement `%s`", m->method);
		send_error(s, m->id, RPC_METHOD_NOT_FOUND, why);
		return;
	}
	if (m->params && !json_is_object(m->params))
		return send_error(s, m->id, RPC_INVALID_PARAMS, "params must be an object");
	if (method == &first)
		return initialize_client(codex_call_new(s, method, m));
	if (!s->opened || !s->initialized || !gateway_session_ready(s->session)) {
		snprintf(why, sizeof(why),
			 !s->opened        ? "client must call initialize before using %s methods"
			 : !s->initialized ? "client must send initialized before using %s methods"
					   : "bailiff is not reachable; %s methods are unavailable",
			 method->family);
		send_error(s, m->id, RPC_INVALID_REQUEST, why);
		return;
	}
	method->run(codex_call_new(s, method, m));
}

static void handle_notification(struct codex_server *s, const struct rpc_message *m)
{
	if (strcmp(m->method, "initialized") == 0 && s->session) {
		s->initialized = true;
		return;
	}
	send_error(s, NULL, RPC_INVALID_REQUEST,
		   strcmp(m->method, "initialized") == 0 ? "received `initialized` notification before `initialize`"
							 : "unexpected notification");
}

void codex_server_feed(struct codex_server *s, const char *line, size_t len)
{
	struct rpc_message m;
	struct rpc_problem bad;

	if (rpc_message_parse(line, len, RPC_BARE, &m, &bad) < 0) {
		send_error(s, bad.id, bad.code == RPC_PARSE_ERROR ? RPC_INVALID_REQUEST : bad.code, bad.message);
		rpc_problem_done(&bad);
		return;
	}
	if (m.kind == RPC_REQUEST)
		handle_request(s, &m);
	else if (m.kind == RPC_NOTIFICATION)
		handle_notification(s, &m);
	rpc_message_done(&m);
}

void codex_server_too_long(struct codex_server *s)
{
	send_error(s, NULL, RPC_INVALID_REQUEST, "a message of more than 64 MiB");
}

bool codex_server_busy(const struct codex_server *s)
{
	return s->ncalls - s->nparked >= CALLS_MAX || s->nparked >= PARKED_MAX || s->parked_bytes >= PARKED_BYTES_MAX;
}

/* ---- creation and removal ---- */

static void on_later(evutil_socket_t fd, short what, void *arg)
{
	struct codex_server *s = arg;
	struct codex_process *p;

	TAILQ_FOREACH (p, &s->processes, entry)
		codex_process_notify(p);
}

struct codex_server *codex_server_new(struct event_base *base, const struct codex_options *o,
				      const struct codex_server_ops *ops, void *ctx)
{
	static const char *const places[] = { "bailiff-tool", "../libexec/bailiff/bailiff-tool",
					      "../bailiff/bailiff-tool" };
	struct codex_server *s = mem_zalloc(1, sizeof(*s));

	s->base = base;
	s->o = *o;
	s->ops = *ops;
	s->ctx = ctx;
	s->tool = find_program(places, countof(places));
	TAILQ_INIT(&s->calls);
	TAILQ_INIT(&s->processes);
	evtimer_assign(&s->later, base, on_later, s);
	return s;
}

static void close_sandbox(void *ctx, const char *id, void *value)
{
	const struct codex_server *s = ctx;

	gateway_session_mutate(s->session, "close_sandbox", json_pack("{ss}", "sandboxId", id), NULL, NULL, NULL);
}

static bool has_live(const struct codex_server *s)
{
	const struct codex_process *p;

	TAILQ_FOREACH (p, &s->processes, entry)
		if (!p->ended)
			return true;
	return s->ncalls > 0 || s->sandboxes.count > 0;
}

static void on_left(void *ctx, bool answered)
{
	if (answered)
		session_reaper_cancel((int)(intptr_t)ctx);
}

/*
 * The reaper is cancelled only if there was no session, or if the daemon confirmed that everything was terminated
 * (on_left).
 */
void codex_server_free(struct codex_server *s)
{
	static const struct codex_server_ops nothing = { 0 };
	const bool ready = s->session && gateway_session_ready(s->session);
	/* The daemon is unreachable, so processes cannot be terminated now: leave that to the reaper. */
	const bool orphans = s->session && !ready && has_live(s);
	struct codex_call *c;

	if (ready) {
		/* Terminates all processes of a client that has disconnected. */
		struct codex_process *p;

		TAILQ_FOREACH (p, &s->processes, entry)
			if (p->id[0] && (!p->ended || p->has_left))
				gateway_session_terminate(s->session, p->id, "its client has gone");
		strmap_each(&s->sandboxes, close_sandbox, s);
	}
	/* The client is gone: from here on nothing is sent to it, and no callback of it is called. */
	s->ops = nothing;
	while ((c = TAILQ_FIRST(&s->calls)))
		codex_call_free(c);
	forget_processes(s);
	if (s->session && !orphans)
		gateway_session_close(s->session, on_left, (void *)(intptr_t)s->o.reaper_fd);
	else
		gateway_session_free(s->session);
	if (!s->session)
		session_reaper_cancel(s->o.reaper_fd);
	codex_handle_free_all(s);
	strmap_done(&s->sandboxes);
	strmap_done(&s->file_questions);
	strmap_done(&s->by_name);
	strmap_done(&s->by_id);
	json_decref(s->backlog);
	event_del(&s->later);
	free(s->tool);
	free(s);
}

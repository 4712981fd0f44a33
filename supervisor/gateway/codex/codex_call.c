/*
 * One request of the client, from its arrival to its response. A call is answered exactly once: codex_call_reply and
 * codex_call_fail send and free, so every path ends with one of them, or leaves a callback or a timer that will.
 *
 * The callbacks of a daemon request have the call as their context. Freeing it cancels them, which makes it safe to
 * answer a call early (a timeout, a terminated process) while a request is pending.
 */

#include "supervisor/gateway/codex/codex_private.h"

#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/gateway/common/file_uri.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#define NUL_IN_STRING(v) (strlen(json_string_value(v)) != json_string_length(v))

struct codex_call *codex_call_new(struct codex_server *s, const struct codex_method *method,
				  const struct rpc_message *m)
{
	struct codex_call *c = mem_zalloc(1, sizeof(*c));
	const char *trace = json_string_value(json_object_get(json_object_get(m->root, "trace"), "traceparent"));

	c->server = s;
	c->method = method;
	c->id = json_incref(m->id);
	/* Methods read parameters without checking whether there are any. */
	c->params = m->params ? json_incref(m->params) : json_object();
	if (trace && rpc_message_is_traceparent(trace))
		(void)snprintf(c->trace, sizeof(c->trace), "%s", trace);
	TAILQ_INSERT_TAIL(&s->calls, c, entry);
	s->ncalls++;
	return c;
}

/* The process never ran: frees its name for reuse. */
static void codex_process_drop(struct codex_process *p)
{
	if (strmap_get(&p->server->by_name, p->name) == p)
		strmap_del(&p->server->by_name, p->name);
	p->answered = p->ended = p->end_sent = true;
	p->sent = p->count;
}

/*
 * A call may be freed at any time, so this undoes everything that refers to it: callbacks, timer, and its place among
 * the readers or writers.
 */
void codex_call_free(struct codex_call *c)
{
	struct codex_server *s = c->server;
	struct codex_process *p = c->process;

	if (s->session)
		gateway_session_cancel_callbacks(s->session, c);
	if (c->timed)
		event_del(&c->timer);
	if (p && c->waits)
		TAILQ_REMOVE(&p->readers, c, waiting);
	if (p && c->queued)
		TAILQ_REMOVE(&p->writers, c, waiting);
	if (p && p->start == c) { /* the start failed: free the name */
		p->start = NULL;
		codex_process_drop(p);
	}
	if (p)
		p->users--;
	TAILQ_REMOVE(&s->calls, c, entry);
	s->ncalls--;
	s->nparked -= c->parked;
	s->parked_bytes -= c->parked ? c->file.len : 0;
	json_decref(c->id);
	json_decref(c->params);
	json_decref(c->start);
	json_decref(c->chunks);
	json_decref(c->warnings);
	sandbox_intent_done(&c->intent);
	free(c->cwd);
	buf_done(&c->file);
	free(c);
	/* Reading from the client may have stopped at the limit of calls. NULL while the server is freed. */
	if (s->ops.wake)
		s->ops.wake(s->ctx);
}

void codex_call_park(struct codex_call *c)
{
	struct codex_server *s = c->server;

	if (c->parked)
		return;
	c->parked = true;
	s->nparked++;
	s->parked_bytes += c->file.len;
	if (s->ops.wake)
		s->ops.wake(s->ctx);
}

void codex_call_reply(struct codex_call *c, json_t *result)
{
	struct codex_server *s = c->server;

	s->ops.send(s->ctx, rpc_message_result(RPC_BARE, c->id, result));
	codex_call_free(c);
}

void codex_call_fail(struct codex_call *c, int code, const char *fmt, ...)
{
	struct codex_server *s = c->server;
	buf_auto struct buf text = BUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	s->ops.send(s->ctx, rpc_message_error(RPC_BARE, c->id, code, buf_cstr(&text), NULL));
	codex_call_free(c);
}

void codex_call_reject(struct codex_call *c, const struct err *e)
{
	if (e->field[0])
		codex_call_fail(c, RPC_INVALID_PARAMS, "%s: %s", e->field, e->message);
	else
		codex_call_fail(c, RPC_INVALID_PARAMS, "%s", e->message);
}

/* "(os error N)" is how Codex's own executor, a Rust program, reports errno values. */
void codex_call_fail_daemon(struct codex_call *c, const json_t *error)
{
	const json_t *data = json_object_get(error, "data");
	const char *message = json_get_string(error, "message");
	const char *category = json_get_string(data, "category");
	json_int_t number = json_integer_value(json_object_get(data, "errno"));
	json_int_t code = json_integer_value(json_object_get(error, "code"));

	if (!message)
		message = "bailiff gave no reason";
	if (category && strcmp(category, "sandbox_failed") == 0 && number > 0 && number < 4096)
		codex_call_fail(c, RPC_INTERNAL_ERROR, "%s (os error %d): %s", strerror((int)number), (int)number,
				message);
	else if (category && strcmp(category, "permission_denied") == 0)
		codex_call_fail(c, RPC_INVALID_REQUEST, "bailiff's policy does not permit this: %s", message);
	else if (code == RPC_INVALID_PARAMS)
		codex_call_fail(c, RPC_INVALID_PARAMS, "%s", message);
	else
		codex_call_fail(c, RPC_INTERNAL_ERROR, "bailiff: %s", message);
}

/* ---- time ---- */

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct codex_call *c = arg;

	c->timed = false;
	c->late(c);
}

void codex_call_time(struct codex_call *c, uint64_t ms, void (*fn)(struct codex_call *c))
{
	const struct timeval tv = { .tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000) };

	c->late = fn;
	evtimer_assign(&c->timer, c->server->base, on_timer, c);
	loop_add(&c->timer, &tv);
	c->timed = true;
}

/* ---- parameters ---- */

const char *codex_call_str(struct codex_call *c, const char *name)
{
	const json_t *v = json_object_get(c->params, name);

	if (json_is_string(v) && !NUL_IN_STRING(v))
		return json_string_value(v);
	if (v)
		codex_call_fail(c, RPC_INVALID_PARAMS, "invalid type: `%s` must be a string", name);
	else
		codex_call_fail(c, RPC_INVALID_PARAMS, "missing field `%s`", name);
	return NULL;
}

bool codex_call_path(struct codex_call *c, const char *name, char *ret)
{
	const char *uri = codex_call_str(c, name);
	struct err e = ERR_INIT;

	if (!uri)
		return false;
	if (file_uri_path(uri, ret, &e) == 0)
		return true;
	codex_call_fail(c, RPC_INVALID_PARAMS, "%s: %s", name, e.message);
	return false;
}

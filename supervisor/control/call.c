#include "supervisor/control/call.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/engine/channel/channel.h"
#include "runtime/event/id.h"
#include "runtime/view/view.h"
#include "supervisor/control/client.h"
#include "supervisor/control/control_private.h"
#include "supervisor/control/peer.h"
#include "supervisor/control/rpc.h"
#include "supervisor/control/subscription.h"
#include "supervisor/host/config.h"

#include <stdio.h>
#include <string.h>

/*
 * The life of a call: request.c creates it, checks it and runs its handler. It ends in exactly one of call_finish,
 * call_finish_error and call_drop, which free it. Handlers and callbacks use call_reply and call_fail; those go through
 * the interceptor, if the call has one, so that a reply can be stored before it is sent.
 *
 * A call is not cancelled when its client disconnects. The engine, the store or the spawner may hold a pointer to it as
 * the context of a callback, and what it started has consequences that must be recorded anyway. It only loses its
 * client (call.client is NULL), and its answer is discarded. The client's memory and socket stay until its last call
 * ends.
 */

#define BATCH_REPLY_MAX                                                                              \
	(16u << 20) /* collected replies; a batch beyond it gets errors for the rest of its requests \
		     */

/* ---- batches ---- */

struct batch *batch_new(struct client *home)
{
	struct batch *b = mem_zalloc(1, sizeof *b);
	b->home = home;
	b->open = 1;
	return b;
}

bool batch_full(const struct batch *b) { return b->out.len > BATCH_REPLY_MAX; }

void batch_add(struct batch *b, const char *json, size_t len)
{
	if (b->home->dead)
		return;
	buf_byte(&b->out, b->out.len ? ',' : '[');
	buf_append(&b->out, json, len);
}

/* The last call of a batch sends its replies. Subscriptions of the batch start only then: a reply precedes its events.
 */
void batch_close(struct batch *b)
{
	if (--b->open)
		return;
	if (b->out.len) {
		buf_str(&b->out, "]\n");
		client_send(b->home, b->out.data, b->out.len);
	}
	subscription_release(b->home, b);
	buf_done(&b->out);
	free(b);
}

/* ---- calls ---- */

/* The request's id for events: the text of the JSON-RPC id if that is a valid id, else NULL. */
static char *request_id(const char *id)
{
	if (!id)
		return NULL;
	size_t n = strlen(id);
	if (n >= 2 && id[0] == '"') {
		id++;
		n -= 2;
	}
	return id_valid(id, n) && strcmp(id, "null") != 0 ? mem_strndup(id, n) : NULL;
}

/* The caller is copied from the connection: a later `initialize` does not change the role of a call in progress. */
struct call *call_new(struct client *home, struct batch *batch, const struct method *m, char *id, json_t *params)
{
	struct call_private *p = mem_zalloc(1, sizeof *p);
	struct call *c = &p->call;
	p->home = home;
	p->batch = batch;
	if (batch)
		batch->open++;
	p->id = id;
	p->request_id = request_id(id);
	p->started_ns = clock_boot_ns();
	c->priv = p;
	c->control = home->control;
	c->client = home;
	c->method = m;
	c->params = params ? params : json_object();
	c->caller = (struct caller){
		.uid = home->peer.uid,
		.gid = home->peer.gid,
		.pid = home->peer.pid,
		.role = home->role,
		.connection = home->number,
		.peer_fd = home->fd,
		.request_id = p->request_id,
		.channel_id = home->channel_id[0] ? home->channel_id : NULL,
		.no_person = home->no_person,
	};
	TAILQ_INSERT_TAIL(&home->calls, p, entry);
	home->ncalls++;
	return c;
}

/* Durations include the time that a call waited for the engine, a process or the disk. */
static void count_call(struct call *c, bool failed)
{
	struct control *k = c->control;
	struct method_count *m = &k->methods[c->method - k->o.methods->rows];
	uint64_t us = (clock_boot_ns() - c->priv->started_ns) / 1000;
	m->requests++;
	m->errors += failed;
	m->total_us += us;
	if (us > m->max_us)
		m->max_us = us;
	k->counts.requests++;
	k->counts.errors += failed;
}

/* May free the client too, if this was the last call of a disconnected one. */
static void call_free(struct call *c)
{
	struct call_private *p = c->priv;
	struct client *home = p->home;
	TAILQ_REMOVE(&home->calls, p, entry);
	home->ncalls--;
	if (p->watch)
		*p->watch = NULL;
	json_decref(c->params);
	free(p->id);
	free(p->request_id);
	free(p);
	client_call_done(home);
}

/* One slot for each call: the owner of the slot calls it with NULL before the slot itself is freed. */
void call_watch(struct call *c, struct call **slot) { c->priv->watch = slot; }

/*
 * Passes the reply to the batch or the connection. The batch is closed before the call is freed: the batch refers to
 * the client, which call_free may free.
 */
static void send_reply(struct call *c, struct buf *reply)
{
	struct call_private *p = c->priv;
	if (p->id && p->batch)
		batch_add(p->batch, reply->data, reply->len);
	else if (p->id) {
		buf_byte(reply, '\n');
		client_send(p->home, reply->data, reply->len);
	}
	struct batch *batch = p->batch;
	if (batch)
		batch_close(batch);
	call_free(c);
}

/* Stored results have the seed of a channel's token, and only the client gets the token (runtime/engine/channel). */
static void reveal_token(const struct call *c, const char *json, size_t len, struct buf *out)
{
	struct jval seed = jval_get(jval_of(json, len), "resumeToken");
	char text[CHANNEL_TOKEN_TEXT], token[CHANNEL_TOKEN_TEXT];

	jval_str(seed, text, sizeof text);
	if (strncmp(text, CHANNEL_SEED_PREFIX, strlen(CHANNEL_SEED_PREFIX)) != 0) {
		buf_append(out, json, len); /* stored by an earlier version */
		return;
	}
	engine_channel_token(call_engine(c), text, token);
	buf_append(out, json, (size_t)(seed.text - json));
	buf_printf(out, "\"%s\"", token);
	buf_append(out, seed.text + seed.len, len - (size_t)(seed.text + seed.len - json));
}

static bool issues_token(const struct call *c)
{
	return strcmp(c->method->name, "connect_channel") == 0 || strcmp(c->method->name, "reconnect_channel") == 0;
}

void call_finish(struct call *c, const char *json, size_t len)
{
	count_call(c, false);
	struct buf buf_auto reply = BUF_INIT, revealed = BUF_INIT;
	bool reveals = c->client && issues_token(c);

	if (reveals)
		reveal_token(c, json, len, &revealed);
	if (c->priv->id && c->client)
		rpc_result(&reply, c->priv->id, reveals ? revealed.data : json, reveals ? revealed.len : len);
	send_reply(c, &reply);
}

void call_finish_error(struct call *c, const struct err *e, const char *data, size_t len)
{
	count_call(c, true);
	struct buf buf_auto reply = BUF_INIT;
	if (c->priv->id && c->client)
		rpc_error(&reply, c->priv->id, e, data, len);
	send_reply(c, &reply);
}

void call_drop(struct call *c)
{
	if (c->priv->interceptor)
		c->priv->interceptor->dropped(c);
	if (c->priv->batch)
		batch_close(c->priv->batch);
	call_free(c);
}

/* `next` is read first: call_drop frees the call. */
void call_drop_client(struct client *cl)
{
	struct call_private *p, *next;

	for (p = TAILQ_FIRST(&cl->calls); p; p = next) {
		next = TAILQ_NEXT(p, entry);
		p->call.client = NULL;
		if (p->follows)
			call_drop(&p->call);
	}
}

/* ---- what handlers use ---- */

/* The interceptor takes the call over. It ends it with call_finish or call_finish_error, at once or after a commit. */
void call_reply(struct call *c, const char *json, size_t len)
{
	if (c->priv->interceptor)
		c->priv->interceptor->reply(c, json, len);
	else
		call_finish(c, json, len);
}

void call_fail_data(struct call *c, const struct err *e, const char *data, size_t len)
{
	if (c->priv->interceptor)
		c->priv->interceptor->fail(c, e, data, len);
	else
		call_finish_error(c, e, data, len);
}

void call_fail(struct call *c, const struct err *e) { call_fail_data(c, e, NULL, 0); }

void call_fail_expired_output(struct call *c, const struct err *e)
{
	static const char data[] = "\"category\":\"output_expired\"";
	struct err expired = *e;

	expired.reason = REASON_OUTPUT_EXPIRED;
	call_fail_data(c, &expired, data, sizeof(data) - 1);
}

void call_engine_reply(void *call, const struct err *e, const char *json, size_t len)
{
	if (e)
		call_fail_data(call, e, json, json ? len : 0);
	else
		call_reply(call, json, len);
}

struct store *call_store(const struct call *c) { return c->control->o.store; }

struct engine *call_engine(const struct call *c) { return c->control->o.engine; }

const struct config *call_config(const struct call *c) { return c->control->o.config; }

bool call_may_approve(const struct call *c)
{
	uint32_t groups[PEER_GROUPS_MAX];
	size_t n = peer_groups(c->caller.peer_fd, c->caller.gid, groups);
	return config_may_approve(call_config(c), c->caller.uid, groups, n);
}

bool call_sees_all(const struct call *c) { return c->caller.uid == 0 || c->caller.uid == c->control->owner_uid; }

bool call_sees(const struct call *c, uint32_t uid) { return c->caller.uid == uid || call_sees_all(c); }

uint32_t call_visible_uid(const struct call *c) { return call_sees_all(c) ? VIEW_ANY_UID : c->caller.uid; }

int call_require_full_view(const struct call *c, struct err *e)
{
	return call_sees_all(c) ? 0
				: err_set(e, ERR_NOT_ALLOWED, "%s is for root and for the user that the daemon runs as",
					  c->method->name);
}

uint64_t call_uint(const struct call *c, const char *name, uint64_t otherwise)
{
	const json_t *v = json_object_get(c->params, name);
	return json_is_integer(v) ? (uint64_t)json_integer_value(v) : otherwise;
}

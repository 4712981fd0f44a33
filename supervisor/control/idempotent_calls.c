#include "supervisor/control/idempotent_calls.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/hash.h"
#include "runtime/base/jscan.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "supervisor/control/call.h"
#include "supervisor/control/control_private.h"
#include "supervisor/control/ownership.h"
#include "supervisor/control/rpc.h"

#include <string.h>

/*
 * A key is unknown, in progress (control's `flights`), or stored (in the store, until retention removes it). The map is
 * checked before the store: the engine may already have stored a result that is not sent yet.
 *
 * A repeated request while the first is in progress becomes its follower and gets the same answer. Rejecting it would
 * make a client that reconnects after a timeout poll; running it would execute the request twice. Followers are dropped
 * with their client; the first call continues without its client, because followers of other connections may wait.
 *
 * The hash covers method and parameters, so that a client that reuses a key by mistake gets a conflict and not the
 * result of an unrelated request. Keys of different uids are independent: a user cannot probe or block another's keys.
 *
 * After a crash `flights` is empty, and the stored record decides: a result is replayed, "pending" is reported as an
 * unknown outcome, "begun" is run again (the engine knows what to do if it had its effect), and without a record the
 * request runs.
 */

/* One (uid, key) whose first request is not answered yet. */
struct idempotent_call {
	char *name; /* "uid:key", as in control's map */
	char *key;
	const struct method *method;
	uint8_t hash[32];
	struct call *first;
	TAILQ_HEAD(, call_private) followers;
};

/* A result that is being stored. */
struct idempotent_reply {
	struct call *call;
	struct buf json;
};

/* Hash of method and parameters without the key, independent of the order of members. */
static void body_hash(const struct call *c, uint8_t out[32])
{
	json_auto_t *params = json_copy(c->params);
	json_object_del(params, "idempotencyKey");
	json_object_del(params, "traceparent"); /* a retry has another trace, but is the same request */
	char *text = json_dumps(params, JSON_SORT_KEYS | JSON_COMPACT);
	struct buf buf_auto body = BUF_INIT;
	buf_str(&body, c->method->name);
	buf_byte(&body, '\0');
	buf_str(&body, text ? text : "");
	free(text);
	hash_sha256(body.data, body.len, out);
}

/* ---- stored replies ---- */

/* The stored record says "pending": the runtime died before the result. What is known of the request goes into the
 * error.
 */
static void replay_pending(struct call *c, struct jval record)
{
	struct err e = ERR_INIT;
	err_because(&e, ERR_UNAVAILABLE, REASON_OUTCOME_UNKNOWN,
		    "the runtime ended while %s with this idempotencyKey was under way; whether it took effect is not "
		    "known",
		    c->method->name);
	struct buf buf_auto data = BUF_INIT;
	buf_str(&data, "\"outcome\":\"unknown\",\"retryable\":false");
	for (struct jiter it = jiter_on(record); jiter_next(&it);)
		if (!jval_is_str(it.key, "pending")) {
			buf_byte(&data, ',');
			buf_append(&data, it.key.text, it.key.len);
			buf_byte(&data, ':');
			buf_append(&data, it.value.text, it.value.len);
		}
	call_finish_error(c, &e, data.data, data.len);
}

/* The first request failed, and the engine stored that: the same error again. */
static void replay_error(struct call *c, struct jval stored)
{
	struct err e = ERR_INIT;
	mem_auto char *code = jval_strdup(jval_get(stored, "code"));
	mem_auto char *message = jval_strdup(jval_get(stored, "message"));
	err_set(&e, rpc_category_code(code ? code : ""), "%s", message ? message : "");
	struct jval data = jval_get(stored, "data");
	mem_auto char *reason = jval_strdup(jval_get(stored, "reason"));
	e.reason = err_reason_of(reason ? reason : "");
	jval_str(jval_get(stored, "field"), e.field, sizeof e.field);
	if (data.type == JT_OBJECT && data.len > 2)
		call_finish_error(c, &e, data.text + 1, data.len - 2);
	else
		call_finish_error(c, &e, NULL, 0);
}

static void replay_result(struct call *c, const struct buf *result)
{
	c->control->counts.replayed++;
	struct jval record = jval_of(result->data, result->len);
	struct jval error = record.type == JT_OBJECT ? jval_get(record, "$error") : (struct jval){ 0 };
	if (error.type == JT_OBJECT)
		replay_error(c, error);
	else if (record.type == JT_OBJECT && jval_get(record, "pending").type == JT_TRUE)
		replay_pending(c, record);
	else
		call_finish(c, result->data, result->len);
}

static bool is_begun(const struct buf *result)
{
	struct jval record = jval_of(result->data, result->len);
	return record.type == JT_OBJECT && jval_get(record, "begun").type == JT_TRUE;
}

/* `id`: the parameter that the key is made of; NULL: idempotencyKey was given. */
static void fail_conflict(struct call *c, const char *method, const char *id)
{
	struct err e = ERR_INIT;
	if (id)
		err_set(&e, ERR_CONFLICT, "%s '%s' exists already: another request created it", id,
			json_string_value(json_object_get(c->params, id)));
	else
		err_set(&e, ERR_CONFLICT, "this idempotencyKey was used for another request%s%s",
			strcmp(method, c->method->name) == 0 ? " of this method" : ", of ",
			strcmp(method, c->method->name) == 0 ? "" : method);
	snprintf(e.field, sizeof e.field, "%s", id ? id : "idempotencyKey");
	call_finish_error(c, &e, NULL, 0);
}

/* ---- calls in progress ---- */

static void end_flight(struct idempotent_call *f)
{
	strmap_del(&f->first->control->flights, f->name);
	f->first->priv->flight = NULL;
	f->first->priv->interceptor = NULL;
	free(f->name);
	free(f->key);
	free(f);
}

/* Removes and returns the next call that waits for this one; NULL when none is left. */
static struct call *follower_take(struct idempotent_call *f)
{
	struct call_private *p = TAILQ_FIRST(&f->followers);
	if (!p)
		return NULL;
	TAILQ_REMOVE(&f->followers, p, follower);
	p->follows = NULL;
	p->interceptor = NULL;
	return &p->call;
}

/* ---- answers ---- */

/* The followers first: end_flight frees the list they are in. */
static void reply_all(struct call *c, const char *json, size_t len)
{
	struct idempotent_call *f = c->priv->flight;
	for (struct call *other; (other = follower_take(f));) {
		c->control->counts.replayed++;
		call_finish(other, json, len);
	}
	end_flight(f);
	call_finish(c, json, len);
}

/* Whether exactly this reply is stored. The engine stores its result before the sequence is known, so they may differ.
 */
static bool is_kept(struct call *c, const char *json, size_t len)
{
	struct idempotent_call *f = c->priv->flight;
	char method[64];
	uint8_t hash[32];
	struct err e = ERR_INIT;
	struct buf buf_auto result = BUF_INIT;
	if (store_idempotency_get(c->control->o.store, c->caller.uid, f->key, method, hash, &result, &e) != 0)
		return false;
	return result.len == len && memcmp(result.data, json, len) == 0;
}

static void keep_done(void *ctx, const struct store_result *r)
{
	struct idempotent_reply *keep = ctx;
	if (r->status < 0)
		/* The request succeeded, so it is answered; only a retry would not find the stored result. */
		log_warning("the result of %s could not be kept under its idempotency key: %s",
			    keep->call->method->name, r->err ? r->err->message : "unknown");
	reply_all(keep->call, buf_cstr(&keep->json), keep->json.len);
	buf_done(&keep->json);
	free(keep);
}

/* A reply is sent only once it is stored: after a crash the client's retry must find it. */
static void store_reply(struct call *c, const char *json, size_t len)
{
	if (is_kept(c, json, len)) {
		reply_all(c, json, len);
		return;
	}
	struct store *s = c->control->o.store;
	struct idempotent_call *f = c->priv->flight;
	struct idempotent_reply *keep = mem_zalloc(1, sizeof *keep);
	keep->call = c;
	buf_append(&keep->json, json, len);
	struct store_batch *b = store_batch_new(s);
	store_batch_idempotency(b, c->caller.uid, f->key, f->method->name, f->hash, json, len);
	store_submit(s, b, 0, keep_done, keep);
}

/* Errors are not stored here: unless the engine stored one, a retry with the same key runs again. */
static void fail_all(struct call *c, const struct err *e, const char *data, size_t len)
{
	struct idempotent_call *f = c->priv->flight;
	for (struct call *other; (other = follower_take(f));)
		call_finish_error(other, e, data, len);
	end_flight(f);
	call_finish_error(c, e, data, len);
}

/* A follower leaves the list; if the first call is dropped, its followers stay unanswered (control_free). */
static void forget_call(struct call *c)
{
	struct call_private *p = c->priv;
	if (p->follows) {
		TAILQ_REMOVE(&p->follows->followers, p, follower);
		p->follows = NULL;
	}
	if (p->flight) {
		while (follower_take(p->flight))
			;
		end_flight(p->flight);
	}
}

static const struct call_interceptor interceptor = { .reply = store_reply, .fail = fail_all, .dropped = forget_call };

/* ---- the beginning ---- */

/* From now on replies of this call are intercepted, and equal requests wait for it. */
static void begin_flight(struct call *c, const char *name, const char *key, const uint8_t hash[32])
{
	struct idempotent_call *f = mem_zalloc(1, sizeof *f);
	f->name = mem_strdup(name);
	f->key = mem_strdup(key);
	f->method = c->method;
	f->first = c;
	memcpy(f->hash, hash, sizeof f->hash);
	TAILQ_INIT(&f->followers);
	strmap_put(&c->control->flights, name, f);
	c->priv->flight = f;
	c->priv->interceptor = &interceptor;
	c->caller.idem_key = f->key;
	c->caller.idem_method = c->method->name;
	memcpy(c->caller.idem_hash, hash, sizeof c->caller.idem_hash);
}

/* NULL: it has none. *ret_id is the parameter that gave the id, or NULL if the key was given. The caller frees the key.
 */
static char *key_of(const struct call *c, const char **ret_id)
{
	*ret_id = NULL;
	if (c->priv->parsed.mutating.idempotencyKey)
		return mem_strdup(c->priv->parsed.mutating.idempotencyKey);
	for (const struct param *p = c->method->params(); p->name; p++) {
		const char *id = json_string_value(json_object_get(c->params, p->name));
		if (!(p->flags & PARAM_KEY) || !id)
			continue;
		*ret_id = p->name;
		return mem_printf("id:%s:%s", c->method->name, id);
	}
	return NULL;
}

/* In order: the same request in progress, a stored result, and otherwise the first request with this key. */
bool idempotent_call_begin(struct call *c)
{
	struct control *k = c->control;
	const char *id;
	mem_auto char *key = key_of(c, &id);
	uint8_t hash[32], stored_hash[32] = { 0 };
	char method[64] = "";
	if (!key)
		return false;
	body_hash(c, hash);
	mem_auto char *name = mem_printf("%u:%s", c->caller.uid, key);
	struct idempotent_call *f = strmap_get(&k->flights, name);
	if (f) {
		if (f->method != c->method || memcmp(f->hash, hash, sizeof hash) != 0) {
			fail_conflict(c, f->method->name, id);
			return true;
		}
		TAILQ_INSERT_TAIL(&f->followers, c->priv, follower);
		c->priv->follows = f;
		c->priv->interceptor = &interceptor;
		return true;
	}
	struct err e = ERR_INIT;
	struct buf buf_auto result = BUF_INIT;
	int found = store_idempotency_get(k->o.store, c->caller.uid, key, method, stored_hash, &result, &e);
	if (found < 0) {
		err_wrap(&e, "look up the idempotencyKey");
		call_finish_error(c, &e, NULL, 0);
		return true;
	}
	if (found == 0 && id && !ownership_exists(c, id, json_string_value(json_object_get(c->params, id))))
		found = 1; /* retention has removed it, so it can be created again */
	const bool same = strcmp(method, c->method->name) == 0 && memcmp(stored_hash, hash, sizeof hash) == 0;
	const bool begun = found == 0 && same && is_begun(&result);
	if (found == 0 && !same)
		fail_conflict(c, method, id);
	else if (found == 0 && !begun)
		replay_result(c, &result);
	if (found == 0 && !begun)
		return true;
	begin_flight(c, name, key, hash);
	c->caller.repeated = begun;
	return false;
}

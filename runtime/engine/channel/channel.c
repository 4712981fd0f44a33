/*
 * Channels. channel.h describes them. The documents hold what must survive a restart; `live` holds connections and
 * times.
 */

#include "runtime/engine/channel/channel.h"

#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/action/action.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/ref.h"
#include "runtime/engine/session/session.h"
#include "runtime/engine/work/peer_task.h"
#include "runtime/view/view.h"
#include "runtime/view/view_channel.h"

#include <inttypes.h>
#include <sys/random.h>

#define TOKEN_BYTES 32
#define TOKEN_TEXT (2 * TOKEN_BYTES + 1)
#define MISSED_BEATS 3u

struct channel_state {
	struct strmap live; /* id → struct channel_live */
};

/* The state of a channel that only memory holds. Keyed by channel id in g->channels->live. */
struct channel_live {
	uint64_t connection;   /* the connection that it is bound to; 0 = none */
	uint64_t heartbeat_ms; /* 0 = none */
	uint64_t seen_ns, seen_us;
	uint64_t acked; /* as submitted, possibly not committed yet; 0 = read it from the store */
};

static struct channel_live *live_of(struct engine *g, const char *id)
{
	struct channel_live *l = strmap_get(&g->channels->live, id);

	if (!l) {
		l = mem_zalloc(1, sizeof *l);
		strmap_put(&g->channels->live, id, l);
	}
	return l;
}

static void live_seen(struct engine *g, struct channel_live *l)
{
	l->seen_ns = engine_now(g);
	l->seen_us = g->o.ports->real_us(g->o.host);
	if (l->heartbeat_ms)
		engine_wake(g, l->seen_ns + MISSED_BEATS * l->heartbeat_ms * 1000000ull);
}

static void live_forget(struct engine *g, const char *id) { free(strmap_del(&g->channels->live, id)); }

static void make_token(char text[TOKEN_TEXT], char hash[HASH_SHA256_TEXT])
{
	unsigned char raw[TOKEN_BYTES];

	if (getrandom(raw, sizeof raw, 0) != (ssize_t)sizeof raw)
		abort(); /* never continue with a token that can be guessed */
	for (size_t i = 0; i < sizeof raw; i++)
		snprintf(text + 2 * i, 3, "%02x", raw[i]);
	hash_sha256_text(text, TOKEN_TEXT - 1, hash);
}

/* Loads a channel of the caller's. */
static int channel_load(struct engine *g, const char *id, const struct caller *c, struct buf *text,
			struct channel_doc *d, struct err *e)
{
	int r = view_read_speculative(g->o.store, &channel_schema, id, text, d, e);

	if (r < 0)
		return -1;
	/* A channel of another uid is reported as not found, so that its existence is not disclosed. */
	if (r > 0 || (c->uid != 0 && d->uid != c->uid)) {
		err_set(e, ERR_NOT_FOUND, "channel '%.64s' is not known", id);
		snprintf(e->field, sizeof e->field, "channelId");
		return -1;
	}
	return 0;
}

static struct scope channel_scope(const struct channel_doc *d, const char *request_id)
{
	return (struct scope){
		.uid = (uint32_t)d->uid, .session = d->sessionId, .channel = d->channelId, .request = request_id
	};
}

/* ---- connecting ---- */

/* Finds the session of a new channel, or creates one. */
static int connect_session(struct engine *g, struct transaction *tx, const struct channel_request *r,
			   char session_id[ID_SIZE], uint32_t *uid, struct err *e)
{
	struct view_session_brief s;

	*uid = tx->caller.uid;
	if (!r->session_id)
		return session_make(g, tx, &tx->caller, "channel", r->title, session_id);
	int found = view_session_brief(g->o.store, tx->caller.uid, r->session_id, &s, e);
	if (found != 0) {
		if (found > 0)
			err_set(e, ERR_NOT_FOUND, "session '%.64s' is not known", r->session_id);
		snprintf(e->field, sizeof e->field, "sessionId");
		return -1;
	}
	*uid = s.uid;
	id_copy(session_id, r->session_id);
	return 0;
}

static void connected_fact(struct transaction *tx, const struct channel_doc *doc, const struct channel_request *r,
			   const char *hash)
{
	const struct requester by = requester_of(&tx->caller);

	EMIT(channel_connected, tx, channel_scope(doc, tx->caller.request_id), .envelope.status = "connected",
	     .transport = r->transport, .peerRole = r->peer_role, .nativeProtocol = r->native_protocol,
	     .capabilities = json_from_text(r->capabilities_json), .accountRef = r->account_ref,
	     .heartbeatMs = opt_int_if(r->heartbeat_ms, r->heartbeat_ms), .bound = opt_bool(!r->heartbeat_ms),
	     .tokenHash = hash, .peer = json_requester(&by));
}

void engine_connect_channel(struct engine *g, const struct channel_request *r, const struct caller *c,
			    engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	char token[TOKEN_TEXT], hash[HASH_SHA256_TEXT];
	buf_auto struct buf text = BUF_INIT;
	struct channel_doc doc;
	struct err e = ERR_INIT;
	uint32_t uid;

	view_clear(&channel_schema, &doc);
	if (r->channel_id && view_read_speculative(g->o.store, &channel_schema, r->channel_id, &text, &doc, &e) == 0) {
		err_set(&e, ERR_CONFLICT, "channel '%.64s' exists already: use reconnect_channel", r->channel_id);
		snprintf(e.field, sizeof e.field, "channelId");
		transaction_reject(tx, &e);
		return;
	}
	if (connect_session(g, tx, r, doc.sessionId, &uid, &e) < 0) {
		transaction_reject(tx, &e);
		return;
	}
	doc.uid = uid;
	if (r->channel_id)
		id_copy(doc.channelId, r->channel_id);
	else
		id_make(ID_KIND_CHANNEL, doc.channelId);
	/* Events and documents hold only the hash; the reply holds the token. */
	make_token(token, hash);
	connected_fact(tx, &doc, r, hash);
	struct channel_live *l = live_of(g, doc.channelId);
	l->connection = r->heartbeat_ms ? 0 : c->connection;
	l->heartbeat_ms = r->heartbeat_ms;
	live_seen(g, l);
	jw_kstr(&tx->w, "channelId", doc.channelId);
	jw_kstr(&tx->w, "sessionId", doc.sessionId);
	jw_kstr(&tx->w, "resumeToken", token);
	transaction_commit(tx);
}

/* ---- resuming ---- */

static int check_token(const struct channel_doc *d, const char *token, struct err *e)
{
	char hash[HASH_SHA256_TEXT], known[HASH_SHA256_TEXT] = "";
	unsigned char differ = 0;

	hash_sha256_text(token, strlen(token), hash);
	jval_str(d->tokenHash, known, sizeof known);
	/* Constant time: the comparison must not reveal how much of a guess is right. */
	for (size_t i = 0; i < sizeof hash - 1; i++)
		differ |= (unsigned char)(hash[i] ^ known[i]);
	if (differ || !known[0]) {
		err_set(e, ERR_NOT_ALLOWED, "the resume token is not the last one that this channel was given");
		snprintf(e->field, sizeof e->field, "resumeToken");
		return -1;
	}
	return 0;
}

/* Records events that cannot be sent again as a gap. The snapshot replaces them. */
static void gap_facts(struct engine *g, struct transaction *tx, const struct channel_doc *doc, uint64_t from,
		      uint64_t to)
{
	static const char *const unavailable[] = { "events that retention removed" };
	const struct scope s = channel_scope(doc, tx->caller.request_id);

	EMIT(snapshot_repaired, tx, s, .kind = "session_snapshot",
	     .gap = JSON_OBJECT(event_range, .from = from, .to = to), .unavailable = json_from_strings(unavailable, 1));
	EMIT(snapshot_updated, tx, s, .kind = "session_snapshot", .atSequence = store_last_sequence(g->o.store),
	     .recoveryMode = "snapshot_then_events");
}

void engine_reconnect_channel(struct engine *g, const char *channel_id, uint64_t last_acked, const char *token,
			      const struct caller *c, engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	uint64_t first = store_first_sequence(g->o.store), last = store_last_sequence(g->o.store);
	char fresh[TOKEN_TEXT], hash[HASH_SHA256_TEXT];
	buf_auto struct buf text = BUF_INIT;
	struct channel_doc doc;
	struct err e = ERR_INIT;

	if (channel_load(g, channel_id, c, &text, &doc, &e) < 0 || check_token(&doc, token, &e) < 0 ||
	    (last_acked > last && err_field(&e, "lastAckedSequence",
					    "expected at most %" PRIu64 ", the last sequence there is", last) < 0)) {
		transaction_reject(tx, &e);
		return;
	}
	/* Retention has removed events after the last one that the peer acknowledged. */
	bool gap = last_acked + 1 < first;
	/* Each resume issues a new token; the old one becomes invalid with the commit. */
	make_token(fresh, hash);
	if (gap)
		gap_facts(g, tx, &doc, last_acked + 1, first - 1);
	const struct json_value missed = gap ? JSON_OBJECT(event_range, .from = last_acked + 1, .to = first - 1)
					     : JSON_NONE;
	EMIT(channel_resumed, tx, channel_scope(&doc, c->request_id), .envelope.status = "connected",
	     .resumedFrom = gap ? first - 1 : last_acked, .gap = missed, .tokenHash = hash);
	struct channel_live *l = live_of(g, doc.channelId);
	l->heartbeat_ms = doc.heartbeatMs == VIEW_ABSENT ? 0 : doc.heartbeatMs;
	l->connection = l->heartbeat_ms ? 0 : c->connection;
	live_seen(g, l);
	jw_kstr(&tx->w, "channelId", doc.channelId);
	jw_kstr(&tx->w, "sessionId", doc.sessionId);
	jw_kstr(&tx->w, "resumeToken", fresh);
	jw_kuint(&tx->w, "resumedFrom", gap ? first - 1 : last_acked);
	json_value_member(&tx->w, "gap", missed);
	transaction_commit(tx);
}

/* ---- disconnecting ---- */

static void disconnected_fact(struct engine *g, struct transaction *tx, const struct channel_doc *doc,
			      const char *reason, const char *request_id)
{
	const struct channel_live *l = strmap_get(&g->channels->live, doc->channelId);

	EMIT(channel_disconnected, tx, channel_scope(doc, request_id), .envelope.status = "disconnected",
	     .reason = reason, .lastSeenAt = l ? l->seen_us : doc->lastSeenAt,
	     .lastAcked = opt_int(view_channel_acked(g->o.store, doc->channelId)));
	/* In the same commit, so that no reader sees the channel disconnected and its tasks reachable. */
	peer_tasks_unreachable(g, doc->channelId, tx);
}

void engine_disconnect_channel(struct engine *g, const char *channel_id, const char *reason, const struct caller *c,
			       engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	struct channel_doc doc;
	struct err e = ERR_INIT;

	if (channel_load(g, channel_id, c, &text, &doc, &e) < 0) {
		transaction_reject(tx, &e);
		return;
	}
	if (strcmp(doc.status, "connected") != 0) {
		err_set(&e, ERR_STATE, "channel '%.64s' is disconnected already", channel_id);
		transaction_reject(tx, &e);
		return;
	}
	disconnected_fact(g, tx, &doc, reason, c->request_id);
	live_forget(g, channel_id);
	jw_kstr(&tx->w, "channelId", doc.channelId);
	jw_kstr(&tx->w, "status", "disconnected");
	transaction_commit(tx);
}

/* Disconnects a channel for the engine itself. */
static void drop_channel(struct engine *g, const char *id, const char *reason)
{
	buf_auto struct buf text = BUF_INIT;
	struct channel_doc doc;
	struct err e = ERR_INIT;

	if (view_read_speculative(g->o.store, &channel_schema, id, &text, &doc, &e) == 0 &&
	    strcmp(doc.status, "connected") == 0) {
		struct transaction *tx = transaction_new_internal(g);

		disconnected_fact(g, tx, &doc, reason, NULL);
		transaction_commit(tx);
	}
	live_forget(g, id);
}

/* Collects the ids first: dropping a channel changes the map. */
struct found {
	struct engine *engine;
	uint64_t connection, now, next;
	char (*ids)[ID_SIZE];
	size_t count;
};

static void find_bound(void *ctx, const char *id, void *value)
{
	const struct channel_live *l = value;
	struct found *f = ctx;

	/* 0: the channel is not bound to a connection. */
	if (l->connection && l->connection == f->connection)
		id_copy(f->ids[f->count++], id);
}

static void find_silent(void *ctx, const char *id, void *value)
{
	const struct channel_live *l = value;
	struct found *f = ctx;
	uint64_t deadline = l->seen_ns + MISSED_BEATS * l->heartbeat_ms * 1000000ull;

	if (!l->heartbeat_ms)
		return;
	if (f->now >= deadline)
		id_copy(f->ids[f->count++], id);
	else if (deadline < f->next)
		f->next = deadline;
}

static uint64_t drop_found(struct engine *g, struct found *f, void (*fn)(void *, const char *, void *),
			   const char *reason)
{
	f->next = UINT64_MAX;
	if (!g->channels->live.count)
		return UINT64_MAX;
	f->ids = mem_zalloc(g->channels->live.count, ID_SIZE);
	strmap_each(&g->channels->live, fn, f);
	for (size_t i = 0; i < f->count; i++)
		drop_channel(g, f->ids[i], reason);
	free(f->ids);
	return f->next;
}

void channel_client_disconnected(struct engine *g, uint64_t connection)
{
	struct found f = { .engine = g, .connection = connection };

	(void)drop_found(g, &f, find_bound, "the transport was closed");
}

uint64_t channel_tick(struct engine *g, uint64_t now_ns)
{
	struct found f = { .engine = g, .now = now_ns };

	return drop_found(g, &f, find_silent, "no heartbeat came");
}

static bool recover_one(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct found *f = ctx;

	f->ids = mem_realloc(f->ids, (f->count + 1) * ID_SIZE);
	snprintf(f->ids[f->count++], ID_SIZE, "%.*s", (int)id_len, id);
	return true;
}

void channel_recover(struct engine *g)
{
	struct found f = { .engine = g };
	struct err e = ERR_INIT;

	if (store_model_scan_speculative(g->o.store, VIEW_LIVE_CHANNEL, NULL, recover_one, &f, &e) < 0)
		log_error("recover channels: %s", e.message);
	for (size_t i = 0; i < f.count; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct channel_doc doc;

		if (view_read_speculative(g->o.store, &channel_schema, f.ids[i], &text, &doc, &e) != 0)
			continue;
		if (doc.bound || doc.heartbeatMs == VIEW_ABSENT) {
			drop_channel(g, f.ids[i], "the runtime was restarted");
			continue;
		}
		struct channel_live *l = live_of(g, f.ids[i]);
		l->heartbeat_ms = doc.heartbeatMs;
		live_seen(g, l); /* restarts its timeout: no heartbeat could arrive while the runtime was down */
	}
	free(f.ids);
}

/* ---- acknowledging, messages ---- */

void engine_ack_events(struct engine *g, const char *channel_id, uint64_t sequence, const struct caller *c,
		       engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	uint64_t last = store_last_sequence(g->o.store);
	buf_auto struct buf text = BUF_INIT;
	struct channel_doc doc;
	struct err e = ERR_INIT;

	if (channel_load(g, channel_id, c, &text, &doc, &e) < 0 ||
	    (sequence > last &&
	     err_field(&e, "sequence", "expected at most %" PRIu64 ", the last sequence there is", last) < 0)) {
		transaction_reject(tx, &e);
		return;
	}
	/*
	 * Acknowledgements may follow each other faster than commits. `live` has the newest submitted one, so the
	 * cursor never moves back.
	 */
	struct channel_live *l = strmap_get(&g->channels->live, channel_id);
	uint64_t acked = view_channel_acked(g->o.store, channel_id);
	if (l && l->acked > acked)
		acked = l->acked; /* not committed yet */
	if (sequence > acked) {
		mem_auto char *key = mem_printf(CHANNEL_ACK_KEY "%s", channel_id);
		char value[24];
		int n = snprintf(value, sizeof value, "%" PRIu64, sequence);

		/* Not an event: a cursor that moves with every event must not add one itself. */
		transaction_set_meta(tx, key, value, (size_t)n);
		acked = sequence;
	}
	if (l) {
		l->acked = acked;
		live_seen(g, l);
	}
	jw_kstr(&tx->w, "channelId", channel_id);
	jw_kuint(&tx->w, "lastAckedSequence", acked);
	transaction_commit(tx);
}

void engine_send_channel_message(struct engine *g, const struct channel_message_request *m, const struct caller *c,
				 engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	struct channel_doc doc;
	struct err e = ERR_INIT;

	if (channel_load(g, m->channel_id, c, &text, &doc, &e) < 0) {
		transaction_reject(tx, &e);
		return;
	}
	if (strcmp(doc.status, "connected") != 0) {
		err_set(&e, ERR_UNAVAILABLE, "channel '%.64s' is disconnected: its peer must reconnect first",
			m->channel_id);
		transaction_reject(tx, &e);
		return;
	}
	const struct ref_owner owner = {
		.uid = (uint32_t)doc.uid, .session_id = doc.sessionId, .kind = "channelId", .id = doc.channelId
	};
	const struct requester by = requester_of(c);
	ref_text_auto struct ref_text body;
	ref_text_init(&body, tx, &owner, m->text, strlen(m->text));
	EMIT(channel_message, tx, channel_scope(&doc, c->request_id), .direction = m->direction, .kind = m->kind,
	     .bytes = opt_int(strlen(m->text)), .preview = body.shown, .messageRef = none_if_empty(body.ref),
	     .by = json_requester(&by));
	struct channel_live *l = strmap_get(&g->channels->live, m->channel_id);
	if (l)
		live_seen(g, l);
	jw_kstr(&tx->w, "channelId", m->channel_id);
	transaction_commit(tx);
}

/* ---- the permission bridge ---- */

struct bridge_lookup {
	struct engine *engine;
	char channel_id[ID_SIZE];
};

static bool can_answer(const struct channel_doc *d)
{
	if (strcmp(d->status, "connected") != 0)
		return false;
	for (struct jiter it = jiter_on(d->capabilities); jiter_next(&it);)
		if (!it.object && jval_is_str(it.value, "permissions"))
			return true;
	return false;
}

static bool check_channel(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	const char *slash = memchr(id, '/', id_len);
	struct bridge_lookup *l = ctx;
	buf_auto struct buf text = BUF_INIT;
	struct channel_doc doc;
	struct err e = ERR_INIT;
	char channel[ID_SIZE];

	if (!slash)
		return true;
	snprintf(channel, sizeof channel, "%.*s", (int)(id + id_len - slash - 1), slash + 1);
	if (view_read_speculative(l->engine->o.store, &channel_schema, channel, &text, &doc, &e) == 0 &&
	    can_answer(&doc))
		memcpy(l->channel_id, channel, sizeof channel);
	return true; /* continue: the newest channel wins */
}

static bool bridge_of(struct engine *g, const char *session_id, char channel_id[ID_SIZE])
{
	mem_auto char *prefix = mem_printf("%s/", session_id);
	struct bridge_lookup l = { .engine = g };
	struct err e = ERR_INIT;

	if (store_model_scan_speculative(g->o.store, VIEW_SESSION_CHANNEL, prefix, check_channel, &l, &e) < 0)
		log_error("look for a channel that can answer: %s", e.message);
	memcpy(channel_id, l.channel_id, ID_SIZE);
	return channel_id[0] != '\0';
}

static void bridge_key(const char *action_id, char key[ID_SIZE + 24])
{
	snprintf(key, ID_SIZE + 24, "channel.action.%s", action_id);
}

/* The scope of a fact about an action that a channel's peer can answer. */
static struct scope bridge_scope(const struct scope *action, const char *channel_id)
{
	return (struct scope){ .uid = action->uid,
			       .session = action->session,
			       .thread = action->thread,
			       .turn = action->turn,
			       .channel = channel_id,
			       .action = action->action };
}

void channel_on_action_required(struct transaction *tx, const struct scope *s, const struct action_required *p)
{
	char channel[ID_SIZE], key[ID_SIZE + 24];

	if (!bridge_of(tx->engine, s->session, channel))
		return;
	EMIT(channel_permission_forwarded, tx, bridge_scope(s, channel),
	     .peer = JSON_OBJECT(channel_peer, .channelId = channel),
	     .about = json_from_string(p->prompt ? p->prompt : p->actionType));
	bridge_key(s->action, key);
	transaction_set_meta(tx, key, channel, strlen(channel));
}

void channel_on_action_resolved(struct transaction *tx, const struct scope *s, const struct action_resolved *p)
{
	const char *by = tx->caller.channel_id;
	char key[ID_SIZE + 24];
	buf_auto struct buf channel = BUF_INIT;
	struct err e = ERR_INIT;

	bridge_key(s->action, key);
	if (store_meta_get(tx->engine->o.store, key, &channel, &e) != 0)
		return; /* it was not forwarded */
	bool there = by && strcmp(by, buf_cstr(&channel)) == 0;
	EMIT(channel_permission_returned, tx, bridge_scope(s, buf_cstr(&channel)),
	     .decidedBy = there ? "peer" : "local", .outcome = p->decision, .source = p->source,
	     .channelScoped = opt_bool(there));
}

void channel_init(struct engine *g) { g->channels = mem_zalloc(1, sizeof *g->channels); }

static void free_live(void *ctx, const char *id, void *value) { free(value); }

void channel_done(struct engine *g)
{
	strmap_each(&g->channels->live, free_live, NULL);
	strmap_done(&g->channels->live);
	free(g->channels);
}

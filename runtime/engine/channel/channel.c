/*
 * Channels. channel.h describes them. The documents hold what must survive a restart; `live` holds connections and
 * times.
 */

#include "runtime/engine/channel/channel.h"

#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/base/random.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/id_list.h"
#include "runtime/engine/core/ref.h"
#include "runtime/engine/session/session.h"
#include "runtime/engine/work/work.h"
#include "runtime/view/view.h"
#include "runtime/view/view_channel.h"

#include <inttypes.h>

#define SEED_BYTES 16
#define SEED_TEXT (sizeof CHANNEL_SEED_PREFIX + 2 * (size_t)SEED_BYTES)
#define MISSED_BEATS 3u

struct channel_state {
	struct strmap live; /* id → struct channel_live */
};

/* The state of a channel that only memory holds. Keyed by channel id in engine->channels->live. */
struct channel_live {
	uint64_t connection;   /* the connection that it is bound to; 0 = none */
	uint64_t heartbeat_ms; /* 0 = none */
	uint64_t seen_ns, seen_us;
	uint64_t acked; /* as submitted, possibly not committed yet; 0 = read it from the store */
};

static struct channel_live *live_of(struct engine *engine, const char *id)
{
	struct channel_live *l = strmap_get(&engine->channels->live, id);

	if (!l) {
		l = mem_zalloc(1, sizeof *l);
		strmap_put(&engine->channels->live, id, l);
	}
	return l;
}

/* Any request of the peer counts as a heartbeat. */
static void live_seen(struct engine *engine, struct channel_live *l)
{
	l->seen_ns = engine_now(engine);
	l->seen_us = engine_real(engine);
	if (l->heartbeat_ms)
		engine_wake(engine, l->seen_ns + MISSED_BEATS * l->heartbeat_ms * 1000000ull);
}

void engine_channel_token(const struct engine *engine, const char *seed, char ret[CHANNEL_TOKEN_TEXT])
{
	uint8_t raw[32];

	hash_hmac_sha256(engine->o.token_key, sizeof engine->o.token_key, seed, strlen(seed), raw);
	for (size_t i = 0; i < sizeof raw; i++)
		snprintf(ret + 2 * i, 3, "%02x", raw[i]);
}

/*
 * A new token. Events and documents have only its hash, and the result only its seed, because a result with an
 * idempotency key is stored: the control socket replaces the seed when it sends the result (engine_channel_token).
 */
static void make_token(const struct engine *engine, char seed[SEED_TEXT], char hash[HASH_SHA256_TEXT])
{
	char token[CHANNEL_TOKEN_TEXT];
	unsigned char raw[SEED_BYTES];
	int n = snprintf(seed, SEED_TEXT, CHANNEL_SEED_PREFIX);

	random_bytes(raw, sizeof raw);
	for (size_t i = 0; i < sizeof raw; i++)
		snprintf(seed + (size_t)n + 2 * i, 3, "%02x", raw[i]);
	engine_channel_token(engine, seed, token);
	hash_sha256_text(token, CHANNEL_TOKEN_TEXT - 1, hash);
}

/* Loads a channel of the caller's. */
static int channel_load(struct engine *engine, const char *id, const struct caller *c, struct buf *text,
			struct channel_doc *d, struct err *e)
{
	int r = view_read_speculative(engine->o.store, &channel_schema, id, text, d, e);

	if (r < 0)
		return -1;
	/* A channel of another uid is reported as not found, so that its existence is not disclosed. */
	if (r > 0 || (c->uid != 0 && d->uid != c->uid))
		return err_not_known(e, "channelId", id);
	return 0;
}

static struct scope channel_scope(const struct channel_doc *d, const char *request_id)
{
	return (struct scope){
		.uid = (uint32_t)d->uid, .session = d->sessionId, .channel = d->channelId, .request = request_id
	};
}

/* ---- connecting ---- */

/* A channel without a session gets a new one. With a heartbeat it does not depend on its connection. */
void engine_connect_channel(struct engine *engine, const struct channel_request *r, const struct caller *c,
			    engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	char seed[SEED_TEXT], hash[HASH_SHA256_TEXT];
	buf_auto struct buf text = BUF_INIT;
	struct channel_doc doc;
	struct err e = ERR_INIT;
	struct view_session_brief s;
	const struct requester by = requester_of(c);

	if (r->channel_id &&
	    view_read_speculative(engine->o.store, &channel_schema, r->channel_id, &text, &doc, &e) == 0)
		err_at(&e, ERR_CONFLICT, "channelId", "channel '%.64s' exists already: use reconnect_channel",
		       r->channel_id);
	view_clear(&channel_schema, &doc);
	doc.uid = c->uid;
	id_copy(doc.sessionId, r->session_id);
	if (!e.code && !r->session_id) {
		session_make(tx, c, "channel", r->title, doc.sessionId);
	} else if (!e.code) {
		int found = view_session_brief(engine->o.store, c->uid, r->session_id, &s, &e);
		if (found > 0)
			err_not_known(&e, "sessionId", r->session_id);
		else if (found == 0)
			doc.uid = s.uid;
	}
	if (e.code)
		return transaction_reject(tx, &e);
	id_copy(doc.channelId, r->channel_id);
	if (!r->channel_id)
		id_make(ID_KIND_CHANNEL, doc.channelId);
	make_token(engine, seed, hash);
	EMIT(channel_connected, tx, channel_scope(&doc, c->request_id), .envelope.status = "connected",
	     .transport = r->transport, .peerRole = r->peer_role, .nativeProtocol = r->native_protocol,
	     .capabilities = json_from_text(r->capabilities_json), .accountRef = r->account_ref,
	     .heartbeatMs = opt_int_if(r->heartbeat_ms, r->heartbeat_ms), .bound = opt_bool(!r->heartbeat_ms),
	     .tokenHash = hash, .peer = json_requester(&by));
	struct channel_live *l = live_of(engine, doc.channelId);
	l->connection = r->heartbeat_ms ? 0 : c->connection;
	l->heartbeat_ms = r->heartbeat_ms;
	live_seen(engine, l);
	jw_kstr(&tx->w, "channelId", doc.channelId);
	jw_kstr(&tx->w, "sessionId", doc.sessionId);
	jw_kstr(&tx->w, "resumeToken", seed);
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
	if (differ || !known[0])
		return err_at(e, ERR_NOT_ALLOWED, "resumeToken",
			      "the resume token is not the last one that this channel was given");
	return 0;
}

/* The cursor of the client counts, not the one that it acknowledged: it may not have processed the rest. */
void engine_reconnect_channel(struct engine *engine, const char *channel_id, uint64_t last_acked, const char *token,
			      const struct caller *c, engine_reply_fn fn, void *ctx)
{
	static const char *const unavailable[] = { "events that retention removed" };
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	uint64_t first = store_first_sequence(engine->o.store), last = store_last_sequence(engine->o.store);
	char seed[SEED_TEXT], hash[HASH_SHA256_TEXT];
	buf_auto struct buf text = BUF_INIT;
	struct channel_doc doc;
	struct err e = ERR_INIT;

	if (channel_load(engine, channel_id, c, &text, &doc, &e) < 0 || check_token(&doc, token, &e) < 0 ||
	    (last_acked > last &&
	     err_field(&e, "lastAckedSequence", "expected at most %" PRIu64 ", the last sequence there is", last) < 0))
		return transaction_reject(tx, &e);
	/* Retention has removed events after the last one that the peer acknowledged. */
	bool gap = last_acked + 1 < first;
	/* Each resume issues a new token; the old one becomes invalid with the commit. */
	make_token(engine, seed, hash);
	const struct scope s = channel_scope(&doc, c->request_id);
	const struct json_value missed = gap ? JSON_OBJECT(event_range, .from = last_acked + 1, .to = first - 1)
					     : JSON_NONE;
	/* The snapshot replaces the events that cannot be sent again. */
	if (gap) {
		EMIT(snapshot_repaired, tx, s, .kind = "session_snapshot", .gap = missed,
		     .unavailable = json_from_strings(unavailable, 1));
		EMIT(snapshot_updated, tx, s, .kind = "session_snapshot", .atSequence = last,
		     .recoveryMode = "snapshot_then_events");
	}
	EMIT(channel_resumed, tx, s, .envelope.status = "connected", .resumedFrom = gap ? first - 1 : last_acked,
	     .gap = missed, .tokenHash = hash);
	/* What is sent after the snapshot. */
	EMIT(history_window_loaded, tx, s, .from = (gap ? first - 1 : last_acked) + 1, .to = last, .truncated = gap);
	peer_tasks_channel(engine, doc.channelId, true, tx);
	struct channel_live *l = live_of(engine, doc.channelId);
	l->heartbeat_ms = view_counted(doc.heartbeatMs);
	l->connection = l->heartbeat_ms ? 0 : c->connection;
	live_seen(engine, l);
	jw_kstr(&tx->w, "channelId", doc.channelId);
	jw_kstr(&tx->w, "sessionId", doc.sessionId);
	jw_kstr(&tx->w, "resumeToken", seed);
	jw_kuint(&tx->w, "resumedFrom", gap ? first - 1 : last_acked);
	json_value_member(&tx->w, "gap", missed);
	transaction_commit(tx);
}

/* ---- disconnecting ---- */

static void disconnected_fact(struct engine *engine, struct transaction *tx, const struct channel_doc *doc,
			      const char *reason, const char *request_id)
{
	const struct channel_live *l = strmap_get(&engine->channels->live, doc->channelId);
	struct err e = ERR_INIT;
	uint64_t acked = 0;
	const bool known = view_channel_acked(engine->o.store, doc->channelId, &acked, &e) == 0;

	if (!known)
		log_error("%s", e.message);
	EMIT(channel_disconnected, tx, channel_scope(doc, request_id), .envelope.status = "disconnected",
	     .reason = reason, .lastSeenAt = l ? l->seen_us : doc->lastSeenAt,
	     .lastAcked = opt_int_if(known, (int64_t)acked));
	/* In the same commit, so that no reader sees the channel disconnected and its tasks reachable. */
	peer_tasks_channel(engine, doc->channelId, false, tx);
}

static void forget_live(struct engine *engine, const char *id) { free(strmap_del(&engine->channels->live, id)); }

/* Unless the channel was reconnected before its disconnection was committed. */
static void forget_if_disconnected(struct engine *engine, const char *id)
{
	buf_auto struct buf text = BUF_INIT;
	struct channel_doc doc;
	struct err e = ERR_INIT;

	if (view_read_speculative(engine->o.store, &channel_schema, id, &text, &doc, &e) != 0 ||
	    strcmp(doc.status, "connected") != 0)
		forget_live(engine, id);
}

/* Ends no work; the channel can be resumed with its token. */
void engine_disconnect_channel(struct engine *engine, const char *channel_id, const char *reason,
			       const struct caller *c, engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	struct channel_doc doc;
	struct err e = ERR_INIT;

	if (channel_load(engine, channel_id, c, &text, &doc, &e) < 0)
		return transaction_reject(tx, &e);
	if (strcmp(doc.status, "connected") != 0) {
		err_set(&e, ERR_STATE, "channel '%.64s' is disconnected already", channel_id);
		return transaction_reject(tx, &e);
	}
	disconnected_fact(engine, tx, &doc, reason, c->request_id);
	transaction_after_commit(tx, forget_if_disconnected, channel_id);
	jw_kstr(&tx->w, "channelId", doc.channelId);
	jw_kstr(&tx->w, "status", "disconnected");
	transaction_commit(tx);
}

/* Disconnects a channel for the engine itself. */
static void drop_channel(struct engine *engine, const char *id, const char *reason)
{
	buf_auto struct buf text = BUF_INIT;
	struct channel_doc doc;
	struct err e = ERR_INIT;

	if (view_read_speculative(engine->o.store, &channel_schema, id, &text, &doc, &e) == 0 &&
	    strcmp(doc.status, "connected") == 0) {
		struct transaction *tx = transaction_new_internal(engine);

		disconnected_fact(engine, tx, &doc, reason, NULL);
		transaction_commit(tx);
	}
	forget_live(engine, id);
}

/* Channels that are bound to a closed connection, or whose heartbeats are missing. */
struct channel_search {
	struct engine *engine;
	uint64_t connection; /* 0 = search for missing heartbeats */
	uint64_t now, next;  /* next: the next deadline of a heartbeat */
};

static void check_live(void *ctx, const char *id, void *value)
{
	const struct channel_live *l = value;
	struct channel_search *f = ctx;
	uint64_t deadline = l->seen_ns + MISSED_BEATS * l->heartbeat_ms * 1000000ull;

	if (f->connection && l->connection == f->connection)
		drop_channel(f->engine, id, "the transport was closed");
	else if (!f->connection && l->heartbeat_ms && f->now >= deadline)
		drop_channel(f->engine, id, "no heartbeat arrived");
	else if (l->heartbeat_ms && deadline < f->next)
		f->next = deadline;
}

/* strmap_visit: dropping a channel changes the map. */
void channel_client_disconnected(struct engine *engine, uint64_t connection)
{
	struct channel_search f = { .engine = engine, .connection = connection };

	if (connection)
		strmap_visit(&engine->channels->live, check_live, &f);
}

uint64_t channel_tick(struct engine *engine, uint64_t now_ns)
{
	struct channel_search f = { .engine = engine, .now = now_ns, .next = UINT64_MAX };

	strmap_visit(&engine->channels->live, check_live, &f);
	return f.next;
}

/* Connections do not survive a restart of the runtime, heartbeats do. */
void channel_recover(struct engine *engine)
{
	view_ids_auto struct view_ids live = VIEW_IDS_INIT;
	struct err e = ERR_INIT;

	id_list_read(engine, VIEW_LIVE_CHANNEL, NULL, ID_LIST_ALL, &live);
	for (size_t i = 0; i < live.n; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct channel_doc doc;

		if (view_read_speculative(engine->o.store, &channel_schema, live.id[i], &text, &doc, &e) != 0)
			continue;
		if (doc.bound || doc.heartbeatMs == VIEW_ABSENT) {
			drop_channel(engine, live.id[i], "the runtime was restarted");
			continue;
		}
		struct channel_live *l = live_of(engine, live.id[i]);
		l->heartbeat_ms = doc.heartbeatMs;
		live_seen(engine, l); /* restarts its timeout: no heartbeat could arrive while the runtime was down */
	}
}

/* ---- acknowledging, messages ---- */

void engine_ack_events(struct engine *engine, const char *channel_id, uint64_t sequence, const struct caller *c,
		       engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	uint64_t last = store_last_sequence(engine->o.store);
	buf_auto struct buf text = BUF_INIT;
	struct channel_doc doc;
	struct err e = ERR_INIT;
	uint64_t committed = 0;

	if (channel_load(engine, channel_id, c, &text, &doc, &e) < 0 ||
	    view_channel_acked(engine->o.store, channel_id, &committed, &e) < 0 ||
	    (sequence > last &&
	     err_field(&e, "sequence", "expected at most %" PRIu64 ", the last sequence there is", last) < 0))
		return transaction_reject(tx, &e);
	/*
	 * Acknowledgements may follow each other faster than commits. `live` has the newest submitted one, so the
	 * cursor never moves back. It is written again until it is committed, because its commit may have failed.
	 */
	struct channel_live *l = strmap_get(&engine->channels->live, channel_id);
	uint64_t acked = sequence > committed ? sequence : committed;
	if (l && l->acked > acked)
		acked = l->acked;
	if (acked > committed) {
		mem_auto char *key = mem_printf(CHANNEL_ACK_KEY "%s", channel_id);
		char value[24];
		int n = snprintf(value, sizeof value, "%" PRIu64, acked);

		/* Not an event: a cursor that moves with every event must not add one itself. */
		transaction_set_meta(tx, key, value, (size_t)n);
	}
	if (l) {
		l->acked = acked;
		live_seen(engine, l);
	}
	jw_kstr(&tx->w, "channelId", channel_id);
	jw_kuint(&tx->w, "lastAckedSequence", acked);
	transaction_commit(tx);
}

void engine_send_channel_message(struct engine *engine, const struct channel_message_request *m, const struct caller *c,
				 engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	struct channel_doc doc;
	struct err e = ERR_INIT;

	if (channel_load(engine, m->channel_id, c, &text, &doc, &e) < 0)
		return transaction_reject(tx, &e);
	if (strcmp(doc.status, "connected") != 0) {
		err_set(&e, ERR_UNAVAILABLE, "channel '%.64s' is disconnected: its peer must reconnect first",
			m->channel_id);
		return transaction_reject(tx, &e);
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
	struct channel_live *l = strmap_get(&engine->channels->live, m->channel_id);
	if (l)
		live_seen(engine, l);
	jw_kstr(&tx->w, "channelId", m->channel_id);
	transaction_commit(tx);
}

/* ---- the permission bridge ---- */

/* The newest connected channel of the session whose peer can answer questions; false if there is none. */
static bool bridge_of(struct engine *engine, const char *session_id, char ret_channel[ID_SIZE])
{
	view_ids_auto struct view_ids channels = VIEW_IDS_INIT;

	ret_channel[0] = '\0';
	id_list_read(engine, VIEW_SESSION_CHANNEL, session_id, ID_LIST_ALL, &channels);
	for (size_t i = channels.n; i-- > 0 && !ret_channel[0];) {
		buf_auto struct buf text = BUF_INIT;
		struct channel_doc d;
		struct err e = ERR_INIT;

		if (view_read_speculative(engine->o.store, &channel_schema, channels.id[i], &text, &d, &e) != 0 ||
		    strcmp(d.status, "connected") != 0)
			continue;
		for (struct jiter it = jiter_on(d.capabilities); jiter_next(&it);)
			if (!it.object && jval_is_str(it.value, "permissions"))
				id_copy(ret_channel, channels.id[i]);
	}
	return ret_channel[0] != '\0';
}

static void bridge_key(const char *action_id, char key[ID_SIZE + 24])
{
	snprintf(key, ID_SIZE + 24, CHANNEL_ACTION_KEY "%s", action_id);
}

/* The scope of a fact about an action that a channel's peer can answer. */
static struct scope bridge_scope(const struct scope *action, const char *channel_id)
{
	return (struct scope){ .uid = action->uid,
			       .session = action->session,
			       .thread = action->thread,
			       .turn = action->turn,
			       .task = action->task,
			       .process = action->process,
			       .tool_call = action->tool_call,
			       .channel = channel_id,
			       .action = action->action };
}

/* Remembers the channel under the action's id, so that the resolution goes to the same one. */
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
	int r = store_meta_get(tx->engine->o.store, key, &channel, &e);
	if (r < 0)
		log_error("look up the channel of action %s: %s", s->action, e.message);
	if (r)
		return; /* 1: it was not forwarded */
	bool there = by && strcmp(by, buf_cstr(&channel)) == 0;
	EMIT(channel_permission_returned, tx, bridge_scope(s, buf_cstr(&channel)),
	     .decidedBy = there ? "peer" : "local", .outcome = p->decision, .source = p->source,
	     .channelScoped = opt_bool(there));
	transaction_set_meta(tx, key, NULL, 0);
}

void channel_init(struct engine *engine) { engine->channels = mem_zalloc(1, sizeof *engine->channels); }

static void free_live(void *ctx, const char *id, void *value) { free(value); }

void channel_done(struct engine *engine)
{
	strmap_each(&engine->channels->live, free_live, NULL);
	strmap_done(&engine->channels->live);
	free(engine->channels);
}

/*
 * Links a peer's task to a local one. Each keeps its own id, and the pair is recorded. Clients use the local task. It
 * follows the peer's reports, and is complete only when its owner declares so, after the peer has ended and its
 * results were taken over. A disconnected channel ends nothing: the peer's task is then `unreachable`, not failed.
 */

#include "runtime/engine/action/action.h"
#include "runtime/engine/session/session.h"
#include "runtime/engine/work/task_private.h"
#include "runtime/view/view_channel.h"

#include <ctype.h>

#define REMOTE_ID_MAX 64u
#define ARTIFACTS_MAX 64u
#define STATUS_MAX 64u

/* The meaning of the peer's status words, spelled as in A2A's JSON. Recovery distinguishes the states. */
static const struct remote_word {
	const char *word, *state, *waiting; /* waiting: the local task's status in that state */
	enum {
		REMOTE_CONTINUES,
		REMOTE_UNKNOWN,
		REMOTE_WAITS,
		REMOTE_COMPLETED,
		REMOTE_FAILED,
		REMOTE_CANCELLED
	} meaning;
} words[] = {
	{ "unknown", "unreachable", NULL, REMOTE_UNKNOWN }, /* first: also stands for every other word */
	{ "submitted", "running", NULL, REMOTE_CONTINUES },
	{ "working", "running", NULL, REMOTE_CONTINUES },
	{ "running", "running", NULL, REMOTE_CONTINUES },
	{ "idle", "idle", NULL, REMOTE_CONTINUES },
	{ "unreachable", "unreachable", NULL, REMOTE_CONTINUES },
	{ "missing", "missing", NULL, REMOTE_CONTINUES },
	{ "input-required", "waiting", "waiting_input", REMOTE_WAITS },
	{ "auth-required", "waiting", "waiting_permission", REMOTE_WAITS },
	{ "completed", "completed_undelivered", NULL, REMOTE_COMPLETED },
	{ "failed", "", NULL, REMOTE_FAILED },
	{ "rejected", "", NULL, REMOTE_FAILED },
	{ "canceled", "", NULL, REMOTE_CANCELLED },
	{ "cancelled", "", NULL, REMOTE_CANCELLED },
};

/* Accepts the other spellings of A2A too (input_required, TASK_STATE_INPUT_REQUIRED). The peer's own word is kept. */
static const struct remote_word *word_of(const char *native)
{
	static const char prefix[] = "TASK_STATE_";
	char word[STATUS_MAX + 1];
	size_t n = 0;

	if (strncmp(native, prefix, sizeof prefix - 1) == 0)
		native += sizeof prefix - 1;
	for (; native[n] && n < STATUS_MAX; n++)
		word[n] = native[n] == '_' ? '-' : (char)tolower((unsigned char)native[n]);
	word[n] = '\0';
	for (size_t i = 0; i < countof(words); i++)
		if (strcmp(words[i].word, word) == 0)
			return &words[i];
	return &words[0];
}

/* Reads the link of a peer's task; 0 found, 1 not linked, −1. */
static int peer_read(struct engine *engine, const char *channel_id, const char *remote, struct buf *text,
		     struct peer_task_doc *ret, struct err *e)
{
	char key[2 * ID_SIZE];

	snprintf(key, sizeof key, "%s/%s", channel_id, remote);
	return view_read_speculative(engine->o.store, &peer_task_schema, key, text, ret, e);
}

static struct scope peer_scope(const struct task_doc *t, const char *channel_id, const struct caller *c)
{
	struct scope s = task_scope(t, c);

	s.channel = channel_id;
	return s;
}

/* The mapping as the task's document shows it: the previous one, updated with the new report. */
static json_t *mapping_of(const char *channel_id, struct jval before, const json_t *params, const char *state)
{
	static const char *const members[] = { "nativeProtocol",    "remoteTaskId", "remoteContextId",   "agentCardRef",
					       "deliveryMechanism", "remoteStatus", "remoteArtifactRefs" };
	json_t *peer = before.type == JT_OBJECT ? json_loadb(before.text, before.len, 0, NULL) : NULL;

	if (!peer)
		peer = json_object();
	json_object_set_new(peer, "channelId", json_string(channel_id));
	for (size_t i = 0; i < countof(members); i++)
		if (json_object_get(params, members[i]))
			json_object_set(peer, members[i], json_object_get(params, members[i]));
	json_object_del(peer, "remoteState");
	if (*state)
		json_object_set_new(peer, "remoteState", json_string(state));
	return peer;
}

static void updated_fact(const struct task_doc *t, struct transaction *tx, const struct caller *c, const char *native,
			 const json_t *peer)
{
	EMIT(task_updated, tx, task_scope(t, c),
	     .changes = JSON_OBJECT(peer_changes, .nativeStatus = native, .peer = json_from_tree(peer)),
	     .nativeStatus = native);
}

/* ---- link_peer_task ---- */

/* The local task of a peer's task starts when it is linked: the peer already works on it. */
static void begin_peer(struct engine *engine, const char *task_id)
{
	task_begin_now(engine, task_id, "a peer works on it");
}

static void link_facts(struct transaction *tx, const struct task_doc *t, const char *channel_id, const json_t *params)
{
	const char *remote = param_str(params, "remoteTaskId"), *status = param_str(params, "remoteStatus");
	const struct remote_word *word = word_of(status ? status : "submitted");
	const struct scope s = peer_scope(t, channel_id, &tx->caller);
	json_auto_t *peer = mapping_of(channel_id, (struct jval){ 0 }, params, word->state);

	EMIT(channel_peer_task_linked, tx, s, .nativeProtocol = param_str(params, "nativeProtocol"),
	     .remoteTaskId = remote, .remoteContextId = param_str(params, "remoteContextId"),
	     .agentCardRef = param_str(params, "agentCardRef"),
	     .deliveryMechanism = param_str(params, "deliveryMechanism"), .remoteStatus = status ? status : "submitted",
	     .remoteState = word->state);
	EMIT(task_delegated, tx, s, .delegateKind = "peer", .delegateId = remote);
	updated_fact(t, tx, &tx->caller, status ? status : "submitted", peer);
	jw_kstr(&tx->w, "taskId", t->taskId);
	jw_kstr(&tx->w, "channelId", channel_id);
	jw_kstr(&tx->w, "remoteTaskId", remote);
}

/* A peer's task is linked once. Its id is unique within the channel only. */
static int check_link(struct engine *engine, const json_t *params, const struct channel_doc *channel, struct err *e)
{
	const char *remote = param_str(params, "remoteTaskId");
	buf_auto struct buf text = BUF_INIT;
	struct peer_task_doc known;

	if (param_text(params, "remoteTaskId", REMOTE_ID_MAX, e) < 0 ||
	    param_text(params, "remoteContextId", 256, e) < 0 || param_text(params, "agentCardRef", 1024, e) < 0 ||
	    param_text(params, "deliveryMechanism", 64, e) < 0 || param_text(params, "nativeProtocol", 64, e) < 0 ||
	    param_text(params, "objective", 4096, e) < 0 || param_text(params, "remoteStatus", STATUS_MAX, e) < 0)
		return -1;
	int r = peer_read(engine, channel->channelId, remote, &text, &known, e);
	if (r == 0)
		return err_at(e, ERR_CONFLICT, "remoteTaskId",
			      "the channel's task '%.64s' is linked to '%.64s' already", remote, known.taskId);
	return r < 0 ? -1 : 0;
}

static int channel_of(struct engine *engine, const char *id, const struct caller *c, struct buf *text,
		      struct channel_doc *d, struct err *e)
{
	int r = view_read_speculative(engine->o.store, &channel_schema, id, text, d, e);

	/* A channel of another uid is reported as not found. */
	if (r == 0 && (c->uid == 0 || d->uid == c->uid))
		return 0;
	return r < 0 ? -1 : err_not_known(e, "channelId", id);
}

/* For a client that has no task of its own. */
static int create_local(struct transaction *tx, const struct channel_doc *channel, const json_t *params,
			struct task_doc *ret, struct err *e)
{
	const char *objective = param_str(params, "objective");
	json_auto_t *task = json_object();

	json_object_set_new(task, "objective", json_string(objective ? objective : "What a peer was asked to do."));
	json_object_set_new(task, "taskKind", json_string("peer"));
	json_object_set_new(task, "sessionId", json_string(channel->sessionId));
	if (task_create_facts(tx, task, ret, e) < 0)
		return -1;
	transaction_after_commit(tx, begin_peer, ret->taskId);
	return 0;
}

void engine_link_peer_task(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
			   void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	const char *given = param_str(params, "taskId");
	buf_auto struct buf text = BUF_INIT;
	task_auto struct task t = TASK_INIT;
	struct channel_doc channel;
	struct err e = ERR_INIT;

	if (channel_of(engine, param_str(params, "channelId"), c, &text, &channel, &e) < 0 ||
	    check_link(engine, params, &channel, &e) < 0 ||
	    (given ? task_get(engine, given, c, &t, &e) < 0 || task_may(&t, TASK_VERB_ADD, &e) < 0
		   : create_local(tx, &channel, params, &t.d, &e) < 0))
		return transaction_reject(tx, &e);
	link_facts(tx, &t.d, channel.channelId, params);
	transaction_commit(tx);
}

/* ---- update_peer_task ---- */

/* Translates the peer's status to facts of the local task. */
static void status_facts(struct engine *engine, const struct task *t, const struct remote_word *word,
			 const char *status, const char *message, struct transaction *tx, const struct caller *c)
{
	char text[300];

	/* A word without a known meaning changes nothing but the recorded status. */
	if (word->meaning == REMOTE_UNKNOWN)
		return;
	snprintf(text, sizeof text, "the peer reports %.60s%s%.200s", status, message ? ": " : "",
		 message ? message : "");
	/* The peer's failure ends the attempt, and the task with it: the attempt is not retried automatically. */
	if (word->meaning == REMOTE_FAILED || word->meaning == REMOTE_CANCELLED) {
		const struct attempt_end end = { .status = word->meaning == REMOTE_FAILED ? "failed" : "cancelled",
						 .category = "peer",
						 .message = text,
						 .exit_code = -1 };

		if (t->d.attemptOpen)
			task_attempt_failed(engine, t, tx, c, &end);
		return;
	}
	/* The peer works again: a task that waited for it continues, unless it was paused. */
	if (word->meaning != REMOTE_WAITS && word->meaning != REMOTE_COMPLETED) {
		if (task_status_class(t->status) != TASK_CLASS_WAITING || t->status == TASK_PAUSED)
			return;
		const char *now = t->d.attemptOpen ? "running" : "accepted";
		EMIT(task_resumed, tx, task_scope(&t->d, c), .envelope = { .status = now, .status_reason = text },
		     .status = now, .reason = text);
		return;
	}
	/* A completed peer does not complete the task: its owner has to take over the results first. */
	const char *waiting = word->waiting ? word->waiting : "waiting_resource";
	EMIT(task_waiting, tx, task_scope(&t->d, c), .envelope = { .status = waiting, .status_reason = text },
	     .status = waiting,
	     .waitingFor = word->meaning == REMOTE_WAITS
				   ? "peer"
				   : "completion: take over what the peer delivered, then complete_task",
	     .reason = text);
}

/* ---- authorization inside a peer's task ---- */

/* The open question of this peer's task, which its continuation names; false = none. */
static bool question_of(struct engine *engine, const struct task_doc *t, const char *remote, struct buf *text,
			struct action_doc *ret)
{
	view_ids_auto struct view_ids open = VIEW_IDS_INIT;
	struct err e = ERR_INIT;

	id_list_read(engine, VIEW_TASK_ACTION, t->taskId, ID_LIST_ALL, &open);
	for (size_t i = 0; i < open.n; i++)
		if (action_read(engine, open.id[i], text, ret, &e) == 0 &&
		    jval_is_str(jval_get(ret->continuation, "remoteTaskId"), remote))
			return true;
	return false;
}

/*
 * A peer that needs authorization asks a person: once, until the question is answered or the peer reports another
 * state. The answer reaches the peer through the channel's permission bridge.
 */
static int question_facts(struct engine *engine, const struct task_doc *t, const struct remote_word *word,
			  const char *remote, const char *message, struct transaction *tx, struct err *e)
{
	const bool wanted = word->waiting && strcmp(word->waiting, "waiting_permission") == 0;
	buf_auto struct buf text = BUF_INIT;
	struct action_doc open;
	char prompt[1200], id[ID_SIZE], thread[ID_SIZE], turn[ID_SIZE];

	if (word->meaning == REMOTE_UNKNOWN)
		return 0;
	if (question_of(engine, t, remote, &text, &open)) {
		const struct action_outcome o = { .action = &open,
						  .decision = "cancelled",
						  .status = "cancelled",
						  .source = "peer",
						  .note = "the peer no longer waits for it" };
		if (!wanted)
			action_resolve(tx, &o);
		return 0;
	}
	if (!wanted)
		return 0;
	/* Both facts belong to the system turn, which does not block any other work. */
	if (session_system_turn(engine, tx, (uint32_t)t->uid, t->sessionId, thread, turn, e) < 0)
		return -1;
	json_auto_t *about = json_pack("{s:s}", "remoteTaskId", remote);
	mem_auto char *continuation = json_dumps(about, JSON_COMPACT);
	snprintf(prompt, sizeof prompt, "The peer's task %s needs authorization%s%s", remote, message ? ": " : ".",
		 message ? message : "");
	const struct action_spec s = { .kind = ACTION_KIND_REQUEST,
				       .uid = (uint32_t)t->uid,
				       .session_id = t->sessionId,
				       .thread_id = thread,
				       .turn_id = turn,
				       .task_id = t->taskId,
				       .request_id = tx->caller.request_id,
				       .action_type = "permission",
				       .prompt = prompt,
				       .continuation_json = continuation,
				       .by = requester_of(&tx->caller) };
	if (action_open(engine, &s, tx, id, e) < 0)
		return -1;
	struct scope asks = task_scope(t, &tx->caller);
	asks.thread = thread;
	asks.turn = turn;
	asks.action = id;
	EMIT(permission_requested, tx, asks, .envelope.status = "waiting_permission", .actionId = id,
	     .interactive = true, .owner = JSON_OBJECT(owner, .kind = "peer_task", .id = remote));
	return 0;
}

static int find_peer(struct engine *engine, const json_t *params, const struct caller *c, struct buf *text,
		     struct peer_task_doc *ret, struct err *e)
{
	buf_auto struct buf channel_text = BUF_INIT;
	struct channel_doc channel;

	if (channel_of(engine, param_str(params, "channelId"), c, &channel_text, &channel, e) < 0 ||
	    param_text(params, "remoteTaskId", REMOTE_ID_MAX, e) < 0)
		return -1;
	int r = peer_read(engine, channel.channelId, param_str(params, "remoteTaskId"), text, ret, e);
	if (r > 0) {
		err_at(e, ERR_NOT_FOUND, "remoteTaskId", "the channel has no linked task '%.64s': link_peer_task first",
		       param_str(params, "remoteTaskId"));
	}
	return r ? -1 : 0;
}

/* The peer's report, the mapping, the artifacts and the status of the local task are one commit. */
void engine_update_peer_task(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
			     void *ctx)
{
	const char *status = param_str(params, "remoteStatus"), *message = param_str(params, "message");
	const json_t *artifacts = json_object_get(params, "remoteArtifactRefs"), *ref;
	const struct remote_word *word = word_of(status);
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	task_auto struct task t = TASK_INIT;
	struct peer_task_doc peer;
	size_t i;
	struct err e = ERR_INIT;

	if (json_array_size(artifacts) > ARTIFACTS_MAX)
		err_field(&e, "remoteArtifactRefs", "must have at most %u of them", ARTIFACTS_MAX);
	if (e.code || param_text(params, "message", 1024, &e) < 0 ||
	    param_text(params, "remoteStatus", STATUS_MAX, &e) < 0 ||
	    param_small(params, "remoteArtifactRefs", 8192, &e) < 0 ||
	    find_peer(engine, params, c, &text, &peer, &e) < 0 || task_get(engine, peer.taskId, c, &t, &e) < 0)
		return transaction_reject(tx, &e);
	if (task_status_ended(t.status)) {
		err_set(&e, ERR_STATE, "task '%.64s' is %s: reports of the peer no longer change it", peer.taskId,
			t.d.status);
		return transaction_reject(tx, &e);
	}
	EMIT(channel_peer_task_updated, tx, peer_scope(&t.d, peer.channelId, c),
	     .remoteTaskId = param_str(params, "remoteTaskId"), .remoteStatus = status, .remoteState = word->state,
	     .message = message, .remoteArtifactRefs = json_from_tree(artifacts));
	json_auto_t *mapping = mapping_of(peer.channelId, t.d.peer, params, word->state);
	updated_fact(&t.d, tx, c, status, mapping);
	json_array_foreach (artifacts, i, ref) {
		struct scope s = peer_scope(&t.d, peer.channelId, c);
		char id[ID_TEXT_MAX];

		id_make(ID_KIND_ARTIFACT, id);
		s.artifact = id;
		EMIT(artifact_changed, tx, s, .source = "peer", .change = "received", .readRef = json_string_value(ref),
		     .peerArtifact = json_is_string(ref) ? JSON_NONE : json_from_tree(ref));
		task_edge_fact(&t.d, tx, c, "produced_artifact", id, "active", "the peer delivered it");
	}
	if (question_facts(engine, &t.d, word, param_str(params, "remoteTaskId"), message, tx, &e) < 0)
		return transaction_reject(tx, &e);
	status_facts(engine, &t, word, status, message, tx, c);
	const bool failed = word->meaning == REMOTE_FAILED || word->meaning == REMOTE_CANCELLED;
	transaction_after_commit(tx, failed ? task_next : task_part_over, peer.taskId);
	jw_kstr(&tx->w, "taskId", peer.taskId);
	jw_kstr(&tx->w, "remoteState", word->state);
	transaction_commit(tx);
}

/* ---- a channel is disconnected or returns ---- */

struct channel_change {
	struct engine *engine;
	struct transaction *tx;
	const char *channel_id;
	bool back;
};

/*
 * A peer's task that has ended, is missing or waits for its results to be taken over keeps its state: that does not
 * depend on the channel. When the channel returns, the state that the peer reported last applies again.
 */
static bool check_peer(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	const struct channel_change *u = ctx;
	task_auto struct task t = TASK_INIT;
	char remote[ID_SIZE], status[ID_SIZE];
	struct peer_task_doc peer;
	struct err e = ERR_INIT;

	view_decode(&peer_task_schema, jval_of(json, len), &peer);
	jval_str(peer.remoteStatus, status, sizeof status);
	const char *now = u->back ? word_of(status)->state : "unreachable";
	if (u->back ? strcmp(peer.remoteState, "unreachable") != 0 || strcmp(now, "unreachable") == 0
		    : strcmp(peer.remoteState, "running") != 0 && strcmp(peer.remoteState, "idle") != 0 &&
			      strcmp(peer.remoteState, "waiting") != 0)
		return true;
	if (task_read(u->engine, peer.taskId, &t, &e) != 0 || task_status_ended(t.status))
		return true;
	jval_str(peer.remoteTaskId, remote, sizeof remote);
	/* The peer's last status stays as reported. */
	EMIT(channel_peer_task_updated, u->tx, peer_scope(&t.d, u->channel_id, NULL), .remoteTaskId = remote,
	     .remoteStatus = status, .remoteState = now);
	json_auto_t *mapping = mapping_of(u->channel_id, t.d.peer, NULL, now);
	updated_fact(&t.d, u->tx, NULL, NULL, mapping);
	return true;
}

void peer_tasks_channel(struct engine *engine, const char *channel_id, bool back, struct transaction *tx)
{
	struct channel_change u = { .engine = engine, .tx = tx, .channel_id = channel_id, .back = back };
	mem_auto char *prefix = mem_printf("%s/", channel_id);
	struct err e = ERR_INIT;

	if (store_model_scan_speculative(engine->o.store, VIEW_PEER_TASK, prefix, check_peer, &u, &e) < 0)
		log_error("list the tasks of channel %s: %s", channel_id, e.message);
}

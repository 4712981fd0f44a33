/*
 * What retention removes with a session: every document about it or about anything that belongs to it. They are found
 * by following the lists from the session down (the table below) and are written into session.expired, so that the
 * projection removes exactly these: it cannot search, and projecting the log again must give the same documents.
 *
 * A session is removed as a whole or not at all. Anything that is still active keeps it.
 */

#include "runtime/view/projections.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/strmap.h"
#include "runtime/store/store.h"
#include "runtime/view/view_evidence.h"

#include <string.h>

/* What owns documents: the search starts with one session and follows the members of its lists. */
enum {
	OF_SESSION = 1,
	OF_THREAD,
	OF_TURN,
	OF_PROCESS,
	OF_OUTPUT,
	OF_CALL,
	OF_ACTION,
	OF_CHANNEL,
	OF_SUBAGENT,
	OF_SANDBOX,
	OF_TASK,
	OF_INTERNAL_TASK, /* no other task can depend on it */
	OF_JOB,
	OF_EVIDENCE,
	OF_TRIAL
};

enum form {
	DOCUMENT, /* key: the owner's id */
	ALIVE,    /* likewise; exists only while the owner is active */
	LIST,     /* keys: "<owner>/…" */
	OPEN,     /* likewise; exists only while the owner is active */
	NAMED,    /* key: "<word>/<owner>" */
};

static const struct {
	unsigned owner;
	uint8_t kind;
	enum form form;
	unsigned member;  /* LIST: what the last part of the key names, removed as well; 0 = nothing */
	const char *word; /* LIST: keys "<owner>/<word>/…"; NULL = all */
} rows[] = {
	{ OF_SESSION, VIEW_SESSION, DOCUMENT },
	{ OF_SESSION, VIEW_SESSION_THREAD, LIST, OF_THREAD },
	{ OF_SESSION, VIEW_SESSION_PROCESS, LIST, OF_PROCESS },
	{ OF_SESSION, VIEW_SESSION_CHANNEL, LIST, OF_CHANNEL },
	{ OF_SESSION, VIEW_SESSION_SUBAGENT, LIST, OF_SUBAGENT },
	{ OF_SESSION, VIEW_SESSION_SANDBOX, LIST, OF_SANDBOX },
	{ OF_SESSION, VIEW_SESSION_TASK, LIST, OF_TASK },
	{ OF_SESSION, VIEW_INTERNAL_TASK, LIST, OF_INTERNAL_TASK },
	{ OF_SESSION, VIEW_SESSION_JOB, LIST, OF_JOB },
	{ OF_SESSION, VIEW_SESSION_GRANT, LIST },
	{ OF_SESSION, VIEW_SESSION_TRACE, LIST },
	{ OF_SESSION, VIEW_MODEL_REQUEST, LIST },
	{ OF_SESSION, VIEW_EVIDENCE_CONTENT, LIST },
	{ OF_SESSION, VIEW_COMPARISON, LIST },
	{ OF_SESSION, VIEW_BENCHMARK_KNOWN, LIST, 0, "d" },
	{ OF_SESSION, VIEW_BENCHMARK_KNOWN, LIST, 0, "c" },
	{ OF_SESSION, VIEW_BENCHMARK_KNOWN, LIST, OF_TRIAL, "t" },
	{ OF_SESSION, VIEW_ARTIFACT, LIST },
	{ OF_SESSION, VIEW_OWNER_EVIDENCE, LIST, OF_EVIDENCE },
	{ OF_SESSION, VIEW_BLOCKED_TASK, OPEN },
	{ OF_SESSION, VIEW_TASK_COUNT, NAMED, 0, "s" },
	{ OF_SESSION, VIEW_ROUTING, DOCUMENT },
	{ OF_SESSION, VIEW_COST, NAMED, 0, "session" },
	{ OF_THREAD, VIEW_THREAD, DOCUMENT },
	{ OF_THREAD, VIEW_QUEUE, ALIVE },
	{ OF_THREAD, VIEW_ROUTING, DOCUMENT },
	{ OF_THREAD, VIEW_HISTORY, DOCUMENT },
	{ OF_THREAD, VIEW_OPEN_HISTORY, ALIVE },
	{ OF_THREAD, VIEW_THREAD_TURN, LIST, OF_TURN },
	{ OF_THREAD, VIEW_THREAD_ACTION, LIST, OF_ACTION },
	{ OF_THREAD, VIEW_THREAD_SUBAGENT, LIST, OF_SUBAGENT },
	{ OF_THREAD, VIEW_THREAD_TASK, LIST, OF_TASK },
	{ OF_THREAD, VIEW_ROLLED_BACK, LIST },
	{ OF_THREAD, VIEW_OWNER_EVIDENCE, LIST, OF_EVIDENCE },
	{ OF_THREAD, VIEW_OPEN_ACTION, OPEN },
	{ OF_THREAD, VIEW_TASK_COUNT, NAMED, 0, "t" },
	{ OF_THREAD, VIEW_COST, NAMED, 0, "thread" },
	{ OF_TURN, VIEW_TURN, DOCUMENT },
	{ OF_TURN, VIEW_LIVE_TURN, ALIVE },
	{ OF_TURN, VIEW_ROUTING, DOCUMENT },
	{ OF_TURN, VIEW_TURN_STEP, LIST },
	{ OF_TURN, VIEW_TURN_PROCESS, LIST, OF_PROCESS },
	{ OF_TURN, VIEW_TURN_TOOL_CALL, LIST, OF_CALL },
	{ OF_TURN, VIEW_TURN_OPEN_REQUEST, LIST }, /* of clients that never reported the end */
	{ OF_TURN, VIEW_TURN_REQUEST, LIST },
	{ OF_TURN, VIEW_OWNER_EVIDENCE, LIST, OF_EVIDENCE },
	{ OF_TURN, VIEW_TURN_OPEN_CALL, OPEN },
	{ OF_TURN, VIEW_TURN_OPEN_ACTION, OPEN },
	{ OF_TURN, VIEW_COST, NAMED, 0, "turn" },
	{ OF_PROCESS, VIEW_PROCESS, DOCUMENT },
	{ OF_PROCESS, VIEW_LIVE_PROCESS, ALIVE },
	{ OF_PROCESS, VIEW_COW_PROCESS, ALIVE },
	{ OF_PROCESS, VIEW_UNDO_PROCESS, ALIVE },
	{ OF_PROCESS, VIEW_HOOK, ALIVE },
	{ OF_PROCESS, VIEW_JOB_PROCESS, ALIVE },
	{ OF_PROCESS, VIEW_VIOLATION, DOCUMENT },
	{ OF_PROCESS, VIEW_PROCESS_DIFF, LIST, OF_OUTPUT },
	{ OF_OUTPUT, VIEW_OUTPUT, DOCUMENT },
	{ OF_OUTPUT, VIEW_PREVIEW, DOCUMENT },
	{ OF_CALL, VIEW_TOOL_CALL, DOCUMENT },
	{ OF_CALL, VIEW_LIVE_TOOL_CALL, ALIVE },
	{ OF_ACTION, VIEW_ACTION, DOCUMENT },
	{ OF_CHANNEL, VIEW_CHANNEL, DOCUMENT },
	{ OF_CHANNEL, VIEW_LIVE_CHANNEL, ALIVE },
	{ OF_CHANNEL, VIEW_PEER_TASK, LIST },
	{ OF_SUBAGENT, VIEW_SUBAGENT, DOCUMENT },
	{ OF_SUBAGENT, VIEW_LIVE_SUBAGENT, ALIVE },
	{ OF_SANDBOX, VIEW_SANDBOX, DOCUMENT },
	{ OF_SANDBOX, VIEW_LIVE_SANDBOX, ALIVE },
	{ OF_SANDBOX, VIEW_SANDBOX_PROCESS, LIST },
	{ OF_SANDBOX, VIEW_SANDBOX_RUNNING, OPEN },
	{ OF_TASK, VIEW_TASK, DOCUMENT },
	{ OF_TASK, VIEW_LIVE_TASK, ALIVE },
	{ OF_TASK, VIEW_TASK_SLOT, ALIVE },
	{ OF_TASK, VIEW_TASK_ATTEMPT, LIST },
	{ OF_TASK, VIEW_TASK_EDGE, LIST },
	{ OF_TASK, VIEW_TASK_PEER, LIST },
	{ OF_TASK, VIEW_TASK_SUBAGENT, LIST },
	{ OF_TASK, VIEW_TASK_JOB, LIST },
	{ OF_TASK, VIEW_OWNER_EVIDENCE, LIST, OF_EVIDENCE },
	{ OF_TASK, VIEW_TASK_ACTION, OPEN },
	{ OF_TASK, VIEW_COST, NAMED, 0, "task" },
	{ OF_INTERNAL_TASK, VIEW_TASK, DOCUMENT },
	{ OF_INTERNAL_TASK, VIEW_COST, NAMED, 0, "task" },
	{ OF_JOB, VIEW_JOB, DOCUMENT },
	{ OF_JOB, VIEW_LIVE_JOB, ALIVE },
	{ OF_JOB, VIEW_JOB_ITEM, LIST },
	{ OF_JOB, VIEW_JOB_RUNNING, OPEN },
	{ OF_JOB, VIEW_JOB_AGAIN, OPEN },
	{ OF_EVIDENCE, VIEW_EVIDENCE, DOCUMENT },
	{ OF_TRIAL, VIEW_TRIAL, DOCUMENT }, /* and two entries of lists (visit_trial) */
};

/* ---- search ---- */

struct owner {
	unsigned what;
	char id[ID_SIZE];
};

struct view_expiry {
	struct store *store;
	char session_id[ID_SIZE];
	struct owner *owners; /* visited, and to visit */
	size_t count, cap, visited;
	struct strmap seen;
	struct buf keys;  /* NUL-terminated keys of one scan */
	struct buf texts; /* those documents of the same scan that name outputs */
	bool alive;
};

/* Queues something whose documents are to be found; each owner once. */
static void add_owner(struct view_expiry *s, unsigned what, const char *id)
{
	mem_auto char *key = mem_printf("%u/%s", what, id);

	if (!*id || strlen(id) >= ID_SIZE || strmap_put(&s->seen, key, s))
		return;
	if (s->count == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 32;
		s->owners = mem_realloc(s->owners, s->cap * sizeof *s->owners);
	}
	s->owners[s->count].what = what;
	id_copy(s->owners[s->count++].id, id);
}

static const char output_mark[] = "\"out_"; /* where a document names an output */

/* Keeps the text too if it names an output. */
static bool append_entry(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct view_expiry *s = ctx;

	buf_append(&s->keys, id, id_len);
	buf_byte(&s->keys, '\0');
	if (memmem(json, len, output_mark, strlen(output_mark)))
		buf_append(&s->texts, json, len);
	return true;
}

/* Outputs that a document names, if they belong to this session. */
static int add_outputs(struct view_expiry *s, const char *json, struct err *e)
{
	/*
	 * Refs occur in many members of many documents. A search of the text finds them all, and the session id of each
	 * output is checked afterwards, so a text that only looks like a ref does no harm.
	 */
	buf_auto struct buf text = BUF_INIT;

	for (const char *at = json; (at = strstr(at, output_mark));) {
		const char *end = strchr(++at, '"');
		char ref[ID_SIZE];
		struct output_doc d;
		if (!end || (size_t)(end - at) >= sizeof ref)
			continue;
		snprintf(ref, sizeof ref, "%.*s", (int)(end - at), at);
		int r = view_read(s->store, &output_schema, ref, &text, &d, e);
		if (r < 0)
			return -1;
		if (r == 0 && strcmp(d.sessionId, s->session_id) == 0)
			add_owner(s, OF_OUTPUT, ref);
	}
	return 0;
}

typedef bool (*found_fn)(void *ctx, uint8_t kind, const char *id);

/* A document that marks its owner as active ends the search: the session stays. */
static int visit_document(struct view_expiry *s, uint8_t kind, enum form form, const char *key, found_fn fn, void *ctx,
			  struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	int r = store_model_get(s->store, kind, key, &text, e);

	if (r < 0)
		return -1;
	s->alive |= r == 0 && form == ALIVE;
	if (r || s->alive)
		return 0;
	fn(ctx, kind, key);
	return add_outputs(s, buf_cstr(&text), e);
}

/* Passes on every entry of a list and queues the members and outputs that it names. */
static int visit_list(struct view_expiry *s, size_t row, const char *owner, found_fn fn, void *ctx, struct err *e)
{
	const char *word = rows[row].word;
	mem_auto char *prefix = mem_printf("%s/%s%s", owner, word ? word : "", word ? "/" : "");

	buf_reset(&s->keys);
	buf_reset(&s->texts);
	if (store_model_scan(s->store, rows[row].kind, prefix, NULL, false, append_entry, s, e) < 0)
		return -1;
	s->alive |= s->keys.len && rows[row].form == OPEN;
	for (const char *key = s->keys.data; key && key < s->keys.data + s->keys.len; key += strlen(key) + 1) {
		fn(ctx, rows[row].kind, key);
		if (rows[row].member)
			add_owner(s, rows[row].member, strrchr(key, '/') + 1);
	}
	return add_outputs(s, buf_cstr(&s->texts), e);
}

/* Evidence about a task may be of another session, which keeps it. 1: it is, or there is none. */
static int check_evidence(struct view_expiry *s, const char *id, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct evidence_doc d;
	int r = view_read(s->store, &evidence_schema, id, &text, &d, e);

	return r ? r : strcmp(d.sessionId, s->session_id) != 0;
}

/* A trial's entries in lists that begin with what its document names. */
static int visit_trial(struct view_expiry *s, const char *id, found_fn fn, void *ctx, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	char key[VIEW_TRIAL_KEY];
	struct trial_doc d;
	int r = view_read(s->store, &trial_schema, id, &text, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	view_trial_key((uint32_t)d.uid, d.datasetId, d.configurationId, d.trialId, key);
	fn(ctx, VIEW_CONFIGURATION_TRIAL, key);
	snprintf(key, sizeof key, "%s/%s", d.runId, d.trialId);
	fn(ctx, VIEW_RUN_TRIAL, key);
	return 0;
}

/* Applies all rows of the table to one owner. */
static int visit_owner(struct view_expiry *s, const struct owner *o, found_fn fn, void *ctx, struct err *e)
{
	char key[ID_SIZE + 16];
	int skip = o->what == OF_EVIDENCE ? check_evidence(s, o->id, e) : 0;

	if (skip)
		return skip < 0 ? -1 : 0;
	for (size_t i = 0; i < countof(rows) && !s->alive; i++) {
		if (rows[i].owner != o->what)
			continue;
		snprintf(key, sizeof key, "%s%s%s", rows[i].word ? rows[i].word : "", rows[i].word ? "/" : "", o->id);
		int r = rows[i].form == LIST || rows[i].form == OPEN
				? visit_list(s, i, o->id, fn, ctx, e)
				: visit_document(s, rows[i].kind, rows[i].form, key, fn, ctx, e);
		if (r < 0)
			return -1;
	}
	return o->what == OF_TRIAL && !s->alive ? visit_trial(s, o->id, fn, ctx, e) : 0;
}

static bool stop_at_first(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	*(bool *)ctx = true;
	return false;
}

/* A live task may depend on one of these; only its own document says on which, so any live task keeps them. */
static int find_dependents(struct view_expiry *s, struct err *e)
{
	bool tasks = false;

	for (size_t i = 0; i < s->count; i++)
		tasks |= s->owners[i].what == OF_TASK;
	return tasks ? store_model_scan(s->store, VIEW_LIVE_TASK, NULL, NULL, false, stop_at_first, &s->alive, e) : 0;
}

struct view_expiry *view_expiry_new(struct store *store, const char *session_id)
{
	struct view_expiry *s = mem_zalloc(1, sizeof *s);

	s->store = store;
	id_copy(s->session_id, session_id);
	add_owner(s, OF_SESSION, session_id);
	return s;
}

enum view_expiry_result view_expiry_step(struct view_expiry *s, uint64_t until_ns, found_fn fn, void *ctx,
					 struct err *e)
{
	store_snapshot_auto struct store *store = s->store;
	int r = 0;

	store_snapshot_begin(store);
	do {
		const struct owner o = s->owners[s->visited]; /* a copy: the array grows */
		r = visit_owner(s, &o, fn, ctx, e);
		s->visited++;
	} while (r == 0 && !s->alive && s->visited < s->count && clock_mono_ns() < until_ns);
	if (r == 0 && !s->alive && s->visited == s->count)
		r = find_dependents(s, e);
	return r < 0                   ? VIEW_EXPIRY_FAILED
	       : s->alive              ? VIEW_EXPIRY_ALIVE
	       : s->visited < s->count ? VIEW_EXPIRY_MORE
				       : VIEW_EXPIRY_DONE;
}

void view_expiry_free(struct view_expiry *s)
{
	if (!s)
		return;
	free(s->owners);
	strmap_done(&s->seen);
	buf_done(&s->keys);
	buf_done(&s->texts);
	free(s);
}

/* ---- the projection ---- */

/*
 * "<kind>/<key>": the event lists exactly what is deleted. Numbers of kinds are therefore part of the log and must
 * not be reused.
 */
int view_session_on_expired(struct models *m, const struct event_view *ev, struct err *e)
{
	for (struct jiter it = jiter_on(event_payload_member(ev, "documents")); jiter_next(&it);) {
		mem_auto char *text = it.value.type == JT_STRING ? jval_strdup(it.value) : NULL;
		char *slash = text ? strchr(text, '/') : NULL;
		unsigned long kind = slash ? strtoul(text, NULL, 10) : 0;

		if (kind && kind <= UINT8_MAX && models_del(m, (uint8_t)kind, slash + 1, strlen(slash + 1), e) < 0)
			return -1;
		if (kind == VIEW_OUTPUT && models_forget_output(m, slash + 1, e) < 0)
			return -1;
	}
	return 0;
}

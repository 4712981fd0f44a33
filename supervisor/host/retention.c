#include "supervisor/host/retention.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"
#include "runtime/view/view_channel.h"
#include "runtime/view/view_documents.h"
#include "runtime/view/view_ids.h"
#include "supervisor/host/config.h"

/*
 * A run has three phases, in this order: outputs of processes that ended before the floor, sessions without activity
 * since, and the events themselves. Each phase works in small batches, and each batch commits the removal together with
 * the event that records it; the next one starts when it is durable. There is no state on disk about a run: after a
 * crash the next one finds less to remove and continues with that.
 */

#define PROCESSES_AT_ONCE 16u /* keeps transactions small */
#define SESSIONS_AT_ONCE 16u
#define AT_ONCE_NS (3ull * 1000 * 1000) /* the event loop waits meanwhile */
#define DOCUMENTS_AN_EVENT 200u
#define DAY_US (24ull * 60 * 60 * 1000000)

struct retention {
	struct retention_queue *queue;
	struct retention *next;
	struct store *store;
	uint64_t floor, idem_before_us;
	uint64_t quiet_since;     /* a session with an event after this one stays */
	bool all;                 /* except the newest event: retention's own events are removed too */
	char after[VIEW_KEY_MAX]; /* processes, later sessions, up to this one were checked */
	retention_done_fn done;
	void *ctx;
	struct retention_result result;
};

/* ---- events about the read models, in the system session ---- */

/* `payload` is complete. A store without a system session is not running yet: nothing is written then. */
static void system_fact(struct store *s, enum event_type type, const struct buf *payload)
{
	char session[72], thread[72], turn[72];
	struct view_session_brief brief;
	struct err e = ERR_INIT;

	if (view_system_ids(s, session, thread, turn, &e) != 0 ||
	    view_session_brief(s, VIEW_ANY_UID, session, &brief, &e) != 0)
		return;
	struct event_draft d = {
		.type = type, .uid = brief.uid, .payload = payload->data, .payload_len = payload->len
	};
	d.ids[ID_SESSION] = session;
	d.ids[ID_THREAD] = thread;
	struct store_batch *b = store_batch_new(s);
	if (store_batch_event(b, &d, &e) < 0) {
		log_error("%s: %s", event_info(type)->name, e.message);
		store_batch_free(b);
		return;
	}
	store_submit(s, b, STORE_MUST, NULL, NULL);
}

/* Retention keeps the models as of this sequence; all events before it are removed. */
static void record_stored(struct store *s, uint64_t at_sequence)
{
	buf_auto struct buf payload = BUF_INIT;
	struct jw w = jw_on(&payload);

	jw_obj(&w);
	jw_kstr(&w, "kind", "read_models");
	jw_kuint(&w, "atSequence", at_sequence);
	jw_kstr(&w, "recoveryMode", "snapshot_then_log");
	jw_obj_end(&w);
	system_fact(s, EVENT_SNAPSHOT_UPDATED, &payload);
}

void retention_record_repaired(struct store *s, const struct store_verdict *v)
{
	buf_auto struct buf payload = BUF_INIT;
	struct jw w = jw_on(&payload);

	jw_obj(&w);
	jw_kstr(&w, "kind", "read_models");
	jw_karr(&w, "stale");
	for (size_t i = 0; i < v->nproblems && i < countof(v->problems); i++)
		jw_str(&w, v->problems[i].what);
	jw_arr_end(&w);
	jw_obj_end(&w);
	system_fact(s, EVENT_SNAPSHOT_REPAIRED, &payload);
}

/* ---- a run ---- */

static void begin_run(struct retention *r);

/* The callback gets the result so far, also after a failure. Then the next run begins. */
static void finish_run(struct retention *r, const struct err *e)
{
	struct retention *next = r->queue->first = r->next;

	r->done(r->ctx, &r->result, e);
	free(r);
	if (next)
		begin_run(next);
}

static void on_pruned(void *ctx, uint64_t removed, const struct err *e)
{
	struct retention *r = ctx;

	r->result.events = removed;
	if (removed)
		record_stored(r->store, store_first_sequence(r->store));
	finish_run(r, e && e->code ? e : NULL);
}

/* ---- one batch of outputs ---- */

struct expiry {
	struct retention *retention;
	struct store_batch *batch;
	unsigned outputs;
	uint64_t bytes;
	struct err err;
};

static const char *or_null(const char *id) { return *id ? id : NULL; }

/* The event and the removal are in the same batch: neither happens without the other. */
static bool on_expirable(void *ctx, const struct view_expirable *x)
{
	struct expiry *ex = ctx;
	buf_auto struct buf payload = BUF_INIT;
	struct event_draft d = { .type = EVENT_OUTPUT_EXPIRED, .uid = x->uid, .real_us = clock_real_us() };
	struct jw w = jw_on(&payload);
	char at[CLOCK_TEXT_MAX];

	clock_format(d.real_us, at);
	jw_obj(&w);
	jw_kstr(&w, "outputRef", x->output_ref);
	jw_kuint(&w, "bytes", x->bytes);
	jw_kstr(&w, "policy", "retention");
	jw_kstr(&w, "expiredAt", at);
	jw_obj_end(&w);
	d.ids[ID_SESSION] = x->session_id;
	d.ids[ID_THREAD] = or_null(x->thread_id);
	d.ids[ID_TURN] = or_null(x->turn_id);
	d.ids[ID_TASK] = or_null(x->task_id);
	d.ids[ID_PROCESS] = x->process_id;
	d.ids[ID_OUTPUT] = x->output_ref;
	d.payload = payload.data;
	d.payload_len = payload.len;
	if (store_batch_event(ex->batch, &d, &ex->err) < 0)
		return false;
	store_batch_expire_output(ex->batch, x->output_ref);
	ex->outputs++;
	ex->bytes += x->bytes;
	return true;
}

static void expire_next_outputs(struct retention *r);

static void on_expired(void *ctx, const struct store_result *result)
{
	struct retention *r = ctx;

	if (result->status < 0)
		finish_run(r, result->err);
	else
		expire_next_outputs(r);
}

/* ---- inactive sessions ---- */

struct leaving {
	struct store *store;
	struct store_batch *batch;
	const struct session_doc *session;
	struct buf *documents; /* "<kind>/<id>", each with its NUL */
	struct err err;
};

static bool take_document(void *ctx, uint8_t kind, const char *id)
{
	buf_printf(ctx, "%u/%s", kind, id);
	buf_byte(ctx, '\0');
	return true;
}

/* Retention's own events about a session do not count as activity. */
static bool is_activity(void *ctx, const struct event_view *ev)
{
	*(bool *)ctx = ev->type != EVENT_OUTPUT_EXPIRED && ev->type != EVENT_SESSION_EXPIRED;
	return !*(bool *)ctx;
}

/* An event that is submitted and not dispatched yet is activity, too: documents may already show its effect. */
static int is_quiet(const struct retention *r, const char *session_id, bool *ret, struct err *e)
{
	const struct store_query q = { .after = r->quiet_since, .index = ID_SESSION, .id = session_id };
	bool active = store_undispatched(r->store, ID_SESSION, session_id);

	if (!active && store_events(r->store, &q, is_activity, &active, e) < 0)
		return -1;
	*ret = !active;
	return 0;
}

/* One event for as many documents as fit; returns where the next one starts. */
static const char *expired_fact(struct leaving *l, const char *at, const char *end)
{
	buf_auto struct buf payload = BUF_INIT;
	struct event_draft d = { .type = EVENT_SESSION_EXPIRED,
				 .uid = (uint32_t)l->session->uid,
				 .real_us = clock_real_us() };
	struct jw w = jw_on(&payload);
	char now[CLOCK_TEXT_MAX];

	clock_format(d.real_us, now);
	jw_obj(&w);
	jw_kstr(&w, "policy", "retention");
	jw_kstr(&w, "expiredAt", now);
	jw_karr(&w, "documents");
	for (unsigned n = 0; n < DOCUMENTS_AN_EVENT && at < end; n++, at += strlen(at) + 1)
		jw_str(&w, at);
	jw_arr_end(&w);
	jw_obj_end(&w);
	d.ids[ID_SESSION] = l->session->sessionId;
	d.payload = payload.data;
	d.payload_len = payload.len;
	(void)store_batch_event(l->batch, &d, &l->err);
	return at;
}

/* What is stored under a document's id, but not in the read models. */
static void expire_with(struct store_batch *batch, unsigned long kind, const char *id)
{
	static const struct {
		enum view_kind kind;
		const char *meta;
	} values[] = {
		{ VIEW_CHANNEL, CHANNEL_ACK_KEY },
		{ VIEW_ACTION, CHANNEL_ACTION_KEY },
	};

	if (kind == VIEW_OUTPUT) /* including those without a process */
		store_batch_expire_output(batch, id);
	for (size_t i = 0; i < countof(values); i++) {
		mem_auto char *name = mem_printf("%s%s", values[i].meta, id);

		if (values[i].kind == kind)
			store_batch_meta(batch, name, NULL, 0);
	}
}

/* All of it is removed in the same batch as the session's documents. */
static void expire_session(struct leaving *l)
{
	const char *at = l->documents->data, *end = at + l->documents->len;

	for (const char *s = at; s < end; s += strlen(s) + 1)
		expire_with(l->batch, strtoul(s, NULL, 10), strchr(s, '/') + 1);
	while (at < end && !l->err.code)
		at = expired_fact(l, at, end);
}

/* 1 = it expires, 0 = it stays. */
static int check_session(struct retention *r, const char *session_id, struct store_batch *batch, struct err *e)
{
	buf_auto struct buf text = BUF_INIT, documents = BUF_INIT;
	struct session_doc d;
	bool quiet = false;

	int known = view_read(r->store, &session_schema, session_id, &text, &d, e);
	if (known != 0 || strcmp(d.kind, "system") == 0)
		return known < 0 ? -1 : 0;
	if (is_quiet(r, session_id, &quiet, e) < 0)
		return -1;
	int alive = quiet ? view_session_documents(r->store, session_id, take_document, &documents, e) : 1;
	if (alive)
		return alive < 0 ? -1 : 0;
	struct leaving l = { .store = r->store, .batch = batch, .session = &d, .documents = &documents };
	expire_session(&l);
	if (l.err.code) {
		*e = l.err;
		return -1;
	}
	return 1;
}

static void expire_next_sessions(struct retention *r);

static void on_sessions_expired(void *ctx, const struct store_result *result)
{
	struct retention *r = ctx;

	if (result->status < 0)
		finish_run(r, result->err);
	else
		expire_next_sessions(r);
}

/* Some of them at a time; after the last one the events are pruned. */
static void expire_next_sessions(struct retention *r)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	const struct view_ids_query q = { .kind = VIEW_SESSION, .after = or_null(r->after), .max = SESSIONS_AT_ONCE };
	struct store_batch *batch = store_batch_new(r->store);
	struct err e = ERR_INIT;
	const uint64_t until = clock_mono_ns() + AT_ONCE_NS;
	int more = view_ids(r->store, &q, &ids, r->after, &e), went = 0;
	size_t checked = 0;

	while (more >= 0 && went >= 0 && checked < ids.n && (checked == 0 || clock_mono_ns() < until)) {
		went = check_session(r, ids.id[checked++], batch, &e);
		r->result.sessions += went > 0;
		if (went < 0 && e.code == ERR_CORRUPT) { /* the store has reported it; the session stays */
			e = ERR_INIT;
			went = 0;
		}
	}
	if (checked < ids.n && checked > 0)
		snprintf(r->after, sizeof(r->after), "%s", ids.id[checked - 1]);
	if (more < 0 || went < 0) {
		store_batch_free(batch);
		err_wrap(&e, "expire sessions");
		finish_run(r, &e);
	} else if (ids.n) {
		store_submit(r->store, batch, STORE_MUST, on_sessions_expired, r);
	} else {
		store_batch_free(batch);
		uint64_t last = store_last_sequence(r->store);
		store_prune(r->store, r->all && last > r->floor ? last : r->floor, r->idem_before_us, on_pruned, r);
	}
}

/* Expires some outputs; when none are left, sessions, and then the events. */
static void expire_next_outputs(struct retention *r)
{
	struct expiry ex = { .retention = r, .batch = store_batch_new(r->store) };
	char last[VIEW_KEY_MAX] = "";
	int more = view_expirable_outputs(r->store, r->floor, or_null(r->after), PROCESSES_AT_ONCE, on_expirable, &ex,
					  last, &ex.err);

	if (more < 0 || ex.err.code) {
		store_batch_free(ex.batch);
		err_wrap(&ex.err, "expire outputs");
		finish_run(r, &ex.err);
		return;
	}
	if (!ex.outputs)
		memcpy(r->after, last, sizeof last); /* damaged ones, which are skipped */
	if (!ex.outputs && !more) {
		store_batch_free(ex.batch);
		r->after[0] = '\0';
		expire_next_sessions(r);
		return;
	}
	r->result.outputs += ex.outputs;
	r->result.bytes += ex.bytes;
	/* Removal must work on a full disk too. */
	store_submit(r->store, ex.batch, STORE_MUST, on_expired, r);
}

/* What was submitted before is dispatched. */
static void on_begun(void *ctx, const struct store_result *result)
{
	struct retention *r = ctx;
	uint64_t first = store_first_sequence(r->store), kept_from = r->floor > first ? r->floor : first;

	/* A new store has no first event yet: then every event counts as activity. */
	r->quiet_since = r->all ? store_last_sequence(r->store) : kept_from ? kept_from - 1 : 0;
	expire_next_outputs(r);
}

/* An empty batch first: when it is durable, everything that was submitted before is visible to the checks. */
static void begin_run(struct retention *r)
{
	store_submit(r->store, store_batch_new(r->store), STORE_NOW, on_begun, r);
}

void retention_run(struct retention_queue *q, struct store *s, uint64_t floor, uint64_t idem_before_us,
		   retention_done_fn done, void *ctx)
{
	struct retention *r = mem_zalloc(1, sizeof(*r)), **end = &q->first;

	r->queue = q;
	r->store = s;
	r->floor = floor;
	r->all = floor > store_last_sequence(s);
	r->idem_before_us = idem_before_us;
	r->done = done;
	r->ctx = ctx;
	while (*end)
		end = &(*end)->next;
	*end = r;
	if (q->first == r)
		begin_run(r);
}

/* ---- configuration ---- */

static uint64_t before_days(uint64_t now_us, uint64_t days)
{
	return now_us > days * DAY_US ? now_us - days * DAY_US : 0;
}

/* The stricter of the two limits applies. */
int retention_floor(struct store *s, const struct config *c, uint64_t now_us, uint64_t *ret, struct err *e)
{
	uint64_t last = store_last_sequence(s), floor = 0, by_age = 0;

	if (c->retain_days && store_sequence_at(s, before_days(now_us, c->retain_days), &by_age, e) < 0)
		return err_wrap(e, "find what is older than %llu days", (unsigned long long)c->retain_days);
	if (c->retain_events && last > c->retain_events)
		floor = last - c->retain_events + 1;
	if (by_age > floor)
		floor = by_age;
	*ret = floor > store_first_sequence(s) ? floor : 0;
	return 0;
}

uint64_t retention_idem_before(const struct config *c, uint64_t now_us)
{
	return before_days(now_us, c->idem_keep_days);
}

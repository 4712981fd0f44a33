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
	uint64_t policies_after;  /* policy.changed up to this one were checked */
	struct leaving *leaving;  /* the session whose documents are being collected, or NULL */
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

/*
 * A session that may have very many documents is searched and its events are encoded in steps. It is removed as a
 * whole, if it has not changed until then.
 */
struct leaving {
	char session_id[ID_SIZE];
	uint32_t uid;
	struct view_expiry *search;
	struct buf documents; /* "<kind>/<id>", each with its NUL */
	size_t encoded;       /* bytes of them that are in the batch */
	struct store_batch *batch;
};

static void leaving_free(struct leaving *l)
{
	if (!l)
		return;
	view_expiry_free(l->search);
	buf_done(&l->documents);
	store_batch_free(l->batch);
	free(l);
}

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

/* One event for as many documents as fit, and in the same batch what is stored with them. */
static int encode_next(struct leaving *l, struct err *e)
{
	buf_auto struct buf payload = BUF_INIT;
	struct event_draft d = { .type = EVENT_SESSION_EXPIRED, .uid = l->uid, .real_us = clock_real_us() };
	struct jw w = jw_on(&payload);
	char now[CLOCK_TEXT_MAX];

	clock_format(d.real_us, now);
	jw_obj(&w);
	jw_kstr(&w, "policy", "retention");
	jw_kstr(&w, "expiredAt", now);
	jw_karr(&w, "documents");
	for (unsigned n = 0; n < DOCUMENTS_AN_EVENT && l->encoded < l->documents.len; n++) {
		const char *at = l->documents.data + l->encoded;
		jw_str(&w, at);
		expire_with(l->batch, strtoul(at, NULL, 10), strchr(at, '/') + 1);
		l->encoded += strlen(at) + 1;
	}
	jw_arr_end(&w);
	jw_obj_end(&w);
	d.ids[ID_SESSION] = l->session_id;
	d.payload = payload.data;
	d.payload_len = payload.len;
	return store_batch_event(l->batch, &d, e);
}

/* NULL: it stays, or *e says why it could not be read. */
static struct leaving *leaving_new(struct retention *r, const char *session_id, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct session_doc d;
	bool quiet = false;

	if (view_read(r->store, &session_schema, session_id, &text, &d, e) != 0 || strcmp(d.kind, "system") == 0 ||
	    is_quiet(r, session_id, &quiet, e) < 0 || !quiet)
		return NULL;
	struct leaving *l = mem_zalloc(1, sizeof *l);
	id_copy(l->session_id, session_id);
	l->uid = (uint32_t)d.uid;
	l->search = view_expiry_new(r->store, session_id);
	l->batch = store_batch_new(r->store);
	return l;
}

/* 2 = call again, 1 = its batch is complete, 0 = the session stays, −1. */
static int leaving_step(struct retention *r, struct leaving *l, uint64_t until_ns, struct err *e)
{
	enum view_expiry_result found = VIEW_EXPIRY_DONE;
	bool quiet = false;

	if (l->search) {
		found = view_expiry_step(l->search, until_ns, take_document, &l->documents, e);
		if (found != VIEW_EXPIRY_DONE)
			return found == VIEW_EXPIRY_MORE ? 2 : found == VIEW_EXPIRY_ALIVE ? 0 : -1;
		view_expiry_free(l->search);
		l->search = NULL;
	}
	do {
		if (encode_next(l, e) < 0)
			return -1;
	} while (l->encoded < l->documents.len && clock_mono_ns() < until_ns);
	if (l->encoded < l->documents.len)
		return 2;
	if (is_quiet(r, l->session_id, &quiet, e) < 0)
		return -1;
	return quiet;
}

static void expire_next_sessions(struct retention *r);

static void on_sessions_expired(void *ctx, const struct store_result *result)
{
	struct retention *r = ctx;

	if (result->status >= 0)
		return expire_next_sessions(r);
	leaving_free(r->leaving);
	finish_run(r, result->err);
}

/* ---- policy files ---- */

/*
 * The engine keeps the last recorded hash of each policy file, of as many folders as there are. It goes with the
 * policy.changed that recorded it; a file that is read again later is recorded again.
 */
struct forgetting {
	struct retention *retention;
	struct store_batch *batch;
	uint64_t until_ns;
	bool more;
};

static bool forget_policy(void *ctx, const struct event_view *ev)
{
	struct forgetting *f = ctx;
	struct jval hash = event_payload_member(ev, "newHash"), file = event_payload_member(ev, "file");
	buf_auto struct buf kept = BUF_INIT;
	struct err e = ERR_INIT;

	f->retention->policies_after = ev->sequence;
	if (ev->type == EVENT_POLICY_CHANGED && file.type == JT_STRING) {
		mem_auto char *layer = jval_strdup(event_payload_member(ev, "layer")), *name = jval_strdup(file);
		mem_auto char *key = view_policy_file_key(layer ? layer : "", name,
							  (uint32_t)jval_uint(event_payload_member(ev, "uid"), 0));

		if (store_meta_get(f->retention->store, key, &kept, &e) == 0 && jval_is_str(hash, buf_cstr(&kept)))
			store_batch_meta(f->batch, key, NULL, 0);
	}
	f->more = clock_mono_ns() >= f->until_ns;
	return !f->more;
}

static void on_policies_forgotten(void *ctx, const struct store_result *result);

/* In steps; then the events are pruned. */
static void forget_next_policies(struct retention *r)
{
	char session[72], thread[72], turn[72];
	struct forgetting f = { .retention = r, .until_ns = clock_mono_ns() + AT_ONCE_NS };
	struct err e = ERR_INIT;

	if (r->floor && view_system_ids(r->store, session, thread, turn, &e) == 0) {
		const struct store_query q = {
			.after = r->policies_after, .before = r->floor, .index = ID_SESSION, .id = session, .kept = true
		};

		f.batch = store_batch_new(r->store);
		/* A damaged event was reported by the store; what follows it is forgotten by the next run. */
		(void)store_events(r->store, &q, forget_policy, &f, &e);
		store_submit(r->store, f.batch, STORE_MUST, f.more ? on_policies_forgotten : NULL, r);
	}
	if (!f.more)
		store_prune(r->store, r->floor, r->idem_before_us, on_pruned, r);
}

static void on_policies_forgotten(void *ctx, const struct store_result *result)
{
	if (result->status < 0)
		finish_run(ctx, result->err);
	else
		forget_next_policies(ctx);
}

/* ---- the sessions in turn ---- */

/* The next session that may leave. NULL: none of those that were checked; *ret_last: there are no others. */
static struct leaving *next_session(struct retention *r, uint64_t until_ns, bool *ret_last, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	const struct view_ids_query q = { .kind = VIEW_SESSION, .after = or_null(r->after), .max = SESSIONS_AT_ONCE };
	struct leaving *l = NULL;

	const int more = view_ids(r->store, &q, &ids, NULL, e);
	const bool damaged = more < 0 && e->code == ERR_CORRUPT;
	*ret_last = !ids.n && (more >= 0 || damaged); /* what follows a damaged document stays */
	if (damaged && ids.n)
		*e = ERR_INIT; /* first the sessions before it */
	for (size_t i = 0; i < ids.n && !l && !e->code && (!i || clock_mono_ns() < until_ns); i++) {
		snprintf(r->after, sizeof r->after, "%s", ids.id[i]);
		l = leaving_new(r, ids.id[i], e);
	}
	return l;
}

/* A step of one session; 2 = it needs more. A session that leaves is submitted. */
static int expire_step(struct retention *r, uint64_t until_ns, bool *ret_last, struct err *e)
{
	if (!r->leaving)
		r->leaving = next_session(r, until_ns, ret_last, e);
	int step = r->leaving ? leaving_step(r, r->leaving, until_ns, e) : e->code ? -1 : 0;

	if (step == 2)
		return step;
	if (step == 1) {
		store_submit(r->store, r->leaving->batch, STORE_MUST, NULL, NULL);
		r->leaving->batch = NULL;
		r->result.sessions++;
	}
	leaving_free(r->leaving);
	r->leaving = NULL;
	if (step < 0 && e->code == ERR_CORRUPT) { /* the store has reported it; the session stays */
		*e = ERR_INIT;
		step = 0;
	}
	return step;
}

/* As many as there is time for; then others have their turn. After the last session the events are pruned. */
static void expire_next_sessions(struct retention *r)
{
	const uint64_t until = clock_mono_ns() + AT_ONCE_NS, before = r->result.sessions;
	struct err e = ERR_INIT;
	bool last = false;
	int step;

	do {
		step = expire_step(r, until, &last, &e);
	} while (step >= 0 && !last && clock_mono_ns() < until);
	if (step < 0) {
		err_wrap(&e, "expire sessions");
		finish_run(r, &e);
	} else if (!last || r->result.sessions > before) { /* their events are pruned, too */
		store_submit(r->store, store_batch_new(r->store), STORE_MUST, on_sessions_expired, r);
	} else {
		const uint64_t newest = store_last_sequence(r->store);
		if (r->all && newest > r->floor)
			r->floor = newest;
		forget_next_policies(r);
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

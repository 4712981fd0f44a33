#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "supervisor/control/call.h"
#include "supervisor/control/control_private.h"
#include "supervisor/host/config.h"
#include "supervisor/host/cow_changes.h"
#include "supervisor/host/retention.h"

#include <errno.h>

/*
 * Maintenance of the store. It runs on a thread of the store and may outlast its call, and even the control socket:
 * `call` is NULL then, and the result is dropped. The callbacks run on the loop.
 */
struct upkeep {
	struct call *call; /* NULL once it was dropped (call_watch) */
	struct store *store;
	struct store_verdict found; /* rebuild: the problems found before it */
};

static struct upkeep *upkeep_new(struct call *c)
{
	struct upkeep *u = mem_zalloc(1, sizeof(*u));

	u->call = c;
	u->store = call_store(c);
	call_watch(c, &u->call);
	return u;
}

/* Replies with the complete object in `members`, or with the error, and frees the upkeep. */
static void upkeep_answer(struct upkeep *u, struct buf *members, const struct err *e)
{
	struct call *c = u->call;

	if (c) {
		call_watch(c, NULL);
		if (e && e->code)
			call_fail(c, e);
		else
			call_reply(c, members->data, members->len);
	}
	free(u);
}

/* ---- verify, rebuild ---- */

static void write_verdict(const struct store_verdict *v, struct jw *w)
{
	jw_kbool(w, "ok", v->ok);
	jw_kuint(w, "events", v->events);
	jw_kuint(w, "firstSequence", v->first_sequence);
	jw_kuint(w, "lastSequence", v->last_sequence);
	jw_karr(w, "problems");
	for (size_t i = 0; i < v->nproblems && i < countof(v->problems); i++) {
		jw_obj(w);
		if (v->problems[i].sequence)
			jw_kuint(w, "sequence", v->problems[i].sequence);
		jw_kstr(w, "what", v->problems[i].what);
		jw_obj_end(w);
	}
	jw_arr_end(w);
	jw_kuint(w, "problemCount", v->nproblems);
}

static void on_verified(void *ctx, const struct store_verdict *v, const struct err *e)
{
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);

	jw_obj(&w);
	if (v)
		write_verdict(v, &w);
	jw_obj_end(&w);
	upkeep_answer(ctx, &out, e);
}

int method_verify_store(struct call *c, const struct verify_store_params *p, struct buf *out, struct err *e)
{
	if (call_require_full_view(c, e) < 0)
		return -1;
	store_verify(call_store(c), on_verified, upkeep_new(c));
	return CALL_PENDING;
}

/* Only a rebuild that found differences before and none afterwards counts as a repair. */
static void on_rebuilt(void *ctx, const struct store_verdict *v, const struct err *e)
{
	struct upkeep *u = ctx;
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);

	jw_obj(&w);
	if (v)
		write_verdict(v, &w);
	if (v && v->ok && u->found.nproblems)
		retention_record_repaired(u->store, &u->found);
	jw_kuint(&w, "sequence", store_last_sequence(u->store));
	jw_obj_end(&w);
	upkeep_answer(u, &out, e);
}

/* A rebuild reports what it repaired, so the store is verified first. If that fails, the rebuild still runs. */
static void on_verified_before_rebuild(void *ctx, const struct store_verdict *v, const struct err *e)
{
	struct upkeep *u = ctx;

	if (v)
		u->found = *v;
	store_rebuild(u->store, on_rebuilt, u);
}

int method_rebuild_store(struct call *c, const struct rebuild_store_params *p, struct buf *out, struct err *e)
{
	if (call_require_full_view(c, e) < 0)
		return -1;
	store_verify(call_store(c), on_verified_before_rebuild, upkeep_new(c));
	return CALL_PENDING;
}

/* ---- stats ---- */

int method_get_store_stats(struct call *c, const struct get_store_stats_params *p, struct buf *out, struct err *e)
{
	struct jw w = jw_on(out);
	struct store_stats s;

	if (store_stats_get(call_store(c), &s, e) < 0)
		return -1;
	jw_obj(&w);
	jw_kuint(&w, "events", s.events);
	jw_kuint(&w, "firstSequence", s.first_sequence);
	jw_kuint(&w, "lastSequence", s.last_sequence);
	jw_kuint(&w, "commits", s.commits);
	jw_kuint(&w, "settles", s.settles);
	jw_kuint(&w, "batches", s.batches);
	jw_kuint(&w, "refused", s.refused);
	jw_kuint(&w, "dbBytes", s.db_bytes);
	jw_kuint(&w, "mapBytes", s.map_bytes);
	jw_kuint(&w, "journalBytes", s.journal_bytes);
	jw_kuint(&w, "journalGroups", s.journal_groups);
	jw_kuint(&w, "spoolBytes", s.spool_bytes);
	jw_kuint(&w, "spoolFiles", s.spool_files);
	if (s.quota_bytes)
		jw_kuint(&w, "quotaBytes", s.quota_bytes);
	jw_kuint(&w, "models", s.models);
	jw_kuint(&w, "idempotencyRecords", s.idem_records);
	jw_kuint(&w, "maxCommitUs", s.max_commit_us);
	jw_kuint(&w, "syncUsTotal", s.sync_us_total);
	jw_kbool(&w, "full", s.full);
	jw_kopt(&w, "note", s.note[0] ? s.note : NULL);
	jw_obj_end(&w);
	return CALL_REPLY;
}

/* ---- backup, compact ---- */

/* Errors about the target directory become errors of the parameter `dir`; disk errors (EIO, ENOSPC, EDQUOT) stay. */
static void on_backed_up(void *ctx, const struct err *e)
{
	struct upkeep *u = ctx;
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);
	struct call *c = u->call;

	if (e && e->code && c) {
		struct err about = *e;

		if (about.code == ERR_SYS && about.sys != EIO && about.sys != ENOSPC && about.sys != EDQUOT) {
			about.code = ERR_INVALID;
			about.reason = REASON_BACKUP_FOLDER;
			(void)snprintf(about.field, sizeof(about.field), "dir");
		}
		call_watch(c, NULL);
		call_fail(c, &about);
		free(u);
		return;
	}
	jw_obj(&w);
	if (c)
		jw_kopt(&w, "dir", json_string_value(json_object_get(c->params, "dir")));
	jw_kuint(&w, "sequence", store_last_sequence(u->store));
	jw_obj_end(&w);
	upkeep_answer(u, &out, e);
}

int method_backup_store(struct call *c, const struct backup_store_params *p, struct buf *out, struct err *e)
{
	if (call_require_full_view(c, e) < 0)
		return -1;
	store_backup(call_store(c), p->dir, on_backed_up, upkeep_new(c));
	return CALL_PENDING;
}

static void on_compacted(void *ctx, uint64_t before, uint64_t after, const struct err *e)
{
	struct upkeep *u = ctx;
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);

	jw_obj(&w);
	jw_kuint(&w, "bytesBefore", before);
	jw_kuint(&w, "bytesAfter", after);
	jw_kuint(&w, "sequence", store_last_sequence(u->store));
	jw_obj_end(&w);
	upkeep_answer(u, &out, e);
}

int method_compact_store(struct call *c, const struct compact_store_params *p, struct buf *out, struct err *e)
{
	if (call_require_full_view(c, e) < 0)
		return -1;
	store_compact(call_store(c), on_compacted, upkeep_new(c));
	return CALL_PENDING;
}

/* ---- prune ---- */

static void on_pruned(void *ctx, const struct retention_result *r, const struct err *e)
{
	struct upkeep *u = ctx;
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);

	jw_obj(&w);
	jw_kuint(&w, "events", r->events);
	jw_kuint(&w, "outputs", r->outputs);
	jw_kuint(&w, "outputBytes", r->bytes);
	jw_kuint(&w, "sessions", r->sessions);
	jw_kuint(&w, "firstSequence", store_first_sequence(u->store));
	jw_kuint(&w, "sequence", store_last_sequence(u->store));
	jw_obj_end(&w);
	upkeep_answer(u, &out, e);
}

/* The first sequence to keep follows from exactly one of olderThanMs and beforeSequence. */
int method_prune_store(struct call *c, const struct prune_store_params *p, struct buf *out, struct err *e)
{
	uint64_t now_us = clock_real_us(), age_ms = p->olderThanMs.value, floor = p->beforeSequence.value;
	uint64_t last = store_last_sequence(call_store(c));

	if (call_require_full_view(c, e) < 0)
		return -1;
	if (p->olderThanMs.given == p->beforeSequence.given)
		return err_field(e, p->olderThanMs.given ? "beforeSequence" : "olderThanMs",
				 "give one of olderThanMs and beforeSequence");
	if (p->olderThanMs.given &&
	    store_sequence_at(call_store(c), age_ms < now_us / 1000 ? now_us - age_ms * 1000 : 0, &floor, e) < 0)
		return err_wrap(e, "find the events that are older");
	if (floor > last)
		floor = last + 1;
	if (c->control->o.changes)
		cow_changes_expire(c->control->o.changes, floor);
	retention_run(c->control->o.retention, call_store(c), floor, retention_idem_before(call_config(c), now_us),
		      on_pruned, upkeep_new(c));
	return CALL_PENDING;
}

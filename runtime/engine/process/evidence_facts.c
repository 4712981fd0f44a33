#include "runtime/engine/process/evidence_facts.h"

#include "runtime/base/mem.h"
#include "runtime/engine/core/engine_private.h"
#include "runtime/engine/core/transaction.h"
#include "runtime/view/view.h"
#include "runtime/view/view_evidence.h"

#define PARTS_MAX 8u

struct kept_part {
	char ref[ID_ROOM];
	char evidence_id[ID_ROOM]; /* "" = new */
};

/* Where the session has these bytes, if it does and they have not expired. */
static int find_kept(struct engine *g, const struct evidence_export *x, const struct evidence_part *p,
		     struct kept_part *ret, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct evidence_content_doc d;
	struct view_output_brief out;
	char key[VIEW_CONTENT_KEY];

	snprintf(key, sizeof key, "%s/%s", x->session_id, p->sha256);
	*ret = (struct kept_part){ .evidence_id = "" };
	snprintf(ret->ref, sizeof ret->ref, "%s", p->ref);
	int r = view_read_speculative(g->o.store, &evidence_content_schema, key, &text, &d, e);
	if (r)
		return r < 0 ? -1 : 0;
	/* not committed yet: its ref is as good as one that is */
	r = view_output_brief(g->o.store, VIEW_ANY_UID, d.ref, &out, e);
	if (r < 0 || (r == 0 && out.expired))
		return r < 0 ? -1 : 0;
	snprintf(ret->ref, sizeof ret->ref, "%s", d.ref);
	snprintf(ret->evidence_id, sizeof ret->evidence_id, "%s", d.evidenceId);
	return 0;
}

static void open_fact(struct fact *f, enum event_type type, const struct evidence_export *x, const struct caller *c)
{
	fact_open(f, type, x->uid, x->session_id, x->thread_id, x->turn_id);
	f->draft.ids[ID_TASK] = x->task_id;
	f->draft.ids[ID_RUN] = x->run_id;
	f->draft.ids[ID_REQUEST] = c->request_id;
	f->draft.ids[ID_TRACE] = c->trace_id;
	f->draft.ids[ID_SPAN] = c->span_id;
}

static void spilled_fact(struct store_batch *b, const struct evidence_export *x, const struct evidence_part *p,
			 const char *evidence_id, const struct caller *c)
{
	struct fact f;

	store_batch_spool(b, p->ref, p->fd, 0, p->bytes);
	open_fact(&f, EVENT_OUTPUT_SPILLED, x, c);
	f.draft.ids[ID_OUTPUT] = p->ref;
	f.draft.ids[ID_EVIDENCE] = evidence_id;
	jw_kstr(&f.w, "outputRef", p->ref);
	jw_kstr(&f.w, "stream", "evidence");
	jw_kuint(&f.w, "bytes", p->bytes);
	jw_kuint(&f.w, "limit", 0);
	jw_kstr(&f.w, "reason", "export");
	jw_kobj(&f.w, "owner");
	jw_kstr(&f.w, "evidenceId", evidence_id);
	jw_obj_end(&f.w);
	jw_kstr(&f.w, "mediaType", "application/json");
	jw_kstr(&f.w, "encoding", "utf8");
	jw_kbool(&f.w, "complete", true);
	fact_close(&f, b);
}

/* What the result and the fact both say. */
static void write_members(struct jw *w, const struct evidence_export *x, const struct kept_part *kept)
{
	jw_kstr(w, "kind", x->part[0].kind);
	jw_kstr(w, "packRef", kept[0].ref);
	for (size_t i = 0; i < x->nparts; i++)
		if (strcmp(x->part[i].member, "packRef") != 0)
			jw_kstr(w, x->part[i].member, kept[i].ref);
	jw_kstr(w, "sha256", x->part[0].sha256);
	jw_kuint(w, "bytes", x->part[0].bytes);
	jw_kuint(w, "events", x->events);
	jw_kuint(w, "throughSequence", x->through);
	jw_kopt(w, "trialId", x->trial_id);
	jw_karr(w, "files");
	for (size_t i = 0; i < x->nparts; i++) {
		jw_obj(w);
		jw_kstr(w, "kind", x->part[i].kind);
		jw_kstr(w, "ref", kept[i].ref);
		jw_kstr(w, "sha256", x->part[i].sha256);
		jw_kuint(w, "bytes", x->part[i].bytes);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

static void part_is_kept(struct engine *g, const char *ref) { store_spool_committed(g->o.store, ref); }

void engine_record_evidence(struct engine *g, const struct evidence_export *x, const struct caller *c,
			    engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	struct kept_part kept[PARTS_MAX];
	const struct requester by = requester_of(c);
	char evidence_id[ID_ROOM];
	struct err e = ERR_INIT;
	struct fact f;

	for (size_t i = 0; i < x->nparts; i++)
		if (find_kept(g, x, &x->part[i], &kept[i], &e) < 0) {
			transaction_reject(tx, &e);
			return;
		}
	for (size_t i = 0; i < x->nparts; i++)
		if (!kept[i].evidence_id[0] && store_spool_ref(g->o.store, x->part[i].ref, &e) < 0) {
			transaction_reject(tx, &e);
			return;
		}
	if (kept[0].evidence_id[0])
		memcpy(evidence_id, kept[0].evidence_id, sizeof evidence_id);
	else
		id_make(ID_KIND_EVIDENCE, evidence_id);
	for (size_t i = 0; i < x->nparts; i++)
		if (!kept[i].evidence_id[0]) {
			spilled_fact(tx->batch, x, &x->part[i], evidence_id, c);
			transaction_after_commit(tx, part_is_kept, x->part[i].ref);
		}
	open_fact(&f, EVENT_EVIDENCE_CHANGED, x, c);
	f.draft.ids[ID_EVIDENCE] = evidence_id;
	write_members(&f.w, x, kept);
	jw_kobj(&f.w, "producer");
	jw_kstr(&f.w, "kind", "runtime");
	jw_kstr(&f.w, "version", BAILIFF_VERSION);
	jw_obj_end(&f.w);
	jw_kuint(&f.w, "durationMs", x->duration_ms);
	fact_requester(&f.w, "requestedBy", &by);
	fact_close(&f, tx->batch);
	jw_kstr(&tx->w, "evidenceId", evidence_id);
	write_members(&tx->w, x, kept);
	for (size_t i = 0; i < x->nparts; i++)
		if (kept[i].evidence_id[0])
			store_spool_unref(g->o.store, x->part[i].ref);
	transaction_commit(tx);
}

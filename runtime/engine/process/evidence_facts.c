/*
 * The files are already in the spool under temporary names when they arrive here. The order makes a crash harmless: the
 * names become permanent before the commit that cites them, and the temporary ones are removed after it. A crash before
 * the commit leaves a temporary name, by which the next store_open finds and removes the file.
 *
 * Exporting the same scope twice gives the same bytes. Each part is therefore looked up by session and SHA-256 first;
 * if the session has the content and retention has not removed it, the new file is deleted and the event refers to the
 * old one. If that applies to the first part, the export also keeps its evidence id.
 */

#include "runtime/engine/process/evidence_facts.h"

#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/view/view.h"
#include "runtime/view/view_evidence.h"

#define PARTS_MAX 8u

struct kept_part {
	char ref[ID_SIZE];
	char evidence_id[ID_SIZE]; /* "" = new */
};

/* Finds an output of the session with the same content that has not expired. */
static int find_kept(struct engine *engine, const struct evidence_export *x, const struct evidence_part *p,
		     struct kept_part *ret, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct evidence_content_doc d;
	struct view_output_brief out;
	char key[VIEW_CONTENT_KEY];

	snprintf(key, sizeof key, "%s/%s", x->session_id, p->sha256);
	*ret = (struct kept_part){ .evidence_id = "" };
	snprintf(ret->ref, sizeof ret->ref, "%s", p->ref);
	int r = view_read_speculative(engine->o.store, &evidence_content_schema, key, &text, &d, e);
	if (r)
		return r < 0 ? -1 : 0;
	/* Not found = not committed yet; the ref can still be used, because that batch commits before this one. */
	r = view_output_brief(engine->o.store, VIEW_ANY_UID, d.ref, &out, e);
	if (r < 0 || (r == 0 && out.expired))
		return r < 0 ? -1 : 0;
	snprintf(ret->ref, sizeof ret->ref, "%s", d.ref);
	id_copy(ret->evidence_id, d.evidenceId);
	return 0;
}

static struct scope evidence_scope(const struct evidence_export *x, const char *evidence_id, const struct caller *c)
{
	return (struct scope){ .uid = x->uid,
			       .session = x->session_id,
			       .thread = x->thread_id,
			       .turn = x->turn_id,
			       .evidence = evidence_id,
			       .task = x->task_id,
			       .run = x->run_id,
			       .request = c->request_id,
			       .trace = c->trace_id,
			       .span = c->span_id };
}

static void spilled_fact(struct transaction *tx, const struct evidence_export *x, const struct evidence_part *p,
			 const char *evidence_id, const struct caller *c)
{
	struct scope s = evidence_scope(x, evidence_id, c);

	s.output = p->ref;
	transaction_add_spool(tx, p->ref, p->fd, 0, p->bytes);
	EMIT(output_spilled, tx, s, .outputRef = p->ref, .stream = "evidence", .bytes = p->bytes, .limit = 0,
	     .reason = "export", .owner = JSON_OBJECT(output_owner, .evidenceId = evidence_id),
	     .mediaType = "application/json", .encoding = "utf8", .complete = true);
}

/* The members that the result and the fact have in common. */
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

static void part_is_kept(struct engine *engine, const char *ref) { store_spool_committed(engine->o.store, ref); }

void engine_record_evidence(struct engine *engine, const struct evidence_export *x, const struct caller *c,
			    engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	struct kept_part kept[PARTS_MAX];
	const struct requester by = requester_of(c);
	char evidence_id[ID_SIZE];
	struct err e = ERR_INIT;

	for (size_t i = 0; i < x->nparts; i++)
		if (find_kept(engine, x, &x->part[i], &kept[i], &e) < 0) {
			transaction_reject(tx, &e);
			return;
		}
	for (size_t i = 0; i < x->nparts; i++)
		/* All refs before the first fact: a failure here must leave nothing in the batch. */
		if (!kept[i].evidence_id[0] && store_spool_ref(engine->o.store, x->part[i].ref, &e) < 0) {
			transaction_reject(tx, &e);
			return;
		}
	if (kept[0].evidence_id[0])
		memcpy(evidence_id, kept[0].evidence_id, sizeof evidence_id);
	else
		id_make(ID_KIND_EVIDENCE, evidence_id);
	for (size_t i = 0; i < x->nparts; i++)
		if (!kept[i].evidence_id[0]) {
			spilled_fact(tx, x, &x->part[i], evidence_id, c);
			transaction_after_commit(tx, part_is_kept, x->part[i].ref);
		}
	buf_auto struct buf pack = BUF_INIT;
	struct jw w = jw_on(&pack);
	write_members(&w, x, kept);
	EMIT(evidence_changed, tx, evidence_scope(x, evidence_id, c), .pack = json_from_buf(&pack),
	     .producer = JSON_OBJECT(producer, .kind = "runtime", .version = BAILIFF_VERSION),
	     .durationMs = opt_int(x->duration_ms), .requestedBy = json_requester(&by));
	jw_kstr(&tx->w, "evidenceId", evidence_id);
	jw_raw(&tx->w, pack.data, pack.len);
	for (size_t i = 0; i < x->nparts; i++)
		if (kept[i].evidence_id[0])
			store_spool_unref(engine->o.store, x->part[i].ref);
	transaction_commit(tx);
}

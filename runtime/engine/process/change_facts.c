/*
 * Each batch is bounded, whatever the command did: CHANGES_FACTS_MAX events, CHANGES_DIFF_MAX bytes of each diff and
 * CHANGES_DIFFS_MAX of all. The event with the counts comes last and is exact; the change list itself, which is
 * complete, stays with the overlay until it is applied or discarded.
 */

#include "runtime/engine/process/change_facts.h"

#include "runtime/engine/core/core.h"

#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/view/view.h"
#include "sandbox/change_list.h"

struct recording {
	engine_reply_fn fn;
	void *ctx;
};

static struct scope change_scope(const struct changes_facts *c)
{
	const struct view_process_brief *p = c->process;

	return (struct scope){ .uid = p->uid,
			       .session = p->session_id,
			       .thread = p->thread_id,
			       .turn = p->turn_id,
			       .process = c->process_id,
			       .task = p->task_id,
			       .tool_call = p->tool_call_id,
			       .request = c->by ? c->by->request_id : NULL };
}

/* One path. Its diff becomes an output of the same commit unless it exceeds a limit; `room` is left for the others. */
static void path_fact(const struct changes_facts *facts, const struct change *c, struct json_value by,
		      struct transaction *tx, size_t *room)
{
	mem_auto char *path = mem_strndup(c->path, c->path_len),
		      *note = c->note_len ? mem_strndup(c->note, c->note_len) : NULL;
	bool diff = c->diff_len && c->diff_len <= CHANGES_DIFF_MAX && c->diff_len <= *room;
	char ref[ID_TEXT_MAX] = "";

	if (diff) {
		*room -= c->diff_len;
		id_make(ID_KIND_OUTPUT, ref);
		transaction_add_output(tx, ref, c->diff, c->diff_len);
	}
	EMIT(artifact_changed, tx, change_scope(facts), .source = facts->source, .path = path,
	     .change = change_kind_name(c->kind), .fileType = change_type_name(c->type), .bytes = opt_int(c->bytes),
	     .outcome = change_outcome_name(c->outcome), .reason = note, .diffRef = none_if_empty(ref),
	     .diffBytes = opt_int_if(diff, c->diff_len), .by = by);
}

static void write_counts(struct jw *w, const void *head, size_t n)
{
	const struct change_list_head *h = head;

	jw_obj(w);
	for (int i = 0; i < CHANGE_KIND_COUNT; i++)
		jw_kuint(w, change_kind_name((enum change_kind)i), h->kinds[i]);
	for (int i = CHANGE_OUTCOME_APPLIED; i < CHANGE_OUTCOME_COUNT; i++)
		if (h->outcomes[i])
			jw_kuint(w, change_outcome_name((enum change_outcome)i), h->outcomes[i]);
	jw_obj_end(w);
}

static void on_recorded(void *ctx, const struct store_result *r)
{
	struct recording *rec = ctx;
	buf_auto struct buf out = BUF_INIT;

	if (rec->fn && r->status < 0) {
		rec->fn(rec->ctx, r->err, NULL, 0);
	} else if (rec->fn) {
		buf_printf(&out, "{\"sequence\":%llu}", (unsigned long long)r->last_sequence);
		rec->fn(rec->ctx, NULL, out.data, out.len);
	}
	free(rec);
}

void changes_record(struct engine *engine, const struct changes_facts *f, engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new_internal(engine);
	struct recording *rec = mem_zalloc(1, sizeof *rec);
	const struct change_list_head *h = f->list;
	const struct requester requester = f->by ? requester_of(f->by) : (struct requester){ 0 };
	const struct json_value by = f->by ? json_requester(&requester) : JSON_NONE;
	size_t at = 0, room = CHANGES_DIFFS_MAX;
	struct change c;

	*rec = (struct recording){ fn, ctx };
	for (unsigned n = 0; f->list && n < CHANGES_FACTS_MAX && change_list_next(f->list, &at, &c); n++)
		path_fact(f, &c, by, tx, &room);
	EMIT(artifact_changed, tx, change_scope(f), .source = f->source, .change = h ? "summary" : "requested",
	     .counts = h ? json_from_writer(write_counts, h, 0) : JSON_NONE,
	     .kept = h ? opt_bool(f->kept) : OPT_BOOL_ABSENT,
	     .undoable = opt_int_if(h && h->undo.applies, h ? h->undo.applies : 0), .by = by);
	/* Changes that were made must be recorded even when space is short; a mere request may fail. */
	transaction_commit_then(tx, f->list ? STORE_MUST : 0, on_recorded, rec);
}

/* ---- answers ---- */

static void write_change(const struct change *c, const char *(*diff_ref)(void *ctx, const char *path_json), void *ctx,
			 struct jw *w)
{
	buf_auto struct buf path = BUF_INIT;
	struct jw p = jw_on(&path);

	jw_strn(&p, c->path, c->path_len);
	jw_obj(w);
	jw_kraw(w, "path", path.data, path.len);
	jw_kstr(w, "change", change_kind_name(c->kind));
	jw_kstr(w, "type", change_type_name(c->type));
	jw_kuint(w, "bytes", c->bytes);
	if (diff_ref)
		jw_kopt(w, "diffRef", diff_ref(ctx, path.data));
	if (c->diff_len && text_utf8_valid(c->diff, c->diff_len)) {
		jw_kstrn(w, "diff", c->diff, c->diff_len);
	} else if (c->diff_len) {
		jw_key(w, "diffBase64");
		jw_base64(w, c->diff, c->diff_len);
	}
	if (c->outcome != CHANGE_OUTCOME_PENDING)
		jw_kstr(w, "outcome", change_outcome_name(c->outcome));
	if (c->note_len)
		jw_kstrn(w, c->outcome == CHANGE_OUTCOME_CONFLICT ? "conflict" : "note", c->note, c->note_len);
	jw_obj_end(w);
}

static void write_paths(const void *list, const char *key, enum change_outcome outcome, struct jw *w)
{
	struct change c;
	size_t at = 0;

	jw_karr(w, key);
	while (change_list_next(list, &at, &c)) {
		if (c.outcome != outcome)
			continue;
		if (outcome != CHANGE_OUTCOME_CONFLICT) {
			jw_strn(w, c.path, c.path_len);
			continue;
		}
		jw_obj(w);
		jw_kstrn(w, "path", c.path, c.path_len);
		jw_kstrn(w, "reason", c.note, c.note_len);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

void changes_write(const void *list, const char *(*diff_ref)(void *ctx, const char *path_json), void *ctx, struct jw *w)
{
	const struct change_list_head *h = list;
	uint64_t all = 0;
	struct change c;
	size_t at = 0;

	jw_karr(w, "changes");
	while (change_list_next(list, &at, &c))
		write_change(&c, diff_ref, ctx, w);
	jw_arr_end(w);
	for (int i = 0; i < CHANGE_KIND_COUNT; i++)
		all += h->kinds[i];
	jw_kuint(w, "total", all);
	if (diff_ref)
		return;
	/* The outcome of applying, undoing, discarding or reverting; a list of pending changes has none. */
	write_paths(list, "applied", CHANGE_OUTCOME_APPLIED, w);
	write_paths(list, "discarded", CHANGE_OUTCOME_DISCARDED, w);
	write_paths(list, "reverted", CHANGE_OUTCOME_REVERTED, w);
	write_paths(list, "undone", CHANGE_OUTCOME_UNDONE, w);
	write_paths(list, "conflicts", CHANGE_OUTCOME_CONFLICT, w);
}

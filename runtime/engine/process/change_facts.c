#include "runtime/engine/process/change_facts.h"

#include "runtime/engine/core/engine_private.h"

#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/view/view.h"
#include "sandbox/change_list.h"

struct recording {
	engine_reply_fn fn;
	void *ctx;
};

static void open_fact(struct fact *f, const struct changes_facts *c)
{
	const struct view_process_brief *p = c->process;

	fact_open(f, EVENT_ARTIFACT_CHANGED, p->uid, p->session_id, p->thread_id, p->turn_id);
	f->draft.ids[ID_PROCESS] = c->process_id;
	f->draft.ids[ID_TASK] = none_if_empty(p->task_id);
	f->draft.ids[ID_TOOL_CALL] = none_if_empty(p->tool_call_id);
	if (c->by)
		f->draft.ids[ID_REQUEST] = c->by->request_id;
	jw_kstr(&f->w, "source", c->source);
}

static void write_by(struct fact *f, const struct changes_facts *c)
{
	if (!c->by)
		return;
	const struct requester by = requester_of(c->by);
	fact_requester(&f->w, "by", &by);
}

/* The diff becomes an output of its own, in the same commit. */
static void keep_diff(struct fact *f, const struct change *c, struct store_batch *b, size_t *room)
{
	char ref[ID_TEXT_MAX];

	if (!c->diff_len || c->diff_len > CHANGES_DIFF_MAX || c->diff_len > *room)
		return;
	*room -= c->diff_len;
	id_make(ID_KIND_OUTPUT, ref);
	store_batch_inline(b, ref, c->diff, c->diff_len);
	jw_kstr(&f->w, "diffRef", ref);
	jw_kuint(&f->w, "diffBytes", c->diff_len);
}

static void path_fact(const struct changes_facts *facts, const struct change *c, struct store_batch *b, size_t *room)
{
	struct fact f;

	open_fact(&f, facts);
	jw_kstrn(&f.w, "path", c->path, c->path_len);
	jw_kstr(&f.w, "change", change_kind_name(c->kind));
	jw_kstr(&f.w, "fileType", change_type_name(c->type));
	jw_kuint(&f.w, "bytes", c->bytes);
	jw_kstr(&f.w, "outcome", change_outcome_name(c->outcome));
	if (c->note_len)
		jw_kstrn(&f.w, "reason", c->note, c->note_len);
	keep_diff(&f, c, b, room);
	write_by(&f, facts);
	fact_close(&f, b);
}

static void count_fact(const struct changes_facts *facts, struct store_batch *b)
{
	const struct change_list_head *h = facts->list;
	struct fact f;

	open_fact(&f, facts);
	jw_kstr(&f.w, "change", facts->list ? "summary" : "requested");
	if (h) {
		jw_kobj(&f.w, "counts");
		for (int i = 0; i < CHANGE_KIND_COUNT; i++)
			jw_kuint(&f.w, change_kind_name((enum change_kind)i), h->kinds[i]);
		for (int i = CHANGE_OUTCOME_APPLIED; i < CHANGE_OUTCOME_COUNT; i++)
			if (h->outcomes[i])
				jw_kuint(&f.w, change_outcome_name((enum change_outcome)i), h->outcomes[i]);
		jw_obj_end(&f.w);
		jw_kbool(&f.w, "kept", facts->kept);
	}
	write_by(&f, facts);
	fact_close(&f, b);
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

void changes_record(struct engine *g, const struct changes_facts *f, engine_reply_fn fn, void *ctx)
{
	struct store_batch *b = store_batch_new(g->o.store);
	struct recording *rec = mem_zalloc(1, sizeof *rec);
	size_t at = 0, room = CHANGES_DIFFS_MAX;
	struct change c;

	*rec = (struct recording){ fn, ctx };
	for (unsigned n = 0; f->list && n < CHANGES_FACTS_MAX && change_list_next(f->list, &at, &c); n++)
		path_fact(f, &c, b, &room);
	count_fact(f, b);
	/* What was done must be told; what is only asked for may be refused. */
	store_submit(g->o.store, b, f->list ? STORE_MUST : 0, on_recorded, rec);
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
	write_paths(list, "applied", CHANGE_OUTCOME_APPLIED, w);
	write_paths(list, "discarded", CHANGE_OUTCOME_DISCARDED, w);
	write_paths(list, "reverted", CHANGE_OUTCOME_REVERTED, w);
	write_paths(list, "conflicts", CHANGE_OUTCOME_CONFLICT, w);
}

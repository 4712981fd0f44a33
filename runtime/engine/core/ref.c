#include "runtime/engine/core/ref.h"

#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/core/core.h"

void ref_store(struct transaction *tx, const struct ref_owner *o, const void *p, size_t n, char ret_ref[ID_TEXT_MAX])
{
	id_make(ID_KIND_OUTPUT, ret_ref);
	ref_store_as(tx, o, ret_ref, p, n);
}

static void write_owner(struct jw *w, const void *owner, size_t n)
{
	const struct ref_owner *o = owner;

	jw_obj(w);
	if (o->kind)
		jw_kopt(w, o->kind, o->id);
	jw_obj_end(w);
}

void ref_store_as(struct transaction *tx, const struct ref_owner *o, const char *ref, const void *p, size_t n)
{
	const struct scope s = { .uid = o->uid,
				 .session = o->session_id,
				 .thread = o->thread_id,
				 .turn = o->turn_id,
				 .output = ref,
				 .task = o->task_id,
				 .tool_call = o->tool_call_id };

	transaction_add_output(tx, ref, p, n);
	EMIT(output_spilled, tx, s, .outputRef = ref, .stream = "ref", .bytes = n, .limit = REF_INLINE_MAX,
	     .reason = "event_limit", .owner = json_from_writer(write_owner, o, 0),
	     .mediaType = o->media_type ? o->media_type : "text/plain",
	     .encoding = text_utf8_valid(p, n) ? "utf8" : "binary", .complete = true);
}

void ref_text_init(struct ref_text *t, struct transaction *tx, const struct ref_owner *o, const char *text, size_t n)
{
	bool utf8 = text_utf8_valid(text, n);

	*t = (struct ref_text){ 0 };
	if (utf8)
		t->shown = mem_strndup(text, n <= REF_INLINE_MAX ? n : text_utf8_cut(text, REF_INLINE_MAX));
	if (!utf8 || n > REF_INLINE_MAX)
		ref_store(tx, o, text, n, t->ref);
}

void ref_text_done(struct ref_text *t) { free(t->shown); }

#include "runtime/engine/core/ref.h"

#include "runtime/base/text.h"
#include "runtime/engine/core/engine_private.h"

void ref_store(struct store_batch *b, const struct ref_owner *o, const void *p, size_t n, char ret_ref[ID_TEXT_MAX])
{
	id_make(ID_KIND_OUTPUT, ret_ref);
	ref_store_as(b, o, ret_ref, p, n);
}

void ref_store_as(struct store_batch *b, const struct ref_owner *o, const char *ref, const void *p, size_t n)
{
	struct fact f;

	store_batch_inline(b, ref, p, n);
	fact_open(&f, EVENT_OUTPUT_SPILLED, o->uid, o->session_id, o->thread_id, o->turn_id);
	f.draft.ids[ID_OUTPUT] = ref;
	f.draft.ids[ID_TASK] = o->task_id;
	f.draft.ids[ID_TOOL_CALL] = o->tool_call_id;
	jw_kstr(&f.w, "outputRef", ref);
	jw_kstr(&f.w, "stream", "ref");
	jw_kuint(&f.w, "bytes", n);
	jw_kuint(&f.w, "limit", REF_INLINE_MAX);
	jw_kstr(&f.w, "reason", "event_limit");
	jw_kobj(&f.w, "owner");
	jw_kopt(&f.w, o->kind ? o->kind : "kind", o->kind ? o->id : NULL);
	jw_obj_end(&f.w);
	jw_kstr(&f.w, "mediaType", o->media_type ? o->media_type : "text/plain");
	jw_kstr(&f.w, "encoding", text_utf8_valid(p, n) ? "utf8" : "binary");
	jw_kbool(&f.w, "complete", true);
	fact_close(&f, b);
}

void ref_text(struct store_batch *b, struct jw *w, const struct ref_owner *o, const char *key, const char *ref_key,
	      const char *text, size_t n)
{
	char ref[ID_TEXT_MAX];

	if (n <= REF_INLINE_MAX && key && text_utf8_valid(text, n)) {
		jw_kstrn(w, key, text, n);
		return;
	}
	if (key && text_utf8_valid(text, n))
		jw_kstrn(w, key, text, text_utf8_cut(text, REF_INLINE_MAX));
	ref_store(b, o, text, n, ref);
	jw_kstr(w, ref_key, ref);
}

/* The transcript of a run, one line per event, for people and for simple verifiers. */

#include "runtime/evidence/pack.h"

#include "runtime/base/clock.h"
#include "runtime/base/mem.h"

/* The first of these that a payload has is the line's text; the order goes from full content to mere description. */
static const char *const texts[] = { "text",    "preview", "displayPreview", "prompt", "message",
				     "summary", "detail",  "reason",         "title",  "objective" };

static int write_line(void *ctx, const struct event_view *ev, struct err *e)
{
	static const enum id_field fields[] = { ID_TURN, ID_TASK, ID_RUN, ID_PROCESS, ID_TOOL_CALL, ID_ACTION };
	static const char *const members[] = { "status",   "toolName", "safeArgs", "command",
					       "decision", "exitCode", "signal",   "category" };
	struct sink *k = ctx;
	struct jval payload = event_payload(ev), status = event_member(ev, "status");
	char at[CLOCK_TEXT_MAX];

	clock_format(ev->real_us, at);
	jw_obj(&k->w);
	jw_kuint(&k->w, "sequence", ev->sequence);
	jw_kstr(&k->w, "timestamp", at);
	jw_kstr(&k->w, "type", event_info(ev->type)->name);
	survey_write_ids(&k->w, ev, fields, countof(fields));
	/* The status of the payload, copied below, is more specific than that of the envelope. */
	if (jval_get(payload, "status").type == JT_NONE && status.type == JT_STRING)
		jw_kraw(&k->w, "status", status.text, status.len);
	survey_copy(&k->w, payload, members, countof(members));
	for (size_t i = 0; i < countof(texts); i++) {
		struct jval v = jval_get(payload, texts[i]);

		if (v.type == JT_STRING) {
			jw_kraw(&k->w, "text", v.text, v.len);
			break;
		}
	}
	jw_obj_end(&k->w);
	return sink_yield(k, e);
}

int transcript_write(struct survey *s, const struct evidence_job *job, struct sink *k, struct err *e)
{
	survey_write_head(s, EVIDENCE_TRANSCRIPT, &k->w);
	jw_karr(&k->w, "lines");
	if (survey_each(s, write_line, k, e) < 0)
		return -1;
	jw_arr_end(&k->w);
	return 0;
}

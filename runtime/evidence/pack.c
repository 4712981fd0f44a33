/*
 * The evidence pack, and the members that replay cases and reviews have in common with it. Arrays are written while the
 * log or the read models are scanned: nothing is collected beyond what the survey holds. Events are written exactly as
 * clients receive them (event_json), because pack_check projects them again from that text and compares the read models
 * byte for byte.
 */

#include "runtime/evidence/pack.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/view/view.h"

#include <string.h>

const struct pack_kind pack_kinds[] = {
#define PACK_KIND(kind, name) { kind, name },
#include "runtime/evidence/pack_kinds.def"
#undef PACK_KIND
};
const size_t pack_nkinds = countof(pack_kinds);

/* ---- the events and their read models ---- */

static int write_event(void *ctx, const struct event_view *ev, struct err *e)
{
	struct sink *k = ctx;

	/* event_json appends to the buffer behind the writer, so the comma between elements is kept here. */
	if (k->w.need_comma)
		buf_byte(&k->buf, ',');
	event_json(ev, &k->buf);
	k->w.need_comma = true;
	return sink_yield(k, e);
}

struct model_writer {
	struct sink *sink;
	const char *kind;
};

static int write_model(void *ctx, const char *id, size_t id_len, struct jval doc, struct err *e)
{
	struct model_writer *m = ctx;
	struct jw *w = &m->sink->w;

	jw_obj(w);
	jw_kstr(w, "kind", m->kind);
	jw_kstrn(w, "id", id, id_len);
	jw_kraw(w, "document", doc.text, doc.len);
	jw_obj_end(w);
	return sink_yield(m->sink, e);
}

/* Read models are in the order of pack_kinds, then of ids: pack_check.c merges by it. */
int pack_write_log(struct survey *s, struct sink *k, struct err *e)
{
	jw_karr(&k->w, "ownerUids");
	for (size_t i = 0; i < s->owner.count; i++) {
		jw_obj(&k->w);
		jw_kuint(&k->w, "fromSequence", s->owner.range[i].from);
		jw_kuint(&k->w, "uid", s->owner.range[i].uid);
		jw_obj_end(&k->w);
		if (sink_yield(k, e) < 0)
			return -1;
	}
	jw_arr_end(&k->w);
	jw_karr(&k->w, "events");
	if (survey_each(s, write_event, k, e) < 0)
		return -1;
	jw_arr_end(&k->w);
	jw_karr(&k->w, "readModels");
	for (size_t i = 0; i < pack_nkinds; i++) {
		struct model_writer m = { .sink = k, .kind = pack_kinds[i].name };

		if (survey_docs(s, pack_kinds[i].kind, write_model, &m, e) < 0)
			return -1;
	}
	jw_arr_end(&k->w);
	return 0;
}

/*
 * Families refer to events by sequence number: the events themselves are in the pack already. Empty families are left
 * out.
 */
void pack_write_findings(const struct survey *s, struct jw *w)
{
	jw_kobj(w, "families");
	for (unsigned i = 0; i < SURVEY_SECTIONS; i++) {
		if (!s->section[i].count)
			continue;
		jw_karr(w, survey_section_name((enum survey_section)i));
		for (size_t n = 0; n < s->section[i].count; n++)
			jw_uint(w, s->section[i].sequence[n]);
		jw_arr_end(w);
	}
	jw_obj_end(w);
	jw_karr(w, "verificationOutcomes");
	if (s->outcomes.len)
		jw_raw(w, s->outcomes.data, s->outcomes.len);
	jw_arr_end(w);
	survey_write_signals(s, w);
}

/* ---- members of read models ---- */

struct docs_writer {
	struct sink *sink;
	const char *const *members;
	size_t nmembers;
	bool (*matches)(struct jval doc); /* NULL = all */
};

static int write_doc(void *ctx, const char *id, size_t id_len, struct jval doc, struct err *e)
{
	struct docs_writer *d = ctx;

	if (d->matches && !d->matches(doc))
		return 0;
	jw_obj(&d->sink->w);
	survey_copy(&d->sink->w, doc, d->members, d->nmembers);
	jw_obj_end(&d->sink->w);
	return sink_yield(d->sink, e);
}

static int write_docs(struct survey *s, struct sink *k, const char *member, unsigned kind, const char *const *members,
		      size_t n, bool (*matches)(struct jval doc), struct err *e)
{
	struct docs_writer d = { .sink = k, .members = members, .nmembers = n, .matches = matches };

	jw_karr(&k->w, member);
	if (survey_docs(s, kind, write_doc, &d, e) < 0)
		return -1;
	jw_arr_end(&k->w);
	return 0;
}

/* The call has ended, and not with success. */
static bool is_failed_call(struct jval doc)
{
	struct jval status = jval_get(doc, "status");

	return jval_get(doc, "endedAt").type != JT_NONE && !jval_is_str(status, "completed") &&
	       !jval_is_str(status, "succeeded");
}

/*
 * Failed calls are listed a second time with the members that explain the failure, so that a reviewer need not search.
 */
int pack_write_tool_calls(struct survey *s, struct sink *k, struct err *e)
{
	static const char *const members[] = {
		"toolCallId",      "toolName",      "status",       "statusReason",
		"turnId",          "stepId",        "taskId",       "processId",
		"runner",          "startedAt",     "endedAt",      "inputRef",
		"updatedInputRef", "safeArgs",      "rawOutputRef", "structuredContentRef",
		"artifactRefs",    "permissionRef", "sandboxRef",   "hookRefs",
		"exitCode",
	};
	static const char *const failed[] = {
		"toolCallId", "toolName", "status",    "statusReason", "turnId",   "endedAt",
		"category",   "message",  "retryable", "advice",       "errorRef", "exitCode",
	};

	if (write_docs(s, k, "toolCalls", VIEW_TOOL_CALL, members, countof(members), NULL, e) < 0)
		return -1;
	return write_docs(s, k, "failedToolCalls", VIEW_TOOL_CALL, failed, countof(failed), is_failed_call, e);
}

int pack_write(struct survey *s, const struct evidence_job *job, struct sink *k, struct err *e)
{
	static const char *const artifact[] = { "artifactId", "path",    "change", "versionId",  "readRef",
						"previewRef", "diffRef", "source", "validation", "updatedAt" };
	static const char *const boundary[] = { "threadId",    "status",       "trigger",      "turns",
						"summaryRef",  "tokensBefore", "tokensAfter",  "keptActions",
						"incidents",   "artifactRefs", "evidenceRefs", "continuation",
						"compactions", "rollbacks",    "rollback" };

	survey_write_head(s, EVIDENCE_PACK, &k->w);
	if (pack_write_log(s, k, e) < 0 || pack_write_tool_calls(s, k, e) < 0 ||
	    write_docs(s, k, "artifacts", VIEW_ARTIFACT, artifact, countof(artifact), NULL, e) < 0 ||
	    write_docs(s, k, "contextBoundaries", VIEW_HISTORY, boundary, countof(boundary), NULL, e) < 0)
		return -1;
	pack_write_findings(s, &k->w);
	return 0;
}

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

/* ---- the events and what they fold into ---- */

static int write_event(void *ctx, const struct event_view *ev, struct err *e)
{
	struct sink *k = ctx;

	if (k->w.need_comma)
		buf_byte(&k->buf, ',');
	event_json(ev, &k->buf);
	k->w.need_comma = true;
	return sink_yield(k, e);
}

struct models_walk {
	struct sink *sink;
	const char *kind;
	struct err *e;
	bool failed;
};

static void write_model(void *ctx, const char *id, size_t id_len, struct jval doc)
{
	struct models_walk *m = ctx;
	struct jw *w = &m->sink->w;

	if (m->failed)
		return;
	jw_obj(w);
	jw_kstr(w, "kind", m->kind);
	jw_kstrn(w, "id", id, id_len);
	jw_kraw(w, "document", doc.text, doc.len);
	jw_obj_end(w);
	m->failed = sink_yield(m->sink, m->e) < 0;
}

int pack_write_log(struct survey *s, struct sink *k, struct err *e)
{
	jw_karr(&k->w, "ownerUids");
	if (s->owners.len)
		jw_raw(&k->w, s->owners.data, s->owners.len);
	jw_arr_end(&k->w);
	jw_karr(&k->w, "events");
	if (survey_each(s, write_event, k, e) < 0)
		return -1;
	jw_arr_end(&k->w);
	jw_karr(&k->w, "readModels");
	for (size_t i = 0; i < pack_nkinds; i++) {
		struct models_walk m = { .sink = k, .kind = pack_kinds[i].name, .e = e };

		if (survey_docs(s, pack_kinds[i].kind, write_model, &m, e) < 0 || m.failed)
			return -1;
	}
	jw_arr_end(&k->w);
	return 0;
}

void pack_write_families(const struct survey *s, struct jw *w)
{
	static const char *const names[] = {
#define SECTION(name, prefixes) #name,
#include "runtime/evidence/sections.def"
#undef SECTION
	};

	jw_kobj(w, "families");
	for (unsigned i = 0; i < SURVEY_SECTIONS; i++) {
		if (!s->section[i].count)
			continue;
		jw_karr(w, names[i]);
		for (size_t n = 0; n < s->section[i].count; n++)
			jw_uint(w, s->section[i].sequence[n]);
		jw_arr_end(w);
	}
	jw_obj_end(w);
}

/* ---- what is found in the read models ---- */

struct docs_walk {
	struct sink *sink;
	const char *const *members;
	size_t nmembers;
	bool (*wanted)(struct jval doc);
	struct err *e;
	bool failed;
};

static void write_doc(void *ctx, const char *id, size_t id_len, struct jval doc)
{
	struct docs_walk *d = ctx;

	if (d->failed || (d->wanted && !d->wanted(doc)))
		return;
	jw_obj(&d->sink->w);
	survey_copy(&d->sink->w, doc, d->members, d->nmembers);
	jw_obj_end(&d->sink->w);
	d->failed = sink_yield(d->sink, d->e) < 0;
}

static int write_docs(struct survey *s, struct sink *k, const char *member, unsigned kind, const char *const *members,
		      size_t n, bool (*wanted)(struct jval doc), struct err *e)
{
	struct docs_walk d = { .sink = k, .members = members, .nmembers = n, .wanted = wanted, .e = e };

	jw_karr(&k->w, member);
	if (survey_docs(s, kind, write_doc, &d, e) < 0 || d.failed)
		return -1;
	jw_arr_end(&k->w);
	return 0;
}

static bool call_failed(struct jval doc)
{
	struct jval status = jval_get(doc, "status");

	return jval_get(doc, "endedAt").type != JT_NONE && !jval_is_str(status, "completed") &&
	       !jval_is_str(status, "succeeded");
}

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
	return write_docs(s, k, "failedToolCalls", VIEW_TOOL_CALL, failed, countof(failed), call_failed, e);
}

int pack_write(struct survey *s, struct sink *k, struct err *e)
{
	static const char *const artifact[] = { "artifactId", "path",    "change", "versionId",  "readRef",
						"previewRef", "diffRef", "source", "validation", "updatedAt" };
	static const char *const boundary[] = { "threadId",    "status",       "trigger",      "turns",
						"summaryRef",  "tokensBefore", "tokensAfter",  "keptActions",
						"incidents",   "artifactRefs", "evidenceRefs", "continuation",
						"compactions", "rollbacks",    "rollback" };

	jw_obj(&k->w);
	survey_write_head(s, evidence_kind_name(EVIDENCE_PACK), &k->w);
	if (pack_write_log(s, k, e) < 0 || pack_write_tool_calls(s, k, e) < 0 ||
	    write_docs(s, k, "artifacts", VIEW_ARTIFACT, artifact, countof(artifact), NULL, e) < 0 ||
	    write_docs(s, k, "contextBoundaries", VIEW_HISTORY, boundary, countof(boundary), NULL, e) < 0)
		return -1;
	pack_write_families(s, &k->w);
	jw_karr(&k->w, "verificationOutcomes");
	if (s->outcomes.len)
		jw_raw(&k->w, s->outcomes.data, s->outcomes.len);
	jw_arr_end(&k->w);
	survey_write_signals(s, &k->w);
	jw_obj_end(&k->w);
	return 0;
}

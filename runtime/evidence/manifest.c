/*
 * The manifest of what a scope produced: its artifacts and outputs, each with its producer, its size and, where the
 * content is kept, its sha256.
 */

#include "runtime/evidence/pack.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"

/*
 * Outputs may be larger than memory: they are hashed in slices of at most what store_output_read returns in one call.
 */
#define SLICE (1u << 20)

struct manifest {
	struct survey *survey;
	struct sink *sink;
};

/* 0 = hashed; 1 = its content is missing or incomplete. */
static int hash_output(struct survey *s, const char *ref, uint64_t bytes, char ret[HASH_SHA256_TEXT])
{
	struct hash_sha256_stream *h = hash_sha256_stream_new();
	buf_auto struct buf piece = BUF_INIT;
	struct err e = ERR_INIT;
	uint64_t at = 0;

	do {
		buf_reset(&piece);
		if (store_output_read(background_read_store(s->reader), ref, at, SLICE, &piece, &e) < 0)
			break;
		hash_sha256_stream_add(h, piece.data, piece.len);
		at += piece.len;
	} while (piece.len && at < bytes && background_read_stopped(s->reader, &e) == 0);
	hash_sha256_stream_free(h, ret);
	return at == bytes && !e.code ? 0 : 1;
}

/* A hash is written only for complete content; otherwise hashStatus has the reason. */
static void write_content(struct manifest *m, const char *ref, uint64_t bytes, struct jval output)
{
	struct jw *w = &m->sink->w;
	char hash[HASH_SHA256_TEXT];
	bool expired = jval_bool(jval_get(output, "expired"), false),
	     truncated = jval_bool(jval_get(output, "truncated"), false);

	jw_kstr(w, "ref", ref);
	jw_kuint(w, "bytes", bytes);
	if (!expired && !truncated && hash_output(m->survey, ref, bytes, hash) == 0)
		jw_kstr(w, "sha256", hash);
	else
		jw_kstr(w, "hashStatus", expired ? "expired" : truncated ? "truncated" : "not_recorded");
	/*
	 * Redactions are counted for the scope and not per output, so this only points the reader to the
	 * output.redacted events.
	 */
	jw_kobj(w, "redaction");
	jw_kstr(w, "status", m->survey->count[EVENT_OUTPUT_REDACTED] ? "see_output_redacted" : "none");
	jw_obj_end(w);
}

/*
 * A ref that does not fit is not one of this store and is left out. Each output is hashed from the store, which checks
 * the checksum of every chunk: a damaged output gets a hashStatus, never the hash of damaged bytes.
 */
static int write_output(void *ctx, const char *id, size_t id_len, struct jval doc, struct err *e)
{
	static const char *const producer[] = { "processId", "sessionId", "stream" }, *const about[] = { "mediaType",
													 "encoding" };
	struct manifest *m = ctx;
	char ref[EVIDENCE_ID_MAX];

	if (jval_str(jval_get(doc, "outputRef"), ref, sizeof(ref)) >= sizeof(ref))
		return 0;
	jw_obj(&m->sink->w);
	jw_kstr(&m->sink->w, "kind", "output");
	jw_kobj(&m->sink->w, "producer");
	survey_copy(&m->sink->w, doc, producer, countof(producer));
	jw_obj_end(&m->sink->w);
	survey_copy(&m->sink->w, doc, about, countof(about));
	write_content(m, ref, jval_uint(jval_get(doc, "bytes"), 0), doc);
	jw_obj_end(&m->sink->w);
	return sink_yield(m->sink, e);
}

static int write_artifact(void *ctx, const char *id, size_t id_len, struct jval doc, struct err *e)
{
	static const char *const about[] = { "artifactId", "path",    "change", "versionId",
					     "readRef",    "diffRef", "bytes",  "validation" },
				 *const producer[] = { "processId", "turnId", "taskId", "source" };
	struct manifest *m = ctx;

	jw_obj(&m->sink->w);
	jw_kstr(&m->sink->w, "kind", "artifact");
	survey_copy(&m->sink->w, doc, about, countof(about));
	jw_kobj(&m->sink->w, "producer");
	survey_copy(&m->sink->w, doc, producer, countof(producer));
	jw_obj_end(&m->sink->w);
	/* Artifacts are the owner's files: only content behind a ref is hashed, as an output of this list. */
	jw_kstr(&m->sink->w, "hashStatus", "not_recorded");
	jw_obj_end(&m->sink->w);
	return sink_yield(m->sink, e);
}

int manifest_write(struct survey *s, const struct evidence_job *job, struct sink *k, struct err *e)
{
	struct manifest m = { .survey = s, .sink = k };

	survey_write_head(s, EVIDENCE_MANIFEST, &k->w);
	jw_karr(&k->w, "entries");
	if (survey_docs(s, VIEW_ARTIFACT, write_artifact, &m, e) < 0 ||
	    survey_docs(s, VIEW_OUTPUT, write_output, &m, e) < 0)
		return -1;
	jw_arr_end(&k->w);
	return 0;
}

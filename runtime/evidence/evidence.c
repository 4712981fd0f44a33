#include "runtime/evidence/evidence.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/evidence/pack.h"
#include "runtime/store/store.h"

static const struct {
	const char *name, *member;
	int (*write)(struct survey *s, struct sink *k, struct err *e);
	bool sealed; /* those whose format is our own */
} kinds[EVIDENCE_KIND_COUNT] = {
	[EVIDENCE_PACK] = { "evidence_pack", "packRef", pack_write, true },
	[EVIDENCE_REPLAY] = { "replay_case", "replayRef", replay_case_write, true },
	[EVIDENCE_REVIEW] = { "review", "reviewRef", review_write, true },
	[EVIDENCE_TRAJECTORY] = { "trajectory", "trajectoryRef", trajectory_write },
	[EVIDENCE_TRACE] = { "trace", "traceRef", trace_write },
	[EVIDENCE_TRANSCRIPT] = { "transcript", "runtimeTranscriptRef", transcript_write, true },
	[EVIDENCE_MANIFEST] = { "artifact_manifest", "artifactManifestRef", manifest_write, true },
	[EVIDENCE_TRIAL] = { "benchmark_trial", "packRef", NULL },
};

const char *evidence_kind_name(enum evidence_kind k) { return kinds[k].name; }

const char *evidence_kind_member(enum evidence_kind k) { return kinds[k].member; }

static int build_file(struct survey *s, const struct evidence_job *job, struct evidence_file *f, struct err *e)
{
	sink_auto struct sink k;

	if (background_read_spool(s->aside, f->ref, &f->fd, e) < 0)
		return -1;
	sink_init(&k, f->fd);
	if (f->kind == EVIDENCE_TRIAL ? trial_write(s, job, &k, e) < 0 : kinds[f->kind].write(s, &k, e) < 0)
		return err_wrap(e, "%s", kinds[f->kind].name);
	if (kinds[f->kind].sealed && sink_seal(&k, e) < 0)
		return -1;
	if (!kinds[f->kind].sealed)
		buf_byte(&k.buf, '\n');
	if (sink_end(&k, f->sha256, e) < 0)
		return -1;
	f->bytes = k.bytes;
	return 0;
}

int evidence_build(struct background_read *a, struct evidence_job *job, struct err *e)
{
	survey_auto struct survey s;

	if (survey_make(&s, a, &job->scope, e) < 0)
		return err_wrap(e, "read the events");
	job->events = s.events;
	for (size_t i = 0; i < job->nfiles; i++)
		if (build_file(&s, job, &job->file[i], e) < 0)
			return -1;
	return 0;
}

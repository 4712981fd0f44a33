/*
 * Builds the files of one export: a survey of the scope, then one file after another in the order of the job. The order
 * matters only for a benchmark trial, whose pack names the other files by their hashes and is therefore last.
 *
 * A failure leaves the files that exist so far open and under their temporary names. The caller removes them
 * (store_spool_unref); after a crash the next store_open does.
 */

#include "runtime/evidence/evidence.h"

#include "runtime/base/err.h"
#include "runtime/evidence/pack.h"
#include "runtime/store/store.h"

static const struct {
	int (*write)(struct survey *s, const struct evidence_job *job, struct sink *k, struct err *e);
	bool sealed;
} kinds[] = {
#define EVIDENCE_KIND(KIND, name, member, write, sealed) { write, sealed },
#include "runtime/evidence/evidence_kinds.def"
#undef EVIDENCE_KIND
};

static int build_file(struct survey *s, const struct evidence_job *job, struct evidence_file *f, struct err *e)
{
	sink_auto struct sink k;

	if (background_read_spool(s->reader, f->ref, &f->fd, e) < 0)
		return -1;
	sink_init(&k, f->fd);
	jw_obj(&k.w);
	if (kinds[f->kind].write(s, job, &k, e) < 0)
		return err_wrap(e, "%s", evidence_kind_name(f->kind));
	jw_obj_end(&k.w);
	/*
	 * A seal is a member of the object. Formats that other tools define have no place for one and only end with a
	 * newline.
	 */
	if (!kinds[f->kind].sealed)
		buf_byte(&k.buf, '\n');
	else if (sink_seal(&k, e) < 0)
		return -1;
	if (sink_end(&k, f->sha256, e) < 0)
		return -1;
	f->bytes = k.bytes;
	return 0;
}

/* The survey comes first: every file uses its counts and its read models. */
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

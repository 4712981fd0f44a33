#ifndef BAILIFF_EVIDENCE_PACK_H
#define BAILIFF_EVIDENCE_PACK_H

/* The writers of the files; each writes one JSON object. */

#include "runtime/evidence/sink.h"
#include "runtime/evidence/survey.h"

int pack_write(struct survey *s, struct sink *k, struct err *e);
int replay_case_write(struct survey *s, struct sink *k, struct err *e);
int review_write(struct survey *s, struct sink *k, struct err *e);
int trajectory_write(struct survey *s, struct sink *k, struct err *e);
int trace_write(struct survey *s, struct sink *k, struct err *e);
int transcript_write(struct survey *s, struct sink *k, struct err *e);
int manifest_write(struct survey *s, struct sink *k, struct err *e);
/* The pack of a benchmark trial, after the job's other files, which it names by their hashes. */
int trial_write(struct survey *s, const struct evidence_job *job, struct sink *k, struct err *e);

/* Parts that several have: "ownerUids", "events", "readModels"; "toolCalls" and "failedToolCalls"; "families". */
int pack_write_log(struct survey *s, struct sink *k, struct err *e);
int pack_write_tool_calls(struct survey *s, struct sink *k, struct err *e);
void pack_write_families(const struct survey *s, struct jw *w);

/* The kinds of read models in a pack. */
struct pack_kind {
	unsigned kind;
	const char *name;
};
extern const struct pack_kind pack_kinds[];
extern const size_t pack_nkinds;

#endif

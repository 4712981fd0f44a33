#ifndef BAILIFF_EVIDENCE_PACK_H
#define BAILIFF_EVIDENCE_PACK_H

/*
 * The writers of the files. Each writes the members of one JSON object, whose braces are the caller's (evidence.c).
 * They run on the store's worker thread, call sink_yield after each element of a list so that the buffer stays small,
 * and on failure leave an incomplete object behind: the caller discards the file.
 */

#include "runtime/evidence/sink.h"
#include "runtime/evidence/survey.h"

#define EVIDENCE_KIND(KIND, name, member, write, sealed) \
	int write(struct survey *s, const struct evidence_job *job, struct sink *k, struct err *e);
#include "runtime/evidence/evidence_kinds.def"
#undef EVIDENCE_KIND

/* Members that several files have: "ownerUids", "events", "readModels"; "toolCalls" and "failedToolCalls"; "families"
 * and "verificationOutcomes". */
int pack_write_log(struct survey *s, struct sink *k, struct err *e);
int pack_write_tool_calls(struct survey *s, struct sink *k, struct err *e);
void pack_write_findings(const struct survey *s, struct jw *w);

/* The kinds of read models in a pack. */
struct pack_kind {
	unsigned kind;
	const char *name;
};
extern const struct pack_kind pack_kinds[];
extern const size_t pack_nkinds;

#endif

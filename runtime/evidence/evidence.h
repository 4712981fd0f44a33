#ifndef BAILIFF_EVIDENCE_EVIDENCE_H
#define BAILIFF_EVIDENCE_EVIDENCE_H

/*
 * Exports: files about a session, thread, turn or task that can be read, checked and replayed elsewhere. They contain
 * committed events and what follows from them, so the same events always give the same bytes: a file is identified by
 * the sha256 of its content, and who exported it and when is in evidence.changed, not in the file.
 *
 * survey.c      one pass over the events: counts, ids, families, and fresh read models of these events alone
 * pack.c        the evidence pack: events, their read models, and findings
 * replay_case.c, review.c, trajectory.c, trace.c, transcript.c, manifest.c, trial.c   the other files
 * sink.c        a file with its hash, written in pieces
 * pack_check.c  the opposite direction: projects a pack's events again and compares
 *
 * Everything runs in a background read of the store: memory is bounded by one document plus eight bytes per event.
 */

#include "runtime/base/hash.h"
#include "runtime/event/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct background_read;

enum evidence_kind {
#define EVIDENCE_KIND(KIND, name, member, write, sealed) EVIDENCE_##KIND,
#include "runtime/evidence/evidence_kinds.def"
#undef EVIDENCE_KIND
	EVIDENCE_KIND_COUNT
};
const char *evidence_kind_name(enum evidence_kind k);   /* "evidence_pack" */
const char *evidence_kind_member(enum evidence_kind k); /* "packRef" */

#define EVIDENCE_ID_MAX 72

struct evidence_scope {
	enum id_field field; /* ID_SESSION, ID_THREAD, ID_TURN or ID_TASK */
	char id[EVIDENCE_ID_MAX];
	char session_id[EVIDENCE_ID_MAX];
	uint64_t through; /* the last sequence to read; committed */
};

struct evidence_file {
	enum evidence_kind kind;
	char ref[ID_TEXT_MAX]; /* of its spool file */
	int fd;                /* −1 until it exists */
	uint64_t bytes;
	char sha256[HASH_SHA256_TEXT];
};

#define EVIDENCE_FILES_MAX 8

struct evidence_job {
	struct evidence_scope scope;
	struct evidence_file file[EVIDENCE_FILES_MAX];
	size_t nfiles;
	uint64_t events;   /* their number, once built */
	const char *trial; /* EVIDENCE_TRIAL: the document of the trial; else NULL */
};

/* Runs in the background read. Files stay open and in the spool even on failure: the caller owns them. */
int evidence_build(struct background_read *a, struct evidence_job *job, struct err *e);

#endif

#ifndef BAILIFF_EVIDENCE_EVIDENCE_H
#define BAILIFF_EVIDENCE_EVIDENCE_H

/*
 * Exports: what the log says about a session, thread, turn or task, written into files that can be read, checked and
 * replayed elsewhere. Everything comes from committed events alone, so the same events always give the same bytes: a
 * file is known by the sha256 of its content, and nothing in it says when or by whom it was made (evidence.changed
 * does).
 *
 * survey.c    one pass over the events: counts, ids, which event belongs to which family, and a fresh fold of them
 * pack.c      the evidence pack: the events themselves, the read models that they fold into, and what can be found in
 *             them
 * replay_case.c, review.c, trajectory.c, trace.c, transcript.c, manifest.c, trial.c   the other files
 * sink.c      a file with its hash, written in pieces
 * pack_check.c  the other direction: folds a pack's events again and compares
 *
 * All of it runs on the store's side thread (store_background_read): memory is bounded by one document and by eight
 * bytes an event.
 */

#include "runtime/base/hash.h"
#include "runtime/event/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct background_read;

enum evidence_kind {
	EVIDENCE_PACK,
	EVIDENCE_REPLAY,
	EVIDENCE_REVIEW,
	EVIDENCE_TRAJECTORY,
	EVIDENCE_TRACE,
	EVIDENCE_TRANSCRIPT,
	EVIDENCE_MANIFEST,
	EVIDENCE_TRIAL,
	EVIDENCE_KIND_COUNT
};
const char *evidence_kind_name(enum evidence_kind k);   /* "evidence_pack" */
const char *evidence_kind_member(enum evidence_kind k); /* "packRef": how results and events call its ref */

#define EVIDENCE_ID_MAX 72

struct evidence_scope {
	enum id_field field; /* ID_SESSION, ID_THREAD, ID_TURN or ID_TASK */
	char id[EVIDENCE_ID_MAX];
	char session_id[EVIDENCE_ID_MAX];
	uint64_t through; /* the last sequence that is looked at: committed */
};

struct evidence_file {
	enum evidence_kind kind;
	char ref[ID_TEXT_MAX]; /* of its spool file */
	int fd;                /* −1 until it was made */
	uint64_t bytes;
	char sha256[HASH_SHA256_TEXT];
};

#define EVIDENCE_FILES_MAX 8

struct evidence_job {
	struct evidence_scope scope;
	struct evidence_file file[EVIDENCE_FILES_MAX];
	size_t nfiles;
	uint64_t events;   /* how many there are, once it was built */
	const char *trial; /* EVIDENCE_TRIAL: the document of the trial; else NULL */
};

/* On the side thread. Files that were made stay open, and in the spool, also when it fails: they are the caller's. */
int evidence_build(struct background_read *a, struct evidence_job *job, struct err *e);

#endif

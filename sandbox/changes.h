#ifndef BAILIFF_SANDBOX_CHANGES_H
#define BAILIFF_SANDBOX_CHANGES_H

/*
 * What a copy-on-write run changed, as the spawner's helper tells the runtime: a flat list in a memfd, a head and then
 * one record a path. Paths are any bytes but NUL. Who reads it checks it first (changes_check): the helper works on
 * trees that a sandboxed command has made.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

#define CHANGES_MAGIC 0x47484342u /* "BCHG" */
#define CHANGES_VERSION 1u
#define CHANGES_BYTES_MAX (64u << 20)
#define CHANGES_RECORDS_MAX 50000u
#define CHANGES_PATH_MAX 4096u
#define CHANGES_NOTE_MAX 256u
#define CHANGES_DIFFED_MAX 100u /* diffs are made for the first so many */

/* X(GROUP, NAME, "name on the wire") */
#define CHANGES_OPS(X)                                                                                                \
	X(OP, LIST, "list")       /* what differs from the host */                                                    \
	X(OP, DIFF, "diff")       /* the same, with unified diffs */                                                  \
	X(OP, APPLY, "apply")     /* makes the host like it */                                                        \
	X(OP, DISCARD, "discard") /* forgets them */                                                                  \
	X(OP, REVERT, "revert") /* puts autorun files back (sandbox/autorun_report.h), of a run without an overlay */ \
	X(OP, DROP, "drop")     /* forgets everything of this process */                                              \
	X(OP, SWEEP, "sweep")   /* forgets every run but those named, instead of paths */
#define CHANGES_KINDS(X) X(KIND, ADDED, "added") X(KIND, MODIFIED, "modified") X(KIND, DELETED, "deleted")
#define CHANGES_TYPES(X) \
	X(TYPE, FILE, "file") X(TYPE, FOLDER, "directory") X(TYPE, SYMLINK, "symlink") X(TYPE, OTHER, "other")
#define CHANGES_OUTCOMES(X)            \
	X(OUTCOME, PENDING, "pending") \
	X(OUTCOME, APPLIED, "applied") \
	X(OUTCOME, DISCARDED, "discarded") X(OUTCOME, CONFLICT, "conflict") X(OUTCOME, REVERTED, "reverted")

#define CHANGES_ENUM(group, name, text) CHANGES_##group##_##name,
enum changes_op { CHANGES_OPS(CHANGES_ENUM) CHANGES_OP_COUNT };
enum changes_kind { CHANGES_KINDS(CHANGES_ENUM) CHANGES_KIND_COUNT };
enum changes_type { CHANGES_TYPES(CHANGES_ENUM) CHANGES_TYPE_COUNT };
enum changes_outcome { CHANGES_OUTCOMES(CHANGES_ENUM) CHANGES_OUTCOME_COUNT };
#undef CHANGES_ENUM

const char *changes_op_name(enum changes_op op);
/* Those that change something are done only for a client that is there. */
static inline bool changes_op_needs_client(enum changes_op op)
{
	return op == CHANGES_OP_APPLY || op == CHANGES_OP_DISCARD || op == CHANGES_OP_REVERT;
}
const char *changes_kind_name(enum changes_kind kind);
const char *changes_type_name(enum changes_type type);
const char *changes_outcome_name(enum changes_outcome outcome);

struct changes_head {
	uint32_t magic, version;
	uint32_t total_len;
	uint32_t count;                     /* records that follow */
	uint64_t kinds[CHANGES_KIND_COUNT]; /* how many there are of each, also those without a record */
	uint64_t outcomes[CHANGES_OUTCOME_COUNT];
};

struct change {
	enum changes_kind kind;
	enum changes_type type;
	enum changes_outcome outcome;
	uint32_t mode, old_mode; /* st_mode; 0 = there is none */
	uint64_t bytes;
	const char *path; /* absolute; not terminated */
	const char *note; /* why it is a conflict */
	const char *diff; /* with its header */
	size_t path_len, note_len, diff_len;
};

/* Writing: begin, add …, end. What is past the bounds is counted and left out; a diff is left out first. */
void changes_begin(struct buf *out);
void changes_add(struct buf *out, const struct change *c);
void changes_end(struct buf *out);

int changes_check(const void *list, size_t len, struct err *e);
/* After the check: the record at *at (0 to begin with); false at the end. */
bool changes_next(const void *list, size_t *at, struct change *ret);

/* Whether a path is one of these, or lies below one: NUL-terminated strings one after another. An empty list holds all.
 */
bool changes_selected(const char *paths, size_t len, const char *path, size_t path_len);
/* Whether it is exactly one of these. */
bool changes_named(const char *paths, size_t len, const char *path, size_t path_len);
/* Of a request to apply: a path behind this, after all others, is held back, because something outside executes it. */
#define CHANGES_HELD '!'
/* Or is above one, so that something below may be. */
bool changes_leads_to(const char *paths, size_t len, const char *path, size_t path_len);

#endif

#ifndef BAILIFF_SANDBOX_CHANGE_LIST_H
#define BAILIFF_SANDBOX_CHANGE_LIST_H

/*
 * What a copy-on-write run changed, as the spawner's helper tells the runtime: a flat list in a memfd, a head and then
 * one record a path. Paths are any bytes but NUL. Who reads it checks it first (change_list_check): the helper works on
 * trees that a sandboxed command has made.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

#define CHANGE_LIST_MAGIC 0x47484342u /* "BCHG" */
#define CHANGE_LIST_VERSION 1u
#define CHANGE_LIST_BYTES_MAX (64u << 20)
#define CHANGE_LIST_RECORDS_MAX 50000u
#define CHANGE_PATH_MAX 4096u
#define CHANGE_NOTE_MAX 256u
#define CHANGE_LIST_DIFFED_MAX 100u /* diffs are made for the first so many */

/* X(GROUP, NAME, "name on the wire") */
#define CHANGE_OPS(X)                                                                                                 \
	X(OP, LIST, "list")       /* what differs from the host */                                                    \
	X(OP, DIFF, "diff")       /* the same, with unified diffs */                                                  \
	X(OP, APPLY, "apply")     /* makes the host like it */                                                        \
	X(OP, DISCARD, "discard") /* forgets them */                                                                  \
	X(OP, REVERT, "revert") /* puts autorun files back (sandbox/autorun_report.h), of a run without an overlay */ \
	X(OP, DROP, "drop")     /* forgets everything of this process */                                              \
	X(OP, SWEEP, "sweep")   /* forgets every run but those named, instead of paths */
#define CHANGE_KINDS(X) X(KIND, ADDED, "added") X(KIND, MODIFIED, "modified") X(KIND, DELETED, "deleted")
#define CHANGE_TYPES(X) \
	X(TYPE, FILE, "file") X(TYPE, FOLDER, "directory") X(TYPE, SYMLINK, "symlink") X(TYPE, OTHER, "other")
#define CHANGE_OUTCOMES(X)             \
	X(OUTCOME, PENDING, "pending") \
	X(OUTCOME, APPLIED, "applied") \
	X(OUTCOME, DISCARDED, "discarded") X(OUTCOME, CONFLICT, "conflict") X(OUTCOME, REVERTED, "reverted")

#define CHANGE_ENUM(group, name, text) CHANGE_##group##_##name,
enum change_op { CHANGE_OPS(CHANGE_ENUM) CHANGE_OP_COUNT };
enum change_kind { CHANGE_KINDS(CHANGE_ENUM) CHANGE_KIND_COUNT };
enum change_type { CHANGE_TYPES(CHANGE_ENUM) CHANGE_TYPE_COUNT };
enum change_outcome { CHANGE_OUTCOMES(CHANGE_ENUM) CHANGE_OUTCOME_COUNT };
#undef CHANGE_ENUM

const char *change_op_name(enum change_op op);
/* Those that change something are done only for a client that is there. */
static inline bool change_op_needs_client(enum change_op op)
{
	return op == CHANGE_OP_APPLY || op == CHANGE_OP_DISCARD || op == CHANGE_OP_REVERT;
}
const char *change_kind_name(enum change_kind kind);
const char *change_type_name(enum change_type type);
const char *change_outcome_name(enum change_outcome outcome);

struct change_list_head {
	uint32_t magic, version;
	uint32_t total_len;
	uint32_t count;                    /* records that follow */
	uint64_t kinds[CHANGE_KIND_COUNT]; /* how many there are of each, also those without a record */
	uint64_t outcomes[CHANGE_OUTCOME_COUNT];
};

struct change {
	enum change_kind kind;
	enum change_type type;
	enum change_outcome outcome;
	uint32_t mode, old_mode; /* st_mode; 0 = there is none */
	uint64_t bytes;
	const char *path; /* absolute; not terminated */
	const char *note; /* why it is a conflict */
	const char *diff; /* with its header */
	size_t path_len, note_len, diff_len;
};

/* Writing: begin, add …, end. What is past the bounds is counted and left out; a diff is left out first. */
void change_list_begin(struct buf *out);
void change_list_add(struct buf *out, const struct change *c);
void change_list_end(struct buf *out);

int change_list_check(const void *list, size_t len, struct err *e);
/* After the check: the record at *at (0 to begin with); false at the end. */
bool change_list_next(const void *list, size_t *at, struct change *ret);

/* Whether a path is one of these, or lies below one: NUL-terminated strings one after another. An empty list holds all.
 */
bool change_list_selects(const char *paths, size_t len, const char *path, size_t path_len);
/* Whether it is exactly one of these. */
bool change_list_names(const char *paths, size_t len, const char *path, size_t path_len);
/* Of a request to apply: a path behind this, after all others, is held back, because something outside executes it. */
#define CHANGE_LIST_EXCLUDED '!'
/* Or is above one, so that something below may be. */
bool change_list_leads_to(const char *paths, size_t len, const char *path, size_t path_len);

#endif

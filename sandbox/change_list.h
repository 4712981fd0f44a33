#ifndef BAILIFF_SANDBOX_CHANGE_LIST_H
#define BAILIFF_SANDBOX_CHANGE_LIST_H

/*
 * The changes of a copy-on-write run, as the spawner's helper reports them to the runtime: a flat list in a memfd, with
 * a head and one record per path. Paths can contain any byte but NUL. The reader must validate it first
 * (change_list_check), because the helper processes trees that a sandboxed command created.
 */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

#define CHANGE_LIST_MAGIC 0x47484342u /* "BCHG" */
#define CHANGE_LIST_VERSION 4u
#define CHANGE_LIST_BYTES_MAX (64u << 20)
#define CHANGE_LIST_RECORDS_MAX 50000u
#define CHANGE_PATH_MAX 4096u
#define CHANGE_NOTE_MAX 256u
#define CHANGE_LIST_DIFFED_MAX 100u /* only the first ones get a diff */

/* X(GROUP, NAME, "name on the wire") */
#define CHANGE_OPS(X)                                                                                                  \
	X(OP, LIST, "list")       /* what differs from the host */                                                     \
	X(OP, DIFF, "diff")       /* the same, with unified diffs */                                                   \
	X(OP, APPLY, "apply")     /* applies the changes to the host */                                                \
	X(OP, DISCARD, "discard") /* discards the changes */                                                           \
	X(OP, REVERT, "revert") /* restores autorun files (sandbox/autorun_report.h) after a run without an overlay */ \
	X(OP, DROP, "drop")     /* removes everything of this process */                                               \
	X(OP, SWEEP, "sweep")   /* removes every run except those named, instead of paths */                           \
	X(OP, COPY, "copy")     /* copies the run to the id that is named, with a budget, instead of paths */          \
	X(OP, UNDO, "undo")     /* restores what the newest apply replaced */
#define CHANGE_KINDS(X) X(KIND, ADDED, "added") X(KIND, MODIFIED, "modified") X(KIND, DELETED, "deleted")
#define CHANGE_TYPES(X) \
	X(TYPE, FILE, "file") X(TYPE, FOLDER, "directory") X(TYPE, SYMLINK, "symlink") X(TYPE, OTHER, "other")
#define CHANGE_OUTCOMES(X)                 \
	X(OUTCOME, PENDING, "pending")     \
	X(OUTCOME, APPLIED, "applied")     \
	X(OUTCOME, DISCARDED, "discarded") \
	X(OUTCOME, CONFLICT, "conflict")   \
	X(OUTCOME, REVERTED, "reverted")   \
	X(OUTCOME, UNDONE, "undone") X(OUTCOME, UNCHANGED, "unchanged") /* REVERT: it was as before the run already */

#define CHANGE_ENUM(group, name, text) CHANGE_##group##_##name,
enum change_op { CHANGE_OPS(CHANGE_ENUM) CHANGE_OP_COUNT };
enum change_kind { CHANGE_KINDS(CHANGE_ENUM) CHANGE_KIND_COUNT };
enum change_type { CHANGE_TYPES(CHANGE_ENUM) CHANGE_TYPE_COUNT };
enum change_outcome { CHANGE_OUTCOMES(CHANGE_ENUM) CHANGE_OUTCOME_COUNT };
#undef CHANGE_ENUM

#define CHANGE_HELPERS_MAX 8u /* requests at a time; the runtime keeps the others until one is answered */
#define CHANGE_COPIES_MAX 4u  /* copies at a time: they can take long, and occupy helpers that others wait for */

/*
 * COPY: the answer for a copy that exceeds the budget in bytes, which the request has as a decimal number after the id.
 * No system call that a copy makes fails with it.
 */
#define COW_OVER_BUDGET E2BIG

const char *change_op_name(enum change_op op);
/* Operations that change something require a client that is connected. */
static inline bool change_op_needs_client(enum change_op op)
{
	return op == CHANGE_OP_APPLY || op == CHANGE_OP_DISCARD || op == CHANGE_OP_REVERT || op == CHANGE_OP_UNDO;
}
const char *change_kind_name(enum change_kind kind);
const char *change_type_name(enum change_type type);
const char *change_outcome_name(enum change_outcome outcome);

struct change_list_undo {
	uint32_t applies;     /* number of applies of the run that can be undone */
	uint32_t error;       /* errno: why this apply cannot be undone */
	uint32_t interrupted; /* the apply that was undone had not been completed */
	uint32_t damaged;     /* number of the apply whose journal is damaged, so that nothing was undone; 0: none */
	uint64_t damaged_at;  /* the first byte that cannot be read */
};

struct change_list_head {
	uint32_t magic, version;
	uint32_t total_len;
	uint32_t count;                    /* number of records */
	uint64_t kinds[CHANGE_KIND_COUNT]; /* number of changes of each kind, including those without a record */
	uint64_t outcomes[CHANGE_OUTCOME_COUNT];
	struct change_list_undo undo;
};

struct change {
	enum change_kind kind;
	enum change_type type;
	enum change_outcome outcome;
	uint32_t mode, old_mode; /* st_mode; 0 = no such entry */
	uint64_t bytes;
	const char *path; /* absolute; not terminated */
	const char *note; /* the reason for a conflict */
	const char *diff; /* with its header */
	size_t path_len, note_len, diff_len;
};

/* Writing: begin, add …, end. Records beyond the limits are counted and left out; diffs are left out first. */
void change_list_begin(struct buf *out);
void change_list_add(struct buf *out, const struct change *c);
void change_list_end(struct buf *out);
void change_list_set_undo(struct buf *out, const struct change_list_undo *undo);

int change_list_check(const void *list, size_t len, struct err *e);
/* Call after the check: the record at *at (initially 0); false at the end. */
bool change_list_next(const void *list, size_t *at, struct change *ret);

/*
 * Whether a path is one of these or below one. `paths` are NUL-terminated strings one after another; an empty list
 * selects all.
 */
bool change_list_selects(const char *paths, size_t len, const char *path, size_t path_len);
/* Whether it is exactly one of these. */
bool change_list_names(const char *paths, size_t len, const char *path, size_t path_len);
/*
 * In a request to apply: paths with this prefix, after all others, are held back, because a program outside executes
 * them.
 */
#define CHANGE_LIST_EXCLUDED '!'
/* Likewise, every file with a name in autorun.def: it is not known which were changed. */
#define CHANGE_LIST_BY_NAME "!"
/* Whether a path is above one of these, so that something below may be selected. */
bool change_list_leads_to(const char *paths, size_t len, const char *path, size_t path_len);

#endif

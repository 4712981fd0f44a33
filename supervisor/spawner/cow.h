#ifndef BAILIFF_SUPERVISOR_SPAWNER_COW_H
#define BAILIFF_SUPERVISOR_SPAWNER_COW_H

/*
 * Copy-on-write runs in the spawner: where their changes are stored (sandbox/cow_layout.h), and how they are shown,
 * applied and discarded. A helper process is forked for each such request, because the work can take long, handles
 * trees that a sandboxed command created, and has to assume the identity of the changes' owner before it touches a host
 * file.
 *
 * cow.c manages the directories and forks helpers; cow_walk.c finds the differences; cow_apply.c applies them to the
 * host, cow_put.c each entry; cow_undo.h is about undoing that; cow_show.c writes diffs; cow_copy.c copies a run;
 * cow_remove.c removes trees. revert.c restores autorun files changed by runs without an overlay.
 */

#include "sandbox/autorun_report.h"
#include "sandbox/change_list.h"
#include "sandbox/cow_layout.h"
#include "sandbox/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

struct buf;
struct cow_undo;
struct err;
struct plan_head;
struct spawn_identity;
struct spawn_msg;

struct cow {
	int fd;              /* the directory of all runs; −1 = not available */
	char path[PATH_MAX]; /* its path: sandboxes resolve it in their own mount namespace */
	bool privileged;
	uint8_t key[AUTORUN_SEAL_BYTES]; /* seals reports on autorun files (revert.h) */
	struct cow_helper {
		int pidfd;   /* −1 = unused slot */
		bool copies; /* only CHANGE_COPIES_MAX do, the others are for short requests */
		struct plan_key key;
	} helpers[CHANGE_HELPERS_MAX];
};

void cow_init(struct cow *c, int fd, bool privileged);
/*
 * Creates the directories of a run that is about to start and returns the run directory's descriptor and path. `peer`
 * is the requesting client's identity, root included. With PLAN_COW_COPY the directory is one that CHANGE_OP_COPY has
 * made: it must be of changes of this peer, with as many write roots; the init checks that they are the same ones.
 */
int cow_prepare(struct cow *c, const char *id, const struct plan_head *plan, const struct spawn_identity *peer,
		char path[PATH_MAX], int *ret_fd, struct err *e);
/* Removes the directories of a run whose start failed. */
void cow_forget(struct cow *c, const char *id);

/*
 * Handles a CHANGES message. Its descriptors: paths, result and, for operations that change anything, the client.
 * Returns 0, or an errno if no helper was started.
 */
int cow_start(struct cow *c, const struct spawn_msg *m, const int *fds);
/* Fills `fds` (CHANGE_HELPERS_MAX entries) with descriptors to poll; returns how many. */
size_t cow_polls(const struct cow *c, int *fds);
/* The helper behind this descriptor exited: fills the key and the error of the reply. */
bool cow_reap(struct cow *c, int pidfd, struct spawn_msg *answer);

/* ---- in the helper ---- */

#define COW_DEPTH_MAX 256

/* One request in progress. */
struct cow_walk {
	enum change_op op;
	const char *paths; /* the selected paths, NUL-terminated, one after another; empty = all */
	size_t paths_len;
	const char *held; /* paths not to apply, each after CHANGE_LIST_EXCLUDED */
	size_t held_len;
	struct timespec started;
	struct buf *out;
	struct cow_undo *undo;          /* keeps what an apply replaces */
	char path[CHANGE_PATH_MAX + 2]; /* absolute path of the current entry */
	size_t path_len, root_len;
	unsigned depth;
	bool chosen; /* a parent directory was selected, so everything below is, too */
};

/* A path that differs: its entries in the upper layer and on the host. */
struct cow_spot {
	int upper_dir, host_dir;       /* host_dir −1: no such directory */
	const char *name, *upper_name; /* equal, except in an undo */
	enum change_kind kind;
	enum change_type type;
	bool in_upper;            /* false: gone because its directory was replaced */
	bool opaque;              /* a directory that replaces one */
	bool replaces;            /* an entry of another type, which is removed first */
	bool touched;             /* the host's entry may have changed */
	bool visited;             /* it is selected, and reported */
	bool same;                /* not a difference: an apply only removes it from the upper layer */
	bool below;               /* the walk continues below it */
	bool ready;               /* an apply has recorded it */
	bool prepared;            /* the new entry is there, under its temporary name */
	bool in_place;            /* it is to be written in place */
	int unsynced;             /* the new file until it is synced; −1: none */
	uint32_t record, records; /* in the journal: the first one, and how many */
	char temporary[64];
	struct cow_undo *undo;
	struct stat upper, host; /* st_mode 0 = no entry */
	struct stat folder;      /* the host's folder, once it was put */
	enum change_outcome outcome;
	char note[CHANGE_NOTE_MAX];
};

/* Visits every difference below one write root. Returns −1 with errno. */
int cow_walk_root(struct cow_walk *w, int upper, int host);
bool cow_whiteout(const struct stat *st);

/*
 * Applies differences of one directory, `host`: cow_apply_begin for each, which checks and records it, and
 * cow_apply_batch for up to COW_BATCH_MAX of them. They fill outcome and note.
 */
#define COW_BATCH_MAX 128u
void cow_apply_begin(struct cow_walk *w, struct cow_spot *s);
void cow_apply_batch(struct cow_walk *w, int host, struct cow_spot *spots, size_t n);
void cow_discard(struct cow_walk *w, struct cow_spot *s);
void cow_set_conflict(struct cow_spot *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/*
 * Puts the upper entry on the host; sets the outcome only if that fails. In two steps: cow_put_prepare, sync
 * s->unsynced, then cow_put_finish or cow_put_cancel.
 */
void cow_put(struct cow_spot *s);
void cow_put_prepare(struct cow_spot *s);
void cow_put_finish(struct cow_spot *s);
void cow_put_cancel(struct cow_spot *s);
/* Whether syncfs does what fsync does for each file, and reports its errors. */
bool cow_syncs_as_whole(int fd);
/* Makes files of one file system durable. −1 with errno. */
int cow_sync(const int *fds, size_t n);
/* Whether the host's entry is still the one that the walk found. */
bool cow_still_same(const struct cow_spot *s);
/* Calls fn for each entry of a directory until it returns non-zero; returns that value, or −1 with errno. */
int cow_each_entry(int folder, int (*fn)(void *ctx, int folder, const char *name), void *ctx);
/*
 * Opens a directory and gives its owner access for the time of the work in it, whatever its mode. Returns the mode to
 * restore, or 0; *ret is −1 on failure. If it is not `wanted` (unless that is NULL), fails with ESTALE.
 */
mode_t cow_open_up(int dir, const char *name, const struct stat *wanted, int *ret);
/*
 * Sets the mode of a host directory after everything below it was applied. `before` is the mode that it had, or 0 if
 * the walk did not change it.
 */
void cow_finish_folder(struct cow_spot *s, int host, mode_t before);
/* Called after everything below an upper directory was visited. */
void cow_leave_folder(const struct cow_walk *w, const struct cow_spot *s, bool was_meant);
/* Opens an upper file for reading, whatever mode its owner left it with. */
int cow_open_upper(const struct cow_spot *s);
/* Opens a directory below `dir` without following links or crossing into another file system; −1 with errno. */
int cow_open_folder(int dir, const char *name);
/* Removes an upper tree, whatever its modes. */
int cow_remove(int dir, const char *name);
/* Removes a tree of the host; ESTALE if another directory is at its name, where the owner of `dir` can put one. */
int cow_remove_found(int dir, const char *name, const struct stat *found);

/*
 * Copies a run, or a copy of one, to a new directory `to` in the directory of all runs. −1 with errno, and nothing is
 * left of the copy. COW_OVER_BUDGET: it and the other copies of its owner would need more than `budget` bytes (0 = no
 * limit).
 */
int cow_copy(int folder, int run, const struct cow_owner *owner, const char *to, uint64_t budget);
/* Copies a file's content to an empty one. Shares the blocks where the file system can; otherwise holes stay holes. */
int cow_copy_data(int from, int to, off_t size);

/* Writes a diff with its header if both versions are text and not too long. */
void cow_diff(const struct cow_walk *w, const struct cow_spot *s, struct buf *out);

#endif

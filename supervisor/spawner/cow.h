#ifndef BAILIFF_SUPERVISOR_SPAWNER_COW_H
#define BAILIFF_SUPERVISOR_SPAWNER_COW_H

/*
 * Copy-on-write runs, on the spawner's side: where their changes are kept (sandbox/cow_layout.h), and what is done with
 * them afterwards. That work is a process of its own, forked for one request: it may take long, it works on trees that
 * a sandboxed command has made, and it takes on the identity of whom the changes belong to before it touches a file of
 * the host's.
 *
 * cow.c keeps the folders and forks; cow_walk.c finds what differs; cow_apply.c brings it to the host; cow_show.c
 * writes diffs. revert.c puts autorun files back that runs without an overlay changed.
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
struct err;
struct plan_head;
struct spawn_identity;
struct spawn_msg;

#define COW_HELPERS_MAX 8

struct cow {
	int fd;              /* the folder; −1 = there is none */
	char path[PATH_MAX]; /* where it is: sandboxes look it up in a mount namespace of their own */
	bool privileged;
	uint8_t key[AUTORUN_SEAL_BYTES]; /* seals reports on autorun files (revert.h) */
	struct cow_helper {
		int pidfd; /* −1 = a free place */
		struct plan_key key;
	} helpers[COW_HELPERS_MAX];
};

void cow_init(struct cow *c, int fd, bool privileged);
/* Makes the folders of a run that is about to start: its folder's descriptor and path. `peer` is who asks, also when
 * that is root. */
int cow_prepare(struct cow *c, const char *id, const struct plan_head *plan, const struct spawn_identity *peer,
		char path[PATH_MAX], int *ret_fd, struct err *e);
/* A start that failed leaves none. */
void cow_forget(struct cow *c, const char *id);

/* A CHANGES message, whose descriptors are: paths, result, and for what changes anything the client. 0, or an errno: no
 * helper runs. */
int cow_start(struct cow *c, const struct spawn_msg *m, const int *fds);
/* How many places of `fds` (COW_HELPERS_MAX) were filled with descriptors to poll. */
size_t cow_polls(const struct cow *c, int *fds);
/* The helper behind this descriptor ended: fills the answer's key and error. */
bool cow_reap(struct cow *c, int pidfd, struct spawn_msg *answer);

/* ---- inside the helper ---- */

#define COW_DEPTH_MAX 256

/* One request at work. */
struct cow_walk {
	enum change_op op;
	const char *paths; /* those that are meant: NUL-terminated, one after another; none = all */
	size_t paths_len;
	const char *held; /* what is not to be applied, each behind CHANGE_LIST_EXCLUDED */
	size_t held_len;
	struct timespec started;
	struct buf *out;
	char path[CHANGE_PATH_MAX + 2]; /* absolute, of what is at hand */
	size_t path_len, root_len;
	unsigned depth;
	bool chosen; /* something above was named, so everything here is meant */
};

/* A path that differs: where it is above (upper) and below (host), and what is there. */
struct cow_spot {
	int upper_dir, host_dir; /* host_dir −1: there is no such folder */
	const char *name;
	enum change_kind kind;
	enum change_type type;
	bool in_upper;           /* false: gone because its folder was replaced */
	bool opaque;             /* a folder that replaces one */
	struct stat upper, host; /* st_mode 0 = nothing there */
	enum change_outcome outcome;
	char note[CHANGE_NOTE_MAX];
};

/* Visits what differs below one write root. −1 with errno. */
int cow_walk_root(struct cow_walk *w, int upper, int host);
bool cow_whiteout(const struct stat *st);

/* One difference, for each op: fills outcome and note. */
void cow_apply(struct cow_walk *w, struct cow_spot *s);
void cow_discard(struct cow_walk *w, struct cow_spot *s);
/* A folder of the host's gets its mode once everything below it is there; `before` is what it had, 0 if that was left
 * alone. */
void cow_finish_folder(struct cow_spot *s, int host, mode_t before);
/* After everything below a folder of the upper layer was visited. */
void cow_leave_folder(const struct cow_walk *w, const struct cow_spot *s, bool was_meant);
/* A file of the upper layer to read, whatever mode its owner has left it with. */
int cow_open_upper(const struct cow_spot *s);
/* A folder below `dir`, never through a link and never onto another file system; −1 with errno. */
int cow_open_folder(int dir, const char *name);
/* Removes a tree of the upper layer, whatever its modes. */
int cow_remove(int dir, const char *name);

/* A diff with its header, where both versions are text and not too long. */
void cow_diff(const struct cow_walk *w, const struct cow_spot *s, struct buf *out);

#endif

#ifndef BAILIFF_SANDBOX_AUTORUN_H
#define BAILIFF_SANDBOX_AUTORUN_H

/*
 * Did a command change autorun files (autorun.def)? They are examined before it runs and after the last of its
 * processes is gone.
 *
 * What can be made read-only in a write root is (profiles.def: protected paths). The rest cannot: repositories that do
 * not exist yet or are too many or too deep, bare ones, files whose mere presence would change what a tool does, and
 * protected files that the host replaces by rename while the command runs, which takes the mount on them away. This
 * comparison covers all of it.
 *
 * The sandbox's init does it, from inside the sandbox and with the command's own rights. So nothing is read that the
 * command could not read itself, a link put in the way leads nowhere new, a copy-on-write run is seen as it would be
 * applied, and neither runtime nor spawner has to be there. What the command can write, it can also read or make
 * readable, but for folders that it shuts; those are counted as not examined.
 *
 * The search goes through the write roots level by level, nearest first, folders of dependencies last, within bounds of
 * folders and time. Whatever was found before the run is looked at again by its path, so the bounds only limit how deep
 * something *new* is found; that they were reached is part of the report. Where the first search was incomplete, a file
 * that only the second one finds counts as new if its inode changed since the command began (ctime cannot be set back
 * by a command).
 *
 * Limits: two commands that run in the same write root at the same time can move files out of each other's way while
 * one is being examined. And who changed a file is not known, only that it changed while the command ran.
 */

#include "sandbox/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AUTORUN_FILES_MAX 4096u
#define AUTORUN_FOLDERS_MAX 8192u
#define AUTORUN_ENTRIES_MAX 262144u
#define AUTORUN_SEARCH_MS 1000u
#define AUTORUN_KEPT_MAX (64u << 10) /* a file that is longer is known by its digest and cannot be reverted */
#define AUTORUN_KEY_BYTES 32u

/* What the init says in STATUS_EXITED. */
enum autorun_state {
	AUTORUN_NONE = 0,   /* the command had nothing to write in, or no sandbox */
	AUTORUN_SAME = 1,   /* everything was examined and nothing changed */
	AUTORUN_REPORT = 2, /* a report (autorun_report.h) comes with the message */
	AUTORUN_FAILED = 3, /* not examined */
};

struct autorun;

/* The plan must outlive it. NULL: there is no room for it. */
struct autorun *autorun_new(const struct plan_head *plan);
/* Where this process's descriptors are to be found if not in /proc/self/fd; the caller's. */
void autorun_use_fds(struct autorun *a, int self_fds);
void autorun_free(struct autorun *a);
/* Whether the plan lets a command write anything of the host's. */
bool autorun_applies(const struct plan_head *plan);

/* Before the command runs. */
void autorun_before(struct autorun *a);
/* After it ended: true = something changed, or not everything was examined. Once. */
bool autorun_after(struct autorun *a);

struct buf;
/* The report of what autorun_after found, sealed with the key for whom it concerns. */
void autorun_write(const struct autorun *a, uint32_t uid, uint32_t gid, const uint8_t key[AUTORUN_KEY_BYTES],
		   struct buf *out);

#endif

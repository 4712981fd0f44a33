#ifndef BAILIFF_SANDBOX_AUTORUN_H
#define BAILIFF_SANDBOX_AUTORUN_H

/*
 * Detects whether a command changed autorun files (autorun.def) by examining them before it runs and after its last
 * process is gone.
 *
 * Autorun files in a write root are made read-only where possible (profiles.def: protected paths). That is not possible
 * for repositories that do not exist yet or are too many or too deep, for bare repositories, for files whose mere
 * presence would change what a tool does, and for protected files that the host replaces by rename while the command
 * runs, which removes the mount on them. This comparison covers all of these.
 *
 * The sandbox's init does it from inside the sandbox with the command's own rights. So nothing is read that the command
 * could not read itself, a planted link leads nowhere new, a copy-on-write run is seen as it would be applied, and
 * neither runtime nor spawner needs to be alive. A file that the command can write, it can also read or make readable,
 * except for directories whose permissions it removes; those are counted as not examined.
 *
 * The search covers the write roots level by level, nearest first, dependency directories last, with limits on
 * directories and time. Every file found before the run is examined again by its path, so the limits only restrict how
 * deep a *new* file is found; the report states that a limit was reached. If the first search was incomplete, a file
 * that only the second one finds counts as new if its inode changed since the command began (a command cannot set ctime
 * back).
 *
 * A folder without autorun files that is not a git directory is not read again while its identity and ctime are those
 * of an earlier search of the same sandbox, on file systems where that proves that its names are the same; only the
 * folders in it are visited. Everything else is read in every search.
 *
 * Limitations: two commands that run in the same write root at the same time can move files while the other is being
 * examined. And the comparison shows only that a file changed while the command ran, not which process changed it.
 */

#include "sandbox/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AUTORUN_FILES_MAX 4096u
#define AUTORUN_FOLDERS_MAX 8192u
#define AUTORUN_ENTRIES_MAX 262144u
#define AUTORUN_SEARCH_MS 1000u
#define AUTORUN_KEPT_MAX (64u << 10) /* a longer file is represented by its digest and cannot be reverted */
#define AUTORUN_KEY_BYTES 32u

/* Sent by the init in STATUS_EXITED. */
enum autorun_state {
	AUTORUN_NONE = 0,   /* no sandbox, or no write root */
	AUTORUN_SAME = 1,   /* everything was examined and nothing changed */
	AUTORUN_REPORT = 2, /* a report (autorun_report.h) is attached to the message */
	AUTORUN_FAILED = 3, /* not examined */
};

struct autorun;

/* The plan must outlive it. NULL if memory cannot be mapped. */
struct autorun *autorun_new(const struct plan_head *plan);
/* Where to find this process's descriptors if not in /proc/self/fd; stays the caller's. */
void autorun_use_fds(struct autorun *a, int self_fds);
/* Prepares it for another command in the same sandbox, which takes less time than a new one. */
void autorun_reset(struct autorun *a, const struct plan_head *plan);
/* Whether the plan lets a command write any host file. */
bool autorun_applies(const struct plan_head *plan);

/* Before the command runs. */
void autorun_before(struct autorun *a);
/* After it ended: true if something changed or not everything was examined. Call once. */
bool autorun_after(struct autorun *a);

/*
 * Whether a file's name alone makes it one, of whichever folder. `is_git` tells whether the directory so many levels
 * above the file's is a git directory, which a bare repository's name does not say. Every file with the name of a git
 * hook is one: core.hooksPath can be in any configuration. Other files that a link or a configuration leads to are not
 * recognised in this way.
 */
typedef bool (*autorun_is_git_fn)(void *ctx, size_t levels);
bool autorun_name_matches(const char *path, autorun_is_git_fn is_git, void *ctx);
/* The names of git hooks, one after another; NULL at the end. */
const char *autorun_hook_name(size_t i);

struct buf;
/* Writes the report of what autorun_after found, sealed with the key, for the run's owner. */
void autorun_write(const struct autorun *a, uint32_t uid, uint32_t gid, const uint8_t key[AUTORUN_KEY_BYTES],
		   struct buf *out);

#endif

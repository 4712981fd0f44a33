#ifndef BAILIFF_SPAWNER_MOUNT_WATCH_H
#define BAILIFF_SPAWNER_MOUNT_WATCH_H

/*
 * Watches the mounts of a session sandbox. Nothing inside can mount or unmount. But when a file or directory is removed
 * or replaced on the host, the kernel unmounts what is mounted on it everywhere, and with it the protection of that
 * path: the sandbox is no longer what it was created as.
 *
 * A mount may go if it protects nothing:
 *
 * - A mount of the host below a tree that the sandbox shows read-only, such as an unplugged drive whose mount point was
 *   removed. What is then at its place is shown as the rest of that tree, read-only, as a new sandbox would show it. A
 *   mount that is named by the plan, or has a path of the plan in it, is not meant: something was hidden or protected
 *   there.
 * - The file that names the refusing resolver (sandbox/steps/step_root.c). Some network managers replace
 *   /etc/resolv.conf whenever a lease is renewed. The sandbox then shows the host's name servers, which it cannot
 *   reach; names still cannot be looked up, but that is no longer reported.
 * - The account files (sandbox/steps/step_accounts.c), which the host replaces when it adds a user. The id of the
 *   commands then has no name.
 *
 * A mount also stops protecting a path when the host renames it, or a folder that contains it: the mount moves along,
 * and the kernel reports nothing. So the places of mounts are compared before each command.
 *
 * The same applies to what is shown. When the host moves, replaces or removes a write root, or a folder that contains
 * it, the sandbox continues to show what was there. So the holder keeps a descriptor of each root as it is on the host
 * (sandbox/steps/step_trees.c), whose path the kernel keeps up to date, and compares that, too. The descriptor can be
 * used for nothing else: the Landlock domain does not have the folders above the root, and no member can take it from
 * the holder, which is not dumpable. It does not find that something was mounted on the path, or unmounted.
 *
 * Nothing can be mounted on a hidden path that does not exist, and nothing has to be where commands cannot create it.
 * But the host can. So it must still be missing before each command. The leader of that command examines that, because
 * the file system may not answer.
 */

#include "runtime/base/buf.h"
#include "sandbox/plan.h"
#include "sandbox/status.h"

#include <stdbool.h>
#include <stddef.h>

struct step_context;

/* A part of a text of mountinfo. */
struct mount_part {
	const char *at;
	size_t len;
};

/* The words of "36 35 0:52 ROOT PLACE OPTIONS …", each with the blank after it. */
enum { MOUNT_ID, MOUNT_PARENT, MOUNT_DEVICE, MOUNT_ROOT, MOUNT_PLACE, MOUNT_OPTIONS, MOUNT_WORDS };

struct mount_line {
	struct mount_part word[MOUNT_WORDS];
	unsigned long id, parent;
};

struct mount_table {
	struct buf text; /* mountinfo */
	struct mount_line *line;
	size_t count;
};

#define MOUNT_WATCH_PLACES 64u

struct mount_place {
	int fd;     /* O_PATH: its link in /proc is the present path */
	char *path; /* what that was at first */
};

struct mount_watch {
	const struct step_context *steps;
	int fd; /* polls as POLLPRI when mounts have changed */
	struct mount_table known;
	int links_fd;                                 /* the init's own /proc/self/fd */
	bool blind;                                   /* not all places are known */
	struct mount_place place[MOUNT_WATCH_PLACES]; /* of mounts */
	size_t places;
	struct mount_place root[PLAN_MOUNTS_MAX]; /* steps->host_root_fd, each with its path in its file system */
	uint16_t absent[PLAN_MOUNTS_MAX];         /* numbers of the plan's hidden paths that the host can create */
	size_t absents;
};

/* −1 with errno. The calling process must be in the sandbox. */
int mount_watch_init(struct mount_watch *w, const struct step_context *steps);
/* After POLLPRI: whether all mounts are still there that must be. If not, ret_lost is the place of one that differs. */
bool mount_watch_is_intact(struct mount_watch *w, char *ret_lost, size_t size);
/*
 * Before a command: whether all mounts that protect something, and all roots, are where they were. If not, ret_path is
 * the path of one. Does not wait for a file system.
 */
bool mount_watch_is_in_place(struct mount_watch *w, char *ret_path, size_t size);
/*
 * Before a command, in its leader: whether the host has created a hidden path that was missing. 0 = no; 1 = yes; −1
 * with errno: that of one cannot be determined, for instance because its file system has died. *ret_mount is always the
 * number in the plan of the path that is being examined.
 */
int mount_watch_find_created(const struct mount_watch *w, volatile uint16_t *ret_mount);
/* The path of that mount; of one that is too long, the end. */
void mount_watch_path(const struct mount_watch *w, uint16_t mount, char *ret, size_t size);

#endif

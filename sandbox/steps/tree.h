#ifndef BAILIFF_SANDBOX_STEPS_TREE_H
#define BAILIFF_SANDBOX_STEPS_TREE_H

/*
 * Mount trees by descriptor, for the steps that build a private root. A tree is cloned or created detached, gets its
 * attributes while it is unreachable, and is then attached to a place that is a descriptor, too: no path is resolved
 * twice. All functions return −1 with errno on failure, allocate nothing, and work the same in a user namespace.
 *
 * Places are resolved below the new root and never through a symbolic link, because other processes can change what is
 * bound there. Directories and files to mount on are created only in file systems that belong to the sandbox itself.
 */

#include "sandbox/steps/step.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/mount.h>

/* Attributes of every bound tree. */
#define TREE_INERT ((uint64_t)(MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV))
#define TREE_READ (TREE_INERT | (uint64_t)MOUNT_ATTR_RDONLY)

/* Opens a host path for binding; magic links are never followed, others if `follow`. */
int tree_source(const char *path, bool follow);
/* Returns a detached copy of `at`/`name` ("" = `at` itself), with everything mounted below it. */
int tree_clone(int at, const char *name);
/* Adds attributes to a tree and everything below it; idmap_fd ≥ 0 also maps ids (only while it is detached). */
int tree_set(int tree, uint64_t attributes, int idmap_fd);
int tree_attach(int tree, int place);
/* tree_attach at `at`/`name`. */
int tree_attach_at(int tree, int at, const char *name);
/* Creates a detached file system without a device; options are name, value, … and end with NULL. */
int tree_new(const char *type, const char *const *options, uint64_t attributes);
/* Creates a tmpfs of this size that belongs to the sandbox: mount points can be created in it. */
int tree_tmpfs(struct step_context *c, uint64_t bytes, mode_t mode);

/* Opens an absolute path below the new root; fails with ENOENT, ENOTDIR, ELOOP … */
int tree_find(const struct step_context *c, const char *path);
/* The same for a name in an open directory. */
int tree_below(int at, const char *name);
/* The same for a link itself, not its target. */
int tree_link(int at, const char *name);
/* The same, but follows links inside the new root. */
int tree_find_through_links(const struct step_context *c, const char *path);
/*
 * Like tree_find, but creates what is missing: directories, and a last component that is a directory or an empty file.
 */
int tree_mount_point(const struct step_context *c, const char *path, bool folder);
/* 1: it is a directory, 0: it is not, −1: it is not known, and must not count as either. */
int tree_is_folder(int fd);
/* Whether it is in a file system that was created for the sandbox. */
bool tree_is_own(const struct step_context *c, int fd);
/* Whether it is a mount point. */
bool tree_is_mount(int fd);

/*
 * Calls fn with each name in the directory `at`/`path` and its DT_ type, except . and ..; `folder` is the directory's
 * descriptor. Stops at the first −1.
 */
typedef int tree_name_fn(void *ctx, int folder, const char *name, unsigned type);
int tree_each_name(int at, const char *path, tree_name_fn *fn, void *ctx);

#endif

#ifndef BAILIFF_SANDBOX_STEPS_TREE_H
#define BAILIFF_SANDBOX_STEPS_TREE_H

/*
 * Mount trees by descriptor, for the steps that make a private root. A tree is cloned or made detached, gets its
 * attributes while nobody can reach it, and is then attached at a place that is a descriptor too: no path is looked up
 * twice. Everything here returns −1 with errno on failure, allocates nothing, and works the same in a user namespace.
 *
 * Places are looked up below the new root and never through a symbolic link, because what is bound there may be changed
 * by others meanwhile; folders and files to mount on are made only in file systems that belong to the sandbox itself.
 */

#include "sandbox/steps/step.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/mount.h>

/* What every bound tree gets. */
#define TREE_INERT ((uint64_t)(MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV))
#define TREE_READ (TREE_INERT | (uint64_t)MOUNT_ATTR_RDONLY)

/* Opens a path of the host's for binding; magic links are not followed, others if the caller says so. */
int tree_source(const char *path, bool follow);
/* A detached copy of what `at`/`name` shows ("" = `at` itself), with everything mounted below it. */
int tree_clone(int at, const char *name);
/* Adds attributes to a tree and what is below it; idmap_fd ≥ 0 maps ids too (only while it is detached). */
int tree_set(int tree, uint64_t attributes, int idmap_fd);
int tree_attach(int tree, int place);
/* tree_attach at `at`/`name`. */
int tree_attach_at(int tree, int at, const char *name);
/* A new, detached file system of a kind without a device; options are name, value, … and end with NULL. */
int tree_new(const char *type, const char *const *options, uint64_t attributes);
/* tree_new of a tmpfs that holds so much and belongs to the sandbox: places may be made in it. */
int tree_tmpfs(struct step_context *c, uint64_t bytes, mode_t mode);

/* An absolute path below the new root, or ENOENT, ENOTDIR, ELOOP … */
int tree_find(const struct step_context *c, const char *path);
/* The same for a name in an opened folder. */
int tree_below(int at, const char *name);
/* The same for a link: itself, not what it leads to. */
int tree_link(int at, const char *name);
/* The same, but links are followed, inside the new root. */
int tree_find_through_links(const struct step_context *c, const char *path);
/* tree_find, and what is missing is made: folders, and a last one that is a folder or an empty file. */
int tree_mount_point(const struct step_context *c, const char *path, bool folder);
bool tree_is_folder(int fd);
/* It lies in a file system that was made for the sandbox. */
bool tree_is_own(const struct step_context *c, int fd);
/* Something is mounted exactly here. */
bool tree_is_mount(int fd);

/* Calls fn with each name in the folder at `at`/`path` and its DT_ type, except for . and ..; `folder` is a descriptor
 * of it. Stops at the first −1. */
typedef int tree_name_fn(void *ctx, int folder, const char *name, unsigned type);
int tree_each_name(int at, const char *path, tree_name_fn *fn, void *ctx);

#endif

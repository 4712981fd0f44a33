#ifndef BAILIFF_SANDBOX_USERNS_H
#define BAILIFF_SANDBOX_USERNS_H

/*
 * User namespaces: the map that gives root's files to another id, and the causes why one cannot be created. A daemon
 * without CAP_SYS_ADMIN builds every sandbox in one. Distributions and containers forbid them in several ways, each
 * with its own errno at its own stage. One table (userns.def) has the causes with their fixes.
 */

#include <stdbool.h>
#include <sys/types.h>

enum userns_cause {
	USERNS_WORKS,
#define USERNS_CAUSE(NAME, key, cause, fix) USERNS_##NAME,
#include "sandbox/userns.def"
#undef USERNS_CAUSE
	USERNS_CAUSES
};

/* The stage that failed. */
enum userns_stage {
	USERNS_STAGE_CLONE, /* clone or unshare */
	USERNS_STAGE_MAPS,  /* writing setgroups, uid_map, gid_map */
	USERNS_STAGE_MOUNT, /* any mount in the new namespace */
	USERNS_STAGE_PROC,  /* mounting /proc there */
};

struct userns_text {
	const char *key, *cause, *fix;
};

/* For every cause but USERNS_WORKS. */
const struct userns_text *userns_text(enum userns_cause cause);
/* The text for a failed step's path ("userns:KEY"); NULL = it is an ordinary path. */
const struct userns_text *userns_text_of_path(const char *path);
/* The path for a cause: a constant string. */
const char *userns_path(enum userns_cause cause);

/* Why a stage failed with this errno. Reads files of /proc; does not allocate. */
enum userns_cause userns_classify(enum userns_stage stage, int error);

struct err;
/* Fills e for a failed stage: the message is the cause's path, which the runtime turns into its text. Returns -1. */
int userns_failed(enum userns_stage stage, int error, struct err *e);

/*
 * Tries everything in a child: namespaces, maps, a private mount, a fresh /proc. Needs no privileges, takes about a
 * millisecond, and must run in a process that may clone. *ret_error is the errno of the failed stage.
 */
enum userns_cause userns_try(int *ret_error);

/*
 * The swap: 0 and `id` are exchanged, every other id maps to itself. For a process in a new user namespace that root
 * has just created from ours. A container may have fewer ids than a host: as many are mapped as exist. −1 with errno.
 */
int userns_write_swap(pid_t pid, uid_t id);

#endif

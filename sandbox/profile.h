#ifndef BAILIFF_SANDBOX_PROFILE_H
#define BAILIFF_SANDBOX_PROFILE_H

/*
 * A profile is what a person writes: what may be read, written, hidden; network; limits. It is plain data. Shipped ones
 * are rows of profiles.def; others come from the policy file; a request may change a copy (profile_adjust). With the
 * facts of the machine and the request (workspace, home) it becomes the mounts and layers of a plan (profile_compile).
 *
 * Paths may begin with ~ (the peer's home) and $WORKSPACE. An entry that ends with '?' may be missing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct plan_spec;

#define PROFILE_NAME_MAX 32
#define PROFILE_PATHS_MAX 64

enum profile_network { PROFILE_NET_NONE, PROFILE_NET_HOST, PROFILE_NET_ALLOW };

/* A growing list of paths, each on the heap. */
struct profile_paths {
	char *path[PROFILE_PATHS_MAX];
	size_t count;
};

struct profile {
	char name[PROFILE_NAME_MAX];
	bool confined;             /* false: `host`, no sandbox */
	struct profile_paths read, write, hide, protect;
	enum profile_network network;
	uint64_t tmp_bytes;        /* private /tmp, /var/tmp and /dev/shm together with their inodes */
	uint64_t memory_bytes, pids; /* UINT64_MAX = none */
	uint32_t layers, require;  /* enum plan_layer */
	bool cow;                  /* write roots are overlays */
	bool empty_workspace;      /* `isolated`: the workspace is an empty private folder */
};

void profile_done(struct profile *p);
/* A shipped one; ERR_NOT_FOUND lists the names. */
int profile_shipped(const char *name, struct profile *ret, struct err *e);
size_t profile_names(const char *names[], size_t cap);

/* A request's `sandbox` member, as far as it was given. Anything but tightening is ERR_PERMISSION unless may_widen. */
struct profile_change {
	const char *const *read, *const *write, *const *hide;
	size_t nread, nwrite, nhide;
	const char *network;       /* NULL = as it is */
	uint64_t memory_bytes, pids, tmp_bytes; /* 0 = as it is */
	bool cow;
};
int profile_adjust(struct profile *p, const struct profile_change *c, bool may_widen, struct err *e);

/* What the world looks like for this request. */
struct profile_place {
	const char *cwd;           /* absolute, as asked for */
	const char *home;          /* of the peer */
	const char *workspace;     /* from workspace_find(), or "" */
	const char *const *secrets; /* bailiff's own folders: never visible */
	size_t nsecrets;
};

#endif

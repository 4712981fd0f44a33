#ifndef BAILIFF_SANDBOX_PROFILE_H
#define BAILIFF_SANDBOX_PROFILE_H

/*
 * A profile describes a sandbox: what can be read, written, hidden; network; limits. It is plain data. Shipped ones are
 * rows of profiles.def; others come from the policy file (policy/profiles.h). For each request a copy is expanded (~
 * and $WORKSPACE become paths), changed as the request asks (profile_adjust) and compiled, which yields the mounts,
 * layers and limits of a plan.
 *
 * Entries cover each other like mounts: the deepest one that contains a path decides about it.
 */

#include "sandbox/host_rule.h"
#include "sandbox/plan.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define PROFILE_NAME_MAX 32
#define PROFILE_TEXT_MAX 16384 /* all paths together: they appear in events */
#define PROFILE_DEFAULT "workspace"
#define PROFILE_HOST "host"
#define PROFILE_TMP_LEAST (64u << 10) /* what the init itself writes into a private directory */

struct profile_entry {
	uint32_t kind;  /* enum plan_mount_kind */
	uint32_t flags; /* enum plan_mount_flag */
	char *path;     /* absolute, or ~…, $WORKSPACE…; PROTECT may be relative: in every write root */
};

struct profile {
	char name[PROFILE_NAME_MAX];
	bool confined;             /* false: no sandbox */
	bool cow;                  /* write roots are overlays */
	uint32_t network;          /* enum plan_network */
	struct host_rules hosts;   /* PLAN_NET_ALLOW: reachable hosts; rules that deny apply whatever is added */
	uint32_t layers, require;  /* enum plan_layer */
	uint64_t tmp_bytes;        /* of each private tmpfs; 0 = the default */
	struct plan_limits limits; /* of the tree */
	struct profile_entry entry[PLAN_MOUNTS_MAX];
	size_t count;
	size_t text;       /* bytes of all paths */
	bool denied_shown; /* not everything that rules deny to read is hidden: there is no room for more */
};

/* For people, with denied_shown. */
#define PROFILE_DENIED_SHOWN                                                                                           \
	"deny rules for Read name more paths of the workspace than a sandbox can hide, so that code can open some of " \
	"them: let rules name folders"

void profile_done(struct profile *p);
void profile_copy(const struct profile *from, struct profile *ret);
/* A trailing ? makes the path optional. ERR_EXHAUSTED when there are too many or too long ones. */
int profile_add(struct profile *p, uint32_t kind, uint32_t flags, const char *path, struct err *e);
/* ERR_INVALID without a field, or ERR_EXHAUSTED. */
int profile_add_host(struct profile *p, const char *text, bool deny, struct err *e);

/* ---- shipped profiles ---- */

struct profile_info {
	const char *name, *summary;
};
size_t profile_shipped_count(void);
const struct profile_info *profile_shipped_info(size_t i);
/* Returns 0, or −1 if there is no profile of that name. */
int profile_shipped(const char *name, struct profile *ret);

/* ---- for one request ---- */

/* The paths that a profile's entries refer to. */
struct profile_paths {
	const char *cwd;            /* clean */
	const char *home;           /* the peer's; "" = none */
	const char *workspace;      /* clean; "" = none */
	const char *const *secrets; /* bailiff's own: never visible, whatever is requested */
	size_t nsecrets;
	const char *const *folders; /* directories that contain them: hidden, unless the workspace is or is in one */
	size_t nfolders;
	const char *nested; /* nested in the workspace and protected like its own (sandbox/nested_repos.h),
			       NUL-terminated; or NULL */
	size_t nested_len;
	const char *git; /* what the workspace's .git file leads to (sandbox/git_link.h): an enum profile_git and a
			    path each, NUL-terminated; or NULL */
	size_t git_len;
	const char *denied; /* paths in the workspace that rules deny to read: hidden. NUL-terminated; or NULL */
	size_t denied_len;
	bool denied_more; /* rules deny more than these */
	bool root;        /* the peer is root */
};

enum profile_git {
	PROFILE_GIT_COMMON = 'c',   /* the main repository of a linked worktree; comes before … */
	PROFILE_GIT_WORKTREE = 'w', /* … the worktree's part of it */
	PROFILE_GIT_MODULE = 'm',   /* a submodule's repository */
	PROFILE_GIT_UNPROVEN = 'u', /* does not name the workspace: not accessible */
};

/* Replaces ~ and $WORKSPACE; drops entries below a home or workspace that does not exist. */
int profile_expand(struct profile *p, const struct profile_paths *place, struct err *e);
/*
 * Adds git directories outside of the workspace to an expanded profile. *ret_left_out is one that the .git file names
 * and that is not accessible, or NULL.
 */
int profile_add_git(struct profile *p, const struct profile_paths *place, const char **ret_left_out, struct err *e);

/* Paths that a policy shows, hides or protects in every profile. */
struct profile_lists {
	struct profile_listed {
		uint32_t kind; /* READ, WRITE, HIDE or PROTECT of enum plan_mount_kind */
		unsigned file; /* 0 is the most important: no other shows what it hides */
		char *path;    /* absolute, ~… or $WORKSPACE… */
	} * entry;
	size_t count;
};
void profile_lists_add(struct profile_lists *l, uint32_t kind, unsigned file, const char *path);
void profile_lists_done(struct profile_lists *l);
/* Changes an expanded profile. */
int profile_apply_lists(struct profile *p, const struct profile_lists *l, const struct profile_paths *place,
			struct err *e);

/* A request's `sandbox` member, as far as it is given. */
struct profile_change {
	const char *const *read, *const *write, *const *hide;
	size_t nread, nwrite, nhide;
	const char *network;      /* none, host or allow; NULL = unchanged, or allow if hosts are given */
	const char *const *hosts; /* reachable hosts, in host_rule_parse's format */
	size_t nhosts;
	uint64_t tmp_bytes;        /* 0 = unchanged */
	struct plan_limits limits; /* likewise; `required` is ignored */
	bool cow;
};
/*
 * Changes an expanded profile. Narrowing is always allowed; widening is ERR_PERMISSION unless may_widen. Requested
 * limits must be enforced: their layer becomes required.
 */
int profile_adjust(struct profile *p, const struct profile_change *c, const struct profile_paths *place, bool may_widen,
		   struct err *e);

/* Sets a limit without which the command does not run. */
void profile_require_limit(struct profile *p, enum plan_limit l, uint64_t value);

/* Adds protected and secret paths, sorts, and resolves paths that were named more than once. */
int profile_compile(struct profile *p, const struct profile_paths *place, struct err *e);

/* A compiled profile's part of a plan; mounts point into it. */
struct profile_mounts {
	struct plan_mount_spec mount[PLAN_MOUNTS_MAX];
};
/* For a root peer: mounts of system directories do not get root's ids, so only what everybody may read is readable. */
void profile_drop_root_ids(struct profile *p);
void profile_plan(const struct profile *p, struct profile_mounts *mounts, struct plan_spec *ret);

const char *profile_kind_name(uint32_t kind);       /* "read", "write", … */
const char *profile_network_name(uint32_t network); /* "none", "host", "allow" */
int profile_network(const char *name);              /* −1 = unknown */
const char *profile_layer_name(unsigned bit);       /* by bit number; NULL after the last */
uint32_t profile_layer(const char *name);           /* 0 = unknown */

#endif

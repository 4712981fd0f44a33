#ifndef BAILIFF_SANDBOX_PROFILE_H
#define BAILIFF_SANDBOX_PROFILE_H

/*
 * A profile is what a person writes: what may be read, written, hidden; network; limits. It is plain data. Shipped ones
 * are rows of profiles.def; others come from the policy file (policy/profiles.h). For one request a copy of it is
 * expanded (~ and $WORKSPACE become paths), changed as the request asks (profile_adjust) and compiled, which gives the
 * mounts, layers and limits of a plan.
 *
 * Entries lie on each other like mounts: the deepest that holds a path decides about it.
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
#define PROFILE_TMP_LEAST (64u << 10) /* what the init itself puts into a private folder */

struct profile_entry {
	uint32_t kind;  /* enum plan_mount_kind */
	uint32_t flags; /* enum plan_mount_flag */
	char *path;     /* absolute, or ~…, $WORKSPACE…; of PROTECT also relative: in every write root */
};

struct profile {
	char name[PROFILE_NAME_MAX];
	bool confined;             /* false: no sandbox */
	bool cow;                  /* write roots are overlays */
	uint32_t network;          /* enum plan_network */
	struct host_rules hosts;   /* PLAN_NET_ALLOW: what may be reached; those that deny hold whatever is added */
	uint32_t layers, require;  /* enum plan_layer */
	uint64_t tmp_bytes;        /* of each private tmpfs; 0 = the default */
	struct plan_limits limits; /* of the tree */
	struct profile_entry entry[PLAN_MOUNTS_MAX];
	size_t count;
	size_t text; /* bytes of all paths */
};

void profile_done(struct profile *p);
void profile_copy(const struct profile *from, struct profile *ret);
/* A trailing ? makes the path optional. ERR_EXHAUSTED when there are too many or too long ones. */
int profile_add(struct profile *p, uint32_t kind, uint32_t flags, const char *path, struct err *e);
/* ERR_INVALID without a field, or ERR_EXHAUSTED. */
int profile_add_host(struct profile *p, const char *text, bool deny, struct err *e);
/* Entries of that kind, or all with kind 0, are taken away. */
void profile_clear(struct profile *p, uint32_t kind);

/* ---- the shipped ones ---- */

struct profile_info {
	const char *name, *summary;
};
size_t profile_shipped_count(void);
const struct profile_info *profile_shipped_info(size_t i);
/* 0, or −1 when there is none of that name. */
int profile_shipped(const char *name, struct profile *ret);

/* ---- for one request ---- */

/* What the world looks like. */
struct profile_paths {
	const char *cwd;            /* clean */
	const char *home;           /* of the peer; "" = none */
	const char *workspace;      /* clean; "" = none */
	const char *const *secrets; /* bailiff's own: never visible, whatever is asked for */
	size_t nsecrets;
	const char *const *folders; /* that hold them: not visible, unless the workspace is or lies in one */
	size_t nfolders;
	const char *nested; /* what is below the workspace and protected like its own (sandbox/nested_repos.h), each
			       with its NUL; or NULL */
	size_t nested_len;
};

/* ~ and $WORKSPACE become paths; entries below a home or workspace that does not exist are dropped. */
int profile_expand(struct profile *p, const struct profile_paths *place, struct err *e);

/* A request's `sandbox` member, as far as it was given. */
struct profile_change {
	const char *const *read, *const *write, *const *hide;
	size_t nread, nwrite, nhide;
	const char *network;      /* none, host or allow; NULL = as it is, or allow where hosts are named */
	const char *const *hosts; /* that may be reached, as host_rule_parse reads them */
	size_t nhosts;
	uint64_t tmp_bytes;        /* 0 = as it is */
	struct plan_limits limits; /* likewise; `required` is not looked at */
	bool cow;
};
/*
 * Of an expanded profile. Less is always fine; more is ERR_PERMISSION unless may_widen. Limits that were asked for must
 * be enforced: their layer is required.
 */
int profile_adjust(struct profile *p, const struct profile_change *c, const struct profile_paths *place, bool may_widen,
		   struct err *e);

/* Sets a limit that must be enforced, or the command does not run. */
void profile_require_limit(struct profile *p, enum plan_limit l, uint64_t value);

/* Adds what is protected and secret, sorts, and settles paths that were named more than once. */
int profile_compile(struct profile *p, const struct profile_paths *place, struct err *e);

/* The plan's part of a compiled profile; mounts point into it. */
struct profile_mounts {
	struct plan_mount_spec mount[PLAN_MOUNTS_MAX];
};
/* For a root peer: what is shown of system folders is not shown with root's ids, so only what everybody may read there
 * can be read. */
void profile_drop_root_ids(struct profile *p);
void profile_plan(const struct profile *p, struct profile_mounts *mounts, struct plan_spec *ret);

const char *profile_kind_name(uint32_t kind);       /* "read", "write", … */
const char *profile_network_name(uint32_t network); /* "none", "host", "allow" */
int profile_network(const char *name);              /* −1 = no such word */
const char *profile_layer_name(unsigned bit);       /* by bit number; NULL past the last */
uint32_t profile_layer(const char *name);           /* 0 = no such word */

#endif

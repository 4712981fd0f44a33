#ifndef BAILIFF_SANDBOX_STEPS_STEP_H
#define BAILIFF_SANDBOX_STEPS_STEP_H

/*
 * The steps between clone and exec, in the fixed order of steps.def. If a step fails, its row, an errno and a path go
 * to the status socket and the command does not run. After the clone nothing logs, and nothing allocates for a command.
 */

#include "sandbox/steps.h"
#include "sandbox/tree_files.h"

#include <stddef.h>
#include <sys/types.h>

struct host_fingerprint;
struct sysfilter;

#define STEP_OWN_MAX 64
#define STEP_RESOLVER_COPY ".resolver" /* in the new root: what is mounted on /etc/resolv.conf */
#define STEP_ACCOUNT_COPY ".account"   /* … and on /etc/passwd and /etc/group */

/* The state that the steps work on; filled by the spawner before the clone. Descriptors are −1 if absent. */
struct step_context {
	const struct plan_head *plan;
	uid_t uid; /* the command's: the peer's, or an id that stands for a root peer */
	gid_t gid;
	uid_t peer_uid;        /* identity with which paths are resolved */
	const char *root_home; /* a root peer's symbolic links are followed only here; "" = nowhere */
	gid_t peer_gid;
	const gid_t *groups;
	size_t ngroups;
	bool privileged; /* the spawner has CAP_SYS_ADMIN outside; otherwise the sandbox has a user namespace */
	bool bounded;    /* the spawner has given up its bounding set, which the init inherits */
	bool outer_root; /* a root peer's files cannot be mapped: the command has root's uid outside
			    (steps/public_view.c) */
	int userns_fd;   /* … and enters this user namespace; −1 = it is in one from the start */
	int maps_fd; /* … whose maps are written when a byte can be read here; −1 = the init writes them itself */
	int stdin_fd, stdout_fd, stderr_fd, status_fd, gate_fd, guard_pidfd; /* −1 = none */
	bool end_awaited;               /* the gate was opened with GATE_OPEN_QUIETLY */
	int master_fd, slave_fd;        /* PLAN_TTY: the terminal, from the step `terminal` on; else −1 */
	struct tree_files tree;         /* files of its cgroups */
	bool logged;                    /* audit records of this sandbox are read */
	const struct sysfilter *filter; /* system call filter; NULL = could not be built */
	/* For a private root (PLAN_PRIVATE_ROOT). */
	int idmap_fd;         /* user namespace that swaps root's ids and the command's; −1 = no mapping */
	int cow_fd;           /* PLAN_COW: the run's directory (sandbox/cow_layout.h); −1 = none */
	const char *cow_path; /* its path */
	int net_fd;  /* a network namespace with loopback, created in advance; −1 = it was created with the clone */
	int oom_fd;  /* the init's own oom_score_adj; −1 = out of reach */
	int core_fd; /* /proc/sys/kernel/core_pattern, where several commands need it; −1 = not open */
	int prebuilt_fd;    /* prebuilt sandbox: link on which the command's message arrives; −1 = not prebuilt */
	int listen_fd;      /* PLAN_NET_ALLOW: created by `network`, sent with READY; −1 = none */
	int resolver_fd;    /* socket of the refusing resolver, created by `network`; −1 = none */
	int queues_fd;      /* directory of the sandbox's POSIX message queues, opened by `queues`; −1 = none */
	bool queues_known;  /* … and that is because the kernel has none */
	int placeholder_fd; /* link to the placeholder helper; −1 = none */
	struct step_placeholders placeholders; /* its reply */
	struct host_fingerprint
		*fingerprint; /* dedicated prebuilt sandbox: records what of the host it depends on; else NULL */
	int host_root_fd[PLAN_MOUNTS_MAX]; /* PLAN_HOLDER: the host's own folders that are roots, from `trees` on … */
	uint16_t host_root[PLAN_MOUNTS_MAX]; /* … and their numbers in the plan */
	unsigned host_roots;
	int root_fd;                /* the new root, from `root` to `pivot` */
	int void_folder, void_file; /* empty; bound over hidden paths */
	int self_fds; /* outer_root: the init's own /proc/self/fd, which is covered then; −1 = use /proc */
	dev_t own_devices[STEP_OWN_MAX]; /* file systems that were created for this sandbox */
	unsigned own_count;
	uint32_t layers; /* enum plan_layer enforced so far: steps add theirs */
	char path[128];  /* what a failing step was working on */
};

/* Runs the steps of one kind in order; on failure *ret_step is the row and errno is set. */
int steps_run(struct step_context *c, enum step_where where, enum sandbox_step *ret_step);

/* ---- for the steps ---- */

/* 0, or −1 with errno and, where it helps, c->path. */
int step_bounds(struct step_context *c);
int step_limits(struct step_context *c);
int step_id_maps(struct step_context *c);
int step_mounts(struct step_context *c);
int step_root(struct step_context *c);
int step_tmp(struct step_context *c);
int step_dev(struct step_context *c);
int step_proc(struct step_context *c);
int step_trees(struct step_context *c);
int step_accounts(struct step_context *c);
int step_pivot(struct step_context *c);
int step_hostname(struct step_context *c);
int step_network(struct step_context *c);
int step_keyring(struct step_context *c);
int step_queues(struct step_context *c);
int step_ids(struct step_context *c);
int step_lifetime(struct step_context *c);
int step_terminal(struct step_context *c);
int step_no_new_privs(struct step_context *c);
int step_descriptors(struct step_context *c);
int step_landlock(struct step_context *c);
int step_seccomp(struct step_context *c);
int step_session(struct step_context *c);
int step_stdio(struct step_context *c);
int step_cwd(struct step_context *c);
int step_rlimits(struct step_context *c);
int step_signals(struct step_context *c);
int step_gate(struct step_context *c);

/* Part of `trees`: gives /tmp etc. to the command's user. */
int step_own_tmp(struct step_context *c);

/* Whether the plan asks for a private root: the steps that build one do nothing otherwise. */
static inline bool step_confined(const struct step_context *c) { return c->plan->flags & PLAN_PRIVATE_ROOT; }

#define STEP_TMP_BYTES (1ull << 30) /* size of private /tmp etc. if the plan sets no limit */

/* Records the path that a failing step was working on, truncated to fit; leaves errno alone. */
void step_path(struct step_context *c, const char *path);

#endif

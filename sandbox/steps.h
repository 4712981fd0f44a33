#ifndef BAILIFF_SANDBOX_STEPS_H
#define BAILIFF_SANDBOX_STEPS_H

/*
 * The steps between clone and exec, in one fixed order: rows of steps.def, one function and one file each in
 * sandbox/steps/. A failing step gives its row, an errno and a path to the status socket, and the command does not run.
 * After the clone nothing allocates and nothing logs.
 */

#include "sandbox/plan.h"
#include "sandbox/tree_files.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct host_fingerprint;
struct sysfilter;

enum sandbox_step {
#define STEP(NAME, name, where, fn, summary) STEP_##NAME,
#include "sandbox/steps.def"
#undef STEP
	STEP_COUNT
};

enum step_where {
	STEP_PREBUILT,   /* in the sandbox's first process, perhaps before there was a command for it */
	STEP_IN_INIT,    /* in the sandbox's first process */
	STEP_IN_COMMAND, /* in the command's own process, after the fork */
};

#define STEP_OWN_MAX 64

/*
 * All that the steps of STEP_PREBUILT take from a plan. What was done for one plan fits every other with the same
 * shape. A step that comes to depend on more of the plan has to put it here (step_shape_of).
 */
#define STEP_HIDDEN_MAX 480
struct step_shape {
	uint32_t flags, layers, network;
	uint32_t shows_host; /* the host's top level is shown */
	uint64_t tmp_bytes;
	char hidden[STEP_HIDDEN_MAX]; /* paths of that level that are not, one after the other with their NULs */
};

/* The keeper's first message: for each mount, how many bytes of its path were made as a placeholder; 0 = none was. */
#define STEP_PLACEHOLDER_NEEDLESS UINT32_MAX /* nothing can be made there by the command either */
#define STEP_PLACEHOLDER_UNSEEN \
	(UINT32_MAX - 1) /* in a folder that the peer has shut for itself: what is missing cannot be left away */
struct step_placeholders {
	int32_t error; /* errno, or 0 */
	uint32_t len[PLAN_MOUNTS_MAX];
};

/* What the steps work on; filled by the spawner before the clone. */
struct step_context {
	const struct plan_head *plan;
	uid_t uid; /* what the command runs as: the peer's, or an id that stands for a root peer */
	gid_t gid;
	uid_t peer_uid;        /* as whom paths are looked up */
	const char *root_home; /* where a root peer's own links are followed; "" = nowhere */
	gid_t peer_gid;
	const gid_t *groups;
	size_t ngroups;
	bool privileged; /* the spawner has CAP_SYS_ADMIN outside; else a user namespace was made */
	bool outer_root; /* a root peer's files cannot be mapped: the command has root's uid outside
			    (steps/public_view.c) */
	int userns_fd;   /* … and enters this user namespace; −1 = it is in one from the start */
	int maps_fd;     /* … whose maps are there when a byte can be read here; −1 = the init writes them itself */
	int stdin_fd, stdout_fd, stderr_fd, status_fd, gate_fd, guard_pidfd; /* −1 = none */
	int master_fd, slave_fd;        /* PLAN_TTY: the terminal, from the step `terminal` on; else −1 */
	struct tree_files tree;         /* of the cgroups that it is in */
	bool logged;                    /* somebody reads the audit records of this sandbox */
	const struct sysfilter *filter; /* of system calls; NULL = could not be built */
	/* For a private root (PLAN_PRIVATE_ROOT). */
	int idmap_fd;         /* user namespace that swaps root's ids and the command's; −1 = ids stay as they are */
	int cow_fd;           /* PLAN_COW: the run's folder (sandbox/cow_layout.h); −1 = none */
	const char *cow_path; /* and where it is */
	int net_fd;           /* a network namespace with loopback, made ahead; −1 = it was made with the clone */
	int oom_fd;           /* the init's own oom_score_adj; −1 = out of reach */
	int prebuilt_fd; /* of a sandbox that is built ahead: where the rest of its plan will come; −1 = it is there */
	int listen_fd;   /* PLAN_NET_ALLOW: made by `network`, handed out with READY; −1 = none */
	int resolver_fd; /* where a sandbox with a network of its own is asked for names; made by `network`; −1 = none
			  */
	int placeholder_fd;                    /* to the keeper of placeholders; −1 = there are none */
	struct step_placeholders placeholders; /* its answer */
	struct host_fingerprint *fingerprint;  /* of a sandbox that is built ahead for one plan: what of the host's it
				 depends on; NULL =  no matter */
	int root_fd;                           /* the new root, from `root` to `pivot` */
	int void_folder, void_file;            /* nothing, to be bound over what is hidden */
	int self_fds; /* outer_root: the init's own /proc/self/fd, which is covered then; −1 = it is there */
	dev_t own_devices[STEP_OWN_MAX]; /* file systems that were made for this sandbox */
	unsigned own_count;
	uint32_t layers; /* enum plan_layer in force so far: steps add theirs */
	char path[128];  /* a failing step says here what it was about */
};

/* 0, or −1 with errno. */
typedef int (*step_fn)(struct step_context *c);

struct step_info {
	const char *name; /* "no_new_privs": in process.failed's stage */
	enum step_where where;
	step_fn run;
	const char *summary;
};
extern const struct step_info sandbox_steps[STEP_COUNT];

/* "unknown" for a number that is no step. */
const char *sandbox_step_name(uint32_t step);

/* false = nothing can be built ahead for such a plan. */
bool step_shape_of(const struct plan_head *p, struct step_shape *ret);

/* Runs the steps of one side in order; on failure *ret_step is the row and errno is set. */
int sandbox_steps_run(struct step_context *c, enum step_where where, enum sandbox_step *ret_step);

#endif

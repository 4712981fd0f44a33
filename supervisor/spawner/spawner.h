#ifndef BAILIFF_SUPERVISOR_SPAWNER_H
#define BAILIFF_SUPERVISOR_SPAWNER_H

/*
 * The privileged part: builds sandboxes from plans. It keeps no state about processes; after its reply, a sandbox
 * belongs to the guard and the runtime. It does not trust the runtime: see start.c.
 */

#include "sandbox/cgroup.h"
#include "sandbox/cgroup_base.h"
#include "sandbox/host_fingerprint.h"
#include "sandbox/plan.h"
#include "sandbox/socket_counter.h"
#include "sandbox/sysfilter.h"
#include "sandbox/tree_limit.h"
#include "supervisor/spawner/authority.h"
#include "supervisor/spawner/cow.h"
#include "supervisor/spawner/cpu_affinity.h"
#include "supervisor/spawner/idmap.h"
#include "supervisor/spawner/member_limits.h"
#include "supervisor/spawner/netpool.h"
#include "supervisor/spawner/peer_files.h"
#include "supervisor/spawner/prebuilt.h"
#include "supervisor/spawner/spawn_msg.h"

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

struct err;
struct process_title;

struct spawner_options {
	const char *cgroup_tag;                /* name of the directory with this home's cgroups */
	const struct cgroup_base *cgroup_base; /* its parent, on v2 */
	struct process_title *title;
	bool audit;                                   /* sandboxes get an audit session each */
	unsigned zygotes;                             /* prebuilt sandboxes of each shape in use */
	unsigned spare_ms;                            /* how long after a use there are so many; 0 = the default */
	bool allow_host;                              /* accept plans without a private root */
	uid_t runtime_uid;                            /* never used for a sandbox */
	const char *run_dir, *state_dir, *config_dir; /* the daemon's own directories; NULL = none */
	const char *
		policy_file; /* the user's policy file, for a user's own daemon; NULL = each peer has one in its home */
};

/* Descriptors at GUARD_FD_*. Returns the exit status. */
int spawner_main(const struct spawner_options *o);

/* ---- between spawner.c and start.c ---- */

struct spawner {
	int guard_fd, peer_fd, guard_pidfd; /* peer_fd −1: the runtime is being restarted */
	bool privileged; /* has the capabilities to act for other users; otherwise only its own uid, in user namespaces
			  */
	bool bounded;    /* it has an empty bounding set */
	bool allow_host; /* set on the daemon's command line; never by a message */
	int oom_score;   /* oom_score_adj of sandboxes */
	struct cpu_affinity affinity; /* away from the runtime's CPU */
	int idle_ms;                  /* time without a message before prebuilding */
	uint64_t started_ns;          /* time of the last start */
	bool busy;                    /* … which closely followed another */
	int audit_fd;                 /* for audit_mark; −1: sandboxes have no audit session */
	struct cgroup_tree cgroup;
	struct tree_limiter limiter;       /* memory and pids limits of trees */
	struct idmap idmap;                /* ids that stand for root */
	struct netpool netpool;            /* prebuilt network namespaces */
	struct socket_counter sockets;     /* of all sandboxes with a cgroup */
	struct prebuilt_pool prebuilt;     /* of sandboxes */
	struct authority authority;        /* what root peers may do */
	struct cow cow;                    /* copy-on-write runs and their helpers */
	struct peer_files_helpers helpers; /* which open files as their peer */
	struct member_limits members;      /* cgroups of single members of session sandboxes */
	struct sysfilter filter;           /* system call filter of all confined plans */
	bool has_filter;
	struct sockaddr_un listen_name; /* of the control socket, through which clients must have connected */
	socklen_t listen_len;
	struct process_title *title;
	struct spawn_msg_buffer *spawn_msg_buffer; /* the current message */
	int done_link; /* link of a prebuilt sandbox that has its message, to be closed; −1 = none */
	struct prebuilt_msg_buffer *prebuilt_msg_buffer;
	struct host_fingerprint *fingerprint; /* buffer for the fingerprint of a prebuilt sandbox */
	gid_t *groups;                        /* NGROUPS_MAX entries: the current peer's groups */
	const char **strings;                 /* space for the argument and environment vectors of one plan */
	const char *policy_file;              /* of spawner_options */
};

/* The descriptors of a START, in the message's order; −1 = absent. */
struct start_fds {
	int plan, client, status, gate, out, err, in;
};

/* The requesting peer and the identity of the command. They differ only for a confined command of root's. */
struct spawn_identity {
	uid_t peer_uid;
	gid_t peer_gid;
	uid_t uid;
	gid_t gid;
	const gid_t *groups;
	size_t ngroups;
	int idmap_fd;    /* −1, or the swap of root's ids and the command's; owned by the spawner */
	bool outer_root; /* root's files cannot be mapped: the command keeps root's uid outside its user namespace
			    (sandbox/steps/public_view.c) */
};

/* Whether the control socket accepted this connection. */
bool spawner_client_came_in(const struct spawner *s, int client);
/* Returns the peer's uid, gid and groups; the groups are in s->groups until the next call. */
int spawner_peer(struct spawner *s, int client, struct spawn_identity *ret, struct err *e);
void start_fds_assign(struct start_fds *f, const struct spawn_msg *m, const int *fds);
/* Checks their types, and gives the command's pipes to its user. */
int start_fds_check(const struct start_fds *f, const struct plan_head *plan, const struct spawn_identity *id,
		    struct err *e);
/* An integer option of SOL_SOCKET; −1 = it has none. */
int start_socket_option(int fd, int name);
/*
 * Clones the init and deposits its pidfd. Leaves nothing behind on failure. Fills pid, start_time and layers of the
 * reply.
 */
int start_sandbox(struct spawner *s, const struct spawn_msg *m, struct start_fds *f, struct spawn_msg *answer,
		  int *ret_pidfd, struct err *e);

/* Finds the plan in the message or the memfd and checks it. *ret_mapped is the length to unmap, or 0. */
int spawner_take_plan(const struct spawner *s, const struct spawn_msg *m, int fd, const struct plan_head **ret,
		      size_t *ret_mapped, struct err *e);
/* The rights with which the peer's disks are found. */
static inline struct fingerprint_peer spawn_identity_peer(const struct spawner *s, const struct spawn_identity *id)
{
	return (struct fingerprint_peer){ .uid = id->peer_uid,
					  .gid = id->peer_gid,
					  .groups = id->groups,
					  .ngroups = id->ngroups,
					  .switches = s->privileged && id->peer_uid != 0 };
}

/* Prebuilds one sandbox. */
void start_prebuilt(struct spawner *s, struct prebuilt_kind *k);

#endif

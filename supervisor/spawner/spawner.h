#ifndef BAILIFF_SUPERVISOR_SPAWNER_H
#define BAILIFF_SUPERVISOR_SPAWNER_H

/*
 * The privileged part: builds sandboxes from plans. It keeps nothing about processes; after it answered, a sandbox is
 * the guard's and the runtime's. It does not trust the runtime: see start.c.
 */

#include "sandbox/cgroup.h"
#include "sandbox/cgroup_base.h"
#include "sandbox/plan.h"
#include "sandbox/sysfilter.h"
#include "sandbox/tree_limit.h"
#include "supervisor/spawner/authority.h"
#include "supervisor/spawner/cow.h"
#include "supervisor/spawner/cpu_affinity.h"
#include "supervisor/spawner/idmap.h"
#include "supervisor/spawner/netpool.h"
#include "supervisor/spawner/prebuilt.h"
#include "supervisor/spawner/spawn_msg.h"

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

struct err;
struct process_title;

struct spawner_options {
	const char *cgroup_tag;                /* the folder of this home's cgroups */
	const struct cgroup_base *cgroup_base; /* where that is, on v2 */
	struct process_title *title;
	bool audit;                                   /* sandboxes get an audit session each */
	unsigned zygotes;                             /* sandboxes built ahead, of each shape in use */
	bool allow_host;                              /* plans without a private root are carried out, too */
	uid_t runtime_uid;                            /* never a sandbox's */
	const char *run_dir, *state_dir, *config_dir; /* the daemon's own folders; NULL = none */
	const char
		*policy_file; /* the user's, of a daemon that is one user's own; NULL = each peer has one in its home */
};

/* Descriptors at GUARD_FD_*. Returns the exit status. */
int spawner_main(const struct spawner_options *o);

/* ---- between spawner.c and start.c ---- */

struct spawner {
	int guard_fd, peer_fd, guard_pidfd; /* peer_fd −1: the runtime is being started anew */
	bool privileged; /* root with what it takes to act for others; else only for its own uid, in user namespaces */
	bool allow_host; /* by who started the daemon; never by a message */
	bool protected_from_oom;
	struct cpu_affinity affinity; /* from the runtime */
	int idle_ms;                  /* without a message, before something is done ahead */
	uint64_t started_ns;          /* the last start */
	bool busy;                    /* … which came soon after another */
	int audit_fd;                 /* for audit_mark; −1: sandboxes are not watched by audit */
	struct cgroup_tree cgroup;
	struct tree_limiter limiter;   /* memory and pids of a tree */
	struct idmap idmap;            /* ids that stand for root */
	struct netpool netpool;        /* network namespaces, made ahead */
	struct prebuilt_pool prebuilt; /* sandboxes, built ahead */
	struct authority authority;    /* what root peers may have */
	struct cow cow;                /* copy-on-write runs and what is done about them */
	struct sysfilter filter;       /* of system calls, for all confined plans */
	bool has_filter;
	struct sockaddr_un listen_name; /* of the control socket: where a client must have come in */
	socklen_t listen_len;
	struct process_title *title;
	struct spawn_msg_buffer *spawn_msg_buffer; /* the message at hand */
	int done_link;                             /* of a zygote that has its order, to be closed; −1 = none */
	struct prebuilt_msg_buffer *prebuilt_msg_buffer;
	struct host_fingerprint *fingerprint; /* room for what a zygote is made from */
	gid_t *groups;                        /* room for NGROUPS_MAX: of the peer at hand */
	const char **strings;                 /* room for the argument and environment vectors of one plan */
	const char *policy_file;              /* of spawner_options */
};

/* The descriptors of a START, in the message's order; −1 = not there. */
struct start_fds {
	int plan, client, status, gate, out, err, in;
};

/* Who asked, and who the command runs as: the same but for a confined command of root's. */
struct spawn_identity {
	uid_t peer_uid;
	gid_t peer_gid;
	uid_t uid;
	gid_t gid;
	const gid_t *groups;
	size_t ngroups;
	int idmap_fd;    /* −1, or the swap of root's ids and the command's; the spawner's */
	bool outer_root; /* root's files cannot be mapped: the command keeps root's uid outside
			    (sandbox/steps/public_view.c) */
};

/* Whether this socket is one that the control socket accepted. */
bool spawner_client_came_in(const struct spawner *s, int client);
/* The peer's uid, gid and groups; the groups are in s->groups until the next call. */
int spawner_peer(struct spawner *s, int client, struct spawn_identity *ret, struct err *e);
void start_fds_assign(struct start_fds *f, const struct spawn_msg *m, const int *fds);
/* Clones the init and deposits its pidfd. On failure nothing exists. Fills pid, start_time and layers of the answer. */
int start_sandbox(struct spawner *s, const struct spawn_msg *m, struct start_fds *f, struct spawn_msg *answer,
		  int *ret_pidfd, struct err *e);

/* Builds one sandbox ahead. */
void start_prebuilt(struct spawner *s, struct prebuilt_kind *k);

#endif

/*
 * Handles one START: from a message of a possibly compromised runtime to a cloned init.
 *
 * Verified here instead of trusted: the peer's identity (read from the client's socket), what a root peer may do
 * (authority.c), the plan (every length and offset), that the plan cannot change later (seals), and the types of the
 * descriptors: pipes are chowned to the command's user below, which must never happen to a file. A private root always
 * has a system call filter, no capabilities, no_new_privs and, where the kernel supports it, Landlock; the plan has no
 * say in that (init.c, steps/step_filters.c).
 */

#include "supervisor/spawner/spawner.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "sandbox/tree_disk.h"
#include "sandbox/userns.h"
#include "supervisor/guard/guard_msg.h"
#include "supervisor/spawner/init.h"
#include "supervisor/spawner/placeholder_helper.h"
#include "supervisor/spawner/prebuilt_msg.h"
#include "supervisor/spawner/proc_stat.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* Whether everything that is mounted as root's own can have its ids mapped. */
static bool can_map(struct spawner *s, const struct plan_head *plan, int userns)
{
	for (uint32_t i = 0; i < plan->mount_count; i++) {
		const struct plan_mount *m = plan_mount(plan, i);
		bool owned = m->kind == PLAN_MOUNT_WRITE || (m->kind == PLAN_MOUNT_READ && m->flags & PLAN_MOUNT_OWNED);
		if (owned && !idmap_can_map(&s->idmap, plan_string(plan, m->path_off), userns))
			return false;
	}
	return true;
}

/*
 * A confined command never runs as root: for a root peer it runs with an id of its own and without groups. Where root's
 * files cannot be mapped to that id, the id is a name for root's uid in a user namespace. `mapped`: they can.
 */
static int stand_for_root(struct spawner *s, const struct plan_key *key, const struct plan_head *plan, bool mapped,
			  struct spawn_identity *id, struct err *e)
{
	uid_t uid;
	if (!(plan->flags & PLAN_PRIVATE_ROOT) || id->peer_uid != 0)
		return 0;
	if (idmap_take(&s->idmap, key, &uid, s->privileged ? &id->idmap_fd : NULL, e) < 0)
		return -1;
	id->uid = uid;
	id->gid = (gid_t)uid;
	id->ngroups = 0;
	id->outer_root = !s->privileged || !(mapped || can_map(s, plan, id->idmap_fd));
	return 0;
}

/*
 * A client must have connected through the control socket: then our end has that socket's name and the other end has
 * none. Otherwise a compromised runtime could connect to any service of root's and pass it off as a client. Our end's
 * name alone proves little: in a mount namespace where the path is free, a socket can be bound to any name. But then
 * the peer, a listener, has a name, too.
 */
bool spawner_client_came_in(const struct spawner *s, int client)
{
	struct sockaddr_un name, peer;
	socklen_t len = sizeof name, peer_len = sizeof peer;
	return getsockname(client, (struct sockaddr *)&name, &len) == 0 && len == s->listen_len &&
	       memcmp(&name, &s->listen_name, len) == 0 &&
	       (getpeername(client, (struct sockaddr *)&peer, &peer_len) == 0 ? peer_len == sizeof peer.sun_family
									      : errno == ENOTCONN);
}

/* Reads the identity of the client's peer from the kernel. Without privileges it can only be our own uid. */
int spawner_peer(struct spawner *s, int client, struct spawn_identity *ret, struct err *e)
{
	if (start_socket_option(client, SO_DOMAIN) != AF_UNIX || start_socket_option(client, SO_TYPE) != SOCK_STREAM)
		return err_set(e, ERR_NOT_ALLOWED, "the client's descriptor is not a unix stream socket");
	if (!spawner_client_came_in(s, client))
		return err_set(e, ERR_NOT_ALLOWED, "the client did not come in through the control socket");
	struct ucred cred;
	socklen_t len = sizeof cred;
	if (getsockopt(client, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return err_sys(e, errno, "read the client's credentials");
	if (cred.uid == (uid_t)-1)
		return err_set(e, ERR_NOT_ALLOWED, "the client's socket has no peer");
	if (!s->privileged && cred.uid != geteuid())
		return err_set(e, ERR_NOT_ALLOWED, "uid %u is not the daemon's own, and the daemon has no privileges",
			       cred.uid);
	struct spawn_identity id = { .uid = cred.uid, .gid = cred.gid, .groups = s->groups, .idmap_fd = -1 };
	if (s->privileged) {
		len = (socklen_t)(NGROUPS_MAX * sizeof *s->groups);
		if (getsockopt(client, SOL_SOCKET, SO_PEERGROUPS, s->groups, &len) < 0)
			return err_sys(e, errno, "read the client's groups");
		id.ngroups = len / sizeof *s->groups;
	} else {
		id.gid = getegid();
	}
	id.peer_uid = id.uid;
	id.peer_gid = id.gid;
	*ret = id;
	return 0;
}

/* The only place that decides a command's identity. Without privileges the groups are those that the kernel allows. */
static int spawn_identity(struct spawner *s, const struct spawn_msg *m, const struct plan_head *plan, int client,
			  struct spawn_identity *ret, struct err *e)
{
	struct spawn_identity id;
	if (spawner_peer(s, client, &id, e) < 0)
		return -1;
	if (!(m->flags & PLAN_PRIVATE_ROOT) && !s->allow_host)
		return err_set(e, ERR_NOT_ALLOWED, "commands without a sandbox need a daemon with --allow-host");
	if (id.peer_uid == 0 && authority_check(&s->authority, plan, client, e) < 0)
		return -1;
	*ret = id;
	return 0;
}

static int map_plan(int fd, const struct plan_head **ret, size_t *ret_len, struct err *e)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & SEALS) != SEALS)
		return err_field(e, "plan", "is not in a sealed memfd");
	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "stat the plan");
	if (st.st_size < (off_t)sizeof(struct plan_head) || st.st_size > (off_t)PLAN_MAX)
		return err_field(e, "plan", "has %lld bytes", (long long)st.st_size);
	void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	if (p == MAP_FAILED)
		return err_sys(e, errno, "map the plan");
	*ret = p;
	*ret_len = (size_t)st.st_size;
	return 0;
}

int spawner_take_plan(const struct spawner *s, const struct spawn_msg *m, int fd, const struct plan_head **ret,
		      size_t *ret_mapped, struct err *e)
{
	const struct plan_head *plan = (const struct plan_head *)(const void *)s->spawn_msg_buffer->plan;
	size_t len = m->plan_len, mapped = 0;
	if (!len && map_plan(fd, &plan, &mapped, e) < 0)
		return -1;
	if (plan_check(plan, len ? len : mapped, e) < 0 ||
	    (plan->flags != m->flags && err_field(e, "flags", "are not the message's") < 0)) {
		if (mapped)
			munmap((void *)plan, mapped);
		return -1;
	}
	*ret = plan;
	*ret_mapped = mapped;
	return 0;
}

static uint64_t namespace_flags(const struct spawner *s, const struct step_context *c)
{
	const struct plan_head *p = c->plan;
	uint64_t flags = CLONE_NEWPID | CLONE_NEWNS;
	if (p->flags & PLAN_PRIVATE_ROOT) {
		flags |= CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
		if (p->network != PLAN_NET_HOST && c->net_fd < 0)
			flags |= CLONE_NEWNET;
	}
	return s->privileged ? flags : flags | CLONE_NEWUSER;
}

/* Tells the init that its ids are mapped: only a process outside can map root's. */
static int maps_pipe(int *ret_write, int *ret_read)
{
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	*ret_read = fds[0];
	*ret_write = fds[1];
	return 0;
}

/* Falls back to a clone without the cgroup; the layer is then missing, which fails a plan that requires it. */
static pid_t clone_init(struct spawner *s, const struct plan_key *key, struct init *in, int *ret_pidfd)
{
	fd_auto int leaf = in->steps.plan->layers & PLAN_LAYER_CGROUP ? cgroup_tree_make(&s->cgroup, key) : -1;
	fd_auto int holder = leaf >= 0 && in->steps.plan->flags & PLAN_HOLDER ? cgroup_make_holder(leaf) : -1;
	int pidfd = -1;
	struct clone_args a = {
		.flags = CLONE_PARENT | CLONE_PIDFD | CLONE_CLEAR_SIGHAND | namespace_flags(s, &in->steps),
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
	};
	if (leaf >= 0) {
		a.flags |= CLONE_INTO_CGROUP;
		a.cgroup = (uint64_t)(holder >= 0 ? holder : leaf);
		in->leaf_fd = leaf;
	}
	in->steps.layers = PLAN_LAYER_NAMESPACES | (leaf >= 0 ? PLAN_LAYER_CGROUP : 0);
	fd_auto int maps = -1;
	if (!s->privileged && in->steps.outer_root && maps_pipe(&maps, &in->steps.maps_fd) < 0)
		return -1;
	pid_t pid = cgroup_clone(&a);
	if (pid < 0 && leaf >= 0) {
		a.flags &= ~CLONE_INTO_CGROUP;
		in->leaf_fd = -1;
		in->steps.layers = PLAN_LAYER_NAMESPACES;
		pid = cgroup_clone(&a);
	}
	if (pid == 0) {
		fd_close(&maps);
		init_main(in);
	}
	int saved = errno;
	fd_close(&in->steps.maps_fd);
	/* If this fails, the init reports the missing maps itself. */
	if (pid > 0 && maps >= 0 && userns_write_swap(pid, in->steps.uid) == 0)
		(void)!write(maps, "m", 1);
	if (leaf >= 0 && (pid < 0 || !(in->steps.layers & PLAN_LAYER_CGROUP)))
		cgroup_tree_remove(&s->cgroup, key);
	errno = saved;
	if (pid > 0)
		*ret_pidfd = pidfd;
	return pid;
}

/* Fields that every init has. */
static struct init init_base(const struct spawner *s)
{
	struct init in = {
		.steps = { .uid = geteuid(),
			   .gid = getegid(),
			   .privileged = s->privileged,
			   .bounded = s->bounded,
			   .root_home = s->authority.root_home,
			   .stdin_fd = -1,
			   .stdout_fd = -1,
			   .stderr_fd = -1,
			   .status_fd = -1,
			   .gate_fd = -1,
			   .guard_pidfd = s->guard_pidfd,
			   .filter = s->has_filter ? &s->filter : NULL,
			   .userns_fd = -1,
			   .maps_fd = -1,
			   .idmap_fd = -1,
			   .cow_fd = -1,
			   .net_fd = -1,
			   .listen_fd = -1,
			   .resolver_fd = -1,
			   .queues_fd = -1,
			   .prebuilt_fd = -1,
			   .oom_fd = -1,
			   .core_fd = -1,
			   .placeholder_fd = -1,
			   .root_fd = -1,
			   .void_folder = -1,
			   .void_file = -1,
			   .self_fds = -1,
			   .master_fd = -1,
			   .slave_fd = -1 },
		.title = s->title,
		.leaf_fd = -1,
		.mounts_fd = -1,
		.affinity = &s->affinity,
		.sockets = s->sockets.count,
		.audit = s->audit_fd >= 0,
		.oom_score = s->oom_score,
		.argv = s->strings,
		.room = s->prebuilt_msg_buffer,
		.cow_folder = s->cow.path,
		.autorun_key = s->cow.key,
	};
	tree_files_init(&in.steps.tree);
	return in;
}

static int take_network(struct spawner *s, const struct plan_head *plan, uid_t owner)
{
	const bool private = plan->flags & PLAN_PRIVATE_ROOT && plan->network != PLAN_NET_HOST;
	return private ? netpool_take(&s->netpool, owner) : -1;
}

/* The state of one start. */
struct start {
	struct spawner *s;
	const struct spawn_msg *m;
	const struct start_fds *f;
	const struct plan_head *plan;
	const struct spawn_identity *id;
	int placeholders;
	int cow; /* PLAN_COW: the run's directory */
	const char *cow_path;
	bool keep; /* a dedicated prebuilt sandbox that may come back */
	struct spawn_msg *answer;
};

/* Without privileges the user namespace was denied: the message names the cause (userns_failed). */
static int clone_failed(const struct spawner *s, int error, struct err *e)
{
	const bool denied = !s->privileged && error != ENOMEM && error != EAGAIN;
	return denied ? userns_failed(USERNS_STAGE_CLONE, error, e) : err_sys(e, error, "clone");
}

/* `leaf` is the name of its cgroup on v2. */
static int make_limits(const struct start *t, const struct plan_key *leaf, struct tree_files *ret, struct err *e)
{
	struct tree_disks disks;
	const struct fingerprint_peer peer = spawn_identity_peer(t->s, t->id);
	if (tree_limit_find_disks(t->plan, &peer, t->cow, &disks, e) < 0)
		return -1;
	return tree_limiter_make(&t->s->limiter, &t->m->key, leaf, t->plan, &disks, ret, e);
}

/* Starts in a sandbox that is built on demand. */
static int start_new(const struct start *t, int *ret_pidfd, struct err *e)
{
	struct spawner *s = t->s;
	const struct spawn_identity *id = t->id;
	fd_auto int net = id->outer_root ? -1 : take_network(s, t->plan, id->peer_uid);
	struct init in = init_base(s);
	struct step_context *c = &in.steps;
	c->uid = id->uid;
	c->gid = id->gid;
	c->peer_uid = id->peer_uid;
	c->peer_gid = id->peer_gid;
	c->groups = id->groups;
	c->ngroups = id->ngroups;
	c->stdin_fd = t->f->in;
	c->stdout_fd = t->f->out;
	c->stderr_fd = t->f->err;
	c->status_fd = t->f->status;
	c->gate_fd = t->f->gate;
	c->outer_root = id->outer_root;
	c->idmap_fd = id->outer_root ? -1 : id->idmap_fd;
	c->userns_fd = id->outer_root ? id->idmap_fd : -1;
	c->cow_fd = t->cow;
	c->cow_path = t->cow_path;
	c->net_fd = net;
	c->placeholder_fd = t->placeholders;
	init_set_plan(&in, t->plan);
	if (make_limits(t, &t->m->key, &c->tree, e) < 0) {
		cgroup_tree_remove(&s->cgroup, &t->m->key); /* on v2 the limiter has created it */
		return -1;
	}
	pid_t pid = clone_init(s, &t->m->key, &in, ret_pidfd);
	int error = errno;
	tree_files_close(&c->tree);
	if (pid < 0) {
		tree_limiter_remove(&s->limiter, &t->m->key);
		return clone_failed(s, error, e);
	}
	t->answer->pid = pid;
	t->answer->start_time = proc_start_time(pid);
	t->answer->layers = c->layers;
	int mounts = -1; /* the init has not left the host's mounts yet */
	bool same_uid = t->plan->flags & PLAN_PRIVATE_ROOT && id->uid == id->peer_uid;
	if (net >= 0 || same_uid)
		prebuilt_hold(&s->prebuilt, &t->m->key, &t->m->key, id->peer_uid, *ret_pidfd, &mounts, &net);
	return 0;
}

static int send_prebuilt_msg(const struct start *t, const struct prebuilt *one, const struct tree_files *limits)
{
	const struct spawn_identity *id = t->id;
	/* Otherwise its members cannot have limits of their own. */
	if (t->plan->flags & PLAN_HOLDER && one->layers & PLAN_LAYER_CGROUP &&
	    cgroup_tree_enter_holder(&t->s->cgroup, &one->leaf, one->pid) < 0)
		log_info("move the first process of a sandbox: %s", strerror(errno));
	struct prebuilt_msg_buffer *room = t->s->prebuilt_msg_buffer;
	room->msg = (struct prebuilt_msg){ .uid = id->uid,
					   .gid = id->gid,
					   .peer_uid = id->peer_uid,
					   .peer_gid = id->peer_gid,
					   .keep = t->keep,
					   .ngroups = (uint32_t)id->ngroups };
	memcpy(room->msg.groups, id->groups, id->ngroups * sizeof *room->msg.groups);
	memcpy(room->msg.cow_name, t->m->key.id, sizeof room->msg.cow_name);
	const int fds[PREBUILT_MSG_FDS] = {
		[PREBUILT_MSG_PLAN] = t->plan->total_len <= PREBUILT_MSG_INLINE_MAX ? -1 : t->f->plan,
		[PREBUILT_MSG_STATUS] = t->f->status,
		[PREBUILT_MSG_GATE] = t->f->gate,
		[PREBUILT_MSG_OUT] = t->f->out,
		[PREBUILT_MSG_ERR] = t->f->err,
		[PREBUILT_MSG_IN] = t->f->in,
		[PREBUILT_MSG_IDMAP] = id->idmap_fd,
		[PREBUILT_MSG_PLACEHOLDER] = t->placeholders,
		[PREBUILT_MSG_COW] = t->cow,
		[PREBUILT_MSG_LEAF + TREE_LIMIT_MEMORY] = limits->leaf[TREE_LIMIT_MEMORY],
		[PREBUILT_MSG_LEAF + TREE_LIMIT_PIDS] = limits->leaf[TREE_LIMIT_PIDS],
		[PREBUILT_MSG_LEAF + TREE_LIMIT_CPU] = limits->leaf[TREE_LIMIT_CPU],
		[PREBUILT_MSG_LEAF + TREE_LIMIT_IO] = limits->leaf[TREE_LIMIT_IO],
	};
	return prebuilt_msg_send(one->link, room, t->plan, t->plan->total_len, fds);
}

/* The prebuilt sandbox now belongs to the command. */
static void assign_prebuilt(const struct start *t, struct prebuilt *one, int *ret_pidfd)
{
	t->answer->pid = one->pid;
	t->answer->start_time = one->start_time;
	t->answer->layers = one->layers;
	if (t->keep) {
		int copy = fcntl(one->pidfd, F_DUPFD_CLOEXEC, 0);
		*ret_pidfd = one->pidfd;
		one->pidfd = copy; /* −1: its init exits when the link is closed */
		prebuilt_check_out(&t->s->prebuilt, &t->m->key, t->id->peer_uid, one);
		return;
	}
	*ret_pidfd = one->pidfd;
	if (t->plan->flags & PLAN_COW)
		fd_close(&one->mounts); /* an overlay is unmounted with its command: helpers read its upper layer */
	t->s->done_link = fd_take(&one->link); /* closed after the reply was sent */
	prebuilt_name_leaf(&t->s->prebuilt, &t->m->key, t->id->peer_uid, one);
}

/* Starts in a generic prebuilt sandbox. Returns 1 if started, 0 if there is none, −1 if the start failed. */
static int start_generic(const struct start *t, int *ret_pidfd, struct err *e)
{
	struct spawner *s = t->s;
	struct step_shape shape;
	struct prebuilt one;
	struct tree_files limits;
	if (!step_shape_of(t->plan, &shape) || t->id->ngroups > PREBUILT_MSG_GROUPS_MAX ||
	    !prebuilt_take_generic(&s->prebuilt, &shape, t->id->peer_uid, &one))
		return 0;
	if (make_limits(t, &one.leaf, &limits, e) < 0) {
		prebuilt_free(&s->prebuilt, &one);
		return -1;
	}
	int r = send_prebuilt_msg(t, &one, &limits);
	tree_files_close(&limits);
	if (r < 0) {
		prebuilt_failed(&s->prebuilt, &shape, t->id->peer_uid);
		prebuilt_free(&s->prebuilt, &one);
		tree_limiter_remove(&s->limiter, &t->m->key);
		return 0;
	}
	assign_prebuilt(t, &one, ret_pidfd);
	return 1;
}

/*
 * The proxy's socket of a sandbox is gone after its first command. Limits other than on processes have counters that
 * last: memory that a command has left in the page cache, and what it has used of its time.
 */
static bool may_come_back(const struct plan_head *plan)
{
	for (int i = 0; i < PLAN_LIMITS; i++) {
		if (i != PLAN_LIMIT_PIDS && plan->limits.value[i])
			return false;
	}
	return plan->network != PLAN_NET_ALLOW;
}

/*
 * The same with a dedicated prebuilt sandbox that is still current. Not for a holder: the init of one that was used
 * before runs commands only.
 */
static int start_dedicated(const struct start *base, int *ret_pidfd, struct err *e)
{
	struct start t = *base;
	struct spawner *s = t.s;
	const struct plan_head *plan = t.plan;
	struct tree_files limits;
	struct prebuilt one;
	if (!s->privileged && t.id->peer_uid == 0)
		return 0;
	if (plan->flags & PLAN_HOLDER || !prebuilt_key_supported(plan, t.id) ||
	    tree_limiter_needs_init(&s->limiter, &plan->limits) ||
	    !prebuilt_take_dedicated(&s->prebuilt, plan, t.id, t.m, &one))
		return 0;
	struct spawn_identity id = *t.id;
	id.uid = one.uid;
	id.gid = one.gid;
	id.ngroups = id.uid == id.peer_uid ? id.ngroups : 0;
	t.id = &id;
	t.keep = may_come_back(plan) && prebuilt_can_check_out(&s->prebuilt, &one);
	if (start_fds_check(t.f, plan, &id, e) < 0 || make_limits(&t, &one.leaf, &limits, e) < 0) {
		prebuilt_free(&s->prebuilt, &one);
		return -1;
	}
	int r = send_prebuilt_msg(&t, &one, &limits);
	tree_files_close(&limits);
	if (r < 0) {
		prebuilt_free(&s->prebuilt, &one);
		tree_limiter_remove(&s->limiter, &t.m->key);
		return 0;
	}
	idmap_pass_on(&s->idmap, &one.leaf, &t.m->key);
	assign_prebuilt(&t, &one, ret_pidfd);
	return 1;
}

static int start_init(const struct start *base, int *ret_pidfd, struct err *e)
{
	struct start t = *base;
	struct spawner *s = t.s;
	const struct spawn_identity *id = t.id;
	fd_auto int placeholders = -1;
	const struct placeholder_job job = { .plan = t.plan,
					     .uid = id->peer_uid,
					     .gid = id->peer_gid,
					     .groups = id->groups,
					     .ngroups = id->ngroups,
					     .privileged = s->privileged,
					     .title = s->title };
	if (placeholder_helper_start(&job, &placeholders, e) < 0)
		return -1;
	char cow_path[PATH_MAX] = "";
	fd_auto int cow = -1;
	if (t.plan->flags & PLAN_COW && cow_prepare(&s->cow, t.m->key.id, t.plan, id, cow_path, &cow, e) < 0)
		return -1;
	t.placeholders = placeholders;
	t.cow = cow;
	t.cow_path = cow_path;
	int r = id->outer_root ? 0 : start_generic(&t, ret_pidfd, e);
	return r == 0 ? start_new(&t, ret_pidfd, e) : r < 0 ? -1 : 0;
}

/* Builds a minimal plan of that shape. */
static int shape_plan(const struct step_shape *shape, struct buf *out, struct err *e)
{
	static const char *const argv[] = { "zygote" };
	struct plan_mount_spec mounts[1 + STEP_HIDDEN_MAX / 2];
	size_t n = 0;
	if (shape->shows_host)
		mounts[n++] = (struct plan_mount_spec){ .kind = PLAN_MOUNT_SYSTEM, .path = "/" };
	for (const char *p = shape->hidden; *p; p += strlen(p) + 1)
		mounts[n++] = (struct plan_mount_spec){ .kind = PLAN_MOUNT_HIDE, .path = p };
	const struct plan_spec spec = {
		.flags = shape->flags,
		.layers = shape->layers,
		.network = shape->network,
		.tmp_bytes = shape->tmp_bytes,
		.cwd = "/",
		.argv = argv,
		.argc = 1,
		.mounts = mounts,
		.nmounts = n,
		.cpu_ms = PLAN_UNLIMITED,
		.open_files = PLAN_UNLIMITED,
		.file_bytes = PLAN_UNLIMITED,
	};
	return plan_build(&spec, out, e);
}

/* Opens a process's mount namespace. Best effort: −1 only costs time later. */
static int mounts_of(pid_t pid)
{
	char path[48];
	snprintf(path, sizeof path, "/proc/%d/ns/mnt", pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Sets the future command's identity and the init's context. The id is the leaf's until there is a command. */
static int apply_key(struct spawner *s, const struct prebuilt_kind *k, struct prebuilt *one, struct step_context *c,
		     struct err *e)
{
	const struct prebuilt_key *f = &k->key;
	struct spawn_identity id = { .peer_uid = f->uid,
				     .peer_gid = f->gid,
				     .uid = f->uid,
				     .gid = f->gid,
				     .groups = f->groups,
				     .ngroups = f->ngroups,
				     .idmap_fd = -1 };
	if (stand_for_root(s, &one->leaf, f->plan, k->mapped, &id, e) < 0)
		return -1;
	if (id.outer_root)
		return err_set(e, ERR_UNAVAILABLE, "root's files cannot be mapped there");
	one->uid = c->uid = id.uid;
	one->gid = c->gid = id.gid;
	c->peer_uid = id.peer_uid;
	c->peer_gid = id.peer_gid;
	c->groups = id.groups;
	c->ngroups = id.ngroups;
	c->idmap_fd = id.idmap_fd;
	s->fingerprint->count = s->fingerprint->pins = s->fingerprint->lost = 0;
	c->fingerprint = s->fingerprint;
	return 0;
}

static int clone_prebuilt(struct spawner *s, const struct prebuilt_kind *k, const struct plan_head *plan,
			  struct prebuilt *one, struct err *e)
{
	int fds[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return err_sys(e, errno, "make a socket");
	fd_auto int theirs = fds[1];
	one->link = fds[0];
	struct init in = init_base(s);
	init_set_plan(&in, plan);
	one->net = take_network(s, plan, k->owner);
	in.steps.net_fd = one->net;
	in.steps.prebuilt_fd = theirs;
	if (k->key.plan && apply_key(s, k, one, &in.steps, e) < 0)
		return -1;
	one->pid = clone_init(s, &one->leaf, &in, &one->pidfd);
	if (one->pid < 0)
		return err_sys(e, errno, "clone");
	one->layers = in.steps.layers;
	one->start_time = proc_start_time(one->pid);
	one->mounts = mounts_of(one->pid);
	return 0;
}

void start_prebuilt(struct spawner *s, struct prebuilt_kind *k)
{
	buf_auto struct buf plan = BUF_INIT;
	struct err e = ERR_INIT;
	struct prebuilt one;
	prebuilt_begin(&s->prebuilt, &one);
	if ((!k->key.plan && shape_plan(&k->shape, &plan, &e) < 0) ||
	    clone_prebuilt(s, k, k->key.plan ? k->key.plan : (const struct plan_head *)(const void *)plan.data, &one,
			   &e) < 0) {
		log_info("prebuild a sandbox: %s", e.message);
		k->failures++;
		prebuilt_free(&s->prebuilt, &one);
		return;
	}
	prebuilt_add(k, &one);
}

int start_sandbox(struct spawner *s, const struct spawn_msg *m, struct start_fds *f, struct spawn_msg *answer,
		  int *ret_pidfd, struct err *e)
{
	struct spawn_identity id;
	const struct plan_head *plan = NULL;
	size_t mapped = 0;
	if (spawner_take_plan(s, m, f->plan, &plan, &mapped, e) < 0)
		return -1;
	int r = spawn_identity(s, m, plan, f->client, &id, e);
	const struct start t = {
		.s = s, .m = m, .f = f, .plan = plan, .id = &id, .placeholders = -1, .cow = -1, .answer = answer
	};
	int dedicated = r < 0 ? 0 : start_dedicated(&t, ret_pidfd, e);
	if (r == 0 && dedicated <= 0 &&
	    (dedicated < 0 || stand_for_root(s, &m->key, plan, false, &id, e) < 0 ||
	     start_fds_check(f, plan, &id, e) < 0 || start_init(&t, ret_pidfd, e) < 0)) {
		idmap_release(&s->idmap, &m->key);
		if (plan->flags & PLAN_COW)
			cow_forget(&s->cow, m->key.id);
		r = -1;
	}
	if (mapped)
		munmap((void *)plan, mapped);
	return r;
}

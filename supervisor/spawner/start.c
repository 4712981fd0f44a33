/*
 * One START, from a message of somebody who may have been taken over to a cloned init.
 *
 * What is not taken on trust: who asks (read from the client's socket by the kernel's word), the plan (every length and
 * offset), that the plan cannot change under our feet (seals), and what the descriptors are: ownership of pipes is given
 * to the command's user below, which must never happen to a file.
 */

#include "supervisor/spawner/spawner.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "supervisor/guard/guard_msg.h"
#include "supervisor/spawner/init.h"
#include "supervisor/spawner/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

void start_fds_assign(struct start_fds *f, uint32_t flags, const int *fds)
{
	size_t i = 4;
	*f = (struct start_fds){ .plan = fds[0], .client = fds[1], .status = fds[2], .gate = fds[3], .out = -1, .err = -1, .in = -1 };
	if (flags & PLAN_TTY)
		return;
	f->out = fds[i++];
	if (!(flags & PLAN_STDERR_MERGE))
		f->err = fds[i++];
	if (flags & PLAN_STDIN_PIPE)
		f->in = fds[i];
}

static int socket_option(int fd, int name)
{
	int value = -1;
	socklen_t len = sizeof value;
	return getsockopt(fd, SOL_SOCKET, name, &value, &len) < 0 ? -1 : value;
}

/* A confined command is never root's: an id of its own stands for a root peer, and has no groups. */
static int stand_for_root(struct spawner *s, const struct plan_key *key, struct spawn_identity *id, struct err *e)
{
	uid_t uid;
	if (!s->privileged)
		return err_set(e, ERR_NOT_ALLOWED, "the daemon has not the privileges to run a command of root's as somebody else");
	if (idmap_take(&s->idmap, key, &uid, &id->idmap_fd, e) < 0)
		return -1;
	id->uid = uid;
	id->gid = (gid_t)uid;
	id->ngroups = 0;
	return 0;
}

/*
 * A client is somebody who came in through the control socket: then our end of it has that socket's name. A runtime that
 * was taken over could otherwise connect to any service of root's and pass that off as a client.
 */
bool spawner_client_came_in(const struct spawner *s, int client)
{
	struct sockaddr_un name;
	socklen_t len = sizeof name;
	return getsockname(client, (struct sockaddr *)&name, &len) == 0 && len == s->listen_len &&
	       memcmp(&name, &s->listen_name, len) == 0;
}

/*
 * The one place that decides as whom a command runs: as the peer. Without privileges the peer can only be ourselves, and
 * the groups are what the kernel leaves us.
 */
static int spawn_identity(struct spawner *s, const struct spawn_msg *m, int client, struct spawn_identity *ret, struct err *e)
{
	if (socket_option(client, SO_DOMAIN) != AF_UNIX || socket_option(client, SO_TYPE) != SOCK_STREAM)
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
		return err_set(e, ERR_NOT_ALLOWED, "uid %u is not the daemon's own, and the daemon has no privileges", cred.uid);
	struct spawn_identity id = { .uid = cred.uid, .gid = cred.gid, .groups = s->groups, .idmap_fd = -1 };
	if (s->privileged) {
		len = (socklen_t)(NGROUPS_MAX * sizeof *s->groups);
		if (getsockopt(client, SOL_SOCKET, SO_PEERGROUPS, s->groups, &len) < 0)
			return err_sys(e, errno, "read the client's groups");
		id.ngroups = len / sizeof *s->groups;
	} else {
		id.gid = getegid();
	}
	if (!(m->flags & PLAN_PRIVATE_ROOT) && !s->allow_host)
		return err_set(e, ERR_NOT_ALLOWED, "commands without a sandbox need a daemon with --allow-host");
	id.peer_uid = id.uid;
	id.peer_gid = id.gid;
	if (m->flags & PLAN_PRIVATE_ROOT && id.uid == 0 && stand_for_root(s, &m->key, &id, e) < 0)
		return -1;
	*ret = id;
	return 0;
}

static int map_plan(int fd, uint32_t flags, const struct plan_head **ret, struct err *e)
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
	const struct plan_head *plan = p;
	if (plan_check(plan, (size_t)st.st_size, e) < 0 ||
	    (plan->flags != flags && err_field(e, "flags", "are not the message's") < 0)) {
		munmap(p, (size_t)st.st_size);
		return -1;
	}
	*ret = plan;
	return 0;
}

static int check_pipe(int fd, const char *what, struct err *e)
{
	struct statfs fs;
	if (fstatfs(fd, &fs) < 0)
		return err_sys(e, errno, "%s", what);
	if (fs.f_type != PIPEFS_MAGIC)
		return err_field(e, what, "is not a pipe");
	return 0;
}

/* The command may open its own ends again through /dev/stdout and friends, but not the other way round. */
static int give_pipe(int fd, const struct spawn_identity *id, mode_t mode, const char *what, struct err *e)
{
	if (fd < 0)
		return 0;
	if (check_pipe(fd, what, e) < 0)
		return -1;
	if (id->uid != geteuid() && fchown(fd, id->uid, id->gid) < 0)
		return err_sys(e, errno, "give %s to uid %u", what, id->uid);
	if (fchmod(fd, mode) < 0)
		return err_sys(e, errno, "set the mode of %s", what);
	return 0;
}

static int check_descriptors(const struct start_fds *f, const struct spawn_identity *id, struct err *e)
{
	if (socket_option(f->status, SO_DOMAIN) != AF_UNIX || socket_option(f->status, SO_TYPE) != SOCK_SEQPACKET)
		return err_field(e, "status", "is not a seqpacket socket");
	if (check_pipe(f->gate, "gate", e) < 0 || give_pipe(f->out, id, 0200, "stdout", e) < 0 ||
	    give_pipe(f->err, id, 0200, "stderr", e) < 0 || give_pipe(f->in, id, 0400, "stdin", e) < 0)
		return -1;
	return 0;
}

/* argv[0] is kept free (struct init). */
static void fill_vectors(struct spawner *s, const struct plan_head *p, struct init *in)
{
	in->argv = s->strings;
	for (uint32_t i = 0; i < p->argc; i++)
		in->argv[1 + i] = plan_arg(p, i);
	in->argv[1 + p->argc] = NULL;
	in->envv = in->argv + p->argc + 2;
	for (uint32_t i = 0; i < p->envc; i++)
		in->envv[i] = plan_env(p, i);
	in->envv[p->envc] = NULL;
}

static uint64_t start_time_of(pid_t pid)
{
	char name[32], text[1024];
	snprintf(name, sizeof name, "/proc/%d/stat", pid);
	fd_auto int fd = open(name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (n <= 0)
		return 0;
	text[n] = 0;
	const char *p = strrchr(text, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p, NULL, 10) : 0;
}

static uint64_t namespaces(const struct spawner *s, const struct step_context *c)
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

/* Without the cgroup if cloning into it is refused: the layer is then reported as missing, and a plan may insist on it. */
static pid_t clone_init(struct spawner *s, const struct plan_key *key, struct init *in, int *ret_pidfd)
{
	fd_auto int leaf = in->steps.plan->layers & PLAN_LAYER_CGROUP ? cgroup_tree_make(&s->cgroup, key) : -1;
	int pidfd = -1;
	struct clone_args a = {
		.flags = CLONE_PARENT | CLONE_PIDFD | CLONE_CLEAR_SIGHAND | namespaces(s, &in->steps),
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
	};
	if (leaf >= 0) {
		a.flags |= CLONE_INTO_CGROUP;
		a.cgroup = (uint64_t)leaf;
	}
	in->steps.layers = PLAN_LAYER_NAMESPACES | (leaf >= 0 ? PLAN_LAYER_CGROUP : 0);
	pid_t pid = cgroup_clone(&a);
	if (pid < 0 && leaf >= 0) {
		a.flags &= ~CLONE_INTO_CGROUP;
		in->steps.layers = PLAN_LAYER_NAMESPACES;
		pid = cgroup_clone(&a);
	}
	if (pid == 0)
		init_main(in);
	int saved = errno;
	if (leaf >= 0 && (pid < 0 || !(in->steps.layers & PLAN_LAYER_CGROUP)))
		cgroup_tree_remove(&s->cgroup, key);
	errno = saved;
	if (pid > 0)
		*ret_pidfd = pidfd;
	return pid;
}

static int start_init(struct spawner *s, const struct spawn_msg *m, const struct start_fds *f, const struct plan_head *plan,
		      const struct spawn_identity *id, struct spawn_msg *answer, int *ret_pidfd, struct err *e)
{
	bool own_net = plan->flags & PLAN_PRIVATE_ROOT && plan->network != PLAN_NET_HOST;
	fd_auto int keeper = -1, net = own_net ? netpool_take(&s->netpool) : -1;
	const struct keeper_job job = { .plan = plan, .uid = id->peer_uid, .gid = id->peer_gid, .groups = id->groups,
					.ngroups = id->ngroups, .privileged = s->privileged, .title = s->title };
	if (keeper_start(&job, &keeper, e) < 0)
		return -1;
	char cow_path[PATH_MAX] = "";
	fd_auto int cow_fd = -1;
	if (plan->flags & PLAN_COW && cow_prepare(&s->cow, m->key.id, plan, id, cow_path, &cow_fd, e) < 0)
		return -1;
	struct init in = {
		.steps = { .plan = plan, .uid = id->uid, .gid = id->gid, .peer_uid = id->peer_uid, .peer_gid = id->peer_gid,
			   .groups = id->groups, .ngroups = id->ngroups, .privileged = s->privileged, .stdin_fd = f->in,
			   .stdout_fd = f->out, .stderr_fd = f->err, .status_fd = f->status, .gate_fd = f->gate,
			   .guard_pidfd = s->guard_pidfd, .filter = s->has_filter ? &s->filter : NULL,
			   .idmap_fd = id->idmap_fd, .cow_fd = cow_fd, .cow_path = cow_path, .net_fd = net, .keeper_fd = keeper,
			   .root_fd = -1, .master_fd = -1, .slave_fd = -1,
			   .void_folder = -1, .void_file = -1 },
		.title = s->title,
		.audit = s->audit_fd >= 0,
		.reset_oom = s->protected_from_oom,
	};
	fill_vectors(s, plan, &in);
	if (tree_limiter_make(&s->limiter, &m->key, plan, &in.steps.limits, e) < 0)
		return -1;
	pid_t pid = clone_init(s, &m->key, &in, ret_pidfd);
	int error = errno;
	tree_limit_fds_close(&in.steps.limits);
	if (pid < 0) {
		tree_limiter_remove(&s->limiter, &m->key);
		return err_sys(e, error, "clone");
	}
	answer->pid = pid;
	answer->start_time = start_time_of(pid);
	answer->layers = in.steps.layers;
	return 0;
}

int start_sandbox(struct spawner *s, const struct spawn_msg *m, struct start_fds *f, struct spawn_msg *answer, int *ret_pidfd,
		  struct err *e)
{
	struct spawn_identity id;
	const struct plan_head *plan = NULL;
	if (map_plan(f->plan, m->flags, &plan, e) < 0)
		return -1;
	uint32_t plan_len = plan->total_len;
	int r = spawn_identity(s, m, f->client, &id, e);
	if (r == 0 && (check_descriptors(f, &id, e) < 0 || start_init(s, m, f, plan, &id, answer, ret_pidfd, e) < 0)) {
		idmap_release(&s->idmap, &m->key);
		if (plan->flags & PLAN_COW)
			cow_forget(&s->cow, m->key.id);
		r = -1;
	}
	munmap((void *)plan, plan_len);
	return r;
}

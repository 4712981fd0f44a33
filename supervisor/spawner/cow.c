#include "supervisor/spawner/cow.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/base/strmap.h"
#include "sandbox/become_peer.h"
#include "sandbox/capability.h"
#include "supervisor/spawner/cow_undo.h"
#include "supervisor/spawner/revert.h"
#include "supervisor/spawner/spawner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATHS_MAX (1u << 20)

void cow_init(struct cow *c, int fd, bool privileged)
{
	*c = (struct cow){ .fd = fd, .privileged = privileged };
	for (size_t i = 0; i < CHANGE_HELPERS_MAX; i++)
		c->helpers[i].pidfd = -1;
	char link[32];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = fd < 0 ? -1 : readlink(link, c->path, sizeof c->path - 1);
	c->path[n > 0 ? n : 0] = 0;
	if (n <= 0)
		c->fd = -1;
	revert_key_load(c->fd, c->key);
}

/* ---- folders ---- */

static int open_run(const struct cow *c, const char *id)
{
	if (c->fd < 0) {
		errno = ENOENT;
		return -1;
	}
	return openat(c->fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int write_record(int dir, const char *name, const void *p, size_t n)
{
	fd_auto int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 || fd_write_all(fd, p, n) < 0 || fdatasync(fd) < 0 ? -1 : 0;
}

/* Reads exactly n bytes. Returns the open descriptor, on which the caller can take a lock, or −1. */
static int read_record(int dir, const char *name, void *p, size_t n)
{
	fd_auto int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fd_read_all(fd, p, n) != (ssize_t)n) {
		errno = EIO;
		return -1;
	}
	return fd_take(&fd);
}

static uint32_t count_roots(const struct plan_head *plan)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < plan->mount_count; i++)
		n += plan_mount(plan, i)->kind == PLAN_MOUNT_WRITE;
	return n;
}

static int make_layers(int run, uint32_t nroots)
{
	char name[32];
	for (uint32_t i = 0; i < nroots; i++) {
		static const char *const parts[] = { "", "/upper", "/work" };
		for (size_t k = 0; k < countof(parts); k++) {
			snprintf(name, sizeof name, "%u%s", i, parts[k]);
			if (mkdirat(run, name, 0700) < 0)
				return -1;
		}
	}
	return 0;
}

/*
 * A directory is renamed before it is removed, and only the spawner renames: a start can use the same id again at once,
 * and a helper that removes never meets a directory that is in use. The new name, with COW_TEMPORARY, is no id.
 */
static int move_to_trash(const struct cow *c, const char *id, char ret_name[64])
{
	cow_temporary_name(0, ret_name);
	return renameat(c->fd, id, c->fd, ret_name);
}

/* An earlier attempt may have left files behind. */
static int make_run(struct cow *c, const char *id)
{
	cow_forget(c, id);
	return mkdirat(c->fd, id, 0700);
}

static int run_path(const struct cow *c, const char *id, char path[PATH_MAX], struct err *e)
{
	if (c->fd < 0)
		return err_set(e, ERR_UNAVAILABLE, "there is no folder for copy-on-write runs");
	if (snprintf(path, PATH_MAX, "%s/%s", c->path, id) >= PATH_MAX)
		return err_set(e, ERR_UNAVAILABLE, "the folder for copy-on-write runs has too long a path");
	return 0;
}

static bool is_owner(const struct cow_owner *o)
{
	return o->magic == COW_MAGIC && o->version == COW_VERSION && o->nroots <= PLAN_MOUNTS_MAX;
}

static int open_copy(struct cow *c, const char *id, const struct plan_head *plan, const struct spawn_identity *peer,
		     int *ret_fd, struct err *e)
{
	struct cow_owner o;
	fd_auto int run = open_run(c, id);
	fd_auto int record = run < 0 ? -1 : read_record(run, COW_OWNER_NAME, &o, sizeof o);
	if (record < 0)
		return err_sys(e, errno, "open the copy that the run starts with");
	if (!is_owner(&o) || o.uid != peer->peer_uid || o.nroots != count_roots(plan))
		return err_set(e, ERR_NOT_ALLOWED, "the copy that the run starts with is of other changes");
	*ret_fd = fd_take(&run);
	return 0;
}

int cow_prepare(struct cow *c, const char *id, const struct plan_head *plan, const struct spawn_identity *peer,
		char path[PATH_MAX], int *ret_fd, struct err *e)
{
	struct cow_owner o = { .magic = COW_MAGIC,
			       .version = COW_VERSION,
			       .uid = peer->peer_uid,
			       .gid = peer->peer_gid,
			       .nroots = count_roots(plan) };
	struct stat st;
	if (run_path(c, id, path, e) < 0)
		return -1;
	if (plan->flags & PLAN_COW_COPY)
		return open_copy(c, id, plan, peer, ret_fd, e);
	for (size_t i = 0; i < peer->ngroups && o.ngroups < COW_GROUPS_MAX; i++)
		o.groups[o.ngroups++] = peer->groups[i];
	if (make_run(c, id) < 0)
		return err_sys(e, errno, "make the folder of a copy-on-write run");
	fd_auto int run = open_run(c, id);
	if (run < 0 || fstat(run, &st) < 0 || make_layers(run, o.nroots) < 0)
		return err_sys(e, errno, "make the folders of a copy-on-write run");
	o.started_s = st.st_ctim.tv_sec;
	o.started_ns = st.st_ctim.tv_nsec;
	if (write_record(run, COW_OWNER_NAME, &o, sizeof o) < 0)
		return err_sys(e, errno, "say whose a copy-on-write run is");
	*ret_fd = fd_take(&run);
	return 0;
}

void cow_forget(struct cow *c, const char *id)
{
	char name[64];
	if (c->fd >= 0 && (move_to_trash(c, id, name) < 0 || cow_remove(c->fd, name) < 0) && errno != ENOENT)
		log_warning("remove what is left of the copy-on-write run %s: %s", id, strerror(errno));
}

/* ---- the helper ---- */

struct helper {
	struct cow_walk walk;
	struct cow_owner owner;
	struct cow_undo undo;
	bool privileged;
	int run, result;
};

static int fail_with(int errnum)
{
	errno = errnum;
	return -1;
}

/*
 * Sets the identity that the helper assumes: the owner's current groups if the owner is the client, otherwise those
 * recorded when the run began. Only the owner of the changes and root may act on them.
 */
static int read_client(struct cow_owner *o, int client)
{
	static gid_t groups[NGROUPS_MAX];
	struct ucred cred;
	socklen_t len = sizeof cred;
	if (getsockopt(client, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -1;
	if (cred.uid == (uid_t)-1 || (cred.uid != o->uid && cred.uid != 0))
		return fail_with(EPERM);
	if (cred.uid != o->uid)
		return 0;
	len = sizeof groups;
	if (getsockopt(client, SOL_SOCKET, SO_PEERGROUPS, groups, &len) < 0)
		return -1;
	o->gid = cred.gid;
	o->ngroups = 0;
	for (size_t i = 0; i < len / sizeof *groups && o->ngroups < COW_GROUPS_MAX; i++)
		o->groups[o->ngroups++] = groups[i];
	return 0;
}

/*
 * Root keeps only the capabilities that its own changes need. A discard works in the daemon's own directory and touches
 * no host file.
 */
static int become_owner(const struct helper *h)
{
	static const int file_rights[] = { CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER };
	const struct cow_owner *o = &h->owner;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	if (!h->privileged)
		return 0;
	if (h->walk.op == CHANGE_OP_DISCARD || h->walk.op == CHANGE_OP_DROP || o->uid == 0)
		return capability_keep_only(file_rights, countof(file_rights));
	if (become_peer(true, o->uid, o->gid, o->groups, o->ngroups) < 0)
		return -1;
	return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* setuid cleared it */
}

/* Opens the write root; fails with ESTALE if another directory is at its path now. */
static int open_host(const struct cow_root *r)
{
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS };
	fd_auto int fd = (int)syscall(SYS_openat2, AT_FDCWD, r->path, &how, sizeof how);
	/* A write root that is gone or replaced must not be reported as "nothing was changed". */
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
		return fail_with(ESTALE);
	if (fd < 0)
		return -1;
	return cow_root_is(r, fd) ? fd_take(&fd) : fail_with(ESTALE);
}

struct layer {
	struct cow_root root;
	int upper;
};

/* Must run before the identity changes: only the spawner can enter these directories. */
static int open_layers(struct helper *h, struct layer *layers)
{
	char name[32];
	for (uint32_t i = 0; i < h->owner.nroots; i++) {
		struct layer *l = &layers[i];
		snprintf(name, sizeof name, "%u/root", i);
		fd_auto int record = read_record(h->run, name, &l->root, sizeof l->root);
		l->upper = -1;
		if (record < 0 && errno == ENOENT)
			continue; /* the sandbox was never completed */
		l->root.path[sizeof l->root.path - 1] = 0;
		if (record < 0 || l->root.magic != COW_MAGIC || l->root.version != COW_VERSION ||
		    l->root.path[0] != '/')
			return fail_with(EIO);
		snprintf(name, sizeof name, "%u/upper", i);
		l->upper = openat(h->run, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (l->upper < 0)
			return -1;
	}
	return 0;
}

static int walk_layer(struct helper *h, const struct layer *l)
{
	struct cow_walk *w = &h->walk;
	size_t len = strlen(l->root.path);
	fd_auto int host = open_host(&l->root);
	if (host < 0 && w->op != CHANGE_OP_DISCARD)
		return -1;
	if (len > CHANGE_PATH_MAX)
		return fail_with(ENAMETOOLONG);
	while (len > 0 && l->root.path[len - 1] == '/')
		len--;
	memcpy(w->path, l->root.path, len);
	w->path[len] = 0;
	w->path_len = w->root_len = len;
	return cow_walk_root(w, l->upper, host);
}

/* Undoes the newest apply, or cleans up after it before the next. Every write root is opened before a file changes. */
static int handle_applies(struct helper *h, const struct layer *layers)
{
	mem_auto int *hosts = mem_zalloc(h->owner.nroots + 1, sizeof *hosts);
	mem_auto const char **paths = mem_zalloc(h->owner.nroots + 1, sizeof *paths);
	for (uint32_t i = 0; i < h->owner.nroots; i++) {
		size_t len = strlen(layers[i].root.path);
		bool top = len == 1;
		hosts[i] = layers[i].upper < 0 ? -1 : open_host(&layers[i].root);
		paths[i] = top ? "" : layers[i].root.path;
	}
	if (h->walk.op == CHANGE_OP_UNDO)
		return cow_undo_newest_apply(&h->undo, &h->walk, hosts, paths, h->owner.nroots);
	cow_undo_clean(&h->undo, hosts, h->owner.nroots);
	for (uint32_t i = 0; i < h->owner.nroots; i++)
		fd_close(&hosts[i]);
	return 0;
}

static int walk_layers(struct helper *h, struct buf *out)
{
	mem_auto struct layer *layers = mem_zalloc(h->owner.nroots + 1, sizeof *layers);
	struct cow_undo *u = &h->undo;
	uint32_t applies;
	int r = 0;
	if (open_layers(h, layers) < 0 || cow_undo_open(u, h->run, &h->owner, h->walk.op == CHANGE_OP_APPLY) < 0 ||
	    become_owner(h) < 0)
		return -1;
	umask(0);
	change_list_begin(out);
	u->seed = hash64(&h->owner.started_s, sizeof h->owner.started_s, (uint64_t)h->owner.started_ns);
	if (h->walk.op == CHANGE_OP_UNDO || h->walk.op == CHANGE_OP_APPLY)
		r = handle_applies(h, layers);
	if (h->walk.op == CHANGE_OP_APPLY)
		cow_keep_begin(u);
	for (uint32_t i = 0; r == 0 && h->walk.op != CHANGE_OP_UNDO && i < h->owner.nroots; i++) {
		u->root = i;
		r = layers[i].upper >= 0 ? walk_layer(h, &layers[i]) : 0;
	}
	int saved = errno;
	if (h->walk.op == CHANGE_OP_APPLY)
		cow_keep_end(u);
	if (r < 0 && !u->damaged)
		return fail_with(saved);
	change_list_end(out);
	cow_undo_newest(u, &applies);
	const struct change_list_undo undo = { .applies = applies,
					       .error = (uint32_t)u->error,
					       .interrupted = u->interrupted,
					       .damaged = u->damaged ? u->number : 0,
					       .damaged_at = u->damaged_at };
	change_list_set_undo(out, &undo);
	return 0;
}

static int remove_if_trash(void *ret_error, int folder, const char *name)
{
	bool temporary = strncmp(name, COW_TEMPORARY, strlen(COW_TEMPORARY)) == 0;
	if (temporary && cow_remove(folder, name) < 0)
		*(int *)ret_error = errno;
	return 0;
}

/* Removes the trash of this request and of earlier ones that were interrupted. */
static int remove_trash(const struct cow *c)
{
	int error = 0;
	if (cow_each_entry(c->fd, remove_if_trash, &error) < 0)
		return -1;
	return error ? fail_with(error) : 0;
}

/* For set-group-id bits and devices, if the daemon has them: a container can lack the latter. */
static int keep_copy_rights(void)
{
	static const int wanted[] = { CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH,
				      CAP_FOWNER, CAP_FSETID,       CAP_MKNOD };
	int rights[countof(wanted)];
	size_t n = 0;
	for (size_t i = 0; i < countof(wanted); i++) {
		if (capability_has(wanted[i]))
			rights[n++] = wanted[i];
	}
	return capability_keep_only(rights, n);
}

static int copy_run(const struct helper *h, int folder)
{
	struct plan_key to = { .id = "" };
	const size_t len = strnlen(h->walk.paths, h->walk.paths_len);
	const char *number = len + 1 < h->walk.paths_len ? h->walk.paths + len + 1 : "";
	if (len >= sizeof to.id || !*number || number[strspn(number, "0123456789")])
		return fail_with(EINVAL);
	const uint64_t budget = strtoull(number, NULL, 10);
	memcpy(to.id, h->walk.paths, len);
	if (!plan_key_valid(&to))
		return fail_with(EINVAL);
	umask(0);
	return (h->privileged ? keep_copy_rights() : 0) < 0 ? -1 : cow_copy(folder, h->run, &h->owner, to.id, budget);
}

static int helper_work(struct helper *h, const struct cow *c, const char *id, int client)
{
	static struct buf out;
	fd_auto int lock = read_record(h->run, COW_OWNER_NAME, &h->owner, sizeof h->owner);
	if (lock < 0 && (h->walk.op != CHANGE_OP_DROP))
		return -1;
	/* One helper per run at a time: two that apply the same changes would interfere. */
	if (lock >= 0 && flock(lock, LOCK_EX) < 0)
		return -1;
	if (h->walk.op == CHANGE_OP_DROP)
		return cow_remove(c->fd, id);
	if (!is_owner(&h->owner))
		return fail_with(EIO);
	if (h->walk.op == CHANGE_OP_COPY)
		return copy_run(h, c->fd);
	if (client >= 0 && read_client(&h->owner, client) < 0)
		return -1;
	h->walk.started = (struct timespec){ .tv_sec = h->owner.started_s, .tv_nsec = h->owner.started_ns };
	h->walk.out = &out;
	h->walk.undo = &h->undo;
	if (walk_layers(h, &out) < 0)
		return -1;
	return fd_write_all(h->result, out.data, out.len);
}

/* The owner's identity comes from the report, whose seal was checked, and from the requesting client. */
static int revert_files(struct helper *h, const uint8_t *key, int report_fd, int client)
{
	static struct buf report, out;
	if (revert_read(report_fd, key, &report) < 0)
		return -1;
	const struct autorun_head *head = (const struct autorun_head *)(const void *)report.data;
	h->owner.uid = head->uid;
	h->owner.gid = head->gid;
	if (read_client(&h->owner, client) < 0 || become_owner(h) < 0)
		return -1;
	umask(022);
	revert_apply(report.data, h->walk.paths, h->walk.paths_len, &out);
	return fd_write_all(h->result, out.data, out.len);
}

static int read_paths(struct cow_walk *w, int fd)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -1;
	if (!S_ISREG(st.st_mode) || st.st_size > (off_t)PATHS_MAX)
		return fail_with(EINVAL);
	char *p = mem_alloc((size_t)st.st_size + 1);
	ssize_t n = pread(fd, p, (size_t)st.st_size, 0);
	if (n < 0)
		return -1;
	p[n] = 0;
	w->paths = p;
	size_t len = n && p[n - 1] ? (size_t)n + 1 : (size_t)n, at = 0;
	while (at < len && p[at] != CHANGE_LIST_EXCLUDED)
		at += strlen(p + at) + 1;
	w->paths_len = at;
	w->held = p + at;
	w->held_len = len - at;
	return 0;
}

/* Closes every descriptor of the spawner except those of the request. */
static void close_others(struct helper *h, struct cow *c, int *paths, int *client, int *report)
{
	int *wanted[] = { &h->run, &h->result, &c->fd, paths, client, report };
	const int first = STDERR_FILENO + 1, n = (int)countof(wanted);
	/* Move them to high numbers first: one may occupy another's target number. */
	for (int i = 0; i < n; i++)
		*wanted[i] = *wanted[i] < 0 ? -1 : fcntl(*wanted[i], F_DUPFD_CLOEXEC, first + n);
	for (int i = 0; i < n; i++) {
		close(first + i);
		*wanted[i] = *wanted[i] < 0 ? -1 : dup2(*wanted[i], first + i);
	}
	fd_close_range((unsigned)(first + n), UINT_MAX);
}

static _Noreturn void helper_main(struct cow *c, const struct spawn_msg *m, const char *id, const int *fds)
{
	struct helper h = { .undo = COW_UNDO_INIT,
			    .privileged = c->privileged,
			    .result = fds[1],
			    .walk = { .op = (enum change_op)m->op } };
	int paths = fds[0], client = change_op_needs_client(h.walk.op) ? fds[2] : -1,
	    report = h.walk.op == CHANGE_OP_REVERT ? fds[3] : -1;
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	bool all = h.walk.op == CHANGE_OP_SWEEP, overlay = !all && report < 0;
	h.run = overlay ? open_run(c, id) : -1;
	if (h.run < 0 && overlay)
		_exit(errno == ENOTDIR || errno == ELOOP ? ENOENT : errno);
	close_others(&h, c, &paths, &client, &report);
	if (all)
		_exit(remove_trash(c) < 0 ? errno : 0);
	if (read_paths(&h.walk, paths) < 0 ||
	    (overlay ? helper_work(&h, c, id, client) : revert_files(&h, c->key, report, client)) < 0)
		_exit(errno && errno < 255 ? errno : EIO);
	_exit(0);
}

/* Moves every run to the trash that the request does not name. Returns an errno. */
static int sweep_runs(const struct cow *c, int paths)
{
	struct cow_walk w = { .op = CHANGE_OP_SWEEP };
	if (fcntl(paths, F_GET_SEALS) < 0)
		return EINVAL; /* reading another file could block */
	fd_auto int folder = openat(c->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0 || read_paths(&w, paths) < 0)
		return errno;
	mem_auto char *text = (char *)w.paths;
	DIR *d = fdopendir(folder);
	if (!d)
		return errno;
	folder = -1;
	struct strmap known = STRMAP_INIT;
	for (size_t at = 0; at < w.paths_len; at += strlen(text + at) + 1)
		strmap_put(&known, text + at, &known);
	for (const struct dirent *en; (en = readdir(d));) {
		char name[64];
		if (en->d_name[0] != '.' && !strmap_get(&known, en->d_name) && move_to_trash(c, en->d_name, name) < 0)
			log_warning("rename the copy-on-write run %s: %s", en->d_name, strerror(errno));
	}
	closedir(d);
	strmap_done(&known);
	return 0;
}

/*
 * Moves what the request removes to the trash before the next request is handled. Returns an errno; *ret_id names the
 * directory that the helper works on.
 */
static int begin_removal(const struct cow *c, const struct spawn_msg *m, int paths, char ret_id[64])
{
	snprintf(ret_id, 64, "%s", m->key.id);
	if (c->fd < 0)
		return 0; /* the helper reports it */
	if (m->op == CHANGE_OP_SWEEP)
		return sweep_runs(c, paths);
	return m->op == CHANGE_OP_DROP && move_to_trash(c, m->key.id, ret_id) < 0 ? errno : 0;
}

int cow_start(struct cow *c, const struct spawn_msg *m, const int *fds)
{
	char id[64];
	struct cow_helper *place = NULL;
	size_t copies = m->op == CHANGE_OP_COPY;
	for (size_t i = 0; i < CHANGE_HELPERS_MAX; i++) {
		if (c->helpers[i].pidfd < 0)
			place = &c->helpers[i];
		else
			copies += c->helpers[i].copies;
	}
	if (!place || (m->op == CHANGE_OP_COPY && copies > CHANGE_COPIES_MAX))
		return EBUSY;
	if (fcntl(fds[1], F_GET_SEALS) < 0)
		return EINVAL; /* write results only into a memfd */
	int error = begin_removal(c, m, fds[0], id);
	if (error)
		return error;
	pid_t pid = fork();
	if (pid < 0)
		return errno;
	if (pid == 0)
		helper_main(c, m, id, fds);
	int pidfd = fd_pidfd_open(pid);
	if (pidfd < 0) {
		int saved = errno;
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return saved;
	}
	*place = (struct cow_helper){ .pidfd = pidfd, .copies = m->op == CHANGE_OP_COPY, .key = m->key };
	return 0;
}

size_t cow_polls(const struct cow *c, int *fds)
{
	size_t n = 0;
	for (size_t i = 0; i < CHANGE_HELPERS_MAX; i++) {
		if (c->helpers[i].pidfd >= 0)
			fds[n++] = c->helpers[i].pidfd;
	}
	return n;
}

bool cow_reap(struct cow *c, int pidfd, struct spawn_msg *answer)
{
	for (size_t i = 0; i < CHANGE_HELPERS_MAX; i++) {
		struct cow_helper *h = &c->helpers[i];
		siginfo_t info = { 0 };
		if (h->pidfd != pidfd)
			continue;
		if (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0)
			return false;
		answer->key = h->key;
		answer->error = info.si_code == CLD_EXITED ? info.si_status : EIO;
		fd_close(&h->pidfd);
		return true;
	}
	return false;
}

#include "supervisor/fleet/workspaces.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "supervisor/fleet/fleet_node.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECK_MS 60000u
#define AGAIN_MS 1000u
#define BUDGET 2000u   /* files in one tick */
#define ASK_MAX 50u    /* workspaces in one tick about which the daemon is asked */
#define DEPTH_MAX 100u /* folders that are open at a time */
#define CLOCK_MS 10000 /* more in one tick is not an adjustment */
#define STUCK_MS 60000u
#define STUCK_MOST_MS 3600000u
#define OWNER ".owner"
#define DEEP "deep_"
#define MARKED_NAME_SIZE WORKSPACE_NAME

/* ---- removal ---- */

struct removal {
	int top; /* the folder of workspaces */
	unsigned *budget;
	bool any;  /* something was removed or moved up */
	int error; /* of the last file that could not be removed */
};

static int open_folder(int dir_fd, const char *name)
{
	return openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Moves an entry to a name in the folder of workspaces that marks it for removal. */
static bool mark_for_removal(int dir_fd, const char *name, int top, char ret[MARKED_NAME_SIZE])
{
	static unsigned serial;

	for (int tries = 0; tries < 16; tries++) { /* an earlier process may have left some */
		snprintf(ret, MARKED_NAME_SIZE, DEEP "%ld_%u", (long)getpid(), serial++);
		if (renameat(dir_fd, name, top, ret) == 0)
			return true;
	}
	return false;
}

/* A command may have made more folders inside each other than can be open: the lower ones are moved up. */
static void move_up(struct removal *r, int dir_fd, const char *name)
{
	char to[MARKED_NAME_SIZE];

	r->any |= mark_for_removal(dir_fd, name, r->top, to);
}

static bool remove_entry(struct removal *r, int dir_fd, const char *name, int flags)
{
	const bool removed = unlinkat(dir_fd, name, flags) == 0;

	r->any |= removed;
	if (!removed && errno != ENOTEMPTY)
		r->error = errno;
	return removed;
}

/* Closes fd. A command may have taken away permissions of its folders: they are given back. */
static void empty_folder(struct removal *r, int fd, unsigned depth)
{
	DIR *dir = fdopendir(fd);

	if (!dir) {
		close(fd);
		return;
	}
	(void)fchmod(dirfd(dir), 0700);
	for (struct dirent *entry; *r->budget && (entry = readdir(dir));) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		--*r->budget;
		if (unlinkat(dirfd(dir), entry->d_name, 0) == 0) {
			r->any = true;
			continue;
		}
		(void)!fchmodat(dirfd(dir), entry->d_name, 0700, AT_SYMLINK_NOFOLLOW);
		if (depth >= DEPTH_MAX) {
			move_up(r, dirfd(dir), entry->d_name);
			continue;
		}
		int below = open_folder(dirfd(dir), entry->d_name);
		const bool folder = below >= 0 || errno == EACCES; /* it may be empty */
		if (below >= 0)
			empty_folder(r, below, depth + 1);
		(void)remove_entry(r, dirfd(dir), entry->d_name, folder ? AT_REMOVEDIR : 0);
	}
	closedir(dir);
}

static bool remove_tree(struct removal *r, const char *name)
{
	(void)!fchmodat(r->top, name, 0700, AT_SYMLINK_NOFOLLOW);
	int fd = open_folder(r->top, name);
	if (fd >= 0)
		empty_folder(r, fd, 0);
	return remove_entry(r, r->top, name, fd >= 0 ? AT_REMOVEDIR : 0) || errno == ENOENT;
}

bool workspace_remove(int dir_fd, const char *name, unsigned *budget)
{
	struct removal r = { .top = dir_fd, .budget = budget };

	return remove_tree(&r, name);
}

/* ---- the owner ---- */

/* A whole file or none: an empty one would be nobody's. 1 = there is one. */
static int write_owner(int dir_fd, const char *instance)
{
	char name[sizeof(OWNER) + 24];

	snprintf(name, sizeof(name), OWNER ".%ld", (long)getpid());
	(void)unlinkat(dir_fd, name, 0);
	fd_auto int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	int r = fd_write_all(fd, instance, strlen(instance)) < 0 || fsync(fd) < 0 ? -1 : 0;
	if (r == 0)
		r = renameat2(dir_fd, name, dir_fd, OWNER, RENAME_NOREPLACE);
	if (r < 0 && errno == EINVAL) /* a file system without it */
		r = renameat(dir_fd, name, dir_fd, OWNER);
	int saved = errno;
	if (r < 0)
		(void)unlinkat(dir_fd, name, 0);
	errno = saved;
	return r < 0 && errno == EEXIST ? 1 : r;
}

static bool is_owner(int dir_fd, const char *instance)
{
	fd_auto int fd = openat(dir_fd, OWNER, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char text[FLEET_ID_MAX + 2] = "";

	return fd >= 0 && fd_read_all(fd, text, sizeof(text) - 1) >= 0 && strcmp(text, instance) == 0;
}

int workspaces_init(struct workspaces *w, int dir_fd, const char *instance, uint64_t keep_ms, struct err *e)
{
	*w = (struct workspaces){ .dir_fd = dir_fd, .keep_ms = keep_ms };
	if (faccessat(dir_fd, OWNER, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT &&
	    write_owner(dir_fd, instance) < 0)
		return err_sys(e, errno, "write '" OWNER "' in the folder of workspaces (key fleet.workDir)");
	return is_owner(dir_fd, instance)
		       ? 0
		       : err_field(e, "fleet.workDir",
				   "its folder for this node has the workspaces of another daemon: use another "
				   "fleet.workDir or another name (fleet.node); if that daemon is gone for good, "
				   "remove the file " OWNER " there");
}

/* ---- old workspaces ---- */

/* Of ids as fleet_local_id makes them. */
static bool is_workspace(const char *name)
{
	return strncmp(name, "task_", 5) == 0 && strlen(name) == 29 && strspn(name + 5, "0123456789abcdef") == 24;
}

/* As mark_for_removal makes them. */
static bool is_marked_for_removal(const char *name)
{
	static const char digits[] = "0123456789";

	if (strncmp(name, DEEP, strlen(DEEP)) != 0)
		return false;
	name += strlen(DEEP);
	const size_t pid = strspn(name, digits);
	if (!pid || name[pid] != '_')
		return false;
	const size_t serial = strspn(name + pid + 1, digits);
	return serial && !name[pid + 1 + serial];
}

static bool is_in_use(const struct fleet_node *n, const char *name)
{
	for (const struct fleet_run *r = n->runs; r; r = r->next)
		if (strcmp(r->local_id, name) == 0)
			return true;
	return false;
}

/* Nothing has changed in the folder since before the time for which it is kept: only then the daemon is asked. */
static bool may_be_old(const struct workspaces *w, const char *name, uint64_t real)
{
	struct stat st;

	return fstatat(w->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       real >= (uint64_t)st.st_ctim.tv_sec * 1000 + w->keep_ms;
}

static bool is_old(const struct workspaces *w, const struct fleet_node *n, const char *name, uint64_t real,
		   unsigned *asks)
{
	struct fleet_local l = { 0 };
	struct err e = ERR_INIT;

	if (!is_workspace(name) || is_in_use(n, name) || !may_be_old(w, name, real))
		return false;
	--*asks;
	int known = n->daemon->ops->status(n->daemon, name, &l, &e);
	free(l.result);
	return known == 1 || (known == 0 && l.ended && real >= l.ended_at + w->keep_ms);
}

/* ---- what cannot be removed ---- */

static struct workspace_stuck *find_stuck(struct workspaces *w, const char *name)
{
	for (size_t i = 0; i < WORKSPACES_STUCK; i++)
		if (strcmp(w->stuck[i].name, name) == 0)
			return &w->stuck[i];
	return NULL;
}

/* Something else may make it removable later: it is tried again, less and less often. Reported once. */
static void note_stuck(struct workspaces *w, const char *name, int error, uint64_t now)
{
	struct workspace_stuck *s = find_stuck(w, name);

	if (!s) {
		s = &w->stuck[0];
		for (size_t i = 1; i < WORKSPACES_STUCK; i++)
			s = w->stuck[i].again_at < s->again_at ? &w->stuck[i] : s;
		*s = (struct workspace_stuck){ .delay_ms = STUCK_MS / 2 };
		snprintf(s->name, sizeof(s->name), "%s", name);
		log_warning("'%s' in the folder of workspaces (key fleet.workDir) cannot be removed: %s; remove it as "
			    "a user who may",
			    name, strerror(error));
	}
	s->delay_ms = s->delay_ms * 2 < STUCK_MOST_MS ? s->delay_ms * 2 : STUCK_MOST_MS;
	s->again_at = now + s->delay_ms;
}

static void remove_marked(struct workspaces *w, const char *name, uint64_t now, unsigned *files)
{
	struct removal r = { .top = w->dir_fd, .budget = files };
	struct workspace_stuck *s = find_stuck(w, name);

	if (s && now < s->again_at)
		return;
	if (!remove_tree(&r, name) && !r.any && r.error)
		note_stuck(w, name, r.error, now);
	else if (s)
		*s = (struct workspace_stuck){ 0 };
}

/* An old workspace is renamed first, so that the daemon is not asked again about one that takes several ticks. */
static void remove_old(struct workspaces *w, const struct fleet_node *n, const char *name, uint64_t now, uint64_t real,
		       unsigned *files, unsigned *asks)
{
	const struct workspace_stuck *s = find_stuck(w, name);
	char marked[MARKED_NAME_SIZE];

	if (is_marked_for_removal(name)) {
		remove_marked(w, name, now, files);
	} else if ((s && now < s->again_at) || !is_old(w, n, name, real, asks)) {
		return;
	} else if (mark_for_removal(w->dir_fd, name, w->dir_fd, marked)) {
		log_info("the workspace of %s is removed", name);
		remove_marked(w, marked, now, files);
	} else {
		note_stuck(w, name, errno, now);
	}
}

static bool open_list(struct workspaces *w)
{
	int fd = open_folder(w->dir_fd, ".");

	w->list = fd >= 0 ? fdopendir(fd) : NULL;
	if (!w->list)
		fd_close(&fd);
	w->more = false;
	return w->list;
}

/*
 * Ages are differences of the wall clock. After it was set, what ended before may seem to be old: nothing is removed
 * until it is in any case.
 */
static void check_clock(struct workspaces *w, uint64_t now, uint64_t real)
{
	const int64_t offset = (int64_t)(real - now), moved = offset - w->offset;

	if (w->has_offset && (moved > CLOCK_MS || moved < -CLOCK_MS)) {
		log_info("the clock was set: workspaces are kept for the whole time from now on");
		w->hold_until = now + w->keep_ms;
	}
	w->offset = offset;
	w->has_offset = true;
}

void workspaces_tick(struct workspaces *w, const struct fleet_node *n, uint64_t now, uint64_t real)
{
	unsigned files = BUDGET, asks = ASK_MAX;
	struct dirent *entry = NULL;

	check_clock(w, now, real);
	/* Before the recovery, what an earlier process has claimed is not known. */
	if (!n->recovered || now < w->check_at || now < w->hold_until)
		return;
	w->check_at = now + CHECK_MS;
	if (!w->list && !open_list(w))
		return;
	while (files && asks && (entry = readdir(w->list))) {
		files--; /* also those that stay: each one costs some time */
		remove_old(w, n, entry->d_name, now, real, &files, &asks);
		w->more |= !files; /* perhaps not all of this one */
	}
	if (!files || !asks) { /* continues after this entry */
		w->check_at = now + AGAIN_MS;
		return;
	}
	workspaces_done(w);
	if (w->more)
		w->check_at = now + AGAIN_MS;
}

void workspaces_done(struct workspaces *w)
{
	if (w->list)
		closedir(w->list);
	w->list = NULL;
}

#include "supervisor/gateway/acp/path_guard.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EVENTS_SIZE 65536
#define CHANGES (IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF)

void path_guard_done(struct path_guard *g)
{
	fd_close(&g->watch);
	free(g->path);
	*g = (struct path_guard){ .watch = -1 };
}

static bool names_file(const struct path_guard *g)
{
	const struct open_how how = { .flags = O_PATH | O_CLOEXEC | O_NOFOLLOW, .resolve = RESOLVE_NO_SYMLINKS };
	fd_auto int fd = (int)syscall(SYS_openat2, AT_FDCWD, g->path, &how, sizeof(how));
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_dev == g->device &&
	       (uint64_t)st.st_ino == g->inode;
}

/* Watches the directory that has the entry at `slash`. */
static bool watch_entry(struct path_guard *g, size_t slash)
{
	mem_auto char *folder = slash ? mem_strndup(g->path, slash) : mem_strdup("/");
	int wd = inotify_add_watch(g->watch, folder, CHANGES | IN_ONLYDIR | IN_DONT_FOLLOW);

	if (wd < 0)
		return errno == EACCES && faccessat(AT_FDCWD, folder, W_OK, AT_EACCESS) < 0 && errno == EACCES;
	if (g->nentries == PATH_GUARD_MAX)
		return false;
	g->entry[g->nentries].wd = wd;
	g->entry[g->nentries++].name = g->path + slash + 1;
	return true;
}

bool path_guard_begin(struct path_guard *g, const char *path, uint64_t device, uint64_t inode)
{
	*g = (struct path_guard){ .watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK),
				  .path = mem_strdup(path),
				  .device = device,
				  .inode = inode };
	bool good = g->watch >= 0 && path[0] == '/';
	for (size_t i = 0; good && path[i]; i++)
		if (path[i] == '/')
			good = watch_entry(g, i);
	if (good && names_file(g))
		return true;
	path_guard_done(g);
	return false;
}

static bool concerns(const struct path_guard *g, const struct inotify_event *event)
{
	if (event->mask & (IN_Q_OVERFLOW | IN_IGNORED | IN_UNMOUNT | IN_DELETE_SELF | IN_MOVE_SELF))
		return true;
	for (size_t i = 0; i < g->nentries; i++) {
		size_t n = strcspn(g->entry[i].name, "/");

		if (g->entry[i].wd == event->wd && event->len && strncmp(event->name, g->entry[i].name, n) == 0 &&
		    !event->name[n])
			return true;
	}
	return false;
}

bool path_guard_end(struct path_guard *g)
{
	/* First the path, then the events: see the header. */
	bool same = g->watch >= 0 && names_file(g);
	mem_auto char *events = mem_zalloc(1, EVENTS_SIZE);
	ssize_t n;

	while (same && (n = read(g->watch, events, EVENTS_SIZE)) != 0) {
		if (n < 0) {
			same = errno == EAGAIN;
			break;
		}
		for (const char *at = events; same && at < events + n;) {
			const struct inotify_event *event = (const struct inotify_event *)(const void *)at;

			same = !concerns(g, event);
			at += sizeof(*event) + event->len;
		}
	}
	path_guard_done(g);
	return same;
}

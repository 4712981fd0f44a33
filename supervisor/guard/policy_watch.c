#include "supervisor/guard/policy_watch.h"

#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define EVENTS_SIZE 4096 /* several events; one has at most 272 bytes */

/* In the directory of a file. IN_CREATE: link(2) and symlink(2) cause nothing else. */
#define FILE_EVENTS (IN_CLOSE_WRITE | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB)
/* Of every directory of its path: then other directories have to be watched. */
#define REPLACED (IN_MOVE_SELF | IN_DELETE_SELF | IN_UNMOUNT)
/* In the last directory of its path that exists. */
#define APPEARED (IN_CREATE | IN_MOVED_TO)

/* Watches the directory that ends before this slash of the path. */
static int add_watch(int fd, const char *file, const char *slash, uint32_t events)
{
	mem_auto char *folder = mem_strndup(file, slash == file ? 1 : (size_t)(slash - file));
	return inotify_add_watch(fd, folder, events | IN_ONLYDIR | IN_MASK_ADD);
}

/* The missing directory may have been created before its parent was watched, so it is tried again. */
static bool watch_missing(int fd, const char *file, const char *above, const char *slash, uint32_t events)
{
	if ((errno != ENOENT && errno != ENOTDIR) || !above || add_watch(fd, file, above, APPEARED) < 0)
		return false;
	return add_watch(fd, file, slash, events) < 0;
}

/* Directories that cannot be watched, such as a /home without read permission, are left out. */
static bool watch_file(int fd, const char *file)
{
	const char *const last = strrchr(file, '/');
	const char *above = NULL;
	bool watched = false;
	for (const char *slash = file; slash && slash <= last; above = slash, slash = strchr(slash + 1, '/')) {
		const uint32_t events = slash == last ? FILE_EVENTS | REPLACED : REPLACED;
		if (add_watch(fd, file, slash, events) >= 0)
			watched = slash == last;
		else if (watch_missing(fd, file, above, slash, events))
			return true;
	}
	return watched;
}

/* Watches what is not watched yet. Returns whether at least one file is. */
static bool watch_files(int fd, const char *const *files, size_t n)
{
	bool any = false;
	for (size_t i = 0; i < n; i++) {
		if (!files[i] || files[i][0] != '/')
			continue;
		const bool watched = watch_file(fd, files[i]);
		any |= watched;
		if (!watched && errno == ENOSPC)
			log_error("changes of '%s' are noticed only at SIGHUP: fs.inotify.max_user_watches is reached",
				  files[i]);
	}
	return any;
}

static int open_instance(const char *const *files, size_t n)
{
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (fd >= 0 && !watch_files(fd, files, n))
		fd_close(&fd);
	return fd;
}

int policy_watch_open(const char *const *files, size_t n)
{
	size_t named = 0;

	for (size_t i = 0; i < n; i++)
		named += files[i] && files[i][0] == '/';
	int fd = named ? open_instance(files, n) : -1;
	if (named && fd < 0)
		log_error("changes of policy files are noticed only at SIGHUP: %s", strerror(errno));
	return fd;
}

/* By name only, in any of the watched directories: a false match costs one unnecessary reload. */
static const char *find_name(const char *name, const char *const *files, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *slash = files[i] ? strrchr(files[i], '/') : NULL;

		if (slash && strcmp(slash + 1, name) == 0)
			return files[i];
	}
	return NULL;
}

/* Whether it is the name of a directory in one of the paths. */
static bool is_folder_of(const char *name, const char *const *files, size_t n)
{
	const size_t len = strlen(name);

	for (size_t i = 0; i < n; i++)
		for (const char *at = files[i]; at && (at = strchr(at, '/')); at++)
			if (strncmp(at + 1, name, len) == 0 && at[1 + len] == '/')
				return true;
	return false;
}

/* A new file that is empty is about to be written. */
static bool is_empty(const char *file)
{
	struct stat st;
	return stat(file, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0;
}

/*
 * Directories that were replaced need other watches. A new instance has no watches of directories that were moved away;
 * but commands of the same user can take all the instances that a user may have, and then the old one is kept.
 */
static void watch_again(int *fd, const char *const *files, size_t n)
{
	int fresh = open_instance(files, n);
	if (fresh < 0) {
		watch_files(*fd, files, n);
		return;
	}
	fd_close(fd);
	*fd = fresh;
}

bool policy_watch_touched(int *fd, const char *const *files, size_t n)
{
	char events[EVENTS_SIZE] __attribute__((aligned(__alignof__(struct inotify_event))));
	bool touched = false, replaced = false;
	ssize_t len;

	while ((len = read(*fd, events, sizeof(events))) > 0)
		for (const char *at = events; at < events + len;) {
			const struct inotify_event *event = (const struct inotify_event *)at;
			const char *file = event->len ? find_name(event->name, files, n) : NULL;

			touched |= file && (!(event->mask & IN_CREATE) || !is_empty(file));
			replaced |= event->mask & (REPLACED | IN_Q_OVERFLOW) ||
				    (event->mask & APPEARED && event->len && is_folder_of(event->name, files, n));
			at += sizeof(*event) + event->len;
		}
	if (replaced)
		watch_again(fd, files, n);
	return touched || replaced;
}

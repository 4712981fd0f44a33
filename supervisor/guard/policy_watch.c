#include "supervisor/guard/policy_watch.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"

#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define EVENTS_SIZE 4096 /* several events; one has at most 272 bytes */

int policy_watch_open(const char *const *files, size_t n)
{
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	bool any = false;

	for (size_t i = 0; i < n && fd >= 0; i++) {
		const char *slash = files[i] ? strrchr(files[i], '/') : NULL;

		if (!slash)
			continue;
		mem_auto char *folder = mem_strndup(files[i], slash == files[i] ? 1 : (size_t)(slash - files[i]));
		any |= inotify_add_watch(fd, folder,
					 IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB |
						 IN_ONLYDIR) >= 0;
	}
	if (!any)
		fd_close(&fd);
	return fd;
}

/* By name only, in any of the watched directories: a false match costs one unnecessary reload. */
static bool is_name_of(const char *name, const char *const *files, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *slash = files[i] ? strrchr(files[i], '/') : NULL;

		if (slash && strcmp(slash + 1, name) == 0)
			return true;
	}
	return false;
}

bool policy_watch_touched(int fd, const char *const *files, size_t n)
{
	char events[EVENTS_SIZE] __attribute__((aligned(__alignof__(struct inotify_event))));
	bool touched = false;
	ssize_t len;

	while ((len = read(fd, events, sizeof(events))) > 0)
		for (const char *at = events; at < events + len;) {
			const struct inotify_event *event = (const struct inotify_event *)at;

			touched |= event->mask & IN_Q_OVERFLOW || (event->len && is_name_of(event->name, files, n));
			at += sizeof(*event) + event->len;
		}
	return touched;
}

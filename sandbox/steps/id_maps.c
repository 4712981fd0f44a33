#include "sandbox/steps/step.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int write_file(struct step_context *c, const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));
	int saved = errno;
	if (fd >= 0)
		close(fd);
	errno = saved;
	if (n < 0)
		step_path(c, path);
	return n < 0 ? -1 : 0;
}

/*
 * Each id is mapped onto itself: the command sees the same owner of its files as outside. The kernel lets an unprivileged
 * process map only its own gid, and only after setgroups was given up, so supplementary groups stay as they are.
 */
int step_id_maps(struct step_context *c)
{
	if (c->privileged)
		return 0;
	char map[64];
	if (write_file(c, "/proc/self/setgroups", "deny") < 0)
		return -1;
	snprintf(map, sizeof map, "%u %u 1", c->uid, c->uid);
	if (write_file(c, "/proc/self/uid_map", map) < 0)
		return -1;
	snprintf(map, sizeof map, "%u %u 1", c->gid, c->gid);
	return write_file(c, "/proc/self/gid_map", map);
}

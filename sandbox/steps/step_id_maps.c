#include "runtime/base/fd.h"
#include "sandbox/steps/step.h"
#include "sandbox/userns.h"

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
	if (n < 0)
		step_path(c, userns_path(userns_classify(USERNS_STAGE_MAPS, saved)));
	errno = saved;
	return n < 0 ? -1 : 0;
}

/* Root's ids are mapped by the spawner (start.c), which may do what this process cannot any more. */
static int await_maps(struct step_context *c)
{
	char byte;
	ssize_t n;
	while ((n = read(c->maps_fd, &byte, 1)) < 0 && errno == EINTR)
		continue;
	fd_close(&c->maps_fd);
	if (n == 1)
		return 0;
	step_path(c, userns_path(USERNS_ROOT_MAP));
	errno = EPERM;
	return -1;
}

/*
 * Each id is mapped onto itself: the command sees the same owner of its files as outside. The kernel lets an
 * unprivileged process map only its own gid, and only after setgroups was given up, so supplementary groups stay as
 * they are.
 */
int step_id_maps(struct step_context *c)
{
	if (c->privileged)
		return 0;
	if (c->maps_fd >= 0)
		return await_maps(c);
	char map[64];
	if (write_file(c, "/proc/self/setgroups", "deny") < 0)
		return -1;
	snprintf(map, sizeof map, "%u %u 1", c->uid, c->uid);
	if (write_file(c, "/proc/self/uid_map", map) < 0)
		return -1;
	snprintf(map, sizeof map, "%u %u 1", c->gid, c->gid);
	return write_file(c, "/proc/self/gid_map", map);
}

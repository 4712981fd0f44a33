#include "runtime/base/fd.h"
#include "sandbox/steps/step.h"
#include "sandbox/steps/tree.h"

#include <errno.h>

/* All three are folders of the new root's file system: what they hold together is limited. */
static const struct {
	const char *source, *place;
} folders[] = {
	{ "tmp/shm", "/dev/shm" },
	{ "tmp/var", "/var/tmp" },
	{ "tmp/tmp", "/tmp" }, /* the last: it covers where they come from */
};

int step_tmp(struct step_context *c)
{
	if (!step_confined(c))
		return 0;
	for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
		fd_auto int place = tree_mount_point(c, folders[i].place, true);
		if (place < 0 && (errno == ENOENT || errno == ELOOP))
			continue; /* a /var that is the host's and has no folder there, or a link to one that we make */
		fd_auto int tree = place < 0 ? -1 : tree_clone(c->root_fd, folders[i].source);
		if (tree < 0 || tree_set(tree, TREE_INERT, -1) < 0 || tree_attach(tree, place) < 0) {
			step_path(c, folders[i].place);
			return -1;
		}
	}
	return 0;
}

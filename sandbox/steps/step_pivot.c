#include "runtime/base/fd.h"
#include "sandbox/steps/step.h"
#include "sandbox/steps/tree.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * From here on the host's tree does not exist for this process or any below it. The old root is put on top of the new
 * one (".", ".") and detached from there, so that no folder is needed for it.
 */
int step_pivot(struct step_context *c)
{
	if (!step_confined(c))
		return 0;
	struct mount_attr a = { .attr_set = MOUNT_ATTR_RDONLY };
	if (fchdir(c->root_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
	    chdir("/") < 0 || mount_setattr(c->root_fd, "", AT_EMPTY_PATH, &a, sizeof a) < 0)
		return -1;
	fd_close(&c->root_fd);
	if (!c->outer_root)
		fd_close(&c->void_folder); /* `ids` needs it */
	fd_close(&c->void_file);
	return 0;
}

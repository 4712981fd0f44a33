/* The descriptors of a START, whose types are checked: the runtime that sends them may be compromised. */

#include "supervisor/spawner/spawner.h"

#include "runtime/base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

void start_fds_assign(struct start_fds *f, const struct spawn_msg *m, const int *fds)
{
	*f = (struct start_fds){ .plan = m->plan_len ? -1 : *fds++, .out = -1, .err = -1, .in = -1 };
	f->client = *fds++;
	f->status = *fds++;
	f->gate = *fds++;
	if (m->flags & PLAN_TTY)
		return;
	f->out = *fds++;
	if (!(m->flags & PLAN_STDERR_MERGE))
		f->err = *fds++;
	if (m->flags & PLAN_STDIN_PIPE)
		f->in = *fds;
}

int start_socket_option(int fd, int name)
{
	int value = -1;
	socklen_t len = sizeof value;
	return getsockopt(fd, SOL_SOCKET, name, &value, &len) < 0 ? -1 : value;
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

/* Long input that is known at the start comes in a memfd, sealed so that it cannot change. */
static bool is_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	return seals >= 0 && seals & F_SEAL_WRITE;
}

/* The command can reopen its own ends through /dev/stdout etc., but only in the pipe's direction. */
static int give_pipe(int fd, const struct spawn_identity *id, mode_t mode, const char *what, struct err *e)
{
	if (fd < 0)
		return 0;
	if (!(mode == 0400 && is_sealed(fd)) && check_pipe(fd, what, e) < 0)
		return -1;
	uid_t uid = id->outer_root ? id->peer_uid : id->uid;
	gid_t gid = id->outer_root ? id->peer_gid : id->gid;
	if (id->uid != geteuid() && fchown(fd, uid, gid) < 0)
		return err_sys(e, errno, "give %s to uid %u", what, uid);
	if (fchmod(fd, mode) < 0)
		return err_sys(e, errno, "set the mode of %s", what);
	return 0;
}

static int check_socket(int fd, const char *what, struct err *e)
{
	if (start_socket_option(fd, SO_DOMAIN) != AF_UNIX || start_socket_option(fd, SO_TYPE) != SOCK_SEQPACKET)
		return err_field(e, what, "is not a seqpacket socket");
	return 0;
}

int start_fds_check(const struct start_fds *f, const struct plan_head *plan, const struct spawn_identity *id,
		    struct err *e)
{
	if (check_socket(f->status, "status", e) < 0 || check_pipe(f->gate, "gate", e) < 0 ||
	    give_pipe(f->out, id, 0200, "stdout", e) < 0 || give_pipe(f->err, id, 0200, "stderr", e) < 0)
		return -1;
	return plan->flags & PLAN_HOLDER ? check_socket(f->in, "stdin", e) : give_pipe(f->in, id, 0400, "stdin", e);
}

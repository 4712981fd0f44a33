#include "runtime/base/fd.h"
#include "sandbox/plan.h"
#include "sandbox/steps/step.h"
#include "sandbox/steps/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME "bailiff-sandbox"

/* Copies a file and appends a line, after a newline if the file's last line lacks one. */
static int copy_with(int in, int out, const char *line)
{
	char buf[4096];
	char end = '\n';
	ssize_t n;
	while ((n = read(in, buf, sizeof buf)) > 0) {
		end = buf[n - 1];
		if (fd_write_all(out, buf, (size_t)n) < 0)
			return -1;
	}
	if (n < 0 || (end != '\n' && fd_write_all(out, "\n", 1) < 0))
		return -1;
	return fd_write_all(out, line, strlen(line));
}

/* The copy has a name in the new root only until it is bound. */
static int extend_file(struct step_context *c, const char *path, const char *line)
{
	fd_auto int place = tree_find(c, path);
	fd_auto int in = place < 0 ? -1 : openat(c->root_fd, path + 1, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (in < 0)
		return 0; /* no account file: none exist, or they are managed in another way */
	fd_auto int out = openat(c->root_fd, STEP_ACCOUNT_COPY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
				 0644);
	if (out < 0 || copy_with(in, out, line) < 0)
		return -1;
	fd_auto int tree = tree_clone(c->root_fd, STEP_ACCOUNT_COPY);
	if (tree < 0 || tree_set(tree, TREE_READ, -1) < 0 || tree_attach(tree, place) < 0)
		return -1;
	return unlinkat(c->root_fd, STEP_ACCOUNT_COPY, 0);
}

/* Adds the command's id to passwd and group for programs that look it up: id, whoami, ssh, python's getpass. */
int step_accounts(struct step_context *c)
{
	char line[4200];
	if (!step_confined(c) || c->uid == c->peer_uid)
		return 0;
	int n = snprintf(line, sizeof line, NAME ":x:%u:%u:" NAME ":%s:/bin/sh\n", c->uid, c->gid, plan_home(c->plan));
	if (n >= (int)sizeof line || extend_file(c, "/etc/passwd", line) < 0) {
		step_path(c, "/etc/passwd");
		return -1;
	}
	snprintf(line, sizeof line, NAME ":x:%u:\n", c->gid);
	if (extend_file(c, "/etc/group", line) < 0) {
		step_path(c, "/etc/group");
		return -1;
	}
	return 0;
}

#include "supervisor/spawner/leader.h"

#include "runtime/base/fd.h"
#include "sandbox/audit.h"
#include "sandbox/steps/step.h"
#include "supervisor/common/earlier_use.h"
#include "supervisor/common/process_title.h"
#include "supervisor/spawner/command_run.h"
#include "supervisor/spawner/init.h"
#include "supervisor/spawner/member_join.h"
#include "supervisor/spawner/mount_watch.h"
#include "supervisor/spawner/proc_stat.h"

#include <errno.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * If the host has created a hidden path, the command must not run: the holder reports that, and ends the sandbox. If
 * that cannot be determined, only this command fails.
 */
static void check_hidden_paths(const struct leader *l)
{
	const int r = mount_watch_find_created(l->mounts, &l->state->hidden);
	const int error = errno;
	char path[56], what[sizeof l->in->steps.path]; /* the end of a long path */
	l->state->stage = r > 0 ? LEADER_FOUND_PATH : LEADER_STARTING;
	if (r > 0)
		_exit(1);
	if (r == 0)
		return;
	mount_watch_path(l->mounts, l->state->hidden, path, sizeof path);
	snprintf(what, sizeof what, "the hidden path %s cannot be examined (if that stays, use a new sandbox)", path);
	step_path(&l->in->steps, what);
	init_fail(l->in, STEP_CLONE, error);
}

/* Runs one command. `start`: when the leader started, if it has led another member before. */
static void lead_member(const struct leader *l, const struct plan_head *plan, int fds[MEMBER_FDS], uint64_t start,
			bool keep)
{
	struct init *in = l->in;
	struct step_context *c = &in->steps;
	c->status_fd = fds[MEMBER_FD_STATUS];
	c->gate_fd = fds[MEMBER_FD_GATE];
	c->stdout_fd = fds[MEMBER_FD_OUT];
	c->stderr_fd = fds[MEMBER_FD_ERR];
	c->stdin_fd = fds[MEMBER_FD_IN];
	init_set_plan(in, plan);
	check_hidden_paths(l);
	if (!start && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		init_fail(in, STEP_CLONE, errno);
	if (fds[MEMBER_FD_LIMITS] >= 0 && member_join(in, fds[MEMBER_FD_LIMITS]) < 0)
		init_fail(in, STEP_LIMITS, errno);
	fd_close(&fds[MEMBER_FD_LIMITS]);
	if (step_terminal(c) < 0)
		init_fail(in, STEP_TERMINAL, errno);
	command_run(in, &(struct command_run){ .session = AUDIT_NO_SESSION,
					       .signal_fd = l->signal_fd,
					       .leader_start = start,
					       .again = start,
					       .keep = keep });
	fd_close(&c->status_fd);
}

/*
 * If there is a socket to the holder, it can lead another member afterwards: it has no children then, so it is as good
 * as a new one, without the cost of a fork.
 */
_Noreturn void leader_run(const struct leader *l, const struct plan_head *plan, int fds[MEMBER_FDS])
{
	struct init *in = l->in;
	const void *next = plan;
	uint64_t start = 0;
	in->leader = true;
	in->starting = &l->state->stage;
	process_title_set(in->title, "bailiffd: leader");
	for (uint32_t led = 1;; led++) {
		lead_member(l, next, fds, start,
			    l->holder_fd >= 0 && led < COMMAND_RUN_MAX && in->title->size >= EARLIER_USE_MAX);
		if (!in->kept || (!start && !(start = proc_start_time(getpid()))) ||
		    fd_send(l->holder_fd, "d", 1, NULL, 0, MSG_NOSIGNAL) < 0)
			_exit(0);
		int r = member_msg_receive(l->holder_fd, 0, l->buffer, fds, &next);
		if (r < 0 && errno == 0)
			_exit(0); /* it is not needed any longer */
		if (r <= 0 || !next)
			_exit(1); /* nothing has reported this member, so the holder does */
	}
}

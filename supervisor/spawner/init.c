/*
 * Pid 1 of a sandbox. It runs the steps and then the command (command_run.c), or, as a holder, waits for members
 * (holder.c). It reaps every orphan of the namespace. When it exits, the kernel kills the rest of the namespace.
 */

#include "supervisor/spawner/init.h"

#include "runtime/base/fd.h"
#include "sandbox/audit.h"
#include "sandbox/host_fingerprint.h"
#include "sandbox/init_name.h"
#include "sandbox/plan.h"
#include "sandbox/steps/step.h"
#include "sandbox/userns.h"
#include "supervisor/common/earlier_use.h"
#include "supervisor/common/process_title.h"
#include "supervisor/spawner/command_run.h"
#include "supervisor/spawner/holder.h"
#include "supervisor/spawner/leftovers.h"
#include "supervisor/spawner/prebuilt_msg.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

/*
 * A higher score needs no privilege: it only makes this process a likelier victim. The file stays open because it is
 * unreachable later, when init_raise_oom_score needs it.
 */
static void set_oom_score(struct init *in)
{
	in->steps.oom_fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	init_write_oom_score(in, in->oom_score);
}

/* Layers that a private root always has, whatever the plan requires: a compromised runtime cannot ask for less. */
#define WALL (PLAN_LAYER_NAMESPACES | PLAN_LAYER_SECCOMP | PLAN_LAYER_CAPABILITIES)

/* Returns the step of a required layer that is not in effect, or STEP_COUNT if none is missing. */
static enum sandbox_step missing_layer(const struct init *in)
{
	static const struct {
		uint32_t layer;
		enum sandbox_step step;
	} rows[] = {
		{ PLAN_LAYER_NAMESPACES, STEP_CLONE },
		{ PLAN_LAYER_CGROUP, STEP_CLONE },
		{ PLAN_LAYER_MOUNTS, STEP_PROC },
		{ PLAN_LAYER_CAPABILITIES, STEP_IDS },
		{ PLAN_LAYER_LANDLOCK, STEP_LANDLOCK },
		{ PLAN_LAYER_SECCOMP, STEP_SECCOMP },
		{ PLAN_LAYER_ABSTRACT_SOCKETS, STEP_LANDLOCK },
	};
	uint32_t wall = (step_confined(&in->steps) ? WALL : 0) |
			(in->steps.outer_root ? PLAN_LAYER_ABSTRACT_SOCKETS : 0);
	uint32_t missing = (in->steps.plan->require | wall) & ~in->steps.layers;
	for (size_t i = 0; missing && i < sizeof rows / sizeof rows[0]; i++) {
		if (missing & rows[i].layer)
			return rows[i].step;
	}
	return STEP_COUNT;
}

/* Must be set before the command exists: every daemon rejects clients that run below a process of this name. */
static void set_name(const struct init *in)
{
	process_title_replace(in->title, "bailiffd: init");
	prctl(PR_SET_NAME, SANDBOX_INIT_NAME, 0, 0, 0);
}

/* Whether this sandbox can be used again, if its next command leaves nothing in it. */
static bool can_be_kept(const struct init *in)
{
	return in->room->msg.keep && in->leftovers && leftovers_are_settled(in->leftovers) &&
	       in->title->size >= EARLIER_USE_MAX;
}

/*
 * Prebuilt sandboxes: runs the steps that do not depend on the command; for a dedicated sandbox, all steps of the init.
 * The only thing shared with the spawner is the socket on which the message arrives; the spawner closes it to discard
 * the sandbox. A dedicated sandbox that cannot be built exits silently: the next start that needs one builds it on
 * demand and reports the error.
 */
static void wait_for_command(struct init *in)
{
	bool dedicated = in->steps.fingerprint;
	enum sandbox_step step = STEP_CLONE;
	const struct sched_param none = { 0 };
	/*
	 * Neither building the sandbox nor its wakeup by the message should preempt other work: the sender has more to
	 * do.
	 */
	in->polite = sched_getscheduler(0) == SCHED_OTHER && sched_setscheduler(0, SCHED_BATCH, &none) == 0;
	if (!dedicated && step_descriptors(&in->steps) < 0)
		_exit(1);
	int error = steps_run(&in->steps, STEP_PREBUILT, &step) < 0 ? errno : 0;
	if (dedicated && (error || steps_run(&in->steps, STEP_IN_INIT, &step) < 0 || missing_layer(in) != STEP_COUNT))
		_exit(0);
	if (dedicated) {
		in->leftovers = leftovers_new(&in->steps, in->steps.layers & PLAN_LAYER_CGROUP ? in->sockets : NULL);
		in->mounts_fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
		if (in->mounts_fd < 0 || prebuilt_msg_send_ready(in) < 0)
			_exit(0);
	}
	if ((error ? prebuilt_msg_receive_last(in) : prebuilt_msg_wait(in)) < 0)
		_exit(0);
	set_name(in);
	if (in->polite && sched_setscheduler(0, SCHED_OTHER, &none) < 0 && !error)
		error = errno;
	if (error)
		init_fail(in, step, error);
	if (dedicated && !can_be_kept(in))
		fingerprint_unpin(in->steps.fingerprint);
}

/* After a command: reports that nothing is left of it and waits for another one. */
static void wait_again(struct init *in)
{
	const struct sched_param none = { 0 };
	process_title_set(in->title, "bailiffd: zygote");
	if (in->steps.core_fd < 0)
		in->steps.core_fd = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);
	if ((in->polite && sched_setscheduler(0, SCHED_BATCH, &none) < 0) || leftovers_exist(in->leftovers) ||
	    prebuilt_msg_send_empty(in) < 0 || prebuilt_msg_wait(in) < 0 ||
	    (in->polite && sched_setscheduler(0, SCHED_OTHER, &none) < 0))
		_exit(0);
	set_name(in);
}

/* Runs every step of the init, in one pass or, if prebuilt, in two. */
static void make_sandbox(struct init *in)
{
	enum sandbox_step step = STEP_CLONE;
	if (in->steps.prebuilt_fd >= 0)
		wait_for_command(in);
	else if (steps_run(&in->steps, STEP_PREBUILT, &step) < 0)
		init_fail(in, step, errno);
	if (in->steps.fingerprint)
		return;
	if (steps_run(&in->steps, STEP_IN_INIT, &step) < 0)
		init_fail(in, step, errno);
	step = missing_layer(in);
	if (step == STEP_PROC)
		step_path(&in->steps, userns_path(USERNS_PROC));
	else if (step == STEP_LANDLOCK && in->steps.outer_root)
		step_path(&in->steps, "--net host, which shows root's command here to the host's abstract sockets");
	if (step != STEP_COUNT)
		init_fail(in, step, EOPNOTSUPP);
}

_Noreturn void init_main(struct init *in)
{
	sigset_t child;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_SETMASK, &child, NULL);
	if (in->steps.prebuilt_fd >= 0)
		process_title_set(in->title, "bailiffd: zygote");
	else
		set_name(in);
	set_oom_score(in);
	if (in->leaf_fd >= 0)
		tree_files_open_v2(&in->steps.tree, in->leaf_fd);
	/*
	 * Must run while the host's /proc is mounted and the capability is held. The command and its children inherit
	 * the session.
	 */
	uint32_t session = in->audit ? audit_enter_session() : AUDIT_NO_SESSION;
	in->steps.logged = session != AUDIT_NO_SESSION;

	make_sandbox(in);
	if (in->steps.plan->flags & PLAN_HOLDER)
		holder_run(in, session);
	struct command_run run = { .session = session, .signal_fd = command_run_signal_fd() };
	for (uint32_t n = 1;; n++) {
		run.keep = in->steps.prebuilt_fd >= 0 && n < COMMAND_RUN_MAX && can_be_kept(in);
		command_run(in, &run);
		if (!in->kept)
			_exit(0);
		run.again = true;
		wait_again(in);
	}
}

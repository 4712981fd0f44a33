/*
 * From the gate to exec, in the command's own process. It shares the init's memory until exec (see init.c), so nothing
 * here allocates memory or changes anything outside of struct init.
 */

#include "sandbox/plan.h"
#include "sandbox/steps/step.h"
#include "supervisor/spawner/cpu_affinity.h"
#include "supervisor/spawner/init.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define PATH_DEFAULT "/usr/local/bin:/usr/bin:/bin"

void init_set_plan(struct init *in, const struct plan_head *p)
{
	in->steps.plan = p;
	for (uint32_t i = 0; i < p->argc; i++)
		in->argv[1 + i] = plan_arg(p, i);
	in->argv[1 + p->argc] = NULL;
	in->envv = in->argv + p->argc + 2;
	for (uint32_t i = 0; i < p->envc; i++)
		in->envv[i] = plan_env(p, i);
	in->envv[p->envc] = NULL;
}

/* Uses PATH of the plan's environment: the daemon's own must not influence what is executed. */
static const char *search_path(const struct plan_head *p)
{
	for (uint32_t i = 0; i < p->envc; i++) {
		if (strncmp(plan_env(p, i), "PATH=", 5) == 0)
			return plan_env(p, i) + 5;
	}
	return PATH_DEFAULT;
}

/* Like execvp(3): a file in a format that the kernel does not recognise is run by the shell. */
static void try_path(struct init *in, const char *path)
{
	char *const *envv = (char *const *)in->envv;
	execve(path, (char *const *)(in->argv + 1), envv);
	if (errno == ENOEXEC) {
		const char *name = in->argv[1];
		in->argv[0] = "/bin/sh";
		in->argv[1] = path;
		execve("/bin/sh", (char *const *)in->argv, envv);
		in->argv[1] = name;
	}
}

/* True for errors after which the search continues with the next directory of PATH. */
static bool search_continues_after(int errnum)
{
	return errnum == ENOENT || errnum == ENOTDIR || errnum == EACCES || errnum == ENAMETOOLONG || errnum == ELOOP ||
	       errnum == ESTALE || errnum == ENODEV || errnum == ETIMEDOUT;
}

static int search_and_exec(struct init *in)
{
	const char *name = in->argv[1];
	if (strchr(name, '/')) {
		try_path(in, name);
		return errno;
	}
	size_t len = strlen(name);
	char path[PATH_MAX];
	int result = ENOENT;
	for (const char *dir = search_path(in->steps.plan); dir;) {
		size_t n = strcspn(dir, ":");
		if (n + 1 + len + 1 <= sizeof path) {
			memcpy(path, dir, n);
			path[n] = '/';
			memcpy(path + n + (n > 0), name, len + 1); /* an empty entry means the working directory */
			try_path(in, path);
			if (!search_continues_after(errno))
				return errno;
			if (errno == EACCES)
				result = EACCES;
		}
		dir = dir[n] ? dir + n + 1 : NULL;
	}
	return result;
}

void exec_command(struct init *in)
{
	if (steps_run(&in->steps, STEP_IN_COMMAND, &in->reached) < 0) {
		in->error = errno ? errno : EIO;
		return;
	}
	in->reached = STEP_EXEC;
	cpu_affinity_reset(in->affinity);
	in->error = search_and_exec(in);
	step_path(&in->steps, in->argv[1]);
}

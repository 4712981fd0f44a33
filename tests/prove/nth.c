/*
 * nth [-v] OUTPUT [PLAN …] -- PROGRAM ARGUMENTS: runs a daemon, and one of its system calls fails, is delayed or is its
 * last.
 *
 *     PLAN = ROLE CALL N fail ERRNO | ROLE CALL N delay MS | ROLE CALL N kill | ROLE CALL N kill+ROLE   (one argument)
 *
 * "runtime fdatasync 3 fail 5" is the third fdatasync of the runtime, counted since PROGRAM started, over all threads
 * and all processes that had this role. A role is the name that a process gives itself (process_title.c: guard,
 * runtime, spawner, proxy, init, leader, …) or, for separate programs, the name of the program (bailiff-model: model).
 * A child has the role of its parent until it has a name. Calls of other programs, that is commands, and of the dynamic
 * loader are not counted.
 *
 * The tracer uses ptrace and not a preloaded library: every call is seen, also those of static programs, of inits and
 * of programs in sandboxes where no library of the test exists; the filters of the processes stay as they are. To stop
 * at every call is slow: with plans, root has a filter in PROGRAM that stops only the calls that a plan names and those
 * that give a process its name. Commands inherit it and are traced, too, as such a call fails without a tracer. A call
 * that fails is replaced by getpid, which every filter allows, and its result by the error; close takes place before it
 * fails, as in the kernel. Calls that the vDSO serves (clock_gettime …) are not system calls and are not seen.
 *
 * PROGRAM keeps the pid of nth: the tracer is a grandchild in a session of its own, which ends with the last process
 * that it traces. OUTPUT gets a line "fired PLAN" for each plan, at once, also "unnamed PLAN" if it was a child that
 * had no name of its own yet, and at the end "count ROLE CALL N" and "end".
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ptrace.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* sys/ptrace.h and linux/ptrace.h define the same names. */
extern long ptrace(int request, ...);

#define ROLES 32
#define CALLS 512
#define TASKS 512
#define PLANS 16
#define OPTIONS                                                                                                        \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | \
	 PTRACE_O_TRACEEXIT)

struct role {
	char name[24];
	unsigned count[CALLS];
};

struct process {
	int refs;
	struct role *role;
	bool named;      /* its role is final until it executes another program */
	bool is_command; /* a program that is not ours */
	bool is_fork;    /* of a process with another purpose: it has not executed a program */
	uint64_t loader_begin, loader_end;
};

struct task {
	pid_t tid;
	struct process *process; /* NULL: stopped before the event that names its parent */
	bool is_parked;
	int64_t resume_ms; /* 0: not delayed */
	long forced;       /* the result that the call gets, if is_forced */
	bool is_forced;
};

enum action { ACTION_FAIL, ACTION_DELAY, ACTION_KILL };

struct plan {
	const char *text;
	char role[24], also[24];
	int call;
	unsigned n;
	enum action action;
	int value;
	bool is_fired;
};

static struct role roles[ROLES];
static struct task tasks[TASKS];
static struct plan plans[PLANS];
static size_t n_plans;
static bool is_verbose, has_executed, has_filter, has_delayed;
static FILE *output;

_Noreturn static void fail(const char *what)
{
	fprintf(output ? output : stderr, "error %s: %s\n", what, strerror(errno));
	exit(125);
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- processes ---- */

static struct role *find_role(const char *name)
{
	for (size_t i = 0; i < ROLES; i++) {
		if (!roles[i].name[0])
			snprintf(roles[i].name, sizeof roles[i].name, "%s", name);
		if (strncmp(roles[i].name, name, sizeof roles[i].name - 1) == 0)
			return &roles[i];
	}
	errno = ENOSPC;
	fail("too many roles");
}

static struct task *find_task(pid_t tid)
{
	for (size_t i = 0; i < TASKS; i++)
		if (tasks[i].tid == tid)
			return &tasks[i];
	return NULL;
}

static struct task *add_task(pid_t tid)
{
	struct task *t = find_task(0);

	if (!t)
		fail("too many tasks");
	*t = (struct task){ .tid = tid };
	return t;
}

static void set_process(struct task *t, struct process *p)
{
	if (p)
		p->refs++;
	if (t->process && --t->process->refs == 0)
		free(t->process);
	t->process = p;
}

static struct process *copy_process(const struct process *from)
{
	struct process *p = calloc(1, sizeof *p);

	if (!p)
		fail("calloc");
	if (from)
		*p = *from;
	p->refs = 0;
	p->named = false;
	p->is_fork = from != NULL;
	return p;
}

static void forget(struct task *t)
{
	set_process(t, NULL);
	*t = (struct task){ 0 };
}

/* The mapping of the dynamic loader, if there is one. */
static void find_loader(pid_t pid, struct process *p)
{
	char path[64], line[512];

	p->loader_begin = p->loader_end = 0;
	snprintf(path, sizeof path, "/proc/%d/maps", pid);
	FILE *f = fopen(path, "re");
	if (!f)
		return;
	while (fgets(line, sizeof line, f)) {
		unsigned long begin, end;
		char mode[8];

		if (sscanf(line, "%lx-%lx %7s", &begin, &end, mode) == 3 && mode[2] == 'x' &&
		    strstr(line, "/ld-linux")) {
			p->loader_begin = begin;
			p->loader_end = end;
		}
	}
	fclose(f);
}

static bool is_watched(const struct process *p)
{
	bool open = n_plans == 0;

	if (has_filter)
		return false;
	for (size_t i = 0; i < n_plans; i++) {
		if (plans[i].is_fired)
			continue;
		open = true;
		if (strcmp(plans[i].role, p->role->name) == 0)
			return true;
	}
	return open && (!p->named || n_plans == 0);
}

static void resume(struct task *t, int sig)
{
	t->resume_ms = 0;
	t->is_parked = false;
	/* ESRCH: it was killed meanwhile, which waitpid reports. */
	if (ptrace(is_watched(t->process) || t->is_forced ? PTRACE_SYSCALL : PTRACE_CONT, t->tid, NULL, (long)sig) <
		    0 &&
	    errno != ESRCH)
		fail("resume");
}

static void delay(struct task *t, int ms)
{
	t->resume_ms = now_ms() + ms;
	has_delayed = true;
}

static void detach(struct task *t)
{
	ptrace(PTRACE_DETACH, t->tid, NULL, NULL);
	forget(t);
}

/* ---- calls ---- */

/* Registers differ: the number of the call at its entry, its result at its exit. */
static void set_number(pid_t tid, int number)
{
#if defined(__aarch64__)
	struct iovec v = { &number, sizeof number };

	if (ptrace(PTRACE_SETREGSET, tid, (long)NT_ARM_SYSTEM_CALL, &v) < 0 && errno != ESRCH)
		fail("set the number of the call");
#elif defined(__x86_64__)
	if (ptrace(PTRACE_POKEUSR, tid, 15L * 8, (long)number) < 0 && errno != ESRCH) /* orig_rax */
		fail("set the number of the call");
#endif
}

static void set_result(pid_t tid, long result)
{
#if defined(__aarch64__)
	uint64_t regs[34];
	struct iovec v = { regs, sizeof regs };

	if (ptrace(PTRACE_GETREGSET, tid, (long)NT_PRSTATUS, &v) < 0)
		return;
	regs[0] = (uint64_t)result;
	ptrace(PTRACE_SETREGSET, tid, (long)NT_PRSTATUS, &v);
#elif defined(__x86_64__)
	ptrace(PTRACE_POKEUSR, tid, 10L * 8, result); /* rax */
#endif
}

/* prctl(PR_SET_NAME): the role is what follows "bailiff-". */
static void take_name(struct task *t, uint64_t address)
{
	char name[17] = "";
	struct iovec to = { name, 16 }, from = { (void *)(uintptr_t)address, 16 };

	if (process_vm_readv(t->tid, &to, 1, &from, 1, 0) <= 0 || strncmp(name, "bailiff-", 8) != 0)
		return;
	t->process->role = find_role(name + 8);
	t->process->named = true;
}

static void kill_role(const char *name)
{
	for (size_t i = 0; i < TASKS; i++)
		if (tasks[i].tid && tasks[i].process && strcmp(tasks[i].process->role->name, name) == 0)
			kill(tasks[i].tid, SIGKILL);
}

static void fire(struct task *t, struct plan *plan)
{
	plan->is_fired = true;
	fprintf(output, "fired %s\n", plan->text);
	if (t->process->is_fork && !t->process->named)
		fprintf(output, "unnamed %s\n", plan->text);
	fflush(output);
	switch (plan->action) {
	case ACTION_FAIL:
		if (plan->call != __NR_close)
			set_number(t->tid, __NR_getpid);
		t->forced = -plan->value;
		t->is_forced = true;
		break;
	case ACTION_DELAY: delay(t, plan->value); break;
	case ACTION_KILL:
		kill(t->tid, SIGKILL);
		if (plan->also[0])
			kill_role(plan->also);
		break;
	}
}

/*
 * EIO and ENOSPC are errors of files: pipes, sockets, eventfds … have their names in /proc without a leading slash.
 * Reads and writes of eventfds, timers and signalfds allocate nothing, and a write to an eventfd does not wait. A
 * socket that has data does not say EAGAIN: a reader that waits for the next edge would wait for ever.
 */
static bool is_plausible(const struct task *t, const struct plan *plan, const struct ptrace_syscall_info *info)
{
	char path[64], to[64] = "/";
	const bool reads = plan->call == __NR_read || plan->call == __NR_readv;

	if (plan->action != ACTION_FAIL || (!reads && plan->call != __NR_write && plan->call != __NR_writev))
		return true;
	snprintf(path, sizeof path, "/proc/%d/fd/%d", t->tid, (int)info->entry.args[0]);
	if (readlink(path, to, sizeof to - 1) < 0 || to[0] == '/')
		return true;
	switch (plan->value) {
	case EIO:
	case ENOSPC: return false;
	case ENOMEM: return strncmp(to, "anon_inode:", 11) != 0;
	case EINTR: return reads || strncmp(to, "anon_inode:", 11) != 0;
	case EAGAIN: return strncmp(to, "socket:", 7) != 0;
	default: return true;
	}
}

static void enter_call(struct task *t, const struct ptrace_syscall_info *info)
{
	struct process *p = t->process;
	uint64_t call = info->entry.nr; /* the other union members begin alike */

	if (p->is_command)
		return;
	if (call == __NR_prctl && info->entry.args[0] == PR_SET_NAME)
		take_name(t, info->entry.args[1]);
	if (call >= CALLS ||
	    (info->instruction_pointer >= p->loader_begin && info->instruction_pointer < p->loader_end))
		return;
	unsigned n = ++p->role->count[call];
	if (is_verbose)
		fprintf(output, "call %s %llu %u by %d\n", p->role->name, (unsigned long long)call, n, t->tid);
	for (size_t i = 0; i < n_plans; i++)
		if (!plans[i].is_fired && plans[i].call == (int)call && plans[i].n == n &&
		    strcmp(plans[i].role, p->role->name) == 0 && is_plausible(t, &plans[i], info))
			fire(t, &plans[i]);
}

static void stop_at_call(struct task *t)
{
	struct ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, t->tid, sizeof info, &info) < 0) {
		if (errno != ESRCH)
			fail("PTRACE_GET_SYSCALL_INFO");
		return;
	}
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY || info.op == PTRACE_SYSCALL_INFO_SECCOMP) {
		enter_call(t, &info);
	} else if (info.op == PTRACE_SYSCALL_INFO_EXIT && t->is_forced) {
		t->is_forced = false;
		set_result(t->tid, t->forced);
	}
	if (!t->resume_ms)
		resume(t, 0);
}

/* ---- events ---- */

static void on_child(struct task *parent)
{
	unsigned long tid = 0;
	char path[64];

	if (ptrace(PTRACE_GETEVENTMSG, parent->tid, NULL, &tid) < 0 || !tid)
		return;
	struct task *t = find_task((pid_t)tid);
	if (!t)
		t = add_task((pid_t)tid);
	snprintf(path, sizeof path, "/proc/%d/task/%lu", parent->tid, tid);
	set_process(t, access(path, F_OK) == 0 ? parent->process : copy_process(parent->process));
	if (t->is_parked)
		resume(t, 0);
}

static void on_exec(struct task *t)
{
	char path[64], exe[512];
	struct process *p = copy_process(t->process);

	set_process(t, p);

	snprintf(path, sizeof path, "/proc/%d/exe", t->tid);
	ssize_t n = readlink(path, exe, sizeof exe - 1);
	exe[n > 0 ? n : 0] = 0;
	const char *name = strrchr(exe, '/') ? strrchr(exe, '/') + 1 : exe;
	p->is_command = strncmp(name, "bailiff", 7) != 0;
	if (p->is_command)
		return;
	bool daemon = strcmp(name, "bailiffd") == 0;
	p->is_fork = false;
	p->role = find_role(daemon && !has_executed ? "guard" : name[7] == '-' ? name + 8 : name);
	p->named = !daemon && strcmp(name, "bailiff-spawner") != 0;
	has_executed = true;
	find_loader(t->tid, p);
}

static void on_stop(pid_t tid, int status)
{
	struct task *t = find_task(tid);
	int sig = WSTOPSIG(status), event = status >> 16;

	if (!t)
		t = add_task(tid);
	if (!t->process) {
		t->is_parked = true;
		delay(t, 200);
		return;
	}
	t->is_parked = false;
	if (sig == (SIGTRAP | 0x80) || event == PTRACE_EVENT_SECCOMP) {
		stop_at_call(t);
	} else if (event == PTRACE_EVENT_EXIT) {
		detach(t); /* its parent sees its end as without a tracer */
	} else if (event == PTRACE_EVENT_EXEC) {
		on_exec(t);
		if (t->process->is_command && !has_filter)
			detach(t);
		else
			resume(t, 0);
	} else if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE) {
		on_child(t);
		resume(t, 0);
	} else if (event == PTRACE_EVENT_STOP && sig != SIGTRAP) {
		ptrace(PTRACE_LISTEN, tid, NULL, NULL);
	} else {
		resume(t, event ? 0 : sig);
	}
}

/* True while a task is delayed. */
static bool resume_delayed(void)
{
	bool waits = false;

	if (!has_delayed)
		return false;
	for (size_t i = 0; i < TASKS; i++) {
		struct task *t = &tasks[i];

		if (!t->tid || !t->resume_ms)
			continue;
		if (now_ms() < t->resume_ms) {
			waits = true;
			continue;
		}
		if (!t->process) { /* its parent died before it could be asked */
			struct process *p = copy_process(NULL);

			p->role = find_role("orphan");
			set_process(t, p);
		}
		resume(t, 0);
	}
	has_delayed = waits;
	return waits;
}

static void write_counts(void)
{
	for (size_t i = 0; i < ROLES && roles[i].name[0]; i++)
		for (int call = 0; call < CALLS; call++) {
			char *name = roles[i].count[call] ? seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, call)
							  : NULL;

			if (name)
				fprintf(output, "count %s %s %u\n", roles[i].name, name, roles[i].count[call]);
			free(name);
		}
	fprintf(output, "end\n");
	fclose(output);
}

static void trace(void)
{
	while (true) {
		bool waits = resume_delayed();
		int status;
		pid_t tid = waitpid(-1, &status, __WALL | (waits ? WNOHANG : 0));

		if (tid < 0 && errno == ECHILD)
			break;
		if (tid < 0 && errno != EINTR)
			fail("waitpid");
		if (tid == 0)
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		if (tid <= 0)
			continue;
		if (WIFSTOPPED(status))
			on_stop(tid, status);
		else if (find_task(tid))
			forget(find_task(tid));
	}
	write_counts();
}

/* ---- the beginning ---- */

static bool parse_plan(struct plan *p, const char *text)
{
	char call[32], action[40];

	*p = (struct plan){ .text = text };
	int n = sscanf(text, "%23s %31s %u %39s %d", p->role, call, &p->n, action, &p->value);
	if (n < 4)
		return false;
	p->call = seccomp_syscall_resolve_name(call);
	if (strcmp(action, "fail") == 0 || strcmp(action, "delay") == 0) {
		p->action = *action == 'f' ? ACTION_FAIL : ACTION_DELAY;
		return n == 5 && p->call >= 0;
	}
	p->action = ACTION_KILL;
	if (strncmp(action, "kill+", 5) == 0)
		snprintf(p->also, sizeof p->also, "%.20s", action + 5);
	return strncmp(action, "kill", 4) == 0 && p->call >= 0;
}

/* For the first n plans. False: not permitted. */
static bool load_filter(size_t n)
{
	const struct scmp_arg_cmp names = { .arg = 0, .op = SCMP_CMP_EQ, .datum_a = PR_SET_NAME };
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	bool ok = filter && seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 0) == 0 &&
		  seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ALLOW) == 0 &&
		  seccomp_rule_add_array(filter, SCMP_ACT_TRACE(0), SCMP_SYS(prctl), 1, &names) == 0;

	for (size_t i = 0; ok && i < n; i++)
		ok = seccomp_rule_add(filter, SCMP_ACT_TRACE(0), plans[i].call, 0) == 0;
	ok = ok && seccomp_load(filter) == 0;
	seccomp_release(filter);
	return ok;
}

static bool can_filter(void)
{
	int status;
	pid_t child = fork();

	if (child == 0)
		_exit(load_filter(0) ? 0 : 1);
	return waitpid(child, &status, 0) == child && status == 0;
}

/* In the grandchild: returns when nothing is left to trace. */
static void start_tracer(pid_t subject, int ready)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	struct task *t = add_task(subject);
	struct process *p = copy_process(NULL);
	p->role = find_role("nth");
	p->is_command = true; /* until it executes the program */
	set_process(t, p);
	if (ptrace(PTRACE_SEIZE, subject, NULL, (long)OPTIONS | (has_filter ? PTRACE_O_TRACESECCOMP : 0)) < 0)
		fail("PTRACE_SEIZE");
	if (write(ready, "", 1) != 1)
		fail("write");
	close(ready);
	trace();
}

int main(int argc, char **argv)
{
	int ready[2], i = 1;
	char byte;

	if (i < argc && strcmp(argv[i], "-v") == 0) {
		is_verbose = true;
		i++;
	}
	output = i < argc ? fopen(argv[i++], "we") : NULL;
	for (; output && i < argc && strcmp(argv[i], "--") != 0; i++)
		if (n_plans == PLANS || !parse_plan(&plans[n_plans++], argv[i])) {
			fprintf(stderr, "nth: invalid plan \"%s\"\n", argv[i]);
			return 2;
		}
	if (!output || i + 1 >= argc) {
		fprintf(stderr, "usage: nth [-v] OUTPUT [\"ROLE CALL N fail ERRNO|delay MS|kill|kill+ROLE\" ...] -- "
				"PROGRAM [ARGUMENT ...]\n");
		return 2;
	}
	has_filter = n_plans > 0 && !is_verbose && can_filter();
	if (pipe2(ready, O_CLOEXEC) < 0)
		fail("pipe");
	pid_t subject = getpid(), child = fork();
	if (child == 0) {
		setsid();
		if (fork() == 0)
			start_tracer(subject, ready[1]);
		_exit(0);
	}
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	close(ready[1]);
	if (child < 0 || waitpid(child, NULL, 0) < 0 || read(ready[0], &byte, 1) != 1)
		fail("the tracer did not start");
	if (has_filter && !load_filter(n_plans))
		fail("seccomp_load");
	execv(argv[i + 1], argv + i + 1);
	fail("execv");
}

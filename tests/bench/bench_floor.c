/*
 * The lower bound of a sandboxed start: the kernel's share of it, by a program that does nothing else. Prints the CPU
 * time and the latency of each stage per run in µs, "name TAB CPU TAB latency"; each stage includes the ones before it,
 * except where its name says "only". Commits are records of 4 KiB that are written into an existing file in DIR and
 * synced, as the journal does before a command starts and after it has ended. Requires root.
 *
 *     bench_floor COUNT DIR
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOUNTS 26 /* what a sandbox of the profile workspace has */
#define RECORD 4096
#define RECORDS 1024
#define SPACES (CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

enum work { COMMIT, SPAWN_ONLY, SPAWN_COMMITTED, CLONE, ROOT, PROC, CONFINE, EXEC };

static const struct stage {
	const char *name;
	enum work work;
	uint64_t flags;
} stages[] = {
	{ "posix_spawn", SPAWN_ONLY, 0 },
	{ "two commits only", COMMIT, 0 },
	{ "posix_spawn between two commits only", SPAWN_COMMITTED, 0 },
	{ "clone and exit only", CLONE, 0 },
	{ "network namespace only", CLONE, CLONE_NEWNET },
	{ "namespaces", CLONE, SPACES },
	{ "a copy of a mount tree as root", ROOT, SPACES },
	{ "/proc", PROC, SPACES },
	{ "Landlock, system call filter", CONFINE, SPACES },
	{ "the command", EXEC, SPACES },
	{ "all with a network namespace", EXEC, SPACES | CLONE_NEWNET },
};

extern char **environ;
static char *const command[] = { (char *)"/bin/true", NULL };
static int template = -1, journal = -1;

static void require(long result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "bench_floor: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static void make_journal(const char *folder)
{
	static char zeros[RECORD];
	journal = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	require(journal, folder);
	for (int i = 0; i < RECORDS; i++)
		require(write(journal, zeros, RECORD), "write");
	require(fsync(journal), "sync");
}

static void commit(void)
{
	static char record[RECORD];
	static unsigned number;
	memset(record, (int)++number, RECORD);
	require(pwrite(journal, record, RECORD, (off_t)(number % RECORDS) * RECORD), "write");
	require(fdatasync(journal), "sync");
}

static void bind_into(const char *source, const char *name)
{
	require(mkdirat(template, name, 0755), name);
	int tree = open_tree(AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	require(tree, source);
	require(move_mount(tree, "", template, name, MOVE_MOUNT_F_EMPTY_PATH), name);
	close(tree);
}

/* A detached tree that no process ever enters: each sandbox gets a copy of it. */
static void make_template(void)
{
	char name[32];
	int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	require(fs, "fsopen");
	require(fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0), "fsconfig");
	template = fsmount(fs, FSMOUNT_CLOEXEC, 0);
	require(template, "fsmount");
	close(fs);
	require(mkdirat(template, "proc", 0755), "proc");
	require(symlinkat("usr/bin", template, "bin"), "bin");
	require(symlinkat("usr/lib", template, "lib"), "lib");
	require(symlinkat("usr/lib64", template, "lib64"), "lib64");
	bind_into("/usr", "usr");
	bind_into("/etc", "etc");
	for (int i = 2; i < MOUNTS; i++) {
		snprintf(name, sizeof name, "bound%d", i);
		bind_into("/etc", name);
	}
}

static void enter_root(void)
{
	require(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "make mounts private");
	int tree = open_tree(template, "",
			     (unsigned)(OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH));
	require(tree, "copy the tree");
	require(move_mount(tree, "", AT_FDCWD, "/sys", MOVE_MOUNT_F_EMPTY_PATH), "attach the tree");
	require(fchdir(tree), "fchdir");
	require(syscall(SYS_pivot_root, ".", "."), "pivot_root");
	require(umount2(".", MNT_DETACH), "umount");
	require(chdir("/"), "chdir");
}

static void confine(void)
{
	const struct landlock_ruleset_attr attr = { .handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE };
	struct sock_filter code[] = { { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW } };
	struct sock_fprog filter = { .len = 1, .filter = code };
	require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	int rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
	if (rules >= 0) {
		require(syscall(SYS_landlock_restrict_self, rules, 0), "Landlock");
		close(rules);
	}
	require(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter), "seccomp");
}

static _Noreturn void run_init(enum work work)
{
	int status = 0;
	if (work >= ROOT)
		enter_root();
	if (work >= PROC)
		require(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "/proc");
	if (work >= CONFINE)
		confine();
	if (work >= EXEC) {
		pid_t pid;
		require(-posix_spawn(&pid, command[0], NULL, NULL, command, environ), command[0]);
		require(waitpid(pid, &status, 0), "wait");
	}
	_exit(status != 0);
}

static void run_stage(const struct stage *s)
{
	pid_t pid;
	int status;
	if (s->work == COMMIT || s->work == SPAWN_COMMITTED)
		commit();
	if (s->work == COMMIT) {
		commit();
		return;
	}
	if (s->work == SPAWN_ONLY || s->work == SPAWN_COMMITTED) {
		require(-posix_spawn(&pid, command[0], NULL, NULL, command, environ), command[0]);
	} else {
		struct clone_args a = { .flags = s->flags, .exit_signal = SIGCHLD };
		pid = (pid_t)syscall(SYS_clone3, &a, sizeof a);
		require(pid, "clone");
		if (pid == 0)
			run_init(s->work);
	}
	require(waitpid(pid, &status, 0), "wait");
	if (status != 0)
		exit(1);
	if (s->work == SPAWN_COMMITTED)
		commit();
}

static double cpu_us(void)
{
	struct rusage self, children;
	getrusage(RUSAGE_SELF, &self);
	getrusage(RUSAGE_CHILDREN, &children);
	const struct timeval *t[] = { &self.ru_utime, &self.ru_stime, &children.ru_utime, &children.ru_stime };
	double us = 0;
	for (size_t i = 0; i < sizeof t / sizeof t[0]; i++)
		us += (double)t[i]->tv_sec * 1e6 + (double)t[i]->tv_usec;
	return us;
}

static double now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
	enum { COUNT = sizeof stages / sizeof stages[0], EACH = 10 };
	double used[COUNT] = { 0 }, taken[COUNT] = { 0 };
	if (argc != 3) {
		fputs("usage: bench_floor COUNT DIR\n", stderr);
		return 2;
	}
	int turns = atoi(argv[1]) / EACH;
	make_template();
	make_journal(argv[2]);
	for (int turn = 0; turn <= turns; turn++) { /* the first one warms up */
		for (size_t i = 0; i < COUNT; i++) {
			double cpu = cpu_us(), begin = now_us();
			for (int n = 0; n < EACH; n++)
				run_stage(&stages[i]);
			used[i] += turn ? (cpu_us() - cpu) / EACH : 0;
			taken[i] += turn ? (now_us() - begin) / EACH : 0;
		}
	}
	for (size_t i = 0; i < COUNT; i++)
		printf("%s\t%.0f\t%.0f\n", stages[i].name, used[i] / turns, taken[i] / turns);
	return 0;
}

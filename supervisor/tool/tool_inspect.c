/*
 * `bailiff-tool inspect …`: what a sandbox looks like from inside, for `bailiff doctor`, which starts it like any
 * command. It only tries things and reports the results as one JSON object; names of errors are those of errno(3).
 *
 *   sandbox HOME   the root, the home, processes, network, privileges, and a file written to the working directory
 *   landlock -     how many more Landlock domains this process can enter
 *   fifo PATH      opening a FIFO for writing: a read-only mount permits that, Landlock does not
 *   pids COUNT     how many processes it can have at once, up to that number
 *   memory BYTES   allocates and writes this much memory; the limit kills it
 *   cpu MS         how much CPU time a busy loop gets in that time
 *   terminal -     what standard input is
 */

#include "supervisor/tool/file_tool.h"

#include "runtime/base/mem.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PIDS_MAX 4096
#define CPU_MS_MAX 10000
#define DOMAINS_MAX 64
#define MEMORY_MAX (1ull << 30)

static const char *error_name(int errnum)
{
	const char *name = strerrorname_np(errnum);
	return name ? name : "unknown";
}

/* Success is written as "none": the member is always present. */
static void write_error(struct jw *w, const char *key, int errnum)
{
	jw_kstr(w, key, errnum ? error_name(errnum) : "none");
}

static void inspect_namespaces(struct jw *w)
{
	static const char *const names[] = { "user", "pid", "mnt", "net", "ipc", "uts", "cgroup" };
	jw_kobj(w, "namespaces");
	for (size_t i = 0; i < countof(names); i++) {
		char path[32], link[64];
		snprintf(path, sizeof path, "/proc/self/ns/%s", names[i]);
		ssize_t n = readlink(path, link, sizeof link - 1);
		if (n > 0)
			jw_kstrn(w, names[i], link, (size_t)n);
	}
	jw_obj_end(w);
}

static size_t count_entries(const char *path, bool numbers)
{
	size_t n = 0;
	DIR *d = opendir(path);
	for (struct dirent *entry; d && (entry = readdir(d));) {
		char first = entry->d_name[0];
		n += numbers ? first >= '1' && first <= '9'
			     : strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	}
	if (d)
		closedir(d);
	return n;
}

static void inspect_processes(struct jw *w)
{
	jw_kobj(w, "processes");
	jw_kint(w, "pid", getpid());
	jw_kuint(w, "visible", count_entries("/proc", true));
	jw_kbool(w, "proc", access("/proc/self/status", F_OK) == 0);
	jw_obj_end(w);
}

/* Tries to create a directory in /; a read-only mount rejects that before permissions are checked. */
static void inspect_root(struct jw *w)
{
	struct statvfs fs;
	const char name[] = "/.bailiff-inspect";
	int error = mkdir(name, 0755) < 0 ? errno : 0;
	if (!error)
		rmdir(name);
	jw_kobj(w, "root");
	write_error(w, "mkdir", error);
	jw_kbool(w, "readOnly", statvfs("/usr", &fs) == 0 && fs.f_flag & ST_RDONLY);
	jw_obj_end(w);
}

static void inspect_home(const char *home, struct jw *w)
{
	struct stat st;
	jw_kobj(w, "home");
	int error = stat(home, &st) < 0 ? errno : 0;
	write_error(w, "stat", error);
	if (!error) {
		jw_kuint(w, "device", st.st_dev);
		jw_kuint(w, "inode", st.st_ino);
		jw_kuint(w, "entries", count_entries(home, false));
	}
	jw_obj_end(w);
}

static void write_interfaces(int fd, struct jw *w)
{
	struct ifreq room[64];
	struct ifconf list = { .ifc_len = sizeof room, .ifc_req = room };
	jw_karr(w, "interfaces");
	if (ioctl(fd, SIOCGIFCONF, &list) == 0)
		for (size_t i = 0; i < (size_t)list.ifc_len / sizeof *room; i++)
			jw_strn(w, room[i].ifr_name, strnlen(room[i].ifr_name, IFNAMSIZ));
	jw_arr_end(w);
}

/* Connects to a documentation address (RFC 5737). Nothing is sent: without a route the kernel fails immediately. */
static void inspect_network(struct jw *w)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(0xc0000201) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	jw_kobj(w, "network");
	write_error(w, "connect", fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0 ? errno : 0);
	write_interfaces(fd, w);
	jw_obj_end(w);
	if (fd >= 0)
		close(fd);
}

/* Uses system calls, because /proc may be empty. Capability sets are hexadecimal numbers, as in /proc. */
static void inspect_privileges(struct jw *w)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 }, { 0 } };
	unsigned long long bounding = 0, ambient = 0;
	int error = syscall(SYS_capget, &head, data) < 0 ? errno : 0;
	for (unsigned long i = 0; i < 64 && prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++) {
		bounding |= (unsigned long long)(prctl(PR_CAPBSET_READ, i, 0, 0, 0) == 1) << i;
		ambient |= (unsigned long long)(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, i, 0, 0) == 1) << i;
	}
	const struct {
		const char *name;
		unsigned long long set;
	} sets[] = {
		{ "permitted", (unsigned long long)data[1].permitted << 32 | data[0].permitted },
		{ "effective", (unsigned long long)data[1].effective << 32 | data[0].effective },
		{ "inheritable", (unsigned long long)data[1].inheritable << 32 | data[0].inheritable },
		{ "bounding", bounding },
		{ "ambient", ambient },
	};
	jw_kobj(w, "privileges");
	jw_kuint(w, "uid", getuid());
	write_error(w, "capget", error);
	for (size_t i = 0; i < countof(sets); i++) {
		char text[24];
		snprintf(text, sizeof text, "%llx", sets[i].set);
		jw_kstr(w, sets[i].name, text);
	}
	jw_kbool(w, "noNewPrivs", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	jw_obj_end(w);
}

/* Calls that need no privilege, so only a seccomp filter can block them. */
static void inspect_filter(struct jw *w)
{
	int fd = memfd_create("inspect", MFD_CLOEXEC);
	jw_kobj(w, "filter");
	write_error(w, "keyctl",
		    syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 0) < 0 ? errno : 0);
	write_error(w, "setuidBit", fd < 0 || fchmod(fd, 04755) < 0 ? errno : 0);
	jw_obj_end(w);
	if (fd >= 0)
		close(fd);
}

static void inspect_workspace(struct jw *w)
{
	struct stat st;
	int fd = open("made-inside", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644), error = fd < 0 ? errno : 0;
	jw_kobj(w, "workspace");
	write_error(w, "create", error);
	if (fd >= 0 && fstat(fd, &st) == 0)
		jw_kuint(w, "uid", st.st_uid);
	if (fd >= 0)
		close(fd);
	jw_obj_end(w);
}

static int inspect_sandbox(const char *home, struct jw *w)
{
	inspect_namespaces(w);
	inspect_processes(w);
	inspect_root(w);
	inspect_home(home, w);
	inspect_network(w);
	inspect_privileges(w);
	inspect_filter(w);
	inspect_workspace(w);
	return 0;
}

/*
 * The kernel permits 16 nested domains and cannot report how many are in use, so this counts how many can be added.
 * Each one denies creating block devices, which nothing here does.
 */
static int inspect_landlock(const char *unused, struct jw *w)
{
	const uint64_t handled = 1u << 11;
	unsigned n = 0;
	int error = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? errno : 0;
	while (!error && n < DOMAINS_MAX) {
		int ruleset = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);
		error = ruleset < 0 || syscall(SYS_landlock_restrict_self, ruleset, 0) < 0 ? errno : 0;
		if (ruleset >= 0)
			close(ruleset);
		n += !error;
	}
	write_error(w, "restrict", error);
	jw_kuint(w, "domains", n);
	return 0;
}

/* ENXIO: permitted, but there is no reader. */
static int inspect_fifo(const char *path, struct jw *w)
{
	int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	write_error(w, "open", fd < 0 ? errno : 0);
	if (fd >= 0)
		close(fd);
	return 0;
}

/* The children only wait. They are killed and reaped before the result is written. */
static int inspect_pids(const char *count, struct jw *w)
{
	static pid_t pids[PIDS_MAX];
	unsigned long most = strtoul(count, NULL, 10), n = 0;
	int error = 0;
	for (; n < most && n < PIDS_MAX && !error; n += !error) {
		pids[n] = fork();
		if (pids[n] == 0)
			for (;;)
				pause();
		error = pids[n] < 0 ? errno : 0;
	}
	for (unsigned long i = 0; i < n; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	write_error(w, "fork", error);
	jw_kuint(w, "forked", n);
	return 0;
}

/* Writes to every page, because untouched memory is not charged to the cgroup. */
static int inspect_memory(const char *bytes, struct jw *w)
{
	unsigned long long n = strtoull(bytes, NULL, 10);
	if (n > MEMORY_MAX)
		return -1;
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (unsigned long long i = 0; p != MAP_FAILED && i < n; i += 4096)
		p[i] = 1;
	write_error(w, "map", p == MAP_FAILED ? errno : 0);
	jw_kuint(w, "written", p == MAP_FAILED ? 0 : n);
	return 0;
}

static uint64_t clock_ms(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int inspect_cpu(const char *ms, struct jw *w)
{
	const uint64_t begin = clock_ms(CLOCK_MONOTONIC), end = begin + strtoull(ms, NULL, 10);
	uint64_t now;
	do
		now = clock_ms(CLOCK_MONOTONIC);
	while (now < end && now < begin + CPU_MS_MAX);
	jw_kuint(w, "wallMs", now - begin);
	jw_kuint(w, "cpuMs", clock_ms(CLOCK_PROCESS_CPUTIME_ID));
	return 0;
}

static int inspect_terminal(const char *unused, struct jw *w)
{
	struct winsize size = { 0 };
	char name[64] = "";
	jw_kbool(w, "terminal", isatty(STDIN_FILENO) && ttyname_r(STDIN_FILENO, name, sizeof name) == 0);
	jw_kstr(w, "name", name);
	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0) {
		jw_kuint(w, "rows", size.ws_row);
		jw_kuint(w, "cols", size.ws_col);
	}
	return 0;
}

int tool_inspect_main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(const char *arg, struct jw *w);
	} subjects[] = {
		{ "sandbox", inspect_sandbox },   { "landlock", inspect_landlock }, { "fifo", inspect_fifo },
		{ "pids", inspect_pids },         { "memory", inspect_memory },     { "cpu", inspect_cpu },
		{ "terminal", inspect_terminal },
	};
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);
	int r = -1;
	jw_obj(&w);
	for (size_t i = 0; argc == 2 && i < countof(subjects); i++)
		if (strcmp(subjects[i].name, argv[0]) == 0)
			r = subjects[i].run(argv[1], &w);
	jw_obj_end(&w);
	buf_byte(&out, '\n');
	return r < 0 || tool_write_out(&out) < 0;
}

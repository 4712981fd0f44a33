#include "tests/escape/probe.h"

#include <asm/unistd.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/nsfs.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/acct.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- mounts ---- */

static int try_mount(const char *arg) { return mount("none", "/tmp", "tmpfs", 0, NULL); }

static int try_mount_bind(const char *arg) { return mount("/", "/tmp", NULL, MS_BIND | MS_REC, NULL); }

static int try_remount(const char *path) { return mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL); }

static int try_mount_proc(const char *arg) { return mount("proc", "/proc", "proc", 0, NULL); }

static int try_mount_overlay(const char *arg)
{
	mkdir("/tmp/up.probe", 0755);
	mkdir("/tmp/work.probe", 0755);
	int r = mount("overlay", "/tmp", "overlay", 0, "lowerdir=/etc,upperdir=/tmp/up.probe,workdir=/tmp/work.probe");
	int error = errno;
	rmdir("/tmp/up.probe");
	rmdir("/tmp/work.probe/work");
	rmdir("/tmp/work.probe");
	errno = error;
	return probe_reached(r, EINVAL);
}

static int try_umount(const char *arg) { return umount2("/proc", MNT_DETACH); }

static int try_pivot_root(const char *arg) { return probe_reached(syscall(SYS_pivot_root, "/", "/"), EBUSY); }

static int try_chroot(const char *arg) { return chroot("/tmp"); }

static int try_open_tree(const char *arg) { return open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | AT_RECURSIVE); }

static int try_open_tree_plain(const char *arg) { return open_tree(AT_FDCWD, "/", 0); }

static int try_move_mount(const char *arg)
{
	return probe_reached(move_mount(AT_FDCWD, "/proc", AT_FDCWD, "/no/such/place", 0), ENOENT);
}

static int try_mount_setattr(const char *arg)
{
	struct mount_attr a = { .attr_clr = MOUNT_ATTR_RDONLY };
	return mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &a, sizeof a);
}

static int try_fsopen(const char *arg)
{
	int fs = fsopen("tmpfs", 0);
	return fs < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0 ? -1 : fsmount(fs, 0, 0);
}

static int try_fspick(const char *arg) { return fspick(AT_FDCWD, "/", 0); }

/* ---- namespaces ---- */

static int try_unshare(const char *arg) { return unshare((int)strtoul(arg, NULL, 16)); }

static int in_child(long pid)
{
	if (pid == 0)
		_exit(0);
	if (pid > 0)
		waitpid((pid_t)pid, NULL, __WALL);
	return pid < 0 ? -1 : 0;
}

static int try_clone_user(const char *arg) { return in_child(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)); }

static int try_clone_user_high_bits(const char *arg)
{
	return in_child(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD | 1ul << 40, 0, 0, 0, 0));
}

static int try_clone3_user(const char *arg)
{
	struct clone_args a = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
	return in_child(syscall(SYS_clone3, &a, sizeof a));
}

static int try_clone3_cgroup(const char *arg)
{
	struct clone_args a = { .flags = CLONE_INTO_CGROUP, .cgroup = 999, .exit_signal = SIGCHLD };
	return probe_reached(in_child(syscall(SYS_clone3, &a, sizeof a)), EBADF);
}

static int try_setns(const char *path)
{
	int fd = open(path, O_RDONLY);
	return fd < 0 ? -1 : setns(fd, 0);
}

static int try_namespace_parent(const char *path)
{
	int fd = open(path, O_RDONLY);
	int parent = fd < 0 ? -1 : ioctl(fd, NS_GET_PARENT);
	return parent < 0 ? -1 : setns(parent, 0);
}

static int try_namespace_owner(const char *path)
{
	int fd = open(path, O_RDONLY);
	int owner = fd < 0 ? -1 : ioctl(fd, NS_GET_USERNS);
	/* One's own user namespace cannot be entered again, which is what EINVAL says. */
	return owner < 0 ? -1 : probe_reached(setns(owner, 0), EINVAL);
}

/* ---- the kernel's insides ---- */

static int try_keyctl(const char *arg)
{
	return (int)syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1);
}

static int try_add_key(const char *arg)
{
	return (int)syscall(SYS_add_key, "user", "probe", "x", 1, KEY_SPEC_PROCESS_KEYRING);
}

static int try_request_key(const char *arg)
{
	return probe_reached(syscall(SYS_request_key, "user", "no such probe", NULL, 0), ENOKEY);
}

static int try_bpf(const char *arg)
{
	union bpf_attr a = { .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1 };
	return (int)syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof a);
}

static int try_perf(const char *arg)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof a, .config = PERF_COUNT_SW_CPU_CLOCK, .exclude_kernel = 1
	};
	return (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
}

static int try_userfaultfd(const char *arg) { return (int)syscall(SYS_userfaultfd, 1 /* UFFD_USER_MODE_ONLY */); }

static int try_io_uring(const char *arg)
{
	struct io_uring_params p = { 0 };
	return (int)syscall(SYS_io_uring_setup, 4, &p);
}

static int try_kexec(const char *arg) { return probe_reached(syscall(SYS_kexec_load, 0, 1000, NULL, 0), EINVAL); }

static int try_load_module(const char *arg)
{
	return probe_reached(syscall(SYS_init_module, "nonsense", 8, ""), ENOEXEC);
}

static int try_delete_module(const char *arg)
{
	return probe_reached(syscall(SYS_delete_module, "no_such_probe", 0), ENOENT);
}

static int try_kernel_log(const char *arg)
{
	char text[64];
	return klogctl(3, text, sizeof text);
}

static int try_reboot(const char *arg) { return probe_reached(syscall(SYS_reboot, 1, 2, 3, NULL), EINVAL); }

static int try_swapoff(const char *arg) { return probe_reached(swapoff("/no/such/probe"), ENOENT); }

static int try_acct(const char *arg) { return probe_reached(acct("/no/such/probe"), ENOENT); }

static int try_set_hostname(const char *arg)
{
	struct utsname u;
	return uname(&u) < 0 ? -1 : sethostname(u.nodename, strlen(u.nodename));
}

static int try_set_clock(const char *arg)
{
	return probe_reached(syscall(SYS_clock_settime, CLOCK_REALTIME, &(struct timespec){ .tv_nsec = -1 }), EINVAL);
}

static int try_set_timeofday(const char *arg)
{
	struct timezone tz = { .tz_minuteswest = 10000 };
	return probe_reached(syscall(SYS_settimeofday, NULL, &tz), EINVAL);
}

static int try_quota(const char *arg)
{
	return probe_reached(syscall(SYS_quotactl, 0x800001 << 8, "/dev/null", 0, NULL), ENOTBLK);
}

static int try_fanotify(const char *arg) { return fanotify_init(FAN_CLASS_NOTIF, 0); }

static int try_fanotify_unprivileged(const char *arg) { return fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID, 0); }

static int try_vhangup(const char *arg)
{
	setsid(); /* of nothing */
	return (int)syscall(SYS_vhangup);
}

/* ---- other ways to make system calls ---- */

static int try_personality(const char *arg) { return personality(strtoul(arg, NULL, 16)); }

#if defined(__x86_64__)
static int try_foreign_calls(const char *arg)
{
	long r;
	/* getpid of i386 */
	__asm__ volatile("int $0x80" : "=a"(r) : "0"(20L) : "memory", "r8", "r9", "r10", "r11");
	errno = (int)-r;
	return r > 0 ? 0 : -1;
}

static int try_x32(const char *arg)
{
	/* Only with a kernel that has x32 would this be more than ENOSYS outside. */
	return (int)syscall(0x40000000 | SYS_getpid);
}
#else
/* A program of the 32-bit architecture that exits with 42. */
static int try_foreign_calls(const char *arg)
{
	static const uint32_t code[] = { 0xe3a0002a, 0xe3a07001, 0xef000000 };
	struct {
		uint8_t ident[16];
		uint16_t type, machine;
		uint32_t version, entry, phoff, shoff, flags;
		uint16_t ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
		uint32_t p_type, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_flags, p_align;
		uint32_t text[3];
	} elf = { .ident = { 0x7f, 'E', 'L', 'F', 1, 1, 1 },
		  .type = 2,
		  .machine = 40,
		  .version = 1,
		  .entry = 0x10000 + 84,
		  .phoff = 52,
		  .flags = 0x5000000,
		  .ehsize = 52,
		  .phentsize = 32,
		  .phnum = 1,
		  .p_type = 1,
		  .p_vaddr = 0x10000,
		  .p_paddr = 0x10000,
		  .p_filesz = sizeof elf,
		  .p_memsz = sizeof elf,
		  .p_flags = 5,
		  .p_align = 0x10000 };
	memcpy(elf.text, code, sizeof code);
	int fd = memfd_create("arm", 0), status = 0;
	if (fd < 0 || write(fd, &elf, sizeof elf) != sizeof elf)
		return -1;
	int report[2];
	if (pipe2(report, O_CLOEXEC) < 0)
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		execveat(fd, "", (char *[]){ NULL }, (char *[]){ NULL }, AT_EMPTY_PATH);
		int error = errno;
		_exit(write(report[1], &error, sizeof error) > 0 ? 1 : 2);
	}
	close(report[1]);
	int error = 0;
	if (read(report[0], &error, sizeof error) > 0)
		return probe_shut(error);
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status)) {
		probe_say("killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
		return probe_shut(ENOSYS);
	}
	return WEXITSTATUS(status) == 42 ? 0 : probe_shut(ENOSYS);
}
#endif

/* ---- terminals ---- */

static int terminal(void)
{
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY), unlock = 0;
	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return -1;
	int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
	setsid();
	if (slave >= 0 && ioctl(slave, TIOCSCTTY, 0) < 0)
		return -1;
	return slave;
}

static int try_type_into_terminal(const char *arg)
{
	int fd = terminal();
	return fd < 0 ? -1 : (int)syscall(SYS_ioctl, fd, TIOCSTI, "x");
}

static int try_type_with_high_bits(const char *arg)
{
	int fd = terminal();
	return fd < 0 ? -1 : (int)syscall(SYS_ioctl, fd, TIOCSTI | 1ul << 32, "x");
}

static int try_console_paste(const char *arg)
{
	char sub = 3; /* paste the selection */
	int fd = terminal();
	/* A terminal that is not a console returns ENOTTY if the call gets that far. */
	return fd < 0 ? -1 : probe_reached(syscall(SYS_ioctl, fd, TIOCLINUX | 1ul << 33, &sub), ENOTTY);
}

/* The same on the terminal that the probe runs on. */
static int try_type_into_own(const char *arg) { return (int)syscall(SYS_ioctl, 0, TIOCSTI, "x"); }

static int try_paste_own(const char *arg)
{
	char sub = 3;
	return probe_reached(syscall(SYS_ioctl, 0, TIOCLINUX, &sub), ENOTTY);
}

static int try_discipline_own(const char *arg)
{
	int number = 0;
	return ioctl(0, TIOCSETD, &number);
}

static int try_become_console(const char *arg) { return ioctl(0, TIOCCONS, 0); }

/* From a session that has none. */
static int try_steal_terminal(const char *arg)
{
	setsid();
	return ioctl(0, TIOCSCTTY, 1);
}

/* The terminal's master: its holder can read and write everything on the terminal. */
static int try_other_side(const char *arg)
{
	unsigned own = 0, number = 0;
	int fd = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY);
	if (fd < 0 || ioctl(fd, TIOCGPTN, &number) < 0 || ioctl(0, TIOCGPTN, &own) == 0)
		return fd < 0 ? -1 : 0;
	return number == 0 ? 0 : probe_shut(ENODATA); /* always one more, never ours */
}

/* Terminals other than that of the sandbox, which is its first. */
static int try_other_terminals(const char *arg)
{
	DIR *d = opendir("/dev/pts");
	if (!d)
		return -1;
	for (struct dirent *e; (e = readdir(d));) {
		if (e->d_name[0] != '.' && strcmp(e->d_name, "0") != 0 && strcmp(e->d_name, "ptmx") != 0) {
			probe_say("%s", e->d_name);
			return 0;
		}
	}
	return probe_shut(ENODATA);
}

static int try_line_discipline(const char *arg)
{
	int fd = terminal(), number = 0;
	return fd < 0 ? -1 : ioctl(fd, TIOCSETD, &number);
}

const struct probe probe_kernel[] = {
	{ "mount", try_mount },
	{ "mount_bind", try_mount_bind },
	{ "remount", try_remount },
	{ "mount_proc", try_mount_proc },
	{ "mount_overlay", try_mount_overlay },
	{ "umount", try_umount },
	{ "pivot_root", try_pivot_root },
	{ "chroot", try_chroot },
	{ "open_tree", try_open_tree },
	{ "open_tree_plain", try_open_tree_plain },
	{ "move_mount", try_move_mount },
	{ "mount_setattr", try_mount_setattr },
	{ "fsopen", try_fsopen },
	{ "fspick", try_fspick },
	{ "unshare", try_unshare },
	{ "clone_user", try_clone_user },
	{ "clone_user_high_bits", try_clone_user_high_bits },
	{ "clone3_user", try_clone3_user },
	{ "clone3_cgroup", try_clone3_cgroup },
	{ "setns", try_setns },
	{ "namespace_parent", try_namespace_parent },
	{ "namespace_owner", try_namespace_owner },
	{ "keyctl", try_keyctl },
	{ "add_key", try_add_key },
	{ "request_key", try_request_key },
	{ "bpf", try_bpf },
	{ "perf", try_perf },
	{ "userfaultfd", try_userfaultfd },
	{ "io_uring", try_io_uring },
	{ "kexec", try_kexec },
	{ "load_module", try_load_module },
	{ "delete_module", try_delete_module },
	{ "kernel_log", try_kernel_log },
	{ "reboot", try_reboot },
	{ "swapoff", try_swapoff },
	{ "acct", try_acct },
	{ "set_hostname", try_set_hostname },
	{ "set_clock", try_set_clock },
	{ "set_timeofday", try_set_timeofday },
	{ "quota", try_quota },
	{ "fanotify", try_fanotify },
	{ "fanotify_unprivileged", try_fanotify_unprivileged },
	{ "vhangup", try_vhangup },
	{ "personality", try_personality },
	{ "foreign_calls", try_foreign_calls },
#if defined(__x86_64__)
	{ "x32", try_x32 },
#endif
	{ "type_into_terminal", try_type_into_terminal },
	{ "type_with_high_bits", try_type_with_high_bits },
	{ "console_paste", try_console_paste },
	{ "line_discipline", try_line_discipline },
	{ "type_into_own", try_type_into_own },
	{ "paste_own", try_paste_own },
	{ "discipline_own", try_discipline_own },
	{ "become_console", try_become_console },
	{ "steal_terminal", try_steal_terminal },
	{ "other_side", try_other_side },
	{ "other_terminals", try_other_terminals },
	{ 0 },
};

#include "sandbox/landlock.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The kernel's interface is declared here: a distribution's headers are often years older than its users' kernels, and
 * a right that is not handled is a right that is granted.
 */
enum {
	FS_EXECUTE = 1u << 0,
	FS_WRITE_FILE = 1u << 1,
	FS_READ_FILE = 1u << 2,
	FS_READ_DIR = 1u << 3,
	FS_REMOVE_DIR = 1u << 4,
	FS_REMOVE_FILE = 1u << 5,
	FS_MAKE_CHAR = 1u << 6,
	FS_MAKE_DIR = 1u << 7,
	FS_MAKE_REG = 1u << 8,
	FS_MAKE_SOCK = 1u << 9,
	FS_MAKE_FIFO = 1u << 10,
	FS_MAKE_BLOCK = 1u << 11,
	FS_MAKE_SYM = 1u << 12,
	FS_REFER = 1u << 13,     /* ABI 2: link and rename to another directory */
	FS_TRUNCATE = 1u << 14,  /* ABI 3 */
	FS_IOCTL_DEV = 1u << 15, /* ABI 5 */
	FS_RESOLVE_UNIX = 1u
			  << 16, /* ABI 9: connect and send to sockets by path; those created inside are not affected */
};
enum { SCOPE_ABSTRACT_UNIX_SOCKET = 1u << 0, SCOPE_SIGNAL = 1u << 1 };
enum { ASK_VERSION = 1u << 0 };
enum { RULE_PATH_BENEATH = 1 };
enum { LOG_NEW_EXEC_ON = 1u << 1 };

struct ruleset_attr {
	uint64_t fs, net, scoped;
};
struct path_beneath_attr {
	uint64_t access;
	int32_t parent_fd;
} __attribute__((packed));

#define FS_READING (FS_EXECUTE | FS_READ_FILE | FS_READ_DIR)
/* No rights to create devices; existing ones in a write root are inert. */
#define FS_WRITING                                                                                                \
	(FS_READING | FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR | FS_MAKE_REG | FS_MAKE_SOCK | \
	 FS_MAKE_FIFO | FS_MAKE_SYM | FS_REFER | FS_TRUNCATE | FS_RESOLVE_UNIX)
/* Rights that apply to a path that is not a directory. */
#define FS_OF_FILES (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV | FS_RESOLVE_UNIX)

/* The rights that each ABI version introduced, as far as they are used here. */
static const struct {
	int abi;
	uint64_t fs, scoped;
	uint8_t attr_size;
} rights[] = {
	{ 1, (FS_MAKE_SYM << 1) - 1, 0, 8 },
	{ 2, FS_REFER, 0, 8 },
	{ 3, FS_TRUNCATE, 0, 8 },
	{ 5, FS_IOCTL_DEV, 0, 8 },
	{ LANDLOCK_ABI_SCOPES, 0, SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL, 24 },
	{ LANDLOCK_ABI_NAMED_SOCKETS, FS_RESOLVE_UNIX, 0, 24 },
};
#define ABI_LOG 7

/* Rights that every sandbox has on these paths, if they exist. */
static const struct {
	const char *path;
	uint64_t access;
} common[] = {
	{ "/", FS_READING },
	{ "/tmp", FS_WRITING },
	{ "/var/tmp", FS_WRITING },
	{ "/dev", FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV }, /* terminals need their ioctls */
	{ "/dev/shm", FS_WRITING },
	{ "/proc",
	  FS_WRITE_FILE |
		  FS_TRUNCATE }, /* a process's own name, oom score, …; shells truncate the files that they write */
};

int landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, ASK_VERSION);
	return abi > 0 ? (int)abi : 0;
}

/*
 * Abstract sockets belong to a network namespace: a sandbox with its own does not see the host's, whatever Landlock
 * supports.
 */
bool landlock_shuts_abstract_sockets(int abi, uint32_t network)
{
	return network != PLAN_NET_HOST || abi >= LANDLOCK_ABI_SCOPES;
}

static int allow_path(int ruleset, uint64_t handled, const char *path, uint64_t access, bool optional)
{
	struct stat st;
	fd_auto int fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return optional && (errno == ENOENT || errno == EACCES || errno == ENOTDIR) ? 0 : -1;
	if (fstat(fd, &st) < 0)
		return -1;
	struct path_beneath_attr rule = { .access = access & handled, .parent_fd = fd };
	if (!S_ISDIR(st.st_mode))
		rule.access &= FS_OF_FILES;
	return syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0) < 0 ? -1 : 0;
}

/* A socket that the plan names itself may be connected to; one that is merely inside a mounted tree may not. */
static bool is_socket(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

static uint64_t access_of(const struct plan_mount *m, uint64_t handled, const char *path)
{
	if (m->kind == PLAN_MOUNT_WRITE || m->kind == PLAN_MOUNT_EMPTY)
		return FS_WRITING;
	return m->kind == PLAN_MOUNT_READ && handled & FS_RESOLVE_UNIX && is_socket(path) ? FS_RESOLVE_UNIX : 0;
}

static int allow_all(int ruleset, uint64_t handled, const struct plan_head *plan, const char **ret_path)
{
	for (size_t i = 0; i < countof(common); i++) {
		if (allow_path(ruleset, handled, common[i].path, common[i].access, true) < 0) {
			*ret_path = common[i].path;
			return -1;
		}
	}
	for (uint32_t i = 0; i < plan->mount_count; i++) {
		const struct plan_mount *m = plan_mount(plan, i);
		const char *path = plan_string(plan, m->path_off);
		uint64_t access = access_of(m, handled, path);
		if (access && allow_path(ruleset, handled, path, access, m->flags & PLAN_MOUNT_OPTIONAL) < 0) {
			*ret_path = path;
			return -1;
		}
	}
	return 0;
}

/*
 * TCP is not handled: a sandbox without network has its own network namespace, whose loopback its programs may use
 * among themselves, and Landlock distinguishes ports but not addresses.
 */
int landlock_confine(int abi, const struct plan_head *plan, bool log, const char **ret_path)
{
	struct ruleset_attr attr = { 0 };
	size_t size = 0;
	for (size_t i = 0; i < countof(rights) && rights[i].abi <= abi; i++) {
		attr.fs |= rights[i].fs;
		attr.scoped |= rights[i].scoped;
		size = rights[i].attr_size;
	}
	*ret_path = NULL;
	fd_auto int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (ruleset < 0 || allow_all(ruleset, attr.fs, plan, ret_path) < 0)
		return -1;
	return syscall(SYS_landlock_restrict_self, ruleset, log && abi >= ABI_LOG ? LOG_NEW_EXEC_ON : 0) < 0 ? -1 : 0;
}

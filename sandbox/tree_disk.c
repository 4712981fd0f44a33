#include "sandbox/tree_disk.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define STACK_MAX 6 /* levels of stacked volumes */

/* ---- mounts ---- */

struct mount {
	uint32_t major, minor;
	char type[32];
	char point[PATH_MAX];
};

/* "36 35 98:0 /root /mount/point opts … - fstype source opts" */
static bool read_mount(const char *line, struct mount *ret)
{
	const char *tail = strstr(line, " - ");

	return tail && sscanf(line, "%*s %*s %u:%u %*s %4095s", &ret->major, &ret->minor, ret->point) == 3 &&
	       sscanf(tail + 3, "%31s", ret->type) == 1;
}

struct mount_search {
	const char *path;      /* path on the file system; or NULL */
	const char *type;      /* or NULL */
	uint32_t major, minor; /* used if path and type are NULL */
};

static bool mount_fits(const struct mount *m, const struct mount_search *s)
{
	if (s->path)
		return plan_path_inside(s->path, m->point);
	return s->type ? strcmp(m->type, s->type) == 0 : m->major == s->major && m->minor == s->minor;
}

/* Returns the last match; for a path, the deepest mount that contains it. */
static bool find_mount(const struct mount_search *s, struct mount *ret)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char line[2 * PATH_MAX];
	bool found = false;

	while (f && fgets(line, sizeof line, f)) {
		struct mount m;

		if (!read_mount(line, &m) || !mount_fits(&m, s) ||
		    (found && s->path && strlen(m.point) < strlen(ret->point)))
			continue;
		*ret = m;
		found = true;
	}
	if (f)
		fclose(f);
	return found;
}

/* ---- disks ---- */

static bool read_file(const char *path, char *text, size_t cap)
{
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, text, cap - 1);

	text[n > 0 ? n : 0] = 0;
	return n > 0;
}

static bool is_partition(const char *folder)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof path, "%s/partition", folder) < (int)sizeof path && access(path, F_OK) == 0;
}

/* Returns the disk of a partition. */
static void to_whole_disk(struct tree_disk *d)
{
	char path[96], text[32];
	unsigned major, minor;

	snprintf(path, sizeof path, "/sys/dev/block/%u:%u", d->major, d->minor);
	if (!is_partition(path))
		return;
	snprintf(path, sizeof path, "/sys/dev/block/%u:%u/../dev", d->major, d->minor);
	if (read_file(path, text, sizeof text) && sscanf(text, "%u:%u", &major, &minor) == 2) {
		d->major = major;
		d->minor = minor;
	}
}

static void read_name(struct tree_disk *d)
{
	char path[96], text[512];
	const char *name;

	snprintf(path, sizeof path, "/sys/dev/block/%u:%u/uevent", d->major, d->minor);
	if (read_file(path, text, sizeof text) && (name = strstr(text, "DEVNAME=")))
		sscanf(name + 8, "%31s", d->name);
	else
		snprintf(d->name, sizeof d->name, "%u:%u", d->major, d->minor);
}

/* Reads the active scheduler, the one in brackets: "none [mq-deadline] bfq". */
static bool read_scheduler(const char *folder, char ret[32])
{
	char path[PATH_MAX], text[256];
	const char *at;

	return snprintf(path, sizeof path, "%s/queue/scheduler", folder) < (int)sizeof path &&
	       read_file(path, text, sizeof text) && (at = strchr(text, '[')) && sscanf(at + 1, "%31[^]]", ret) == 1;
}

/* A volume has no scheduler of its own; the disks below it have. */
static bool has_bfq(const char *folder, char ret[32], int depth)
{
	char path[PATH_MAX], own[32];
	bool found = false;

	if (read_scheduler(folder, own))
		snprintf(ret, 32, "%s", own);
	if (strcmp(ret, "bfq") == 0 || depth == STACK_MAX ||
	    snprintf(path, sizeof path, "%s/slaves", folder) >= (int)sizeof path)
		return strcmp(ret, "bfq") == 0;
	DIR *d = opendir(path);
	for (struct dirent *entry; d && !found && (entry = readdir(d));) {
		char below[PATH_MAX];
		int n = snprintf(below, sizeof below, "%s/%.64s", path, entry->d_name);

		if (entry->d_name[0] == '.' || n >= (int)sizeof below - 4)
			continue;
		if (is_partition(below))
			snprintf(below + n, sizeof below - (size_t)n, "/..");
		found = has_bfq(below, ret, depth + 1);
	}
	if (d)
		closedir(d);
	return found;
}

/* blk-iocost is enabled per disk in the root of the v2 tree: "8:0 enable=1 ctrl=…". */
static bool has_cost_model(const struct tree_disk *d)
{
	struct mount v2;
	char path[PATH_MAX + 16], text[4096], wanted[48];

	if (!find_mount(&(struct mount_search){ .type = "cgroup2" }, &v2))
		return false;
	snprintf(path, sizeof path, "%s/io.cost.qos", v2.point);
	snprintf(wanted, sizeof wanted, "%u:%u enable=1", d->major, d->minor);
	return read_file(path, text, sizeof text) && strstr(text, wanted);
}

static void examine_disk(struct tree_disk *d)
{
	char folder[64];

	to_whole_disk(d);
	read_name(d);
	snprintf(folder, sizeof folder, "/sys/dev/block/%u:%u", d->major, d->minor);
	d->weighs = has_bfq(folder, d->scheduler, 0) || has_cost_model(d);
}

/* File systems that attribute writeback to the cgroup that dirtied the page. */
static bool attributes_writes(const char *type)
{
	static const char *const types[] = { "ext4", "ext2", "xfs", "f2fs" };

	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
		if (strcmp(type, types[i]) == 0)
			return true;
	return false;
}

static int add_disk(struct tree_disks *all, const char *path, uint32_t major, uint32_t minor, struct err *e)
{
	struct tree_disk d = { .major = major, .minor = minor };
	struct mount m = { .type = "a file system" };

	if (!major) {
		(void)find_mount(&(struct mount_search){ .path = path }, &m);
		return err_set(e, ERR_UNAVAILABLE,
			       "%.80s is on %s, whose files the kernel assigns to no disk; use a folder on ext4 or xfs",
			       path, m.type);
	}
	if (find_mount(&(struct mount_search){ .major = major, .minor = minor }, &m))
		snprintf(d.type, sizeof d.type, "%s", m.type);
	d.attributes = attributes_writes(d.type);
	examine_disk(&d);
	for (size_t i = 0; i < all->count; i++) {
		struct tree_disk *known = &all->disk[i];

		if (known->major != d.major || known->minor != d.minor)
			continue;
		if (known->attributes && !d.attributes)
			*known = d;
		return 0;
	}
	if (all->count == TREE_DISKS_MAX)
		return err_set(e, ERR_UNAVAILABLE, "its write roots are on more than %d disks", TREE_DISKS_MAX);
	all->disk[all->count++] = d;
	return 0;
}

/* A path that does not exist is reported by another step. */
static int add_path(struct tree_disks *all, const struct fingerprint_peer *peer, const char *path, struct err *e)
{
	fd_auto int fd = fingerprint_open_as(peer, path);
	struct statx st;
	struct mount m;

	if (fd >= 0 && statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) == 0)
		return add_disk(all, path, st.stx_dev_major, st.stx_dev_minor, e);
	if (errno != EAGAIN)
		return 0;
	/* Not cached: find its mount by name. */
	return find_mount(&(struct mount_search){ .path = path }, &m) ? add_disk(all, path, m.major, m.minor, e) : 0;
}

int tree_disks_find(const struct plan_head *plan, const struct fingerprint_peer *peer, int cow_fd,
		    struct tree_disks *ret, struct err *e)
{
	struct stat st;
	bool any = false;

	ret->count = 0;
	for (uint32_t i = 0; i < plan->mount_count; i++) {
		const struct plan_mount *m = plan_mount(plan, i);

		if (m->kind != PLAN_MOUNT_WRITE)
			continue;
		any = true;
		if (add_path(ret, peer, plan_string(plan, m->path_off), e) < 0)
			return -1;
	}
	if (!any && add_path(ret, peer, plan_string(plan, plan->cwd_off), e) < 0)
		return -1;
	if (cow_fd >= 0 && fstat(cow_fd, &st) == 0)
		return add_disk(ret, "the folder for copy-on-write runs", major(st.st_dev), minor(st.st_dev), e);
	return 0;
}

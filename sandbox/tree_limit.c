#include "sandbox/tree_limit.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "sandbox/cgroup_base.h"
#include "sandbox/tree_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
	const char *name, *v1; /* the names in both versions */
} rows[TREE_LIMITS] = {
	[TREE_LIMIT_MEMORY] = { "memory", "memory" },
	[TREE_LIMIT_PIDS] = { "pids", "pids" },
	[TREE_LIMIT_CPU] = { "cpu", "cpu" },
	[TREE_LIMIT_IO] = { "io", "blkio" },
};

static const enum tree_limit controllers[PLAN_LIMITS] = {
#define PLAN_LIMIT(NAME, key, controller, unit, least, most, otherwise) [PLAN_LIMIT_##NAME] = TREE_LIMIT_##controller,
#include "sandbox/plan_limits.def"
#undef PLAN_LIMIT
};

const char *tree_limit_name(enum tree_limit l) { return rows[l].name; }

/* Our own cgroup in the v1 hierarchy of this controller: "4:memory:/a/b" → "/a/b". */
static bool own_path(const char *controller, char ret[PATH_MAX])
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX];
	bool found = false;

	while (f && !found && fgets(line, sizeof line, f)) {
		char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = 0;
		path[strcspn(path, "\n")] = 0;
		names++;
		for (char *save, *n = strtok_r(names, ",", &save); n && !found; n = strtok_r(NULL, ",", &save))
			found = strcmp(n, controller) == 0;
		if (found)
			snprintf(ret, PATH_MAX, "%s", strcmp(path, "/") == 0 ? "" : path);
	}
	if (f)
		fclose(f);
	return found;
}

static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; (p = strstr(p, word)); p += n)
		if ((p == list || p[-1] == ',' || p[-1] == ' ') &&
		    (p[n] == ',' || p[n] == ' ' || p[n] == '\n' || !p[n]))
			return true;
	return false;
}

/* The mount point of the v1 hierarchy, from mountinfo: "… /root /point … - cgroup source rw,memory". */
static bool mount_point(const char *controller, char ret[PATH_MAX])
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char line[2 * PATH_MAX];
	bool found = false;

	while (f && !found && fgets(line, sizeof line, f)) {
		const char *tail = strstr(line, " - cgroup ");
		if (!tail || !has_word(strrchr(tail, ' ') + 1, controller))
			continue;
		char point[PATH_MAX];
		if (sscanf(line, "%*s %*s %*s %*s %4095s", point) == 1) {
			snprintf(ret, PATH_MAX, "%s", point);
			found = true;
		}
	}
	if (f)
		fclose(f);
	return found;
}

static int write_limit(int dir, const char *file, const char *text)
{
	fd_auto int fd = openat(dir, file, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, text, strlen(text)) < 0 ? -1 : 0;
}

/* Removes directories of an earlier guard of this home: their processes died with it. */
static void remove_leaves(int folder)
{
	DIR *d = fdopendir(dup(folder));
	struct dirent *entry;

	/* The copy shares its position with `folder`, which may have been read before. */
	if (d)
		rewinddir(d);
	while (d && (entry = readdir(d)))
		if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
			(void)!cgroup_remove(folder, entry->d_name);
	if (d)
		closedir(d);
}

/* Finds the controller in a v1 hierarchy. */
static bool folder_path_v1(enum tree_limit l, const char *tag, char ret[PATH_MAX])
{
	char point[PATH_MAX], own[PATH_MAX];

	return own_path(rows[l].v1, own) && mount_point(rows[l].v1, point) &&
	       snprintf(ret, PATH_MAX, "%s%s/%s", point, own, tag) < PATH_MAX;
}

static int make_folder(const char *path)
{
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return -1;
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Opens the tag's directory in the base, with the controller enabled for it and its leaves; −1 with the reason. */
static int open_v2(const struct cgroup_base *base, enum tree_limit l, const char *tag, char path[PATH_MAX], char *why,
		   size_t cap)
{
	if (cgroup_base_enable(base->path, rows[l].name, why, cap) < 0)
		return -1;
	if (snprintf(path, PATH_MAX, "%s/%s", base->path, tag) >= PATH_MAX) {
		snprintf(why, cap, "the cgroup's path is too long");
		return -1;
	}
	fd_auto int folder = make_folder(path);
	if (folder < 0)
		snprintf(why, cap, "its cgroup cannot be made: %s", strerror(errno));
	return folder < 0 || cgroup_base_enable(path, rows[l].name, why, cap) < 0 ? -1 : fd_take(&folder);
}

static void open_v1(struct tree_limiter *t, enum tree_limit l, const char *tag)
{
	char *path = t->tag_path[l];

	if (!folder_path_v1(l, tag, path))
		return; /* not available: the reason from v2 stays */
	t->of[l].folder = make_folder(path);
	if (t->of[l].folder >= 0) {
		remove_leaves(t->of[l].folder);
		return;
	}
	snprintf(t->of[l].why, sizeof t->of[l].why, "its cgroup cannot be made: %s", strerror(errno));
	snprintf(t->of[l].fix, sizeof t->of[l].fix,
		 "start the daemon as root, or boot the machine with cgroup v2 only");
}

static void explain_failure(struct tree_limiter *t, enum tree_limit l, const struct cgroup_base *base)
{
	if (base->why[0]) {
		snprintf(t->of[l].why, sizeof t->of[l].why, "%s", base->why);
		snprintf(t->of[l].fix, sizeof t->of[l].fix, "%s", base->fix);
	} else if (geteuid() != 0 && strstr(base->path, "/user@")) {
		snprintf(t->of[l].fix, sizeof t->of[l].fix,
			 "as root: systemctl edit user@.service, add [Service] Delegate=cpu cpuset io memory pids, and "
			 "log in again");
	} else {
		snprintf(t->of[l].fix, sizeof t->of[l].fix,
			 "boot with cgroup v2 only (systemd.unified_cgroup_hierarchy=1) and the %s controller enabled, "
			 "and delegate it to the daemon's cgroup",
			 rows[l].name);
	}
}

void tree_limiter_open(struct tree_limiter *t, const struct cgroup_base *base, const char *tag)
{
	for (int i = 0; i < TREE_LIMITS; i++) {
		char *path = t->tag_path[i], *why = t->of[i].why;
		size_t cap = sizeof t->of[i].why;
		why[0] = t->of[i].fix[0] = 0;
		t->of[i].folder = base->path[0] && !base->why[0] ? open_v2(base, i, tag, path, why, cap) : -1;
		t->of[i].v2 = t->of[i].folder >= 0;
		if (t->of[i].folder >= 0)
			continue;
		explain_failure(t, i, base);
		open_v1(t, i, tag);
		if (t->of[i].folder < 0 && !why[0])
			snprintf(why, cap, "no cgroup hierarchy gives us the %s controller", rows[i].name);
	}
}

void tree_limiter_close(struct tree_limiter *t)
{
	for (int i = 0; i < TREE_LIMITS; i++) {
		if (t->of[i].folder >= 0 && !t->of[i].v2) {
			remove_leaves(t->of[i].folder);
			rmdir(t->tag_path[i]);
		}
		fd_close(&t->of[i].folder);
	}
}

/* ---- one leaf ---- */

struct leaf {
	int fd;
	bool v2;
	const struct plan_head *plan;
	const struct tree_disks *disks;
};

static int set_unavailable(enum plan_limit l, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int set_unavailable(enum plan_limit l, struct err *e, const char *fmt, ...)
{
	char why[ERR_MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof why, fmt, ap);
	va_end(ap);
	err_set(e, ERR_UNAVAILABLE, "cannot be enforced here: %.400s", why);
	snprintf(e->field, sizeof e->field, "limits.%s", plan_limit_info[l].key);
	return -1;
}

__attribute__((format(printf, 3, 4))) static int put_text(int dir, const char *file, const char *fmt, ...)
{
	char text[96];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return write_limit(dir, file, text);
}

static int fail_limit(const struct leaf *f, enum plan_limit l, int errnum, struct err *e)
{
	if (errnum == ENOENT)
		return set_unavailable(l, e, "this kernel has no file for it in the %s controller's cgroups",
				       rows[controllers[l]].name);
	if (errnum == EINVAL && l == PLAN_LIMIT_CPUS && !f->v2) /* v2 accepts it: the smaller limit counts */
		return set_unavailable(l, e, "the cgroup in which bailiff runs has a smaller limit: use fewer cpus");
	return set_unavailable(l, e, "the kernel refused it: %s", strerror(errnum));
}

/* Also limits swap, so that it cannot be used to exceed the limit. */
static int set_memory(const struct leaf *f, uint64_t bytes)
{
	unsigned long long n = bytes;

	if (put_text(f->fd, f->v2 ? "memory.max" : "memory.limit_in_bytes", "%llu", n) < 0)
		return -1;
	if (f->v2 ? put_text(f->fd, "memory.swap.max", "0") == 0
		  : put_text(f->fd, "memory.memsw.limit_in_bytes", "%llu", n) == 0)
		return 0;
	return errno == ENOENT ? 0 : -1; /* a kernel without swap accounting */
}

#define CPU_PERIOD_US 100000u /* the kernel's own default */

static int set_cpus(const struct leaf *f, uint64_t thousandths)
{
	unsigned long long quota = thousandths * (CPU_PERIOD_US / 1000);

	if (f->v2)
		return put_text(f->fd, "cpu.max", "%llu %u", quota, CPU_PERIOD_US);
	return put_text(f->fd, "cpu.cfs_period_us", "%u", CPU_PERIOD_US) < 0
		       ? -1
		       : put_text(f->fd, "cpu.cfs_quota_us", "%llu", quota);
}

/* BFQ's weights go up to 1000; 100 is the default of both. */
static unsigned bfq_weight(uint64_t w) { return (unsigned)(w <= 100 ? w : 100 + (w - 100) * 900 / 9900); }

/* A kernel may have both files; the scheduler determines which one has an effect. */
static int set_weight(const struct leaf *f, uint64_t w)
{
	unsigned long long weight = w;
	bool cost = f->v2 && put_text(f->fd, "io.weight", "default %llu", weight) == 0;
	bool bfq = f->v2 ? put_text(f->fd, "io.bfq.weight", "default %u", bfq_weight(w)) == 0
			 : put_text(f->fd, "blkio.bfq.weight", "%u", bfq_weight(w)) == 0;

	return cost || bfq ? 0 : -1;
}

static int set_rate(const struct leaf *f, bool write, uint64_t bytes)
{
	unsigned long long n = bytes;

	for (size_t i = 0; i < f->disks->count; i++) {
		const struct tree_disk *d = &f->disks->disk[i];
		int r = f->v2 ? put_text(f->fd, "io.max", "%u:%u %s=%llu", d->major, d->minor, write ? "wbps" : "rbps",
					 n)
			      : put_text(f->fd,
					 write ? "blkio.throttle.write_bps_device" : "blkio.throttle.read_bps_device",
					 "%u:%u %llu", d->major, d->minor, n);
		if (r < 0)
			return -1;
	}
	return 0;
}

static int set_limit(const struct leaf *f, enum plan_limit l)
{
	uint64_t value = f->plan->limits.value[l];

	switch (l) {
	case PLAN_LIMIT_MEMORY: return set_memory(f, value);
	case PLAN_LIMIT_MEMORY_HIGH: return put_text(f->fd, "memory.high", "%llu", (unsigned long long)value);
	case PLAN_LIMIT_PIDS: return put_text(f->fd, "pids.max", "%llu", (unsigned long long)plan_tasks(f->plan));
	case PLAN_LIMIT_CPUS: return set_cpus(f, value);
	case PLAN_LIMIT_IO_WEIGHT: return set_weight(f, value);
	case PLAN_LIMIT_IO_READ:
	case PLAN_LIMIT_IO_WRITE: return set_rate(f, l == PLAN_LIMIT_IO_WRITE, value);
	case PLAN_LIMITS: break;
	}
	errno = EINVAL;
	return -1;
}

/* ---- checks ---- */

/*
 * A kernel thread writes buffered data to the disk: only v2 can attribute it, and needs the memory controller for that.
 */
static int check_writes(const struct tree_limiter *t, const struct tree_disks *disks, struct err *e)
{
	const enum plan_limit l = PLAN_LIMIT_IO_WRITE;

	if (!t->of[TREE_LIMIT_IO].v2)
		return set_unavailable(l, e,
				       "cgroup v1 does not limit buffered writes; boot with cgroup v2 "
				       "(systemd.unified_cgroup_hierarchy=1)");
	if (t->of[TREE_LIMIT_MEMORY].folder < 0 || !t->of[TREE_LIMIT_MEMORY].v2)
		return set_unavailable(
			l, e,
			"buffered writes are limited only together with the memory controller of cgroup v2, "
			"which is missing");
	for (size_t i = 0; i < disks->count; i++)
		if (!disks->disk[i].attributes)
			return set_unavailable(
				l, e,
				"%s does not tell the kernel whose buffered writes it writes; use a folder "
				"on ext4 or xfs",
				disks->disk[i].type[0] ? disks->disk[i].type : "its file system");
	return 0;
}

static int check_weight(const struct tree_disks *disks, struct err *e)
{
	for (size_t i = 0; i < disks->count; i++) {
		const struct tree_disk *d = &disks->disk[i];

		if (!d->weighs)
			return set_unavailable(
				PLAN_LIMIT_IO_WEIGHT, e,
				"the I/O scheduler of %s (%s) does not support weights; switch to bfq: echo bfq "
				">/sys/block/%s/queue/scheduler",
				d->name, d->scheduler[0] ? d->scheduler : "none", d->name);
	}
	return 0;
}

/* Checks beyond the presence of the controller. */
static int check_limit(const struct tree_limiter *t, enum plan_limit l, const struct tree_disks *disks, struct err *e)
{
	enum tree_limit c = controllers[l];

	if (t->of[c].folder < 0)
		return set_unavailable(l, e, "%s; to change that: %s", t->of[c].why, t->of[c].fix);
	if (l == PLAN_LIMIT_MEMORY_HIGH && !t->of[c].v2)
		return set_unavailable(l, e,
				       "cgroup v1 has no memory.high; use --memory, or boot with cgroup v2 "
				       "(systemd.unified_cgroup_hierarchy=1)");
	if (c == TREE_LIMIT_IO && (!disks || !disks->count))
		return set_unavailable(l, e, "no disk of the command's write roots was found");
	if (l == PLAN_LIMIT_IO_WEIGHT)
		return check_weight(disks, e);
	return l == PLAN_LIMIT_IO_WRITE ? check_writes(t, disks, e) : 0;
}

/*
 * An optional limit is skipped where it cannot be enforced, and on v1, where joining a cgroup waits for every CPU
 * (milliseconds).
 */
static bool is_wanted(const struct tree_limiter *t, const struct plan_limits *l, enum plan_limit i)
{
	enum tree_limit c = controllers[i];

	return l->value[i] && (plan_limit_is_required(l, i) || (t->of[c].folder >= 0 && t->of[c].v2));
}

bool tree_limiter_needs_init(const struct tree_limiter *t, const struct plan_limits *l)
{
	for (int i = 0; i < PLAN_LIMITS; i++)
		if (is_wanted(t, l, (enum plan_limit)i) && !t->of[controllers[i]].v2)
			return true;
	return false;
}

int tree_limit_find_disks(const struct plan_head *plan, const struct fingerprint_peer *peer, int cow,
			  struct tree_disks *ret, struct err *e)
{
	const char *key = NULL;

	*ret = (struct tree_disks){ .count = 0 };
	for (int i = 0; i < PLAN_LIMITS && !key; i++)
		if (plan->limits.value[i] && controllers[i] == TREE_LIMIT_IO)
			key = plan_limit_info[i].key;
	if (!key || tree_disks_find(plan, peer, cow, ret, e) == 0)
		return 0;
	snprintf(e->field, sizeof e->field, "limits.%s", key);
	return err_wrap(e, "cannot be enforced here");
}

/* Sets the limits of one controller in a leaf in `folder`. */
static int make_leaf(const struct tree_limiter *t, enum tree_limit c, int folder, const char *name, struct leaf *f,
		     int *ret, struct err *e)
{
	if (mkdirat(folder, name, 0755) < 0 && errno != EEXIST)
		return err_sys(e, errno, "make a %s cgroup", rows[c].name);
	fd_auto int leaf = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (leaf < 0)
		return err_sys(e, errno, "open a %s cgroup", rows[c].name);
	f->fd = leaf;
	f->v2 = t->of[c].v2;
	for (int i = 0; i < PLAN_LIMITS; i++)
		if (controllers[i] == c && is_wanted(t, &f->plan->limits, (enum plan_limit)i) &&
		    set_limit(f, (enum plan_limit)i) < 0)
			return fail_limit(f, (enum plan_limit)i, errno, e);
	*ret = fd_take(&leaf);
	return 0;
}

/* Bits 1 << enum tree_limit: the controllers that the plan's limits need, all of which can be enforced. −1 = not. */
static int needed_controllers(const struct tree_limiter *t, const struct plan_head *plan,
			      const struct tree_disks *disks, struct err *e)
{
	int needed = 0;

	for (int i = 0; i < PLAN_LIMITS; i++) {
		if (!is_wanted(t, &plan->limits, (enum plan_limit)i))
			continue;
		if (check_limit(t, (enum plan_limit)i, disks, e) < 0)
			return -1;
		needed |= 1 << controllers[i];
	}
	return needed;
}

int tree_limiter_make(struct tree_limiter *t, const struct plan_key *key, const struct plan_key *leaf,
		      const struct plan_head *plan, const struct tree_disks *disks, struct tree_files *ret,
		      struct err *e)
{
	struct leaf f = { .plan = plan, .disks = disks };
	char name[CGROUP_LEAF_MAX];

	tree_files_init(ret);
	int needed = needed_controllers(t, plan, disks, e);
	if (needed < 0)
		return -1;
	for (int c = 0; c < TREE_LIMITS; c++) {
		fd_auto int made = -1;

		cgroup_leaf_name(t->of[c].v2 ? leaf : key, name);
		if (!(needed >> c & 1))
			continue;
		if (make_leaf(t, (enum tree_limit)c, t->of[c].folder, name, &f, &made, e) < 0) {
			tree_files_close(ret);
			tree_limiter_remove(t, key);
			return -1;
		}
		if (!t->of[c].v2)
			ret->leaf[c] = fd_take(&made);
	}
	return 0;
}

/* Most commands have no limits: this spares a lookup in each hierarchy. */
static bool has_leaves(int folder)
{
	struct stat st;

	return fstat(folder, &st) < 0 || st.st_nlink > 2;
}

void tree_limiter_remove(struct tree_limiter *t, const struct plan_key *key)
{
	char name[CGROUP_LEAF_MAX];

	cgroup_leaf_name(key, name);
	for (int i = 0; i < TREE_LIMITS; i++)
		if (t->of[i].folder >= 0 && !t->of[i].v2 && has_leaves(t->of[i].folder))
			(void)!cgroup_remove(t->of[i].folder, name);
}

/* ---- members of a session sandbox ---- */

/* The first limit of the plan that needs this controller. */
static enum plan_limit limit_of(const struct plan_head *plan, enum tree_limit c)
{
	for (int i = 0; i < PLAN_LIMITS; i++)
		if (plan->limits.value[i] && controllers[i] == c)
			return (enum plan_limit)i;
	return PLAN_LIMITS;
}

/* The directory in which a member's leaf of this controller is. −1 with the reason, of `why` bytes. */
static int open_sandbox(const struct tree_limiter *t, enum tree_limit c, const struct tree_sandbox *in, bool enable,
			char why[CGROUP_BASE_TEXT_MAX])
{
	char name[CGROUP_LEAF_MAX], path[PATH_MAX];

	cgroup_leaf_name(&in->key, name);
	why[0] = 0;
	if (!t->of[c].v2) {
		int own = openat(t->of[c].folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		return own >= 0 ? own : openat(t->of[c].folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (!in->leaf[0]) {
		snprintf(why, CGROUP_BASE_TEXT_MAX, "the sandbox has no cgroup with room for those of its commands");
		return -1;
	}
	if (snprintf(path, sizeof path, "%s/%s", t->tag_path[c], in->leaf) >= (int)sizeof path ||
	    (enable && cgroup_base_enable(path, rows[c].name, why, CGROUP_BASE_TEXT_MAX) < 0))
		return -1;
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int tree_limiter_make_member(struct tree_limiter *t, const struct tree_sandbox *in, const struct plan_key *key,
			     const struct plan_head *plan, const struct tree_disks *disks, struct tree_files *ret,
			     struct err *e)
{
	struct leaf f = { .plan = plan, .disks = disks };
	char name[CGROUP_LEAF_MAX], why[CGROUP_BASE_TEXT_MAX];

	tree_files_init(ret);
	cgroup_leaf_name(key, name);
	int needed = needed_controllers(t, plan, disks, e);
	for (int c = 0; needed >= 0 && c < TREE_LIMITS; c++) {
		if (!(needed >> c & 1))
			continue;
		fd_auto int folder = open_sandbox(t, (enum tree_limit)c, in, true, why);
		if (folder < 0)
			needed = set_unavailable(limit_of(plan, (enum tree_limit)c), e,
						 "%s; run the command in a sandbox of its own",
						 why[0] ? why : strerror(errno));
		else if (make_leaf(t, (enum tree_limit)c, folder, name, &f, &ret->leaf[c], e) < 0)
			needed = -1;
	}
	if (needed >= 0)
		return 0;
	tree_files_close(ret);
	tree_limiter_remove_member(t, in, key);
	return -1;
}

int tree_limiter_enter(const struct tree_limiter *t, struct tree_files *leaves, pid_t pid)
{
	char text[16];
	int n = snprintf(text, sizeof text, "%d", pid);

	for (int c = 0; c < TREE_LIMITS; c++) {
		if (leaves->leaf[c] < 0)
			continue;
		fd_auto int procs = openat(leaves->leaf[c], "cgroup.procs", O_WRONLY | O_CLOEXEC);
		if (procs < 0 || write(procs, text, (size_t)n) < 0)
			return -1;
		if (t->of[c].v2)
			tree_files_open_v2(leaves, leaves->leaf[c]);
	}
	/* After those of v2, which has files only for the controllers that it has. */
	for (int c = 0; c < TREE_LIMITS; c++)
		if (leaves->leaf[c] >= 0 && !t->of[c].v2)
			tree_files_open_v1(leaves, (enum tree_limit)c, leaves->leaf[c]);
	return 0;
}

bool tree_limiter_remove_member(struct tree_limiter *t, const struct tree_sandbox *in, const struct plan_key *key)
{
	char name[CGROUP_LEAF_MAX], why[CGROUP_BASE_TEXT_MAX];
	bool empty = true;

	cgroup_leaf_name(key, name);
	for (int c = 0; c < TREE_LIMITS; c++) {
		fd_auto int folder = t->of[c].folder < 0 ? -1 : open_sandbox(t, (enum tree_limit)c, in, false, why);

		if (folder >= 0 && unlinkat(folder, name, AT_REMOVEDIR) < 0 && errno == EBUSY)
			empty = false;
	}
	return empty;
}

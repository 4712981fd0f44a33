/*
 * Limits what a compromised runtime can do in root's name.
 *
 * The runtime tells the spawner what to run; the kernel reports for whom: the client's socket has peer uid 0. A
 * confined command never runs as root, but it accesses its write roots, and paths mounted as the peer's own, with
 * root's ids. So for a root peer the spawner applies two checks of its own, whatever the plan says:
 *
 * - *Where.* No write root may lie in or contain a system directory or a home, and no part of a system directory may be
 *   mounted as the peer's own, except paths listed in a root-owned file (`root-write-roots`, in the daemon's
 *   configuration directory and in /etc/bailiff). The daemon's own files are never allowed, listed or not.
 * - *When.* A socket carries authority only while a root process is connected to it. The runtime and the guard keep
 *   copies of sockets so that jobs, tasks, hooks, retries and work interrupted by a crash can run after the client has
 *   disconnected. Such a copy only proves which identity connected. Work without a present client is limited to what
 *   root authorised while it was connected: each start by a present root client, and each GRANT (sent when a client
 *   requests work that runs later), adds its directories to a list. A start without a present client may use only that
 *   list and the toolchains of the shipped profiles, with the credentials in them hidden. The list is kept in a file
 *   that only root can write, so it survives restarts of the spawner and the daemon. A directory in which root has not
 *   worked for 30 days is dropped. While no root client is present, nothing runs without a sandbox, no changes are
 *   applied and root's policy is not written.
 *
 * The daemon's exporter stays connected as root for as long as it runs, but its process has dropped root: it does not
 * count as present.
 *
 * Remaining risk: a runtime that is compromised while a root client is connected can run confined commands in
 * directories outside of those above, read root's home through one, and add to the list. With --allow-host it can do
 * whatever root can; setting that option is root's explicit decision.
 */

#include "supervisor/spawner/authority.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "sandbox/plan.h"
#include "sandbox/root_paths.h"
#include "supervisor/spawner/proc_stat.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* Linux 6.13; <linux/pidfd.h> may be older. */
struct process_info {
	uint64_t mask;
	uint64_t cgroup;
	uint32_t pid, tgid, ppid;
	uint32_t ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
	int32_t exit_code;
};
#define PROCESS_INFO_PID (1u << 0)
#define PROCESS_INFO_CREDS (1u << 1)
#define GET_PROCESS_INFO _IOWR(0xFF, 11, struct process_info)
_Static_assert(sizeof(struct process_info) == 64, "the kernel's first version of this struct");

#define LIST_NAME "root-write-roots"
#define LIST_MAX (64u << 10)
#define ACCOUNTS "/etc/passwd"
#define GRANTED_NAME "root-authority"
#define GRANTED_MAX 256u /* directories; the oldest are dropped first */
#define GRANTED_BYTES_MAX (512u << 10)
#define DAY_S (24 * 60 * 60)
#define GRANTED_S (30 * DAY_S) /* since root last worked there */
#define PASSED_S 60            /* until the same mounts are checked again */

/* ---- lists of paths ---- */

#define EACH_PATH(p, buf) (const char *p = (buf)->data; p && p < (buf)->data + (buf)->len; p += strlen(p) + 1)

static void add_path(struct buf *b, const char *path) { buf_append(b, path, strlen(path) + 1); }

/* True if one of the paths in the list is `path` or contains it. */
static bool contains_path(const struct buf *b, const char *path)
{
	for
		EACH_PATH(p, b)
		{
			if (path_within(p, path))
				return true;
		}
	return false;
}

/* ---- grants ---- */

/*
 * An entry is the time of the grant in seconds, a blank, the directory, and a NUL. The file is replaced atomically by
 * rename; an entry that cannot be parsed grants nothing.
 */
static const char *entry_path(const char *entry)
{
	const char *blank = strchr(entry, ' ');
	return blank && blank[1] == '/' ? blank + 1 : NULL;
}

static bool is_current(const char *entry, int64_t now)
{
	int64_t at = strtoll(entry, NULL, 10);
	return at > now - GRANTED_S && at <= now + DAY_S;
}

static int64_t now_s(void) { return (int64_t)(clock_real_us() / 1000000); }

/* Returns the entry whose directory contains the path, or NULL. */
static const char *granted_for(const struct authority *a, const char *path, int64_t now)
{
	for
		EACH_PATH(entry, &a->granted)
		{
			const char *folder = entry_path(entry);
			if (folder && is_current(entry, now) && path_within(folder, path))
				return entry;
		}
	return NULL;
}

/* A file that is too large, truncated or not root's own is ignored: the list is then empty, which denies. */
static void load_grants(struct authority *a)
{
	struct stat st;
	fd_auto int fd = a->folder < 0 ? -1 : openat(a->folder, GRANTED_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    st.st_size > (off_t)GRANTED_BYTES_MAX)
		return;
	ssize_t n = fd_read_all(fd, buf_reserve(&a->granted, (size_t)st.st_size + 1), (size_t)st.st_size);
	a->granted.len = n == (ssize_t)st.st_size && n > 0 && !a->granted.data[n - 1] ? (size_t)n : 0;
}

/*
 * Best effort: grants that cannot be saved are known to this spawner only, and work that remains after its exit is
 * denied.
 */
static void save_grants(const struct authority *a)
{
	if (a->folder < 0)
		return;
	fd_auto int fd = openat(a->folder, GRANTED_NAME ".new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
				0600);
	/* Synced before it is renamed: after a power cut there is the old list or the new one. */
	if (fd < 0 || fd_write_all(fd, a->granted.data, a->granted.len) < 0 || fdatasync(fd) < 0 ||
	    renameat(a->folder, GRANTED_NAME ".new", a->folder, GRANTED_NAME) < 0 || fsync(a->folder) < 0)
		log_warning("keep what root authorised: %s", strerror(errno));
}

/* Drops expired entries, and the entry of this directory, which the caller adds again. */
static void drop_stale(struct authority *a, const char *path, int64_t now)
{
	struct buf kept = BUF_INIT;
	for
		EACH_PATH(entry, &a->granted)
		{
			const char *folder = entry_path(entry);
			if (folder && is_current(entry, now) && strcmp(folder, path) != 0)
				add_path(&kept, entry);
		}
	buf_done(&a->granted);
	a->granted = kept;
}

/* Returns true if the list changed. A grant younger than a day is not renewed, so that few starts write the file. */
static bool record_grant(struct authority *a, const char *path)
{
	int64_t now = now_s();
	const char *known = granted_for(a, path, now);
	size_t count = 0;
	if (known && strtoll(known, NULL, 10) > now - DAY_S)
		return false;
	a->passed_s = 0;
	drop_stale(a, path, now);
	for
		EACH_PATH(entry, &a->granted)
	count++;
	while (a->granted.len && (count >= GRANTED_MAX || a->granted.len + PATH_MAX + 32 > GRANTED_BYTES_MAX)) {
		buf_consume(&a->granted, strlen(a->granted.data) + 1);
		count--;
	}
	buf_printf(&a->granted, "%lld %s", (long long)now, path);
	buf_byte(&a->granted, 0);
	return true;
}

/* ---- presence ---- */

static bool is_hung_up(int fd)
{
	struct pollfd p = { .fd = fd };
	return poll(&p, 1, 0) < 0 || p.revents & (POLLHUP | POLLERR | POLLNVAL);
}

static bool has_ended(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	return poll(&p, 1, 0) != 0;
}

static long status_number(const char *text, const char *label, int skip)
{
	const char *p = strstr(text, label);
	char *end;
	if (!p)
		return -1;
	for (p += strlen(label);; p = end) {
		long n = strtol(p, &end, 10);
		if (end == p)
			return -1;
		if (skip-- == 0)
			return n;
	}
}

/*
 * Reads the uid and the parent of the process; false if the kernel is too old, or the process has ended.
 * /proc/PID/status has the same, but the kernel formats much more for it.
 */
static bool read_process_info(int pidfd, struct process_info *ret)
{
	const uint64_t wanted = PROCESS_INFO_PID | PROCESS_INFO_CREDS;
	*ret = (struct process_info){ .mask = wanted };
	return pidfd >= 0 && ioctl(pidfd, GET_PROCESS_INFO, ret) == 0 && (ret->mask & wanted) == wanted;
}

/*
 * A process that connected as root and has changed its uid since no longer has root's authority. The guard's own child
 * is about to change its uid; only a child of the guard, like the spawner, needs to be asked for its name.
 */
static bool is_root_process(pid_t pid, int pidfd)
{
	char text[4096];
	struct process_info info;
	if (read_process_info(pidfd, &info) && (info.euid != 0 || (pid_t)info.ppid != getppid()))
		return info.euid == 0;
	if (proc_read(pid, "status", text, sizeof text) < 0 || status_number(text, "\nUid:", 1) != 0)
		return false;
	return !(strncmp(text, "Name:\tbailiff-guard\n", 20) == 0 && status_number(text, "\nPPid:", 0) == getppid());
}

bool authority_is_present(int client)
{
	struct ucred cred;
	fd_auto int pidfd = -1;
	socklen_t len = sizeof cred;
	if (is_hung_up(client) || getsockopt(client, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || cred.uid != 0 ||
	    cred.pid <= 0)
		return false;
	len = sizeof pidfd;
	if (getsockopt(client, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) < 0) {
		pidfd = -1;
		if (errno != ENOPROTOOPT) /* kernels before 6.5 do not support it */
			return false;
	}
	return is_root_process(cred.pid, pidfd) && (pidfd < 0 || !has_ended(pidfd));
}

/* ---- directories ---- */

static void read_accounts(struct authority *a)
{
	struct stat st = { 0 };
	const int64_t marks[4] = { stat(ACCOUNTS, &st) == 0 ? (int64_t)st.st_ino : -1, st.st_ctim.tv_sec,
				   st.st_ctim.tv_nsec, st.st_size };
	if (memcmp(marks, a->accounts, sizeof marks) == 0)
		return;
	a->passed_s = 0;
	buf_reset(&a->homes);
	snprintf(a->root_home, sizeof a->root_home, "%s", "/root");
	FILE *f = fopen(ACCOUNTS, "re");
	for (const struct passwd *pw; f && (pw = fgetpwent(f));) {
		char clean[PATH_MAX];
		if (path_clean(pw->pw_dir, clean, NULL) < 0 || root_path_is_no_home(clean))
			continue;
		add_path(&a->homes, clean);
		if (pw->pw_uid == 0)
			memcpy(a->root_home, clean, sizeof clean);
	}
	if (f)
		fclose(f);
	memcpy(a->accounts, marks, sizeof marks);
}

static bool is_roots_alone(const struct stat *st) { return st->st_uid == 0 && !(st->st_mode & (S_IWGRP | S_IWOTH)); }

/* One path per line; # starts a comment. The file is ignored unless it and its directory are writable by root alone. */
static void read_list(struct authority *a, const char *path)
{
	char folder[PATH_MAX], clean[PATH_MAX];
	struct stat st, around;
	fd_auto int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return;
	snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
	if (fstat(fd, &st) < 0 || stat(folder, &around) < 0 || !S_ISREG(st.st_mode) || !is_roots_alone(&st) ||
	    !is_roots_alone(&around) || st.st_size > (off_t)LIST_MAX) {
		log_warning("%s is ignored: it and its folder must be root's, writable by nobody else, and it must "
			    "have at most %u bytes",
			    path, LIST_MAX);
		return;
	}
	buf_auto struct buf text = BUF_INIT;
	ssize_t n = fd_read_all(fd, buf_reserve(&text, LIST_MAX), LIST_MAX);
	text.len = n > 0 ? (size_t)n : 0;
	char *save_line = NULL;
	mem_auto char *lines = mem_strdup(buf_cstr(&text));
	for (char *line = strtok_r(lines, "\n", &save_line); line; line = strtok_r(NULL, "\n", &save_line)) {
		line += strspn(line, " \t");
		line[strcspn(line, "#")] = 0;
		for (size_t len = strlen(line); len && strchr(" \t\r", line[len - 1]); len--)
			line[len - 1] = 0;
		if (!*line)
			continue;
		if (path_clean(line, clean, NULL) < 0)
			log_warning("%s: '%.200s' is not an absolute path", path, line);
		else
			add_path(&a->listed, clean);
	}
}

static bool around_a_home(const struct authority *a, const char *path)
{
	for
		EACH_PATH(home, &a->homes)
		{
			if (path_within(home, path) || path_within(path, home))
				return true;
		}
	return false;
}

static int check_folder(const struct authority *a, const char *path, bool write, struct err *e)
{
	bool home = write && (root_path_is_home(path) || around_a_home(a, path));
	if ((!home && !root_path_is_system(path)) || contains_path(&a->listed, path))
		return 0;
	err_because(e, ERR_NOT_ALLOWED, REASON_ROOT_WRITE_ROOTS,
		    "%s%.44s: system or home folder; as root, list it in " LIST_NAME, strlen(path) > 44 ? "…" : "",
		    strlen(path) > 44 ? path + strlen(path) - 44 : path);
	snprintf(e->field, sizeof e->field, "%s", write ? "writeRoots" : "readRoots");
	return -1;
}

/* ---- plans ---- */

/* True for mounts that the command accesses with root's ids. */
static bool is_roots(const struct plan_mount *m)
{
	return m->kind == PLAN_MOUNT_WRITE || (m->kind == PLAN_MOUNT_READ && m->flags & PLAN_MOUNT_OWNED);
}

static const char *path_of(const struct plan_head *plan, uint32_t i)
{
	return plan_string(plan, plan_mount(plan, i)->path_off);
}

/* Returns the mount that is visible at a path after all of the plan's mounts, or NULL if none covers it. */
static const struct plan_mount *shown_at(const struct plan_head *plan, const char *path)
{
	for (uint32_t i = plan->mount_count; i-- > 0;) {
		if (plan_mount(plan, i)->kind != PLAN_MOUNT_PROTECT && path_within(path_of(plan, i), path))
			return plan_mount(plan, i);
	}
	return NULL;
}

/*
 * True for a toolchain in root's home as the shipped profiles mount it: read-only, with the credentials in it hidden.
 */
static bool is_toolchain(const struct authority *a, const struct plan_head *plan, uint32_t i)
{
	const char *path = path_of(plan, i);
	char hidden[PATH_MAX];
	if (plan_mount(plan, i)->kind != PLAN_MOUNT_READ || !root_path_is_toolchain(a->root_home, path))
		return false;
	for (size_t cursor = 0; root_path_next_credentials(a->root_home, &cursor, hidden);) {
		const struct plan_mount *m = path_within(path, hidden) ? shown_at(plan, hidden) : NULL;
		if (m && m->kind != PLAN_MOUNT_HIDE)
			return false;
	}
	return true;
}

/*
 * The daemon's own files must be neither visible with root's ids, nor writable, nor creatable where they are missing.
 */
static int check_own_files(const struct authority *a, const struct plan_head *plan, struct err *e)
{
	for (size_t k = 0; k < a->own.nfolder; k++) {
		const struct plan_mount *m = shown_at(plan, a->own.folder[k]);
		if (m && m->kind == PLAN_MOUNT_WRITE)
			return err_set(e, ERR_NOT_ALLOWED, "%.60s is the daemon's own folder", a->own.folder[k]);
	}
	for (uint32_t i = 0; i < plan->mount_count; i++) {
		/* The directory itself is denied even if another mount covers it. */
		for (size_t k = 0; plan_mount(plan, i)->kind == PLAN_MOUNT_WRITE && k < a->own.nfolder; k++) {
			if (strcmp(path_of(plan, i), a->own.folder[k]) == 0)
				return err_set(e, ERR_NOT_ALLOWED, "%.60s is the daemon's own folder",
					       a->own.folder[k]);
		}
		for (size_t k = 0; is_roots(plan_mount(plan, i)) && k < a->own.npath; k++) {
			const struct plan_mount *m = path_within(path_of(plan, i), a->own.path[k])
							     ? shown_at(plan, a->own.path[k])
							     : NULL;
			if (path_within(a->own.path[k], path_of(plan, i)) || (m && is_roots(m)))
				return err_set(e, ERR_NOT_ALLOWED, "%.60s is the daemon's own", a->own.path[k]);
		}
	}
	return 0;
}

/* All of a plan that check_mounts depends on. */
static void describe_mounts(const struct plan_head *plan, struct buf *out)
{
	buf_reset(out);
	for (uint32_t i = 0; i < plan->mount_count; i++) {
		const struct plan_mount *m = plan_mount(plan, i);
		buf_append(out, &m->kind, sizeof m->kind);
		buf_append(out, &m->flags, sizeof m->flags);
		add_path(out, path_of(plan, i));
	}
}

static bool have_passed(const struct authority *a, int64_t now)
{
	return a->passed_s && a->passed.len && now >= a->passed_s && now < a->passed_s + PASSED_S &&
	       a->mounts.len == a->passed.len && memcmp(a->mounts.data, a->passed.data, a->passed.len) == 0;
}

static int check_mounts(struct authority *a, const struct plan_head *plan, bool present, struct err *e)
{
	bool changed = false, needs_grant[PLAN_MOUNTS_MAX] = { false };
	for (uint32_t i = 0; i < plan->mount_count; i++) {
		const char *path = path_of(plan, i);
		if (!is_roots(plan_mount(plan, i)) || is_toolchain(a, plan, i))
			continue;
		needs_grant[i] = true;
		if (check_folder(a, path, plan_mount(plan, i)->kind == PLAN_MOUNT_WRITE, e) < 0)
			return -1;
		if (!present && !granted_for(a, path, now_s()))
			return err_set(e, ERR_NOT_ALLOWED,
				       "no root client is connected, and none that was authorised work in %.40s", path);
	}
	if (check_own_files(a, plan, e) < 0)
		return -1;
	for (uint32_t i = 0; present && i < plan->mount_count; i++) {
		if (needs_grant[i])
			changed |= record_grant(a, path_of(plan, i));
	}
	if (changed)
		save_grants(a);
	return 0;
}

/*
 * Clients send the same mounts again and again. The result depends on them, on the paths of the daemon's own files,
 * which do not change, on the accounts, and on the lists, which can only permit more.
 */
static int check_confined(struct authority *a, const struct plan_head *plan, bool present, struct err *e)
{
	int64_t now = now_s();
	describe_mounts(plan, &a->mounts);
	if (present && have_passed(a, now))
		return 0;
	if (check_mounts(a, plan, present, e) < 0)
		return -1;
	if (present && !a->listed.len) {
		const struct buf other = a->passed;
		a->passed = a->mounts;
		a->mounts = other;
		a->passed_s = now;
	}
	return 0;
}

static void refresh_lists(struct authority *a)
{
	read_accounts(a);
	buf_reset(&a->listed);
	for (size_t i = 0; i < countof(a->list); i++) {
		if (a->list[i][0])
			read_list(a, a->list[i]);
	}
}

int authority_check(struct authority *a, const struct plan_head *plan, int client, struct err *e)
{
	bool present = authority_is_present(client);
	if (!(plan->flags & PLAN_PRIVATE_ROOT))
		return present ? 0
			       : err_set(e, ERR_NOT_ALLOWED,
					 "without a sandbox, nothing is run for a root client that is gone");
	refresh_lists(a);
	return check_confined(a, plan, present, e);
}

int authority_grant(struct authority *a, int client, const char *paths, size_t len, struct err *e)
{
	char clean[PATH_MAX];
	bool changed = false;
	if (!authority_is_present(client))
		return err_set(e, ERR_NOT_ALLOWED, "the root client is gone");
	refresh_lists(a);
	for (const char *p = paths; p < paths + len; p += strlen(p) + 1) {
		if (path_clean(p, clean, NULL) < 0 || strcmp(clean, p) != 0 || check_folder(a, p, false, e) < 0)
			continue; /* a start that uses it is denied, with the reason */
		if (root_path_is_toolchain(a->root_home, p))
			continue; /* needs no grant and gets none: credentials in it must stay hidden */
		changed |= record_grant(a, p);
	}
	if (changed)
		save_grants(a);
	return 0;
}

/* Returns −1 unless the directory is writable by root alone: a list in any other could be forged. */
static int open_state(const char *state)
{
	struct stat st;
	fd_auto int fd = state ? open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	return fd < 0 || geteuid() != 0 || fstat(fd, &st) < 0 || !is_roots_alone(&st) ? -1 : fd_take(&fd);
}

void authority_init(struct authority *a, const char *run, const char *state, const char *config)
{
	*a = (struct authority){ .folder = open_state(state), .accounts = { -2 } };
	private_paths_init(&a->own, run, state, config);
	snprintf(a->list[0], sizeof a->list[0], "/etc/bailiff/" LIST_NAME);
	if (config && strcmp(config, "/etc/bailiff") != 0 &&
	    snprintf(a->list[1], sizeof a->list[1], "%s/" LIST_NAME, config) >= (int)sizeof a->list[1])
		a->list[1][0] = 0;
	load_grants(a);
}

void authority_done(struct authority *a)
{
	private_paths_done(&a->own);
	fd_close(&a->folder);
	buf_done(&a->granted);
	buf_done(&a->homes);
	buf_done(&a->listed);
	buf_done(&a->mounts);
	buf_done(&a->passed);
}

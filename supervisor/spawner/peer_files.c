#include "supervisor/spawner/peer_files.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "sandbox/become_peer.h"
#include "sandbox/cgroup.h"
#include "sandbox/git_link.h"
#include "sandbox/nested_repos.h"
#include "sandbox/profile.h"
#include "sandbox/workspace.h"
#include "supervisor/common/process_title.h"
#include "supervisor/spawner/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TIMEOUT_S 10 /* limits the wait for a file system that hangs */
#define TRIES_MAX 3  /* attempts to read a file that is being written */
#define REQUEST_MAX (PEER_FILES_TEXT_MAX + 4096u)

static const char *const in_folder[] = { ".bailiff", "policy.json", NULL };
static const char *const in_home[] = { ".config", "bailiff", "policy.json", NULL };
static const char *const in_config[] = { "policy.json", NULL };

/* ---- in the child ---- */

struct peer_files_request {
	int request, answer;
	bool privileged;
	const struct spawn_identity *peer;
	const char *policy_file;
};

/* A path to open: a directory by its path, then these names one after another. */
struct trail {
	const char *from;
	const char *const *names;
	uint64_t resolve; /* additional RESOLVE_ flags for the names */
};

struct found {
	struct peer_files_reply a;
	int fds[PEER_FILES_WATCH_MAX + 1];
	size_t nfds;
};

static int fail_with(int errnum)
{
	errno = errnum;
	return -1;
}

static int become_requester(const struct peer_files_request *l)
{
	const struct spawn_identity *p = l->peer;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    become_peer(l->privileged, p->peer_uid, p->peer_gid, p->groups, p->ngroups) < 0)
		return -1;
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	return 0;
}

static int open_at(int at, const char *name, uint64_t flags, uint64_t resolve)
{
	struct open_how how = { .flags = flags | O_CLOEXEC, .resolve = resolve | RESOLVE_NO_MAGICLINKS };
	return (int)syscall(SYS_openat2, at, name, &how, sizeof how);
}

/* Takes ownership of the descriptor. */
static int add_watch(struct found *f, int fd)
{
	if (file_stamp_get(fd, &f->a.watch[f->a.nwatch]) < 0) {
		close(fd);
		return -1;
	}
	f->fds[f->nfds++] = fd;
	f->a.nwatch++;
	return 0;
}

/* Reads a text; retries if the file changed during the read. */
static int read_text(int fd, struct buf *out)
{
	for (int i = 0; i < TRIES_MAX; i++) {
		struct file_stamp before, after;
		struct stat st;
		if (fstat(fd, &st) < 0 || file_stamp_get(fd, &before) < 0 || lseek(fd, 0, SEEK_SET) < 0)
			return -1;
		if (!S_ISREG(st.st_mode))
			return fail_with(EINVAL);
		if (st.st_size > (off_t)PEER_FILES_TEXT_MAX)
			return fail_with(EFBIG);
		buf_reset(out);
		ssize_t n = fd_read_all(fd, buf_reserve(out, PEER_FILES_TEXT_MAX + 1), PEER_FILES_TEXT_MAX + 1);
		if (n < 0)
			return -1;
		if ((size_t)n > PEER_FILES_TEXT_MAX)
			return fail_with(EFBIG);
		buf_extend(out, (size_t)n);
		if (file_stamp_get(fd, &after) == 0 && file_stamp_equal(&before, &after))
			return 0;
	}
	return fail_with(EAGAIN);
}

/* Opens the file with O_PATH: a pipe or a device must not be opened for reading. Returns −1 if no file can be read. */
static int follow_trail(const struct trail *t, struct found *f)
{
	int at = open_at(AT_FDCWD, t->from, O_PATH | O_DIRECTORY, 0);
	for (size_t i = 0; at >= 0; i++) {
		bool last = !t->names[i + 1];
		if (add_watch(f, at) < 0)
			return -1;
		int next = open_at(at, t->names[i], last ? O_PATH : O_PATH | O_DIRECTORY, t->resolve);
		if (!last) {
			at = next;
			continue;
		}
		return next < 0 || add_watch(f, next) < 0 ? -1 : next;
	}
	return -1;
}

static int read_file(const struct trail *t, struct found *f, struct buf *text)
{
	struct stat st;
	int file = follow_trail(t, f);
	if (file < 0)
		return -1;
	if (fstat(file, &st) < 0)
		return -1;
	if (!S_ISREG(st.st_mode))
		return fail_with(S_ISLNK(st.st_mode) ? ELOOP : EINVAL);
	/*
	 * Opened by name in its parent, the previous watched entry. A file with another stamp is not the one that was
	 * checked.
	 */
	const char *name = t->names[f->a.nwatch - 2];
	fd_auto int fd = open_at(f->fds[f->nfds - 2], name, O_RDONLY | O_NONBLOCK | O_NOCTTY, t->resolve);
	struct file_stamp opened;
	if (fd < 0 || file_stamp_get(fd, &opened) < 0)
		return -1;
	if (!file_stamp_equal(&opened, &f->a.watch[f->a.nwatch - 1]))
		return fail_with(EAGAIN);
	return read_text(fd, text);
}

static void found_done(struct found *f)
{
	for (size_t i = 0; i < f->nfds; i++)
		close(f->fds[i]);
	*f = (struct found){ 0 };
}

static void walk_names(const struct trail *t, struct found *f, struct buf *text)
{
	for (int i = 0; i < TRIES_MAX; i++) {
		found_done(f);
		buf_reset(text);
		errno = 0;
		f->a.error = read_file(t, f, text) < 0 ? errno ? errno : EIO : 0;
		if (f->a.error != EAGAIN)
			break;
	}
	/* A path component that is not a directory makes the file unusable rather than absent. */
	if (f->a.error == ENOTDIR && f->a.nwatch)
		f->a.error = EINVAL;
}

static int send_answer(int sock, struct found *f)
{
	return fd_send(sock, &f->a, sizeof f->a, f->fds, f->nfds, MSG_NOSIGNAL);
}

static int answer_trail(const struct peer_files_request *l, const struct trail *t, uint32_t index, const char *path)
{
	buf_auto struct buf text = BUF_INIT;
	struct found f = { 0 };
	walk_names(t, &f, &text);
	f.a.index = index;
	snprintf(f.a.path, sizeof f.a.path, "%s", path);
	if (!f.a.error) {
		int fd = fd_memfd_sealed("bailiff-policy", buf_cstr(&text), text.len);
		if (fd < 0)
			f.a.error = errno;
		else
			f.fds[f.nfds++] = fd;
	}
	int r = send_answer(l->answer, &f);
	found_done(&f);
	return r;
}

/*
 * Finds the user's own file: the daemon's, or the one in the peer's home. Links are followed: they are the user's
 * choice.
 */
static int user_trail(const struct peer_files_request *l, char from[PATH_MAX], char path[PATH_MAX], struct trail *ret)
{
	struct passwd pw, *found = NULL;
	char text[4096];
	if (l->policy_file) {
		const char *slash = strrchr(l->policy_file, '/');
		snprintf(from, PATH_MAX, "%.*s", (int)(slash - l->policy_file), l->policy_file);
		*ret = (struct trail){ .from = from[0] ? from : "/", .names = in_config };
		snprintf(path, PATH_MAX, "%s", l->policy_file);
		return 0;
	}
	int error = getpwuid_r(l->peer->peer_uid, &pw, text, sizeof text, &found);
	if (!found && error && error != ENOENT && error != ESRCH)
		return fail_with(error); /* a user without a home has no file; a failed lookup does not prove that */
	if (!found || !pw.pw_dir || pw.pw_dir[0] != '/')
		return fail_with(ENOENT);
	if (snprintf(from, PATH_MAX, "%s", pw.pw_dir) >= PATH_MAX - 64)
		return fail_with(ENAMETOOLONG);
	*ret = (struct trail){ .from = from, .names = in_home };
	snprintf(path, PATH_MAX, "%.*s/.config/bailiff/policy.json", PATH_MAX - 64, from);
	return 0;
}

static int answer_user(const struct peer_files_request *l, uint32_t index)
{
	char from[PATH_MAX], path[PATH_MAX];
	struct trail t;
	if (user_trail(l, from, path, &t) == 0)
		return answer_trail(l, &t, index, path);
	struct found none = { .a = { .index = index, .error = errno } };
	return send_answer(l->answer, &none);
}

static void send_nested(void *ctx, const char *path)
{
	const struct peer_files_request *l = ctx;
	struct found f = { .a = { .index = PEER_FILES_NESTED, .error = ENOENT } };
	snprintf(f.a.path, sizeof f.a.path, "%s", path);
	send_answer(l->answer, &f);
}

static void send_git(const struct peer_files_request *l, uint32_t what, const char *path)
{
	struct found f = { .a = { .index = PEER_FILES_GIT, .git = what, .error = ENOENT } };
	snprintf(f.a.path, sizeof f.a.path, "%s", path);
	send_answer(l->answer, &f);
}

static void answer_git(struct peer_files_request *l, const char *workspace)
{
	struct git_link link;
	enum git_link_result r = git_link_find(workspace, &link);
	if (r == GIT_LINK_UNPROVEN)
		send_git(l, PROFILE_GIT_UNPROVEN, link.common[0] ? link.common : link.dir);
	if (r != GIT_LINK_PROVEN)
		return;
	if (link.common[0])
		send_git(l, PROFILE_GIT_COMMON, link.common);
	send_git(l, link.common[0] ? PROFILE_GIT_WORKTREE : PROFILE_GIT_MODULE, link.dir);
	if (nested_repos_find_modules(link.dir, send_nested, l) != 0)
		send_nested(l, "");
}

/* A peer that cannot list the workspace cannot search below it; reports that there may be more. */
static void answer_below(struct peer_files_request *l, const char *workspace)
{
	answer_git(l, workspace);
	if (nested_repos_find(workspace, send_nested, l) != 0)
		send_nested(l, "");
}

/* An empty name stands for the user's own file. */
static int answer_folders(struct peer_files_request *l, const char *list, size_t len, bool below)
{
	uint32_t n = 0;
	for (const char *s = list; s < list + len; s += strlen(s) + 1, n++) {
		const struct trail t = { .from = s,
					 .names = in_folder,
					 .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
		if ((s[0] && s[0] != '/') || n >= PEER_FILES_FOLDERS_MAX)
			return fail_with(EINVAL);
		if ((s[0] ? answer_trail(l, &t, n, "") : answer_user(l, n)) < 0)
			return -1;
		if (s[0] && below)
			answer_below(l, s);
		below &= !s[0];
	}
	return 0;
}

/* Stamps from before the search: while they are the same, so is its result. */
static size_t open_searched(const char *folder, const char *home, struct found ret[PEER_FILES_SEARCHED_MAX])
{
	char at[PATH_MAX];
	size_t n = 0;
	snprintf(at, sizeof at, "%s", folder);
	do {
		if (!workspace_is_usable(at, home) || n == PEER_FILES_SEARCHED_MAX)
			break;
		int fd = open_at(AT_FDCWD, at, O_PATH | O_DIRECTORY, 0);
		ret[n] = (struct found){ .a = { .index = (uint32_t)n, .error = ENOENT } };
		if (fd < 0 || add_watch(&ret[n], fd) < 0)
			return 0;
		memcpy(ret[n++].a.path, at, sizeof at);
	} while (path_up(at));
	return workspace_is_usable(at, home) ? 0 : n;
}

/* The directory, then the home. */
static int answer_search(const struct peer_files_request *l, const char *folder, size_t len)
{
	static struct found at[PEER_FILES_SEARCHED_MAX];
	struct found f = { .a = { .index = PEER_FILES_GIT, .error = ENOENT } };
	const size_t n = len ? strlen(folder) + 1 : 0;
	if (n < 2 || n >= len || n > PATH_MAX || folder[0] != '/' || len - n > PATH_MAX)
		return fail_with(EINVAL);
	size_t opened = open_searched(folder, folder + n, at);
	workspace_search(folder, folder + n, false, f.a.path);
	for (size_t i = 0; i < opened && path_within(f.a.path[0] ? f.a.path : "/", at[i].a.path); i++, f.a.git++)
		if (send_answer(l->answer, &at[i]) < 0)
			return -1;
	return send_answer(l->answer, &f);
}

/* ---- writing ---- */

/* Opens the file's directory; creates it if it is missing. */
static int open_folder(const struct trail *t)
{
	fd_auto int at = open_at(AT_FDCWD, t->from, O_RDONLY | O_DIRECTORY, 0);
	for (size_t i = 0; at >= 0 && t->names[i + 1]; i++) {
		if (mkdirat(at, t->names[i], 0700) < 0 && errno != EEXIST)
			return -1;
		int next = open_at(at, t->names[i], O_RDONLY | O_DIRECTORY, t->resolve);
		fd_close(&at);
		at = next;
	}
	return at < 0 ? -1 : fd_take(&at);
}

/*
 * Renames the new file into place only after it is synced, and only if the old one still has the stamp that was read.
 */
static int replace_file(int folder, const char *name, const struct peer_files_write *w, const char *text, size_t len)
{
	struct file_stamp now;
	struct stat st = { .st_mode = 0600 };
	char temp[64];
	fd_auto int old = open_at(folder, name, O_PATH | O_NOFOLLOW, 0);
	if (old < 0 && errno != ENOENT)
		return -1;
	if ((old >= 0) != (w->exists != 0))
		return fail_with(EAGAIN);
	if (old >= 0 && fstat(old, &st) < 0)
		return -1;
	if (old >= 0 && !S_ISREG(st.st_mode))
		return fail_with(S_ISLNK(st.st_mode)
					 ? ELOOP
					 : EINVAL); /* managed by other means, such as a link; do not replace it */
	if (old >= 0 && st.st_uid != geteuid())
		return fail_with(EPERM);
	if (old >= 0 && (file_stamp_get(old, &now) < 0 || !file_stamp_equal(&now, &w->stamp)))
		return fail_with(EAGAIN);
	snprintf(temp, sizeof temp, ".policy.json.%d", (int)getpid());
	unlinkat(folder, temp, 0);
	fd_auto int fd = openat(folder, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	if (fchmod(fd, st.st_mode & 0777) < 0 || fd_write_all(fd, text, len) < 0 || fsync(fd) < 0 ||
	    renameat(folder, temp, folder, name) < 0) {
		int errnum = errno;
		unlinkat(folder, temp, 0);
		return fail_with(errnum);
	}
	return fsync(folder);
}

static int write_user(const struct peer_files_request *l, const char *request, size_t len)
{
	char from[PATH_MAX], path[PATH_MAX] = "";
	struct peer_files_write w;
	struct trail t;
	struct found f = { 0 };
	if (len < sizeof w || len - sizeof w > PEER_FILES_TEXT_MAX)
		return fail_with(EINVAL);
	memcpy(&w, request, sizeof w);
	if (user_trail(l, from, path, &t) == 0) {
		size_t last = 0;
		while (t.names[last + 1])
			last++;
		fd_auto int folder = open_folder(&t);
		f.a.error = folder < 0 || replace_file(folder, t.names[last], &w, request + sizeof w, len - sizeof w) <
						    0
				    ? errno
				    : 0;
	} else {
		f.a.error = errno;
	}
	snprintf(f.a.path, sizeof f.a.path, "%s", path);
	return send_answer(l->answer, &f);
}

static int read_request(int fd, struct buf *out)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -1;
	if (!S_ISREG(st.st_mode) || st.st_size > (off_t)REQUEST_MAX)
		return fail_with(EINVAL);
	ssize_t n = pread(fd, buf_reserve(out, (size_t)st.st_size), (size_t)st.st_size, 0);
	if (n < 0)
		return -1;
	buf_extend(out, (size_t)n); /* terminates the last name, which may lack its NUL */
	return 0;
}

static _Noreturn void child(struct peer_files_request *l, enum peer_files_op what)
{
	static struct buf request;
	const struct found end = { .a = { .index = PEER_FILES_END } };
	sigset_t none;
	int r = -1;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	alarm(TIMEOUT_S);
	umask(077);
	/* To high numbers first, so that neither dup2 overwrites the other; then close everything of the spawner's. */
	int request_fd = fcntl(l->request, F_DUPFD_CLOEXEC, 64), answer_fd = fcntl(l->answer, F_DUPFD_CLOEXEC, 64);
	if (request_fd < 0 || answer_fd < 0 || dup2(request_fd, 0) < 0 || dup2(answer_fd, 1) < 0 ||
	    fd_close_range(2, UINT_MAX) < 0)
		_exit(1);
	l->request = 0;
	l->answer = 1;
	if (become_requester(l) < 0 || read_request(l->request, &request) < 0)
		_exit(1);
	if (what == PEER_FILES_WORKSPACE || what == PEER_FILES_BELOW)
		r = answer_folders(l, request.data, request.len, what == PEER_FILES_BELOW);
	else if (what == PEER_FILES_USER)
		r = answer_user(l, 0);
	else if (what == PEER_FILES_FIND)
		r = answer_search(l, request.data, request.len);
	else
		r = write_user(l, request.data, request.len);
	if (r == 0)
		fd_send(l->answer, &end.a, sizeof end.a, NULL, 0, MSG_NOSIGNAL);
	_exit(0);
}

/* ---- in the spawner ---- */

static bool has_ended(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	return poll(&p, 1, 0) > 0;
}

/* Drops the helpers that have ended; whether this user may have one more. */
static bool has_room(struct peer_files_helpers *h, uid_t uid)
{
	const uint64_t now = clock_boot_ns();
	size_t own = 0, stuck = 0, kept = 0;
	for (size_t i = 0; i < h->count; i++) {
		if (has_ended(h->at[i].pidfd)) {
			close(h->at[i].pidfd);
			continue;
		}
		own += h->at[i].uid == uid;
		stuck += h->at[i].uid == uid && now - h->at[i].began_ns > TIMEOUT_S * 1000000000ull;
		h->at[kept++] = h->at[i];
	}
	h->count = kept;
	return stuck < PEER_FILES_STUCK_MAX && own < PEER_FILES_HELPERS_MAX && kept < PEER_FILES_ALL_HELPERS_MAX;
}

static int refuse_helper(int answer)
{
	struct found none = { .a = { .index = PEER_FILES_END, .error = EDQUOT } };
	if (fd_send(answer, &none.a, sizeof none.a, NULL, 0, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_info("the runtime does not wait for a refused helper");
	return 0;
}

int peer_files_start(struct spawner *s, enum peer_files_op what, const struct spawn_identity *peer,
		     const int fds[PEER_FILES_FDS], struct err *e)
{
	int pidfd = -1;
	struct clone_args a = { .flags = CLONE_CLEAR_SIGHAND | CLONE_PIDFD, .pidfd = (uintptr_t)&pidfd };
	struct peer_files_request l = { .request = fds[PEER_FILES_FD_REQUEST],
					.answer = fds[PEER_FILES_FD_REPLY],
					.privileged = s->privileged,
					.peer = peer,
					.policy_file = s->policy_file };
	int seals = fcntl(l.request, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_WRITE))
		return err_set(e, ERR_INVALID, "the request is not in a sealed memfd");
	if (!has_room(&s->helpers, peer->peer_uid))
		return refuse_helper(l.answer);
	pid_t pid = cgroup_clone(&a); /* no exit signal: placeholder_helper_reap reaps it */
	if (pid == 0)
		child(&l, what);
	if (pid < 0)
		return err_sys(e, errno, "clone");
	s->helpers.at[s->helpers.count].uid = peer->peer_uid;
	s->helpers.at[s->helpers.count].began_ns = clock_boot_ns();
	s->helpers.at[s->helpers.count++].pidfd = pidfd;
	return 0;
}

#include "supervisor/daemon/daemon_home.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/file_copy.h"
#include "runtime/base/hash.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/*
 * One daemon for each home is guaranteed by a lock (flock) on the pid file, never by the pid in it or by the socket:
 * both survive a crash, the lock does not. The order follows from that: lock, then replace the socket, then write the
 * pid. Only the message and the wait in take_lock use the pid. The guard keeps the lock's descriptor open across an
 * upgrade, so the home is never unlocked in between.
 *
 * The directories belong to different users when the daemon is root: state, run and cow to root, store and spool to the
 * runtime's user. Entries of the state directory are opened relative to its descriptor and without following links.
 */

#define LOCK_NAME "bailiffd.pid"
#define LOCK_WAIT_MS 10000u
#define LOCK_POLL_MS 5u
#define LOG_NAME "daemon.log"
#define LOG_ROTATED "daemon.log.1"
#define LOG_MAX (4 << 20)
#define SOCKET_NAME "control.sock"
#define NEW_SUFFIX ".restoring"

/* ---- paths ---- */

/* NULL if the variable is unset or empty. */
static const char *get_env(const char *name)
{
	const char *v = getenv(name);
	return v && v[0] ? v : NULL;
}

__attribute__((format(printf, 2, 3))) static int put_path(char out[PATH_MAX], const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(out, PATH_MAX, fmt, ap);
	va_end(ap);
	return n < PATH_MAX - 32 ? 0 : -1; /* room for the names inside */
}

static int too_long(struct err *e) { return err_set(e, ERR_INVALID, "the home's path is too long"); }

/* $XDG_…/bailiff, with the default below $HOME. */
static int xdg_folder(const char *name, const char *below_home, char out[PATH_MAX], struct err *e)
{
	const char *v = get_env(name), *home = get_env("HOME");
	if (!v && !home)
		return err_set(e, ERR_INVALID, "neither %s nor HOME is set; set BAILIFF_HOME, or give --home DIR",
			       name);
	if ((v ? put_path(out, "%s/bailiff", v) : put_path(out, "%s/%s/bailiff", home, below_home)) < 0)
		return too_long(e);
	return 0;
}

/* Without XDG_RUNTIME_DIR: /run/user/UID if it is writable, else below the state directory. */
static int user_folders(uid_t uid, struct daemon_paths *p, struct err *e)
{
	char run[64];
	p->kind = DAEMON_PATHS_USER;
	if (xdg_folder("XDG_STATE_HOME", ".local/state", p->state, e) < 0 ||
	    xdg_folder("XDG_CONFIG_HOME", ".config", p->config, e) < 0)
		return -1;
	if (get_env("XDG_RUNTIME_DIR"))
		return xdg_folder("XDG_RUNTIME_DIR", "", p->run, e);
	snprintf(run, sizeof run, "/run/user/%u", (unsigned)uid);
	if ((access(run, W_OK) == 0 ? put_path(p->run, "%s/bailiff", run) : put_path(p->run, "%s/run", p->state)) < 0)
		return too_long(e);
	return 0;
}

int daemon_paths_find(const char *home, uid_t uid, struct daemon_paths *ret, struct err *e)
{
	struct daemon_paths p = { 0 };
	const char *dir = home ? home : get_env("BAILIFF_HOME");
	if (dir && !dir[0])
		return err_field(e, "--home", "is empty");
	if (dir) {
		char here[PATH_MAX] = "";
		if (dir[0] != '/' && !getcwd(here, sizeof here))
			return err_sys(e, errno, "find the current directory");
		p.kind = DAEMON_PATHS_HOME;
		if (put_path(p.run, "%s%s%s", here, here[0] ? "/" : "", dir) < 0)
			return too_long(e);
		put_path(p.state, "%s", p.run);
		put_path(p.config, "%s", p.run);
	} else if (uid == 0) {
		p.kind = DAEMON_PATHS_SYSTEM;
		put_path(p.run, "/run/bailiff");
		put_path(p.state, "/var/lib/bailiff");
		put_path(p.config, "/etc/bailiff");
	} else if (user_folders(uid, &p, e) < 0) {
		return -1;
	}
	put_path(p.label, "%s", p.state);
	*ret = p;
	return 0;
}

/* ---- the home in use ---- */

void daemon_home_init(struct daemon_home *h, const struct daemon_paths *p)
{
	*h = (struct daemon_home){ .paths = *p,
				   .run_fd = -1,
				   .state_fd = -1,
				   .cow_fd = -1,
				   .lock_fd = -1,
				   .listen_fd = -1,
				   .store_fd = -1,
				   .spool_fd = -1 };
	snprintf(h->socket, sizeof h->socket, "%.*s/" SOCKET_NAME, PATH_MAX - 32, p->run);
	snprintf(h->config_file, sizeof h->config_file, "%.*s/config.json", PATH_MAX - 32, p->config);
}

/* The name of a new directory is durable only after this: without it a power cut takes everything in it. */
static int sync_name(int folder, const char *name, struct err *e)
{
	char above[PATH_MAX];

	snprintf(above, sizeof above, "%.*s/..", PATH_MAX - 8, name);
	fd_auto int fd = openat(folder, above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == EACCES)
		return 0; /* a directory that we may write to, but not read */
	return fd < 0 || fsync(fd) < 0 ? err_sys(e, errno, "sync the directory that contains '%s'", name) : 0;
}

/* Like mkdir -p; only the last new directory gets the mode. */
static int make_folders(const char *path, mode_t mode, struct err *e)
{
	char part[PATH_MAX];
	size_t len = strlen(path);
	for (size_t i = 1; i <= len; i++) {
		if (path[i] != '/' && path[i] != 0)
			continue;
		memcpy(part, path, i);
		part[i] = 0;
		if (mkdir(part, 0700) < 0) {
			if (errno != EEXIST)
				return err_sys(e, errno, "create directory '%s'", part);
		} else if (chmod(part, i == len ? mode : 0755) < 0) { /* independent of the umask */
			return err_sys(e, errno, "set the mode of '%s'", part);
		} else if (sync_name(AT_FDCWD, part, e) < 0) {
			return -1;
		}
	}
	return 0;
}

static int open_folder(const char *path, mode_t mode, int *ret, struct err *e)
{
	if (make_folders(path, mode, e) < 0)
		return -1;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "open directory '%s'", path);
	*ret = fd;
	return 0;
}

/* One of the runtime's working directories. */
static int open_inner(struct daemon_home *h, const char *name, const struct daemon_home_options *o, int *ret,
		      struct err *e)
{
	if (mkdirat(h->state_fd, name, 0700) < 0 && errno != EEXIST)
		return err_sys(e, errno, "create directory '%s/%s'", h->paths.state, name);
	if (sync_name(h->state_fd, name, e) < 0)
		return -1;
	fd_auto int fd = openat(h->state_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, errno, "open directory '%s/%s'", h->paths.state, name);
	if (o->give && (st.st_uid != o->uid || st.st_gid != o->gid) && fchown(fd, o->uid, o->gid) < 0)
		return err_sys(e, errno, "give directory '%s/%s' to uid %u", h->paths.state, name, o->uid);
	*ret = fd_take(&fd);
	return 0;
}

static int take_lock(struct daemon_home *h, struct err *e)
{
	const struct timespec pause = { .tv_nsec = LOCK_POLL_MS * 1000000L };
	fd_auto int fd = openat(h->state_fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(e, errno, "open '%s/" LOCK_NAME "'", h->paths.state);
	for (unsigned waited = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; waited += LOCK_POLL_MS) {
		if (errno != EWOULDBLOCK)
			return err_sys(e, errno, "lock '%s/" LOCK_NAME "'", h->paths.state);
		char text[32] = ""; /* the pid that the lock's holder wrote */
		ssize_t n = pread(fd, text, sizeof text - 1, 0);
		text[n > 0 ? n : 0] = 0;
		long pid = strtol(text, NULL, 10);
		if (pid <= 0)
			return err_set(e, ERR_CONFLICT, "already running (just starting or stopping) on %s",
				       h->paths.label);
		/*
		 * If the guard that wrote the pid is dead, a child that it had just forked still has the lock, until it
		 * executes a program or notices that the guard is dead: that is worth waiting for.
		 */
		if (waited >= LOCK_WAIT_MS || kill((pid_t)pid, 0) == 0 || errno != ESRCH)
			return err_set(e, ERR_CONFLICT, "already running (pid %ld) on %s", pid, h->paths.label);
		(void)nanosleep(&pause, NULL);
	}
	h->lock_fd = fd_take(&fd);
	return 0;
}

/* A socket for all users needs a directory that all users can enter. */
static mode_t socket_mode(const struct daemon_home *h, const struct daemon_home_options *o)
{
	if (o->socket_mode)
		return o->socket_mode;
	return h->paths.kind == DAEMON_PATHS_SYSTEM ? 0666 : 0600;
}

int daemon_home_open_dirs(struct daemon_home *h, const struct daemon_home_options *o, struct err *e)
{
	mode_t run_mode = socket_mode(h, o) & 077 ? 0711 : 0700;
	if (o->config)
		snprintf(h->config_file, sizeof h->config_file, "%s", o->config);
	/* With --home state and run are the same directory, whose mode follows from the socket's. */
	mode_t state_mode = h->paths.kind == DAEMON_PATHS_HOME ? run_mode : 0700;
	if (open_folder(h->paths.state, state_mode, &h->state_fd, e) < 0 ||
	    open_folder(h->paths.run, run_mode, &h->run_fd, e) < 0) {
		const struct err why = *e;
		if (h->paths.kind == DAEMON_PATHS_HOME || (why.sys != EACCES && why.sys != EROFS))
			return -1;
		/* An account without a home directory, as in containers, has HOME=/ or a path that does not exist. */
		return err_set(e, why.code, "%s; set BAILIFF_HOME to a directory that you can write in", why.message);
	}
	const struct daemon_home_options ours = { .give = false };
	return open_inner(h, "cow", &ours, &h->cow_fd, e);
}

int daemon_home_lock(struct daemon_home *h, const struct daemon_home_options *o, struct err *e)
{
	if (daemon_home_open_dirs(h, o, e) < 0 || take_lock(h, e) < 0)
		return -1;
	if (ftruncate(h->lock_fd, 0) < 0)
		return err_sys(e, errno, "clear the pid file");
	if (open_inner(h, "store", o, &h->store_fd, e) < 0 || open_inner(h, "spool", o, &h->spool_fd, e) < 0)
		return -1;
	return 0;
}

/* The umask sets the socket's mode at bind: a later chmod would leave a moment with another mode. */
int daemon_home_listen(struct daemon_home *h, const struct daemon_home_options *o, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	/* A path that does not fit into a socket address is reached through the directory's descriptor. */
	if (strlen(h->socket) < sizeof a.sun_path)
		memcpy(a.sun_path, h->socket, strlen(h->socket));
	else
		snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/" SOCKET_NAME, h->run_fd);
	if (unlinkat(h->run_fd, SOCKET_NAME, 0) < 0 && errno != ENOENT)
		return err_sys(e, errno, "remove an old '%s'", h->socket);
	fd_auto int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(e, errno, "make a socket");
	mode_t before = umask(~socket_mode(h, o) & 0777);
	int r = bind(fd, (struct sockaddr *)&a, sizeof a);
	int errnum = errno;
	umask(before);
	if (r < 0)
		return err_sys(e, errnum, "bind '%s'", h->socket);
	if (listen(fd, SOMAXCONN) < 0)
		return err_sys(e, errno, "listen on '%s'", h->socket);
	h->listen_fd = fd_take(&fd);
	return 0;
}

int daemon_home_write_pid(struct daemon_home *h, struct err *e)
{
	char text[32];
	int n = snprintf(text, sizeof text, "%d\n", getpid());
	if (ftruncate(h->lock_fd, 0) < 0 || pwrite(h->lock_fd, text, (size_t)n, 0) != n)
		return err_sys(e, errno, "write '%s/" LOCK_NAME "'", h->paths.state);
	return 0;
}

int daemon_home_open_log(struct daemon_home *h, struct err *e)
{
	struct stat st;
	if (fstatat(h->state_fd, LOG_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > LOG_MAX)
		renameat(h->state_fd, LOG_NAME, h->state_fd, LOG_ROTATED);
	int fd = openat(h->state_fd, LOG_NAME, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? err_sys(e, errno, "open '%s/" LOG_NAME "'", h->paths.state) : fd;
}

void daemon_home_clean_up(struct daemon_home *h)
{
	unlinkat(h->run_fd, SOCKET_NAME, 0);
	/* Only the pid is removed: the lock ends with the process, and the file must stay to be locked again. */
	int fd = openat(h->state_fd, LOCK_NAME, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW);
	fd_close(&fd);
}

void daemon_home_tag(const struct daemon_home *h, char out[DAEMON_HOME_TAG_MAX])
{
	char real[PATH_MAX];
	const char *path = realpath(h->paths.state, real) ? real : h->paths.state;
	snprintf(out, DAEMON_HOME_TAG_MAX, "bailiff-%016llx", (unsigned long long)hash64(path, strlen(path), 0));
}

/* ---- restore ---- */

/* The store comes last: an interrupted restore leaves a home without a store, and can be repeated. */
static const char *const folders[] = { "spool", "store" };

/* Removes a flat directory that an interrupted restore left. */
static void remove_leftover(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (!d) {
		fd_close(&fd);
		return;
	}
	while ((entry = readdir(d)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			unlinkat(dirfd(d), entry->d_name, 0);
	closedir(d);
	unlinkat(parent, name, AT_REMOVEDIR);
}

static int copy_folder(struct daemon_home *h, const struct daemon_home_options *o, int source, const char *name,
		       struct err *e)
{
	const struct file_copy_options copy = { .give = o->give, .uid = o->uid, .gid = o->gid };
	fd_auto int in = openat(source, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	char fresh[64];

	if (in < 0)
		return err_sys(e, errno, "open '%s' of the backup", name);
	snprintf(fresh, sizeof(fresh), "%s" NEW_SUFFIX, name);
	remove_leftover(h->state_fd, fresh);
	if (mkdirat(h->state_fd, fresh, 0700) != 0)
		return err_sys(e, errno, "create '%s/%s'", h->paths.state, fresh);
	fd_auto int out = openat(h->state_fd, fresh, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (out < 0)
		return err_sys(e, errno, "open '%s/%s'", h->paths.state, fresh);
	if (file_copy_all(in, out, &copy, e) < 0)
		return err_wrap(e, "'%s' of the backup", name);
	if (o->give && fchown(out, o->uid, o->gid) != 0)
		return err_sys(e, errno, "give '%s/%s' to uid %u", h->paths.state, fresh, (unsigned)o->uid);
	return 0;
}

/*
 * Checks the copied database before it replaces the home's own. A child does it, as the runtime's user: the runtime
 * wrote the backup, and root does not parse what a compromised runtime may have written.
 */
static int check_copy(struct daemon_home *h, const struct daemon_home_options *o, struct err *e)
{
	fd_auto int dir = openat(h->state_fd, "store" NEW_SUFFIX, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	char message[ERR_MESSAGE_MAX] = "";
	int ends[2], status = 0;

	if (dir < 0 || pipe2(ends, O_CLOEXEC) != 0)
		return err_sys(e, errno, "check the backup");
	pid_t child = fork();
	if (child == 0) {
		struct err found = ERR_INIT;
		if (o->give && (setgroups(0, NULL) != 0 || setresgid(o->gid, o->gid, o->gid) != 0 ||
				setresuid(o->uid, o->uid, o->uid) != 0))
			err_sys(&found, errno, "become uid %u", (unsigned)o->uid);
		else
			store_check_backup(dir, &found);
		(void)!write(ends[1], found.message, found.code ? strlen(found.message) : 0);
		_exit(found.code != ERR_NONE);
	}
	close(ends[1]);
	ssize_t n = child < 0 ? 0 : fd_read_all(ends[0], message, sizeof(message) - 1);
	close(ends[0]);
	message[n > 0 ? n : 0] = '\0';
	if (child < 0 || waitpid(child, &status, 0) != child)
		return err_sys(e, errno, "check the backup");
	return status == 0 ? 0 : err_set(e, ERR_CORRUPT, "%s", message[0] ? message : "the check did not finish");
}

/*
 * Moves the previous directories aside, the store first, then renames the copies into place, the store last. Not
 * atomic, but nothing is lost if it is interrupted: the previous store and the backup still exist, and the restore can
 * be repeated. The lock keeps other daemons out meanwhile.
 */
static int swap_folders(struct daemon_home *h, const char *stamp, struct err *e)
{
	char from[64], to[64];

	for (size_t i = countof(folders); i-- > 0;) {
		/* An empty directory that this start created is removed. */
		if (unlinkat(h->state_fd, folders[i], AT_REMOVEDIR) == 0 || errno == ENOENT)
			continue;
		snprintf(to, sizeof(to), "%s.before-restore-%s", folders[i], stamp);
		if (renameat2(h->state_fd, folders[i], h->state_fd, to, RENAME_NOREPLACE) != 0)
			return err_sys(e, errno, "keep '%s/%s' as '%s'", h->paths.state, folders[i], to);
		printf("kept: %s/%s\n", h->paths.state, to);
	}
	for (size_t i = 0; i < countof(folders); i++) {
		snprintf(from, sizeof(from), "%s" NEW_SUFFIX, folders[i]);
		if (renameat(h->state_fd, from, h->state_fd, folders[i]) != 0)
			return err_sys(e, errno, "put '%s/%s' into place", h->paths.state, folders[i]);
	}
	if (fsync(h->state_fd) != 0)
		return err_sys(e, errno, "sync '%s'", h->paths.state);
	return 0;
}

int daemon_home_restore(struct daemon_home *h, const struct daemon_home_options *o, const char *from, struct err *e)
{
	fd_auto int source = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	char stamp[32];
	time_t now = time(NULL);
	struct tm tm;

	if (source < 0)
		return err_sys(e, errno, "open the backup '%s'", from);
	if (fstatat(source, "store/data.mdb", &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
		return err_set(
			e, ERR_INVALID,
			"'%s' is not a backup: it has no store/data.mdb; name a directory that store backup wrote",
			from);
	for (size_t i = 0; i < countof(folders); i++)
		if (copy_folder(h, o, source, folders[i], e) < 0)
			return -1;
	if (check_copy(h, o, e) < 0) {
		for (size_t i = 0; i < countof(folders); i++) {
			char fresh[64];
			snprintf(fresh, sizeof(fresh), "%s" NEW_SUFFIX, folders[i]);
			remove_leftover(h->state_fd, fresh);
		}
		return err_wrap(e, "nothing is restored, use another backup: '%s/store/data.mdb' is damaged", from);
	}
	(void)gmtime_r(&now, &tm);
	(void)strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm);
	if (swap_folders(h, stamp, e) < 0)
		return -1;
	printf("restored: %s\n", h->paths.state);
	return 0;
}

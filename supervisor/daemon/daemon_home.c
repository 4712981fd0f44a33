#include "supervisor/daemon/daemon_home.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define LOCK_NAME "bailiffd.pid"
#define LOCK_WAIT_MS 10000u
#define LOCK_LOOK_MS 5u
#define LOG_NAME "daemon.log"
#define LOG_ASIDE "daemon.log.1"
#define LOG_MAX (4 << 20)
#define SOCKET_NAME "control.sock"

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
				return err_sys(e, errno, "make folder '%s'", part);
		} else if (chmod(part, i == len ? mode : 0755) < 0) { /* independent of the umask */
			return err_sys(e, errno, "set the mode of '%s'", part);
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
		return err_sys(e, errno, "open folder '%s'", path);
	*ret = fd;
	return 0;
}

/* One of the runtime's working directories. */
static int open_inner(struct daemon_home *h, const char *name, const struct daemon_home_options *o, int *ret,
		      struct err *e)
{
	if (mkdirat(h->state_fd, name, 0700) < 0 && errno != EEXIST)
		return err_sys(e, errno, "make folder '%s/%s'", h->paths.state, name);
	fd_auto int fd = openat(h->state_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, errno, "open folder '%s/%s'", h->paths.state, name);
	if (o->give && (st.st_uid != o->uid || st.st_gid != o->gid) && fchown(fd, o->uid, o->gid) < 0)
		return err_sys(e, errno, "give folder '%s/%s' to uid %u", h->paths.state, name, o->uid);
	*ret = fd_take(&fd);
	return 0;
}

/* The pid that the lock's holder wrote; 0 = none. */
static long read_pid(int fd)
{
	char text[32] = "";
	ssize_t n = pread(fd, text, sizeof text - 1, 0);
	text[n > 0 ? n : 0] = 0;
	return strtol(text, NULL, 10);
}

/*
 * The guard that wrote the pid is dead, but a child that it had just forked still has the lock, until it executes a
 * program or notices that the guard is dead. Worth waiting for.
 */
static bool lock_is_left(long pid) { return pid > 0 && kill((pid_t)pid, 0) < 0 && errno == ESRCH; }

static int take_lock(struct daemon_home *h, struct err *e)
{
	const struct timespec pause = { .tv_nsec = LOCK_LOOK_MS * 1000000L };
	fd_auto int fd = openat(h->state_fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(e, errno, "open '%s/" LOCK_NAME "'", h->paths.state);
	for (unsigned waited = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; waited += LOCK_LOOK_MS) {
		if (errno != EWOULDBLOCK)
			return err_sys(e, errno, "lock '%s/" LOCK_NAME "'", h->paths.state);
		long pid = read_pid(fd);
		if (pid <= 0)
			return err_set(e, ERR_CONFLICT, "already running (just starting or stopping) on %s",
				       h->paths.label);
		if (waited >= LOCK_WAIT_MS || !lock_is_left(pid))
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
	    open_folder(h->paths.run, run_mode, &h->run_fd, e) < 0)
		return -1;
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
		renameat(h->state_fd, LOG_NAME, h->state_fd, LOG_ASIDE);
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

void daemon_home_done(struct daemon_home *h)
{
	fd_close(&h->listen_fd);
	fd_close(&h->store_fd);
	fd_close(&h->spool_fd);
	fd_close(&h->run_fd);
	fd_close(&h->cow_fd);
	fd_close(&h->state_fd);
	fd_close(&h->lock_fd);
}

void daemon_home_tag(const struct daemon_home *h, char out[DAEMON_HOME_TAG_MAX])
{
	char real[PATH_MAX];
	const char *path = realpath(h->paths.state, real) ? real : h->paths.state;
	snprintf(out, DAEMON_HOME_TAG_MAX, "bailiff-%016llx", (unsigned long long)hash64(path, strlen(path), 0));
}

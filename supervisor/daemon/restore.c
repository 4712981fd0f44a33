#include "supervisor/daemon/restore.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/file_copy.h"
#include "runtime/base/mem.h"
#include "supervisor/daemon/daemon_home.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NEW_SUFFIX ".restoring"

/* The store comes last: an interrupted restore leaves a home without a store, and can be repeated. */
static const char *const folders[] = { "spool", "store" };

static int open_source(const char *from, int *ret, struct err *e)
{
	fd_auto int fd = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return err_sys(e, errno, "open the backup '%s'", from);
	if (fstatat(fd, "store/data.mdb", &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
		return err_set(e, ERR_INVALID,
			       "'%s' is not a backup: it has no store/data.mdb; name a folder that store backup wrote",
			       from);
	*ret = fd_take(&fd);
	return 0;
}

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
		return err_sys(e, errno, "make '%s/%s'", h->paths.state, fresh);
	fd_auto int out = openat(h->state_fd, fresh, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (out < 0)
		return err_sys(e, errno, "open '%s/%s'", h->paths.state, fresh);
	if (file_copy_all(in, out, &copy, e) < 0)
		return err_wrap(e, "'%s' of the backup", name);
	if (o->give && fchown(out, o->uid, o->gid) != 0)
		return err_sys(e, errno, "give '%s/%s' to uid %u", h->paths.state, fresh, (unsigned)o->uid);
	return 0;
}

/* Moves the previous directories aside, the store first, then renames the copies into place, the store last. */
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

int restore_backup(struct daemon_home *h, const struct daemon_home_options *o, const char *from, struct err *e)
{
	fd_auto int source = -1;
	char stamp[32];
	time_t now = time(NULL);
	struct tm tm;

	if (open_source(from, &source, e) < 0)
		return -1;
	for (size_t i = 0; i < countof(folders); i++)
		if (copy_folder(h, o, source, folders[i], e) < 0)
			return -1;
	(void)gmtime_r(&now, &tm);
	(void)strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm);
	if (swap_folders(h, stamp, e) < 0)
		return -1;
	printf("restored: %s\n", h->paths.state);
	return 0;
}

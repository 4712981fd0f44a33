/* Walking and removing trees that a sandboxed command created, whatever their depth and modes. */

#include "supervisor/spawner/cow_undo.h"

#include "runtime/base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static uint64_t random_bits(void)
{
	uint64_t bits = 0;
	return getrandom(&bits, sizeof bits, 0) == (ssize_t)sizeof bits ? bits : (uint64_t)getpid();
}

void cow_temporary_name(uint64_t bits, char out[64])
{
	snprintf(out, 64, COW_TEMPORARY "%016llx", (unsigned long long)(bits ? bits : random_bits()));
}

uint64_t cow_temporary_bits(const struct cow_undo *u, const char *path)
{
	uint64_t bits = hash64(path, strlen(path), u->seed ^ u->root);
	return bits ? bits : 1;
}

int cow_each_entry(int folder, int (*fn)(void *ctx, int folder, const char *name), void *ctx)
{
	int r = 0, fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		fd_close(&fd);
		return -1;
	}
	for (const struct dirent *en; r == 0 && (en = readdir(d));) {
		if (strcmp(en->d_name, ".") != 0 && strcmp(en->d_name, "..") != 0)
			r = fn(ctx, folder, en->d_name);
	}
	int saved = errno;
	closedir(d);
	errno = saved;
	return r;
}

/* A tree removal in progress. */
struct removal {
	int top;                  /* the topmost directory, once it is open */
	const struct stat *found; /* what that must be; NULL: anything */
	unsigned depth;
	uint64_t hoisted;
};

static int remove_entry(void *removal, int folder, const char *name);

/*
 * A command can nest directories thousands deep. Those below the recursion limit are moved up into the topmost
 * directory, which is then scanned again.
 */
static int hoist_entry(struct removal *r, int dir, const char *name)
{
	char up[64];
	cow_temporary_name(0, up);
	if (renameat(dir, name, r->top, up) < 0)
		return -1;
	r->hoisted++;
	return 0;
}

static bool is_found(const struct removal *r, int folder)
{
	struct stat st;
	return !r->found || (fstat(folder, &st) == 0 && st.st_dev == r->found->st_dev && st.st_ino == r->found->st_ino);
}

/* Another removal of the same tree may be in progress: what is gone already is no error. */
static int remove_folder(struct removal *r, int dir, const char *name)
{
	fd_auto int folder = cow_open_folder(dir, name);
	if (folder < 0 && errno == EACCES && fchmodat(dir, name, 0700, AT_SYMLINK_NOFOLLOW) == 0)
		folder = cow_open_folder(dir, name); /* overlayfs creates its work directory with mode 0 */
	if (folder < 0)
		return errno == ENOENT ? 0 : -1;
	if (r->depth == 0 && !is_found(r, folder)) {
		errno = ESTALE;
		return -1;
	}
	if (faccessat(folder, ".", W_OK | X_OK, AT_EACCESS) < 0)
		fchmod(folder, 0700);
	if (r->depth >= COW_DEPTH_MAX)
		return hoist_entry(r, dir, name);
	if (r->depth == 0)
		r->top = folder;
	uint64_t before;
	int done;
	do {
		before = r->hoisted;
		r->depth++;
		done = cow_each_entry(folder, remove_entry, r);
		r->depth--;
	} while (done == 0 && r->depth == 0 && r->hoisted != before);
	return done < 0 || (unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT) ? -1 : 0;
}

static int remove_entry(void *removal, int folder, const char *name)
{
	if (unlinkat(folder, name, 0) == 0 || errno == ENOENT)
		return 0;
	return errno == EISDIR || errno == EPERM ? remove_folder(removal, folder, name) : -1;
}

int cow_remove(int dir, const char *name)
{
	struct removal r = { .top = -1 };
	return remove_entry(&r, dir, name);
}

int cow_remove_found(int dir, const char *name, const struct stat *found)
{
	struct removal r = { .top = -1, .found = found };
	return remove_entry(&r, dir, name);
}

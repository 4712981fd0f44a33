/*
 * The names go first, on the writer thread. Freeing the blocks of a large file can take a second per gigabyte, for
 * which no commit should wait. The kernel frees them with the last close, so large files stay open and a thread closes
 * them. A full disk is different: there commits wait for exactly this space.
 */

#include "runtime/store/expired_files.h"

#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/store/spool.h"
#include "runtime/store/store_private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define LARGE_FILE (4u << 20)
#define FILES_MAX 32u /* open at the same time, for each call */

struct large_files {
	size_t count;
	int fds[FILES_MAX];
};

static void *close_files(void *arg)
{
	struct large_files *files = arg;

	for (size_t i = 0; i < files->count; i++)
		fd_close(&files->fds[i]);
	free(files);
	return NULL;
}

static void keep_large_open(struct store *store, const char *ref, struct large_files *files)
{
	struct stat st;

	if (files->count == FILES_MAX || fstatat(store->spool_fd, ref, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    st.st_size < (off_t)LARGE_FILE)
		return;
	int fd = openat(store->spool_fd, ref, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0)
		files->fds[files->count++] = fd;
}

/* The thread inherits the writer's blocked signals, and nothing waits for it: the end of the process closes files, too.
 */
static void close_in_background(struct large_files *files)
{
	pthread_t thread;

	if (files->count > 0 && pthread_create(&thread, NULL, close_files, files) == 0)
		pthread_detach(thread);
	else
		close_files(files);
}

void expired_files_close(int fd)
{
	struct large_files *files = mem_zalloc(1, sizeof *files);

	if (fd >= 0)
		files->fds[files->count++] = fd;
	close_in_background(files);
}

void expired_files_remove(struct store *store)
{
	bool keep;

	if (store->nunlinks == 0)
		return;
	pthread_mutex_lock(&store->mutex);
	keep = store->keep_files;
	pthread_mutex_unlock(&store->mutex);
	if (keep)
		return;
	struct large_files *files = mem_zalloc(1, sizeof *files);
	for (size_t i = 0; i < store->nunlinks; i++) {
		if (!atomic_load(&store->full))
			keep_large_open(store, store->unlinks[i], files);
		if (spool_unlink(store->spool_fd, store->unlinks[i]) != 0 && errno != ENOENT)
			log_warning("store: remove spool file '%s': %s", store->unlinks[i], strerror(errno));
		free(store->unlinks[i]);
	}
	free(store->unlinks);
	store->unlinks = NULL;
	store->nunlinks = 0;
	close_in_background(files);
}

/*
 * Archives of workspaces from other machines, unpacked into an empty directory: nothing may appear outside it. The
 * directory is in memory, if possible, and is cleared, not created again: on a disk this took most of the time.
 */

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "supervisor/fleet/bundle.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX (64u << 10)

static struct {
	char path[64], inside[80];
	DIR *above, *in;
	int file;
} scratch;

static int remove_below(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	return at->level ? remove(path) : 0;
}

static void remove_scratch(void)
{
	nftw(scratch.inside, remove_below, 16, FTW_DEPTH | FTW_PHYS);
	if (rmdir(scratch.inside) < 0 || rmdir(scratch.path) < 0)
		abort();
}

static void make_scratch(void)
{
	snprintf(scratch.path, sizeof(scratch.path), "/dev/shm/fuzz-bundle-XXXXXX");
	if (!mkdtemp(scratch.path)) {
		snprintf(scratch.path, sizeof(scratch.path), "/tmp/fuzz-bundle-XXXXXX");
		if (!mkdtemp(scratch.path))
			abort();
	}
	snprintf(scratch.inside, sizeof(scratch.inside), "%s/in", scratch.path);
	if (mkdir(scratch.inside, 0700) < 0 || atexit(remove_scratch) != 0)
		abort();
	scratch.above = opendir(scratch.path);
	scratch.in = opendir(scratch.inside);
	scratch.file = memfd_create("bundle", MFD_CLOEXEC);
	if (!scratch.above || !scratch.in || scratch.file < 0)
		abort();
}

/* With . and .. */
static size_t count_entries(DIR *d)
{
	size_t n = 0;

	rewinddir(d);
	while (readdir(d))
		n++;
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = ERR_INIT;

	if (size > INPUT_MAX)
		return 0;
	if (!scratch.above)
		make_scratch();
	if (ftruncate(scratch.file, 0) < 0 || lseek(scratch.file, 0, SEEK_SET) < 0 ||
	    fd_write_all(scratch.file, data, size) < 0 || lseek(scratch.file, 0, SEEK_SET) < 0)
		abort();
	(void)bundle_unpack(scratch.file, dirfd(scratch.in), &e);
	if (count_entries(scratch.above) != 3)
		abort();
	if (count_entries(scratch.in) != 2)
		nftw(scratch.inside, remove_below, 16, FTW_DEPTH | FTW_PHYS);
	if (count_entries(scratch.in) != 2)
		abort();
	return 0;
}

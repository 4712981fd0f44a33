/* Archives of workspaces from other machines, unpacked into an empty folder: nothing may appear outside of it. */

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

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at) { return remove(path); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[] = "/tmp/fuzz-bundle-XXXXXX", inside[sizeof(path) + 8];
	fd_auto int file = memfd_create("bundle", MFD_CLOEXEC);
	struct err e = ERR_INIT;
	size_t entries = 0;

	if (size > 64 << 10 || file < 0 || !mkdtemp(path))
		return 0;
	snprintf(inside, sizeof(inside), "%s/in", path);
	if (mkdir(inside, 0700) < 0)
		abort();
	fd_auto int dir = open(inside, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd_write_all(file, data, size) < 0 || lseek(file, 0, SEEK_SET) < 0)
		abort();
	(void)bundle_unpack(file, dir, &e);
	DIR *above = opendir(path);
	while (above && readdir(above))
		entries++;
	if (!above || entries != 3)
		abort();
	closedir(above);
	nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}

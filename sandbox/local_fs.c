#include "sandbox/local_fs.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MOUNTS_MAX 256u

/* The local mounts, as of the last change of the list. One thread. */
static struct {
	int fd; /* mountinfo; it reports changes since it was polled. 0 = not open */
	size_t count;
	struct {
		uint64_t id;
		enum local_fs type;
	} at[MOUNTS_MAX];
} mounts;

static enum local_fs type_of(const char *name)
{
	static const char *const disks[] = { "ext4 ", "xfs ", "btrfs " };

	for (size_t i = 0; i < sizeof disks / sizeof *disks; i++)
		if (strncmp(name, disks[i], strlen(disks[i])) == 0)
			return LOCAL_FS_DISK;
	return strncmp(name, "tmpfs ", 6) == 0 ? LOCAL_FS_TMPFS : LOCAL_FS_NONE;
}

/* "36 35 98:0 /root /mount/point opts … - fstype source opts"; a space in a path is \040. */
static void read_mounts(void)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char line[8192];

	mounts.count = 0;
	while (f && mounts.count < MOUNTS_MAX && fgets(line, sizeof line, f)) {
		const char *type = strstr(line, " - ");
		unsigned long long id;

		if (!type || sscanf(line, "%llu", &id) != 1 || !type_of(type + 3))
			continue;
		mounts.at[mounts.count].id = id;
		mounts.at[mounts.count++].type = type_of(type + 3);
	}
	if (f)
		fclose(f);
}

/* The file keeps its mount, so that its id is not used again: if it is newer than the list, a change is reported. */
enum local_fs local_fs_of(int fd)
{
	struct statx x;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &x) < 0 || !(x.stx_mask & STATX_MNT_ID))
		return LOCAL_FS_NONE;
	const bool opened = mounts.fd > 0;
	if (!opened)
		mounts.fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	struct pollfd p = { .fd = mounts.fd, .events = POLLPRI };
	if (mounts.fd <= 0 || poll(&p, 1, 0) < 0)
		return LOCAL_FS_NONE;
	if (!opened || p.revents)
		read_mounts();
	for (size_t i = 0; i < mounts.count; i++)
		if (mounts.at[i].id == x.stx_mnt_id)
			return mounts.at[i].type;
	return LOCAL_FS_NONE;
}

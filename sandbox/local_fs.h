#ifndef BAILIFF_SANDBOX_LOCAL_FS_H
#define BAILIFF_SANDBOX_LOCAL_FS_H

/*
 * Whether a file is on a file system of this machine, by the list of mounts: statfs(2) asks the file system itself, and
 * one that is not local may never answer. For one process: its children do not call it.
 */

enum local_fs { LOCAL_FS_NONE, LOCAL_FS_DISK, LOCAL_FS_TMPFS };

/* LOCAL_FS_DISK: ext4, XFS or Btrfs. LOCAL_FS_NONE: another one, or unknown. */
enum local_fs local_fs_of(int fd);

#endif

#ifndef BAILIFF_SUPERVISOR_PROC_STAT_H
#define BAILIFF_SUPERVISOR_PROC_STAT_H

/* What the host's /proc says of a process. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A small file of its folder, with a NUL behind it: how many bytes; −1 = it is gone. */
ssize_t proc_read(pid_t pid, const char *file, char *text, size_t cap);
/* When it began, in clock ticks since the boot: field 22 of its stat; 0 = unknown. With the pid it names a process for
 * good. */
uint64_t proc_start_time(pid_t pid);

#endif

#ifndef BAILIFF_SUPERVISOR_PROC_STAT_H
#define BAILIFF_SUPERVISOR_PROC_STAT_H

/* Reads /proc: the host's, or in a leader its sandbox's. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads a small file of the process's directory and terminates it with NUL. Returns its length, or −1 if it is gone. */
ssize_t proc_read(pid_t pid, const char *file, char *text, size_t cap);
/*
 * Start time in clock ticks since boot (field 22 of stat); 0 = unknown. Together with the pid it identifies a process
 * uniquely.
 */
uint64_t proc_start_time(pid_t pid);
/* The same for a process that was forked after `since_ns` (0 = unknown) of clock_boot_ns: rarely has to read /proc. */
uint64_t proc_start_time_since(pid_t pid, uint64_t since_ns);
pid_t proc_parent(pid_t pid); /* 0 = unknown */

#endif

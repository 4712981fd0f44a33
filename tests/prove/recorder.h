#ifndef BAILIFF_TESTS_RECORDER_H
#define BAILIFF_TESTS_RECORDER_H

/* The record of what the daemon writes: recorder.c appends, power_states.c reads, power_cut.py makes the file. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct recorder_log {
	_Atomic int32_t lock;
	uint32_t unused;
	uint64_t size, device, tail, count; /* size of the file; bytes and number of records */
	uint64_t unused2[3];
};
_Static_assert(sizeof(struct recorder_log) == 64, "power_cut.py writes a head of 64 bytes");

enum record_kind {
	RECORD_WRITE = 1, /* inode, offset, length, data (without: zeroes) */
	RECORD_TRUNCATE,  /* inode, length: the new size */
	RECORD_SYNC,      /* inode: a file's data and size, or a directory's names */
	RECORD_SYNC_ALL,
	RECORD_CREATE, /* dir, name, inode, mode; of a symbolic link, name2 is the target */
	RECORD_LINK,   /* dir, name, inode */
	RECORD_UNLINK, /* dir, name, inode */
	RECORD_RENAME, /* dir, name, dir2, name2, inode; mode: flags of renameat2 */
};

struct record {
	uint32_t size;
	uint8_t kind, has_data, synced, unused;
	uint16_t names, name2; /* bytes of both names with their ends; where the second begins */
	uint32_t mode;
	uint64_t inode, dir, dir2, offset, length;
};

/* For the client, which loads the library: the number of records so far. */
void recorder_map(const char *path);
uint64_t recorder_mark(void);
/* Imports the current contents of a directory as durable, with the names of its parent directories. */
void recorder_import(const char *folder);

#endif

#ifndef BAILIFF_BASE_FILE_COPY_H
#define BAILIFF_BASE_FILE_COPY_H

/* Durable copies of files: holes stay holes, every copy is synced, nothing is overwritten and no symbolic link is
 * followed. */

#include <stdbool.h>
#include <sys/types.h>

struct err;

struct file_copy_options {
	bool give; /* the copies belong to uid and gid */
	uid_t uid;
	gid_t gid;
	bool (*cancelled)(void *ctx); /* asked now and then; or NULL */
	void *ctx;
};

/* The regular file `name` of one folder into a new file of that name in another. Anything else but a regular file is
 * left out. */
int file_copy(int in_dir, int out_dir, const char *name, const struct file_copy_options *o, struct err *e);
/* Every regular file of a flat folder; the folder of the copies is synced too. */
int file_copy_all(int in_dir, int out_dir, const struct file_copy_options *o, struct err *e);

#endif

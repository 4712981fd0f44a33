#ifndef BAILIFF_BASE_FILE_COPY_H
#define BAILIFF_BASE_FILE_COPY_H

/* Durable copies of files: keeps holes, syncs every copy, overwrites nothing and follows no symbolic links. */

#include <stdbool.h>
#include <sys/types.h>

struct err;

struct file_copy_options {
	bool give; /* change the owner of the copies to uid and gid */
	uid_t uid;
	gid_t gid;
	bool (*cancelled)(void *ctx); /* polled during the copy; or NULL */
	void *ctx;
};

/* Copies every regular file of a directory, not of those below it, and syncs the target directory. */
int file_copy_all(int in_dir, int out_dir, const struct file_copy_options *o, struct err *e);

#endif

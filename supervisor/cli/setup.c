/*
 * Writing a configuration file that belongs to another program: the new contents are written next to it and renamed
 * over it, so that neither a crash nor a full disk leaves half a file.
 */

#include "supervisor/cli/setup.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEPT_SUFFIX ".before-bailiff"

int setup_merge(enum setup_form form, const char *present, const struct setup_entry *entry, struct buf *ret,
		struct err *e)
{
	if (form == SETUP_CODEX_ENVIRONMENTS)
		return setup_merge_toml(present, entry, ret, e);
	return setup_merge_json(form, present, entry, ret, e);
}

/* ---- the file ---- */

/* All parents of the file. Those that exist are left as they are. */
static int make_folders(const char *path, struct err *e)
{
	mem_auto char *copy = mem_strdup(path);

	for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(copy, 0755) < 0 && errno != EEXIST)
			return err_sys(e, errno, "make the folder '%s'", copy);
		*slash = '/';
	}
	return 0;
}

/* Only the first time: a second setup must not overwrite the original backup. */
static int back_up_file(const char *path, bool *ret_kept, struct err *e)
{
	mem_auto char *kept = mem_printf("%s" KEPT_SUFFIX, path);
	struct stat st;

	if (stat(path, &st) < 0 || lstat(kept, &st) == 0)
		return 0;
	if (link(path, kept) < 0)
		return err_sys(e, errno, "keep what was there as '%s'", kept);
	*ret_kept = true;
	return 0;
}

int setup_write(const char *path, const struct buf *text, bool *ret_kept_old, struct err *e)
{
	char real[PATH_MAX];
	struct stat st;

	*ret_kept_old = false;
	if (!realpath(path, real)) {
		if (errno != ENOENT)
			return err_sys(e, errno, "find '%s'", path);
		snprintf(real, sizeof(real), "%s", path);
		if (make_folders(real, e) < 0)
			return -1;
	}
	const bool had = stat(real, &st) == 0;
	const mode_t mode = had ? st.st_mode & 0777 : 0644;
	if (back_up_file(real, ret_kept_old, e) < 0)
		return -1;
	mem_auto char *fresh = mem_printf("%s.XXXXXX", real);
	fd_auto int fd = mkostemp(fresh, O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "create a file next to '%s'", real);
	(void)!fchown(fd, had ? st.st_uid : (uid_t)-1, had ? st.st_gid : (gid_t)-1); /* keep the owner if permitted */
	if (fchmod(fd, mode) < 0 || fd_write_all(fd, text->data, text->len) < 0 || fsync(fd) < 0 ||
	    rename(fresh, real) < 0) {
		err_sys(e, errno, "write '%s'", real);
		unlink(fresh);
		return -1;
	}
	return 0;
}

#include "supervisor/cli/file_option.h"

#include "runtime/base/jw.h"
#include "runtime/base/path.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int file_option_absolute(const char *given, bool follow, char ret[PATH_MAX], struct err *e)
{
	char here[PATH_MAX] = "", whole[2 * PATH_MAX];

	if (given && !given[0])
		return err_set(e, ERR_INVALID, "the path is empty");
	if ((!given || given[0] != '/') && !getcwd(here, sizeof(here)))
		return err_sys(e, errno, "the working directory");
	snprintf(whole, sizeof(whole), "%s%s%s", here, here[0] && given ? "/" : "", given ? given : "");
	if (follow && realpath(whole, here))
		memcpy(whole, here, sizeof(here));
	if (!text_utf8_valid(whole, strlen(whole)))
		return err_set(e, ERR_INVALID, "the path '%.200s' is not UTF-8", whole);
	return path_clean(whole, ret, e);
}

int file_option_cwd(struct cli *c, int option, struct jw *w)
{
	const char *given = option < 0 ? NULL : opts_get(&c->opts, option);
	struct err e = ERR_INIT;
	char path[PATH_MAX];

	if (file_option_absolute(given, true, path, &e) < 0)
		return cli_fail(NULL, EXIT_FAILED, &e, "%s%s", c->verb->name, given ? ": option '--cwd'" : "");
	jw_kstr(w, "cwd", path);
	return 0;
}

static int check_secret(const char *path, const char *option)
{
	struct stat st;

	if (stat(path, &st) < 0) {
		cli_error("%s: %s: %s", option, path, strerror(errno));
		return EXIT_FAILED;
	}
	if (!S_ISREG(st.st_mode)) {
		cli_error("%s: %s: not a regular file", option, path);
		return EXIT_FAILED;
	}
	if (st.st_mode & 077) {
		cli_error("%s: %s: others can access it (mode %04o)", option, path, st.st_mode & 07777u);
		cli_hint("chmod 600 %s", path);
		return EXIT_FAILED;
	}
	return 0;
}

int file_option_write(const char *given, const char *option, bool secret, const char *parameter, struct jw *w)
{
	char path[PATH_MAX];

	if (!given)
		return 0;
	if (!realpath(given, path)) {
		const bool missing = errno == ENOENT;

		cli_error("%s: %s: %s", option, given, strerror(errno));
		if (missing && secret)
			cli_hint("FILE contains the key; the key itself is never given");
		return EXIT_FAILED;
	}
	jw_kstr(w, parameter, path);
	return secret ? check_secret(path, option) : 0;
}

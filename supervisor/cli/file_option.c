#include "supervisor/cli/file_option.h"

#include "runtime/base/jw.h"
#include "supervisor/cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

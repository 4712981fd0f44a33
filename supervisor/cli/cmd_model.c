/* `model add`: checks the file with the key before the daemon stores its path. The file is not read. */

#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/noun.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

/* A regular file that only its owner can access, as bailiff-model requires. 0, or the exit status. */
static int check_key_file(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0) {
		cli_error("--key-file: %s: %s", path, strerror(errno));
		return EXIT_FAILED;
	}
	if (!S_ISREG(st.st_mode)) {
		cli_error("--key-file: %s: not a regular file", path);
		return EXIT_FAILED;
	}
	if (st.st_mode & 077) {
		cli_error("--key-file: %s: others can access it (mode %04o)", path, st.st_mode & 07777u);
		cli_hint("chmod 600 %s", path);
		return EXIT_FAILED;
	}
	return 0;
}

/* Writes an option that is a path as an absolute one. 0, or the exit status. */
static int write_path(struct cli *c, int option, const char *name, const char *parameter, struct jw *w)
{
	const char *given = opts_get(&c->opts, option);
	char path[PATH_MAX];

	if (!given)
		return 0;
	if (!realpath(given, path)) {
		cli_error("--%s: %s: %s", name, given, strerror(errno));
		if (errno == ENOENT && option == OPT_model_KEY_FILE)
			cli_hint("FILE contains the key; the key itself is never given");
		return EXIT_FAILED;
	}
	jw_kstr(w, parameter, path);
	return option == OPT_model_KEY_FILE ? check_key_file(path) : 0;
}

int model_add(struct cli *c)
{
	request_auto struct request q = REQUEST_INIT(q);
	int status;

	jw_kstr(&q.w, "name", c->opts.args[1]);
	if ((status = write_path(c, OPT_model_KEY_FILE, "key-file", "keyFile", &q.w)) ||
	    (status = write_path(c, OPT_model_CA_FILE, "ca-file", "caFile", &q.w)) ||
	    (status = noun_options(c,
				   "model provider dialect base-url=baseUrl key-command=keyCommand effort "
				   "insecure:yes context=contextTokens:uint max-output=maxOutputTokens:uint "
				   "default=isDefault:yes replace:yes",
				   &q.w)))
		return status;
	return noun_change(c, &q, "add_model", "name");
}

/* `fleet key`: a new key pair. The seed stays in a file of this user; the public key is printed for the nodes. */

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/fleet/client/client.h"
#include "supervisor/fleet/client/settings.h"
#include "supervisor/fleet/fleet_creds.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_folders(const char *path, struct err *e)
{
	mem_auto char *folder = mem_strdup(path);

	for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(folder, 0700) < 0 && errno != EEXIST)
			return err_sys(e, errno, "create the folder %s", folder);
		*slash = '/';
	}
	return 0;
}

static int write_seed(const char *path, const char *seed, bool replace, struct err *e)
{
	mem_auto char *line = mem_printf("%s\n", seed);

	if (replace && unlink(path) < 0 && errno != ENOENT)
		return err_sys(e, errno, "replace %s", path);
	fd_auto int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || fd_write_all(fd, line, strlen(line)) < 0 || fsync(fd) < 0)
		return err_sys(e, errno, "write %s", path);
	return 0;
}

int fleet_key(struct cli *c)
{
	mem_auto char *path = c->opts.nargs > 1 ? mem_strdup(c->opts.args[1]) : fleet_settings_path("fleet.key");
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);
	char seed[FLEET_SEED_TEXT] = "", key[FLEET_KEY_TEXT];
	struct err e = ERR_INIT;
	const bool exists = access(path, F_OK) == 0;

	/* Without --force an existing key is shown, not replaced: tasks and nodes depend on it. */
	if (exists && !opts_has(&c->opts, OPT_fleet_FORCE)) {
		struct fleet_creds there = { 0 };

		if (fleet_creds_read(path, &there, &e) < 0)
			return cli_fail(c, EXIT_FAILED, &e, "fleet key");
		memcpy(key, there.key, sizeof(key));
		fleet_creds_done(&there);
	} else if (make_folders(path, &e) < 0 || fleet_key_new(seed, key, &e) < 0 ||
		   write_seed(path, seed, exists, &e) < 0) {
		explicit_bzero(seed, sizeof(seed));
		return cli_fail(c, EXIT_FAILED, &e, "fleet key");
	}
	explicit_bzero(seed, sizeof(seed));
	if (!cli_as_json(c)) {
		buf_printf(&out, "%s\n", key);
		return format_out(&out);
	}
	jw_obj(&w);
	jw_kstr(&w, "key", key);
	jw_kstr(&w, "file", path);
	jw_obj_end(&w);
	return format_record(jval_of(out.data, out.len), true);
}

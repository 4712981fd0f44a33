#include "supervisor/fleet/client/settings.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (64u << 10)

char *fleet_settings_path(const char *name)
{
	const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (base && base[0] == '/')
		return mem_printf("%s/bailiff/%s", base, name);
	if (!home || home[0] != '/') {
		const struct passwd *user = getpwuid(getuid());

		home = user ? user->pw_dir : "/";
	}
	return mem_printf("%s/.config/bailiff/%s", home, name);
}

/* A whole small file. A secret must be a regular file that others cannot read. */
static int read_small(const char *path, bool secret, struct buf *ret, struct err *e)
{
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, errno, "%s", path);
	if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
		return err_set(e, ERR_INVALID, "%s: not a regular file of at most %u bytes", path, FILE_MAX);
	if (secret && (st.st_mode & 077))
		return err_set(e, ERR_INVALID, "%s: others can access it (mode %04o); chmod 600 it", path,
			       st.st_mode & 07777u);
	ssize_t n = fd_read_all(fd, buf_reserve(ret, FILE_MAX), FILE_MAX);
	if (n < 0)
		return err_sys(e, errno, "read %s", path);
	buf_extend(ret, (size_t)n);
	return 0;
}

int fleet_seed_read(const char *path, char ret[FLEET_SEED_TEXT], struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	char key[FLEET_KEY_TEXT];

	if (read_small(path, true, &text, e) < 0)
		return -1;
	/* The first word that looks like one; a .creds file has a JWT and lines of dashes around it. */
	for (const char *at = buf_cstr(&text); *at;) {
		size_t n = strcspn(at, " \t\r\n");

		if (n == FLEET_SEED_TEXT - 1 && at[0] == 'S' && at[1] == 'U') {
			snprintf(ret, FLEET_SEED_TEXT, "%.*s", (int)n, at);
			return fleet_key_of(ret, key, e) < 0 ? err_wrap(e, "%s", path) : 0;
		}
		at += n;
		at += strspn(at, " \t\r\n");
	}
	return err_set(e, ERR_INVALID, "%s: has no user seed (SU...)", path);
}

/* The option, else the variable; NULL if there is neither. */
static const char *given(struct cli *c, int option, const char *variable)
{
	const char *value = opts_get(&c->opts, option), *env = getenv(variable);

	return value ? value : env && env[0] ? env : NULL;
}

/* Fills what is still missing from fleet.json. A missing file is no error. */
static int read_file(struct fleet_settings *s, struct err *e)
{
	mem_auto char *path = fleet_settings_path("fleet.json");
	buf_auto struct buf text = BUF_INIT;
	json_error_t where;

	if (read_small(path, false, &text, e) < 0) {
		const bool missing = e->sys == ENOENT || e->sys == ENOTDIR;

		if (missing)
			*e = ERR_INIT;
		return missing ? 0 : -1;
	}
	json_t *root = json_loads(buf_cstr(&text), JSON_REJECT_DUPLICATES, &where);
	if (!json_is_object(root)) {
		json_decref(root);
		return err_set(e, ERR_INVALID, "%s:%d: must be a JSON object with url, creds, ca and key", path,
			       where.line);
	}
	if (!s->url && json_get_string(root, "url")) {
		s->url = mem_strdup(json_get_string(root, "url"));
		if (!s->creds)
			s->creds = mem_strdup(json_get_string(root, "creds"));
		if (!s->ca)
			s->ca = mem_strdup(json_get_string(root, "ca"));
	}
	if (!s->key_file)
		s->key_file = mem_strdup(json_get_string(root, "key"));
	json_decref(root);
	return 0;
}

int fleet_settings_read(struct cli *c, struct fleet_settings *ret)
{
	struct fleet_settings s = { .url = mem_strdup(given(c, OPT_fleet_FLEET, "BAILIFF_FLEET")),
				    .creds = mem_strdup(given(c, OPT_fleet_CREDS, "BAILIFF_FLEET_CREDS")),
				    .ca = mem_strdup(given(c, OPT_fleet_CA, "BAILIFF_FLEET_CA")),
				    .key_file = mem_strdup(given(c, OPT_fleet_KEY, "BAILIFF_FLEET_KEY")) };
	struct err e = ERR_INIT;
	const bool named = s.key_file != NULL;
	int status = EXIT_FAILED;

	if (read_file(&s, &e) < 0) {
		cli_error("fleet: %s", e.message);
		goto out;
	}
	if (!s.url) {
		cli_error("fleet: no server is given");
		cli_hint("use --fleet nats://HOST:4222, set BAILIFF_FLEET, or write {\"url\": ...} to "
			 "~/.config/bailiff/fleet.json");
		cli_hint("bailiff fleet dev starts a fleet on this machine");
		goto out;
	}
	if (!s.key_file)
		s.key_file = fleet_settings_path("fleet.key");
	if ((named || access(s.key_file, F_OK) == 0) &&
	    (fleet_seed_read(s.key_file, s.seed, &e) < 0 || fleet_key_of(s.seed, s.key, &e) < 0)) {
		cli_error("fleet: %s", e.message);
		cli_hint("bailiff fleet key FILE makes one");
		goto out;
	}
	if (!s.creds && s.key[0])
		s.creds = mem_strdup(s.key_file);
	*ret = s;
	return 0;
out:
	fleet_settings_done(&s);
	return status;
}

void fleet_settings_done(struct fleet_settings *s)
{
	explicit_bzero(s->seed, sizeof(s->seed));
	free(s->url), free(s->creds), free(s->ca), free(s->key_file);
	*s = (struct fleet_settings){ 0 };
}

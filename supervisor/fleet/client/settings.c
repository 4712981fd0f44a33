#include "supervisor/fleet/client/settings.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"
#include "supervisor/fleet/fleet_creds.h"

#include <errno.h>
#include <pwd.h>
#include <unistd.h>

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

	if (fleet_file_read(path, false, &text, e) < 0) {
		const bool missing = e->sys == ENOENT || e->sys == ENOTDIR;

		if (missing)
			*e = ERR_INIT;
		return missing ? 0 : -1;
	}
	json_t *root = json_loads(buf_cstr(&text), JSON_REJECT_DUPLICATES, &where);
	if (!json_is_object(root)) {
		json_decref(root);
		return err_set(e, ERR_INVALID,
			       "%s:%d: must be a JSON object with url, creds, ca, cert, certKey and key", path,
			       where.line);
	}
	if (!s->url && json_get_string(root, "url")) {
		s->url = mem_strdup(json_get_string(root, "url"));
		if (!s->creds)
			s->creds = mem_strdup(json_get_string(root, "creds"));
		if (!s->ca)
			s->ca = mem_strdup(json_get_string(root, "ca"));
		if (!s->cert && !s->cert_key) {
			s->cert = mem_strdup(json_get_string(root, "cert"));
			s->cert_key = mem_strdup(json_get_string(root, "certKey"));
		}
	}
	if (!s->key_file)
		s->key_file = mem_strdup(json_get_string(root, "key"));
	json_decref(root);
	return 0;
}

static int read_key(struct fleet_settings *s, struct err *e)
{
	struct fleet_creds c = { 0 };

	if (fleet_creds_read(s->key_file, &c, e) < 0)
		return -1;
	memcpy(s->seed, c.seed, sizeof(s->seed));
	memcpy(s->key, c.key, sizeof(s->key));
	fleet_creds_done(&c);
	return 0;
}

int fleet_settings_read(struct cli *c, struct fleet_settings *ret)
{
	struct fleet_settings s = { .url = mem_strdup(given(c, OPT_fleet_FLEET, "BAILIFF_FLEET")),
				    .creds = mem_strdup(given(c, OPT_fleet_CREDS, "BAILIFF_FLEET_CREDS")),
				    .ca = mem_strdup(given(c, OPT_fleet_CA, "BAILIFF_FLEET_CA")),
				    .cert = mem_strdup(given(c, OPT_fleet_CERT, "BAILIFF_FLEET_CERT")),
				    .cert_key = mem_strdup(given(c, OPT_fleet_CERT_KEY, "BAILIFF_FLEET_CERT_KEY")),
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
	if (!s.cert != !s.cert_key) {
		cli_error("fleet: %s is missing",
			  s.cert ? "the key of the client's certificate" : "the client's certificate");
		cli_hint("give --cert and --cert-key (BAILIFF_FLEET_CERT and BAILIFF_FLEET_CERT_KEY, or cert and "
			 "certKey in "
			 "fleet.json) together");
		goto out;
	}
	if (!s.key_file)
		s.key_file = fleet_settings_path("fleet.key");
	if ((named || access(s.key_file, F_OK) == 0) && read_key(&s, &e) < 0) {
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
	free(s->url), free(s->creds), free(s->ca), free(s->cert), free(s->cert_key), free(s->key_file);
	*s = (struct fleet_settings){ 0 };
}

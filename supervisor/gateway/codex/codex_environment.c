#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/gateway/codex/codex_private.h"
#include "supervisor/gateway/common/file_uri.h"

#include <ctype.h>
#include <pwd.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static json_t *file_uri_json(const char *path)
{
	buf_auto struct buf out = BUF_INIT;

	file_uri_write(path, &out);
	return json_string(buf_cstr(&out));
}

/*
 * A shell that every sandbox shows: one of the system's with a name that Codex supports; the user's own if it is one of
 * them.
 */
static json_t *shell_json(void)
{
	static const struct {
		const char *name, *path;
	} shells[] = { { "bash", "/bin/bash" }, { "zsh", "/bin/zsh" }, { "sh", "/bin/sh" } };
	const struct passwd *pw = getpwuid(getuid());
	const char *own = pw && pw->pw_shell ? strrchr(pw->pw_shell, '/') : NULL;
	size_t best = countof(shells) - 1;

	for (size_t i = countof(shells); i-- > 0;)
		if (access(shells[i].path, X_OK) == 0)
			best = i;
	for (size_t i = 0; own && i < countof(shells); i++)
		if (strcmp(own + 1, shells[i].name) == 0 && access(shells[i].path, X_OK) == 0)
			best = i;
	return json_pack("{ss ss}", "name", shells[best].name, "path", shells[best].path);
}

/* Reports no capabilities: each stands for a method, or an option of one, that bailiff does not have. */
json_t *codex_environment_json(void)
{
	const struct passwd *pw = getpwuid(getuid());
	const char *home = getenv("HOME");
	mem_auto char *cwd = getcwd(NULL, 0);
	json_t *info = json_pack("{so ss ss so so so so}", "shell", shell_json(), "executorVersion",
				 "bailiff " BAILIFF_VERSION, "platformOs", "linux", "prependPathDirs", json_array(),
				 "temporaryDirectories", json_array(), "tempDir", file_uri_json("/tmp"), "capabilities",
				 json_object());

	if ((!home || *home != '/') && pw)
		home = pw->pw_dir;
	json_object_set_new(info, "cwd", cwd && *cwd == '/' ? file_uri_json(cwd) : json_null());
	if (home && *home == '/')
		json_object_set_new(info, "userHomeDir", file_uri_json(home));
	return info;
}

void codex_environment_info(struct codex_call *c) { codex_call_reply(c, codex_environment_json()); }

void codex_environment_status(struct codex_call *c) { codex_call_reply(c, json_pack("{ss}", "status", "ready")); }

/* ---- the environment of a command ---- */

enum inherit { INHERIT_CORE, INHERIT_ALL, INHERIT_NONE };

static const char *const core[] = { "HOME",  "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH",
				    "SHELL", "TEMP", "TMP",    "TMPDIR",   "USER" };
static const char *const secret[] = { "*KEY*", "*SECRET*", "*TOKEN*" };
/* Variables that start_process sets unless they are given. */
static const char *const base[] = { "PATH", "LANG", "HOME", "SHELL", "USER", "LOGNAME", "PWD", "TERM" };

static void to_lower(const char *s, struct buf *out)
{
	for (; *s; s++)
		buf_byte(out, (char)tolower((unsigned char)*s));
}

/* True if a pattern ('*', '?', ignoring case) matches the name. */
static bool is_among(const char *name, const char *const *list, size_t n)
{
	buf_auto struct buf low = BUF_INIT;
	bool found = false;

	to_lower(name, &low);
	for (size_t i = 0; !found && i < n; i++) {
		buf_auto struct buf pattern = BUF_INIT;

		to_lower(list[i], &pattern);
		found = text_glob(buf_cstr(&pattern), buf_cstr(&low));
	}
	return found;
}

static bool matches_pattern(const json_t *patterns, const char *name)
{
	for (size_t i = 0; i < json_array_size(patterns); i++) {
		const char *p = json_string_value(json_array_get(patterns, i));

		if (is_among(name, &p, 1))
			return true;
	}
	return false;
}

static int read_patterns(const json_t *policy, const char *key, const json_t **ret, struct err *e)
{
	const json_t *list = json_object_get(policy, key);
	char field[ERR_FIELD_MAX];

	(void)snprintf(field, sizeof(field), "envPolicy.%s", key);
	if (!json_is_array(list))
		return err_field(e, field, "expected an array of patterns");
	for (size_t i = 0; i < json_array_size(list); i++)
		if (!json_is_string(json_array_get(list, i)))
			return err_field(e, field, "expected an array of patterns");
	*ret = list;
	return 0;
}

static int read_inherit(const json_t *policy, enum inherit *ret, struct err *e)
{
	static const char *const words[] = { [INHERIT_CORE] = "core", [INHERIT_ALL] = "all", [INHERIT_NONE] = "none" };
	const char *s = json_get_string(policy, "inherit");

	for (size_t i = 0; s && i < countof(words); i++)
		if (strcmp(s, words[i]) == 0) {
			*ret = (enum inherit)i;
			return 0;
		}
	return err_field(e, "envPolicy.inherit", "expected core, all or none");
}

static int add_variables(json_t *out, const json_t *from, const char *field, struct err *e)
{
	const char *name;
	json_t *v;

	if (!json_is_object(from))
		return err_field(e, field, "expected an object of strings");
	json_object_foreach ((json_t *)from, name, v) {
		if (!json_is_string(v))
			return err_field(e, field, "'%.64s' must be a string", name);
		if (!*name || strchr(name, '=') || strlen(json_string_value(v)) != json_string_length(v))
			return err_field(e, field, "'%.64s' is not a valid environment variable", name);
		json_object_set(out, name, v);
	}
	return 0;
}

static void drop_variables(json_t *out, const json_t *patterns, bool matching)
{
	const char *name;
	void *next;
	json_t *v;

	json_object_foreach_safe (out, next, name, v)
		if (matches_pattern(patterns, name) == matching)
			json_object_del(out, name);
}

static int apply_policy(const json_t *policy, char *const *own, json_t *out, struct err *e)
{
	const json_t *exclude, *only;
	enum inherit which = INHERIT_NONE;

	if (read_inherit(policy, &which, e) < 0 || read_patterns(policy, "exclude", &exclude, e) < 0 ||
	    read_patterns(policy, "includeOnly", &only, e) < 0)
		return -1;
	if (which != INHERIT_NONE) {
		/* Variables that are not UTF-8 cannot be sent to the daemon and are skipped. */
		for (; *own; own++) {
			const char *equals = strchr(*own, '=');

			if (!equals || equals == *own)
				continue;
			mem_auto char *name = mem_strndup(*own, (size_t)(equals - *own));
			json_t *v = json_string(equals + 1);

			if (v && (which == INHERIT_ALL || is_among(name, core, countof(core))))
				json_object_set(out, name, v);
			json_decref(v);
		}
	}
	if (!json_get_flag(policy, "ignoreDefaultExcludes")) {
		const char *name;
		void *next;
		json_t *v;

		json_object_foreach_safe (out, next, name, v)
			if (is_among(name, secret, countof(secret)))
				json_object_del(out, name);
	}
	drop_variables(out, exclude, true);
	if (add_variables(out, json_object_get(policy, "set"), "envPolicy.set", e) < 0)
		return -1;
	if (json_array_size(only))
		drop_variables(out, only, false);
	return 0;
}

int environment_of(const json_t *policy, const json_t *env, char *const *own, json_t **ret, struct err *e)
{
	json_t *out = json_object();

	if ((policy && !json_is_null(policy) && apply_policy(policy, own, out, e) < 0) ||
	    add_variables(out, env, "env", e) < 0) {
		json_decref(out);
		return -1;
	}
	/* null removes a variable that start_process would set on its own. */
	for (size_t i = 0; i < countof(base); i++)
		if (!json_object_get(out, base[i]))
			json_object_set_new(out, base[i], json_null());
	/* Omits HOME if it has its default value: otherwise policy would see a changed variable. */
	const struct passwd *pw = getpwuid(getuid());
	const char *home = json_get_string(out, "HOME");
	if (home && pw && pw->pw_dir && strcmp(home, pw->pw_dir) == 0)
		json_object_del(out, "HOME");
	*ret = out;
	return 0;
}

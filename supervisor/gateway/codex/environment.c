#include "supervisor/gateway/codex/environment.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <ctype.h>
#include <pwd.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

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
			return err_field(e, field, "'%.64s' is no variable that a process can have", name);
		json_object_set(out, name, v);
	}
	return 0;
}

/* Variables that are not UTF-8 cannot be sent to the daemon and are skipped. */
static void inherit_variables(json_t *out, char *const *own, enum inherit which)
{
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

static void drop_variables(json_t *out, const json_t *patterns, bool matching)
{
	const char *name;
	void *next;
	json_t *v;

	json_object_foreach_safe (out, next, name, v)
		if (matches_pattern(patterns, name) == matching)
			json_object_del(out, name);
}

static void drop_secrets(json_t *out)
{
	const char *name;
	void *next;
	json_t *v;

	json_object_foreach_safe (out, next, name, v)
		if (is_among(name, secret, countof(secret)))
			json_object_del(out, name);
}

static int apply_policy(const json_t *policy, char *const *own, json_t *out, struct err *e)
{
	const json_t *exclude, *only;
	enum inherit which = INHERIT_NONE;

	if (read_inherit(policy, &which, e) < 0 || read_patterns(policy, "exclude", &exclude, e) < 0 ||
	    read_patterns(policy, "includeOnly", &only, e) < 0)
		return -1;
	if (which != INHERIT_NONE)
		inherit_variables(out, own, which);
	if (!json_get_flag(policy, "ignoreDefaultExcludes"))
		drop_secrets(out);
	drop_variables(out, exclude, true);
	if (add_variables(out, json_object_get(policy, "set"), "envPolicy.set", e) < 0)
		return -1;
	if (json_array_size(only))
		drop_variables(out, only, false);
	return 0;
}

/* Omits HOME if it has its default value: otherwise policy would see a changed variable. */
static void omit_default_home(json_t *out)
{
	const struct passwd *pw = getpwuid(getuid());
	const char *home = json_get_string(out, "HOME");

	if (home && pw && pw->pw_dir && strcmp(home, pw->pw_dir) == 0)
		json_object_del(out, "HOME");
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
	omit_default_home(out);
	*ret = out;
	return 0;
}

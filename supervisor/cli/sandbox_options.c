#include "supervisor/cli/sandbox_options.h"

#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/file_option.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A .git in one of these shared directories does not make it a workspace: any user can create one there. */
static bool is_shared_directory(const char *path)
{
	static const char *const folders[] = { "/tmp", "/var/tmp", "/dev/shm" };
	struct stat st;

	for (size_t i = 0; i < countof(folders); i++)
		if (strcmp(path, folders[i]) == 0)
			return true;
	return stat(path, &st) == 0 && (st.st_mode & (S_ISVTX | S_IWOTH)) == (S_ISVTX | S_IWOTH);
}

/* The user's home directory, or one that contains it. */
static bool contains_home(const char *path)
{
	const struct passwd *pw = getpwuid(getuid());

	return path_within(path, pw && pw->pw_dir ? pw->pw_dir : "/");
}

/* Searches upwards for the nearest directory with .git; the home directory and those above it are not workspaces. */
static bool find_workspace(const char *cwd, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s", cwd);
	while (path[1] && !is_shared_directory(path)) {
		char name[PATH_MAX + 8];
		struct stat st;

		snprintf(name, sizeof(name), "%s/.git", path);
		if (lstat(name, &st) == 0)
			return !contains_home(path);
		/* Beyond one that cannot be examined, the repository around this one could be found. */
		if ((errno != ENOENT && errno != ENOTDIR) || !path_up(path))
			break;
	}
	return false;
}

/* All occurrences of an option as an array: absolute paths, or words unchanged. */
static int write_all(const struct opts *o, int option, const char *key, bool paths, bool later, struct jw *w,
		     struct err *e)
{
	if (!opts_has(o, option))
		return 0;
	jw_karr(w, key);
	for (size_t i = 0; i < o->ngiven; i++) {
		char path[PATH_MAX];

		if (o->given[i].option != option)
			continue;
		/* Hidden paths keep their links: the name itself is to be hidden. */
		if (paths && file_option_absolute(o->given[i].value, strcmp(key, "hidden") != 0, path, e) < 0)
			return err_wrap(e, "option '--%s'", option_rows[option].name);
		const bool missing = paths && strcmp(key, "hidden") != 0 && access(path, F_OK) < 0 && errno == ENOENT;
		if (missing && !later)
			return err_set(e, ERR_INVALID, "option '--%s': '%.400s' does not exist",
				       option_rows[option].name, path);
		if (missing)
			cli_error("option '--%s': '%s' does not exist yet; it must when the command starts",
				  option_rows[option].name, path);
		jw_str(w, paths ? path : o->given[i].value);
	}
	jw_arr_end(w);
	return 0;
}

int sandbox_options_write(const struct opts *o, const struct sandbox_options *names, struct jw *w, struct err *e)
{
	const char *tmp = opts_get(o, names->tmp);
	buf_auto struct buf sandbox = BUF_INIT;
	struct jw in = jw_on(&sandbox);
	char cwd[PATH_MAX], workspace[PATH_MAX];
	uint64_t bytes;

	if (file_option_absolute(opts_get(o, names->cwd), true, cwd, e) < 0)
		return opts_has(o, names->cwd) ? err_wrap(e, "option '--cwd'") : -1;
	if (!names->within || opts_has(o, names->cwd))
		jw_kstr(w, "cwd", cwd);
	if (names->profile >= 0)
		jw_kopt(w, "profile", opts_get(o, names->profile));
	jw_obj(&in);
	if (!names->within && find_workspace(cwd, workspace))
		jw_kstr(&in, "workspace", workspace);
	if (write_all(o, names->ro, "readRoots", true, names->later, &in, e) < 0 ||
	    write_all(o, names->rw, "writeRoots", true, names->later, &in, e) < 0 ||
	    write_all(o, names->hide, "hidden", true, names->later, &in, e) < 0 ||
	    write_all(o, names->hosts, "allowHosts", false, names->later, &in, e) < 0)
		return -1;
	jw_kopt(&in, "network", opts_get(o, names->net));
	if (tmp && text_size_bytes(tmp, &bytes, e) < 0)
		return err_wrap(e, "option '--%s'", option_rows[names->tmp].name);
	if (tmp)
		jw_kuint(&in, "tmpBytes", bytes);
	jw_obj_end(&in);
	/* Omit an empty object: in a record it would read like "no sandbox". */
	if (strcmp(sandbox.data, "{}") != 0)
		jw_kraw(w, "sandbox", sandbox.data, sandbox.len);
	return 0;
}

int limit_options_write(const struct opts *o, const struct limit_option *limits, size_t n, struct jw *w, struct err *e)
{
	jw_kobj(w, "limits");
	for (size_t i = 0; i < n; i++) {
		const char *text = opts_get(o, limits[i].option);
		char fraction[32];
		uint64_t v;

		if (!text)
			continue;
		if (limits[i].parse(text, &v, e) < 0)
			return err_wrap(e, "option '--%s'", option_rows[limits[i].option].name);
		if (limits[i].parse == text_thousandths) {
			text_format_thousandths(v, fraction);
			jw_kraw(w, limits[i].member, fraction, strlen(fraction));
		} else {
			jw_kuint(w, limits[i].member, v);
		}
	}
	jw_obj_end(w);
	return 0;
}

/* What the option sets: a variable that is passed must be set here. NULL: nothing. `ret_len`: of its name. */
static const char *variable_of(const struct opt_given *given, int env, int env_pass, size_t *ret_len)
{
	const char *text = given->value;

	if (given->option != env && (given->option != env_pass || !getenv(text)))
		return NULL;
	*ret_len = given->option == env ? strcspn(text, "=") : strlen(text);
	return text;
}

bool env_option_overridden(const struct opts *o, size_t i, int env, int env_pass)
{
	size_t n, m;
	const char *name = variable_of(&o->given[i], env, env_pass, &n);

	for (size_t k = i + 1; name && k < o->ngiven; k++) {
		const char *later = variable_of(&o->given[k], env, env_pass, &m);

		if (later && m == n && strncmp(name, later, n) == 0)
			return true;
	}
	return false;
}

int env_options_write(const struct opts *o, int env, int env_pass, struct jw *w, struct err *e)
{
	for (size_t i = 0; i < o->ngiven; i++) {
		const char *text = o->given[i].value, *equals, *value;
		const bool overridden = env_option_overridden(o, i, env, env_pass);

		if (o->given[i].option == env_pass) {
			value = getenv(text);
			if (value && !text_utf8_valid(value, strlen(value)))
				return err_field(e, "--env-pass", "option '--env-pass': the value of %s is not UTF-8",
						 text);
			if (value && !overridden)
				jw_kstr(w, text, value);
		}
		if (o->given[i].option != env)
			continue;
		equals = strchr(text, '=');
		if (!equals || equals == text)
			return err_field(e, "--env", "option '--env' takes K=V, not '%s'", text);
		buf_auto struct buf key = BUF_INIT;
		buf_append(&key, text, (size_t)(equals - text));
		if (!overridden)
			jw_kstr(w, buf_cstr(&key), equals + 1);
	}
	return 0;
}

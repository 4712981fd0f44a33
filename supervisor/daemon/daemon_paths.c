#include "supervisor/daemon/daemon_paths.h"

#include "runtime/base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* NULL if the variable is unset or empty. */
static const char *get_env(const char *name)
{
	const char *v = getenv(name);
	return v && v[0] ? v : NULL;
}

__attribute__((format(printf, 2, 3))) static int put_path(char out[PATH_MAX], const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(out, PATH_MAX, fmt, ap);
	va_end(ap);
	return n < PATH_MAX - 32 ? 0 : -1; /* room for the names inside */
}

static int too_long(struct err *e) { return err_set(e, ERR_INVALID, "the home's path is too long"); }

static int one_home(const char *dir, struct daemon_paths *p, struct err *e)
{
	char here[PATH_MAX] = "";
	if (dir[0] != '/' && !getcwd(here, sizeof here))
		return err_sys(e, errno, "find the current directory");
	p->kind = DAEMON_PATHS_HOME;
	if (put_path(p->run, "%s%s%s", here, here[0] ? "/" : "", dir) < 0)
		return too_long(e);
	put_path(p->state, "%s", p->run);
	put_path(p->config, "%s", p->run);
	put_path(p->label, "%s", p->run);
	return 0;
}

static void system_folders(struct daemon_paths *p)
{
	p->kind = DAEMON_PATHS_SYSTEM;
	put_path(p->run, "/run/bailiff");
	put_path(p->state, "/var/lib/bailiff");
	put_path(p->config, "/etc/bailiff");
	put_path(p->label, "%s", p->state);
}

/* $XDG_…/bailiff, with the default below $HOME. */
static int xdg_folder(const char *name, const char *below_home, char out[PATH_MAX], struct err *e)
{
	const char *v = get_env(name), *home = get_env("HOME");
	if (!v && !home)
		return err_set(e, ERR_INVALID, "neither %s nor HOME is set; give --home DIR", name);
	if ((v ? put_path(out, "%s/bailiff", v) : put_path(out, "%s/%s/bailiff", home, below_home)) < 0)
		return too_long(e);
	return 0;
}

/* Without XDG_RUNTIME_DIR: /run/user/UID if it is writable, else below the state directory. */
static int user_folders(uid_t uid, struct daemon_paths *p, struct err *e)
{
	char run[64];
	p->kind = DAEMON_PATHS_USER;
	if (xdg_folder("XDG_STATE_HOME", ".local/state", p->state, e) < 0 ||
	    xdg_folder("XDG_CONFIG_HOME", ".config", p->config, e) < 0)
		return -1;
	put_path(p->label, "%s", p->state);
	if (get_env("XDG_RUNTIME_DIR"))
		return xdg_folder("XDG_RUNTIME_DIR", "", p->run, e);
	snprintf(run, sizeof run, "/run/user/%u", (unsigned)uid);
	if ((access(run, W_OK) == 0 ? put_path(p->run, "%s/bailiff", run) : put_path(p->run, "%s/run", p->state)) < 0)
		return too_long(e);
	return 0;
}

int daemon_paths_find(const char *home, uid_t uid, struct daemon_paths *ret, struct err *e)
{
	struct daemon_paths p = { 0 };
	const char *dir = home ? home : get_env("BAILIFF_HOME");
	if (dir && !dir[0])
		return err_field(e, "--home", "is empty");
	if (dir && one_home(dir, &p, e) < 0)
		return -1;
	if (!dir && uid == 0)
		system_folders(&p);
	if (!dir && uid != 0 && user_folders(uid, &p, e) < 0)
		return -1;
	*ret = p;
	return 0;
}

#include "supervisor/client/home_candidates.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *set_env(const char *name)
{
	const char *v = getenv(name);

	return v && v[0] ? v : NULL;
}

/* $XDG_… with the suffix; the default is below $HOME. */
static void xdg_dir(const char *name, const char *below_home, const char *suffix, char *out, size_t cap)
{
	const char *v = set_env(name), *home = set_env("HOME");

	if (v)
		snprintf(out, cap, "%s/%s", v, suffix);
	else
		snprintf(out, cap, "%s/%s/%s", home ? home : "", below_home, suffix);
}

/* Without XDG_RUNTIME_DIR and /run/user/UID the socket is placed in the state directory. */
static void user_home(uid_t uid, struct home *h)
{
	char run[64];

	h->kind = "user";
	xdg_dir("XDG_STATE_HOME", ".local/state", "bailiff/store", h->store, sizeof(h->store));
	snprintf(run, sizeof(run), "/run/user/%u", (unsigned)uid);
	if (set_env("XDG_RUNTIME_DIR"))
		xdg_dir("XDG_RUNTIME_DIR", "", "bailiff/control.sock", h->socket, sizeof(h->socket));
	else if (access(run, W_OK) == 0)
		snprintf(h->socket, sizeof(h->socket), "%s/bailiff/control.sock", run);
	else
		xdg_dir("XDG_STATE_HOME", ".local/state", "bailiff/run/control.sock", h->socket, sizeof(h->socket));
}

static void system_home(struct home *h)
{
	h->kind = "system";
	snprintf(h->socket, sizeof(h->socket), "/run/bailiff/control.sock");
	snprintf(h->store, sizeof(h->store), "/var/lib/bailiff/store");
}

size_t home_candidates(uid_t uid, struct home ret[HOME_CANDIDATES_MAX])
{
	const char *dir = set_env("BAILIFF_HOME");

	memset(ret, 0, sizeof(*ret) * HOME_CANDIDATES_MAX);
	if (dir) {
		char here[PATH_MAX];

		ret[0].kind = "BAILIFF_HOME";
		if (dir[0] == '/' || !getcwd(here, sizeof(here)))
			snprintf(ret[0].dir, sizeof(ret[0].dir), "%s", dir);
		else
			snprintf(ret[0].dir, sizeof(ret[0].dir), "%.*s/%.*s", PATH_MAX / 2, here, PATH_MAX / 2 - 2,
				 dir);
		snprintf(ret[0].socket, sizeof(ret[0].socket), "%.*s/control.sock", PATH_MAX - 32, ret[0].dir);
		snprintf(ret[0].store, sizeof(ret[0].store), "%.*s/store", PATH_MAX - 32, ret[0].dir);
		return 1;
	}
	if (uid == 0) {
		system_home(&ret[0]);
		return 1;
	}
	user_home(uid, &ret[0]);
	system_home(&ret[1]);
	return 2;
}

bool home_has_store(const struct home *h)
{
	struct stat st;

	return stat(h->store, &st) == 0 && S_ISDIR(st.st_mode);
}

bool home_is_service(const struct home *h)
{
	return strcmp(h->kind, "system") == 0 && access("/run/systemd/system", F_OK) == 0 &&
	       faccessat(AT_FDCWD, "/etc/systemd/system/multi-user.target.wants/bailiff.service", F_OK,
			 AT_SYMLINK_NOFOLLOW) == 0;
}

#include "supervisor/host/base_env.h"

#include "runtime/base/clock.h"
#include "runtime/base/mem.h"

#include <pwd.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#define KEEP_NS 5000000000ull

void base_env_done(struct base_env *v)
{
	buf_done(&v->text);
	*v = (struct base_env){ 0 };
}

static void add_variable(struct buf *out, const char *name, const char *value)
{
	buf_printf(out, "%s=%s", name, value);
	buf_byte(out, '\0');
}

/*
 * System directories first, so that a program in the home cannot replace one of the system. Then the directories below
 * the home that hold programs, among those that profiles make visible (profiles.def).
 */
static void add_path(struct buf *out, const char *home)
{
	static const char *const folders[] = {
		".local/bin",        ".cargo/bin",   "go/bin",       ".pyenv/shims",
		".pyenv/bin",        ".rbenv/shims", ".rbenv/bin",   ".asdf/shims",
		".asdf/bin",         ".bun/bin",     ".deno/bin",    ".volta/bin",
		".dotnet",           ".ghcup/bin",   ".juliaup/bin", ".local/share/mise/shims",
		".local/share/pnpm",
	};

	buf_str(out, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	for (size_t i = 0; home && i < countof(folders); i++)
		buf_printf(out, ":%s/%s", home, folders[i]);
	buf_byte(out, '\0');
}

/* HOME is "/" for a uid without a usable home. A home with a colon cannot be part of PATH. */
static void build_environment(uint32_t uid, struct buf *out)
{
	struct passwd pw, *found = NULL;
	char text[4096];

	if (getpwuid_r(uid, &pw, text, sizeof text, &found) != 0)
		found = NULL;
	const char *home = found && found->pw_dir && found->pw_dir[0] == '/' ? found->pw_dir : "/";
	bool own = home[1] && !strchr(home, ':');
	add_path(out, own ? home : NULL);
	add_variable(out, "LANG", "C.UTF-8");
	add_variable(out, "HOME", home);
	add_variable(out, "SHELL", "/bin/sh");
	if (found && found->pw_name) {
		add_variable(out, "USER", found->pw_name);
		add_variable(out, "LOGNAME", found->pw_name);
	}
}

/* A failing stat leaves zeros, which differ from any cached file's identity unless that was missing too. */
void base_env_get(struct base_env *v, uint32_t uid, struct buf *out)
{
	struct stat st = { 0 };
	uint64_t now = clock_boot_ns();

	(void)!stat("/etc/passwd", &st);
	if (v->uid != uid || now >= v->until_ns || v->ino != st.st_ino || v->changed_s != st.st_ctim.tv_sec ||
	    v->changed_ns != st.st_ctim.tv_nsec) {
		base_env_done(v);
		build_environment(uid, &v->text);
		v->uid = uid;
		v->until_ns = now + KEEP_NS;
		v->ino = st.st_ino;
		v->changed_s = st.st_ctim.tv_sec;
		v->changed_ns = st.st_ctim.tv_nsec;
	}
	buf_append(out, v->text.data, v->text.len);
}

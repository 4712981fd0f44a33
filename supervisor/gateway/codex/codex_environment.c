#include "supervisor/gateway/codex/codex_private.h"

#include "runtime/base/mem.h"
#include "supervisor/gateway/common/file_uri.h"

#include <pwd.h>
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
json_t *codex_environment_json(const struct codex_server *s)
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

void codex_environment_info(struct codex_call *c) { codex_call_reply(c, codex_environment_json(c->server)); }

void codex_environment_status(struct codex_call *c) { codex_call_reply(c, json_pack("{ss}", "status", "ready")); }

#include "sandbox/root_paths.h"

#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "sandbox/plan.h"

#include <string.h>

static const char *const systems[] = {
	"/usr",  "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot",
	"/proc", "/sys", "/dev", "/run",  "/var", "/opt",   "/nix",   "/gnu",    "/snap",
};
static const char *const homes[] = { "/root", "/home" };
/* Inside a system directory, but world-writable. */
static const char *const open_folders[] = { "/var/tmp", "/dev/shm" };

static bool is_in_or_around(const char *const *list, size_t n, const char *path)
{
	for (size_t i = 0; i < n; i++)
		if (path_within(list[i], path) || path_within(path, list[i]))
			return true;
	return false;
}

bool root_path_is_system(const char *path)
{
	for (size_t i = 0; i < countof(open_folders); i++)
		if (path_within(open_folders[i], path) && strcmp(open_folders[i], path) != 0)
			return false;
	return is_in_or_around(systems, countof(systems), path);
}

bool root_path_is_home(const char *path) { return is_in_or_around(homes, countof(homes), path); }

bool root_path_is_no_home(const char *path)
{
	static const char *const none[] = { "/", "/nonexistent", "/tmp", "/var/tmp" };

	for (size_t i = 0; i < countof(none); i++)
		if (strcmp(none[i], path) == 0)
			return true;
	return false;
}

static const struct {
	uint32_t kind, flags;
	const char *path;
} entries[] = {
#define OWNED PLAN_MOUNT_OWNED
#define IN_PARENT PLAN_MOUNT_IN_PARENT
#define EXACT PLAN_MOUNT_EXACT
#define ENTRY(set, kind, flags, path) { PLAN_MOUNT_##kind, flags, path },
#include "sandbox/profiles.def"
#undef ENTRY
#undef OWNED
#undef IN_PARENT
#undef EXACT
};

/* Returns the length of what follows "~" in an entry's path, without its mark '?'; 0 if it is not in a home. */
static size_t length_below_home(const char *path)
{
	size_t n = strlen(path);

	return strncmp(path, "~/", 2) != 0 ? 0 : n - 1 - (path[n - 1] == '?');
}

/* Each start of root's compares its mounts with these entries, so nothing is formatted here. */
bool root_path_is_toolchain(const char *home, const char *path)
{
	size_t len = strlen(home);

	if (strncmp(path, home, len) != 0)
		return false;
	for (size_t i = 0; i < countof(entries); i++) {
		size_t n = length_below_home(entries[i].path);
		if (n && entries[i].kind == PLAN_MOUNT_READ && entries[i].flags == PLAN_MOUNT_OWNED &&
		    strncmp(path + len, entries[i].path + 1, n) == 0 && !path[len + n])
			return true;
	}
	return false;
}

bool root_path_next_credentials(const char *home, size_t *cursor, char ret[PATH_MAX])
{
	size_t len = strlen(home);

	for (; *cursor < countof(entries); ++*cursor) {
		const char *path = entries[*cursor].path;
		size_t n = length_below_home(path);
		if (!n || entries[*cursor].kind != PLAN_MOUNT_HIDE || len + n >= PATH_MAX)
			continue;
		memcpy(ret, home, len);
		memcpy(ret + len, path + 1, n);
		ret[len + n] = 0;
		++*cursor;
		return true;
	}
	return false;
}

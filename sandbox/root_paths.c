#include "sandbox/root_paths.h"

#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "sandbox/plan.h"

#include <stdio.h>
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
#define ENTRY(set, kind, flags, path) { PLAN_MOUNT_##kind, flags, path },
#include "sandbox/profiles.def"
#undef ENTRY
#undef OWNED
#undef IN_PARENT
};

/* Expands an entry that begins with "~" for this home. */
static bool expand_home(size_t i, const char *home, char ret[PATH_MAX])
{
	const char *path = entries[i].path;
	size_t n = strlen(path);

	if (strncmp(path, "~/", 2) != 0)
		return false;
	n -= path[n - 1] == '?';
	return snprintf(ret, PATH_MAX, "%s%.*s", home, (int)(n - 1), path + 1) < PATH_MAX;
}

bool root_path_is_toolchain(const char *home, const char *path)
{
	char own[PATH_MAX];

	for (size_t i = 0; i < countof(entries); i++)
		if (entries[i].kind == PLAN_MOUNT_READ && entries[i].flags & PLAN_MOUNT_OWNED &&
		    expand_home(i, home, own) && strcmp(own, path) == 0)
			return true;
	return false;
}

bool root_path_credentials(const char *home, size_t index, char ret[PATH_MAX])
{
	for (size_t i = 0; i < countof(entries); i++)
		if (entries[i].kind == PLAN_MOUNT_HIDE && expand_home(i, home, ret) && index-- == 0)
			return true;
	return false;
}

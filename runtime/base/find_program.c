#include "runtime/base/find_program.h"

#include "runtime/base/mem.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

/* From /proc/self/exe and not from argv[0], which the caller of a program chooses. */
char *find_installed_program(const char *const *places, size_t n)
{
	char self[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[len > 0 ? len : 0] = 0;
	char *slash = strrchr(self, '/');
	if (!slash)
		return NULL;
	*slash = 0;
	for (size_t i = 0; i < n; i++) {
		mem_auto char *path = mem_printf("%s/%s", self, places[i]);
		if (access(path, X_OK) == 0)
			return mem_take(&path);
	}
	return NULL;
}

char *find_program(const char *const *places, size_t n)
{
	char *path = find_installed_program(places, n);

	return path ? path : mem_strdup(places[0]);
}

#include "supervisor/common/private_paths.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"

#include <string.h>

static const struct {
	enum { RUN, STATE, CONFIG } folder;
	const char *name;
} files[] = {
	{ RUN, "control.sock" },
	{ STATE, "store" },
	{ STATE, "spool" },
	{ STATE, "bailiffd.pid" },
	{ STATE, "daemon.log" },
	{ STATE, "daemon.log.1" },
	{ STATE, "cow" },
	{ CONFIG, "config.json" },
	{ CONFIG, "policy.json" },
	{ CONFIG, "http-token" },
	{ CONFIG, "console.html" }, /* a one-time code of the console */
	{ CONFIG, "root-write-roots" },
	{ STATE, "root-authority" },
};

/* With --home the three directories are the same: each one is listed once. */
void private_paths_init(struct private_paths *s, const char *run, const char *state, const char *config)
{
	const char *const folders[] = { [RUN] = run, [STATE] = state, [CONFIG] = config };
	char clean[countof(folders)][PATH_MAX];
	struct err e = ERR_INIT;

	*s = (struct private_paths){ 0 };
	for (size_t i = 0; i < countof(folders); i++) {
		if (!folders[i] || path_clean(folders[i], clean[i], &e) < 0)
			clean[i][0] = '\0';
		bool known = !clean[i][0];
		for (size_t k = 0; k < i; k++)
			known |= strcmp(clean[k], clean[i]) == 0;
		if (!known)
			s->folder[s->nfolder++] = mem_strdup(clean[i]);
	}
	for (size_t i = 0; i < countof(files); i++)
		if (clean[files[i].folder][0])
			s->path[s->npath++] = mem_printf("%s/%s", clean[files[i].folder], files[i].name);
}

int private_paths_add(struct private_paths *s, const char *path)
{
	if (s->npath == countof(s->path))
		return -1;
	s->path[s->npath++] = mem_strdup(path);
	return 0;
}

void private_paths_done(struct private_paths *s)
{
	for (size_t i = 0; i < s->npath; i++)
		free((void *)s->path[i]);
	for (size_t i = 0; i < s->nfolder; i++)
		free((void *)s->folder[i]);
	*s = (struct private_paths){ 0 };
}

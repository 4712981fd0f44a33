/*
 * `bailiff-tool instructions`: the instruction files that apply in the working directory, for the loop. In each
 * directory from the repository's root down to the working directory, the first of AGENTS.md and CLAUDE.md counts.
 * Deeper ones come last, so that they can refine what the others say. Prints
 * {"files":[{"path","bytes","truncated"?}],"text":"…"}.
 */

#include "supervisor/tool/file_tool.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MAX (32u << 10) /* of all files together */
#define DEPTH_MAX 64
#define FILES_MAX 16u /* the deepest directories count */

static bool exists(const char *folder, const char *name)
{
	char path[PATH_MAX + 16];
	struct stat st;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	return lstat(path, &st) == 0;
}

/* Appends a regular file, as far as it fits. False: there is none. */
static bool add_file(const char *folder, const char *name, struct buf *text, struct jw *files)
{
	char path[PATH_MAX + 16];
	struct stat st;

	snprintf(path, sizeof path, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, name);
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	const size_t room = text->len < TEXT_MAX ? TEXT_MAX - text->len : 0;
	mem_auto char *bytes = mem_alloc(TEXT_MAX + 1);
	ssize_t n = fd_read_all(fd, bytes, TEXT_MAX + 1);
	if (n < 0)
		return false;
	size_t shown = (size_t)n < room ? (size_t)n : room;
	const bool cut = shown < (size_t)n;
	if (cut)
		shown = text_utf8_cut(bytes, shown);
	if (!text_utf8_valid(bytes, shown))
		return false;
	if (shown) {
		buf_printf(text, "# %s\n\n", path);
		buf_append(text, bytes, shown);
		buf_str(text, cut ? "\n[truncated]\n\n" : "\n\n");
	}
	jw_obj(files);
	jw_kstr(files, "path", path);
	jw_kuint(files, "bytes", (uint64_t)st.st_size);
	if (cut)
		jw_kbool(files, "truncated", true);
	jw_obj_end(files);
	return true;
}

int tool_instructions_main(void)
{
	static const char *const names[] = { "AGENTS.md", "CLAUDE.md" };
	buf_auto struct buf text = BUF_INIT, files = BUF_INIT, out = BUF_INIT;
	struct jw f = jw_on(&files), w = jw_on(&out);
	char cwd[PATH_MAX], *folders[DEPTH_MAX];
	size_t n = 0;

	jw_arr(&f);
	if (getcwd(cwd, sizeof cwd)) {
		char at[PATH_MAX];
		bool root = false;

		snprintf(at, sizeof at, "%s", cwd);
		while (n < DEPTH_MAX) {
			folders[n++] = mem_strdup(at);
			char *slash = strrchr(at, '/');

			if ((root = exists(at, ".git")) || !slash || slash == at)
				break;
			*slash = '\0';
		}
		/* Outside of a repository only the working directory itself counts. */
		for (size_t i = !root ? n > 0 : n < FILES_MAX ? n : FILES_MAX; i-- > 0;)
			for (size_t k = 0; k < countof(names) && !add_file(folders[i], names[k], &text, &f); k++)
				;
		while (n)
			free(folders[--n]);
	}
	jw_arr_end(&f);
	jw_obj(&w);
	jw_kraw(&w, "files", files.data, files.len);
	jw_kstrn(&w, "text", buf_cstr(&text), text.len);
	jw_obj_end(&w);
	buf_byte(&out, '\n');
	return tool_write_out(&out) < 0;
}

/*
 * `bailiff-tool instructions`: the instruction files that apply in the working directory, for the loop. First the one
 * of the user's home, then in each directory from the repository's root down to the working directory the first of
 * AGENTS.md and CLAUDE.md. Deeper ones come last, so that they can refine what the others say. Prints
 * {"files":[{"path","bytes","truncated"?}],"omitted":[{"path","reason"}],"text":"…","systemPrompt"?:{"path","text"}}.
 */

#include "supervisor/tool/file_tool.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MAX (32u << 10) /* of all files together */
#define HOME_MAX (16u << 10) /* of the file in the home: the repository's must fit, too */
#define PROMPT_MAX (64u << 10)
#define DEPTH_MAX 64
#define FILES_MAX 16u /* the deepest directories count */

static const char *const names[] = { "AGENTS.md", "CLAUDE.md" };
static const char *const home_names[] = { ".config/bailiff/AGENTS.md", ".config/AGENTS.md", ".codex/AGENTS.md",
					  ".claude/CLAUDE.md" };

struct found {
	struct buf text, files, omitted;
	struct jw f, o; /* on files and omitted */
};

static void make_path(char ret[PATH_MAX + 64], const char *folder, const char *name)
{
	snprintf(ret, PATH_MAX + 64, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, name);
}

static bool exists(const char *folder, const char *name)
{
	char path[PATH_MAX + 64];
	struct stat st;

	make_path(path, folder, name);
	return lstat(path, &st) == 0;
}

static void add_omitted(struct found *x, const char *path, const char *reason)
{
	jw_obj(&x->o);
	jw_kstr(&x->o, "path", path);
	jw_kstr(&x->o, "reason", reason);
	jw_obj_end(&x->o);
}

/* The first `most` bytes of a regular file, and one more if there are more. NULL with the reason; "" = it is missing.
 */
static char *read_file(const char *path, size_t most, size_t *ret_len, uint64_t *ret_size, const char **ret_reason)
{
	struct stat st;
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);

	*ret_reason = "";
	if (fd < 0) {
		*ret_reason = errno == ENOENT || errno == ENOTDIR ? ""
			      : errno == ELOOP                    ? "symbolic_link"
								  : "unreadable";
		return NULL;
	}
	mem_auto char *bytes = mem_alloc(most + 2);
	ssize_t n = -1;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		*ret_reason = "not_a_file";
	else if ((n = fd_read_all(fd, bytes, most + 1)) < 0)
		*ret_reason = "unreadable";
	else if (!text_utf8_valid(bytes, text_utf8_cut(bytes, (size_t)n)) || memchr(bytes, '\0', (size_t)n))
		*ret_reason = "not_text";
	if (**ret_reason)
		return NULL;
	bytes[n] = '\0';
	*ret_len = (size_t)n;
	*ret_size = (uint64_t)st.st_size;
	return mem_take(&bytes);
}

/* Appends a file, as far as it fits below `most` bytes of text. False: there is none that can be used. */
static bool add_file(struct found *x, const char *path, size_t most)
{
	const char *reason;
	uint64_t size;
	size_t n;
	mem_auto char *bytes = read_file(path, most, &n, &size, &reason);

	if (!bytes) {
		if (*reason)
			add_omitted(x, path, reason);
		return false;
	}
	const size_t room = x->text.len < most ? most - x->text.len : 0;
	const bool cut = n > room;
	const size_t shown = cut ? text_utf8_cut(bytes, room) : n;
	if (cut && !shown) {
		add_omitted(x, path, "limit");
		return true;
	}
	buf_printf(&x->text, "# %s\n\n", path);
	buf_append(&x->text, bytes, shown);
	buf_str(&x->text, cut ? "\n[truncated]\n\n" : "\n\n");
	jw_obj(&x->f);
	jw_kstr(&x->f, "path", path);
	jw_kuint(&x->f, "bytes", size);
	if (cut)
		jw_kbool(&x->f, "truncated", true);
	jw_obj_end(&x->f);
	return true;
}

/* The first of these files; the others are recorded as omitted. */
static void add_first(struct found *x, const char *folder, const char *const *list, size_t n, size_t most)
{
	char path[PATH_MAX + 64];
	bool done = false;

	for (size_t i = 0; i < n; i++) {
		make_path(path, folder, list[i]);
		if (!done)
			done = add_file(x, path, most);
		else if (exists(folder, list[i]))
			add_omitted(x, path, "another_file_applies");
	}
}

/* From the repository's root down to the working directory; outside of a repository only the latter counts. */
static void add_repository(struct found *x)
{
	char at[PATH_MAX], *folders[DEPTH_MAX];
	bool root = false;
	size_t n = 0;

	if (!getcwd(at, sizeof at))
		return;
	while (n < DEPTH_MAX) {
		folders[n++] = mem_strdup(at);
		char *slash = strrchr(at, '/');

		if ((root = exists(at, ".git")) || !slash || slash == at)
			break;
		*slash = '\0';
	}
	for (size_t i = root ? n : 1; i-- > 0;) {
		if (i < FILES_MAX) {
			add_first(x, folders[i], names, countof(names), TEXT_MAX);
			continue;
		}
		for (size_t k = 0; k < countof(names); k++) {
			char path[PATH_MAX + 64];

			make_path(path, folders[i], names[k]);
			if (exists(folders[i], names[k]))
				add_omitted(x, path, "limit");
		}
	}
	while (n)
		free(folders[--n]);
}

/* The user's own system prompt. One that is too long or cannot be read is omitted, not cut. */
static void add_prompt(struct found *x, const char *home, struct jw *w)
{
	char path[PATH_MAX + 64];
	const char *reason;
	uint64_t size;
	size_t n;

	make_path(path, home, ".config/bailiff/system-prompt.md");
	mem_auto char *bytes = read_file(path, PROMPT_MAX, &n, &size, &reason);
	if (bytes && n && n <= PROMPT_MAX) {
		jw_kobj(w, "systemPrompt");
		jw_kstr(w, "path", path);
		jw_kstrn(w, "text", bytes, n);
		jw_obj_end(w);
	} else if (bytes || *reason) {
		add_omitted(x, path, !bytes ? reason : n ? "limit" : "empty");
	}
}

int tool_instructions_main(void)
{
	struct found x = { .text = BUF_INIT, .files = BUF_INIT, .omitted = BUF_INIT };
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);
	const char *home = getenv("HOME");

	x.f = jw_on(&x.files);
	x.o = jw_on(&x.omitted);
	jw_arr(&x.f);
	jw_arr(&x.o);
	jw_obj(&w);
	if (home && home[0] == '/' && home[1] && strlen(home) < PATH_MAX) {
		add_prompt(&x, home, &w);
		add_first(&x, home, home_names, countof(home_names), HOME_MAX);
	}
	add_repository(&x);
	jw_arr_end(&x.f);
	jw_arr_end(&x.o);
	jw_kraw(&w, "files", x.files.data, x.files.len);
	jw_kraw(&w, "omitted", x.omitted.data, x.omitted.len);
	jw_kstrn(&w, "text", buf_cstr(&x.text), x.text.len);
	jw_obj_end(&w);
	buf_byte(&out, '\n');
	buf_done(&x.text);
	buf_done(&x.files);
	buf_done(&x.omitted);
	return tool_write_out(&out) < 0;
}

/*
 * `bailiff-tool fs walk`: the directories and files below a path, breadth first, sorted by name in each directory.
 * Bounded by the caller's and by fixed limits; `truncated` says that there was more. Links to directories are followed
 * only on request, and no directory is entered twice, so that a cycle of links ends.
 */

#include "supervisor/tool/file_tool.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define ENTRIES_MAX 200000u
#define DIRECTORIES_MAX 50000u /* entered */
#define SLOTS (1u << 17)       /* more than twice as many, so that few share a place */

struct folder {
	char *path;
	unsigned depth;
	dev_t dev;
	ino_t ino;
};

struct tool_walk {
	struct folder *folders; /* the queue; the first `at` are done */
	size_t count, at, size;
	uint32_t *slots; /* with `follow`: folders by device and inode, as index + 1; 0 = free */
	uint64_t max_depth, max_folders, max_entries;
	uint64_t entries; /* names seen, including the ones that are not returned */
	bool follow, more;
	struct jw *w;
	struct buf errors;
};

/* The place of this directory: it is queued, or the place is free. */
static uint32_t *find_slot(struct tool_walk *k, const struct stat *st)
{
	uint64_t h = ((uint64_t)st->st_ino + (uint64_t)st->st_dev) * 0x9e3779b97f4a7c15ull;

	for (size_t i = h >> 47;; i++) {
		uint32_t *slot = &k->slots[i % SLOTS];
		const struct folder *f = &k->folders[*slot ? *slot - 1 : 0];

		if (!*slot || (f->dev == st->st_dev && f->ino == st->st_ino))
			return slot;
	}
}

/* With `follow`, a directory that is queued already is skipped: a cycle of links ends there. */
static void push_folder(struct tool_walk *k, const char *path, unsigned depth, const struct stat *st)
{
	uint32_t *slot = k->follow ? find_slot(k, st) : NULL;

	if (slot && *slot)
		return;
	if (k->count >= k->max_folders) {
		k->more = true;
		return;
	}
	if (k->count == k->size) {
		k->size = k->size ? 2 * k->size : 64;
		k->folders = mem_realloc(k->folders, k->size * sizeof *k->folders);
	}
	k->folders[k->count++] = (struct folder){
		.path = mem_strdup(path), .depth = depth, .dev = st->st_dev, .ino = st->st_ino
	};
	if (slot)
		*slot = (uint32_t)k->count;
}

/* Returns whether the limits permit more entries. */
static bool visit_entry(struct tool_walk *k, const char *path, unsigned depth)
{
	struct stat st;
	bool link;

	if (k->entries >= k->max_entries) {
		k->more = true;
		return false;
	}
	k->entries++;
	if (lstat(path, &st) < 0)
		return true;
	link = S_ISLNK(st.st_mode);
	if (link && (!k->follow || stat(path, &st) < 0 || !S_ISDIR(st.st_mode)))
		return true;
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return true;
	jw_obj(k->w);
	jw_kstr(k->w, "path", path);
	jw_kstr(k->w, "kind", S_ISDIR(st.st_mode) ? "directory" : "file");
	jw_obj_end(k->w);
	if (S_ISDIR(st.st_mode) && depth < k->max_depth)
		push_folder(k, path, depth + 1, &st);
	return true;
}

/* Errors of single directories are collected; the walk continues. False: the limits are reached. */
static bool enter_folder(struct tool_walk *k, const struct folder *f)
{
	struct dirent **names = NULL;
	int n = scandir(f->path, &names, NULL, alphasort);
	bool more = true;

	if (n < 0) {
		struct jw w = jw_on(&k->errors);

		w.need_comma = k->errors.len > 0;
		jw_obj(&w);
		jw_kstr(&w, "path", f->path);
		jw_kstr(&w, "message", strerror(errno));
		jw_obj_end(&w);
	}
	for (int i = 0; i < n; i++) {
		mem_auto char *path = mem_printf("%s/%s", strcmp(f->path, "/") == 0 ? "" : f->path, names[i]->d_name);

		if (more && strcmp(names[i]->d_name, ".") != 0 && strcmp(names[i]->d_name, "..") != 0)
			more = visit_entry(k, path, f->depth);
		free(names[i]);
	}
	free(names);
	return more;
}

static uint64_t at_most(uint64_t v, uint64_t most) { return v < most ? v : most; }

/* `flags`: DEPTH:FOLDERS:ENTRIES:FOLLOW. */
int tool_fs_walk(const char *path, const char *flags, struct jw *w, struct err *e)
{
	unsigned long long depth, folders, entries;
	unsigned follow;
	struct tool_walk k = { .w = w };
	struct stat st;

	if (sscanf(flags, "%llu:%llu:%llu:%u", &depth, &folders, &entries, &follow) != 4)
		return err_set(e, ERR_INVALID, "walk: flags are DEPTH:FOLDERS:ENTRIES:FOLLOW");
	k.max_depth = at_most(depth, 1000);
	k.max_folders = at_most(folders, DIRECTORIES_MAX);
	k.max_entries = at_most(entries, ENTRIES_MAX);
	k.follow = follow && !tool_links_refused();
	if (stat(path, &st) < 0)
		return err_sys(e, errno, "%.200s", path);
	k.slots = follow ? mem_zalloc(SLOTS, sizeof *k.slots) : NULL;
	jw_karr(w, "entries");
	if (S_ISDIR(st.st_mode))
		push_folder(&k, path, 0, &st);
	for (bool more = true; more && k.at < k.count; k.at++) {
		const struct folder now = k.folders[k.at]; /* a copy: the array may be reallocated */

		more = enter_folder(&k, &now);
	}
	jw_arr_end(w);
	jw_karr(w, "errors");
	if (k.errors.len)
		jw_raw(w, k.errors.data, k.errors.len);
	jw_arr_end(w);
	jw_kbool(w, "truncated", k.more);
	for (size_t i = 0; i < k.count; i++)
		free(k.folders[i].path);
	free(k.folders);
	free(k.slots);
	buf_done(&k.errors);
	return 0;
}

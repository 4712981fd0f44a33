/*
 * Searches the write roots for autorun files, level by level. Directories are opened relative to their parents, never
 * through a link.
 */

#include "sandbox/autorun_private.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "sandbox/file_stamp.h"
#include "sandbox/git_config.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC)
#define TREE_DEPTH_MAX 8u
#define INCLUDES_DEEP 5u
#define INCLUDES_MAX 256u /* per search: files can include each other and themselves */
#define TIMELESS_FOLDERS 512u
#define MATCHES_MAX 64u /* autorun names in one directory */
#define ENTRIES_ROOM 16384

enum kind { KIND_FILE, KIND_TREE };

struct row {
	enum kind kind;
	const char *path, *program;
};

static const struct row git_rows[] = {
#define AUTORUN_GIT(kind, path, program, what) { KIND_##kind, path, program },
#include "sandbox/autorun.def"
#undef AUTORUN_GIT
};

static const struct row rows[] = {
#define AUTORUN(kind, path, program, what) { KIND_##kind, path, program },
#include "sandbox/autorun.def"
#undef AUTORUN
};

/* Large dependency or build directories: searched last. */
static const char *const late_names[] = { "node_modules", ".venv", "venv",   "target",
					  "vendor",       ".tox",  ".cache", "__pycache__" };

/* ---- directory entries ---- */

struct entries {
	int fd;
	long have, at;
	_Alignas(struct dirent64) char room[ENTRIES_ROOM];
};

static void begin_entries(struct entries *e, int fd)
{
	e->fd = fd;
	e->have = e->at = 0;
}

static const struct dirent64 *next_entry(struct autorun *a, struct entries *e)
{
	for (;;) {
		if (e->at >= e->have) {
			e->at = 0;
			e->have = syscall(SYS_getdents64, e->fd, e->room, sizeof e->room);
			if (e->have < 0)
				a->partial |= AUTORUN_PARTIAL_SHUT;
			if (e->have <= 0)
				return NULL;
		}
		const struct dirent64 *d = (const struct dirent64 *)(const void *)(e->room + e->at);
		e->at += d->d_reclen;
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		if (++a->search.entries > AUTORUN_ENTRIES_MAX) {
			a->partial |= AUTORUN_PARTIAL_FOLDERS;
			return NULL;
		}
		return d;
	}
}

static bool is_folder(int at, const struct dirent64 *d)
{
	struct stat st;
	if (d->d_type != DT_UNKNOWN)
		return d->d_type == DT_DIR;
	return fstatat(at, d->d_name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0 && S_ISDIR(st.st_mode);
}

/* True if the command can restore access: it owns the directory or its parent. */
static bool is_shut_by_itself(int at, const char *name)
{
	struct stat st;
	if (fstatat(at, name, &st, AT_NO_AUTOMOUNT) == 0)
		return st.st_uid == geteuid();
	return at == AT_FDCWD || fstat(at, &st) < 0 || st.st_uid == geteuid();
}

/* A failure to open is ignored if the entry is not a directory, or if the command could not open it either. */
static int open_below(struct autorun *a, int at, const char *name, int flags)
{
	int fd = openat(at, name, FOLDER_FLAGS | flags);
	if (fd < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP &&
	    (errno != EACCES || is_shut_by_itself(at, name)))
		a->partial |= AUTORUN_PARTIAL_SHUT;
	return fd;
}

/* ---- matches ---- */

/* Writes "DIR/NAME" to ret; false if too long. */
static bool join_path(struct autorun *a, const char *folder, const char *name, char ret[PATH_MAX])
{
	int n = snprintf(ret, PATH_MAX, "%s/%s", folder, name);
	if (n > 0 && n < PATH_MAX)
		return true;
	a->partial |= AUTORUN_PARTIAL_DEEP;
	return false;
}

static bool ends_in(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);
	return n > m && strcasecmp(name + n - m, end) == 0;
}

/* git never executes the samples that it ships. */
static bool is_sample(const char *program, const char *name)
{
	return strcmp(program, "git") == 0 && ends_in(name, ".sample");
}

static void check_tree(struct autorun *a, int at, const char *name, const char *path, const char *program,
		       unsigned depth)
{
	char inner[PATH_MAX];
	struct stat st;
	if (depth > TREE_DEPTH_MAX) {
		a->partial |= AUTORUN_PARTIAL_DEEP;
		return;
	}
	/* The directory itself may be a link, which is then compared, too. */
	if (depth == 0 && fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0 && !S_ISDIR(st.st_mode))
		autorun_check_entry(a, at, name, path, program);
	struct entries e;
	begin_entries(&e, open_below(a, at, name, depth ? O_NOFOLLOW : 0));
	for (const struct dirent64 *d; e.fd >= 0 && (d = next_entry(a, &e));) {
		if (is_sample(program, d->d_name) || !join_path(a, path, d->d_name, inner))
			continue;
		if (is_folder(e.fd, d))
			check_tree(a, e.fd, d->d_name, inner, program, depth + 1);
		else
			autorun_check_entry(a, e.fd, d->d_name, inner, program);
	}
	fd_close(&e.fd);
}

/* ---- git configurations: included files and core.hooksPath ---- */

/* Makes it absolute; false for a path that only git can expand (~, %(prefix)). */
static bool resolve_path(const char *folder, const char *value, char ret[PATH_MAX])
{
	char whole[2 * PATH_MAX + 2];
	if (value[0] == '~' || value[0] == '%')
		return false;
	snprintf(whole, sizeof whole, "%s/%s", value[0] == '/' ? "" : folder, value);
	return path_clean(whole, ret, NULL) == 0;
}

static void follow_config(struct autorun *a, const struct autorun_file *config, const char *folder, const char *top,
			  unsigned depth);

static void follow_include(struct autorun *a, const char *value, const char *folder, const char *top, unsigned depth)
{
	char path[PATH_MAX];
	if (!resolve_path(folder, value, path) || !autorun_in_write_root(a, path))
		return;
	const struct autorun_file *f = autorun_check_entry(a, AT_FDCWD, path, path, "git");
	if (f && ++a->search.includes > INCLUDES_MAX)
		a->partial |= AUTORUN_PARTIAL_FILES;
	else if (f && path_up(path))
		follow_config(a, f, path, top, depth + 1);
}

static void follow_config(struct autorun *a, const struct autorun_file *config, const char *folder, const char *top,
			  unsigned depth)
{
	struct git_setting s = { .section = "" };
	char path[PATH_MAX];
	bool outer = a->led;
	if (config->type != AUTORUN_TYPE_FILE || !config->kept || depth > INCLUDES_DEEP)
		return;
	a->led |= !autorun_find(&a->before, config->path); /* otherwise the first search followed it, too */
	for (const char *at = config->text; git_config_next(&at, &s);) {
		bool include = strcasecmp(s.section, "include") == 0 || strcasecmp(s.section, "includeif") == 0;
		if (include && strcasecmp(s.key, "path") == 0)
			follow_include(a, s.value, folder, top, depth);
		else if (strcasecmp(s.section, "core") == 0 && strcasecmp(s.key, "hookspath") == 0 &&
			 resolve_path(top, s.value, path) && autorun_in_write_root(a, path) && strcmp(path, top) != 0)
			check_tree(a, AT_FDCWD, path, path, "git", 0);
	}
	a->led = outer;
}

static void check_row(struct autorun *a, int at, const struct row *r, const char *name)
{
	char path[PATH_MAX];
	struct stat st;
	if (!join_path(a, a->search.path, name, path))
		return;
	if (r->kind == KIND_TREE)
		check_tree(a, at, name, path, r->program, 0);
	else if (strcasecmp(name, ".git") != 0 || fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
		 !S_ISDIR(st.st_mode))
		autorun_check_entry(a, at, name, path, r->program);
}

static void check_git(struct autorun *a, int at, bool called_git)
{
	char top[PATH_MAX];
	for (size_t i = 0; i < countof(git_rows); i++)
		check_row(a, at, &git_rows[i], git_rows[i].path);
	memcpy(top, a->search.path, a->search.path_len + 1);
	if (called_git)
		*strrchr(top, '/') = 0;
	static const char *const configs[] = { "config", "config.worktree" };
	for (size_t i = 0; i < countof(configs); i++) {
		char path[PATH_MAX];
		const struct autorun_file *f = join_path(a, a->search.path, configs[i], path)
						       ? autorun_find(&a->before, path)
						       : NULL;
		if (!f && a->again)
			f = autorun_find(&a->found, path);
		if (f)
			follow_config(a, f, a->search.path, top, 0);
	}
}

/* ---- directories ---- */

static const char *name_of(const struct autorun_list *l, uint32_t i) { return l->names + l->folder[i].name; }

/* NULL: there is no space. */
static struct autorun_folder *add_folder(struct autorun *a, uint32_t parent, const char *name, uint32_t flags)
{
	struct autorun_list *l = a->search.now;
	size_t n = strlen(name) + 1;
	if (l->count == AUTORUN_FOLDERS_MAX || n > AUTORUN_NAMES_MAX - l->names_used) {
		a->partial |= AUTORUN_PARTIAL_FOLDERS;
		return NULL;
	}
	struct autorun_folder *f = &l->folder[l->count++];
	*f = (struct autorun_folder){ .parent = parent, .name = l->names_used, .flags = flags };
	memcpy(l->names + l->names_used, name, n);
	l->names_used += (uint32_t)n;
	return f;
}

/* Keeps the parent open: the next directory is usually a sibling. */
static int open_folder(struct autorun *a, uint32_t i)
{
	struct autorun_search *s = &a->search;
	uint32_t parent = s->now->folder[i].parent;
	if (parent == AUTORUN_ROOT)
		return open_below(a, AT_FDCWD, name_of(s->now, i), O_NOFOLLOW);
	if (s->parent != parent) {
		int fd = open_folder(a, parent);
		fd_close(&s->parent_fd);
		s->parent_fd = fd;
		s->parent = fd < 0 ? AUTORUN_ROOT : parent;
		if (fd < 0)
			return -1;
	}
	return open_below(a, s->parent_fd, name_of(s->now, i), O_NOFOLLOW);
}

static size_t path_of(const struct autorun_list *l, uint32_t i, char ret[PATH_MAX])
{
	uint32_t chain[PATH_MAX / 2];
	size_t n = 0, len = 0;
	for (; i != AUTORUN_ROOT && n < countof(chain); i = l->folder[i].parent)
		chain[n++] = i;
	if (i != AUTORUN_ROOT)
		return 0;
	while (n > 0) {
		const char *name = name_of(l, chain[--n]);
		int m = snprintf(ret + len, PATH_MAX - len, "%s%s", len ? "/" : "", name);
		if (m < 0 || (size_t)m >= PATH_MAX - len)
			return 0;
		len += (size_t)m;
	}
	return len;
}

/* True for paths that are the sandbox's own: nothing there is the host's. */
static bool is_private(const struct autorun *a, const char *path)
{
	for (uint32_t i = 0; i < a->plan->mount_count; i++) {
		const struct plan_mount *m = plan_mount(a->plan, i);
		if ((m->kind == PLAN_MOUNT_EMPTY || m->kind == PLAN_MOUNT_HIDE) &&
		    strcmp(plan_string(a->plan, m->path_off), path) == 0)
			return true;
	}
	return false;
}

/*
 * Rejects most names by their first and last byte: no row and no git marker begins or ends like that. This matters
 * because every file of a workspace is checked twice per command.
 */
struct hints {
	bool made;
	bool begins[256], ends[256];
};

static const struct hints *name_hints(void)
{
	static struct hints h;
	if (h.made)
		return &h;
	for (size_t i = 0; i < countof(rows); i++) {
		const char *path = rows[i].path;
		if (path[0] == '*')
			h.ends[(unsigned char)path[strlen(path) - 1]] =
				h.ends[toupper((unsigned char)path[strlen(path) - 1])] = true;
		else
			h.begins[(unsigned char)path[0]] = h.begins[toupper((unsigned char)path[0])] = true;
	}
	h.made = true;
	return &h;
}

/* Entries that identify a git directory that is not named .git; git itself checks for these. */
enum { HAS_HEAD = 1, HAS_OBJECTS = 2, HAS_REFS = 4, HAS_COMMON = 8 };

static unsigned mark_of(const char *name)
{
	if (!strchr("HhOoRrCc", name[0]))
		return 0;
	static const char *const names[] = { "HEAD", "objects", "refs", "commondir" };
	for (unsigned i = 0; i < countof(names); i++) {
		if (strcasecmp(name, names[i]) == 0)
			return 1u << i;
	}
	return 0;
}

static bool is_git_directory(unsigned marks)
{
	return marks & HAS_HEAD &&
	       (marks & HAS_COMMON || (marks & (HAS_OBJECTS | HAS_REFS)) == (HAS_OBJECTS | HAS_REFS));
}

/* Object directories contain only data: aa, 0f, pack, info. */
static bool is_object_folder(const char *name)
{
	return (isxdigit((unsigned char)name[0]) && isxdigit((unsigned char)name[1]) && !name[2]) ||
	       strcmp(name, "pack") == 0 || strcmp(name, "info") == 0;
}

static uint32_t flags_below(const struct autorun_folder *f, const char *name)
{
	uint32_t flags = f->flags & AUTORUN_FOLDER_LATE;
	for (size_t i = 0; i < countof(late_names) && !flags; i++)
		flags |= strcmp(name, late_names[i]) == 0 ? AUTORUN_FOLDER_LATE : 0;
	return flags | (strcasecmp(name, ".git") == 0 ? AUTORUN_FOLDER_GIT : 0);
}

struct match {
	const struct row *row;
	char name[NAME_MAX + 1]; /* the row's path, with its first component as it is on disk */
};

/* Finds rows whose first component matches this entry. */
static void match_rows(struct autorun *a, const char *name, struct match *m, size_t *n)
{
	const struct hints *h = name_hints();
	if (!h->begins[(unsigned char)name[0]] && !h->ends[(unsigned char)name[strlen(name) - 1]])
		return;
	for (size_t i = 0; i < countof(rows); i++) {
		const char *path = rows[i].path;
		size_t first = strcspn(path, "/");
		bool same = path[0] == '*' ? ends_in(name, path + 1)
					   : tolower((unsigned char)name[0]) == path[0] && strlen(name) == first &&
						     strncasecmp(name, path, first) == 0;
		if (!same)
			continue;
		if (*n == MATCHES_MAX) {
			a->partial |= AUTORUN_PARTIAL_FILES;
			return;
		}
		m[*n].row = &rows[i];
		int len = snprintf(m[*n].name, sizeof m[*n].name, "%s%s", name, path[0] == '*' ? "" : path + first);
		*n += len > 0 && (size_t)len < sizeof m[*n].name;
	}
}

/* Inside .git only these contain further git directories. */
static void visit_git(struct autorun *a, uint32_t i, int fd)
{
	static const char *const below[] = { "modules", "worktrees" };
	struct stat st;
	check_git(a, fd, true);
	for (size_t k = 0; k < countof(below); k++) {
		if (fstatat(fd, below[k], &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
			add_folder(a, i, below[k], a->search.now->folder[i].flags & AUTORUN_FOLDER_LATE);
	}
}

/* ---- folders that are as they were ---- */

static struct autorun_stamp stamp_of(const struct stat *st)
{
	return (struct autorun_stamp){ .dev = st->st_dev, .ino = st->st_ino, .changed = st->st_ctim };
}

static bool same_stamp(const struct autorun_stamp *a, const struct autorun_stamp *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->changed.tv_sec == b->changed.tv_sec &&
	       a->changed.tv_nsec == b->changed.tv_nsec;
}

/*
 * Before the entries are read. The ctime must be in an earlier second than the clock: then a later change gives it
 * another one, even where a file system stores seconds only.
 */
static void stamp_folder(struct autorun_folder *f, int fd)
{
	struct timespec now;
	struct stat st;
	f->stamped = clock_gettime(CLOCK_REALTIME_COARSE, &now) == 0 && fstat(fd, &st) == 0 &&
		     st.st_ctim.tv_sec < now.tv_sec && file_stamp_covers_names(fd);
	if (f->stamped)
		f->stamp = stamp_of(&st);
}

/*
 * A folder that was plain in the search before and has not changed has the same names, so only the folders in it are
 * visited. Whether it is still the same one is decided by its path: those above it were checked before it.
 */
static bool take_from_before(struct autorun *a, uint32_t i)
{
	struct autorun_search *s = &a->search;
	struct autorun_folder *f = &s->now->folder[i];
	const struct autorun_folder *b = f->before ? &s->before->folder[f->before - 1] : NULL;
	struct stat st;
	if (!b || !b->plain || b->flags != f->flags)
		return false;
	if (!f->stamped) {
		if (fstatat(AT_FDCWD, s->path, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
			return false;
		f->stamp = stamp_of(&st);
	}
	f->stamped = same_stamp(&f->stamp, &b->stamp);
	if (!f->stamped)
		return false;
	f->first = s->now->count;
	for (uint32_t k = b->first; k < b->first + b->count; k++) {
		struct autorun_folder *below = add_folder(a, i, name_of(s->before, k), s->before->folder[k].flags);
		if (!below)
			return true;
		below->before = k + 1;
	}
	f->plain = true;
	f->count = b->count;
	f->entries = b->entries;
	s->entries += b->entries;
	if (s->entries > AUTORUN_ENTRIES_MAX)
		a->partial |= AUTORUN_PARTIAL_FOLDERS;
	return true;
}

/* ---- visits ---- */

/* Returns whether it is a git directory. */
static bool visit_entries(struct autorun *a, uint32_t i, int fd, struct match *matches, size_t *nmatches)
{
	struct autorun_list *l = a->search.now;
	const struct autorun_folder f = l->folder[i];
	uint32_t first = l->count;
	unsigned marks = 0;
	struct entries e;
	begin_entries(&e, fd);
	for (const struct dirent64 *d; (d = next_entry(a, &e));) {
		marks |= mark_of(d->d_name);
		match_rows(a, d->d_name, matches, nmatches);
		if (is_folder(fd, d) && !(f.flags & AUTORUN_FOLDER_OBJECTS && is_object_folder(d->d_name)))
			add_folder(a, i, d->d_name, flags_below(&f, d->d_name));
	}
	if (!is_git_directory(marks))
		return false;
	check_git(a, fd, false);
	for (uint32_t k = first; k < l->count; k++) {
		if (strcasecmp(name_of(l, k), "objects") == 0)
			l->folder[k].flags |= AUTORUN_FOLDER_OBJECTS;
	}
	return true;
}

static void visit_plain(struct autorun *a, uint32_t i, int fd)
{
	struct autorun_search *s = &a->search;
	struct autorun_folder *f = &s->now->folder[i];
	struct match matches[MATCHES_MAX];
	size_t n = 0;
	uint32_t first = s->now->count, entries = s->entries;
	stamp_folder(f, fd);
	bool git = visit_entries(a, i, fd, matches, &n);
	f->plain = f->stamped && !git && !n && !a->partial;
	f->first = first;
	f->count = s->now->count - first;
	f->entries = s->entries - entries;
	for (size_t k = 0; k < n; k++)
		check_row(a, fd, matches[k].row, matches[k].name);
}

static void visit_folder(struct autorun *a, uint32_t i)
{
	struct autorun_search *s = &a->search;
	const struct autorun_folder *f = &s->now->folder[i];
	s->path_len = path_of(s->now, i, s->path);
	if (!s->path_len) {
		a->partial |= AUTORUN_PARTIAL_DEEP;
		return;
	}
	if ((f->parent != AUTORUN_ROOT && is_private(a, s->path)) || take_from_before(a, i))
		return;
	fd_auto int fd = open_folder(a, i);
	if (fd < 0)
		return;
	if (f->flags & AUTORUN_FOLDER_GIT)
		visit_git(a, i, fd);
	else
		visit_plain(a, i, fd);
}

/* A write root can be a file. */
static void add_root(struct autorun *a, const char *path)
{
	const struct autorun_list *before = a->search.before;
	const char *name = strrchr(path, '/') + 1;
	struct match matches[MATCHES_MAX];
	struct stat st;
	size_t n = 0;
	if (lstat(path, &st) < 0)
		return;
	if (S_ISDIR(st.st_mode)) {
		uint32_t i = a->search.now->count;
		struct autorun_folder *f = add_folder(
			a, AUTORUN_ROOT, path, flags_below(&(struct autorun_folder){ 0 }, name) & AUTORUN_FOLDER_GIT);
		if (f && i < before->count && before->folder[i].parent == AUTORUN_ROOT &&
		    strcmp(name_of(before, i), path) == 0)
			f->before = i + 1;
		if (f) {
			f->stamped = true;
			f->stamp = stamp_of(&st);
		}
		return;
	}
	match_rows(a, name, matches, &n);
	for (size_t i = 0; i < n; i++) {
		if (!strchr(matches[i].name, '/'))
			autorun_check_entry(a, AT_FDCWD, path, path, matches[i].row->program);
	}
}

/* A small tree is always examined completely, however busy the machine is. */
static bool out_of_time(struct autorun *a, uint32_t visited)
{
	struct timespec now;
	if (visited < TIMELESS_FOLDERS)
		return false;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	long ms = (now.tv_sec - a->search.started.tv_sec) * 1000 + (now.tv_nsec - a->search.started.tv_nsec) / 1000000;
	if (ms < (long)AUTORUN_SEARCH_MS)
		return false;
	a->partial |= AUTORUN_PARTIAL_TIME;
	return true;
}

void autorun_search(struct autorun *a)
{
	struct autorun_search *s = &a->search;
	s->before = s->now ? s->now : &s->list[1];
	s->now = s->before == &s->list[0] ? &s->list[1] : &s->list[0];
	s->now->count = s->now->names_used = s->entries = s->includes = 0;
	s->parent = AUTORUN_ROOT;
	s->parent_fd = -1;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &s->started);
	for (uint32_t i = 0; i < a->plan->mount_count; i++) {
		if (plan_mount(a->plan, i)->kind == PLAN_MOUNT_WRITE)
			add_root(a, plan_string(a->plan, plan_mount(a->plan, i)->path_off));
	}
	for (uint32_t late = 0; late <= AUTORUN_FOLDER_LATE; late++) {
		for (uint32_t i = 0; i < s->now->count && s->entries <= AUTORUN_ENTRIES_MAX && !out_of_time(a, i);
		     i++) {
			if ((s->now->folder[i].flags & AUTORUN_FOLDER_LATE) == late)
				visit_folder(a, i);
		}
	}
	fd_close(&s->parent_fd);
}

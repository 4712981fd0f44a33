#include "supervisor/tool/file_tree.h"
#include "supervisor/tool/file_tool.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRIES_MAX 500000u
#define DEPTH_MAX 100u
#define PATTERN_MAX 512u
#define ALTERNATIVES_MAX 64u
#define STEPS_MAX 20000u        /* of one comparison: patterns with several ** may need exponential time */
#define IGNORE_FILE_MAX 262144u /* bytes of a .gitignore file */

/* ---- patterns ---- */

static bool match_component(const char *pattern, size_t n, const char *name, size_t m)
{
	char p[PATTERN_MAX + 1], s[NAME_MAX + 1];

	if (n >= sizeof p || m >= sizeof s)
		return false;
	memcpy(p, pattern, n);
	memcpy(s, name, m);
	p[n] = s[m] = '\0';
	return fnmatch(p, s, 0) == 0;
}

static bool match_from(const char *p, const char *s, unsigned *steps)
{
	while (*steps) {
		size_t n = strcspn(p, "/"), m = strcspn(s, "/");

		(*steps)--;
		if (n == 2 && memcmp(p, "**", 2) == 0) {
			if (!p[2])
				return true;
			for (p += 3; !match_from(p, s, steps); s++) {
				s = strchr(s, '/');
				if (!s)
					return false;
			}
			return true;
		}
		if (!match_component(p, n, s, m))
			return false;
		if (!p[n] || !s[m])
			return !p[n] && !s[m];
		p += n + 1;
		s += m + 1;
	}
	return false;
}

bool path_glob(const char *pattern, const char *path)
{
	unsigned steps = STEPS_MAX;

	return match_from(pattern, path, &steps);
}

/* Replaces the first innermost {a,b} by each of its alternatives, until there is none. */
static int expand_braces(struct path_pattern *p, const char *text)
{
	const char *close = strchr(text, '}'), *open = close ? memrchr(text, '{', (size_t)(close - text)) : NULL;

	if (p->count >= ALTERNATIVES_MAX)
		return -1;
	if (!open) {
		p->alternative[p->count++] = mem_strdup(text);
		return 0;
	}
	for (const char *from = open + 1; from <= close;) {
		size_t n = strcspn(from, ",}");
		mem_auto char *one = mem_printf("%.*s%.*s%s", (int)(open - text), text, (int)n, from, close + 1);

		if (expand_braces(p, one) < 0)
			return -1;
		from += n + 1;
	}
	return 0;
}

int path_pattern_init(struct path_pattern *p, const char *field, const char *text, struct err *e)
{
	*p = (struct path_pattern){ 0 };
	while (strncmp(text, "./", 2) == 0)
		text += 2;
	if (!*text || strlen(text) > PATTERN_MAX)
		return err_field(e, field, "must have 1 to %u bytes", PATTERN_MAX);
	if (*text == '/')
		return err_field(e, field, "must be relative: give the directory as path");
	p->alternative = mem_zalloc(ALTERNATIVES_MAX, sizeof *p->alternative);
	if (expand_braces(p, text) == 0)
		return 0;
	path_pattern_done(p);
	return err_field(e, field, "has more than %u alternatives in braces", ALTERNATIVES_MAX);
}

bool path_pattern_matches(const struct path_pattern *p, const char *path)
{
	for (size_t i = 0; i < p->count; i++) {
		const char *one = p->alternative[i], *slash = strrchr(path, '/');

		if (path_glob(one, strchr(one, '/') || !slash ? path : slash + 1))
			return true;
	}
	return false;
}

void path_pattern_done(struct path_pattern *p)
{
	for (size_t i = 0; i < p->count; i++)
		free(p->alternative[i]);
	free(p->alternative);
	*p = (struct path_pattern){ 0 };
}

/* ---- .gitignore ---- */

struct ignore_rule {
	char *pattern;
	size_t base; /* length of the directory that it applies to, in the absolute path */
	bool anchored, directories, negated;
};

struct walk {
	struct file_tree *tree;
	struct ignore_rule *rules; /* of the directories on the way; the last match decides */
	size_t nrules, room;
	struct buf path; /* absolute */
	size_t start, entries;
};

static void add_rule(struct walk *k, size_t base, const char *line, size_t n)
{
	struct ignore_rule r = { .base = base };

	while (n && (line[n - 1] == ' ' || line[n - 1] == '\t' || line[n - 1] == '\r'))
		n--;
	if (!n || *line == '#' || n > PATTERN_MAX)
		return;
	r.negated = *line == '!';
	line += r.negated;
	n -= r.negated;
	r.directories = n && line[n - 1] == '/';
	n -= r.directories;
	r.anchored = n && memchr(line, '/', n);
	if (n && *line == '/') {
		line++;
		n--;
	}
	if (!n)
		return;
	if (k->nrules == k->room) {
		k->room = k->room ? 2 * k->room : 32;
		k->rules = mem_realloc(k->rules, k->room * sizeof *k->rules);
	}
	r.pattern = mem_strndup(line, n);
	k->rules[k->nrules++] = r;
}

/* Adds the rules of the directory that k->path names. */
static void load_rules(struct walk *k)
{
	mem_auto char *file = mem_printf("%s/.gitignore", buf_cstr(&k->path));
	int fd = k->tree->ignored_too ? -1 : open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	mem_auto char *text = fd < 0 ? NULL : mem_alloc(IGNORE_FILE_MAX);
	ssize_t n = fd < 0 ? 0 : read(fd, text, IGNORE_FILE_MAX);

	for (ssize_t at = 0; at < n;) {
		const char *nl = memchr(text + at, '\n', (size_t)(n - at));
		size_t len = nl ? (size_t)(nl - (text + at)) : (size_t)(n - at);

		add_rule(k, k->path.len, text + at, len);
		at += (ssize_t)len + 1;
	}
	if (fd >= 0)
		close(fd);
}

static void drop_rules(struct walk *k, size_t to)
{
	while (k->nrules > to)
		free(k->rules[--k->nrules].pattern);
}

/* The rules of the directories from the root of the repository down to the parent of the start. */
static void load_outer_rules(struct walk *k)
{
	mem_auto char *start = mem_strndup(k->path.data, k->path.len);
	size_t top = k->path.len, at = top;

	for (;;) {
		mem_auto char *git = mem_printf("%.*s/.git", (int)at, start);
		const char *slash = memrchr(start, '/', at);

		if (access(git, F_OK) == 0)
			break;
		if (!slash || slash == start)
			return; /* not in a repository */
		at = (size_t)(slash - start);
	}
	for (; at < top; at += 1 + strcspn(start + at + 1, "/")) {
		k->path.len = at;
		k->path.data[at] = '\0';
		load_rules(k);
	}
	buf_reset(&k->path);
	buf_str(&k->path, start);
}

static bool is_ignored(const struct walk *k, bool directory)
{
	const char *slash = strrchr(k->path.data, '/');

	for (size_t i = k->nrules; i-- > 0;) {
		const struct ignore_rule *r = &k->rules[i];

		if (r->directories && !directory)
			continue;
		if (path_glob(r->pattern, r->anchored ? k->path.data + r->base + 1 : slash + 1))
			return !r->negated;
	}
	return false;
}

/* ---- the walk ---- */

static bool visit_file(struct walk *k)
{
	const char *below = k->path.data + k->start + 1, *start = k->tree->start;
	const bool here = strcmp(start, ".") == 0;
	size_t n = strlen(start);
	mem_auto char *shown = here ? NULL : mem_printf("%s%s%s", start, start[n - 1] == '/' ? "" : "/", below);
	const struct tree_file f = { .path = k->path.data, .shown = here ? below : shown, .below = below };

	return k->tree->visit(k->tree->ctx, &f);
}

static bool enter_directory(struct walk *k, unsigned depth);

/* Returns false at the end of the walk. k->path is the entry. */
static bool visit_entry(struct walk *k, const struct dirent *d, unsigned depth)
{
	unsigned char type = d->d_type;
	struct stat st;

	if (++k->entries > ENTRIES_MAX) {
		k->tree->truncated = true;
		return false;
	}
	if (type == DT_UNKNOWN && lstat(k->path.data, &st) == 0)
		type = S_ISDIR(st.st_mode) ? DT_DIR : S_ISREG(st.st_mode) ? DT_REG : DT_LNK;
	if ((type != DT_DIR && type != DT_REG) || strcmp(d->d_name, ".git") == 0 || is_ignored(k, type == DT_DIR))
		return true;
	return type == DT_DIR ? enter_directory(k, depth + 1) : visit_file(k);
}

static bool enter_directory(struct walk *k, unsigned depth)
{
	struct dirent **names = NULL;
	const size_t len = k->path.len, rules = k->nrules;
	bool more = true;

	if (depth > DEPTH_MAX) {
		k->tree->truncated = true;
		return true;
	}
	load_rules(k);
	int n = scandir(k->path.data, &names, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		if (more && strcmp(names[i]->d_name, ".") != 0 && strcmp(names[i]->d_name, "..") != 0) {
			buf_printf(&k->path, "/%s", names[i]->d_name);
			more = visit_entry(k, names[i], depth);
			k->path.len = len;
			k->path.data[len] = '\0';
		}
		free(names[i]);
	}
	free(names);
	drop_rules(k, rules);
	return more;
}

int file_tree_walk(struct file_tree *t, struct err *e)
{
	struct walk k = { .tree = t };
	char real[PATH_MAX];
	struct stat st;

	if (tool_links_check(t->start, false, e) < 0)
		return -1;
	if (tool_links_resolve(t->start, real) < 0 || stat(real, &st) < 0)
		return errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "'%.200s': no such file or directory", t->start)
				       : err_sys(e, errno, "'%.200s'", t->start);
	if (!S_ISDIR(st.st_mode)) {
		const char *slash = strrchr(real, '/');
		const struct tree_file f = { .path = real, .shown = t->start, .below = slash + 1 };

		t->visit(t->ctx, &f);
		return 0;
	}
	if (strcmp(real, "/") != 0)
		buf_str(&k.path, real);
	else
		(void)buf_reserve(&k.path, PATH_MAX);
	k.start = k.path.len;
	if (!t->ignored_too && k.path.len)
		load_outer_rules(&k);
	enter_directory(&k, 0);
	drop_rules(&k, 0);
	free(k.rules);
	buf_done(&k.path);
	return 0;
}

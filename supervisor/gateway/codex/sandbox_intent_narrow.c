/*
 * Expresses an intent as changes to a profile, each of which removes access (sandbox_intent.h). It reads the host's
 * directories as the gateway's user, only to find out which names exist.
 *
 * The order matters. First write roots become read-only; then entries from the top down add exceptions to that and to
 * each other; then patterns hide files; last, if the root is not readable, everything that no entry allows is hidden.
 * Where the intent cannot be expressed exactly the request fails: a sandbox that is weaker than requested is never an
 * option.
 *
 * Names are read once, before the start: a file that appears later is covered by the directories that are hidden or
 * read-only, but not by a pattern.
 */

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "runtime/base/text.h"
#include "sandbox/placeholder.h"
#include "supervisor/gateway/codex/sandbox_intent.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- patterns ---- */

#define SCANNED_MAX 50000u
#define DEPTH_MAX 32u
#define STARS_MAX 8u /* limit of "**" components, which bounds the backtracking */

/* Matches one name with one component of the pattern. */
static bool name_matches(const char *pattern, size_t np, const char *name, size_t nn)
{
	char p[NAME_MAX + 1], s[NAME_MAX + 1];

	if (np > NAME_MAX || nn > NAME_MAX)
		return false;
	memcpy(p, pattern, np);
	memcpy(s, name, nn);
	p[np] = s[nn] = '\0';
	return fnmatch(p, s, FNM_NOESCAPE) == 0;
}

/*
 * `depth` limits the nesting of `**`, each of which tries every position: without it a pattern of many would take
 * exponential time.
 */
static bool match_glob(const char *pattern, const char *path, unsigned depth)
{
	while (*pattern == '/')
		pattern++;
	while (*path == '/')
		path++;
	if (!*pattern || !*path)
		return !*pattern && !*path;
	size_t np = strcspn(pattern, "/"), nn = strcspn(path, "/");
	if (np == 2 && strncmp(pattern, "**", 2) == 0) {
		if (!depth)
			return false;
		if (!pattern[2])
			return true;
		for (const char *rest = path; *rest; rest += strcspn(rest, "/"), rest += *rest == '/')
			if (match_glob(pattern + 2, rest, depth - 1))
				return true;
		return false;
	}
	return name_matches(pattern, np, path, nn) && match_glob(pattern + np, path + nn, depth);
}

bool glob_scan_match(const char *pattern, const char *path) { return match_glob(pattern, path, STARS_MAX); }

struct scan {
	const char *pattern;
	size_t scanned, most;
	json_t *found;
};

/* Some file systems do not report the type in directory entries. */
static bool is_folder(const struct dirent *d, const char *path)
{
	struct stat st;

	return d->d_type == DT_DIR || (d->d_type == DT_UNKNOWN && lstat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

static int scan_folder(struct scan *s, const char *folder, unsigned depth, struct err *e)
{
	DIR *dir = opendir(folder);
	int r = 0;

	/* Skip directories that we cannot read: the command runs as the same user and cannot read them either. */
	if (!dir && errno != EACCES && errno != ENOENT && errno != ENOTDIR)
		return err_field(e, "sandbox", "'%.200s' cannot be searched for '%.100s': %s", folder, s->pattern,
				 strerror(errno));
	for (struct dirent *d; dir && r == 0 && (d = readdir(dir));) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		mem_auto char *path = mem_printf("%s/%s", folder[1] ? folder : "", d->d_name);

		/* An incomplete search must fail, not end early: the files that were not found would stay visible. */
		if (++s->scanned > SCANNED_MAX || depth == DEPTH_MAX)
			r = err_field(e, "sandbox",
				      "the pattern '%.100s' has too many files to search: name directories instead",
				      s->pattern);
		else if (glob_scan_match(s->pattern, path)) {
			json_t *name = json_string(path);

			if (json_array_size(s->found) >= s->most || !name || json_array_append_new(s->found, name) < 0)
				r = err_field(e, "sandbox", "too many files match '%.100s', or a name is not UTF-8",
					      s->pattern);
		} else if (is_folder(d, path))
			r = scan_folder(s, path, depth + 1, e);
	}
	if (dir)
		closedir(dir);
	return r;
}

/* Appends the existing paths that match to `ret`, at most `most`. ERR_INVALID if the search exceeds its limits. */
static int glob_scan(const char *pattern, size_t most, json_t *ret, struct err *e)
{
	struct scan s = { .pattern = pattern, .most = most, .found = ret };
	char folder[PATH_MAX];
	size_t n = strcspn(pattern, "*?[");

	/* Rejects syntax that Codex supports and fnmatch does not: it would match fewer files here, and so hide fewer.
	 */
	unsigned stars = 0;
	if (strpbrk(pattern, "{}\\"))
		return err_field(e, "sandbox",
				 "the pattern '%.100s' has alternatives or escapes, which are not supported: write "
				 "several patterns",
				 pattern);
	for (const char *at = pattern; (at = strstr(at, "**")); at += 2)
		stars++;
	if (stars > STARS_MAX)
		return err_field(e, "sandbox", "the pattern '%.100s' has more than %u '**'", pattern, STARS_MAX);
	/* Start at the deepest directory before the first wildcard. */
	if (n >= sizeof(folder))
		return err_field(e, "sandbox", "a pattern is too long");
	memcpy(folder, pattern, n);
	folder[n] = '\0';
	char *slash = strrchr(folder, '/');
	if (!slash)
		return err_field(e, "sandbox", "a pattern is not absolute");
	slash[slash == folder] = '\0';
	return scan_folder(&s, folder, 0, e);
}

#define CHANGES_MAX 200u /* limit of added paths, since each needs a mount */

struct narrowing {
	const struct sandbox_intent *intent;
	const json_t *write_roots, *read_roots, *hidden, *private, *protected;
	json_t *read, *write, *hide; /* the changes; write: writable parts of directories that become read-only */
	size_t count;
};

/*
 * A placeholder of another sandbox does not count: it is removed with that sandbox, and the path would then be
 * unprotected here.
 */
static bool path_exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && !placeholder_is(&st);
}

static bool is_link(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

static bool has_path(const json_t *list, const char *path)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (strcmp(json_string_value(json_array_get(list, i)), path) == 0)
			return true;
	return false;
}

/* The length of the longest path in the list that contains `path`; 0 if none does. */
static size_t path_depth(const json_t *list, const char *path)
{
	size_t most = 0;

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *one = json_string_value(json_array_get(list, i));

		if (path_within(one, path) && strlen(one) > most)
			most = strlen(one);
	}
	return most;
}

static bool is_covered(const json_t *list, const char *path) { return path_depth(list, path) > 0; }

static int put_path(struct narrowing *n, json_t *list, const char *path, struct err *e)
{
	if (has_path(list, path))
		return 0;
	if (n->count++ >= CHANGES_MAX)
		return err_field(e, "sandbox", "needs more than %u paths to be covered", CHANGES_MAX);
	if (!text_utf8_valid(path, strlen(path)))
		return err_field(e, "sandbox", "a path that must be covered is not UTF-8, so it cannot be named");
	json_array_append_new(list, json_string(path));
	return 0;
}

/* The profile does not show it: a hidden or private path covers it, and no root reopens it. */
static bool is_hidden(const struct narrowing *n, const char *path)
{
	return (is_covered(n->hidden, path) || is_covered(n->private, path)) && !is_covered(n->write_roots, path) &&
	       !has_path(n->read_roots, path);
}

/* Some path below the directory is readable or writable. */
static bool holds_allowed(const struct sandbox_intent *t, const char *folder)
{
	for (size_t i = 0; i < t->count; i++) {
		enum sandbox_intent_access access = sandbox_intent_access(t, t->entry[i].path);

		if ((access == SANDBOX_INTENT_READ || access == SANDBOX_INTENT_WRITE) &&
		    strcmp(t->entry[i].path, folder) != 0 && path_within(folder, t->entry[i].path))
			return true;
	}
	return false;
}

static bool is_systems(const struct sandbox_intent *t, const char *path)
{
	/* The directories that Codex's own sandbox shows for "minimal", and those that every sandbox creates. */
	static const char *const minimal[] = { "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc" };
	static const char *const own[] = { "/dev", "/proc", "/sys", "/tmp", "/run" };

	for (size_t i = 0; t->minimal && i < countof(minimal); i++)
		if (path_within(minimal[i], path))
			return true;
	for (size_t i = 0; i < countof(own); i++)
		if (strcmp(path, own[i]) == 0)
			return true;
	return false;
}

/* Hides every entry of the directory that is not allowed. */
static int hide_rest(struct narrowing *n, const char *folder, struct err *e)
{
	DIR *dir = opendir(folder);
	int r = 0;

	if (!dir)
		return err_field(e, "sandbox", "'%.200s' cannot be listed, so what lies in it cannot be hidden",
				 folder);
	for (struct dirent *d; r == 0 && (d = readdir(dir));) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		mem_auto char *path = mem_printf("%s/%s", folder[1] ? folder : "", d->d_name);
		enum sandbox_intent_access access = sandbox_intent_access(n->intent, path);

		if (access == SANDBOX_INTENT_READ || access == SANDBOX_INTENT_WRITE || is_systems(n->intent, path) ||
		    is_hidden(n, path))
			continue;
		r = holds_allowed(n->intent, path) ? hide_rest(n, path, e) : put_path(n, n->hide, path, e);
	}
	closedir(dir);
	return r;
}

/* Makes only the named paths readable. */
static int narrow_reading(struct narrowing *n, struct err *e)
{
	const struct sandbox_intent *t = n->intent;
	enum sandbox_intent_access programs = sandbox_intent_access(t, "/usr");

	if (t->root == SANDBOX_INTENT_READ || t->root == SANDBOX_INTENT_WRITE)
		return 0;
	if (!t->minimal && programs != SANDBOX_INTENT_READ && programs != SANDBOX_INTENT_WRITE)
		return err_field(e, "sandbox",
				 "gives no access to the system's programs, without which nothing can be run here");
	for (size_t i = 0; i < json_array_size(n->read_roots); i++) {
		const char *path = json_string_value(json_array_get(n->read_roots, i));
		enum sandbox_intent_access access = sandbox_intent_access(t, path);

		if (path[1] && access != SANDBOX_INTENT_READ && access != SANDBOX_INTENT_WRITE && path_exists(path) &&
		    put_path(n, n->hide, path, e) < 0)
			return -1;
	}
	return hide_rest(n, "/", e);
}

/* Write roots that the intent does not make writable become read-only. */
static int narrow_writing(struct narrowing *n, struct err *e)
{
	for (size_t i = 0; i < json_array_size(n->write_roots); i++) {
		const char *path = json_string_value(json_array_get(n->write_roots, i));

		if (sandbox_intent_access(n->intent, path) != SANDBOX_INTENT_WRITE && put_path(n, n->read, path, e) < 0)
			return -1;
	}
	return 0;
}

/*
 * A missing path must not be created. Hiding a name inside it makes it appear as an empty read-only directory, as in
 * Codex's own sandbox: git does not take that for a repository and searches the parents, whereas a hidden file would be
 * an error.
 */
static int protect_missing(struct narrowing *n, const char *path, struct err *e)
{
	mem_auto char *inside = mem_printf("%s/nothing", path);

	return put_path(n, n->hide, inside, e);
}

static int narrow_entry(struct narrowing *n, const struct sandbox_intent_entry *en, struct err *e)
{
	enum sandbox_intent_access access = sandbox_intent_access(n->intent, en->path);
	/* With the changes so far: the deepest path decides, and our read-only paths win over the profile's roots. */
	size_t was = path_depth(n->write_roots, en->path), kept = path_depth(n->write, en->path),
	       read = path_depth(n->read, en->path);
	bool writable = (was > kept ? was : kept) > read;

	if (access != en->access)
		return 0;
	if (access == SANDBOX_INTENT_WRITE)
		return writable || !(is_covered(n->write_roots, en->path) && !is_covered(n->protected, en->path) &&
				     !is_hidden(n, en->path) && path_exists(en->path) && !is_link(en->path))
			       ? 0
			       : put_path(n, n->write, en->path, e);
	if (writable && access == SANDBOX_INTENT_DENY && is_link(en->path))
		return err_field(e, "sandbox",
				 "'%.200s' is a symbolic link in a folder that may be written, where it cannot be "
				 "hidden: name what it leads to",
				 en->path);
	if (access == SANDBOX_INTENT_READ)
		return !writable               ? 0
		       : path_exists(en->path) ? put_path(n, n->read, en->path, e)
					       : protect_missing(n, en->path, e);
	if (is_hidden(n, en->path) || (!writable && !path_exists(en->path)))
		return 0;
	if (!holds_allowed(n->intent, en->path))
		return put_path(n, n->hide, en->path, e);
	/* The directory must exist for its allowed parts, but nothing can be created in it. */
	return writable && put_path(n, n->read, en->path, e) < 0 ? -1 : hide_rest(n, en->path, e);
}

/* A glob is expanded once, before the start; files that are created later are not hidden. */
static int narrow_glob(struct narrowing *n, const char *pattern, struct err *e)
{
	json_auto_t *found = json_array();

	if (glob_scan(pattern, CHANGES_MAX, found, e) < 0)
		return -1;
	for (size_t i = 0; i < json_array_size(found); i++)
		if (put_path(n, n->hide, json_string_value(json_array_get(found, i)), e) < 0)
			return -1;
	return 0;
}

static int compare_depth(const void *a, const void *b)
{
	size_t m = strlen((*(const struct sandbox_intent_entry *const *)a)->path),
	       n = strlen((*(const struct sandbox_intent_entry *const *)b)->path);

	return m < n ? -1 : m > n;
}

/* Top down: an entry applies to everything below it until a deeper one overrides it. */
static int narrow_entries(struct narrowing *n, struct err *e)
{
	const struct sandbox_intent *t = n->intent;
	mem_auto const struct sandbox_intent_entry **sorted = mem_zalloc(t->count + 1, sizeof(*sorted));

	for (size_t i = 0; i < t->count; i++)
		sorted[i] = &t->entry[i];
	qsort(sorted, t->count, sizeof(*sorted), compare_depth);
	for (size_t i = 0; i < t->count; i++)
		if (narrow_entry(n, sorted[i], e) < 0)
			return -1;
	return 0;
}

int sandbox_intent_narrow(const struct sandbox_intent *t, const json_t *profile, json_t *sandbox, struct err *e)
{
	struct narrowing n = {
		.intent = t,
		.write_roots = json_object_get(profile, "writeRoots"),
		.read_roots = json_object_get(profile, "readRoots"),
		.hidden = json_object_get(profile, "hidden"),
		.private = json_object_get(profile, "private"),
		.protected = json_object_get(profile, "protected"),
		.read = json_array(),
		.write = json_array(),
		.hide = json_array(),
	};
	int r = 0;

	if (!t->network)
		json_object_set_new(sandbox, "network", json_string("none"));
	if (t->restricted) {
		r = narrow_writing(&n, e);
		if (r == 0)
			r = narrow_entries(&n, e);
		for (size_t i = 0; r == 0 && i < t->nglobs; i++)
			r = narrow_glob(&n, t->glob[i], e);
		if (r == 0)
			r = narrow_reading(&n, e);
	}
	json_object_set_new(sandbox, "readRoots", n.read);
	json_object_set_new(sandbox, "hidden", n.hide);
	if (json_array_size(n.write))
		json_object_set(sandbox, "writeRoots", n.write);
	json_decref(n.write);
	return r;
}

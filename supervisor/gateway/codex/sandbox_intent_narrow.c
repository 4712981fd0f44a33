/*
 * Expresses an intent as changes to a profile, each of which removes access (sandbox_intent.h). It reads the host's
 * directories as the gateway's user, only to find out which names exist.
 */

#include "supervisor/gateway/codex/sandbox_intent.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "runtime/base/text.h"
#include "sandbox/placeholder.h"
#include "supervisor/gateway/codex/glob_scan.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

/* With the changes so far: the deepest path decides, and our read-only paths win over the profile's roots. */
static bool is_writable(const struct narrowing *n, const char *path)
{
	size_t was = path_depth(n->write_roots, path), kept = path_depth(n->write, path),
	       read = path_depth(n->read, path);

	return (was > kept ? was : kept) > read;
}

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

/* The path was writable before a parent became read-only. Protected paths were not; missing paths cannot be mounted. */
static bool can_stay_writable(const struct narrowing *n, const char *path)
{
	return is_covered(n->write_roots, path) && !is_covered(n->protected, path) && !is_hidden(n, path) &&
	       path_exists(path) && !is_link(path);
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
	bool writable = is_writable(n, en->path);

	if (access != en->access)
		return 0;
	if (access == SANDBOX_INTENT_WRITE)
		return writable || !can_stay_writable(n, en->path) ? 0 : put_path(n, n->write, en->path, e);
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

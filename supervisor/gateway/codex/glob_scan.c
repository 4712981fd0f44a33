#include "supervisor/gateway/codex/glob_scan.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LOOKED_AT_MAX 50000u
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

/* Rejects syntax that Codex supports and fnmatch does not: it would match fewer files here, and so hide fewer. */
static int check_pattern(const char *pattern, struct err *e)
{
	unsigned stars = 0;

	if (strpbrk(pattern, "{}\\"))
		return err_field(e, "sandbox",
				 "the pattern '%.100s' has alternatives or escapes, which are not known here: write "
				 "several patterns",
				 pattern);
	for (const char *at = pattern; (at = strstr(at, "**")); at += 2)
		stars++;
	if (stars > STARS_MAX)
		return err_field(e, "sandbox", "the pattern '%.100s' has more than %u '**'", pattern, STARS_MAX);
	return 0;
}

struct scan {
	const char *pattern;
	size_t looked_at, most;
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
		return err_field(e, "sandbox", "'%.200s' cannot be looked through for '%.100s': %s", folder, s->pattern,
				 strerror(errno));
	for (struct dirent *d; dir && r == 0 && (d = readdir(dir));) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		mem_auto char *path = mem_printf("%s/%s", folder[1] ? folder : "", d->d_name);

		if (++s->looked_at > LOOKED_AT_MAX || depth == DEPTH_MAX)
			r = err_field(e, "sandbox",
				      "the pattern '%.100s' has too much to look through: name folders instead",
				      s->pattern);
		else if (glob_scan_match(s->pattern, path)) {
			json_t *name = json_string(path);

			if (json_array_size(s->found) >= s->most || !name || json_array_append_new(s->found, name) < 0)
				r = err_field(e, "sandbox",
					      "too many files match '%.100s', or their names cannot be told",
					      s->pattern);
		} else if (is_folder(d, path))
			r = scan_folder(s, path, depth + 1, e);
	}
	if (dir)
		closedir(dir);
	return r;
}

int glob_scan(const char *pattern, size_t most, json_t *ret, struct err *e)
{
	struct scan s = { .pattern = pattern, .most = most, .found = ret };
	char folder[PATH_MAX];
	size_t n = strcspn(pattern, "*?[");

	if (check_pattern(pattern, e) < 0)
		return -1;
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

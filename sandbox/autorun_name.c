/* Recognises autorun files by their names alone, where the comparison (autorun.h) did not reach. */

#include "sandbox/autorun.h"

#include "runtime/base/mem.h"

#include <string.h>
#include <strings.h>

enum kind { KIND_FILE, KIND_TREE };

struct row {
	enum kind kind;
	const char *path;
};

static const struct row git_rows[] = {
#define AUTORUN_GIT(kind, path, program, what) { KIND_##kind, path },
#include "sandbox/autorun.def"
#undef AUTORUN_GIT
};

static const struct row rows[] = {
#define AUTORUN(kind, path, program, what) { KIND_##kind, path },
#include "sandbox/autorun.def"
#undef AUTORUN
};

/* Git runs hooks by these names only, in `hooks` of a git directory and where core.hooksPath says (githooks(5)). */
static const char *const hooks[] = {
	"applypatch-msg",
	"commit-msg",
	"fsmonitor-watchman",
	"p4-changelist",
	"p4-post-changelist",
	"p4-pre-submit",
	"p4-prepare-changelist",
	"post-applypatch",
	"post-checkout",
	"post-commit",
	"post-index-change",
	"post-merge",
	"post-receive",
	"post-rewrite",
	"post-update",
	"pre-applypatch",
	"pre-auto-gc",
	"pre-commit",
	"pre-merge-commit",
	"pre-push",
	"pre-rebase",
	"pre-receive",
	"prepare-commit-msg",
	"proc-receive",
	"push-to-checkout",
	"reference-transaction",
	"sendemail-validate",
	"update",
};

const char *autorun_hook_name(size_t i) { return i < countof(hooks) ? hooks[i] : NULL; }

static bool is_hook(const char *name)
{
	for (size_t i = 0; i < countof(hooks); i++)
		if (strcasecmp(hooks[i], name) == 0)
			return true;
	return false;
}

static size_t count_slashes(const char *rest)
{
	size_t n = 0;

	while ((rest = strchr(rest, '/'))) {
		rest += strspn(rest, "/");
		n++;
	}
	return n;
}

/* Whether the rest of a path is the row's, or in its folder. */
static bool row_matches(const struct row *r, const char *rest)
{
	size_t n = strlen(r->path), len = strlen(rest);

	if (r->path[0] == '*')
		return !strchr(rest, '/') && len >= n && strcasecmp(rest + len - (n - 1), r->path + 1) == 0;
	return strncasecmp(rest, r->path, n) == 0 && (!rest[n] || (r->kind == KIND_TREE && rest[n] == '/'));
}

static bool any_matches(const struct row *r, size_t n, const char *rest)
{
	for (size_t i = 0; i < n; i++)
		if (row_matches(&r[i], rest))
			return true;
	return false;
}

bool autorun_name_matches(const char *path, autorun_is_git_fn is_git, void *ctx)
{
	const char *name = strrchr(path, '/');
	bool in_git = false;

	if (is_hook(name ? name + 1 : path))
		return true;
	for (const char *rest = path + strspn(path, "/"); *rest;) {
		size_t n = strcspn(rest, "/");

		if (any_matches(rows, countof(rows), rest) ||
		    (any_matches(git_rows, countof(git_rows), rest) && (in_git || is_git(ctx, count_slashes(rest)))))
			return true;
		in_git |= n == 4 && strncasecmp(rest, ".git", 4) == 0;
		rest += n + strspn(rest + n, "/");
	}
	return false;
}

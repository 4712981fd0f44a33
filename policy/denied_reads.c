#include "policy/denied_reads.h"

#include "runtime/base/buf.h"
#include "runtime/base/path.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

struct denied_reads {
	struct buf *ret;
	const char *workspace;
	size_t count;
};

static void add_path(struct denied_reads *d, const char *base, const char *name, size_t n)
{
	char whole[PATH_MAX], path[PATH_MAX];

	/* There can be no such file. */
	for (size_t i = 0, length = 0; i < n; i++) {
		length = name[i] == '/' ? 0 : length + 1;
		if (length > NAME_MAX)
			return;
	}
	if (!base || (size_t)snprintf(whole, sizeof whole, "%s/%.*s", base, (int)n, name) >= sizeof whole ||
	    path_clean(whole, path, NULL) < 0)
		return;
	if (!path_within(d->workspace, path) || strcmp(d->workspace, path) == 0 || buf_has_text(d->ret, path))
		return;
	if (d->count++ < DENIED_READS_MAX)
		buf_append(d->ret, path, strlen(path) + 1);
}

/* Everything below a match matches: a pattern that ends in a slash and stars is the folder. */
static void add_rule(struct denied_reads *d, const struct policy_rule *r, const struct rule_base_paths *bases)
{
	const bool deep = r->base == RULE_ANYWHERE || strncmp(r->pattern, "**/", 3) == 0;
	const char *name = strncmp(r->pattern, "**/", 3) == 0 ? r->pattern + 3 : r->pattern;
	size_t n = strlen(name), before = n;

	while (before && name[before - 1] == '*')
		before--;
	if (before < n && before && name[before - 1] == '/')
		n = before - 1;
	for (size_t i = 0; i < n; i++)
		if (strchr("*?[", name[i]))
			return;
	if (r->base != RULE_ANYWHERE)
		add_path(d, rule_base(r, bases), name, n);
	if (deep) {
		add_path(d, bases->workspace, name, n);
		add_path(d, bases->cwd, name, n);
	}
}

bool policy_denied_reads(const struct policy_rules *s, const struct rule_base_paths *bases, struct buf *ret)
{
	struct denied_reads d = { .ret = ret, .workspace = bases->workspace };

	if (!s || !d.workspace || !*d.workspace)
		return true;
	for (size_t i = 0; i < s->nother[RULE_READ] && d.count <= DENIED_READS_MAX; i++) {
		const struct policy_rule *r = &s->rule[s->other[RULE_READ][i]];

		if (r->effect == RULE_DENY && r->pattern)
			add_rule(&d, r, bases);
	}
	return d.count <= DENIED_READS_MAX;
}

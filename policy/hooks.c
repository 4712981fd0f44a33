/* Hook points, and the selection of hooks. hooks_file.c parses them. */

#include "policy/hooks.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"

#include <string.h>

static const struct {
	const char *name, *event;
	enum { TOOL, SOURCE, NOTHING } matched;
	bool closed;
} points[HOOK_POINTS] = {
#define HOOK_POINT(NAME, name, event, matched, closed) [HOOK_##NAME] = { name, event, matched, closed },
#include "policy/hook_points.def"
#undef HOOK_POINT
};

const char *hook_point_name(enum hook_point p) { return points[p].name; }

const char *hook_point_event(enum hook_point p) { return points[p].event; }

static bool hook_point_closed(enum hook_point p) { return points[p].closed; }

int hook_point_find(const char *name)
{
	for (int i = 0; i < HOOK_POINTS; i++)
		if (strcmp(points[i].name, name) == 0 || strcmp(points[i].event, name) == 0)
			return i;
	return -1;
}

bool policy_hook_closed(const struct policy_hook *h)
{
	return h->on_failure == HOOK_FAILS_AS_USUAL ? hook_point_closed(h->point) : h->on_failure == HOOK_FAILS_CLOSED;
}

void policy_hook_text(const struct policy_hook *h, struct buf *out)
{
	buf_str(out, hook_point_event(h->point));
	if (h->matcher)
		buf_printf(out, "(%s)", h->matcher);
	buf_printf(out, " %.200s", h->command);
	for (size_t i = 0; i < h->nargs && out->len < 400; i++)
		buf_printf(out, " %.100s", h->arg[i]);
}

/* ---- selecting ---- */

static bool is_one_of(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *s = list;;) {
		size_t lead = strspn(s, " |,"), len = strcspn(s + lead, "|,"), cut = len;

		s += lead;
		while (cut && s[cut - 1] == ' ')
			cut--;
		if (cut == n && cut && memcmp(s, name, n) == 0)
			return true;
		s += len;
		if (!*s)
			return false;
	}
}

/* Points that have nothing to compare with a matcher ignore it. */
static bool hook_matches(const struct policy_hook *h, const struct hook_query *q)
{
	if (!h->matcher || points[h->point].matched == NOTHING)
		return true;
	for (size_t i = 0; i < q->nnames; i++)
		if (h->exact ? is_one_of(h->matcher, q->name[i]) : regexec(&h->regex, q->name[i], 0, NULL, 0) == 0)
			return true;
	return false;
}

/* Matched like a deny rule: generously, so that a hook also sees what cannot be known. */
static bool condition_matches(const struct policy_hook *h, const struct hook_query *q)
{
	struct rules_verdict v = { .command = -1 };

	if (!h->only)
		return true;
	if (!q->use)
		return false;
	policy_rules_ask(&h->rule, q->use, &v);
	return v.effect != RULE_NONE || v.unknown;
}

static bool strings_equal(char *const *a, size_t na, char *const *b, size_t nb)
{
	if (na != nb)
		return false;
	for (size_t i = 0; i < na; i++)
		if (strcmp(a[i], b[i]) != 0)
			return false;
	return true;
}

/* Whether both would run the same thing in the same way. */
static bool runs_equal(const struct policy_hook *a, const struct policy_hook *b)
{
	if (!a->url != !b->url || (a->url && (strcmp(a->url, b->url) != 0 || strcmp(a->headers, b->headers) != 0)))
		return false;
	return strcmp(a->command, b->command) == 0 && a->has_args == b->has_args &&
	       strings_equal(a->arg, a->nargs, b->arg, b->nargs) && strings_equal(a->env, a->nenv, b->env, b->nenv) &&
	       strcmp(a->profile, b->profile) == 0 && a->shell == b->shell && a->async == b->async;
}

size_t policy_hooks_select(const struct policy_hooks *s, const struct hook_query *q,
			   const struct policy_hook *ret[HOOKS_SELECTED_MAX])
{
	size_t n = 0;

	if (!s || !s->at[q->point])
		return 0;
	for (size_t i = 0; i < s->count && n < HOOKS_SELECTED_MAX; i++) {
		const struct policy_hook *h = s->hook[i];
		bool known = false;

		if (h->point != q->point || !hook_matches(h, q) || !condition_matches(h, q))
			continue;
		for (size_t k = 0; k < n; k++)
			/*
			 * A duplicate is skipped only if the hook already selected is at least as strict and of a layer
			 * at least as important.
			 */
			known |= runs_equal(ret[k], h) && policy_hook_closed(ret[k]) >= policy_hook_closed(h) &&
				 ret[k]->layer <= h->layer;
		if (!known)
			ret[n++] = h;
	}
	return n;
}

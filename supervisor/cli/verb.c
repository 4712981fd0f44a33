#include "supervisor/cli/verb.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"

const struct verb verbs[] = {
#define VERB(name, flags, usage, summary, details) { #name, #name, flags, usage, summary, details, cmd_##name },
#define VERB_AS(key, name, flags, usage, summary, details) { #key, name, flags, usage, summary, details, cmd_##key },
#include "supervisor/cli/verbs.def"
#undef VERB
#undef VERB_AS
};
const size_t nverbs = countof(verbs);

const struct option_row option_rows[OPT_COUNT] = {
#define OPTION(verb, name, letter, longname, arg, help) { #verb, letter, longname, arg, help },
#include "supervisor/cli/options.def"
#undef OPTION
};

const struct verb *verb_find(const char *name)
{
	for (size_t i = 0; i < nverbs; i++)
		if (strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	return NULL;
}

#define NAME_MAX_LEN 31

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Levenshtein's distance of two short names; names that are too long are far away. */
static size_t distance(const char *a, const char *b)
{
	size_t na = strlen(a), nb = strlen(b), row[NAME_MAX_LEN + 1];

	if (na > NAME_MAX_LEN || nb > NAME_MAX_LEN)
		return NAME_MAX_LEN;
	for (size_t j = 0; j <= nb; j++)
		row[j] = j;
	for (size_t i = 1; i <= na; i++) {
		size_t corner = row[0];

		row[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			size_t substituted = corner + (a[i - 1] != b[j - 1]);

			corner = row[j];
			row[j] = least(substituted, least(row[j], row[j - 1]) + 1);
		}
	}
	return row[nb];
}

/* Keeps the nearer of two candidates; nearer than a third of the name, or it is not meant. */
static void consider(const char *typed, const char *candidate, const char **best, size_t *best_distance)
{
	size_t d = distance(typed, candidate), most = strlen(candidate) / 3 + 1;

	if (strlen(typed) >= 3 && strncmp(candidate, typed, strlen(typed)) == 0)
		d = 1;
	if (d <= most && d < *best_distance) {
		*best = candidate;
		*best_distance = d;
	}
}

const char *verb_nearest(const char *name)
{
	const char *best = NULL;
	size_t d = NAME_MAX_LEN;

	for (size_t i = 0; i < nverbs; i++)
		consider(name, verbs[i].name, &best, &d);
	return best;
}

const char *verb_nearest_option(const struct verb *v, const char *name)
{
	const char *best = NULL;
	size_t d = NAME_MAX_LEN;

	for (size_t i = 0; i < OPT_COUNT; i++)
		if (strcmp(option_rows[i].verb, v->key) == 0)
			consider(name, option_rows[i].name, &best, &d);
	return best;
}

void verb_usage(const struct verb *v, struct buf *out)
{
	buf_printf(out, "usage: bailiff %s%s%s\n", v->name, v->usage[0] ? " " : "", v->usage);
}

void verb_help(const struct verb *v, struct buf *out)
{
	bool any = false;

	verb_usage(v, out);
	buf_printf(out, "\n%s\n", v->summary);
	if (v->details)
		buf_printf(out, "\n%s\n", v->details);
	for (size_t i = 0; i < OPT_COUNT; i++) {
		const struct option_row *o = &option_rows[i];
		char left[64];

		if (strcmp(o->verb, v->key) != 0)
			continue;
		if (!any)
			buf_str(out, "\noptions:\n");
		any = true;
		snprintf(left, sizeof(left), "--%s%s%s", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
		if (o->letter)
			buf_printf(out, "  -%c, %-22s %s\n", o->letter, left, o->help);
		else
			buf_printf(out, "      %-22s %s\n", left, o->help);
	}
}

void verb_overview(struct buf *out)
{
	buf_str(out, "usage: bailiff VERB [options] [arguments]\n\n");
	for (size_t i = 0; i < nverbs; i++)
		buf_printf(out, "  %-11s %s\n", verbs[i].name, verbs[i].summary);
	buf_str(out, "\nbailiff help VERB explains one. PROC and other ids may be shortened to any unique prefix.\n");
}

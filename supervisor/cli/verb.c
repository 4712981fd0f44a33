#include "supervisor/cli/verb.h"

#include "runtime/base/buf.h"
#include "runtime/base/did_you_mean.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"

#include <string.h>

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

/* Typed in part, it is meant; else the nearest. */
static void try_name(struct did_you_mean *n, const char *candidate)
{
	if (n->distance > 1 && strlen(n->word) >= 3 && strncmp(candidate, n->word, strlen(n->word)) == 0) {
		n->best = candidate;
		n->distance = 1;
	}
	did_you_mean_try(n, candidate);
}

const char *verb_nearest(const char *name)
{
	struct did_you_mean near = did_you_mean_for(name);

	for (size_t i = 0; i < nverbs; i++)
		try_name(&near, verbs[i].name);
	return near.best;
}

const char *verb_nearest_option(const struct verb *v, const char *name)
{
	struct did_you_mean near = did_you_mean_for(name);

	for (size_t i = 0; i < OPT_COUNT; i++)
		if (strcmp(option_rows[i].verb, v->key) == 0)
			try_name(&near, option_rows[i].name);
	return near.best;
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

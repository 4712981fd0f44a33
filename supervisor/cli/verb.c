#include "supervisor/cli/verb.h"

#include "runtime/base/buf.h"
#include "runtime/base/did_you_mean.h"

#include <string.h>

const struct opt_row option_rows[OPT_COUNT] = {
#define OPTION(verb, name, letter, longname, arg, help) { #verb, letter, longname, arg, help },
#include "supervisor/cli/options.def"
#undef OPTION
};

struct opt_table verb_options(const struct verb *v)
{
	return (struct opt_table){ option_rows, OPT_COUNT, v->key, (v->flags & VERB_STOP) != 0 };
}

const struct verb *verb_find(const struct verb_table *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->rows[i].name, name) == 0)
			return &t->rows[i];
	return NULL;
}

const char *verb_nearest(const struct verb_table *t, const char *name)
{
	struct did_you_mean near = did_you_mean_for(name);

	for (size_t i = 0; i < t->n; i++)
		did_you_mean_try_prefix(&near, t->rows[i].name);
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
		const struct opt_row *o = &option_rows[i];
		char left[64];

		if (strcmp(o->group, v->key) != 0)
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

void verb_overview(const struct verb_table *t, struct buf *out)
{
	buf_str(out, "usage: bailiff VERB [options] [arguments]\n\n");
	for (size_t i = 0; i < t->n; i++)
		buf_printf(out, "  %-11s %s\n", t->rows[i].name, t->rows[i].summary);
	buf_str(out, "\nbailiff help VERB explains one. PROC and other ids may be shortened to any unique prefix.\n");
}

/*
 * Parsing is table-driven and order-preserving: opts.given lists the options as they were given, so a repeated
 * option keeps all its values and the last one wins for opts_get. Nothing is copied except the two arrays.
 */

#include "runtime/base/opts.h"

#include "runtime/base/did_you_mean.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"

void opts_done(struct opts *o)
{
	free(o->given);
	free(o->args);
	*o = (struct opts){ 0 };
}

bool opts_has(const struct opts *o, int option)
{
	for (size_t i = 0; i < o->ngiven; i++)
		if (o->given[i].option == option)
			return true;
	return false;
}

const char *opts_get(const struct opts *o, int option)
{
	for (size_t i = o->ngiven; i-- > 0;)
		if (o->given[i].option == option)
			return o->given[i].value;
	return NULL;
}

static void add_given(struct opts *o, int option, const char *value)
{
	o->given = mem_realloc(o->given, (o->ngiven + 1) * sizeof(*o->given));
	o->given[o->ngiven++] = (struct opt_given){ .option = option, .value = value };
}

static bool is_option(const struct opt_table *t, size_t i)
{
	return !t->group || strcmp(t->rows[i].group, t->group) == 0;
}

static int find_long(const struct opt_table *t, const char *name, size_t n)
{
	for (size_t i = 0; i < t->n; i++)
		if (strlen(t->rows[i].name) == n && memcmp(t->rows[i].name, name, n) == 0 && is_option(t, i))
			return (int)i;
	return -1;
}

static int find_letter(const struct opt_table *t, char letter)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->rows[i].letter == letter && is_option(t, i))
			return (int)i;
	return -1;
}

const char *opts_nearest(const struct opt_table *t, const char *name)
{
	struct did_you_mean near = did_you_mean_for(name);

	for (size_t i = 0; i < t->n; i++)
		if (is_option(t, i))
			did_you_mean_try_prefix(&near, t->rows[i].name);
	return near.best;
}

static int unknown_long(const struct opt_table *t, const char *text, size_t n, struct err *e)
{
	mem_auto char *name = mem_strndup(text, n);
	mem_auto char *field = mem_printf("--%s", name);
	const char *near = opts_nearest(t, name);

	if (near)
		return err_field(e, field, "unknown option '%s'; did you mean --%s?", field, near);
	return err_field(e, field, "unknown option '%s'", field);
}

/* The option's value is the next argument when `inline_value` is NULL. *at stays on the last argument used. */
static int read_value(const char *shown, const char *inline_value, int argc, char *const *argv, int *at,
		      const char **ret, struct err *e)
{
	if (inline_value) {
		*ret = inline_value;
		return 0;
	}
	if (*at + 1 >= argc)
		return err_field(e, shown, "option '%s' needs a value", shown);
	*ret = argv[++*at];
	return 0;
}

/* --name, --name=VALUE or --name VALUE. */
static int parse_long(const struct opt_table *t, int argc, char *const *argv, int *at, struct opts *o, struct err *e)
{
	const char *text = argv[*at] + 2, *equals = strchr(text, '='), *value = NULL;
	size_t n = equals ? (size_t)(equals - text) : strlen(text);
	int option = find_long(t, text, n);
	char shown[64];

	if (option < 0) {
		if (!equals && strcmp(text, "help") == 0) {
			o->help = true;
			return 0;
		}
		return unknown_long(t, text, n, e);
	}
	snprintf(shown, sizeof(shown), "--%s", t->rows[option].name);
	if (!t->rows[option].arg) {
		if (equals)
			return err_field(e, shown, "option '%s' takes no value", shown);
	} else if (read_value(shown, equals ? equals + 1 : NULL, argc, argv, at, &value, e) < 0) {
		return -1;
	}
	add_given(o, option, value);
	return 0;
}

/* The rest of the word is the value of the first letter that takes one. */
static int parse_letters(const struct opt_table *t, int argc, char *const *argv, int *at, struct opts *o, struct err *e)
{
	for (const char *p = argv[*at] + 1; *p; p++) {
		int option = find_letter(t, *p);
		char shown[3] = { '-', *p, 0 };
		const char *value = NULL;

		/* A table may use -h for an option of its own; only then is it not help. */
		if (option < 0 && *p == 'h') {
			o->help = true;
			continue;
		}
		if (option < 0)
			return err_field(e, shown, "unknown option '%s'", shown);
		if (!t->rows[option].arg) {
			add_given(o, option, NULL);
			continue;
		}
		if (read_value(shown, p[1] ? p + 1 : NULL, argc, argv, at, &value, e) < 0)
			return -1;
		add_given(o, option, value);
		return 0;
	}
	return 0;
}

/* On failure everything is freed and *ret untouched. */
int opts_parse(const struct opt_table *t, int argc, char *const *argv, struct opts *ret, struct err *e)
{
	struct opts o = { .args = mem_zalloc((size_t)argc + 1, sizeof(char *)) };
	bool only_args = false;

	for (int i = 0; i < argc; i++) {
		const char *a = argv[i];
		int r = 0;

		if (only_args || a[0] != '-' || a[1] == 0) {
			o.args[o.nargs++] = a;
			only_args |= t->stop;
		} else if (strcmp(a, "--") == 0) {
			only_args = true;
		} else if (a[1] == '-') {
			r = parse_long(t, argc, argv, &i, &o, e);
		} else {
			r = parse_letters(t, argc, argv, &i, &o, e);
		}
		if (r < 0) {
			opts_done(&o);
			return -1;
		}
	}
	*ret = o;
	return 0;
}

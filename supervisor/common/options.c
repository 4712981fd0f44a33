#include "supervisor/common/options.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/opts.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct opt_row rows[] = {
#define OPTION(field, letter, name, value, help) { NULL, letter, name, value, help },
#include "supervisor/common/options.def"
#undef OPTION
};

/* Where each row's value is stored; in the order of `rows`. */
static const size_t offsets[] = {
#define OPTION(field, letter, name, value, help) offsetof(struct options, field),
#include "supervisor/common/options.def"
#undef OPTION
};

int options_parse(int argc, char *const *argv, struct options *ret, struct err *e)
{
	const struct opt_table table = { rows, countof(rows) };
	struct options o = { 0 };
	struct err why = ERR_INIT;
	struct opts given;
	int r = 0;

	if (opts_parse(&table, argc > 0 ? argc - 1 : 0, argv + (argc > 0), &given, &why) < 0)
		return err_set(e, ERR_INVALID, "%s (bailiffd --help lists the options)", why.message);
	for (size_t i = 0; i < given.ngiven; i++) {
		const char **at = (const char **)((char *)&o + offsets[given.given[i].option]);
		const char *value = given.given[i].value ? given.given[i].value : "";

		/* The one option that may be repeated; the list lives as long as the process. */
		*at = at == &o.label && o.label ? mem_printf("%s,%s", o.label, value) : value;
	}
	if (given.nargs)
		r = err_set(e, ERR_INVALID,
			    "unexpected argument '%s' (bailiffd takes only options: see bailiffd --help)",
			    given.args[0]);
	else
		*ret = o;
	opts_done(&given);
	return r;
}

void options_help(FILE *out)
{
	fputs("usage: bailiffd [options]\n\nThe supervisor: runs commands in sandboxes and keeps the facts about "
	      "them.\n\n",
	      out);
	for (size_t i = 0; i < countof(rows); i++) {
		const struct opt_row *r = &rows[i];
		char left[64], letter[8] = "    ";
		if (!r->help)
			continue;
		if (r->letter)
			snprintf(letter, sizeof letter, "-%c, ", r->letter);
		snprintf(left, sizeof left, "%s--%s%s%s", letter, r->name, r->arg ? " " : "", r->arg ? r->arg : "");
		fprintf(out, "  %-28s %s\n", left, r->help);
	}
	fputs("\nSIGTERM ends it and what it runs; SIGHUP reloads; SIGUSR2 replaces the program under running "
	      "commands.\n",
	      out);
}

int options_number(const char *name, const char *text, uint64_t most, uint64_t *ret, struct err *e)
{
	char *end;
	errno = 0;
	unsigned long long v = strtoull(text, &end, 10);
	if (errno || *end || end == text || text[0] < '0' || text[0] > '9' || v > most)
		return err_set(e, ERR_INVALID, "--%s: '%s' is not a number up to %llu", name, text,
			       (unsigned long long)most);
	*ret = v;
	return 0;
}

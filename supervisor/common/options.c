#include "supervisor/common/options.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct row {
	size_t offset;
	char letter;
	const char *name;
	const char *value;
	const char *help;
} rows[] = {
#define OPTION(field, letter, name, value, help) { offsetof(struct options, field), letter, name, value, help },
#include "supervisor/common/options.def"
#undef OPTION
};

/* --name or --name=…; *ret_value is behind the '='. */
static const struct row *find_long(const char *arg, const char **ret_value)
{
	size_t n = strcspn(arg, "=");
	for (size_t i = 0; i < countof(rows); i++) {
		if (strlen(rows[i].name) != n || strncmp(rows[i].name, arg, n) != 0)
			continue;
		*ret_value = arg[n] ? arg + n + 1 : NULL;
		return &rows[i];
	}
	return NULL;
}

static const struct row *find_letter(const char *arg)
{
	for (size_t i = 0; i < countof(rows); i++) {
		if (rows[i].letter && arg[0] == rows[i].letter && !arg[1])
			return &rows[i];
	}
	return NULL;
}

static int one(char *const **argv, struct options *o, struct err *e)
{
	const char *arg = *(*argv)++, *value = NULL;
	bool is_long = arg[0] == '-' && arg[1] == '-' && arg[2];
	if (arg[0] != '-' || !arg[1] || strcmp(arg, "--") == 0)
		return err_set(e, ERR_INVALID, "%s: unexpected argument; see bailiffd --help", arg);
	const struct row *r = is_long ? find_long(arg + 2, &value) : find_letter(arg + 1);
	if (!r)
		return err_set(e, ERR_INVALID, "%s: unknown option; see bailiffd --help", arg);
	if (!r->value && value)
		return err_set(e, ERR_INVALID, "--%s: takes no value; see bailiffd --help", r->name);
	if (r->value && !value && !(value = *(*argv)++)) {
		(*argv)--;
		return err_set(e, ERR_INVALID, "--%s: needs %s; see bailiffd --help", r->name, r->value);
	}
	*(const char **)((char *)o + r->offset) = value ? value : "";
	return 0;
}

int options_parse(int argc, char *const *argv, struct options *ret, struct err *e)
{
	struct options o = { 0 };
	for (char *const *p = argv + (argc > 0); *p;) {
		if (one(&p, &o, e) < 0)
			return -1;
	}
	*ret = o;
	return 0;
}

void options_help(FILE *out)
{
	fputs("usage: bailiffd [options]\n\nThe supervisor: runs commands in sandboxes and keeps the facts about "
	      "them.\n\n",
	      out);
	for (size_t i = 0; i < countof(rows); i++) {
		const struct row *r = &rows[i];
		char left[64], letter[8] = "    ";
		if (!r->help)
			continue;
		if (r->letter)
			snprintf(letter, sizeof letter, "-%c, ", r->letter);
		snprintf(left, sizeof left, "%s--%s%s%s", letter, r->name, r->value ? " " : "",
			 r->value ? r->value : "");
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

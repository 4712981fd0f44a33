/*
 * Options of shells. A shell's own parser is followed exactly, because the word after the options is code: a letter
 * that is missed would make the analysis read another word as the text that runs.
 */

#include "policy/shell_modes.h"

#include "runtime/base/mem.h"

#include <string.h>

static const struct {
	char letter;
	const char *name;
} set_modes[] = {
#define SET_MODE(letter, name) { letter, name },
#define SHOPT_MODE(name)
#include "policy/shell_modes.def"
#undef SET_MODE
#undef SHOPT_MODE
};

static const char *const shopt_modes[] = {
#define SET_MODE(letter, name)
#define SHOPT_MODE(name) name,
#include "policy/shell_modes.def"
#undef SET_MODE
#undef SHOPT_MODE
};

/* Whether the mode of `set`, by letter or name, is in the table. */
static bool set_knows(char letter, const char *name)
{
	for (size_t i = 0; i < countof(set_modes); i++)
		if (name ? strcmp(set_modes[i].name, name) == 0 : letter && set_modes[i].letter == letter)
			return true;
	return false;
}

static bool shopt_knows(const char *name)
{
	for (size_t i = 0; i < countof(shopt_modes); i++)
		if (strcmp(shopt_modes[i], name) == 0)
			return true;
	return false;
}

/* Takes the word that belongs to an o or O of a cluster. */
static void take_mode(const struct command_word *word, size_t count, char letter, struct shell_flags *f)
{
	if (f->next >= count)
		return; /* without a word the modes are only printed */
	const char *name = word[f->next].value;
	f->open |= word[f->next].many;
	f->next++;
	f->posix |= name && letter == 'o' && strcmp(name, "posix") == 0;
	f->strange |= !name || !(letter == 'o' ? set_knows(0, name) : shopt_knows(name));
}

/* Parses clusters up to the first operand, - or --. `invocation`: the options of a shell itself, not of `set`. */
static void read_clusters(const struct command_word *word, size_t count, bool invocation, struct shell_flags *f)
{
	while (f->next < count) {
		const struct command_word *w = &word[f->next];

		if (!w->value && (w->many || !w->lead || strchr("-+", *w->plain)))
			f->open = true;
		if (!w->value || !strchr("-+", *w->value) || !*w->value)
			return;
		f->next++;
		if (strcmp(w->value, "-") == 0 || strcmp(w->value, "--") == 0)
			return;
		for (const char *s = w->value + 1; *s; s++) {
			if (*s == 'o' || (*s == 'O' && invocation))
				take_mode(word, count, *s, f);
			else if (invocation && *s == 'c')
				f->command = true;
			else if (invocation && *s == 's')
				f->from_stdin = true;
			else if (invocation && *s == 'i')
				f->sources = true;
			else
				f->strange |= !set_knows(*s, NULL) && !(invocation && strchr("lrD", *s));
		}
	}
}

/* bash parses its long options first, with one dash or two; other shells parse -rcfile as a cluster. */
static void read_long(const struct command_word *word, size_t count, bool bash, struct shell_flags *f)
{
	static const char plain[] = "debugger|dump-po-strings|dump-strings|login|noediting|noprofile|norc|pretty-print|"
				    "restricted|verbose|protected|wordexp|debug";

	for (; f->next < count && word[f->next].value && word[f->next].value[0] == '-'; f->next++) {
		const char *s = word[f->next].value + 1;
		const bool two = *s == '-';

		s += two;
		if (args_named(s, "rcfile|init-file")) {
			f->sources = true;
			f->next += f->next + 1 < count;
		} else if (args_named(s, "version|help")) {
			f->prints = true;
		} else if (strcmp(s, "posix") == 0) {
			f->posix = true;
		} else if (!*s || !args_named(s, plain)) {
			return;
		}
		f->strange |= !bash && !two;
	}
}

void shell_flags_of_shell(const struct command_word *word, size_t count, struct shell_flags *ret)
{
	const char *name = args_basename(word[0].value);

	*ret = (struct shell_flags){ .next = 1 };
	read_long(word, count, args_named(name, "bash|rbash"), ret);
	read_clusters(word, count, true, ret);
	/* In other shells -oc is -o with the value c. */
	for (size_t i = 1; i < ret->next && !args_named(name, "sh|bash|rbash|dash|ash"); i++)
		if (word[i].value && strchr("-+", word[i].value[0]) && word[i].value[strcspn(word[i].value, "o")] &&
		    word[i].value[strcspn(word[i].value, "o") + 1])
			ret->strange = true;
}

/* shopt without -s or -u only prints; with -o its names are those of `set`. */
static bool shopt_is_known(const struct command_word *word, size_t count)
{
	bool of_set = false, changes = false, known = true;
	size_t i = 1;

	for (; i < count && word[i].value && word[i].value[0] == '-' && word[i].value[1]; i++) {
		of_set |= strchr(word[i].value, 'o') != NULL;
		changes |= strpbrk(word[i].value, "su") != NULL;
		if (strcmp(word[i].value, "--") == 0) {
			i++;
			break;
		}
	}
	for (; i < count; i++)
		known &= word[i].value &&
			 (!changes || (of_set ? set_knows(0, word[i].value) : shopt_knows(word[i].value)));
	return known;
}

bool shell_modes_known(const struct command_word *word, size_t count)
{
	struct shell_flags f = { .next = 1 };

	if (strcmp(args_basename(word[0].value), "shopt") == 0)
		return shopt_is_known(word, count);
	read_clusters(word, count, false, &f);
	return !f.strange && !f.open;
}

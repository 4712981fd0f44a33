/*
 * Splits the words of a command into options and operands, and matches the patterns of the tables against them.
 *
 * Which options take a value decides what the remaining words are: in `git -C x push` the operand is push, because -C
 * has a row. A program without a row has no options with separate values; its operands may then include such a value,
 * which makes rules that deny match more, not less. args_match is called for every row of every table, so it compares
 * the program's name first and allocates nothing.
 */

#include "policy/args.h"

#include "policy/shell/arena.h"
#include "policy/shell/shell.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <ctype.h>

enum args_style {
	ARGS_OLD = 1 << 0,
	ARGS_STOP = 1 << 1,
	ARGS_WORDS = 1 << 2,
	ARGS_DIGITS = 1 << 3, /* -9 is an option of this name, not a cluster */
	ARGS_LEAD = 1 << 4,   /* operands come before the options; later words are not operands */
	ARGS_FRONT = 1 << 5,  /* -C takes a value only in front of the first operand: git -C x, but git diff -C */
	ARGS_PLUS = 1 << 6,   /* +word in front of the first operand is an option: cargo +nightly build */
	ARGS_PAIRS = 1 << 7,  /* two letters of the list are one option: gcc -MF x, -MFx */
};

static const struct values {
	const char *names;
	unsigned style;
	const char *letters;
	const char *longs;
} values[] = {
#define OPTION_VALUES(names, style, letters, longs) { names, style, letters, longs },
#include "policy/option_values.def"
#undef OPTION_VALUES
};

bool args_is_assignment(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");

	return n && s[n] == '=' && !isdigit((unsigned char)*s);
}

const char *args_basename(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

bool args_is_descriptor(const char *path)
{
	static const char *const places[] = { "/dev/stdin", "/dev/fd/", "/proc/" };
	char text[256] = "/";
	size_t n = 1;

	if (*path != '/' && !strstr(path, "../"))
		return false;
	/* Without "//" and "/./". After ".." a name is taken as one of the root; in /dev and /proc it may be any. */
	const char *s = path;
	for (; *s && n + 1 < sizeof(text); s++) {
		if (text[n - 1] == '/' && (*s == '/' || strncmp(s, "./", 2) == 0))
			continue;
		if (text[n - 1] == '/' && strncmp(s, "../", 3) == 0) {
			if (strncmp(text, "/dev/", 5) == 0 || strncmp(text, "/proc/", 6) == 0)
				return true;
			n = 1;
			s++;
			continue;
		}
		text[n++] = *s;
	}
	text[n] = '\0';
	if (*s)
		return true; /* too long to tell */
	for (size_t i = 0; i < countof(places); i++)
		if (strncmp(text, places[i], strlen(places[i])) == 0)
			return true;
	return false;
}

/*
 * Whether s matches one item of a list. Items without wildcards are compared in place; a glob needs a terminated copy.
 */
static bool item_is(const char *item, size_t n, const char *s)
{
	char copy[128];

	for (size_t i = 0; i < n; i++)
		if (item[i] == '*' || item[i] == '?') {
			if (n >= sizeof(copy))
				return false;
			memcpy(copy, item, n);
			copy[n] = '\0';
			return text_glob(copy, s);
		} else if (item[i] != s[i]) {
			return false;
		}
	return s[n] == '\0';
}

/*
 * Whether s matches one item of a|b|c, with globs. Tables are long and most rows do not match, so the first character
 * is compared first.
 */
static bool one_of(const char *list, size_t len, const char *s)
{
	for (const char *from = list, *end = list + len; from <= end;) {
		const char *to = from;

		while (to < end && *to != '|')
			to++;
		if (from < end && *from != *s && *from != '*' && *from != '?') {
			from = to + 1;
			continue;
		}
		if (item_is(from, (size_t)(to - from), s))
			return true;
		from = to + 1;
	}
	return false;
}

/* The same, ignoring case, for a list in lower case. */
static bool one_of_folded(const char *list, size_t len, const char *s)
{
	char lower[8192];
	size_t n = 0;

	for (; s[n] && n + 1 < sizeof(lower); n++)
		lower[n] = (char)tolower((unsigned char)s[n]);
	lower[n] = '\0';
	return one_of(list, len, lower);
}

/* Rejects most rows of the tables, so it examines each character only once. */
bool args_named(const char *name, const char *pattern)
{
	for (const char *s = pattern;; s++) {
		const char *from = s;

		while (*s != '|' && *s != ' ' && *s)
			s++;
		if ((*from == *name || *from == '*' || *from == '?') && item_is(from, (size_t)(s - from), name))
			return true;
		if (*s != '|')
			return false;
	}
}

uint64_t args_first_characters(const char *pattern)
{
	uint64_t set = 0;

	for (const char *s = pattern;; s++) {
		set |= *s == '*' || *s == '?' ? UINT64_MAX : 1ull << (*s & 63);
		s += strcspn(s, "| ");
		if (*s != '|')
			return set;
	}
}

bool args_word_in(const char *list, const char *word, size_t n)
{
	for (const char *s = list; *s;) {
		size_t len = strcspn(s, " ");

		if (len == n && memcmp(s, word, n) == 0)
			return true;
		s += len + (s[len] == ' ');
	}
	return false;
}

/* The set of letters answers most patterns without a search. */
static void add_option(struct command_args *a, struct command_option o)
{
	a->option[a->noptions++] = o;
	if (o.letter && !(o.letter & 0x80))
		a->letters[o.letter >> 6] |= 1ull << (o.letter & 63);
}

/* Whether an unknown word could be an option, or expand to more than one word. */
static bool is_open(const struct command_word *w)
{
	if (w->value || w->unknown == SHELL_PROCESS) /* <(…) expands to a path in /dev/fd */
		return false;
	if (w->many && w->unknown != SHELL_GLOB)
		return true;
	return !w->lead || *w->plain == '-';
}

/* -o, --output or --, but neither - nor a number. */
static bool looks_like_option(const struct command_word *w)
{
	const char *s = w->plain;

	return w->lead && *s == '-' && (s[1] == '-' || isalpha((unsigned char)s[1]));
}

/*
 * The word after option i, which is its value; advances i. A value that looks like an option is parsed as one, too: the
 * table has one row for all subcommands of a program, and -f takes a value in some of them only. If a value is split
 * into several words, those after the first are not part of it.
 */
static const struct command_word *next_word(struct command_args *a, size_t *i)
{
	const struct command_word *w = *i + 1 < a->count ? &a->word[*i + 1] : NULL;

	if (!w || looks_like_option(w))
		return w;
	a->open |= w->many && is_open(w);
	a->splits |= w->many && !w->value;
	++*i;
	return w;
}

/* -rfv, or -ofile: the rest of the word after a letter with a value is that value. */
static void parse_cluster(struct command_args *a, const char *letters, const struct values *v, size_t *i)
{
	for (const char *s = letters; *s && isgraph((unsigned char)*s); s++) {
		struct command_option o = { .letter = *s, .word = &a->word[*i] };

		if (v && strchr(v->letters, *s) && !(*s == 'C' && v->style & ARGS_FRONT && a->noperands)) {
			o.value = s[1] ? s + 1 : NULL;
			o.value_word = s[1] ? NULL : next_word(a, i);
			if (o.value_word)
				o.value = o.value_word->value;
			add_option(a, o);
			return;
		}
		add_option(a, o);
	}
}

/* tar cf x: letters that need values take the following words, in order. */
static void old_cluster(struct command_args *a, const char *letters, const struct values *v, size_t *i)
{
	for (const char *s = letters; *s && isalpha((unsigned char)*s); s++) {
		struct command_option o = { .letter = *s };

		if (strchr(v->letters, *s) && (o.value_word = next_word(a, i)))
			o.value = o.value_word->value;
		add_option(a, o);
	}
}

/* --name, --name=value, or --name value if the table has it. */
static void parse_long_option(struct command_args *a, const char *text, const struct values *v, size_t *i)
{
	const char *equals = strchr(text, '=');
	struct command_option o = { .word = &a->word[*i],
				    .name = text,
				    .name_len = equals ? (size_t)(equals - text) : strlen(text) };

	if (equals)
		o.value = equals + 1;
	else if (v && args_word_in(v->longs, text, o.name_len) && (o.value_word = next_word(a, i)))
		o.value = o.value_word->value;
	add_option(a, o);
}

void args_init(struct command_args *a, const struct command_word *word, size_t count, struct shell_arena *arena)
{
	static uint64_t first[countof(values)];
	size_t letters = 0;

	*a = (struct command_args){ .word = word, .count = count };
	if (!count)
		return;
	if (word[0].value)
		a->name = args_basename(word[0].value);
	for (size_t i = 1; i < count; i++)
		letters += *word[i].plain == '-' || i == 1 ? strlen(word[i].plain) : 1;
	a->option = shell_arena_alloc(arena, (letters + 1) * sizeof(*a->option));
	a->operand = shell_arena_alloc(arena, count * sizeof(*a->operand));
	const struct values *v = NULL;
	for (size_t i = 0; a->name && i < countof(values) && !v; i++)
		if (args_may_name(a->name, values[i].names, &first[i]) && args_named(a->name, values[i].names))
			v = &values[i];
	const unsigned style = v ? v->style : 0;
	bool ended = false, expression = false;
	for (size_t i = 1; i < count; i++) {
		const struct command_word *w = &word[i];
		const char *s = w->plain;

		a->open |= !ended && is_open(w);
		a->splits |= w->many && !w->value;
		if (ended || *s != '-' || !s[1] || !w->lead) {
			if (i == 1 && (style & ARGS_OLD) && w->value && isalpha((unsigned char)*s)) {
				old_cluster(a, s, v, &i);
				continue;
			}
			if (!ended && (style & ARGS_PLUS) && *s == '+' && w->lead && !a->noperands)
				continue;
			if (!(style & ARGS_LEAD) || !expression)
				a->operand[a->noperands++] = w;
			ended |= (style & ARGS_STOP) != 0;
		} else if (s[1] == '-' && !s[2]) {
			ended = true;
		} else if (s[1] == '-') {
			parse_long_option(a, s + 2, v, &i);
		} else if (style & ARGS_WORDS) {
			expression |= strlen(s) > 2 || !strchr("HLP", s[1]);
			parse_long_option(a, s + 1, v, &i);
		} else if ((style & ARGS_PAIRS) && s[2] && args_word_in(v->longs, s + 1, 2)) {
			struct command_option o = { .word = w, .name = s + 1, .name_len = 2 };

			o.value = s[3] ? s + 3 : NULL;
			if (!s[3] && (o.value_word = next_word(a, &i)))
				o.value = o.value_word->value;
			add_option(a, o);
		} else if ((style & ARGS_DIGITS) && isdigit((unsigned char)s[1])) {
			add_option(a, (struct command_option){ .name = s + 1, .name_len = strlen(s + 1) });
		} else {
			parse_cluster(a, s + 1, v, &i);
		}
	}
}

const struct command_option *args_option(const struct command_args *a, char letter, const char *name)
{
	const size_t len = name ? strlen(name) : 0;

	for (size_t i = 0; i < a->noptions; i++) {
		const struct command_option *o = &a->option[i];

		if (letter && o->letter == letter)
			return o;
		/*
		 * Abbreviations match: getopt accepts every unambiguous one, and which ones are is known only to the
		 * program.
		 */
		if (name && o->name && o->name_len && o->name_len <= len && memcmp(o->name, name, o->name_len) == 0)
			return o;
	}
	return NULL;
}

/* Whether one of -a|--all|… is given. */
static bool has_option(const struct command_args *a, const char *list, size_t len)
{
	char name[64];

	for (const char *s = list, *end = list + len; s < end;) {
		const char *bar = memchr(s, '|', (size_t)(end - s));
		size_t n = (size_t)((bar ? bar : end) - s);

		if (n >= 2 && s[1] != '-' && n == 2) {
			if (!(s[1] & 0x80) && a->letters[s[1] >> 6] & 1ull << (s[1] & 63))
				return true;
		} else if (n > 2 && n < sizeof(name)) {
			const size_t dashes = s[1] == '-' ? 2 : 1;

			memcpy(name, s + dashes, n - dashes);
			name[n - dashes] = '\0';
			if (args_option(a, 0, name))
				return true;
		}
		s = bar ? bar + 1 : end;
	}
	return false;
}

bool args_match(const struct command_args *a, const char *pattern)
{
	size_t operand = 0;

	if (!a->name || !args_named(a->name, pattern))
		return false;
	for (const char *s = pattern + strcspn(pattern, " "); *s;) {
		const char *term = ++s;
		const bool not = *term == '!';
		size_t n;
		bool is = false;

		s += strcspn(s, " ");
		/* Blanks inside a ^ term belong to it. */
		if (term[not ] == '^')
			s = term + strlen(term);
		term += not ;
		n = (size_t)(s - term);
		if (*term == '=') {
			const char *value = operand < a->noperands ? a->operand[operand]->value : NULL;

			is = value && one_of(term + 1, n - 1, value);
			operand++;
		} else if (*term == '@' || *term == '^') {
			bool (*matches)(const char *, size_t, const char *) = *term == '^' ? one_of_folded : one_of;

			for (size_t i = 1; i < a->count && !is; i++)
				is = matches(term + 1, n - 1, a->word[i].value ? a->word[i].value : a->word[i].plain);
		} else if (*term == '#') {
			is = a->noperands >= (size_t)(term[1] - '0');
		} else if (*term == '~') {
			is = a->count == 2 && a->word[1].value && one_of(term + 1, n - 1, a->word[1].value);
		} else {
			is = has_option(a, term, n);
		}
		/* With unknown words a negated term is uncertain. ~ is the exception: it needs a single, known word. */
		if (is == not || (not &&(*term == '#' ? a->open || a->splits : a->open) && *term != '~'))
			return false;
	}
	return true;
}

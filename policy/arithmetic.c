/*
 * Arithmetic in bash can run commands: in `$((x))` the value of x is evaluated as an expression again, and `a[$(rm y)]`
 * is a valid expression. The same is true of subscripts, the offset of ${s:x}, the operands of [[ -eq ]] and the
 * arguments of `let`, and of a value that is assigned to an integer variable. A value that is not in the text (an
 * argument, a line of input, a variable of the caller's) may be anything. So this module tracks which names are
 * evaluated, and which names may have a value that is more than numbers and names. If one name is both, what the text
 * runs is unknown.
 *
 * Commands that print only a number are known: n=$(ls | wc -l) is a number.
 */

#include "policy/analysis.h"
#include "policy/word_values.h"

#include "runtime/base/mem.h"

#include <ctype.h>

#define NAMES_MAX 256u
#define LOOKS_MAX 20000u
/* Variables that are integers from the start: RANDOM='a[$(rm y)]' evaluates the value. */
#define INTEGERS "BASHPID|BASH_SUBSHELL|EPOCHSECONDS|HISTCMD|LINENO|OPTIND|RANDOM|SECONDS|SRANDOM"
/* Variables that bash itself fills, with words of the command or with input. */
#define FILLED "BASH_ARGV|BASH_ARGV0|BASH_COMMAND|BASH_EXECUTION_STRING|BASH_REMATCH|DIRSTACK|MAPFILE|OPTARG|REPLY|_"

struct arithmetic_name {
	const char *text;
	size_t len;
	bool used, loose;
};

static bool is_name(char c) { return c == '_' || isalnum((unsigned char)c); }

/* Finds or adds a name; beyond the limits everything counts as unknown. */
static struct arithmetic_name *name_of(struct analysis *r, const char *s, size_t n)
{
	struct arithmetic *c = &r->arithmetic;

	if (++c->looks > LOOKS_MAX)
		c->open = true;
	for (size_t i = 0; i < c->count && !c->open; i++)
		if (c->name[i].len == n && memcmp(c->name[i].text, s, n) == 0)
			return &c->name[i];
	if (c->open || c->count >= NAMES_MAX) {
		c->open = true;
		return NULL;
	}
	c->name = shell_arena_grow(r->arena, c->name, c->count, sizeof(*c->name));
	const char *text = shell_arena_strndup(r->arena, s, n);
	c->name[c->count] = (struct arithmetic_name){
		.text = text, .len = n, .used = args_named(text, INTEGERS), .loose = args_named(text, FILLED)
	};
	return &c->name[c->count++];
}

/*
 * Whether this is $((…)) and not $((a) | b): the inner closing parenthesis is followed immediately by the outer one.
 * Quotes could hide parentheses, so a text with quotes is not accepted.
 */
static bool is_arithmetic(const char *s, const char *end)
{
	size_t depth = 0;

	if (end - s < 2 || s[1] != '(')
		return false;
	for (s += 2; s + 1 < end; s++) {
		if (strchr("'\"`\\", *s))
			return false;
		depth += *s == '(';
		if (*s == ')' && depth-- == 0)
			return s[1] == ')';
	}
	return false;
}

/* The position after the parenthesis that closes the one at s. */
static const char *after_parenthesis(const char *s, const char *end)
{
	size_t depth = 0;

	for (; s < end; s++) {
		depth += *s == '(';
		if (*s == ')' && --depth == 0)
			return s + 1;
	}
	return end;
}

/*
 * At a $: true if the expansion is a number, or a variable, which is then marked as used; false: it may be anything.
 * Moves past the expansion. The text inside $((…)) is scanned separately.
 */
static bool scan_expansion(struct analysis *r, const char **at, const char *end)
{
	const char *s = *at + 1, *close;
	size_t n = 0;

	*at = s + (s < end);
	if (s >= end)
		return true;
	if (*s == '(') {
		*at = after_parenthesis(s, end);
		return is_arithmetic(s, end) ||
		       word_values_prints_number(s + 1, (size_t)(*at - s) >= 2 ? (size_t)(*at - s) - 2 : 0);
	}
	const bool braced = *s == '{', counts = braced && s + 1 < end && s[1] == '#';
	s += braced;
	if (counts) {
		close = memchr(s, '}', (size_t)(end - s));
		*at = close ? close + 1 : end;
		return true;
	}
	if (s < end && strchr("#?$!", *s)) {
		*at = s + 1;
		return true;
	}
	while (s + n < end && is_name(s[n]))
		n++;
	*at = s + n + (braced && s + n < end && s[n] == '}');
	if (!n || isdigit((unsigned char)*s) || (braced && !(s + n < end && s[n] == '}')))
		return false;
	struct arithmetic_name *name = name_of(r, s, n);
	if (name)
		name->used = true;
	return true;
}

/* Whether there is an assignment operator at s: = += <<= ++, but not == or <=. */
static bool assigns_here(const char *s, const char *end)
{
	while (s < end && *s == ' ')
		s++;
	if (end - s >= 2 && (memcmp(s, "++", 2) == 0 || memcmp(s, "--", 2) == 0))
		return true;
	if (end - s >= 3 && (memcmp(s, "<<=", 3) == 0 || memcmp(s, ">>=", 3) == 0))
		return true;
	s += s < end && strchr("+-*/%&^|", *s);
	return s < end && *s == '=' && !(s + 1 < end && s[1] == '=');
}

/*
 * Records the variables that an expression assigns. Their values are numbers, but a PATH of 1 is a relative directory.
 * `$x=1`: the variable is unknown.
 */
static void record_assignments(struct analysis *r, const char *s, const char *end)
{
	for (const char *at = s; at < end;) {
		const char *from = at;
		bool known = true;

		while (at < end && (is_name(*at) || *at == '$' || *at == '`')) {
			known &= is_name(*at);
			if (*at == '$' && at + 1 < end && (at[1] == '(' || at[1] == '{')) {
				const char *close = at[1] == '(' ? after_parenthesis(at + 1, end)
								 : memchr(at, '}', (size_t)(end - at));

				at = close && at[1] == '{' ? close + 1 : close ? close : end;
			} else {
				at++;
			}
		}
		if (at == from) {
			at++;
			continue;
		}
		const bool before = from - s >= 2 && (memcmp(from - 2, "++", 2) == 0 || memcmp(from - 2, "--", 2) == 0);
		if (known)
			exec_variables_of_name(r, shell_arena_strndup(r->arena, from, (size_t)(at - from)));
		else if (before || assigns_here(at, end))
			exec_variables_of_name(r, NULL);
	}
}

/* Marks the names in a text as used; false: the text contains more than numbers and names. */
static bool scan_names(struct analysis *r, const char *s, const char *end, bool assigns)
{
	bool known = true;

	while (s < end) {
		size_t n = 0;

		if (*s == '$') {
			known &= scan_expansion(r, &s, end);
		} else if (*s == '`' || ((*s == '<' || *s == '>') && s + 1 < end && s[1] == '(')) {
			return false; /* declare -a 'a=(<(rm y))' runs it, too */
		} else if (is_name(*s)) {
			while (s + n < end && is_name(s[n]))
				n++;
			const char *after = s + n;
			while (after < end && *after == ' ')
				after++;
			/* x=… in an expression sets x to a number. */
			const bool sets = assigns && after < end && *after == '=' &&
					  !(after + 1 < end && after[1] == '=');
			struct arithmetic_name *name = isdigit((unsigned char)*s) || sets ? NULL : name_of(r, s, n);
			if (name)
				name->used = true;
			s += n;
		} else {
			s++;
		}
	}
	return known;
}

/* Adds an expression that is evaluated. */
static void arithmetic_text(struct analysis *r, const char *text, size_t len)
{
	record_assignments(r, text, text + len);
	if (!scan_names(r, text, text + len, true))
		r->arithmetic.open = true;
}

void arithmetic_value(struct analysis *r, const char *name, const char *value)
{
	struct arithmetic_name *n;

	/* A value that contains an assignment is not safe to evaluate. */
	if (value && scan_names(r, value, value + strlen(value), false) && !strchr(value, '=') &&
	    !strstr(value, "++") && !strstr(value, "--"))
		return;
	n = name_of(r, name, strcspn(name, "[+"));
	if (n)
		n->loose = true;
}

/*
 * Quoted subscripts are evaluated by builtins that take names: test -v 'a[PATH=0]', declare 'a[PATH=0]=1'. `list`: also
 * those of a list's elements, a=([PATH=0]=1). Only assignments matter here: executes.def has $(…) in subscripts.
 */
void arithmetic_subscripts(struct analysis *r, const char *text, bool list)
{
	for (const char *s = text, *close; (s = strchr(s, '[')); s++) {
		bool assigns = false;

		if (s == text || !(is_name(s[-1]) || (list && strchr("( \t\n", s[-1]))))
			continue;
		if (!(close = strchr(s, ']')))
			return;
		for (const char *at = s; at < close; at++)
			assigns |= *at == '=' || memcmp(at, "++", 2) == 0 || memcmp(at, "--", 2) == 0;
		if (assigns)
			record_assignments(r, s + 1, close);
		s = close;
	}
}

/*
 * let and declare -i evaluate their words, and [[ the words next to -eq and similar operators; -v takes a name that may
 * have a subscript.
 */
void arithmetic_of_command(struct analysis *r, const struct command_args *a)
{
	const bool all = a->name &&
			 (strcmp(a->name, "let") == 0 || args_match(a, "declare|typeset|local|readonly|export -i"));
	const bool test = a->name && args_named(a->name, "[[|[|test|printf|unset|read");
	const bool declares = a->name && args_named(a->name, "declare|typeset|local|readonly|export");

	const bool names = declares || test || (a->name && args_named(a->name, "wait|mapfile|readarray|getopts"));

	for (size_t i = 1; i < a->count && names; i++)
		arithmetic_subscripts(r, a->word[i].plain, declares);
	for (size_t i = 1; i < a->count && (all || test); i++) {
		static const char *const compares[] = { "-eq", "-ne", "-lt", "-le", "-gt", "-ge" };
		const char *plain = a->word[i].plain;
		bool evaluated = all && *plain != '-';

		for (size_t k = 0; k < countof(compares) && strcmp(a->name, "[[") == 0; k++)
			evaluated |= strcmp(a->word[i - 1].plain, compares[k]) == 0 ||
				     (i + 1 < a->count && strcmp(a->word[i + 1].plain, compares[k]) == 0);
		/* A name that contains an expansion. */
		evaluated |= strchr(plain, '$') &&
			     (strcmp(a->word[i - 1].plain, "-v") == 0 || args_named(a->name, "unset|read"));
		if (evaluated)
			arithmetic_text(r, plain, strlen(plain));
	}
}

void arithmetic_of_script(struct analysis *r, const struct shell_script *s)
{
	for (size_t i = 0; i < s->ncomputes; i++)
		arithmetic_text(r, s->computes[i].text, s->computes[i].len);
	for (size_t i = 0; i < s->nset; i++)
		arithmetic_value(r, s->set[i].name,
				 s->set[i].list && !strpbrk(s->set[i].list, "*?[") ? s->set[i].list : NULL);
}

bool arithmetic_is_open(const struct arithmetic *c)
{
	bool open = c->open;

	for (size_t i = 0; i < c->count; i++)
		open |= c->name[i].used && c->name[i].loose;
	return open;
}

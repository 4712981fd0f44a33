/*
 * What a word with variables may expand to, as far as the text says it. A variable that the text sets has the values
 * that the text gives it anywhere: order, branches and loops are not followed. So a set of values may be too large, but
 * lacks none, unless it is `open`: input, a variable of the caller's, the output of a command.
 */

#include "policy/word_values.h"

#include "policy/variables.h"
#include "runtime/base/buf.h"
#include "runtime/base/mem.h"

#include <ctype.h>
#include <fnmatch.h>

#define VALUES_MAX 64u
#define DEPTH_MAX 8u
#define WORK_MAX 20000u /* of a whole analysis */
#define TEXT_MAX 4096u  /* a longer text is not a path */

static struct word_values expand_word(struct analysis *r, const struct shell_word *w, size_t skip, const char *cwd,
				      unsigned depth);

/* ---- sets of texts ---- */

static void add_text(struct analysis *r, struct word_values *t, const char *text, bool glob, bool name)
{
	for (size_t i = 0; i < t->count; i++)
		if (strcmp(t->text[i].text, text) == 0 && t->text[i].name == name) {
			t->text[i].glob |= glob;
			return;
		}
	if (t->count >= VALUES_MAX) {
		t->open = t->dash = t->lost = true;
		return;
	}
	t->text = shell_arena_grow(r->arena, t->text, t->count, sizeof(*t->text));
	t->text[t->count++] = (struct word_value){ .text = text, .glob = glob, .name = name };
}

static void add_all(struct analysis *r, struct word_values *t, const struct word_values *more)
{
	t->open |= more->open;
	t->dash |= more->dash;
	t->lost |= more->lost;
	for (size_t i = 0; i < more->count; i++)
		add_text(r, t, more->text[i].text, more->text[i].glob, more->text[i].name);
}

static struct word_values unknown_texts(void) { return (struct word_values){ .open = true, .dash = true }; }
static struct word_values lost_texts(void) { return (struct word_values){ .open = true, .dash = true, .lost = true }; }

/* Text that a name may have in place of the *: a number, a date. It begins with neither a dash nor a dot. */
static struct word_values name_texts(struct analysis *r)
{
	struct word_values t = { 0 };

	add_text(r, &t, "*", true, true);
	return t;
}

static struct word_values one_text(struct analysis *r, const char *text)
{
	struct word_values t = { 0 };

	add_text(r, &t, text, strpbrk(text, "*?[") != NULL, false);
	return t;
}

/* Every text followed by every one of `more`. */
static struct word_values joined_texts(struct analysis *r, const struct word_values *t, const struct word_values *more)
{
	/* The beginning decides about a dash; an empty one leaves that to the rest. */
	struct word_values made = { .open = t->open || more->open, .dash = t->dash, .lost = t->lost || more->lost };

	r->variables.work += t->count * more->count / 16;
	for (size_t i = 0; i < t->count; i++) {
		made.dash |= !*t->text[i].text && more->dash;
		for (size_t k = 0; k < more->count && made.count < VALUES_MAX; k++) {
			const size_t n = strlen(t->text[i].text), m = strlen(more->text[k].text);

			if (n + m > TEXT_MAX) {
				made.open = made.dash = made.lost = true;
				continue;
			}
			char *text = shell_arena_alloc(r->arena, n + m + 1);

			memcpy(text, t->text[i].text, n);
			memcpy(text + n, more->text[k].text, m);
			add_text(r, &made, text, t->text[i].glob || more->text[k].glob,
				 n ? t->text[i].name : more->text[k].name);
		}
	}
	if (made.count == VALUES_MAX)
		made.open = made.dash = made.lost = true;
	return made;
}

static struct word_values expand_given(struct analysis *r, const struct variable *v, const char *cwd, unsigned depth)
{
	struct word_values all = { .open = v->open, .dash = v->open };

	for (size_t i = 0; i < v->count; i++) {
		const struct word_values t = expand_word(r, v->given[i].word, v->given[i].skip, cwd, depth + 1);

		add_all(r, &all, &t);
	}
	if (v->number) {
		const struct word_values t = name_texts(r);

		add_all(r, &all, &t);
	}
	return all;
}

/* Variables that the text does not set. */
static struct word_values expand_inherited(struct analysis *r, const char *name, const char *cwd)
{
	if (strcmp(name, "PWD") == 0 && cwd)
		return one_text(r, cwd);
	if (strcmp(name, "HOME") == 0 && r->o->home && !r->home_changed)
		return one_text(r, r->o->home);
	if (strcmp(name, "TMPDIR") == 0)
		return one_text(r, "/tmp");
	if (args_named(name, "UID|EUID|PPID|BASHPID|RANDOM|SRANDOM|SECONDS|EPOCHSECONDS|LINENO"))
		return name_texts(r);
	return unknown_texts();
}

static struct word_values expand_variable(struct analysis *r, const char *name, size_t n, const char *cwd,
					  unsigned depth)
{
	const struct variable *v = variables_find(r, name, n);

	if (r->variables.lost || depth > DEPTH_MAX || ++r->variables.work > WORK_MAX)
		return lost_texts();
	if (!v || (!v->count && !v->number && !v->open))
		return expand_inherited(r, shell_arena_strndup(r->arena, name, n), cwd);
	/* cd sets it as well. */
	if (args_named(v->name, "PWD|OLDPWD|REPLY|_|BASH*|OPTARG|MAPFILE|DIRSTACK|FUNCNAME"))
		return unknown_texts();
	return expand_given(r, v, cwd, depth);
}

/* The arguments; without any they are empty. */
static struct word_values expand_arguments(struct analysis *r, const char *cwd, unsigned depth)
{
	const struct variable *v = variables_find(r, VARIABLES_ARGUMENTS, 1);

	if (r->variables.lost || depth > DEPTH_MAX || ++r->variables.work > WORK_MAX)
		return lost_texts();
	struct word_values t = one_text(r, "");
	if (v) {
		const struct word_values more = expand_given(r, v, cwd, depth);

		add_all(r, &t, &more);
	}
	return t;
}

static struct word_values expand_list(struct analysis *r, const char *s, size_t n, const char *cwd, unsigned depth)
{
	const struct shell_command *c = n ? variables_words_of(r, s, n) : NULL;
	struct word_values all = n && !c ? unknown_texts() : (struct word_values){ 0 };

	if (!n)
		return one_text(r, "");
	for (size_t i = 1; c && i < c->nwords; i++) {
		const struct word_values t = expand_word(r, &c->word[i], 0, cwd, depth + 1);

		add_all(r, &all, &t);
	}
	return all;
}

/* ${x%pattern}: the shortest or longest match is removed from the texts; one with wildcards is kept up to them. */
static struct word_values removed_texts(struct analysis *r, const struct word_values *t, char op, bool longest,
					const char *pattern)
{
	struct word_values made = { .open = t->open, .dash = t->dash, .lost = t->lost };

	if (strpbrk(pattern, "$`'\"\\"))
		return unknown_texts();
	for (size_t i = 0; i < t->count; i++) {
		const char *text = t->text[i].text;
		const size_t len = strlen(text);
		bool found = false;

		/* Whether a wildcard in the text matches is known only for the adjacent text. */
		if (t->text[i].glob && !(op == '%' && !longest && (*pattern == '.' || *pattern == '/')) &&
		    !(op == '#' && longest && strcmp(pattern, "*/") == 0))
			return unknown_texts();
		for (size_t k = 0; k <= len && !found; k++) {
			const size_t at = (op == '%') == longest ? k : len - k;
			char *part = shell_arena_strndup(r->arena, op == '%' ? text + at : text,
							 op == '%' ? len - at : at);

			if (fnmatch(pattern, part, 0) != 0 || (t->text[i].glob && op == '%' && strpbrk(part, "*?[")))
				continue;
			found = true;
			add_text(r, &made,
				 op == '%' ? shell_arena_strndup(r->arena, text, at)
					   : shell_arena_strdup(r->arena, text + at),
				 t->text[i].glob, op == '%' && t->text[i].name);
		}
		if (!found && t->text[i].glob)
			return unknown_texts();
		if (!found)
			add_text(r, &made, text, false, t->text[i].name);
	}
	made.dash |= op == '#';
	return made;
}

/* ${…} */
static struct word_values expand_braced(struct analysis *r, const char *s, const char *end, const char *cwd,
					unsigned depth)
{
	if (*s == '#' && s + 1 < end)
		return name_texts(r);
	size_t n = variables_name_length(s, end);
	const bool positional = !n && s < end && ((isdigit((unsigned char)*s) && *s != '0') || strchr("@*", *s));
	while (positional && s + n < end && (isdigit((unsigned char)s[n]) || strchr("@*", s[n])))
		n++;
	if (!n)
		return end - s == 1 && strchr("?$!#", *s) ? name_texts(r) : unknown_texts();
	struct word_values t = positional ? expand_arguments(r, cwd, depth) : expand_variable(r, s, n, cwd, depth);
	s += n;
	if (s < end && *s == '[') {
		const char *close = memchr(s, ']', (size_t)(end - s));

		if (!close || memchr(s + 1, '[', (size_t)(close - s - 1)))
			return unknown_texts();
		s = close + 1;
	}
	if (s == end || (positional && *s == ':' && s + 1 < end && isdigit((unsigned char)s[1])))
		return t;
	const bool colon = *s == ':' && s + 1 < end && strchr("-=?+", s[1]);
	s += colon;
	if (strchr("-=+", *s)) {
		const struct word_values word = expand_list(r, s + 1, (size_t)(end - s - 1), cwd, depth);

		if (*s == '+')
			t = one_text(r, "");
		add_all(r, &t, &word);
		return t;
	}
	if (*s == '?')
		return t;
	if ((*s == '%' || *s == '#') && s + 1 < end) {
		const bool longest = s[1] == *s;
		const char *pattern = shell_arena_strndup(r->arena, s + 1 + longest, (size_t)(end - s - 1 - longest));

		return removed_texts(r, &t, *s, longest, pattern);
	}
	return unknown_texts();
}

/* ---- substitutions ---- */

static bool begins_with(const char *s, size_t n, const char *with)
{
	return n >= strlen(with) && memcmp(s, with, strlen(with)) == 0;
}

static bool only_has(const char *s, size_t n, const char *characters)
{
	for (size_t i = 0; i < n; i++)
		if (!strchr(characters, s[i]) || !s[i])
			return false;
	return true;
}

bool word_values_prints_number(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strchr(";&\n`$()#\\\"'", s[i]))
			return false;
	for (const char *bar; (bar = memchr(s, '|', n));) {
		n -= (size_t)(bar + 1 - s);
		s = bar + 1;
	}
	while (n && *s == ' ')
		s++, n--;
	while (n && s[n - 1] == ' ')
		n--;
	if (begins_with(s, n, "wc -") && n >= 5 && strchr("lcwm", s[4]))
		return n == 5 || begins_with(s + 5, n - 5, " <") || begins_with(s + 5, n - 5, "<");
	if (begins_with(s, n, "seq ") || begins_with(s, n, "echo "))
		return only_has(s + 4, n - 4, "0123456789 -");
	if (begins_with(s, n, "date +%s"))
		return only_has(s + 8, n - 8, "%0123456789N");
	return begins_with(s, n, "stat -c %s ") ||
	       ((n == 5) && (begins_with(s, n, "nproc") || begins_with(s, n, "id -u") || begins_with(s, n, "id -g")));
}

/* What mktemp prints: a file that no rule knows. */
static struct word_values expand_mktemp(struct analysis *r, const struct shell_command *c)
{
	const char *form = NULL;
	bool below = true;

	for (size_t i = 1; i < c->nwords; i++) {
		const char *s = c->word[i].value;

		if (!s || (*s == '-' && !args_named(s, "-d|-q|-u|-dq|-t|-dt|-td")))
			return unknown_texts();
		if (*s == '-')
			continue;
		form = s;
		below = i > 1 && strchr(c->word[i - 1].plain, 't') && c->word[i - 1].plain[0] == '-';
	}
	if (!form)
		return one_text(r, "/tmp/tmp.*");
	const char *marks = strchr(form, 'X');
	buf_auto struct buf text = BUF_INIT;
	if (!marks || strspn(marks, "X") < 3 || strstr(form, ".."))
		return unknown_texts();
	buf_printf(&text, "%s%.*s*%s", below ? "/tmp/" : "", (int)(marks - form), form, marks + strspn(marks, "X"));
	return one_text(r, shell_arena_strdup(r->arena, buf_cstr(&text)));
}

/* The name of a branch or of a revision: git accepts none that begins with a dash. */
static bool prints_revision(const struct shell_command *c)
{
	const char *name = c->nwords > 2 && strcmp(c->word[0].value, "git") == 0 ? c->word[1].value : NULL;

	if (!name || !args_named(name, "branch|rev-parse|symbolic-ref|describe"))
		return false;
	for (size_t i = 2; i < c->nwords; i++)
		if (!c->word[i].value || !args_named(c->word[i].value, "--show-current|--short|--abbrev-ref|--verify|"
								       "--tags|--always|--dirty|HEAD"))
			return false;
	return strcmp(name, "branch") != 0 || strcmp(c->word[2].value, "--show-current") == 0;
}

/*
 * What echo prints, or printf without anything to format. A backslash means different things to the shells; so may what
 * looks like an option.
 */
static struct word_values expand_printed(struct analysis *r, const struct shell_command *c, const char *cwd,
					 unsigned depth)
{
	const bool formats = strcmp(c->word[0].value, "printf") == 0;
	struct word_values all = one_text(r, "");
	size_t i = 1;

	if (!formats && c->nwords > 1 && c->word[1].value && strcmp(c->word[1].value, "-n") == 0)
		i++;
	else if (formats && c->nwords == 3 && c->word[1].value && args_named(c->word[1].value, "%s|%s\\n"))
		i++;
	else if (formats && (c->nwords != 2 || strchr(c->word[1].plain, '%')))
		return unknown_texts();
	for (size_t first = i; i < c->nwords; i++) {
		const struct word_values blank = one_text(r, i > first ? " " : ""),
					 t = expand_word(r, &c->word[i], 0, cwd, depth + 1);

		if (strchr(c->word[i].plain, '\\') || (i == 1 && (t.dash || *c->word[i].plain == '-')))
			return unknown_texts();
		all = joined_texts(r, &all, &blank);
		all = joined_texts(r, &all, &t);
	}
	return all;
}

/* $(…) with a command whose output is known, or has a known form. */
static struct word_values expand_substitution(struct analysis *r, const char *s, size_t n, const char *cwd,
					      unsigned depth)
{
	struct shell_script script;

	if (word_values_prints_number(s, n))
		return name_texts(r);
	if (n > r->budget)
		return lost_texts();
	r->budget -= n;
	if (shell_parse_into(r->arena, s, n, SHELL_BASH, &script) != 0 || !script.count)
		return unknown_texts();
	const struct shell_command *c = &script.command[script.count - 1];
	const char *name = c->nwords && !c->offset && !c->context ? c->word[0].value : NULL;
	if (!name || c->nassignments || script.nfunctions)
		return unknown_texts();
	if (strcmp(name, "basename") == 0) {
		struct word_values t = name_texts(r);

		add_text(r, &t, ".*", true, true);
		return t;
	}
	/* The words of other commands must be known, so there is no command inside of them. */
	if (script.count != 1 || c->nredirects)
		return unknown_texts();
	if (strcmp(name, "pwd") == 0 && c->nwords == 1)
		return cwd ? one_text(r, cwd) : unknown_texts();
	if (strcmp(name, "mktemp") == 0)
		return expand_mktemp(r, c);
	if (args_named(name, "echo|printf"))
		return expand_printed(r, c, cwd, depth);
	const char *format = c->nwords == 2 && c->word[1].value ? c->word[1].value : "";
	if (strcmp(name, "date") == 0 && *format == '+' && !strpbrk(format, "./Dx"))
		return name_texts(r);
	return (struct word_values){ .open = true, .dash = !prints_revision(c) };
}

static struct word_values expand_part(struct analysis *r, const struct shell_part *p, const char *cwd, unsigned depth)
{
	const char *s = p->text, *end = s + p->len;

	if (p->unknown & SHELL_ARITHMETIC)
		return name_texts(r);
	if (p->unknown == SHELL_SUBSTITUTION && p->len > 3 && *s == '$')
		return expand_substitution(r, s + 2, p->len - 3, cwd, depth);
	if (p->unknown == SHELL_SUBSTITUTION && p->len > 2)
		return memchr(s, '\\', p->len) ? unknown_texts()
					       : expand_substitution(r, s + 1, p->len - 2, cwd, depth);
	if (p->unknown != SHELL_VARIABLE || p->len < 2 || memchr(s, '\\', p->len))
		return unknown_texts();
	if (s[1] == '{')
		return expand_braced(r, s + 2, end - 1, cwd, depth);
	if (strchr("?#$!", s[1]))
		return name_texts(r);
	if ((isdigit((unsigned char)s[1]) && s[1] != '0') || strchr("@*", s[1]))
		return expand_arguments(r, cwd, depth);
	return variables_name_length(s + 1, end) == p->len - 1 ? expand_variable(r, s + 1, p->len - 1, cwd, depth)
							       : unknown_texts();
}

static struct word_values expand_word(struct analysis *r, const struct shell_word *w, size_t skip, const char *cwd,
				      unsigned depth)
{
	struct word_values all = one_text(r, "");

	if (w->unknown & (SHELL_PROCESS | SHELL_BRACES | SHELL_ARRAY | SHELL_EVALUATES))
		return unknown_texts();
	bool tilde = w->unknown & SHELL_TILDE;
	for (size_t i = 0; i < w->nparts; i++) {
		const struct shell_part *p = &w->part[i];
		const char *known = p->kind == SHELL_PART_LITERAL ? NULL : analysis_known_part(r, p);
		struct word_values t = { 0 };

		if (p->kind == SHELL_PART_LITERAL && skip >= p->len) {
			skip -= p->len;
			continue;
		}
		if (p->kind == SHELL_PART_LITERAL && p->len > TEXT_MAX)
			return unknown_texts();
		if (p->kind == SHELL_PART_LITERAL) {
			const char *text = shell_arena_strndup(r->arena, p->text + skip, p->len - skip);

			add_text(r, &t, text, (!p->quoted || depth) && strpbrk(text, "*?["), false);
		} else if (known) {
			t = one_text(r, known);
			tilde &= p->kind != SHELL_PART_TILDE;
		} else {
			t = expand_part(r, p, cwd, depth);
		}
		skip = 0;
		all = joined_texts(r, &all, &t);
	}
	/* {,a}~ and x=a:~ have one that is no part. */
	return tilde || (w->unknown & SHELL_TILDE && strstr(w->plain, ":~")) ? unknown_texts() : all;
}

/* Unquoted, a text with blanks is several words. With another IFS it is unknown where it is split. */
static void split_texts(struct analysis *r, struct word_values *t)
{
	const size_t count = t->count;

	if (variables_find(r, "IFS", 3))
		t->open = t->dash = true;
	for (size_t i = 0; i < count; i++) {
		const char *s = t->text[i].text;

		if (!s[strcspn(s, " \t\n")])
			continue;
		for (s += strspn(s, " \t\n"); *s; s += strspn(s, " \t\n")) {
			const size_t n = strcspn(s, " \t\n");

			add_text(r, t, shell_arena_strndup(r->arena, s, n), t->text[i].glob, false);
			s += n;
		}
	}
}

struct word_values word_values_of(struct analysis *r, const struct command_word *w, size_t skip)
{
	if (!w->from)
		return w->value ? one_text(r, w->value + skip) : unknown_texts();
	struct word_values t = expand_word(r, w->from, skip, r->cwd, 0);
	if (w->many)
		split_texts(r, &t);
	return t;
}

/* A file of this name may exist: a glob that may be all of an option. */
static bool may_be_option(const char *glob)
{
	return strchr("*?[", *glob) && !glob[strspn(glob, "*?[]-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")];
}

bool word_values_may_be_option(struct analysis *r, const struct command_word *w)
{
	if (w->value || (w->lead && *w->plain != '-' && !w->many))
		return false;
	const struct word_values t = word_values_of(r, w, 0);
	bool is = t.dash || (t.open && w->many);
	for (size_t i = 0; i < t.count; i++)
		is |= *t.text[i].text == '-' ||
		      (t.text[i].glob && !t.text[i].name && *t.text[i].text && may_be_option(t.text[i].text));
	return is;
}

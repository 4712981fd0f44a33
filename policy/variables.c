/*
 * Collects what a text assigns to its variables, before its commands are analysed: a function may be called after a
 * later assignment. Only what is collected is known; where a command may set any variable, all of them are lost.
 */

#include "policy/variables.h"

#include "runtime/base/buf.h"

#include <ctype.h>

#define NAMES_MAX 256u
#define GIVEN_MAX 64u
#define DEPTH_MAX 8u
#define TEXTS_MAX 100u /* of eval and trap, in a whole analysis */

static bool is_name_byte(char c) { return c == '_' || isalnum((unsigned char)c); }

size_t variables_name_length(const char *s, const char *end)
{
	size_t n = 0;

	while (s + n < end && is_name_byte(s[n]))
		n++;
	return n && !isdigit((unsigned char)*s) ? n : 0;
}

struct variable *variables_find(const struct analysis *r, const char *name, size_t n)
{
	for (size_t i = 0; i < r->variables.count; i++)
		if (strncmp(r->variables.variable[i].name, name, n) == 0 && !r->variables.variable[i].name[n])
			return &r->variables.variable[i];
	return NULL;
}

static struct variable *variable_of(struct analysis *r, const char *name, size_t n)
{
	struct variables *v = &r->variables;
	struct variable *found = variables_find(r, name, n);

	if (found)
		return found;
	if (v->count >= NAMES_MAX) {
		v->lost = true;
		return shell_arena_alloc(r->arena, sizeof(*found));
	}
	v->variable = shell_arena_grow(r->arena, v->variable, v->count, sizeof(*v->variable));
	v->variable[v->count] = (struct variable){ .name = shell_arena_strndup(r->arena, name, n) };
	return &v->variable[v->count++];
}

static void give(struct analysis *r, const char *name, size_t n, const struct shell_word *w, size_t skip)
{
	struct variable *v = variable_of(r, name, n);

	if (v->count >= GIVEN_MAX) {
		r->variables.lost = true;
		return;
	}
	v->given = shell_arena_grow(r->arena, v->given, v->count, sizeof(*v->given));
	v->given[v->count++] = (struct variable_value){ .word = w, .skip = skip };
}

/* The words of a text, as arguments of a command. */
const struct shell_command *variables_words_of(struct analysis *r, const char *text, size_t n)
{
	static const char head[] = ": ";
	char *line = shell_arena_alloc(r->arena, sizeof(head) + n);
	struct shell_script s;

	if (n > r->budget)
		return NULL;
	r->budget -= n;
	memcpy(line, head, sizeof(head) - 1);
	memcpy(line + sizeof(head) - 1, text, n);
	if (shell_parse_into(r->arena, line, sizeof(head) - 1 + n, SHELL_BASH, &s) != 0)
		return NULL;
	for (size_t i = 0; i < s.count; i++)
		if (s.command[i].offset == 0)
			return &s.command[i];
	return NULL;
}

struct variables_words variables_list(struct analysis *r, const char *text, size_t n)
{
	char *line = shell_arena_strndup(r->arena, text, n);

	/* In an array the words may be on several lines. */
	for (size_t i = 0; i < n; i++)
		line[i] = line[i] == '\n' ? ' ' : line[i];
	const struct shell_command *c = variables_words_of(r, line, n);
	return c ? (struct variables_words){ .word = c->word + 1, .count = c->nwords - 1, .known = true }
		 : (struct variables_words){ 0 };
}

struct variables_words variables_array(struct analysis *r, const struct shell_word *w)
{
	const char *open = strchr(w->plain, '('), *close = strrchr(w->plain, ')');

	return open && close && close > open && !strchr(w->plain, '#')
		       ? variables_list(r, open + 1, (size_t)(close - open - 1))
		       : (struct variables_words){ 0 };
}

/* ([a]=x): the value begins behind the subscript. */
size_t variables_element(const struct shell_word *w)
{
	const char *equals = *w->plain == '[' ? strstr(w->plain, "]=") : NULL;

	return equals ? (size_t)(equals - w->plain) + 2 : 0;
}

static void give_word(struct analysis *r, const char *name, size_t n, const struct shell_word *w, size_t skip)
{
	if (!(w->unknown & SHELL_ARRAY)) {
		give(r, name, n, w, skip);
		return;
	}
	const struct variables_words list = variables_array(r, w);
	variable_of(r, name, n)->open |= !list.known;
	for (size_t i = 0; i < list.count; i++)
		give(r, name, n, &list.word[i], variables_element(&list.word[i]));
}

/* ---- what sets variables ---- */

static void fill(struct analysis *r, const struct shell_word *w)
{
	const size_t n = variables_name_length(w->plain, w->plain + strlen(w->plain));

	if (n)
		variable_of(r, w->plain, n)->open = true;
	r->variables.lost |= !w->value;
}

/* declare, export, local …: NAME=value */
static void collect_declaration(struct analysis *r, const struct shell_word *w, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		const char *s = w[i].plain;
		const size_t n = variables_name_length(s, s + strlen(s));

		/* A name for another variable, or another case of letters: -n, -l, -u, -c. */
		if (*s == '-' || *s == '+')
			r->variables.lost |= strpbrk(s, "nluc") && strcmp(w[0].value, "export") != 0;
		else if (n && s[n] == '=')
			give_word(r, s, n, &w[i], n + 1);
		else if (n)
			variable_of(r, s, n)->open |= s[n] != '\0';
		else
			r->variables.lost = true;
		for (size_t k = 1; k < i && n; k++)
			variable_of(r, s, n)->number |= w[k].plain[0] == '-' && strchr(w[k].plain, 'i');
	}
}

/* x=1, x++, --x in an expression: the variable is a number. */
static void collect_expression(struct analysis *r, const char *s, const char *end)
{
	for (const char *from = s; s < end;) {
		const size_t n = variables_name_length(s, end);
		const char *after = s + n;

		if (!n) {
			s++;
			continue;
		}
		while (after < end && *after == ' ')
			after++;
		const char *op = after;
		while (op < end && op - after < 2 && strchr("+-*/%&|^<>", *op))
			op++;
		const bool compares = op - after == 1 && strchr("<>", *after),
			   assigns = op < end &&
				     (*op == '[' || (*op == '=' && !compares && !(op + 1 < end && op[1] == '=')));
		const bool sets = assigns ||
				  (end - after >= 2 && (memcmp(after, "++", 2) == 0 || memcmp(after, "--", 2) == 0)) ||
				  (s - from >= 2 && (memcmp(s - 2, "++", 2) == 0 || memcmp(s - 2, "--", 2) == 0));
		if (sets)
			variable_of(r, s, n)->number = true;
		s += n;
	}
}

static void collect_arguments(struct analysis *r, const struct shell_word *w, size_t count)
{
	for (size_t i = 0; i < count; i++)
		give(r, VARIABLES_ARGUMENTS, 1, &w[i], 0);
}

static void collect_script(struct analysis *r, const struct shell_script *s, unsigned depth);

/* eval and trap run their words in this shell. */
static void collect_text(struct analysis *r, const struct shell_word *w, size_t count, unsigned depth)
{
	buf_auto struct buf text = BUF_INIT;
	struct shell_script s;

	for (size_t i = 0; i < count; i++) {
		r->variables.lost |= !w[i].value;
		buf_str(&text, w[i].plain);
		buf_byte(&text, ' ');
	}
	if (text.len > r->budget || depth >= DEPTH_MAX || ++r->variables.texts > TEXTS_MAX) {
		r->variables.lost = true;
		return;
	}
	r->budget -= text.len;
	(void)shell_parse_into(r->arena, shell_arena_strndup(r->arena, text.data ? text.data : "", text.len), text.len,
			       SHELL_BASH, &s);
	r->variables.lost |= s.nfunctions != 0;
	collect_script(r, &s, depth + 1);
}

static bool is_function(const struct shell_script *s, const struct shell_word *name)
{
	for (size_t i = 0; i < s->nfunctions; i++)
		if (!name->value || strcmp(s->function[i].name, name->value) == 0)
			return true;
	return false;
}

static void collect_command(struct analysis *r, const struct shell_script *s, const struct shell_command *c,
			    unsigned depth)
{
	const struct shell_word *w = c->word;
	size_t n = c->nwords;

	for (size_t i = 0; i < c->nassignments; i++) {
		const struct shell_assignment *a = &c->assignment[i];
		const size_t len = strlen(a->name);

		/* IFS= read x: only for read */
		if (strcmp(a->name, "IFS") == 0 && n)
			continue;
		give_word(r, a->name, len, &a->value, 0);
		variable_of(r, a->name, len)->open |= a->append && !(a->value.unknown & SHELL_ARRAY);
	}
	if (n && is_function(s, &w[0]))
		collect_arguments(r, w + 1, n - 1);
	while (n > 1 && w[0].value && args_named(w[0].value, "command|builtin"))
		w++, n--;
	const char *name = n ? w[0].value : NULL;
	if (!name)
		return;
	if (args_named(name, "declare|typeset|local|export|readonly"))
		collect_declaration(r, w, n);
	else if (args_named(name, "read|mapfile|readarray|getopts") ||
		 (strcmp(name, "printf") == 0 && n > 1 && strncmp(w[1].plain, "-v", 2) == 0) ||
		 (strcmp(name, "wait") == 0 && n > 2))
		for (size_t i = 1; i < n; i++)
			fill(r, &w[i]);
	else if (strcmp(name, "set") == 0)
		collect_arguments(r, w + 1, n - 1);
	else if (args_named(name, "eval|trap"))
		collect_text(r, w + 1, n - 1, depth);
	else if (strcmp(name, "let") == 0)
		for (size_t i = 1; i < n; i++)
			collect_expression(r, w[i].plain, w[i].plain + strlen(w[i].plain));
}

static void collect_script(struct analysis *r, const struct shell_script *s, unsigned depth)
{
	for (size_t i = 0; i < s->count && !r->variables.lost; i++)
		collect_command(r, s, &s->command[i], depth);
	if (r->variables.lost)
		return;
	for (size_t i = 0; i < s->ncomputes; i++)
		collect_expression(r, s->computes[i].text, s->computes[i].text + s->computes[i].len);
	for (size_t i = 0; i < s->nset; i++) {
		const char *name = s->set[i].name, *list = s->set[i].list;
		const struct variables_words words = list ? variables_list(r, list, strlen(list))
							  : (struct variables_words){ 0 };

		variable_of(r, name, strlen(name))->open |= !words.known;
		for (size_t k = 0; k < words.count; k++)
			give(r, name, strlen(name), &words.word[k], 0);
	}
}

void variables_of_script(struct analysis *r, const struct shell_script *s) { collect_script(r, s, 0); }

void variables_of_environment(struct analysis *r)
{
	for (size_t i = 0; i < r->o->nenv; i++)
		variables_set(r, r->o->env[i]);
}

/* The word of a value that is no word of the text. */
static const struct shell_word *literal_word(struct analysis *r, const char *text)
{
	struct shell_word *w = shell_arena_alloc(r->arena, sizeof(*w));
	struct shell_part *part = shell_arena_alloc(r->arena, sizeof(*part));

	*part = (struct shell_part){ .text = text, .len = strlen(text), .quoted = true };
	*w = (struct shell_word){ .value = text, .plain = text, .part = part, .nparts = 1 };
	return w;
}

void variables_set(struct analysis *r, const char *assignment)
{
	const size_t n = strcspn(assignment, "=");

	if (assignment[n] != '=')
		return;
	if (strpbrk(assignment + n, "$`"))
		variable_of(r, assignment, n)->open = true;
	else
		give(r, assignment, n, literal_word(r, assignment + n + 1), 0);
}

void variables_add_arguments(struct analysis *r, const struct command_args *a, const char *text)
{
	for (size_t i = 0; i < a->noperands; i++) {
		const struct command_word *w = a->operand[i];

		/* The word behind the text is $0. */
		if (w->value && strcmp(w->value, text) == 0) {
			i++;
			continue;
		}
		if (w->from || w->value)
			give(r, VARIABLES_ARGUMENTS, 1, w->from ? w->from : literal_word(r, w->value), 0);
		else
			variable_of(r, VARIABLES_ARGUMENTS, 1)->open = true;
	}
}

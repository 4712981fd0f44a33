/*
 * [[ … ]]: its words in order, including the operators. The grammar differs from that of commands: < and > compare, &&
 * and || join tests, newlines are blanks, and words are neither split nor expanded to file names. The tests are not
 * evaluated; what matters is that the substitutions in them are parsed, and that the parse ends at the same ]] as in
 * bash, so that the next command is found.
 */

#include "policy/shell/parser.h"
#include "runtime/base/mem.h"

#include <ctype.h>

/* The parse of one [[ … ]] and the command that gets its words. */
struct condition {
	struct parser *p;
	struct shell_command *c;
};

/* Appends a word; [[ ]] has no arguments of its own, so its operators are words, too. */
static void add_word(struct condition *d, const struct shell_word *w)
{
	d->c->word = shell_arena_grow(d->p->arena, d->c->word, d->c->nwords, sizeof(*d->c->word));
	d->c->word[d->c->nwords++] = *w;
}

static void add_text(struct condition *d, const char *text)
{
	add_word(d, &(struct shell_word){ .value = text, .plain = text, .offset = parser_offset(d->p, d->p->at) });
}

/* Whether ]] is here, as a word of its own. */
static bool at_close(struct condition *d)
{
	struct parser *p = d->p;

	parser_skip_newlines(p);
	return p->end - p->at >= 2 && p->at[0] == ']' && p->at[1] == ']' &&
	       (p->end - p->at == 2 || parser_ends_word((unsigned char)p->at[2]));
}

/* Parses one operand and appends it to the words; false: there is none, and the parse has failed. */
static bool parse_operand(struct condition *d, enum word_mode mode, struct shell_word *ret)
{
	struct parser *p = d->p;
	enum op op = parser_op(p);

	if ((op != OP_NONE && !(op == OP_REDIRECT && parser_peek2(p) == '(') &&
	     !(mode == WORD_REGEX && (op == OP_OPEN || op == OP_PIPE))) ||
	    at_close(d)) {
		parser_unexpected(p);
		return false;
	}
	parse_word(p, mode, ret);
	if (ret->unknown == SHELL_GLOB) /* a pattern here, never a list of files */
		ret->value = ret->plain;
	ret->unknown &= ~(unsigned)SHELL_GLOB;
	add_word(d, ret);
	return !p->failed;
}

/* Tests joined by && and ||. Precedence does not matter here: every operand may be evaluated. */
static void parse_or(struct condition *d);

/* word, -op word, word op word */
static void parse_primary(struct condition *d)
{
	struct parser *p = d->p;
	struct shell_word left, right;

	if (!parse_operand(d, WORD_PLAIN, &left))
		return;
	enum op op = parser_op(p);
	if (op == OP_REDIRECT && parser_peek2(p) != '(' && (parser_peek(p) == '<' || parser_peek(p) == '>')) {
		add_text(d, parser_peek(p) == '<' ? "<" : ">");
		p->at++;
		parse_operand(d, WORD_PLAIN, &right);
		return;
	}
	const char *name = left.value;
	const bool unary = name && !left.quoted && name[0] == '-' && name[1] && !name[2] &&
			   isalpha((unsigned char)name[1]);
	if (op != OP_NONE || at_close(d)) {
		if (unary)
			parser_fail(p, "%s needs an argument", name);
		return;
	}
	if (!parse_operand(d, WORD_PLAIN, &right))
		return;
	static const char *const binary[] = { "=",   "==",  "!=",  "=~",  "-eq", "-ne", "-lt",
					      "-le", "-gt", "-ge", "-nt", "-ot", "-ef" };
	bool found = false;
	for (size_t i = 0; right.value && !right.quoted && i < countof(binary); i++)
		found |= strcmp(right.value, binary[i]) == 0;
	if (found) {
		enum word_mode mode = strcmp(right.value, "=~") == 0 ? WORD_REGEX
				      : right.value[0] == '-'        ? WORD_PLAIN
								     : WORD_PATTERN;

		if (unary && (at_close(d) || parser_op(p) != OP_NONE))
			return; /* -n = */
		parser_skip_blanks(p);
		parse_operand(d, mode, &right);
	} else if (!unary) {
		parser_fail(p, "conditional operator expected");
	}
}

/* ! and parentheses, or one test. */
static void parse_and(struct condition *d)
{
	struct parser *p = d->p;

	if (!parser_enter(p))
		return;
	parser_skip_newlines(p);
	if (parser_keyword(p) == KW_NOT) {
		parser_take_keyword(p, KW_NOT);
		add_text(d, "!");
		parse_and(d);
	} else if (parser_op(p) == OP_OPEN) {
		add_text(d, "(");
		p->at++;
		parse_or(d);
		parser_skip_newlines(p);
		if (parser_op(p) != OP_CLOSE) {
			parser_unexpected(p);
		} else {
			add_text(d, ")");
			p->at++;
		}
	} else {
		parse_primary(d);
	}
	parser_leave(p);
}

static void parse_or(struct condition *d)
{
	struct parser *p = d->p;

	for (parse_and(d); !p->failed; parse_and(d)) {
		parser_skip_newlines(p);
		enum op op = parser_op(p);
		if (op != OP_AND && op != OP_OR)
			return;
		add_text(d, parser_op_text(op));
		parser_take_op(p, op);
	}
}

void parse_conditional(struct parser *p, struct shell_command *c)
{
	struct condition d = { .p = p, .c = c };

	add_text(&d, "[[");
	parse_or(&d);
	if (!at_close(&d)) {
		parser_unexpected(p);
		return;
	}
	add_text(&d, "]]");
	p->at += 2;
}

/*
 * The grammar: lists, pipelines, compound and simple commands, by recursive descent with limited depth. There is no
 * tree: each simple command is appended to the script's list when it is complete, with the context of the enclosing
 * levels. What becomes known only afterwards (it was the left side of a pipe, it ran in the background) is marked on
 * the range of commands that was added meanwhile.
 *
 * Context only grows on the way down: a function that adds bits saves the value before and restores it. The one
 * exception is a function's body, which runs where the function is called; it gets a context of its own. Commands are
 * never removed from the list, not even after an error: shells run complete lines before they parse the next one.
 */

#include "policy/shell/parser.h"
#include "runtime/base/mem.h"

#include <ctype.h>

static void parser_emit(struct parser *p, const struct shell_command *c)
{
	struct shell_script *s = p->script;

	if (p->failed)
		return;
	/* The limit of the text's length is not enough: `a;` is a whole command in two bytes. */
	if (s->count >= SHELL_COMMANDS_MAX) {
		parser_limit(p, "too many commands");
		return;
	}
	s->command = shell_arena_grow(p->arena, s->command, s->count, sizeof(*s->command));
	s->command[s->count] = *c;
	s->command[s->count].context |= p->context;
	s->command[s->count].scope = p->scope;
	s->command[s->count++].function = p->function;
}

/* Adds context to the function definitions from there on. */
static void mark_functions(struct parser *p, size_t from, unsigned context)
{
	for (size_t i = p->script->nfunctions; i-- > 0 && p->script->function[i].first >= from;)
		p->script->function[i].context |= context;
}

static void mark_commands(struct parser *p, size_t from, unsigned context)
{
	for (size_t i = from; i < p->script->count; i++)
		p->script->command[i].context |= context;
	mark_functions(p, from, context);
}

/* Consumes a reserved word that must follow. */
static void expect_keyword(struct parser *p, enum keyword k, const char *what)
{
	if (parser_keyword(p) == k)
		parser_take_keyword(p, k);
	else if (parser_op(p) == OP_END)
		parser_fail(p, "expected '%s', not the end", what);
	else
		parser_unexpected(p);
}

/* Parses a list that must not be empty, and adds context to its commands. */
static void parse_body(struct parser *p, unsigned context)
{
	const unsigned saved = p->context;

	p->context |= context;
	if (parse_list(p) == 0)
		parser_unexpected(p);
	p->context = saved;
}

/* ---- compound commands ---- */

static void parse_if(struct parser *p)
{
	parser_take_keyword(p, KW_IF);
	parse_body(p, SHELL_IN_CONDITION);
	expect_keyword(p, KW_THEN, "then");
	parse_body(p, SHELL_IN_BRANCH);
	while (parser_keyword(p) == KW_ELIF) {
		parser_take_keyword(p, KW_ELIF);
		parse_body(p, SHELL_IN_CONDITION);
		expect_keyword(p, KW_THEN, "then");
		parse_body(p, SHELL_IN_BRANCH);
	}
	if (parser_keyword(p) == KW_ELSE) {
		parser_take_keyword(p, KW_ELSE);
		parse_body(p, SHELL_IN_BRANCH);
	}
	expect_keyword(p, KW_FI, "fi");
}

/* do … done, or { … } where bash accepts that. */
static void parse_do_group(struct parser *p, bool braces)
{
	if (braces && parser_keyword(p) == KW_OPEN) {
		parser_take_keyword(p, KW_OPEN);
		parse_body(p, SHELL_IN_LOOP);
		expect_keyword(p, KW_CLOSE, "}");
		return;
	}
	expect_keyword(p, KW_DO, "do");
	parse_body(p, SHELL_IN_LOOP);
	expect_keyword(p, KW_DONE, "done");
}

/* After ((: adds the command that represents it. */
static void parse_arithmetic_command(struct parser *p)
{
	struct shell_command c = { .kind = SHELL_COMPUTE, .offset = parser_offset(p, p->at - 2) };
	struct word_parts w = { 0 };

	parse_arithmetic(p, &w);
	word_parts_add_literal(p, &w, "((", 2, false);
	c.word = shell_arena_alloc(p->arena, sizeof(*c.word));
	c.nwords = 1;
	word_parts_finish(p, &w, c.word);
	parser_emit(p, &c);
}

/* Whether there is arithmetic at ((; if so, it is consumed. */
static bool take_arithmetic(struct parser *p)
{
	const char *open = p->at;

	if (parser_peek(p) != '(' || parser_peek2(p) != '(')
		return false;
	p->script->bashisms = true;
	if (p->dialect != SHELL_BASH)
		return false;
	p->at++;
	(void)parser_peek(p);
	p->at++;
	if (parser_is_arithmetic(p))
		return true;
	/* Not arithmetic after all: `((a); b)` is a subshell in a subshell. */
	p->at = open;
	return false;
}

/* Whether a word begins here; for bash also <( and >(, which are words. */
static bool is_at_word(struct parser *p)
{
	return parser_op(p) == OP_NONE ||
	       (p->dialect == SHELL_BASH && parser_op(p) == OP_REDIRECT && parser_peek2(p) == '(');
}

/* Whether the word is a valid variable name, without quotes. */
static bool is_name_word(const struct shell_word *w)
{
	return w->value && !w->quoted && *w->value && !isdigit((unsigned char)*w->value) &&
	       !w->value[strspn(w->value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789")];
}

/* for and select: the list is kept as text, because its values are unknown until the loop runs. */
static void parse_for(struct parser *p, enum keyword k)
{
	struct shell_word word;

	parser_take_keyword(p, k);
	parser_skip_blanks(p);
	if (k == KW_FOR && take_arithmetic(p)) {
		parse_arithmetic_command(p);
		if (parser_op(p) == OP_SEMI)
			parser_take_op(p, OP_SEMI);
		parser_skip_newlines(p);
		parse_do_group(p, true);
		return;
	}
	if (!is_at_word(p)) {
		parser_unexpected(p);
		return;
	}
	parse_word(p, WORD_PLAIN, &word);
	if (p->dialect == SHELL_POSIX && !is_name_word(&word))
		parser_fail(p, "not a name");
	const char *name = word.plain, *list = NULL, *list_end = NULL;
	if (parser_op(p) == OP_SEMI)
		parser_take_op(p, OP_SEMI);
	else {
		parser_skip_newlines(p);
		if (parser_keyword(p) == KW_IN) {
			parser_take_keyword(p, KW_IN);
			list = p->at;
			while (is_at_word(p))
				parse_word(p, WORD_PLAIN, &word);
			list_end = p->at;
			enum op op = parser_op(p);
			if (op != OP_SEMI && op != OP_NEWLINE)
				parser_unexpected(p);
			parser_take_op(p, op);
		}
	}
	parser_sets(p, name, strlen(name), list, (size_t)(list_end - list));
	parser_skip_newlines(p);
	parse_do_group(p, p->dialect == SHELL_BASH);
}

/* One pattern list with its commands. */
static void parse_case_clause(struct parser *p)
{
	struct shell_word pattern;

	if (parser_op(p) == OP_OPEN)
		parser_take_op(p, OP_OPEN);
	for (;;) {
		if (!is_at_word(p)) {
			parser_unexpected(p);
			return;
		}
		parse_word(p, WORD_PLAIN, &pattern);
		if (parser_op(p) != OP_PIPE)
			break;
		parser_take_op(p, OP_PIPE);
	}
	if (parser_op(p) != OP_CLOSE) {
		parser_unexpected(p);
		return;
	}
	parser_take_op(p, OP_CLOSE);
	const unsigned saved = p->context;
	p->context |= SHELL_IN_BRANCH;
	parse_list(p);
	p->context = saved;
}

/* case word in … esac. Patterns are words, whose substitutions run. */
static void parse_case(struct parser *p)
{
	struct shell_word word;

	parser_take_keyword(p, KW_CASE);
	if (!is_at_word(p)) {
		parser_unexpected(p);
		return;
	}
	parse_word(p, WORD_PLAIN, &word);
	parser_skip_newlines(p);
	expect_keyword(p, KW_IN, "in");
	for (;;) {
		parser_skip_newlines(p);
		if (p->failed || parser_keyword(p) == KW_ESAC)
			break;
		parse_case_clause(p);
		enum op op = parser_op(p);
		if (op != OP_CASE_BREAK && op != OP_CASE_FALL && op != OP_CASE_TEST)
			break;
		parser_take_op(p, op);
	}
	expect_keyword(p, KW_ESAC, "esac");
}

static void parse_command(struct parser *p);

/* Parses the body, whose commands get the function's name. In a POSIX sh it may be any command. */
static void parse_function_body(struct parser *p, const char *name)
{
	const char *outer = p->function;
	const unsigned saved = p->context;
	struct shell_script *s = p->script;

	p->compounds++;
	s->function = shell_arena_grow(p->arena, s->function, s->nfunctions, sizeof(*s->function));
	s->function[s->nfunctions++] = (struct shell_function){ .name = name,
								.first = s->count,
								.context = p->context,
								.scope = p->scope,
								.offset = parser_offset(p, p->at) };
	p->function = name;
	/*
	 * The body does not run here: pipes, loops and conditions around the definition say nothing about its commands.
	 */
	p->context = (p->context & SHELL_IN_SUBSTITUTION) | SHELL_IN_FUNCTION;
	parser_skip_newlines(p);
	parse_command(p);
	if (p->dialect == SHELL_BASH && !p->compound)
		parser_fail(p, "the body of a function must be a compound command");
	p->function = outer;
	p->context = saved;
}

/* function NAME [()] body: bash's form, in which the parentheses may be missing. */
static void parse_function(struct parser *p)
{
	struct shell_word name;

	parser_take_keyword(p, KW_FUNCTION);
	if (!is_at_word(p)) {
		parser_unexpected(p);
		return;
	}
	parse_word(p, WORD_PLAIN, &name);
	if (parser_op(p) == OP_OPEN) {
		const char *open = p->at;

		parser_take_op(p, OP_OPEN);
		if (parser_op(p) == OP_CLOSE)
			parser_take_op(p, OP_CLOSE);
		else
			p->at = open;
	}
	parse_function_body(p, name.plain);
}

static bool starts_compound(enum keyword k)
{
	return k == KW_IF || k == KW_WHILE || k == KW_UNTIL || k == KW_FOR || k == KW_CASE || k == KW_SELECT ||
	       k == KW_OPEN || k == KW_TEST;
}

/* coproc [NAME] command: a name only if a compound command follows. */
static void parse_coproc(struct parser *p)
{
	const size_t from = p->script->count;

	p->shifts_lines = p->script->crosses = true;
	parser_take_keyword(p, KW_COPROC);
	if (!starts_compound(parser_keyword(p)) && parser_op(p) == OP_NONE) {
		const char *start = p->at;

		while (p->at < p->end && (isalnum((unsigned char)*p->at) || *p->at == '_'))
			p->at++;
		if (!(p->at > start && p->at < p->end && (*p->at == ' ' || *p->at == '\t') &&
		      (starts_compound(parser_keyword(p)) || parser_op(p) == OP_OPEN)))
			p->at = start;
		else
			parser_sets(p, start, strcspn(start, " \t"), NULL, 0);
	}
	parse_command(p);
	mark_commands(p, from, SHELL_IN_BACKGROUND | SHELL_IN_SUBSHELL);
}

/* Appends one redirection. */
static void parse_redirects(struct parser *p, struct shell_command *c)
{
	c->redirect = shell_arena_grow(p->arena, c->redirect, c->nredirects, sizeof(*c->redirect));
	struct shell_redirect r = { 0 };
	parse_redirect(p, &r);
	c->redirect[c->nredirects++] = r;
}

/* ---- simple commands ---- */

/* The value of an assignment: a word, nothing, or (…). */
static void parse_assignment_value(struct parser *p, struct shell_word *ret)
{
	struct word_parts w;

	if (p->dialect == SHELL_BASH && p->at < p->end && *p->at == '(') {
		struct shell_word item;
		const char *from = p->at++;

		p->shifts_lines = true;
		for (parser_skip_newlines(p); is_at_word(p); parser_skip_newlines(p))
			parse_word(p, WORD_PLAIN, &item);
		if (parser_op(p) != OP_CLOSE) {
			parser_unexpected(p);
			return;
		}
		p->at++;
		w = (struct word_parts){ .unknown = SHELL_ARRAY, .offset = parser_offset(p, from) };
		word_parts_add_literal(p, &w, from, (size_t)(p->at - from), false);
		parse_word_rest(p, WORD_PLAIN, &w); /* x=(a)b is still one word */
		/*
		 * bash 5.2 loses the backslash of $(x=(\;)): a syntax error, after which it continues with the next
		 * line.
		 */
		if (p->context & SHELL_IN_SUBSTITUTION && memchr(from, '\\', (size_t)(p->at - from)))
			parser_ambiguous(p, "a backslash in an array in $(…)");
	} else {
		parse_word_parts(p, WORD_PLAIN, &w);
		w.glob = false; /* neither globs nor fields are expanded here */
		w.many = false;
	}
	word_parts_finish(p, &w, ret);
}

/*
 * Whether NAME=, NAME+= or NAME[…]= is here; if so, it is consumed up to the value. Where an assignment is possible,
 * bash takes NAME[…] as one piece, including blanks and #, even if no = follows: then `begun` is the beginning of a
 * word, and the following text belongs to it.
 */
static bool take_assignment(struct parser *p, struct shell_assignment *a, struct word_parts *begun)
{
	const char *from = p->at;
	size_t n = 0;

	if (parser_peek(p) == PARSER_END || isdigit(parser_peek(p)))
		return false;
	for (; parser_is_name(parser_peek(p)); p->at++)
		n++;
	char *name = shell_arena_alloc(p->arena, n + 1);
	p->at = from;
	for (size_t i = 0; i < n; i++, p->at++)
		name[i] = (char)parser_peek(p);
	bool subscript = n && begun && parser_peek(p) == '[';
	if (subscript) {
		p->script->bashisms = true;
		subscript = p->dialect == SHELL_BASH;
		if (subscript)
			parse_subscript(p);
	}
	a->append = n && parser_peek(p) == '+' && parser_peek2(p) == '=' && p->dialect == SHELL_BASH;
	if (n && (a->append || parser_peek(p) == '=') && !p->failed) {
		p->at += a->append;
		(void)parser_peek(p);
		p->at++;
		a->name = name;
		return true;
	}
	if (subscript && !p->failed) {
		*begun = (struct word_parts){ .offset = parser_offset(p, from), .glob = true };
		word_parts_add_literal(p, begun, from, (size_t)(p->at - from), false);
	} else if (!p->failed) {
		p->at = from;
	}
	return false;
}

/* Whether a word is literally one of these names. */
static bool is_one_of(const struct shell_word *w, const char *const *names, size_t count)
{
	for (size_t i = 0; w->value && i < count; i++)
		if (strcmp(w->value, names[i]) == 0)
			return true;
	return false;
}

static void parse_simple_word(struct parser *p, struct shell_command *c, struct word_parts *begun)
{
	static const char *const declares[] = { "declare", "export", "local", "readonly", "typeset", "alias", "eval" };
	const bool declaration = c->nwords && is_one_of(&c->word[0], declares, countof(declares));
	struct word_parts w;
	const char *from = p->at;
	struct shell_assignment a = { 0 };

	/* declare a=(…): an argument in the form of an assignment */
	if (p->dialect == SHELL_BASH && declaration && take_assignment(p, &a, NULL) && p->at < p->end &&
	    *p->at == '(') {
		struct shell_word value;

		parse_assignment_value(p, &value);
		if (p->failed)
			return;
		w = (struct word_parts){ .unknown = SHELL_ARRAY, .offset = parser_offset(p, from) };
		word_parts_add_literal(p, &w, from, (size_t)(p->at - from), false);
	} else if (begun->count) {
		w = *begun;
		parse_word_rest(p, WORD_PLAIN, &w);
	} else {
		if (!p->failed)
			p->at = from;
		parse_word_parts(p, WORD_PLAIN, &w);
	}
	expand_braces(p, &w, &c->word, &c->nwords);
}

/* Assignments, words and redirections in any order; or a function definition, name (). */
static void parse_simple_command(struct parser *p, bool timed)
{
	struct shell_command c = { .kind = SHELL_SIMPLE, .offset = parser_offset(p, p->at) };

	for (;;) {
		struct shell_assignment a = { 0 };
		struct word_parts begun = { 0 };

		if (parser_at_redirect(p)) {
			parse_redirects(p, &c);
			if (!p->failed && !c.nwords && !c.nassignments && p->dialect == SHELL_BASH)
				parser_check_moved_word(p, timed, c.redirect[0].op);
		} else if (!is_at_word(p)) {
			break;
		} else if (!c.nwords && take_assignment(p, &a, &begun)) {
			parse_assignment_value(p, &a.value);
			c.assignment = shell_arena_grow(p->arena, c.assignment, c.nassignments, sizeof(*c.assignment));
			c.assignment[c.nassignments++] = a;
		} else {
			parse_simple_word(p, &c, &begun);
		}
		if (p->failed)
			return;
		if (c.nwords == 1 && !c.nredirects && !c.nassignments && parser_op(p) == OP_OPEN) {
			parser_take_op(p, OP_OPEN);
			if (parser_op(p) != OP_CLOSE) {
				parser_unexpected(p);
				return;
			}
			parser_take_op(p, OP_CLOSE);
			if (p->dialect == SHELL_POSIX && !is_name_word(&c.word[0]))
				parser_fail(p, "not a name for a function");
			parse_function_body(p, c.word[0].plain);
			return;
		}
	}
	if (!c.nwords && !c.nassignments && !c.nredirects) {
		parser_unexpected(p);
		return;
	}
	/* From here on @(…) is a pattern and no syntax error. */
	if (c.nwords && is_one_of(&c.word[0], (const char *const[]){ "shopt" }, 1))
		for (size_t i = 1; i < c.nwords; i++)
			p->extglob |= is_one_of(&c.word[i], (const char *const[]){ "extglob" }, 1);
	parser_emit(p, &c);
	p->compound = false;
}

/* A compound command at its reserved word k, or at a parenthesis (KW_NONE), and the redirections after it. */
static void parse_compound_command(struct parser *p, enum keyword k)
{
	struct shell_command c = { .kind = SHELL_COMPOUND, .offset = parser_offset(p, p->at) };
	struct shell_command test = { .kind = SHELL_TEST, .offset = c.offset };

	p->compounds++;
	switch (k) {
	case KW_NONE:
		if (take_arithmetic(p)) {
			parse_arithmetic_command(p);
			break;
		}
		const size_t scope = parser_scope_enter(p);
		p->at++;
		parse_body(p, SHELL_IN_SUBSHELL);
		p->scope = scope;
		if (parser_op(p) != OP_CLOSE)
			parser_unexpected(p);
		else
			p->at++;
		break;
	case KW_OPEN:
		parser_take_keyword(p, k);
		parse_body(p, 0);
		expect_keyword(p, KW_CLOSE, "}");
		break;
	case KW_IF: parse_if(p); break;
	case KW_WHILE:
	case KW_UNTIL:
		parser_take_keyword(p, k);
		parse_body(p, SHELL_IN_CONDITION | SHELL_IN_LOOP);
		parse_do_group(p, false);
		break;
	case KW_FOR:
	case KW_SELECT: parse_for(p, k); break;
	case KW_CASE: parse_case(p); break;
	default:                    /* [[ */
		p->computes = true; /* -eq is arithmetic */
		parser_take_keyword(p, k);
		parse_conditional(p, &test);
		parser_emit(p, &test);
	}
	while (!p->failed && parser_at_redirect(p))
		parse_redirects(p, &c);
	/* Only then: without redirections the compound command itself does nothing that its commands do not. */
	if (c.nredirects)
		parser_emit(p, &c);
	p->compound = true;
	p->redirected = c.nredirects > 0;
}

static void parse_command(struct parser *p)
{
	if (!parser_enter(p))
		return;
	const bool timed = p->timed;
	p->timed = false;
	const enum keyword k = parser_keyword(p);
	if (starts_compound(k) || (k == KW_NONE && parser_op(p) == OP_OPEN)) {
		parse_compound_command(p, k);
	} else if (k == KW_FUNCTION) {
		parse_function(p);
	} else if (k == KW_COPROC) {
		parse_coproc(p);
	} else if (k == KW_NONE) {
		parse_simple_command(p, timed);
	} else {
		parser_unexpected(p);
	}
	parser_leave(p);
}

/* ---- pipelines and lists ---- */

/* ! or time [-p] [--] */
static void take_prefix(struct parser *p, enum keyword k)
{
	parser_take_keyword(p, k);
	for (int c = 'p'; k == KW_TIME && c != PARSER_END; c = c == 'p' ? '-' : PARSER_END) {
		parser_skip_blanks(p);
		const char *from = p->at;
		if (parser_peek(p) == '-' && parser_peek2(p) == c) {
			p->at++;
			(void)parser_peek(p);
			p->at++;
			if (parser_ends_word(parser_peek(p)))
				continue;
		}
		p->at = from;
	}
	p->timed = k == KW_TIME;
	/* time -v make: where `time` is not a keyword, it is a program with options. */
	p->script->bashisms |= k == KW_TIME && parser_peek(p) == '-';
}

/* Commands joined by |. Their place in the pipeline is known only when the next operator is seen. */
static void parse_pipeline(struct parser *p)
{
	struct shell_script *s = p->script;
	const size_t from = s->count;
	bool prefixed = false;

	p->timed = false;
	for (enum keyword k;
	     (k = parser_keyword(p)) == KW_TIME || (k == KW_NOT && !(prefixed && p->dialect == SHELL_POSIX));
	     prefixed = true)
		take_prefix(p, k);
	const enum op next = parser_op(p);
	if (prefixed && p->dialect == SHELL_BASH && (next == OP_NEWLINE || next == OP_SEMI || next == OP_END))
		return;
	parse_command(p);
	unsigned id = 0;
	for (size_t stage = 0, start = from;; stage++) {
		const enum op op = p->failed ? OP_NONE : parser_op(p);
		const bool more = op == OP_PIPE || op == OP_PIPE_BOTH;

		if (more && !id)
			id = ++s->pipelines;
		mark_functions(p, start, id ? SHELL_IN_PIPE_FROM | SHELL_IN_PIPE_TO : 0);
		for (size_t i = start; id && i < s->count; i++) {
			struct shell_command *c = &s->command[i];

			c->context |= (stage ? SHELL_IN_PIPE_FROM : 0) | (more ? SHELL_IN_PIPE_TO : 0);
			c->outermost = id;
			/*
			 * The innermost pipeline is recorded. Commands of a substitution are not stages of the pipeline
			 * around it.
			 */
			if (!c->pipeline &&
			    !(c->context & SHELL_IN_SUBSTITUTION && !(p->context & SHELL_IN_SUBSTITUTION))) {
				c->pipeline = id;
				c->stage = (unsigned)stage;
				c->alone = s->count - start == 1;
			}
		}
		if (!more)
			return;
		start = s->count;
		parser_take_op(p, op);
		parser_skip_newlines(p);
		bool timed = false;
		for (; parser_keyword(p) == KW_TIME; timed = true)
			take_prefix(p, KW_TIME);
		if (!timed || parser_op(p) == OP_NONE || parser_op(p) == OP_OPEN || parser_op(p) == OP_REDIRECT)
			parse_command(p);
	}
}

/* The reserved words that end a list where they are allowed; elsewhere they are errors. */
static bool closes_list(enum keyword k)
{
	return k == KW_THEN || k == KW_ELIF || k == KW_ELSE || k == KW_FI || k == KW_DO || k == KW_DONE ||
	       k == KW_ESAC || k == KW_CLOSE;
}

size_t parse_list(struct parser *p)
{
	size_t count = 0;

	for (parser_skip_newlines(p); !p->failed; parser_skip_newlines(p)) {
		enum op op = parser_op(p);
		const size_t from = p->script->count;

		if (op == OP_END || op == OP_CLOSE || op == OP_CASE_BREAK || op == OP_CASE_FALL || op == OP_CASE_TEST ||
		    closes_list(parser_keyword(p)))
			break;
		const unsigned saved = p->context;
		for (;;) {
			parse_pipeline(p);
			op = p->failed ? OP_NONE : parser_op(p);
			if (op != OP_AND && op != OP_OR)
				break;
			parser_take_op(p, op);
			parser_skip_newlines(p);
			p->context |= SHELL_IN_CONDITION; /* what follows && and || may not run */
		}
		p->context = saved;
		/* Commands of this list, not of the script: an empty list is an error in most places. */
		count++;
		op = parser_op(p);
		if (op == OP_AMP)
			mark_commands(p, from, SHELL_IN_BACKGROUND);
		if (op == OP_AMP || op == OP_SEMI || op == OP_NEWLINE)
			parser_take_op(p, op);
		else if (op == OP_NONE && p->compound && !p->redirected && closes_list(parser_keyword(p)))
			break;
		else if (op != OP_END && op != OP_CLOSE && op != OP_CASE_BREAK && op != OP_CASE_FALL &&
			 op != OP_CASE_TEST)
			parser_unexpected(p);
	}
	return count;
}

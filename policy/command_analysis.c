/*
 * The driver of the analysis. A text is parsed, each simple command is listed and classified, and the inner command of
 * a wrapper is processed the same way, as words or as a text of its own, one level deeper. The limits of depth,
 * commands and bytes apply to all levels together, so nesting texts in texts cannot make the analysis slow.
 */

#include "policy/command_analysis.h"

#include "policy/analysis.h"
#include "policy/command_text.h"
#include "policy/variables.h"
#include "policy/word_values.h"
#include "policy/wrapper.h"
#include "runtime/base/buf.h"
#include "runtime/base/mem.h"

#define BUDGET (4u << 20)
#define COMPARE_MAX \
	256 /* above this number of commands the dialects are not compared; the commands of both are listed */

/* The position of a command: what it inherits from its surroundings. */
struct command_context {
	int parent;
	const char *const *wrappers;
	size_t nwrappers;
	unsigned context, flags;
	unsigned pipeline, stage, outermost;
	bool alone;
	size_t line, column;
	unsigned nesting;
	const char *cwd;
	const struct shell_redirect *redirect; /* of the wrapper: where an inner shell reads its commands from */
	size_t nredirects;
	const struct shell_script *script; /* the script whose functions can be called here; NULL: only programs can */
	size_t offset;                     /* in its text */
};

static void read_text(struct analysis *r, const char *text, size_t len, bool bash_only,
		      const struct command_context *at);

/* ---- words ---- */

static struct command_word *words_of(struct analysis *r, const struct shell_word *w, size_t n)
{
	struct command_word *words = shell_arena_alloc(r->arena, (n + 1) * sizeof(*words));

	for (size_t i = 0; i < n; i++)
		words[i] = analysis_word(r, &w[i]);
	return words;
}

/* The words as rules match them: quoted where needed, unknown words as written. */
static const char *text_of(struct analysis *r, const struct command_word *w, size_t n)
{
	buf_auto struct buf text = BUF_INIT;
	const bool special = n && w[0].value && (strcmp(w[0].value, "[[") == 0 || strcmp(w[0].value, "((") == 0);

	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_byte(&text, ' ');
		if (w[i].value && !special)
			command_quote(w[i].value, strlen(w[i].value), &text);
		else
			buf_str(&text, w[i].plain);
	}
	return shell_arena_strndup(r->arena, buf_cstr(&text), text.len);
}

/* ---- the list ---- */

/* Marks the line, and the command whose text this is, as unknown; the first message is reported. */
static void note_unknown(struct analysis *r, const struct command_context *at, unsigned bit)
{
	r->facts->unknown |= bit;
	if (at->parent >= 0)
		analysis_simple(r, (size_t)at->parent)->unknown |= bit;
}

/* Whether the limits permit another command. */
static bool within_limits(struct analysis *r, const struct command_context *at)
{
	if (r->facts->ncommands < COMMAND_COMMANDS_MAX && at->nesting < COMMAND_NESTING_MAX)
		return true;
	note_unknown(r, at, COMMAND_UNKNOWN(TOO_MUCH));
	return false;
}

/* Which words are values of the options in front of them: n elements. */
static const bool *find_values(struct analysis *r, const struct command_args *a, const struct command_word *w, size_t n)
{
	bool *is = shell_arena_alloc(r->arena, n + 1);
	/* -m is an option with a value for some of git's commands only. */
	const bool message = args_match(a, "git =commit|tag|merge|stash|notes");

	for (size_t i = 0; i < a->noptions; i++)
		if (a->option[i].value_word)
			is[a->option[i].value_word - w] = true;
	for (size_t i = 1; message && i < n; i++)
		is[i] |= args_named(w[i - 1].plain, "-m|-*m|--message");
	return is;
}

/* Appends a simple command to the facts and returns its index. */
static size_t list_command(struct analysis *r, const struct command_word *w, size_t n, const struct command_args *a,
			   const struct command_context *at)
{
	struct command_facts *f = r->facts;
	const char **argv = shell_arena_alloc(r->arena, (n + 1) * sizeof(*argv));
	const char **plain = shell_arena_alloc(r->arena, (n + 1) * sizeof(*plain));

	bool *option = shell_arena_alloc(r->arena, (n + 1) * sizeof(*option));
	const bool *value = find_values(r, a, w, n);
	size_t splits = 0;
	bool ended = false;

	for (size_t i = 0; i < n; i++) {
		argv[i] = w[i].value;
		plain[i] = w[i].plain;
		option[i] = i && !ended && !value[i] && word_values_may_be_option(r, &w[i]);
		ended |= w[i].value && strcmp(w[i].value, "--") == 0;
		if (i && !splits && !w[i].value && w[i].many)
			splits = i;
	}
	f->command = shell_arena_grow(r->arena, f->command, f->ncommands, sizeof(*f->command));
	f->command[f->ncommands] = (struct command_simple){
		.name = a->name,
		.argv = argv,
		.plain = plain,
		.option = option,
		.argc = n,
		.text = text_of(r, w, n),
		.parent = at->parent,
		.wrappers = at->wrappers,
		.nwrappers = at->nwrappers,
		.context = at->context,
		.pipeline = at->pipeline,
		.stage = at->stage,
		.outermost = at->outermost,
		.alone = at->alone,
		.flags = at->flags,
		.line = at->line,
		.column = at->column,
		.operand = a->noperands ? (size_t)(a->operand[0] - a->word) : 0,
		.splits = splits,
	};
	/* /proc/self/exe -c … is the shell itself. */
	if (n && (!w[0].value || strncmp(w[0].value, "/proc/", 6) == 0 || strncmp(w[0].value, "/dev/fd/", 8) == 0))
		f->command[f->ncommands].unknown |= COMMAND_UNKNOWN(COMMAND_NAME);
	return f->ncommands++;
}

/* Whether some command may remove a function's definition. */
static bool unsets_function(const struct shell_script *s)
{
	static const char *const words[] = { "unset", "eval", "trap", "alias" };

	for (size_t i = 0; i < s->count; i++)
		for (size_t k = 0; k < s->command[i].nwords; k++)
			for (size_t n = 0; n < countof(words); n++)
				if (s->command[i].word[k].value && strcmp(s->command[i].word[k].value, words[n]) == 0)
					return true;
	return false;
}

/*
 * Whether the name certainly calls a function. A definition in a branch, in a subshell or on a later line may not be in
 * effect, and then the program of that name runs.
 */
static bool calls_function(const struct command_context *at, const char *name)
{
	const struct shell_script *s = at->script;

	for (size_t i = 0; name && s && i < s->nfunctions; i++)
		if (strcmp(s->function[i].name, name) == 0 && !s->function[i].context && !s->function[i].scope &&
		    s->function[i].offset < at->offset)
			return true;
	return false;
}

/* ---- wrappers ---- */

/* Commands read from standard input: known if it is a here-document. */
static void read_stdin_commands(struct analysis *r, size_t index, const struct command_context *inside,
				const struct shell_redirect *d, size_t n)
{
	const struct shell_redirect *last = NULL; /* if there are several, the last one is used */
	unsigned why = COMMAND_UNKNOWN(STDIN);

	for (size_t i = 0; i < n; i++)
		if (d[i].fd == 0 ||
		    (d[i].fd < 0 && (d[i].op == SHELL_READ || d[i].op == SHELL_READ_WRITE || d[i].op == SHELL_DUP_IN ||
				     d[i].op == SHELL_HEREDOC || d[i].op == SHELL_HERESTRING)))
			last = &d[i];
	if (last && last->body && *last->body) {
		read_text(r, *last->body, strlen(*last->body), false, inside);
		return;
	}
	if (last && last->body)
		why = COMMAND_UNKNOWN(EVALUATED);
	else if (last && last->op == SHELL_READ && last->target.value && !args_is_descriptor(last->target.value))
		why = COMMAND_UNKNOWN(SOURCED); /* a file; < <(…) is none */
	analysis_simple(r, index)->unknown |= why;
}

static void read_words(struct analysis *r, const struct command_word *w, size_t n,
		       const struct shell_redirect *redirect, size_t nredirects, const struct command_context *at);

/* Analyses the commands inside a wrapper, one level deeper, with what they inherit from it. */
static void analyse_inner(struct analysis *r, size_t index, const struct command_args *args,
			  const struct wrapper_found *found, const struct shell_redirect *redirect, size_t nredirects,
			  const struct command_context *at)
{
	struct command_simple *c = analysis_simple(r, index);
	const char **wrappers = shell_arena_alloc(r->arena, (at->nwrappers + 1) * sizeof(*wrappers));
	struct command_context inside = *at;

	for (size_t i = 0; i < at->nwrappers; i++)
		wrappers[i] = at->wrappers[i];
	wrappers[at->nwrappers] = c->name;
	inside.wrappers = wrappers;
	inside.nwrappers++;
	inside.parent = (int)index;
	inside.script = NULL;
	inside.nesting++;
	inside.flags |= (found->privileged ? COMMAND_PRIVILEGED : 0) | (found->remote ? COMMAND_ELSEWHERE : 0);
	inside.redirect = nredirects ? redirect : at->redirect;
	inside.nredirects = nredirects ? nredirects : at->nredirects;
	if (found->moves)
		inside.cwd = found->cwd ? command_paths_absolute(r, at->cwd, found->cwd) : NULL;
	/* ./env may be any program. */
	const bool transparent = found->transparent && command_class_is_system_program(c->argv[0]);
	c->flags |= COMMAND_WRAPPER | (transparent ? COMMAND_TRANSPARENT : 0) |
		    (found->privileged ? COMMAND_PRIVILEGED : 0);
	c->unknown |= found->unknown;
	for (size_t i = 0; i < found->nassign; i++) {
		const char *equals = strchr(found->assign[i], '=');

		exec_variables_of_assignment(
			r, index, shell_arena_strndup(r->arena, found->assign[i], (size_t)(equals - found->assign[i])),
			equals + 1);
		variables_set(r, found->assign[i]);
	}
	if (found->reads_stdin)
		variables_add_arguments(r, args, "");
	if (found->reads_stdin)
		read_stdin_commands(r, index, &inside, inside.redirect, inside.nredirects);
	for (size_t i = 0; i < found->ninner; i++) {
		const struct wrapper_inner *inner = &found->inner[i];

		if (inner->text && !args_named(args->name, "eval|trap|alias"))
			variables_add_arguments(r, args, inner->text);
		if (inner->text)
			read_text(r, inner->text, strlen(inner->text), inner->bash_only, &inside);
		else
			read_words(r, inner->word, inner->count, NULL, 0, &inside);
	}
}

/* ---- one command ---- */

static bool writes_itself(const struct analysis *r, size_t index)
{
	for (size_t i = 0; i < r->facts->npaths; i++)
		if (r->facts->path[i].command == index &&
		    (r->facts->path[i].access & (COMMAND_WRITES | COMMAND_DELETES)))
			return true;
	return false;
}

static void read_words(struct analysis *r, const struct command_word *w, size_t n,
		       const struct shell_redirect *redirect, size_t nredirects, const struct command_context *at)
{
	struct command_args *args = shell_arena_alloc(r->arena, sizeof(*args));
	struct wrapper_found *found = shell_arena_alloc(r->arena, sizeof(*found));

	if (!within_limits(r, at))
		return;
	r->cwd = at->cwd;
	args_init(args, w, n, r->arena);
	const size_t index = list_command(r, w, n, args, at);
	const struct analysis_command c = {
		.index = index, .args = args, .redirect = redirect, .nredirects = nredirects, .cwd = at->cwd
	};
	if (calls_function(at, n ? w[0].value : NULL)) {
		analysis_simple(r, index)->flags |= COMMAND_FUNCTION_CALL;
		if (!nredirects)
			analysis_simple(r, index)->flags |= COMMAND_READ_ONLY;
		command_paths_of_redirects(r, &c);
		return;
	}
	if (at->flags & COMMAND_ELSEWHERE) {
		harm_of_command(r, &c);
		wrapper_find(w, n, r->arena, found);
		if (found->wraps)
			analyse_inner(r, index, args, found, NULL, 0, at);
		analysis_simple(r, index)->unknown = 0; /* the shell of the other machine may do anything anyway: the
							   command for ssh itself reports that */
		return;
	}
	const char *roles = command_paths_of_command(r, &c);
	network_of_command(r, &c);
	harm_of_command(r, &c);
	wrapper_find(w, n, r->arena, found);
	path_words_of_command(r, &c, roles, found->wraps);
	if (found->wraps)
		analyse_inner(r, index, args, found, redirect, nredirects, at);
	command_class_of_command(r, &c);
	/* The inner command is classified separately. */
	struct command_simple *s = analysis_simple(r, index);
	if ((s->flags & COMMAND_TRANSPARENT) && !s->unknown && !writes_itself(r, index) &&
	    !command_class_does_more(args)) {
		static const struct command_args none = { 0 };
		const struct analysis_command bare = {
			.index = index, .args = &none, .redirect = redirect, .nredirects = nredirects
		};

		command_class_of_command(r, &bare);
	}
}

static const char *read_assignment(struct analysis *r, const struct shell_assignment *a, size_t index, const char *cwd)
{
	if (!exec_variables_is_harmless(r, index, a->name, a->value.plain, cwd) &&
	    (a->append || !exec_variables_is_fixed_path(r, a->name, &a->value, 0)))
		exec_variables_of_assignment(r, index, a->name, a->value.value);
	path_words_of_assignment(r, index, cwd, &a->value);
	arithmetic_value(r, a->name, a->value.unknown & SHELL_GLOB ? NULL : a->value.plain);
	arithmetic_subscripts(r, a->value.plain, a->value.unknown == SHELL_ARRAY);
	if (a->value.unknown & SHELL_EVALUATES)
		analysis_simple(r, index)->unknown |= COMMAND_UNKNOWN(EVALUATED);
	char *text = shell_arena_alloc(r->arena, strlen(a->name) + strlen(a->value.plain) + 2);
	memcpy(text, a->name, strlen(a->name));
	text[strlen(a->name)] = '=';
	memcpy(text + strlen(a->name) + 1, a->value.plain, strlen(a->value.plain));
	return text;
}

static void read_command(struct analysis *r, const struct shell_command *sc, const struct command_context *at)
{
	struct command_word *w = words_of(r, sc->word, sc->nwords);
	const size_t index = r->facts->ncommands;
	const bool elsewhere = at->flags & COMMAND_ELSEWHERE;
	const char **assign = shell_arena_alloc(r->arena, (sc->nassignments + 1) * sizeof(*assign));

	read_words(r, w, sc->nwords, sc->redirect, sc->nredirects, at);
	if (index >= r->facts->ncommands || elsewhere)
		return;
	for (size_t i = 0; i < sc->nassignments; i++)
		assign[i] = read_assignment(r, &sc->assignment[i], index, at->cwd);
	analysis_simple(r, index)->assign = assign;
	analysis_simple(r, index)->nassign = sc->nassignments;
	for (size_t i = 0; i < sc->nredirects; i++)
		if (sc->redirect[i].target.unknown & SHELL_EVALUATES)
			analysis_simple(r, index)->unknown |= COMMAND_UNKNOWN(EVALUATED);
	if (analysis_simple(r, index)->unknown)
		analysis_simple(r, index)->flags &= ~(unsigned)COMMAND_READ_ONLY;
}

/* ---- a text ---- */

/* The place of a command in the pipelines of its script, of which `taken` numbers precede those of the script. */
static void place_in_pipelines(struct command_context *at, const struct shell_command *c, unsigned taken)
{
	if (!at->outermost && c->outermost)
		at->outermost = taken + c->outermost;
	if (!c->pipeline)
		return;
	at->pipeline = taken + c->pipeline;
	at->stage = c->stage;
	at->alone = c->alone;
}

static void read_script(struct analysis *r, const struct shell_script *s, const char *text, size_t len,
			const struct command_context *at)
{
	const char **cwd = shell_arena_alloc(r->arena, (s->nscopes + 1) * sizeof(*cwd));
	bool *seen = shell_arena_alloc(r->arena, s->nscopes + 1);
	size_t line = 1, start = 0, from = 0;
	const bool lost = s->nfunctions && unsets_function(s);
	const unsigned taken = r->pipelines;

	r->pipelines += s->pipelines;
	r->facts->crosses |= s->crosses;
	cwd[0] = at->cwd;
	seen[0] = true;
	for (size_t i = 0; i < s->count; i++) {
		const struct shell_command *c = &s->command[i];
		struct command_context here = *at;

		for (size_t k = c->scope; !seen[k]; k = s->scope[k]) {
			/* A scope starts in the directory of the enclosing one. */
			size_t outer = s->scope[k];

			while (!seen[outer])
				outer = s->scope[outer];
			cwd[k] = cwd[outer];
			seen[k] = true;
		}
		here.context |= c->context;
		place_in_pipelines(&here, c, taken);
		here.cwd = cwd[c->scope];
		here.script = lost ? NULL : s;
		here.offset = c->offset;
		if (!at->line) {
			/* Commands are nearly sorted by offset: continue counting lines from the last one. */
			if (c->offset < from)
				line = 1, start = from = 0;
			for (; from < c->offset && from < len; from++)
				if (text[from] == '\n') {
					line++;
					start = from + 1;
				}
			here.line = line;
			here.column = c->offset - start + 1;
		}
		read_command(r, c, &here);
		if (c->nwords && c->word[0].value && args_named(c->word[0].value, "cd|pushd|popd|chdir")) {
			struct command_args a;

			args_init(&a, words_of(r, c->word, c->nwords), c->nwords, r->arena);
			r->cwd = cwd[c->scope];
			cwd[c->scope] = command_paths_after_cd(r, &a, cwd[c->scope]);
		}
	}
	if (!(at->flags & COMMAND_ELSEWHERE)) {
		path_words_of_script(r, s, at->cwd);
		exec_variables_of_script(r, s);
	}
	harm_of_line(r, s);
}

static void note_error(struct analysis *r, const struct shell_script *s, const struct command_context *at)
{
	note_unknown(r, at, s->error.limit ? COMMAND_UNKNOWN(TOO_MUCH) : COMMAND_UNKNOWN(SYNTAX));
	if (!r->facts->error[0])
		(void)snprintf(r->facts->error, sizeof(r->facts->error), "%zu:%zu: %s", s->error.line, s->error.column,
			       s->error.message);
}

static void note_ambiguity(struct analysis *r, const struct shell_script *s, const struct command_context *at)
{
	if (!s->ambiguous)
		return;
	note_unknown(r, at, COMMAND_UNKNOWN(AMBIGUOUS));
	if (!r->facts->error[0])
		(void)snprintf(r->facts->error, sizeof(r->facts->error), "%s", s->ambiguous);
}

/* Whether the same command is already listed at this offset: then both dialects agree about it. */
static bool is_listed(const struct command_facts *f, size_t from, size_t to, const struct shell_command *c)
{
	for (size_t i = from; i < to; i++) {
		const struct command_simple *s = &f->command[i];
		bool same = s->argc == c->nwords;

		for (size_t k = 0; same && k < c->nwords; k++)
			same = strcmp(s->plain[k], c->word[k].plain) == 0;
		if (same)
			return true;
	}
	return false;
}

/* m[a]=1: where it is no assignment, it is a command whose name has a =, and no program has such a name. */
static bool is_element(const struct shell_command *c)
{
	const char *s = c->nwords == 1 && c->word[0].unknown == SHELL_GLOB ? c->word[0].plain : "";
	const size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
	const char *close = n && s[n] == '[' ? strchr(s + n, ']') : NULL;

	return close && close[1] == '=' && !strchr(s, '/');
}

/* Parses a text with bashisms as a POSIX sh does, and lists only the commands that are new. */
static void read_as_posix(struct analysis *r, const char *text, size_t len, const struct command_context *at,
			  size_t from)
{
	struct shell_script s;
	const size_t to = r->facts->ncommands;

	/* A syntax error does not matter here: sh would stop there. A limit does: it is ours and not the shell's. */
	if (shell_parse_into(r->arena, text, len, SHELL_POSIX, &s) != 0 && s.error.limit)
		note_error(r, &s, at);
	note_ambiguity(r, &s, at);
	variables_of_script(r, &s);
	size_t kept = 0;
	for (size_t i = 0; i < s.count; i++)
		if (!is_element(&s.command[i]) &&
		    (to - from > COMPARE_MAX || !is_listed(r->facts, from, to, &s.command[i])))
			s.command[kept++] = s.command[i];
	s.count = kept;
	read_script(r, &s, text, len, at);
}

/* Whether the text mentions HOME other than to expand it. Then its value is unknown. */
static bool mentions_home(const char *text, size_t len)
{
	for (const char *s = text; (s = memmem(s, len - (size_t)(s - text), "HOME", 4)); s += 4) {
		const size_t before = (size_t)(s - text), after = len - before - 4;
		const bool plain = before && s[-1] == '$',
			   braced = before > 1 && s[-1] == '{' && s[-2] == '$' && after && s[4] == '}';

		if (!plain && !braced)
			return true;
	}
	return false;
}

static void read_text(struct analysis *r, const char *text, size_t len, bool bash_only,
		      const struct command_context *at)
{
	struct shell_script s;
	const size_t from = r->facts->ncommands;

	if (!within_limits(r, at))
		return;
	if (len > r->budget) {
		r->facts->unknown |= COMMAND_UNKNOWN(TOO_MUCH);
		return;
	}
	r->budget -= len;
	r->home_changed |= mentions_home(text, len);
	const int rc = shell_parse_into(r->arena, text, len, SHELL_BASH, &s);
	if (at->flags & COMMAND_ELSEWHERE) {
		read_script(r, &s, text, len, at);
		return;
	}
	if (rc != 0)
		note_error(r, &s, at);
	note_ambiguity(r, &s, at);
	if (s.hidden)
		r->facts->unknown |= COMMAND_UNKNOWN(EVALUATED);
	arithmetic_of_script(r, &s);
	variables_of_script(r, &s);
	read_script(r, &s, text, len, at);
	if (!s.bashisms || bash_only)
		return;
	if (len > r->budget) {
		r->facts->unknown |= COMMAND_UNKNOWN(TOO_MUCH);
		return;
	}
	r->budget -= len;
	r->facts->crosses = true; /* the commands of one pipeline may be listed by different dialects */
	read_as_posix(r, text, len, at, from);
}

/* ---- entry points ---- */

static void analysis_init(struct analysis *r, const struct analysis_options *o, struct command_facts *f)
{
	*f = (struct command_facts){ .arena = shell_arena_new() };
	*r = (struct analysis){ .facts = f, .arena = f->arena, .o = o, .budget = BUDGET };
	r->workspace = o->workspace ? o->workspace : o->cwd ? o->cwd : "/";
}

/* What applies to the whole line: variables of the caller, arithmetic, the worst harm. */
static void summarise_facts(struct analysis *r)
{
	struct command_facts *f = r->facts;
	bool read_only = f->ncommands > 0;

	for (size_t i = 0; i < r->o->nenv && f->ncommands; i++) {
		const char *equals = strchr(r->o->env[i], '=');

		if (!equals)
			continue;
		const char *name = shell_arena_strndup(r->arena, r->o->env[i], (size_t)(equals - r->o->env[i]));
		exec_variables_of_assignment(r, 0, name, equals + 1);
		if (strpbrk(equals, "$`"))
			arithmetic_value(r, name, NULL);
	}
	if (arithmetic_is_open(&r->arithmetic))
		f->unknown |= COMMAND_UNKNOWN(EVALUATED);
	for (size_t i = 0; i < f->ncommands; i++) {
		const struct command_simple *c = &f->command[i];

		f->unknown |= c->unknown;
		f->flags |= c->flags;
		read_only &= (c->flags & COMMAND_READ_ONLY) != 0;
		if (c->harm > f->harm) {
			f->harm = c->harm;
			f->impact = c->impact;
			f->advice = c->advice;
		}
	}
	f->flags &= ~(unsigned)(COMMAND_READ_ONLY | COMMAND_TRANSPARENT);
	if (read_only && !f->unknown && !f->harm)
		f->flags |= COMMAND_READ_ONLY;
}

void command_analyse_line(const char *line, size_t len, const struct analysis_options *o, struct command_facts *ret)
{
	struct analysis r;
	const struct command_context top = { .parent = -1, .cwd = o->cwd };

	analysis_init(&r, o, ret);
	variables_of_environment(&r);
	read_text(&r, line, len, false, &top);
	summarise_facts(&r);
	listed_names_of_line(&r);
}

void command_analyse_argv(const char *const *argv, size_t argc, const struct analysis_options *o,
			  struct command_facts *ret)
{
	struct analysis r;
	const struct command_context top = { .parent = -1, .cwd = o->cwd };

	analysis_init(&r, o, ret);
	variables_of_environment(&r);
	struct command_word *w = shell_arena_alloc(r.arena, (argc + 1) * sizeof(*w));
	for (size_t i = 0; i < argc; i++)
		w[i] = (struct command_word){ .value = argv[i], .plain = argv[i], .lead = true };
	read_words(&r, w, argc, NULL, 0, &top);
	harm_of_line(&r, NULL);
	summarise_facts(&r);
	listed_names_of_line(&r);
}

void command_facts_done(struct command_facts *f)
{
	shell_arena_free(f->arena);
	*f = (struct command_facts){ 0 };
}

/*
 * Other spellings of a command, for rules that deny or ask. The list of known programs is the union of all tables: what
 * a known program does with its words is described there, while the words of an unknown program may be a command.
 */

#include "policy/command_variants.h"

#include "policy/analysis.h"
#include "policy/args.h"
#include "policy/command_analysis.h"
#include "policy/shell/arena.h"
#include "runtime/base/buf.h"
#include "runtime/base/mem.h"

#include <stdint.h>
#include <string.h>

#define OPERANDS_MAX 256 /* that are compared with a rule; above this it may match */
#define CLUSTER_MAX 8    /* bytes of a cluster such as -rfv; a longer word is the name of one option: -auto-approve */

/* ---- programs ---- */

static const char *const launchers[] = {
#define LAUNCHER(pattern) pattern,
#include "policy/launchers.def"
#undef LAUNCHER
};

/* The programs of all tables. */
static const char *const known[] = {
#define READONLY(pattern) pattern,
#include "policy/readonly.def"
#undef READONLY
#define EXECUTES(pattern, unknown, flags) pattern,
#include "policy/executes.def"
#undef EXECUTES
#define PATHS(pattern, operands, options) pattern,
#include "policy/command_paths.def"
#undef PATHS
#define HARM(pattern, level, impact, advice) pattern,
#include "policy/harms.def"
#undef HARM
#define NETWORK(pattern, intent, hosts) pattern,
#include "policy/network.def"
#undef NETWORK
#define OPTION_VALUES(names, style, letters, longs) names,
#include "policy/option_values.def"
#undef OPTION_VALUES
#define WRAPPER(names, second, how, flags, letters, longs, skip) names,
#include "policy/wrappers.def"
#undef WRAPPER
};

static bool is_known(const char *name)
{
	for (size_t i = 0; i < countof(known); i++)
		if (args_named(name, known[i]))
			return true;
	return false;
}

bool command_variants_is_seen(const struct command_simple *c)
{
	return c->name && c->argv[0] && command_class_is_system_program(c->argv[0]) &&
	       (strcmp(c->name, "[[") == 0 || strcmp(c->name, "((") == 0 || is_known(c->name));
}

static struct command_word word_of(const char *value, const char *plain, struct shell_arena *arena)
{
	const size_t n = strlen(plain);

	if (value && plain[0] == '-' && plain[1] != '-' && n > CLUSTER_MAX) {
		char *named = shell_arena_alloc(arena, n + 2);

		named[0] = '-';
		memcpy(named + 1, plain, n);
		value = plain = named;
	}
	return (struct command_word){ .value = value, .plain = plain, .lead = value != NULL };
}

/* Parses the words of a command; the arena is the caller's. */
static void args_of(const struct command_simple *c, struct shell_arena *arena, struct command_args *ret)
{
	struct command_word *word = shell_arena_alloc(arena, (c->argc + 1) * sizeof(*word));

	for (size_t i = 0; i < c->argc; i++)
		word[i] = word_of(c->argv[i], c->plain[i], arena);
	args_init(ret, word, c->argc, arena);
}

bool command_variants_may_run(const struct command_simple *c)
{
	if (!c->name || (c->flags & (COMMAND_WRAPPER | COMMAND_FUNCTION_CALL)))
		return false;
	if (!is_known(c->name))
		return true;
	bool is = false;
	struct shell_arena *arena = shell_arena_new();
	struct command_args args;
	args_of(c, arena, &args);
	for (size_t i = 0; i < countof(launchers); i++)
		is |= args_match(&args, launchers[i]);
	shell_arena_free(arena);
	return is;
}

/* ---- texts ---- */

size_t command_variants_join(const struct command_simple *c, size_t from, struct buf *out)
{
	size_t known_to = from || c->argv[0] ? SIZE_MAX : 0;

	buf_str(out, from && c->name ? c->name : c->plain[0]);
	for (size_t i = from ? from : 1; i < c->argc; i++) {
		buf_byte(out, ' ');
		if (!c->argv[i] && known_to == SIZE_MAX)
			known_to = out->len;
		buf_str(out, c->plain[i]);
	}
	return known_to;
}

bool command_variants_second(const struct command_simple *c, struct buf *out)
{
	const size_t first = c->operand;
	size_t second = first + 1;

	if (first < 2 || c->plain[first - 1][0] != '-' || strchr(c->plain[first - 1], '='))
		return false;
	while (second < c->argc && c->plain[second][0] == '-')
		second++;
	if (second >= c->argc)
		return false;
	command_variants_join(c, second, out);
	return true;
}

void command_variants_each(const struct command_simple *c, command_variants_fn *fn, void *ctx)
{
	buf_auto struct buf text = BUF_INIT;

	if (c->argc < 2 || (c->flags & (COMMAND_WRAPPER | COMMAND_FUNCTION_CALL)))
		return;
	command_variants_join(c, 1, &text);
	const char *at = buf_cstr(&text) + strlen(c->name ? c->name : c->plain[0]) + 1;
	for (size_t i = 1; i < c->argc; at += strlen(c->plain[i]) + 1, i++) {
		const char *word = c->argv[i];

		if (!word)
			continue;
		/* --run='rm x', /bin/rm x */
		const size_t head = strcspn(word, " "), equals = strcspn(word, "=");
		size_t from = equals < head ? equals + 1 : 0;
		for (size_t k = from; k < head; k++)
			if (word[k] == '/')
				from = k + 1;
		fn(ctx, at + from);
	}
}

/* ---- hosts ---- */

bool command_variants_host(const struct command_simple *c, const char *word, char ret[COMMAND_VARIANTS_HOST_MAX])
{
	static const char text_only[] = "echo|printf|:|test|[|[[|grep|egrep|fgrep|rg|ag|ack|sed|awk|find|jq";
	const char *scheme = strstr(word, "://"), *begin = word;

	if (!scheme || !c->name || args_named(c->name, text_only))
		return false;
	for (const char *s = word; s < scheme; s++)
		if (*s == '=' && begin == word)
			begin = s + 1;
	const char *host = scheme + 3;
	const size_t all = strcspn(host, "/?#");
	const char *at = memrchr(host, '@', all);
	host = at ? at + 1 : host;
	const size_t n = strcspn(host, ":/?#");
	if (begin == scheme || strcspn(begin, " \t\n") < (size_t)(scheme - begin) || !n ||
	    n >= COMMAND_VARIANTS_HOST_MAX)
		return false;
	memcpy(ret, host, n);
	ret[n] = '\0';
	return true;
}

/* ---- options ---- */

static const struct {
	const char *names;
	char letter;
	const char *name;
} synonyms[] = {
	{ "rm|cp|chmod|chown|chgrp|grep", 'r', "recursive" },
	{ "rm|cp|chmod|chown|chgrp|grep", 'R', "recursive" },
	{ "rm|cp|mv|ln|git|docker|podman|kill", 'f', "force" },
	{ "git", 'd', "delete" },
	{ "git|docker|podman", 'a', "all" },
	{ "npm|pnpm|yarn|pip", 'g', "global" },
	{ "curl", 'X', "request" },
	{ "curl", 'd', "data" },
	{ "curl", 'o', "output" },
	{ "curl", 'T', "upload-file" },
	{ "sed", 'i', "in-place" },
};

/* The long name of an option letter; NULL: none is known. */
static const char *long_name(const char *program, char letter)
{
	for (size_t i = 0; i < countof(synonyms); i++)
		if (synonyms[i].letter == letter && args_named(program, synonyms[i].names))
			return synonyms[i].name;
	return NULL;
}

static bool is_same_option(const char *program, const struct command_option *wanted, const struct command_option *o)
{
	const char *name = wanted->letter ? long_name(program, wanted->letter) : wanted->name,
		   *other = o->letter ? long_name(program, o->letter) : o->name;
	const size_t n = name ? wanted->letter ? strlen(name) : wanted->name_len : 0,
		     m = other ? o->letter ? strlen(other) : o->name_len : 0;
	const bool same = (wanted->letter && wanted->letter == o->letter) ||
			  (name && other && m && m <= n && memcmp(name, other, m) == 0);

	return same && (!wanted->value || (o->value && strcmp(wanted->value, o->value) == 0));
}

bool command_variants_has_words(const char *pattern)
{
	const size_t n = strlen(pattern), name = strcspn(pattern, " ");

	if (n <= 3 || strcmp(pattern + n - 2, " *") != 0 || strcspn(pattern, "*'\"\\$") != n - 1)
		return false;
	return strstr(pattern, " -") || memchr(pattern + name + 1, ' ', n - 2 > name ? n - 3 - name : 0);
}

/* Parses the words of a pattern, without the * at its end. */
static void args_of_pattern(const char *pattern, struct shell_arena *arena, struct command_args *ret)
{
	const size_t n = strlen(pattern);
	struct command_word *word = shell_arena_alloc(arena, n * sizeof(*word));
	char *text = shell_arena_strndup(arena, pattern, n - 2), *rest = NULL;
	size_t count = 0;

	for (char *s = strtok_r(text, " ", &rest); s; s = strtok_r(NULL, " ", &rest))
		word[count++] = word_of(s, s, arena);
	args_init(ret, word, count, arena);
}

bool command_variants_may_add_option(const struct command_simple *c, size_t from)
{
	for (size_t i = from; i < c->argc; i++)
		if (c->option[i])
			return true;
	return false;
}

static enum rule_match match_options(const struct command_simple *c, const struct command_args *a,
				     const struct command_args *wanted)
{
	for (size_t i = 0; i < wanted->noptions; i++) {
		bool has = false;

		for (size_t k = 0; k < a->noptions && !has; k++)
			has = is_same_option(a->name, &wanted->option[i], &a->option[k]);
		if (!has)
			return command_variants_may_add_option(c, 1) ? RULE_MAYBE : RULE_NO_MATCH;
	}
	return RULE_MATCH;
}

/*
 * Whether the operands begin with those of the pattern. One behind an option that is in no table may be the option's
 * value, and a word that is split may be any of them. state[k]: how certain it is that k operands were found so far.
 */
static enum rule_match match_operands(const struct command_args *a, size_t splits, const struct command_args *wanted,
				      struct shell_arena *arena)
{
	enum rule_match *state = shell_arena_alloc(arena, (wanted->noperands + 1) * sizeof(*state));
	bool live = true;

	state[0] = RULE_MATCH;
	for (size_t i = 0; i < a->noperands && live && !state[wanted->noperands]; i++) {
		const struct command_word *w = a->operand[i];
		const bool value = w[-1].plain[0] == '-' && w[-1].plain[1] && !strchr(w[-1].plain, '=');

		if (i == OPERANDS_MAX || (splits && splits <= (size_t)(w - a->word)))
			return RULE_MAYBE;
		live = false;
		for (size_t k = wanted->noperands; k-- > 0;) {
			const bool same = w->value && strcmp(w->value, wanted->operand[k]->plain) == 0;

			if (state[k] && (same || !w->value))
				state[k + 1] = same ? state[k] : RULE_MAYBE;
			state[k] = state[k] && value ? RULE_MAYBE : RULE_NO_MATCH;
			live |= state[k] || state[k + 1];
		}
	}
	if (live && splits && !state[wanted->noperands])
		return RULE_MAYBE;
	return state[wanted->noperands];
}

/* Quickly excludes most rules: the last word of the pattern must be in a command whose words are all known. */
static bool may_have_last(const char *pattern, const struct command_simple *c)
{
	const size_t n = strlen(pattern) - 2;
	const char *last = memrchr(pattern, ' ', n);
	char word[64];

	for (size_t i = 0; i < c->argc; i++)
		if (!c->argv[i])
			return true;
	if (!last || last[1] == '-' || (size_t)(pattern + n - last) > sizeof(word))
		return true;
	memcpy(word, last + 1, (size_t)(pattern + n - last) - 1);
	word[pattern + n - last - 1] = '\0';
	return strstr(c->text, word);
}

enum rule_match command_variants_words_match(struct command_variants_words *w, const char *pattern)
{
	struct command_args wanted;

	if (!w->command->name || !may_have_last(pattern, w->command))
		return RULE_NO_MATCH;
	if (!w->arena) {
		w->arena = shell_arena_new();
		args_of(w->command, w->arena, &w->args);
	}
	args_of_pattern(pattern, w->arena, &wanted);
	if (!wanted.name || strcmp(w->args.name, wanted.name) != 0)
		return RULE_NO_MATCH;
	const enum rule_match options = match_options(w->command, &w->args, &wanted);
	if (options == RULE_NO_MATCH)
		return RULE_NO_MATCH;
	const enum rule_match operands = match_operands(&w->args, w->command->splits, &wanted, w->arena);
	return operands < options ? operands : options;
}

void command_variants_words_done(struct command_variants_words *w)
{
	if (w->arena)
		shell_arena_free(w->arena);
}

/*
 * Parses the rules of a policy file. jansson validates the JSON and provides the values. The position of a rule in the
 * file comes from a second pass over the same text with pointers into it (jscan). Rules given to a session have no
 * file: they are identified by their list and their number in it.
 */

#include "policy/policy_text.h"
#include "policy/rules.h"
#include "policy/rules_index.h"

#include "runtime/base/buf.h"
#include "runtime/base/did_you_mean.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define EXAMPLES_MAX 64u
#define JUSTIFICATION_MAX 1024u
#define NO_ELEMENT SIZE_MAX

#define FILE_KEYS "permissions|prefixRules|hooks|trustedHooks|sandbox|profiles|models|limits|$schema"
#define PERMISSION_KEYS "deny|ask|allow|defaultMode|allowBypass|sessionAllow|strict"

struct rules_reading {
	struct policy_rules *rules;
	enum rule_layer layer;
	const char *name, *text;
	const char *kept; /* the set's copy of the name; rules point to it */
	size_t len;
	const char *counted; /* line numbers are counted up to here … */
	unsigned line;       /* … which is this line */
	const char *list;    /* of a session's rules: the current list … */
	size_t index;        /* … and the index in it */
};

/* Lines are counted from the last position on, so that a file with many rules is read once. */
static unsigned line_at(struct rules_reading *f, const char *at)
{
	if (f->layer == RULE_OF_SESSION)
		return (unsigned)f->index + 1;
	if (!at)
		return f->line;
	if (at < f->counted) {
		f->counted = f->text;
		f->line = 1;
	}
	for (; f->counted < at; f->counted++)
		f->line += *f->counted == '\n';
	return f->line;
}

__attribute__((format(printf, 5, 6))) static int set_error(struct rules_reading *f, const char *at, const char *field,
							   struct err *e, const char *fmt, ...)
{
	char why[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof why, fmt, ap);
	va_end(ap);
	if (f->layer == RULE_OF_SESSION) {
		const char *in = strncmp(field, "permissions.", 12) == 0 ? field + 12
									 : field; /* deny, prefixRules.pattern */
		char name[ERR_FIELD_MAX];

		if (f->index == NO_ELEMENT)
			snprintf(name, sizeof name, "permissions.%s", in);
		else
			snprintf(name, sizeof name, "permissions.%s[%zu]%s", f->list, f->index, in + strlen(f->list));
		return err_field(e, name, "%s: %s", name, why);
	}
	return err_field(e, field, "%.200s: line %u: %s: %s", f->name, line_at(f, at), field, why);
}

__attribute__((format(printf, 3, 4))) static void add_note(struct rules_reading *f, const char *at, const char *fmt,
							   ...)
{
	struct policy_rules *s = f->rules;
	char what[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	s->note = mem_realloc(s->note, (s->nnotes + 1) * sizeof *s->note);
	s->note[s->nnotes++] = f->layer == RULE_OF_SESSION
				       ? mem_printf("session %s: %s[%zu]: %s", f->name, f->list, f->index, what)
				       : mem_printf("%s: line %u: %s", f->name, line_at(f, at), what);
}

static unsigned rules_max(const struct rules_reading *f)
{
	return f->layer == RULE_OF_SESSION ? RULES_SESSION_MAX : RULES_MAX;
}

static struct policy_rule *rule_new(struct rules_reading *f, enum rule_effect effect, const char *at)
{
	struct policy_rules *s = f->rules;

	if (s->count == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->rule = mem_realloc(s->rule, s->cap * sizeof *s->rule);
	}
	s->rule[s->count] = (struct policy_rule){
		.effect = effect, .layer = f->layer, .file = f->kept, .line = line_at(f, at)
	};
	return &s->rule[s->count++];
}

/* Whether the key is one of a|b|c. */
static bool is_key_of(const char *list, const char *key)
{
	const size_t n = strlen(key);

	for (const char *s = list; *s;) {
		const size_t len = strcspn(s, "|");

		if (len == n && memcmp(s, key, n) == 0)
			return true;
		s += len + (s[len] == '|');
	}
	return false;
}

/* ---- permissions ---- */

static int read_list(struct rules_reading *f, const char *key, enum rule_effect effect, const json_t *list,
		     struct jval where, struct err *e)
{
	struct jiter it = jiter_on(where);
	struct err inner = ERR_INIT;
	char field[ERR_FIELD_MAX];
	const json_t *v;
	size_t i;

	snprintf(field, sizeof field, "permissions.%s", key);
	f->list = key;
	f->index = NO_ELEMENT;
	if (!list)
		return 0;
	if (!json_is_array(list))
		return set_error(f, where.text, field, e, "must be an array of rules");
	json_array_foreach (list, i, v) {
		const char *s = json_string_value(v), *at = jiter_next(&it) ? it.value.text : NULL;

		f->index = i;
		if (!s || strlen(s) != json_string_length(v))
			return f->layer == RULE_OF_SESSION
				       ? set_error(f, at, field, e, "must be a rule such as \"Bash(npm test)\"")
				       : set_error(f, at, field, e, "[%zu] must be a rule such as \"Bash(npm test)\"",
						   i);
		if (f->rules->count >= rules_max(f))
			return set_error(f, at, field, e, "there are more than %u rules", rules_max(f));
		if (f->layer == RULE_OF_WORKSPACE && effect == RULE_ALLOW) {
			add_note(f, at, "a workspace may only tighten: allow '%.120s' is ignored", s);
			continue;
		}
		struct policy_rule *r = rule_new(f, effect, at);
		if (rule_parse(r, s, &inner) < 0)
			return set_error(f, at, field, e, "%s", inner.message);
		r->text = mem_strdup(s);
		if (r->kind == RULE_TOOL && strncmp(s, "mcp__", 5) != 0)
			add_note(
				f, at,
				"'%.120s' names a tool that bailiff does not have; it applies if a client registers it",
				s);
	}
	return 0;
}

/* defaultMode: the most important file decides; a workspace's is used only if it is stricter. */
static int read_mode(struct rules_reading *f, const json_t *v, struct jval where, struct err *e)
{
	buf_auto struct buf names = BUF_INIT;
	int mode = json_is_string(v) ? permission_mode_find(json_string_value(v)) : -1;

	if (!v)
		return 0;
	if (mode < 0) {
		permission_mode_names(&names);
		return set_error(f, where.text, "permissions.defaultMode", e, "must be one of %s", buf_cstr(&names));
	}
	if (f->layer == RULE_OF_WORKSPACE && mode != MODE_PLAN && mode != MODE_UNTRUSTED && mode != MODE_NEVER) {
		add_note(f, where.text, "a workspace may only tighten: defaultMode %s is ignored",
			 permission_mode_name((enum permission_mode)mode));
		return 0;
	}
	if (f->layer == RULE_OF_WORKSPACE) {
		f->rules->workspace_mode = f->rules->workspace_mode < 0
						   ? mode
						   : (int)permission_mode_join(
							     (enum permission_mode)f->rules->workspace_mode,
							     (enum permission_mode)mode);
		return 0;
	}
	if (f->rules->mode >= 0) {
		add_note(f, where.text, "defaultMode is set by a file of higher precedence");
		return 0;
	}
	f->rules->mode = mode;
	f->rules->mode_layer = f->layer;
	return 0;
}

static int read_lists(struct rules_reading *f, const json_t *p, struct jval where, struct err *e)
{
	static const struct {
		const char *key;
		enum rule_effect effect;
	} lists[] = { { "deny", RULE_DENY }, { "ask", RULE_ASK }, { "allow", RULE_ALLOW } };

	for (size_t i = 0; i < countof(lists); i++)
		if (read_list(f, lists[i].key, lists[i].effect, json_object_get(p, lists[i].key),
			      jval_get(where, lists[i].key), e) < 0)
			return -1;
	return 0;
}

/* Finds the key of "a|b|c" that a misspelt key probably means; false: none is similar. */
static bool is_misspelt(const char *keys, const char *key, char meant[64])
{
	struct did_you_mean near = did_you_mean_for(key);
	char all[160], *rest = all;

	snprintf(all, sizeof all, "%s", keys);
	for (char *word; (word = strsep(&rest, "|"));)
		did_you_mean_try(&near, word);
	snprintf(meant, 64, "%s", near.best ? near.best : "");
	return near.best && near.distance <= 2;
}

/*
 * A misspelt list would be silently ignored and deny nothing, so it is an error. Keys of the conventions that have no
 * meaning here are only noted.
 */
static int check_permission_keys(struct rules_reading *f, const json_t *p, struct jval where, struct err *e)
{
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)p, key, value) {
		char field[ERR_FIELD_MAX], meant[64];

		if (is_key_of(PERMISSION_KEYS, key))
			continue;
		snprintf(field, sizeof field, "permissions.%.48s", key);
		if (is_misspelt(PERMISSION_KEYS, key, meant))
			return set_error(f, jval_get(where, key).text, field, e, "unknown key (did you mean '%s'?)",
					 meant);
		if (json_is_array(value) && strcmp(key, "additionalDirectories") != 0)
			return set_error(f, jval_get(where, key).text, field, e,
					 "unknown list; expected deny, ask or allow");
		add_note(f, jval_get(where, key).text, "%s is ignored", field);
	}
	return 0;
}

/* The section `permissions`: rules, the mode and the switches. */
static int read_permissions(struct rules_reading *f, const json_t *p, struct jval where, struct err *e)
{
	const json_t *bypass = json_object_get(p, "allowBypass"), *sessions = json_object_get(p, "sessionAllow"),
		     *strict = json_object_get(p, "strict");

	if (!p)
		return 0;
	if (!json_is_object(p))
		return set_error(f, where.text, "permissions", e, "must be an object");
	if (read_lists(f, p, where, e) < 0 || check_permission_keys(f, p, where, e) < 0)
		return -1;
	if (sessions && !json_is_boolean(sessions))
		return set_error(f, jval_get(where, "sessionAllow").text, "permissions.sessionAllow", e,
				 "must be true or false");
	f->rules->sessions_tighten |= json_is_false(sessions);
	if (strict && !json_is_boolean(strict))
		return set_error(f, jval_get(where, "strict").text, "permissions.strict", e, "must be true or false");
	if (json_is_false(strict) && f->rules->strict)
		add_note(f, jval_get(where, "strict").text,
			 "a file of higher precedence sets \"strict\": true, which stays in effect");
	f->rules->strict |= json_is_true(strict);
	if (bypass && !json_is_boolean(bypass))
		return set_error(f, jval_get(where, "allowBypass").text, "permissions.allowBypass", e,
				 "must be true or false");
	if (bypass && f->layer != RULE_OF_HOST)
		add_note(f, jval_get(where, "allowBypass").text,
			 "only the host's policy can permit bypass: allowBypass is ignored");
	else if (bypass)
		f->rules->bypass = json_is_true(bypass);
	return read_mode(f, json_object_get(p, "defaultMode"), jval_get(where, "defaultMode"), e);
}

/* ---- prefix rules ---- */

static void take_word(struct rule_word *w, const char *s)
{
	w->choice = mem_realloc(w->choice, (w->count + 1) * sizeof *w->choice);
	w->choice[w->count++] = mem_strdup(s);
}

static bool is_word(const json_t *v)
{
	return json_is_string(v) && json_string_length(v) && json_string_length(v) <= RULE_TEXT_MAX &&
	       strlen(json_string_value(v)) == json_string_length(v);
}

static int read_pattern(struct rules_reading *f, struct policy_rule *r, const json_t *pattern, const char *at,
			struct err *e)
{
	size_t n = json_array_size(pattern), i, k;
	const json_t *v, *choice;

	if (!n || n > RULE_WORDS_MAX)
		return set_error(f, at, "prefixRules.pattern", e, "must be an array of 1 to %u words", RULE_WORDS_MAX);
	r->word = mem_zalloc(n, sizeof *r->word);
	json_array_foreach (pattern, i, v) {
		struct rule_word *w = &r->word[r->nwords++];

		if (is_word(v)) {
			take_word(w, json_string_value(v));
			continue;
		}
		if (!json_array_size(v) || json_array_size(v) > RULE_CHOICES_MAX)
			return set_error(f, at, "prefixRules.pattern", e,
					 "[%zu] must be a word, or an array of 1 to %u to choose from", i,
					 RULE_CHOICES_MAX);
		json_array_foreach (v, k, choice) {
			if (!is_word(choice))
				return set_error(f, at, "prefixRules.pattern", e, "[%zu][%zu] must be a word", i, k);
			take_word(w, json_string_value(choice));
		}
	}
	return 0;
}

/* An example is a line or a list of words. */
static bool example_matches(const struct policy_rule *r, const json_t *v, bool *ret)
{
	const struct analysis_options o = { .cwd = "/" };
	command_facts_auto struct command_facts facts = { 0 };
	const char *argv[RULE_WORDS_MAX];
	size_t n = 0, i;
	const json_t *word;

	if (json_is_string(v)) {
		command_analyse_line(json_string_value(v), json_string_length(v), &o, &facts);
		if (!facts.ncommands || facts.error[0])
			return false;
		*ret = rule_words_match(r, facts.command[0].argv, facts.command[0].argc, facts.command[0].name) ==
		       RULE_MATCH;
		return true;
	}
	if (!json_array_size(v))
		return false;
	json_array_foreach (v, i, word) {
		if (!json_is_string(word))
			return false;
		if (n < RULE_WORDS_MAX)
			argv[n++] = json_string_value(word);
	}
	*ret = rule_words_match(r, argv, n, NULL) == RULE_MATCH;
	return true;
}

/* Examples that the rule contradicts reject the file: the rule does not do what its author thinks. */
static int check_examples(struct rules_reading *f, const struct policy_rule *r, const json_t *list, const char *field,
			  bool wanted, const char *at, struct err *e)
{
	const json_t *v;
	size_t i;

	if (list && (!json_is_array(list) || json_array_size(list) > EXAMPLES_MAX))
		return set_error(f, at, field, e, "must be an array of at most %u examples", EXAMPLES_MAX);
	json_array_foreach (list, i, v) {
		bool m = false;

		if (!example_matches(r, v, &m))
			return set_error(f, at, field, e, "[%zu] must be a command line, or an array of its words", i);
		if (m != wanted) {
			mem_auto char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
			return set_error(f, at, field, e, "the rule %s %.120s, but the example says that it %s",
					 m ? "matches" : "does not match", text, wanted ? "does" : "does not");
		}
	}
	return 0;
}

static void write_prefix_text(struct policy_rule *r)
{
	buf_auto struct buf out = BUF_INIT;

	for (size_t i = 0; i < r->nwords; i++) {
		buf_str(&out, i ? " " : "");
		for (size_t k = 0; k < r->word[i].count && out.len < RULE_TEXT_MAX; k++)
			buf_printf(&out, "%s%s", k ? "|" : "", r->word[i].choice[k]);
	}
	r->text = mem_strndup(buf_cstr(&out), out.len < RULE_TEXT_MAX ? out.len : RULE_TEXT_MAX);
}

/* With a misspelt "decision" a rule would get the default and allow, so unknown keys are an error. */
static int check_prefix_keys(struct rules_reading *f, const json_t *v, const char *at, struct err *e)
{
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)v, key, value)
		if (!is_key_of("pattern|decision|justification|match|notMatch|not_match", key))
			return set_error(
				f, at, "prefixRules", e,
				"unknown key '%.60s'; expected pattern, decision, justification, match or notMatch",
				key);
	return 0;
}

/* One prefix rule, with the check of its examples. */
static int read_prefix(struct rules_reading *f, const json_t *v, const char *at, struct err *e)
{
	static const struct {
		const char *word;
		enum rule_effect effect;
	} words[] = { { "allow", RULE_ALLOW },
		      { "prompt", RULE_ASK },
		      { "ask", RULE_ASK },
		      { "forbidden", RULE_DENY },
		      { "deny", RULE_DENY } };
	const char *decision = json_string_value(json_object_get(v, "decision"));
	const json_t *why = json_object_get(v, "justification");
	enum rule_effect effect = decision ? RULE_NONE : RULE_ALLOW;

	for (size_t i = 0; decision && i < countof(words); i++)
		if (strcmp(words[i].word, decision) == 0)
			effect = words[i].effect;
	if (!json_is_object(v))
		return set_error(f, at, "prefixRules", e, "must be an array of objects");
	if (check_prefix_keys(f, v, at, e) < 0)
		return -1;
	if (effect == RULE_NONE || (json_object_get(v, "decision") && !decision))
		return set_error(f, at, "prefixRules.decision", e, "must be allow, prompt or forbidden");
	if (why && (!json_is_string(why) || json_string_length(why) > JUSTIFICATION_MAX))
		return set_error(f, at, "prefixRules.justification", e, "must be a string of at most %u bytes",
				 JUSTIFICATION_MAX);
	if (f->rules->count >= rules_max(f))
		return set_error(f, at, "prefixRules", e, "there are more than %u rules", rules_max(f));
	struct policy_rule *r = rule_new(f, effect, at);
	r->kind = RULE_PREFIX;
	r->justification = mem_strdup(json_string_value(why));
	if (read_pattern(f, r, json_object_get(v, "pattern"), at, e) < 0)
		return -1;
	write_prefix_text(r);
	if (check_examples(f, r, json_object_get(v, "match"), "prefixRules.match", true, at, e) < 0 ||
	    check_examples(f, r, json_object_get(v, "notMatch"), "prefixRules.notMatch", false, at, e) < 0 ||
	    check_examples(f, r, json_object_get(v, "not_match"), "prefixRules.not_match", false, at, e) < 0)
		return -1;
	if (f->layer == RULE_OF_WORKSPACE && effect == RULE_ALLOW) {
		add_note(f, at, "a workspace may only tighten: the prefix rule '%.120s' is ignored", r->text);
		rule_done(r);
		f->rules->count--;
	}
	return 0;
}

static int read_prefixes(struct rules_reading *f, const json_t *list, struct jval where, struct err *e)
{
	struct jiter it = jiter_on(where);
	const json_t *v;
	size_t i;

	f->list = "prefixRules";
	f->index = NO_ELEMENT;
	if (list && !json_is_array(list))
		return set_error(f, where.text, "prefixRules", e, "must be an array of objects");
	json_array_foreach (list, i, v) {
		f->index = i;
		if (read_prefix(f, v, jiter_next(&it) ? it.value.text : where.text, e) < 0)
			return -1;
	}
	return 0;
}

/* Makes the set's own copy of the name of the source. */
static void copy_name(struct rules_reading *f)
{
	struct policy_rules *s = f->rules;

	s->files = mem_realloc(s->files, (s->nfiles + 1) * sizeof *s->files);
	s->files[s->nfiles] = mem_strdup(f->name);
	f->kept = s->files[s->nfiles++];
	if (!s->file[f->layer])
		s->file[f->layer] = s->files[s->nfiles - 1];
}

/* Keys of other programs are noted; a key that resembles one of ours is an error. */
static int check_keys(struct rules_reading *f, const json_t *root, struct jval all, struct err *e)
{
	char meant[64];
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)root, key, value) {
		if (is_key_of(FILE_KEYS, key))
			continue;
		/* Our keys are all objects and arrays: another program's "model" is not a misspelt "models". */
		if ((json_is_object(value) || json_is_array(value)) && is_misspelt(FILE_KEYS, key, meant)) {
			char field[ERR_FIELD_MAX];

			snprintf(field, sizeof field, "%.60s", key);
			return set_error(f, jval_get(all, key).text, field, e, "unknown key (did you mean '%s'?)",
					 meant);
		}
		add_note(f, jval_get(all, key).text, "'%.60s' is ignored", key);
	}
	return 0;
}

int policy_rules_parse(struct policy_rules *s, enum rule_layer layer, const char *name, const char *text, size_t len,
		       struct err *e)
{
	struct rules_reading f = {
		.rules = s, .layer = layer, .name = name, .text = text, .len = len, .counted = text, .line = 1
	};
	const struct policy_rules before = *s;

	json_auto_t *root = policy_text_load(name, text, len, POLICY_TEXT_MAX, e);
	if (!root)
		return -1;
	const char *open = memchr(text, '{', len);
	struct jval all = jval_of(open, len - (size_t)(open - text));
	copy_name(&f);
	if (check_keys(&f, root, all, e) < 0 ||
	    read_permissions(&f, json_object_get(root, "permissions"), jval_get(all, "permissions"), e) < 0 ||
	    read_prefixes(&f, json_object_get(root, "prefixRules"), jval_get(all, "prefixRules"), e) < 0) {
		while (s->count > before.count)
			rule_done(&s->rule[--s->count]);
		while (s->nnotes > before.nnotes)
			free(s->note[--s->nnotes]);
		s->mode = before.mode;
		s->workspace_mode = before.workspace_mode;
		s->mode_layer = before.mode_layer;
		s->bypass = before.bypass;
		s->sessions_tighten = before.sessions_tighten;
		s->strict = before.strict;
		policy_rules_index(s);
		return -1;
	}
	policy_rules_index(s);
	return 0;
}

int policy_rules_session(struct policy_rules *s, const char *session_id, const json_t *permissions, struct err *e)
{
	struct rules_reading f = { .rules = s, .layer = RULE_OF_SESSION, .name = session_id };
	const struct jval nowhere = { 0 };

	copy_name(&f);
	if (read_lists(&f, permissions, nowhere, e) < 0 ||
	    read_prefixes(&f, json_object_get(permissions, "prefixRules"), nowhere, e) < 0) {
		policy_rules_done(s);
		return -1;
	}
	policy_rules_index(s);
	return 0;
}

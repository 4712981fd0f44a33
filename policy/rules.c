#include "policy/rules.h"
#include "policy/rules_index.h"

#include "runtime/base/buf.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"

#include <stdio.h>
#include <string.h>

#define KEY_WORDS 4u /* as many first words lead to a rule */

struct rule_bucket {
	size_t *rule;
	size_t count;
};

/* ---- modes ---- */

static const struct {
	const char *name, *alias, *text;
} modes[MODE_COUNT] = {
#define MODE(NAME, name, alias, text) [MODE_##NAME] = { name, alias, text },
#include "policy/modes.def"
#undef MODE
};

int permission_mode_find(const char *name)
{
	for (int i = 0; i < MODE_COUNT; i++)
		if (strcmp(modes[i].name, name) == 0 || (modes[i].alias && strcmp(modes[i].alias, name) == 0))
			return i;
	return -1;
}

const char *permission_mode_name(enum permission_mode m)
{
	return modes[m].name;
}

const char *permission_mode_text(enum permission_mode m)
{
	return modes[m].text;
}

void permission_mode_names(struct buf *out)
{
	for (int i = 0; i < MODE_COUNT; i++)
		buf_printf(out, "%s%s", i ? ", " : "", modes[i].name);
}

/* ---- the index ---- */

static void list_add(size_t **list, size_t *n, size_t v)
{
	if ((*n & (*n - 1)) == 0)
		*list = mem_realloc(*list, (*n ? 2 * *n : 1) * sizeof **list);
	(*list)[(*n)++] = v;
}

/* Where the k-th word of a text ends; 0: it has fewer. */
static size_t words_end(const char *text, unsigned k)
{
	size_t at = 0;

	for (unsigned i = 0;; i++) {
		at += strcspn(text + at, " ");
		if (i + 1 == k)
			return at;
		if (!text[at])
			return 0;
		at++;
	}
}

static void bucket_add(struct policy_rules *s, const char *key, size_t index)
{
	struct rule_bucket *b = strmap_get(&s->begins, key);

	if (!b) {
		b = mem_zalloc(1, sizeof *b);
		strmap_put(&s->begins, key, b);
	}
	list_add(&b->rule, &b->count, index);
}

static void index_bash(struct policy_rules *s, size_t index)
{
	const struct policy_rule *r = &s->rule[index];
	size_t certain = 0, n = r->pattern ? strlen(r->pattern) : 0;

	/* Words that are whole before the first wildcard. */
	for (unsigned k = 1; r->pattern && k <= KEY_WORDS; k++) {
		size_t end = words_end(r->pattern, k);

		if (!end || end > r->literal || (end == r->literal && r->literal < n))
			break;
		certain = end;
	}
	if (!certain) {
		list_add(&s->anywhere, &s->nanywhere, index);
	} else {
		mem_auto char *key = mem_strndup(r->pattern, certain);
		bucket_add(s, key, index);
	}
	if (r->effect > RULE_ALLOW && r->pattern)
		list_add(&s->sorted, &s->nsorted, index);
}

/* Prefix rules by their first word; no Bash pattern begins with that byte. */
static void index_prefix(struct policy_rules *s, size_t index)
{
	const struct rule_word *w = &s->rule[index].word[0];

	for (size_t i = 0; i < w->count; i++) {
		mem_auto char *key = mem_printf("\001%s", w->choice[i]);
		bucket_add(s, key, index);
	}
	list_add(&s->other[RULE_PREFIX], &s->nother[RULE_PREFIX], index);
}

static int by_pattern(const void *a, const void *b, void *ctx)
{
	const struct policy_rules *s = ctx;

	return strcmp(s->rule[*(const size_t *)a].pattern, s->rule[*(const size_t *)b].pattern);
}

static void free_bucket(void *ctx, const char *key, void *value)
{
	struct rule_bucket *b = value;

	free(b->rule);
	free(b);
}

static void index_free(struct policy_rules *s)
{
	strmap_each(&s->begins, free_bucket, NULL);
	strmap_done(&s->begins);
	s->begins = STRMAP_INIT;
	free(s->anywhere);
	free(s->sorted);
	s->anywhere = s->sorted = NULL;
	s->nanywhere = s->nsorted = 0;
	for (int i = 0; i < RULE_KINDS; i++) {
		free(s->other[i]);
		s->other[i] = NULL;
		s->nother[i] = 0;
	}
}

void policy_rules_index(struct policy_rules *s)
{
	index_free(s);
	for (size_t i = 0; i < s->count; i++) {
		if (s->rule[i].kind == RULE_BASH)
			index_bash(s, i);
		else if (s->rule[i].kind == RULE_PREFIX)
			index_prefix(s, i);
		else
			list_add(&s->other[s->rule[i].kind], &s->nother[s->rule[i].kind], i);
	}
	if (s->nsorted)
		qsort_r(s->sorted, s->nsorted, sizeof *s->sorted, by_pattern, s);
}

void policy_rules_done(struct policy_rules *s)
{
	index_free(s);
	for (size_t i = 0; i < s->count; i++)
		rule_done(&s->rule[i]);
	free(s->rule);
	for (int i = 0; i < RULE_LAYERS; i++)
		free(s->file[i]);
	for (size_t i = 0; i < s->nnotes; i++)
		free(s->note[i]);
	free(s->note);
	*s = RULES_INIT;
}

/* ---- asking ---- */

struct asking {
	const struct policy_rules *rules;
	const struct rules_query *query;
	struct rules_verdict *verdict;
};

static void hit(struct asking *a, const struct policy_rule *r, enum rule_match m, int command)
{
	struct rules_verdict *v = a->verdict;
	enum rule_effect effect = m == RULE_MAYBE ? RULE_ASK : r->effect;

	if (m == RULE_NO_MATCH || effect < v->effect || r->effect == RULE_ALLOW)
		return;
	if (effect > v->effect) {
		v->effect = effect;
		v->nhits = 0;
		v->maybe = m == RULE_MAYBE;
		v->command = command;
	}
	for (size_t i = 0; i < v->nhits; i++)
		if (v->hit[i] == r)
			return;
	if (v->nhits < RULES_HITS_MAX)
		v->hit[v->nhits++] = r;
}

/* What is done with each Bash rule whose first words are the text's. */
typedef void (*candidate_fn)(void *ctx, const struct policy_rule *r);

static void each_candidate(const struct policy_rules *s, const char *text, candidate_fn fn, void *ctx)
{
	char key[RULE_TEXT_MAX + 1];

	for (unsigned k = 1; k <= KEY_WORDS; k++) {
		size_t n = words_end(text, k);

		if (!n || n > RULE_TEXT_MAX)
			break;
		memcpy(key, text, n);
		key[n] = '\0';
		const struct rule_bucket *b = strmap_get(&s->begins, key);
		for (size_t i = 0; b && i < b->count; i++)
			fn(ctx, &s->rule[b->rule[i]]);
	}
	for (size_t i = 0; i < s->nanywhere; i++)
		fn(ctx, &s->rule[s->anywhere[i]]);
}

struct stopping {
	struct asking *asking;
	const char *text;
	size_t known;                 /* bytes of the text before the first word that is not known; SIZE_MAX = all are */
	int command;
};

static void stop_candidate(void *ctx, const struct policy_rule *r)
{
	struct stopping *t = ctx;

	if (r->effect == RULE_ALLOW)
		return;
	if (rule_text_matches(r, t->text))
		hit(t->asking, r, RULE_MATCH, t->command);
	else if (t->known != SIZE_MAX && r->pattern[r->literal] && r->literal <= t->known && strncmp(r->pattern, t->text, r->literal) == 0)
		hit(t->asking, r, RULE_MAYBE, t->command);
}

/* Rules that go on where the text stops being known. */
static void stop_maybe(struct stopping *t)
{
	const struct policy_rules *s = t->asking->rules;
	size_t low = 0, high = s->nsorted;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int c = strncmp(s->rule[s->sorted[mid]].pattern, t->text, t->known);

		if (c < 0)
			low = mid + 1;
		else
			high = mid;
	}
	for (size_t i = low; i < s->nsorted && i < low + RULES_HITS_MAX; i++) {
		const struct policy_rule *r = &s->rule[s->sorted[i]];

		if (strncmp(r->pattern, t->text, t->known) != 0)
			break;
		hit(t->asking, r, RULE_MAYBE, t->command);
	}
}

static void stop_text(struct asking *a, const char *text, size_t known, int command)
{
	struct stopping t = { .asking = a, .text = text, .known = known, .command = command };

	each_candidate(a->rules, text, stop_candidate, &t);
	if (known != SIZE_MAX && known)
		stop_maybe(&t);
}

/* The words joined by blanks, the folder of the program left out if `bare`; returns where the known ones end, SIZE_MAX if all are. */
static size_t join(const struct command_simple *c, bool bare, struct buf *out)
{
	size_t known = SIZE_MAX;

	for (size_t i = 0; i < c->argc; i++) {
		if (!c->argv[i] && known == SIZE_MAX)
			known = out->len;
		buf_str(out, i == 0 && bare && c->name ? c->name : c->plain[i]);
		if (i + 1 < c->argc)
			buf_byte(out, ' ');
	}
	return known;
}

static void stop_prefix(struct asking *a, const struct command_simple *c, int index)
{
	const struct policy_rules *s = a->rules;
	const char *const names[] = { c->argv[0], c->name };

	for (size_t n = 0; n < countof(names); n++) {
		if (!names[n] || (n && names[0] && strcmp(names[0], names[1]) == 0))
			continue;
		mem_auto char *key = mem_printf("\001%s", names[n]);
		const struct rule_bucket *b = strmap_get(&s->begins, key);
		for (size_t i = 0; b && i < b->count; i++)
			hit(a, &s->rule[b->rule[i]], rule_words_match(&s->rule[b->rule[i]], c->argv, c->argc, c->name), index);
	}
}

/* What refuses or asks. */
static void stop_command(struct asking *a, const struct command_simple *c, int index)
{
	buf_auto struct buf plain = BUF_INIT, bare = BUF_INIT;
	size_t known = join(c, false, &plain);

	stop_text(a, c->text, SIZE_MAX, index);
	stop_text(a, buf_cstr(&plain), known, index);
	if (c->name && c->argv[0] && strcmp(c->name, c->argv[0]) != 0) {
		known = join(c, true, &bare);
		stop_text(a, buf_cstr(&bare), known, index);
	}
	stop_prefix(a, c, index);
}

struct allowing {
	const char *text;
	const struct policy_rule *by;
};

static void allow_candidate(void *ctx, const struct policy_rule *r)
{
	struct allowing *t = ctx;

	if (!t->by && r->effect == RULE_ALLOW && rule_text_matches(r, t->text))
		t->by = r;
}

static const struct policy_rule *allowed_by(const struct policy_rules *s, const struct command_simple *c)
{
	struct allowing t = { .text = c->text };

	each_candidate(s, c->text, allow_candidate, &t);
	if (t.by || !c->argv[0])
		return t.by;
	mem_auto char *key = mem_printf("\001%s", c->argv[0]);
	const struct rule_bucket *b = strmap_get(&s->begins, key);
	for (size_t i = 0; b && i < b->count; i++) {
		const struct policy_rule *r = &s->rule[b->rule[i]];

		if (r->effect == RULE_ALLOW && rule_words_match(r, c->argv, c->argc, NULL) == RULE_MATCH)
			return r;
	}
	return NULL;
}

static void note_allow(struct rules_verdict *v, const struct policy_rule *r)
{
	for (size_t i = 0; i < v->nhits; i++)
		if (v->hit[i] == r)
			return;
	if (v->nhits < RULES_HITS_MAX)
		v->hit[v->nhits++] = r;
}

/* Each command needs a rule that allows it; only wrappers that change nothing do not. */
static void allow_line(struct asking *a)
{
	const struct command_facts *f = a->query->facts;
	struct rules_verdict v = { .effect = RULE_ALLOW, .command = -1 };
	size_t covered = 0;

	for (size_t i = 0; i < f->ncommands; i++) {
		const struct command_simple *c = &f->command[i];
		const struct policy_rule *r = c->argc ? allowed_by(a->rules, c) : NULL;

		if (c->unknown & ~(r ? (unsigned)COMMAND_UNKNOWN_COVERED : 0))
			return;
		if (c->argc && !r && !(c->flags & (COMMAND_TRANSPARENT | COMMAND_FUNCTION_CALL)))
			return;
		covered += r != NULL;
		if (r)
			note_allow(&v, r);
	}
	if (covered && !(f->unknown & ~(unsigned)COMMAND_UNKNOWN_COVERED) && !f->error[0])
		*a->verdict = v;
}

static void stop_paths(struct asking *a, const struct command_path *path, size_t n)
{
	const struct policy_rules *s = a->rules;

	for (size_t i = 0; i < n; i++)
		for (int kind = RULE_READ; kind <= RULE_EDIT; kind++) {
			unsigned wanted = kind == RULE_READ ? COMMAND_READS : COMMAND_WRITES | COMMAND_DELETES;

			for (size_t k = 0; path[i].access & wanted && k < s->nother[kind]; k++) {
				const struct policy_rule *r = &s->rule[s->other[kind][k]];

				if (r->effect > RULE_ALLOW)
					hit(a, r, rule_path_matches(r, &path[i], &a->query->place), (int)path[i].command);
			}
		}
}

static void stop_hosts(struct asking *a)
{
	const struct policy_rules *s = a->rules;
	const struct command_facts *f = a->query->facts;

	for (size_t i = 0; i < f->nhosts; i++)
		for (size_t k = 0; k < s->nother[RULE_FETCH]; k++) {
			const struct policy_rule *r = &s->rule[s->other[RULE_FETCH][k]];
			enum rule_match m = !f->host[i].host ? RULE_MAYBE : rule_host_matches(r, f->host[i].host) ? RULE_MATCH : RULE_NO_MATCH;

			hit(a, r, m, (int)f->host[i].command);
		}
}

static bool has_stopping(const struct policy_rules *s)
{
	if (s->nsorted)
		return true;
	for (size_t i = 0; i < s->nanywhere; i++)
		if (s->rule[s->anywhere[i]].effect > RULE_ALLOW)
			return true;
	for (size_t i = 0; i < s->nother[RULE_PREFIX]; i++)
		if (s->rule[s->other[RULE_PREFIX][i]].effect > RULE_ALLOW)
			return true;
	return false;
}

static void ask_command(struct asking *a)
{
	const struct command_facts *f = a->query->facts;
	struct rules_verdict *v = a->verdict;

	for (size_t i = 0; i < f->ncommands && v->effect < RULE_DENY; i++)
		if (f->command[i].argc)
			stop_command(a, &f->command[i], (int)i);
	stop_paths(a, f->path, f->npaths);
	stop_hosts(a);
	if (v->effect == RULE_NONE)
		allow_line(a);
	if (v->effect == RULE_NONE && f->unknown & ~(unsigned)COMMAND_UNKNOWN_COVERED && has_stopping(a->rules)) {
		v->effect = RULE_ASK;
		v->unseen = true;
	}
}

/* A tool is one thing: by its name, or by the convention's name and its paths. */
static void ask_tool(struct asking *a)
{
	const struct policy_rules *s = a->rules;
	const struct rules_query *q = a->query;
	enum rule_kind kind = rule_kind_of_tool(q->tool);
	struct rules_verdict *v = a->verdict;
	const struct policy_rule *allowed = NULL;

	for (size_t i = 0; i < s->nother[RULE_TOOL]; i++) {
		const struct policy_rule *r = &s->rule[s->other[RULE_TOOL][i]];
		bool m = rule_tool_matches(r, q->tool);

		if (m && r->effect == RULE_ALLOW)
			allowed = r;
		hit(a, r, m ? RULE_MATCH : RULE_NO_MATCH, -1);
	}
	stop_paths(a, q->path, q->npaths);
	for (size_t i = 0; (kind == RULE_READ || kind == RULE_EDIT) && i < s->nother[kind]; i++) {
		const struct policy_rule *r = &s->rule[s->other[kind][i]];
		bool all = r->effect == RULE_ALLOW && (q->npaths || !r->pattern);

		for (size_t k = 0; k < q->npaths && all; k++)
			all = rule_path_matches(r, &q->path[k], &q->place) == RULE_MATCH;
		if (!q->npaths && !r->pattern)
			hit(a, r, RULE_MATCH, -1);
		if (all)
			allowed = r;
	}
	if (v->effect == RULE_NONE && allowed) {
		v->effect = RULE_ALLOW;
		note_allow(v, allowed);
	}
}

void policy_rules_ask(const struct policy_rules *s, const struct rules_query *q, struct rules_verdict *ret)
{
	struct asking a = { .rules = s, .query = q, .verdict = ret };

	*ret = (struct rules_verdict){ .command = -1 };
	if (q->tool)
		ask_tool(&a);
	else if (q->facts)
		ask_command(&a);
}

void policy_rule_json(const struct policy_rule *r, struct jw *w)
{
	jw_obj(w);
	jw_kstr(w, "file", r->file);
	jw_kuint(w, "line", r->line);
	jw_kstr(w, "rule", r->text);
	jw_kstr(w, "effect", rule_effect_name(r->effect));
	jw_kstr(w, "layer", rule_layer_name(r->layer));
	jw_kopt(w, "justification", r->justification);
	jw_obj_end(w);
}

/*
 * The index of the Bash and prefix rules. A Bash rule is stored under its first words, as many as are complete before
 * its first wildcard, up to RULES_KEY_WORDS; a lookup tries each number of first words of a command. Keys that begin
 * with \001 belong to prefix rules, keys with \002 to rules that are found by their program alone.
 */
#include "policy/rules_index.h"

#include "policy/command_variants.h"
#include "policy/rules.h"
#include "runtime/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* The capacity is a power of two, so the count alone shows when the list is full. */
static void list_add(size_t **list, size_t *n, size_t v)
{
	if ((*n & (*n - 1)) == 0)
		*list = mem_realloc(*list, (*n ? 2 * *n : 1) * sizeof **list);
	(*list)[(*n)++] = v;
}

size_t rules_words_end(const char *text, unsigned k)
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

/* Adds a rule to the bucket of a key, which is created on demand. */
static void bucket_add(struct policy_rules *s, const char *key, size_t index)
{
	struct rule_bucket *b = strmap_get(&s->begins, key);

	if (!b) {
		b = mem_zalloc(1, sizeof *b);
		strmap_put(&s->begins, key, b);
	}
	list_add(&b->rule, &b->count, index);
}

/* Stores a rule under the longest key that is certain, and in the other indexes that may need it. */
static void index_bash(struct policy_rules *s, size_t index)
{
	const struct policy_rule *r = &s->rule[index];
	size_t certain = 0, n = r->pattern ? strlen(r->pattern) : 0;

	/* Only words that are complete before the first wildcard. */
	for (unsigned k = 1; r->pattern && k <= RULES_KEY_WORDS; k++) {
		size_t end = rules_words_end(r->pattern, k);

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
	/* A second entry under the program alone: a command may have options elsewhere. */
	if (r->effect > RULE_ALLOW && r->pattern && command_variants_has_words(r->pattern)) {
		mem_auto char *key = mem_printf("\002%.*s", (int)strcspn(r->pattern, " "), r->pattern);
		bucket_add(s, key, index);
	}
	/* Sorted by pattern, for a binary search when only the beginning of a command is known. */
	if (r->effect > RULE_ALLOW && r->pattern)
		list_add(&s->sorted, &s->nsorted, index);
}

/* Prefix rules are indexed by their first word, after a byte that no Bash pattern begins with. */
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

void policy_rules_unindex(struct policy_rules *s)
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
	policy_rules_unindex(s);
	s->allows = false;
	for (size_t i = 0; i < s->count; i++) {
		s->allows |= s->rule[i].effect == RULE_ALLOW;
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

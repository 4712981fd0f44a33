#include "policy/analysis_cache.h"

#include "runtime/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* The beginning of a key. The strings follow: cwd, workspace, home, variables, writable folders, then the line or the
 * words. */
struct key_head {
	size_t nenv, nwritable, nwords;
	bool is_line, has_cwd, has_workspace, has_home, has_writable, terminal;
};

static void add_text(struct buf *key, const char *s)
{
	if (s)
		buf_append(key, s, strlen(s) + 1);
}

/* False: too long. */
static bool make_key(const char *const *word, size_t nwords, bool is_line, const struct analysis_options *o,
		     struct buf *key)
{
	struct key_head head;

	memset(&head, 0, sizeof head); /* the padding is compared, too */
	head.nenv = o->nenv;
	head.nwritable = o->nwritable;
	head.has_writable = o->writable != NULL;
	head.nwords = nwords;
	head.is_line = is_line;
	head.has_cwd = o->cwd != NULL;
	head.has_workspace = o->workspace != NULL;
	head.has_home = o->home != NULL;
	head.terminal = o->terminal;
	buf_reset(key);
	buf_append(key, &head, sizeof head);
	add_text(key, o->cwd);
	add_text(key, o->workspace);
	add_text(key, o->home);
	for (size_t i = 0; i < o->nenv; i++)
		add_text(key, o->env[i]);
	for (size_t i = 0; i < o->nwritable; i++)
		add_text(key, o->writable[i]);
	for (size_t i = 0; i < nwords && key->len <= ANALYSIS_CACHE_KEY_MAX; i++)
		add_text(key, word[i]);
	return key->len <= ANALYSIS_CACHE_KEY_MAX;
}

static const char *next_text(const char **at, bool there)
{
	const char *s = there ? *at : NULL;

	if (there)
		*at += strlen(s) + 1;
	return s;
}

/* Analyses the copy in the key, because the facts point into what they were made from. */
static void fill_entry(struct analysis_cache_entry *n)
{
	const struct key_head *head = (const struct key_head *)(const void *)n->key.data;
	const char *at = n->key.data + sizeof *head;
	struct analysis_options o = { .nenv = head->nenv, .nwritable = head->nwritable, .terminal = head->terminal };
	const size_t lists = head->nenv + head->nwritable;

	o.cwd = next_text(&at, head->has_cwd);
	o.workspace = next_text(&at, head->has_workspace);
	o.home = next_text(&at, head->has_home);
	n->text = mem_zalloc(lists + head->nwords + 1, sizeof *n->text);
	for (size_t i = 0; i < lists + head->nwords; i++)
		n->text[i] = next_text(&at, true);
	o.env = n->text;
	o.writable = head->has_writable ? n->text + head->nenv : NULL;
	const char *const *word = n->text + lists;
	if (head->is_line)
		command_analyse_line(word[0], strlen(word[0]), &o, &n->facts);
	else
		command_analyse_argv(word, head->nwords, &o, &n->facts);
}

static void clear_entry(struct analysis_cache_entry *n)
{
	if (n->used)
		command_facts_done(&n->facts);
	buf_done(&n->key);
	free(n->text);
	*n = (struct analysis_cache_entry){ 0 };
}

const struct command_facts *analysis_cache_get(struct analysis_cache *c, const char *line, const char *const *argv,
					       size_t argc, const struct analysis_options *o)
{
	struct analysis_cache_entry *oldest = &c->entry[0];

	if (!make_key(line ? &line : argv, line ? 1 : argc, line != NULL, o, &c->key))
		return NULL;
	for (size_t i = 0; i < ANALYSIS_CACHE_SIZE; i++) {
		struct analysis_cache_entry *n = &c->entry[i];

		if (n->used && n->key.len == c->key.len && memcmp(n->key.data, c->key.data, c->key.len) == 0) {
			n->used = ++c->now;
			return &n->facts;
		}
		if (n->used < oldest->used)
			oldest = n;
	}
	clear_entry(oldest);
	oldest->key = c->key;
	c->key = BUF_INIT;
	fill_entry(oldest);
	oldest->used = ++c->now;
	return &oldest->facts;
}

void analysis_cache_done(struct analysis_cache *c)
{
	for (size_t i = 0; i < ANALYSIS_CACHE_SIZE; i++)
		clear_entry(&c->entry[i]);
	buf_done(&c->key);
}

/*
 * Matching a request against the rules.
 *
 * A request is checked in two passes. The first applies every rule that denies or asks ("stop"), to each simple command
 * in several spellings, to the paths and to the hosts. The second runs only if nothing stopped it: each command needs a
 * rule that allows it, as written. The verdict only ever gets stricter: add_hit replaces a weaker effect and ignores
 * weaker rules, so the order of sets, commands and rules does not matter.
 *
 * Most rules are found by the index (rules_index.h), so the cost depends on the command and not on the number of rules.
 * The few that begin with a wildcard are compared one by one.
 */

#include "policy/rules.h"
#include "policy/command_variants.h"
#include "policy/rules_index.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"

#include <stdio.h>
#include <string.h>

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

const char *permission_mode_name(enum permission_mode m) { return modes[m].name; }

const char *permission_mode_text(enum permission_mode m) { return modes[m].text; }

void permission_mode_names(struct buf *out)
{
	for (int i = 0; i < MODE_COUNT; i++)
		buf_printf(out, "%s%s", i ? ", " : "", modes[i].name);
}

/* A mode is strict in two ways: in what it runs without asking, and in denying where others ask. */
enum permission_mode permission_mode_join(enum permission_mode from, enum permission_mode with)
{
	if (from == MODE_PLAN || with == MODE_PLAN)
		return MODE_PLAN;
	if (from == MODE_UNTRUSTED || with == MODE_UNTRUSTED)
		return from == MODE_NEVER || with == MODE_NEVER ? MODE_PLAN : MODE_UNTRUSTED;
	if (with == MODE_NEVER && (from == MODE_DEFAULT || from == MODE_ON_FAILURE || from == MODE_BYPASS))
		return MODE_NEVER;
	return from;
}

/* ---- a set ---- */

void policy_rules_done(struct policy_rules *s)
{
	policy_rules_unindex(s);
	for (size_t i = 0; i < s->count; i++)
		rule_done(&s->rule[i]);
	free(s->rule);
	for (size_t i = 0; i < s->nfiles; i++)
		free(s->files[i]);
	free(s->files);
	for (size_t i = 0; i < s->nnotes; i++)
		free(s->note[i]);
	free(s->note);
	*s = RULES_INIT;
}

/* ---- matching a request ---- */

struct asking {
	const struct policy_rules *set[2]; /* the files' rules, and the session's */
	size_t nsets;
	size_t nallowing; /* number of sets whose allow rules are used */
	const struct rules_query *query;
	struct rules_verdict *verdict;
};

/* Records a rule that decided, once. */
static void note_hit(struct rules_verdict *v, const struct policy_rule *r)
{
	for (size_t i = 0; i < v->nhits; i++)
		if (v->hit[i] == r)
			return;
	if (v->nhits < RULES_HITS_MAX)
		v->hit[v->nhits++] = r;
}

/* Raises the verdict to this rule's effect; a rule that only may match asks, whatever its own effect. */
static void add_hit(struct asking *a, const struct policy_rule *r, enum rule_match m, int command)
{
	struct rules_verdict *v = a->verdict;
	enum rule_effect effect = m == RULE_MAYBE ? RULE_ASK : r->effect;

	if (m == RULE_NO_MATCH || effect < v->effect || r->effect == RULE_ALLOW)
		return;
	if (effect > v->effect) {
		v->effect = effect;
		v->nhits = 0;
		v->maybe = m == RULE_MAYBE;
		v->handed = false;
		v->command = command;
	}
	note_hit(v, r);
}

/* The words match, but it is unknown what the program does with them. */
static void hit_handed(struct asking *a, const struct policy_rule *r, int command)
{
	const enum rule_effect before = a->verdict->effect;

	add_hit(a, r, RULE_MAYBE, command);
	a->verdict->handed |= a->verdict->effect > before;
}

/* Called for each Bash rule that begins with the first words of the text. */
typedef void (*candidate_fn)(void *ctx, const struct policy_rule *r);

static void each_beginning(const struct policy_rules *s, const char *text, candidate_fn fn, void *ctx)
{
	char key[RULE_TEXT_MAX + 1];

	for (unsigned k = 1; k <= RULES_KEY_WORDS; k++) {
		size_t n = rules_words_end(text, k);

		if (!n || n > RULE_TEXT_MAX)
			break;
		memcpy(key, text, n);
		key[n] = '\0';
		const struct rule_bucket *b = strmap_get(&s->begins, key);
		for (size_t i = 0; b && i < b->count; i++)
			fn(ctx, &s->rule[b->rule[i]]);
	}
}

static void each_candidate(const struct policy_rules *s, const char *text, candidate_fn fn, void *ctx)
{
	each_beginning(s, text, fn, ctx);
	for (size_t i = 0; i < s->nanywhere; i++)
		fn(ctx, &s->rule[s->anywhere[i]]);
}

struct stopping {
	struct asking *asking;
	const struct policy_rules *rules;
	const char *text;
	size_t known; /* bytes of the text before the first unknown word; SIZE_MAX = all are known */
	bool option;  /* an option may follow there */
	int command;
};

static void stop_candidate(void *ctx, const struct policy_rule *r)
{
	struct stopping *t = ctx;

	if (r->effect == RULE_ALLOW)
		return;
	if (rule_text_matches(r, t->text))
		add_hit(t->asking, r, RULE_MATCH, t->command);
	else if (t->known != SIZE_MAX && r->pattern[r->literal] && r->literal <= t->known &&
		 strncmp(r->pattern, t->text, r->literal) == 0)
		add_hit(t->asking, r, RULE_MAYBE, t->command);
}

/* Rules whose pattern continues after the known part of the text. */
static void stop_maybe(struct stopping *t)
{
	const struct policy_rules *s = t->rules;
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
		if (r->pattern[t->known] == '-' && !t->option)
			continue;
		add_hit(t->asking, r, RULE_MAYBE, t->command);
	}
}

/* Applies the rules that deny or ask to one spelling of a command, in both sets. */
static void stop_text(struct asking *a, const char *text, size_t known, bool option, int command)
{
	struct stopping t = { .asking = a, .text = text, .known = known, .option = option, .command = command };

	for (size_t i = 0; i < a->nsets; i++) {
		t.rules = a->set[i];
		each_candidate(t.rules, text, stop_candidate, &t);
		if (known != SIZE_MAX && known)
			stop_maybe(&t);
	}
}

/* Prefix rules are found by their first word: the program as written, or without its directories. */
static void stop_prefix(struct asking *a, const struct policy_rules *s, const struct command_simple *c, int index)
{
	const char *const names[] = { c->argv[0], c->name };

	for (size_t n = 0; n < countof(names); n++) {
		if (!names[n] || (n && names[0] && strcmp(names[0], names[1]) == 0))
			continue;
		mem_auto char *key = mem_printf("\001%s", names[n]);
		const struct rule_bucket *b = strmap_get(&s->begins, key);
		for (size_t i = 0; b && i < b->count; i++)
			add_hit(a, &s->rule[b->rule[i]],
				rule_words_match(&s->rule[b->rule[i]], c->argv, c->argc, c->name), index);
	}
}

/* A command inside the words of another one. */
struct handing {
	struct asking *asking;
	const struct command_simple *command;
	const char *text;
	int index;
	bool may_run, checked;
	unsigned tries; /* limited, because each comparison may scan all the following words */
};
#define HANDED_TRIES 32

static void stop_handed(void *ctx, const struct policy_rule *r)
{
	struct handing *h = ctx;
	struct rules_verdict *v = h->asking->verdict;

	if (r->effect == RULE_ALLOW || v->effect >= RULE_ASK)
		return;
	/* Above the limit a rule is assumed to match. */
	if (h->tries++ < HANDED_TRIES && !rule_text_matches(r, h->text))
		return;
	if (!h->checked)
		h->may_run = command_variants_may_run(h->command);
	h->checked = true;
	if (!h->may_run)
		return;
	hit_handed(h->asking, r, h->index);
}

static void stop_handed_text(void *ctx, const char *text)
{
	struct handing *h = ctx;

	h->text = text;
	const struct asking *a = h->asking;
	for (size_t i = 0; i < a->nsets && a->verdict->effect < RULE_ASK && !(h->checked && !h->may_run); i++)
		each_beginning(a->set[i], text, stop_handed, h);
}

static void stop_joined(struct asking *a, const struct command_simple *c, size_t from, int index)
{
	buf_auto struct buf text = BUF_INIT;
	const size_t known = command_variants_join(c, from, &text);
	bool option = command_variants_may_add_option(c, from);

	/* A word that vanishes leaves its place to those after it. */
	for (size_t i = c->splits; i && i < c->argc; i++)
		option |= c->plain[i][0] == '-';
	stop_text(a, buf_cstr(&text), known, option, index);
}

/* The same command in another spelling (command_variants.h). */
static void stop_variants(struct asking *a, const struct command_simple *c, int index)
{
	struct handing h = { .asking = a, .command = c, .index = index };
	struct command_variants_words words = { .command = c };
	mem_auto char *key = mem_printf("\002%s", c->name ? c->name : "");

	for (size_t i = 0; i < a->nsets; i++) {
		const struct rule_bucket *b = strmap_get(&a->set[i]->begins, key);

		for (size_t k = 0; b && k < b->count; k++) {
			const struct policy_rule *r = &a->set[i]->rule[b->rule[k]];
			const enum rule_match m = command_variants_words_match(&words, r->pattern);

			if (m == RULE_MAYBE && !c->splits && !command_variants_may_add_option(c, 1))
				hit_handed(a, r, index);
			else
				add_hit(a, r, m, index);
		}
	}
	command_variants_words_done(&words);
	/* The subcommand, and an earlier word that may expand to one: git -C $x */
	const size_t from[] = { c->operand > 1 && c->plain[c->operand][0] != '-' ? c->operand : 0,
				!c->operand || c->splits < c->operand ? c->splits : 0 };
	for (size_t i = 0; i < countof(from); i++)
		if (from[i])
			stop_joined(a, c, from[i], index);
	buf_auto struct buf second = BUF_INIT;
	if (command_variants_second(c, &second)) {
		h.may_run = h.checked = true;
		stop_handed_text(&h, buf_cstr(&second));
		h.checked = false;
	}
	if (a->verdict->effect < RULE_ASK)
		command_variants_each(c, stop_handed_text, &h);
}

/* Applies the rules that deny or ask. */
static void stop_command(struct asking *a, const struct command_simple *c, int index)
{
	stop_text(a, c->text, SIZE_MAX, false, index);
	stop_joined(a, c, 0, index);
	if (c->name && c->argv[0] && strcmp(c->name, c->argv[0]) != 0)
		stop_joined(a, c, 1, index);
	stop_variants(a, c, index);
	for (size_t i = 0; i < a->nsets; i++)
		stop_prefix(a, a->set[i], c, index);
}

struct allowing {
	const char *text, *writes;
	const struct policy_rule *by;
};

static void allow_candidate(void *ctx, const struct policy_rule *r)
{
	struct allowing *t = ctx;

	if (!t->by && r->effect == RULE_ALLOW && rule_text_matches(r, t->text) && rule_allows_writes(r, t->writes))
		t->by = r;
}

/* The rule of one set that allows this command as written, with these redirections; NULL: none. */
static const struct policy_rule *set_allows(const struct policy_rules *s, const struct command_simple *c,
					    const char *writes)
{
	struct allowing t = { .text = c->text, .writes = writes };

	each_candidate(s, c->text, allow_candidate, &t);
	if (t.by || !c->argv[0])
		return t.by;
	mem_auto char *key = mem_printf("\001%s", c->argv[0]);
	const struct rule_bucket *b = strmap_get(&s->begins, key);
	for (size_t i = 0; b && i < b->count; i++) {
		const struct policy_rule *r = &s->rule[b->rule[i]];

		if (r->effect == RULE_ALLOW && rule_words_match(r, c->argv, c->argc, NULL) == RULE_MATCH &&
		    rule_allows_writes(r, writes))
			return r;
	}
	return NULL;
}

bool policy_rules_allow(const struct policy_rules *s, const struct command_simple *c)
{
	return c->argc && set_allows(s, c, c->writes);
}

/* `writes`: the redirections that the rule must cover as well, or NULL. */
static const struct policy_rule *allowed_by(const struct asking *a, const struct command_simple *c, const char *writes)
{
	const struct policy_rule *r = NULL;

	for (size_t i = 0; i < a->nallowing && !r; i++)
		r = set_allows(a->set[i], c, writes);
	return r;
}

static const struct policy_rule *edit_allowed_by(const struct asking *a, const struct policy_rules *s,
						 const struct command_path *p)
{
	for (size_t i = 0; i < s->nother[RULE_EDIT]; i++) {
		const struct policy_rule *r = &s->rule[s->other[RULE_EDIT][i]];

		if (r->effect == RULE_ALLOW && (p->exact || !r->pattern) &&
		    rule_path_matches(r, p, &a->query->bases) == RULE_MATCH)
			return r;
	}
	return NULL;
}

/* Whether file rules allow all writes by redirection. A path that two commands write is listed once. */
static bool edits_allowed(const struct asking *a, struct rules_verdict *v)
{
	const struct command_facts *f = a->query->facts;
	size_t n = 0;

	for (size_t i = 0; i < f->npaths; i++) {
		if (!(f->path[i].access & COMMAND_REDIRECTED && f->path[i].access & COMMAND_WRITES))
			continue;
		const struct policy_rule *r = NULL;
		for (size_t k = 0; k < a->nallowing && !r; k++)
			r = edit_allowed_by(a, a->set[k], &f->path[i]);
		if (!r)
			return false;
		note_hit(v, r);
		n++;
	}
	return n > 0;
}

/* A rule for all commands also allows what no command names: `> file`, `{ …; } > file`, a function call. */
static bool every_command_allowed(const struct asking *a)
{
	for (size_t k = 0; k < a->nallowing; k++) {
		const struct policy_rules *s = a->set[k];

		for (size_t i = 0; i < s->nanywhere; i++)
			if (s->rule[s->anywhere[i]].effect == RULE_ALLOW && !s->rule[s->anywhere[i]].pattern)
				return true;
	}
	return false;
}

/* Each command and each redirection that writes needs a rule that allows it, except for transparent wrappers. */
static void allow_line(struct asking *a)
{
	const struct command_facts *f = a->query->facts;
	struct rules_verdict v = { .effect = RULE_ALLOW, .command = -1 };
	struct rules_verdict edits = { 0 };
	const bool written = edits_allowed(a, &edits);
	size_t covered = 0;

	for (size_t i = 0; i < f->ncommands; i++) {
		const struct command_simple *c = &f->command[i];
		if (c->flags & COMMAND_ELSEWHERE)
			continue; /* covered by the rule that allows ssh */
		const char *writes = written ? NULL : c->writes;
		const struct policy_rule *r = c->argc ? allowed_by(a, c, writes) : NULL;

		/* A rule that names the redirections may exist as well. */
		if (!r && c->argc && written)
			r = allowed_by(a, c, c->writes);
		if (writes && !r && !every_command_allowed(a))
			return;

		if (c->unknown & ~(r ? (unsigned)COMMAND_UNKNOWN_COVERED : 0))
			return;
		if (c->argc && !r && !(c->flags & (COMMAND_TRANSPARENT | COMMAND_FUNCTION_CALL)))
			return;
		covered += r != NULL;
		if (r)
			note_hit(&v, r);
	}
	for (size_t i = 0; i < edits.nhits; i++)
		note_hit(&v, edits.hit[i]);
	if (covered && !(f->unknown & ~(unsigned)COMMAND_UNKNOWN_COVERED) && !f->error[0])
		*a->verdict = v;
}

/* Rules about reading and writing, for the paths that a command or a tool is known to use. */
static void stop_set_paths(struct asking *a, const struct policy_rules *s, const struct command_path *path, size_t n)
{
	bool near[RULE_BASES];

	for (size_t i = 0; i < n; i++) {
		rule_path_candidates(&path[i], &a->query->bases, near);
		for (int kind = RULE_READ; kind <= RULE_EDIT; kind++) {
			unsigned wanted = kind == RULE_READ ? COMMAND_READS : COMMAND_WRITES | COMMAND_DELETES;

			for (size_t k = 0; path[i].access & wanted && k < s->nother[kind]; k++) {
				const struct policy_rule *r = &s->rule[s->other[kind][k]];

				if (r->effect > RULE_ALLOW && (near[r->base] || !r->pattern))
					add_hit(a, r, rule_path_matches(r, &path[i], &a->query->bases),
						(int)path[i].command);
			}
		}
	}
}

/* Paths in words whose use is unknown: rules about reading match them; whether they are written is unknown. */
static void stop_named(struct asking *a, const struct policy_rules *s)
{
	const struct command_facts *f = a->query->facts;
	bool near[RULE_BASES];

	for (size_t i = 0; i < f->nnamed; i++) {
		rule_path_candidates(&f->named[i], &a->query->bases, near);
		for (int kind = RULE_READ; kind <= RULE_EDIT; kind++)
			for (size_t k = 0; f->named[i].access & (kind == RULE_READ ? COMMAND_READS : COMMAND_WRITES) &&
					   k < s->nother[kind];
			     k++) {
				const struct policy_rule *r = &s->rule[s->other[kind][k]];

				/* Rules about all files apply only where the access is known. */
				if (r->effect == RULE_ALLOW || !r->pattern || !near[r->base])
					continue;
				const enum rule_match m = rule_match_named(r, &f->named[i], &a->query->bases);
				if (m == RULE_MATCH && kind == RULE_EDIT)
					hit_handed(a, r, (int)f->named[i].command);
				else
					add_hit(a, r, m, (int)f->named[i].command);
			}
	}
}

/* A host that the words do not name may be any, so it asks. */
static void stop_hosts(struct asking *a, const struct policy_rules *s)
{
	const struct command_facts *f = a->query->facts;

	for (size_t i = 0; i < f->nhosts; i++)
		for (size_t k = 0; k < s->nother[RULE_FETCH]; k++) {
			const struct policy_rule *r = &s->rule[s->other[RULE_FETCH][k]];
			enum rule_match m = !f->host[i].host                        ? RULE_MAYBE
					    : rule_host_matches(r, f->host[i].host) ? RULE_MATCH
										    : RULE_NO_MATCH;

			add_hit(a, r, m, (int)f->host[i].command);
		}
}

/* A host in the words of any program: whether the program connects to it is unknown. */
static void stop_named_hosts(struct asking *a, const struct policy_rules *s)
{
	const struct command_facts *f = a->query->facts;
	char host[COMMAND_VARIANTS_HOST_MAX];

	for (size_t i = 0; s->nother[RULE_FETCH] && i < f->ncommands; i++)
		for (size_t k = 1; k < f->command[i].argc; k++) {
			if (!f->command[i].argv[k] ||
			    !command_variants_host(&f->command[i], f->command[i].argv[k], host))
				continue;
			for (size_t n = 0; n < s->nother[RULE_FETCH]; n++) {
				const struct policy_rule *r = &s->rule[s->other[RULE_FETCH][n]];

				if (r->effect > RULE_ALLOW && r->pattern && rule_host_matches(r, host))
					hit_handed(a, r, (int)i);
			}
		}
}

/* Why commands of the line may be missing in the list: what they use is not known either. */
#define UNLISTED (COMMAND_UNKNOWN(TOO_MUCH) | COMMAND_UNKNOWN(AMBIGUOUS))

static bool stops_by(const struct policy_rules *s, const size_t *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s->rule[list[i]].effect > RULE_ALLOW)
			return true;
	return false;
}

/*
 * Whether the set has rules that deny or ask: about commands, or, if some may be missing, about files and hosts. Only
 * then does something unknown ask.
 */
static bool has_stopping(const struct policy_rules *s, unsigned unknown)
{
	bool is = s->nsorted || stops_by(s, s->anywhere, s->nanywhere) ||
		  stops_by(s, s->other[RULE_PREFIX], s->nother[RULE_PREFIX]);

	for (int kind = RULE_READ; unknown & UNLISTED && kind <= RULE_FETCH; kind++)
		is |= stops_by(s, s->other[kind], s->nother[kind]);
	return is;
}

/* Strict policy: a command that runs code that is not in its words asks, unless a rule allows that command. */
static void ask_strictly(struct asking *a)
{
	const struct command_facts *f = a->query->facts;
	struct rules_verdict *v = a->verdict;
	unsigned left = f->unknown & ~(unsigned)COMMAND_UNKNOWN_COVERED;

	for (size_t i = 0; i < f->ncommands && !left; i++) {
		const struct command_simple *c = &f->command[i];

		if (c->flags & (COMMAND_ELSEWHERE | COMMAND_FUNCTION_CALL) || !c->argc ||
		    (!c->unknown && command_variants_is_seen(c)) || allowed_by(a, c, NULL))
			continue;
		v->command = (int)i;
		left = 1;
	}
	if (!left)
		return;
	v->effect = RULE_ASK;
	v->unknown = v->strict = true;
}

/* Stops first, then allows; something unknown asks only if there are rules that it could evade. */
static void ask_command(struct asking *a)
{
	const struct command_facts *f = a->query->facts;
	struct rules_verdict *v = a->verdict;
	bool stopping = false;

	for (size_t i = 0; i < f->ncommands && v->effect < RULE_DENY; i++)
		if (f->command[i].argc)
			stop_command(a, &f->command[i], (int)i);
	for (size_t i = 0; i < a->nsets; i++) {
		stop_set_paths(a, a->set[i], f->path, f->npaths);
		stop_hosts(a, a->set[i]);
		stop_named(a, a->set[i]);
		stop_named_hosts(a, a->set[i]);
		stopping |= has_stopping(a->set[i], f->unknown);
	}
	if (v->effect == RULE_NONE)
		allow_line(a);
	if (v->effect == RULE_NONE && f->unknown & ~(unsigned)COMMAND_UNKNOWN_COVERED && stopping) {
		v->effect = RULE_ASK;
		v->unknown = true;
	}
	if (v->effect == RULE_NONE && a->nsets && a->set[0]->strict)
		ask_strictly(a);
}

/* Applies the rules of one set to a tool; returns the rule that allows it, if `allowing`. */
static const struct policy_rule *ask_set_tool(struct asking *a, const struct policy_rules *s, bool allowing)
{
	const struct rules_query *q = a->query;
	enum rule_kind kind = rule_kind_of_tool(q->tool);
	const struct policy_rule *allowed = NULL;

	for (size_t i = 0; i < s->nother[RULE_TOOL]; i++) {
		const struct policy_rule *r = &s->rule[s->other[RULE_TOOL][i]];
		bool m = rule_tool_matches(r, q->tool);

		if (m && r->effect == RULE_ALLOW)
			allowed = r;
		add_hit(a, r, m ? RULE_MATCH : RULE_NO_MATCH, -1);
	}
	stop_set_paths(a, s, q->path, q->npaths);
	for (size_t i = 0; kind == RULE_FETCH && i < s->nother[kind]; i++) {
		const struct policy_rule *r = &s->rule[s->other[kind][i]];
		bool m = q->host ? rule_host_matches(r, q->host) : !r->pattern;

		if (m && r->effect == RULE_ALLOW)
			allowed = r;
		/* An unknown host may be the one that the rule names. */
		add_hit(a, r, m ? RULE_MATCH : q->host ? RULE_NO_MATCH : RULE_MAYBE, -1);
	}
	for (size_t i = 0; (kind == RULE_READ || kind == RULE_EDIT) && i < s->nother[kind]; i++) {
		const struct policy_rule *r = &s->rule[s->other[kind][i]];
		bool all = r->effect == RULE_ALLOW && (q->npaths || !r->pattern);

		for (size_t k = 0; k < q->npaths && all; k++)
			all = rule_path_matches(r, &q->path[k], &q->bases) == RULE_MATCH;
		/* An unknown file may be the one that the rule names. */
		if (!q->npaths)
			add_hit(a, r, r->pattern ? RULE_MAYBE : RULE_MATCH, -1);
		if (all)
			allowed = r;
	}
	return allowing ? allowed : NULL;
}

/* A tool is matched as a whole: by its name, or by the conventions' name and its paths. */
static void ask_tool(struct asking *a)
{
	const struct policy_rule *allowed = NULL;

	for (size_t i = 0; i < a->nsets; i++) {
		const struct policy_rule *r = ask_set_tool(a, a->set[i], i < a->nallowing);

		allowed = allowed ? allowed : r;
	}
	if (a->verdict->effect == RULE_NONE && allowed) {
		a->verdict->effect = RULE_ALLOW;
		note_hit(a->verdict, allowed);
	}
}

bool policy_rules_name_files(const struct policy_rules *s)
{
	for (int kind = RULE_READ; s && kind <= RULE_EDIT; kind++)
		for (size_t i = 0; i < s->nother[kind]; i++)
			if (s->rule[s->other[kind][i]].pattern)
				return true;
	return false;
}

void policy_rules_ask(const struct policy_rules *s, const struct rules_query *q, struct rules_verdict *ret)
{
	struct asking a = { .query = q, .verdict = ret };

	if (s)
		a.set[a.nsets++] = s;
	a.nallowing = a.nsets;
	if (q->session) {
		a.set[a.nsets++] = q->session;
		a.nallowing += !s || !s->sessions_tighten;
	}
	*ret = (struct rules_verdict){ .command = -1 };
	if (q->tool)
		ask_tool(&a);
	else if (q->facts)
		ask_command(&a);
}

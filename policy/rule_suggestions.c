/*
 * Suggests rules for a request that was not allowed. A suggestion is built from the commands or the tool, then parsed
 * and applied like a rule of a file: one that would not decide this request is not suggested. Suggestions contain no
 * wildcard, because the person who accepts one has seen only this request.
 */

#include "policy/rule_suggestions.h"

#include "policy/command_analysis.h"
#include "policy/decision.h"
#include "policy/rules.h"
#include "policy/rules_index.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void rule_suggestions_done(struct rule_suggestions *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->rule[i]);
	l->count = 0;
}

__attribute__((format(printf, 2, 3))) static void give_up(struct rule_suggestions *l, const char *fmt, ...)
{
	va_list ap;

	rule_suggestions_done(l);
	va_start(ap, fmt);
	(void)vsnprintf(l->why, sizeof l->why, fmt, ap);
	va_end(ap);
}

/* Takes the rule; each is listed once. */
static void add_rule(struct rule_suggestions *l, char *rule)
{
	for (size_t i = 0; i < l->count; i++)
		if (strcmp(l->rule[i], rule) == 0) {
			free(rule);
			return;
		}
	if (l->count == RULE_SUGGESTIONS_MAX || strlen(rule) > RULE_TEXT_MAX) {
		free(rule);
		give_up(l, "the command is too long, or has too many parts, for exact rules");
		return;
	}
	l->rule[l->count++] = rule;
}

/* ---- commands ---- */

/*
 * Whether a rule must name this command. A command that is already allowed, or does nothing itself, needs none; a
 * read-only command is not what was denied.
 */
static bool needs_rule(const struct policy_request *r, const struct command_simple *c, enum rule_effect effect,
		       bool reads)
{
	if (!c->argc || c->flags & (COMMAND_FUNCTION_CALL | COMMAND_ELSEWHERE))
		return false;
	/* The inner command is matched separately; the redirections of the wrapper are not. */
	if (c->flags & COMMAND_TRANSPARENT && (effect != RULE_ALLOW || !c->writes))
		return false;
	if (effect == RULE_ALLOW)
		return !r->rules || !policy_rules_allow(r->rules, c);
	return reads || !(c->flags & COMMAND_READ_ONLY);
}

/* The first file written by redirection, of all (`all`), or of those that no rule about a command can name. */
static const struct command_path *find_written_path(const struct command_facts *f, bool all)
{
	for (size_t i = 0; i < f->npaths; i++) {
		const struct command_path *p = &f->path[i];
		const struct command_simple *c = &f->command[p->command];

		if (p->access & COMMAND_REDIRECTED && p->access & COMMAND_WRITES && c->writes &&
		    (all || !p->exact || !c->argc || c->flags & COMMAND_FUNCTION_CALL))
			return p;
	}
	return NULL;
}

/*
 * The output of a group or a function, or a file whose name is known only at run time: explains what to do instead.
 */
static void give_up_written(struct rule_suggestions *l, const struct command_path *p)
{
	if (!p->exact)
		give_up(l,
			"it redirects output to '%.60s', which is known only when it runs: name the file, or "
			"allow where it may be with an Edit(…) rule",
			p->word);
	else
		give_up(l,
			"rules about commands do not cover the redirection to '%.50s': allow that file with "
			"Edit(/%.80s), "
			"then allow this",
			p->word, p->path);
}

/* One rule for each command that is not allowed yet, exactly as written. */
static void suggest_for_command(const struct policy_request *r, enum rule_effect effect, struct rule_suggestions *l)
{
	const struct command_facts *f = r->facts;
	bool reads = true; /* every command only reads */

	if (f->unknown & ~(unsigned)COMMAND_UNKNOWN_COVERED || f->error[0]) {
		give_up(l, "the program that runs is unknown, and no rule covers that");
		return;
	}
	for (size_t i = 0; i < f->ncommands; i++)
		reads &= !f->command[i].argc || f->command[i].flags & (COMMAND_READ_ONLY | COMMAND_TRANSPARENT);
	if (effect == RULE_ALLOW && find_written_path(f, false))
		give_up_written(l, find_written_path(f, false));
	for (size_t i = 0; i < f->ncommands && !l->why[0]; i++) {
		const struct command_simple *c = &f->command[i];
		const char *writes = effect == RULE_ALLOW ? c->writes : NULL;
		bool known = true;

		if (!needs_rule(r, c, effect, reads))
			continue;
		for (size_t k = 0; k < c->argc; k++)
			known &= c->argv[k] != NULL;
		if (!known)
			give_up(l,
				"'%.100s' has words that are known only when it runs: a rule would cover more than "
				"this",
				c->text);
		else if (strchr(c->text, '*') || (writes && strchr(writes, '*')))
			give_up(l, "'%.100s' contains a *, which matches anything in a rule", c->text);
		else
			add_rule(l, mem_printf("Bash(%s%s%s)", c->text, writes ? " " : "", writes ? writes : ""));
	}
}

/* ---- tools ---- */

static void suggest_for_tool(const struct policy_request *r, struct rule_suggestions *l)
{
	enum rule_kind kind = rule_kind_of_tool(r->tool);
	const struct command_path *p = r->tool_path;

	if (kind == RULE_TOOL &&
	    (strpbrk(r->tool, "*(") || (strncmp(r->tool, "mcp__", 5) == 0 && !strstr(r->tool + 5, "__"))))
		give_up(l, "a rule '%.100s' would match more tools than this", r->tool);
	else if (kind == RULE_TOOL)
		add_rule(l, mem_strdup(r->tool));
	else if (kind == RULE_FETCH && r->tool_host && strchr(r->tool_host, '*'))
		give_up(l, "'%.100s' contains a *, which matches other hosts in a rule", r->tool_host);
	else if (kind == RULE_FETCH && r->tool_host)
		add_rule(l, mem_printf("WebFetch(domain:%s)", r->tool_host));
	else if (r->ntool_paths != 1 || !p->exact)
		give_up(l, "it names %zu files, and an allow rule covers one", r->ntool_paths);
	else if (strpbrk(p->path, "*?["))
		give_up(l, "'%.150s' contains wildcards, which match other files in a rule", p->path);
	else
		add_rule(l, mem_printf("%s(/%s)", kind == RULE_READ ? "Read" : "Edit", p->path));
}

/* ---- whether the suggestions work ---- */

static bool parse_suggestions(struct policy_rules *s, const struct rule_suggestions *l, enum rule_effect effect)
{
	struct err e = ERR_INIT;

	s->rule = mem_zalloc(RULE_SUGGESTIONS_MAX, sizeof *s->rule);
	s->cap = RULE_SUGGESTIONS_MAX;
	for (size_t i = 0; i < l->count; i++) {
		struct policy_rule *r = &s->rule[s->count++];

		*r = (struct policy_rule){
			.effect = effect, .layer = RULE_OF_USER, .file = "", .text = mem_strdup(l->rule[i])
		};
		if (rule_parse(r, l->rule[i], &e) < 0)
			return false;
	}
	policy_rules_index(s);
	return true;
}

/* Whether the suggested rules would decide this request. */
static bool suggestions_work(const struct policy_request *r, const struct rule_suggestions *l, enum rule_effect effect)
{
	struct rules_query q = policy_request_query(r);
	struct policy_rules own = RULES_INIT;
	struct rules_verdict v = { 0 };
	bool ok = parse_suggestions(&own, l, effect);

	q.session = NULL; /* the suggestions alone must decide it */
	if (ok && effect == RULE_ALLOW && !r->tool) {
		for (size_t i = 0; i < r->facts->ncommands; i++) {
			const struct command_simple *c = &r->facts->command[i];

			ok &= !needs_rule(r, c, effect, false) || policy_rules_allow(&own, c);
		}
	} else if (ok) {
		policy_rules_ask(&own, &q, &v);
		ok = v.effect == effect;
	}
	policy_rules_done(&own);
	return ok;
}

/* Whether something overrides every rule that allows. */
static bool is_overridden(const struct policy_request *r, struct rule_suggestions *l)
{
	const struct rules_query q = policy_request_query(r);
	struct rules_verdict v = { .command = -1 };
	char where[RULE_WHERE_MAX];

	policy_rules_ask(r->rules, &q, &v);
	if (v.effect > RULE_ALLOW && v.nhits) {
		policy_rule_where(v.hit[0], where, sizeof where);
		give_up(l, "'%.80s' (%s) %s it, and no rule that allows is stronger", v.hit[0]->text, where,
			v.effect == RULE_DENY ? "denies" : "asks about");
	} else if (v.effect > RULE_ALLOW)
		give_up(l, "the program that runs is unknown, and no rule covers that");
	else if (r->mode == MODE_PLAN)
		give_up(l, "mode plan denies it regardless of rules");
	else if (r->mode == MODE_BYPASS)
		give_up(l, "mode bypass is not permitted");
	else if (r->unconfined || r->wider)
		give_up(l, "rules cannot widen a sandbox: this request needs %s",
			r->unconfined ? "no sandbox" : "more than its profile grants");
	return l->why[0] != '\0';
}

void rule_suggestions_make(const struct policy_request *r, enum rule_effect effect, struct rule_suggestions *ret)
{
	*ret = (struct rule_suggestions){ 0 };
	if (effect == RULE_ALLOW && is_overridden(r, ret))
		return;
	if (r->tool)
		suggest_for_tool(r, ret);
	else if (r->facts)
		suggest_for_command(r, effect, ret);
	if (ret->why[0] || (ret->count && suggestions_work(r, ret, effect)))
		return;
	if (effect == RULE_ALLOW && !r->tool && r->facts && find_written_path(r->facts, true))
		give_up_written(ret, find_written_path(r->facts, true));
	else
		give_up(ret, "no exact rule exists for it");
}

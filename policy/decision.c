/*
 * Combines the verdict of the rules with the mode. The order is fixed: no sandbox outside of mode bypass; a rule that
 * denies or asks; rules that allow every part; the mode. `never` turns every question into a denial at the end, so no
 * branch needs to know about it. Hooks are applied afterwards (hook_answer.c) and cannot weaken a denial.
 */

#include "policy/decision.h"

#include "policy/command_text.h"

#include "policy/command_analysis.h"
#include "policy/hook_answer.h"
#include "runtime/base/buf.h"
#include "runtime/base/jw.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const answers[] = {
	[POLICY_ALLOW] = "allow",
	[POLICY_DENY] = "deny",
	[POLICY_ASK] = "ask",
	[POLICY_UNAVAILABLE] = "unavailable",
	[POLICY_SANDBOXED] = "sandboxed",
};

static const char *const sources[] = {
	[POLICY_BY_MODE] = "mode",
	[POLICY_BY_RULE] = "rule",
	[POLICY_BY_HOOK] = "hook",
	[POLICY_BY_PERSON] = "user",
	[POLICY_BY_CLASSIFIER] = "classifier",
	[POLICY_BY_HOST] = "host_policy",
	[POLICY_BY_SANDBOX] = "sandbox",
};

static const char *const scopes[] = {
	[POLICY_ONCE] = "once",
	[POLICY_SESSION] = "session",
	[POLICY_ALWAYS] = "always",
};

const char *policy_answer_name(enum policy_answer a) { return answers[a]; }

__attribute__((format(printf, 4, 5))) static void set_decision(struct policy_decision *d, enum policy_answer a,
							       enum policy_source s, const char *fmt, ...)
{
	va_list ap;

	d->answer = a;
	d->source = s;
	va_start(ap, fmt);
	(void)vsnprintf(d->reason, sizeof(d->reason), fmt, ap);
	va_end(ap);
}

#define REASON_COMMAND_MAX 160 /* of a command in a reason */

/* The properties of the request that the modes depend on. */
struct evaluation {
	const char *mode, *profile;
	const char *unknown; /* why it is unknown what would run; NULL = it is known */
	char variable[160];  /* the same, with the name of a variable */
	bool reads;          /* only reads */
	bool harm;           /* would destroy something */
};

/* Collects what the modes decide by. */
static void evaluate_request(const struct policy_request *r, struct evaluation *j)
{
	const struct command_facts *f = r->facts;
	unsigned bits = f ? f->unknown & ~(unsigned)COMMAND_UNKNOWN_COVERED : 0;

	*j = (struct evaluation){ .mode = permission_mode_name((enum permission_mode)r->mode),
				  .profile = r->profile ? r->profile : "workspace" };
	for (unsigned i = 0; bits && i < COMMAND_UNKNOWN_COUNT && !j->unknown; i++)
		if (bits & 1u << i)
			j->unknown = command_unknown_text(i);
	if (j->unknown && f->variable && j->unknown == command_unknown_text(COMMAND_UNKNOWN_BIT_VARIABLE)) {
		(void)snprintf(j->variable, sizeof j->variable,
			       "the variable %.64s is set, which makes programs run other code", f->variable);
		j->unknown = j->variable;
	}
	j->harm = f && f->harm >= COMMAND_DESTRUCTIVE;
	j->reads = r->tool ? rule_kind_of_tool(r->tool) == RULE_READ : f && f->flags & COMMAND_READ_ONLY && !f->unknown;
}

/* The mode decides if nothing more specific does. */
static void decide_by_mode(const struct policy_request *r, const struct evaluation *j, struct policy_decision *d)
{
	const char *impact = r->facts && r->facts->impact ? r->facts->impact : "destroys something";

	switch ((enum permission_mode)r->mode) {
	case MODE_UNTRUSTED:
	case MODE_PLAN:
		if (j->reads)
			set_decision(d, POLICY_ALLOW, POLICY_BY_CLASSIFIER, "the command only reads");
		else
			set_decision(d, r->mode == MODE_PLAN ? POLICY_DENY : POLICY_ASK, POLICY_BY_MODE,
				     "mode %s %s every command that is not known to be read-only", j->mode,
				     r->mode == MODE_PLAN ? "denies" : "asks for");
		return;
	case MODE_AUTO:
		if (j->unknown)
			set_decision(d, POLICY_ASK, POLICY_BY_CLASSIFIER, "mode %s asks: %.150s", j->mode, j->unknown);
		else if (!j->reads && (r->foreign || (r->tool && rule_kind_of_tool(r->tool) == RULE_TOOL)))
			set_decision(d, POLICY_ASK, POLICY_BY_CLASSIFIER,
				     "mode %s asks: the effect of %s tool is unknown", j->mode,
				     r->foreign ? "a client's own" : "an MCP server's");
		else if (j->harm)
			set_decision(d, POLICY_ASK, POLICY_BY_CLASSIFIER, "mode %s asks: it %.120s", j->mode, impact);
		else
			set_decision(d, POLICY_ALLOW, POLICY_BY_CLASSIFIER,
				     "the command is understood and not destructive");
		return;
	case MODE_BYPASS:
		if (r->rules && r->rules->bypass)
			set_decision(
				d, POLICY_ALLOW, POLICY_BY_MODE,
				"mode bypass, permitted by the host's policy, allows everything that no rule denies");
		else
			set_decision(
				d, POLICY_DENY, POLICY_BY_HOST,
				"mode bypass is not permitted: the host's policy does not set permissions.allowBypass");
		return;
	case MODE_ON_REQUEST:
		if (r->wider) {
			set_decision(d, POLICY_ASK, POLICY_BY_MODE, "mode %s asks: the request exceeds its profile",
				     j->mode);
			return;
		}
		if (j->harm) {
			set_decision(d, POLICY_ASK, POLICY_BY_CLASSIFIER, "mode %s asks: it %.120s", j->mode, impact);
			return;
		}
		break;
	default: break; /* default, on_failure, never: the sandbox confines the command, so it runs */
	}
	if (r->foreign)
		set_decision(d, POLICY_ALLOW, POLICY_BY_MODE, "no rule applies; mode %s allows the tools of clients",
			     j->mode);
	else
		set_decision(d, POLICY_ALLOW, POLICY_BY_MODE,
			     "no rule applies; mode %s allows commands in profile %.64s", j->mode, j->profile);
}

/* The command that the verdict is about; if a rule about written files decided, with its redirections. */
static void describe_command(const struct policy_request *r, const struct rules_verdict *v,
			     char ret[REASON_COMMAND_MAX])
{
	const struct command_simple *c = v->command >= 0 && r->facts && (size_t)v->command < r->facts->ncommands
						 ? &r->facts->command[v->command]
						 : NULL;
	const bool redirects = c && c->writes && v->nhits && v->hit[0]->kind == RULE_EDIT;

	if (r->tool || !c)
		(void)snprintf(ret, REASON_COMMAND_MAX, "%.80s", r->tool ? r->tool : r->argc ? r->argv[0] : "it");
	else
		(void)snprintf(ret, REASON_COMMAND_MAX, "%.80s%s%.60s", c->text, redirects ? *c->text ? " " : "" : "",
			       redirects ? c->writes : "");
}

/* What a strict policy cannot see in a command, or in the line. */
static const char *strict_reason(const struct policy_request *r, const struct rules_verdict *v)
{
	const unsigned bits = v->command >= 0 ? r->facts->command[v->command].unknown
					      : r->facts->unknown & ~(unsigned)COMMAND_UNKNOWN_COVERED;

	for (unsigned i = 0; i < COMMAND_UNKNOWN_COUNT; i++)
		if (bits & 1u << i)
			return command_unknown_text(i);
	return "the effect of this program is unknown (allow it with a rule)";
}

/* The reason names the rule, or the part that is unknown. */
static void decide_by_rules(const struct policy_request *r, const struct evaluation *j, const struct rules_verdict *v,
			    struct policy_decision *d)
{
	const struct policy_rule *rule = v->nhits ? v->hit[0] : NULL;
	const char *why = rule && rule->justification ? rule->justification : NULL;
	char origin[RULE_WHERE_MAX] = "", command[REASON_COMMAND_MAX];
	const bool files = rule && (rule->kind == RULE_READ || rule->kind == RULE_EDIT);

	describe_command(r, v, command);
	/* Only for a rule of a session: ruleRefs has the file and line of others. */
	if (rule && rule->layer == RULE_OF_SESSION)
		(void)snprintf(origin, sizeof origin, " of session %.64s (%s rule %u)", rule->file,
			       policy_rule_list(rule), rule->line);
	for (size_t i = 0; i < v->nhits; i++)
		d->rules[d->nrules++] = v->hit[i];
	d->ruled = v->unknown || v->effect >= RULE_ASK;
	if (v->strict)
		set_decision(d, POLICY_ASK, POLICY_BY_RULE,
			     "the policy is strict, and '%s' runs code that its text does not show: %.120s", command,
			     strict_reason(r, v));
	else if (v->unknown)
		set_decision(d, POLICY_ASK, POLICY_BY_CLASSIFIER,
			     "rules that deny or ask exist, and whether one applies is unknown: %.120s",
			     j->unknown ? j->unknown : "it is known only when it runs");
	else if (v->effect == RULE_DENY)
		set_decision(d, POLICY_DENY, POLICY_BY_RULE, "'%s' is denied by %s%.100s%s", command,
			     why ? "a rule: " : "", why ? why : rule->text, origin);
	else if (v->effect == RULE_ASK && v->handed)
		set_decision(
			d, POLICY_ASK, POLICY_BY_RULE,
			"'%s' has words that the rule '%.80s'%s is about, and it is not known what the program does "
			"with them",
			command, rule->text, origin);
	else if (v->effect == RULE_ASK && v->maybe && files)
		set_decision(
			d, POLICY_ASK, POLICY_BY_RULE,
			"which files '%s' uses is known only when it runs, and the rule '%.80s'%s may apply to one",
			command, rule->text, origin);
	else if (v->effect == RULE_ASK && v->maybe)
		set_decision(
			d, POLICY_ASK, POLICY_BY_RULE,
			"'%s' has words that are known only when it runs, and the rule '%.80s'%s may apply to them",
			command, rule->text, origin);
	else if (v->effect == RULE_ASK)
		set_decision(d, POLICY_ASK, POLICY_BY_RULE, "'%s' asks by %s%.100s%s", command, why ? "a rule: " : "",
			     why ? why : rule->text, origin);
	else
		set_decision(d, POLICY_ALLOW, POLICY_BY_RULE, "every part of it is allowed, by %.160s%s", rule->text,
			     origin);
	if (d->answer == POLICY_DENY && rule && rule->layer == RULE_OF_HOST)
		d->source = POLICY_BY_HOST;
}

struct rules_query policy_request_query(const struct policy_request *r)
{
	return (struct rules_query){ .facts = r->facts,
				     .tool = r->tool,
				     .path = r->tool_path,
				     .npaths = r->ntool_paths,
				     .host = r->tool_host,
				     .bases = { .cwd = r->cwd, .workspace = r->workspace, .home = r->home },
				     .session = r->session_rules };
}

void policy_decide(const struct policy_request *r, struct policy_decision *ret)
{
	const struct rules_query q = policy_request_query(r);
	struct rules_verdict v = { .command = -1 };
	struct evaluation j;

	*ret = (struct policy_decision){ .scope = POLICY_ONCE };
	evaluate_request(r, &j);
	policy_rules_ask(r->rules, &q, &v);
	/*
	 * Mode plan changes nothing, regardless of rules that allow and of approvals; and mode bypass must be permitted
	 * before it allows anything.
	 */
	bool mode_first = (r->mode == MODE_PLAN && (v.effect <= RULE_ALLOW || (v.effect == RULE_ASK && !j.reads))) ||
			  (r->mode == MODE_BYPASS && (!r->rules || !r->rules->bypass));
	/* Mode bypass does not ask only because a command cannot be analysed. */
	if (r->mode == MODE_BYPASS && v.unknown)
		v.effect = RULE_NONE;
	if (r->unconfined && r->mode != MODE_BYPASS && v.effect != RULE_DENY)
		set_decision(
			ret, POLICY_DENY, POLICY_BY_MODE,
			"profile %.64s is not a sandbox, and mode %s requires one (bailiff policy mode SESSION bypass, "
			"where the host's policy permits it)",
			j.profile, j.mode);
	else if (v.effect == RULE_NONE || mode_first)
		decide_by_mode(r, &j, ret);
	else
		decide_by_rules(r, &j, &v, ret);
	if (ret->answer == POLICY_ASK && r->mode == MODE_NEVER) {
		char asked[POLICY_REASON_MAX];

		(void)snprintf(asked, sizeof(asked), "%s", ret->reason);
		set_decision(ret, POLICY_DENY, ret->source, "mode never does not ask, and %.200s", asked);
	}
	/* Known harm is reported with every decision and in every mode. */
	if (r->facts) {
		ret->destructive = r->facts->harm >= COMMAND_DESTRUCTIVE;
		ret->impact = r->facts->impact;
		ret->advice = r->facts->advice;
	}
}

void policy_decision_json(const struct policy_decision *d, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kstr(&w, "decision", answers[d->answer]);
	jw_kstr(&w, "decisionSource", sources[d->source]);
	jw_kstr(&w, "decisionReason", d->reason);
	jw_karr(&w, "ruleRefs");
	for (size_t i = 0; i < d->nrules; i++)
		policy_rule_json(d->rules[i], &w);
	if (d->hook)
		hook_ref_json(d->hook, &w);
	jw_arr_end(&w);
	jw_kstr(&w, "scope", scopes[d->scope]);
	jw_kopt(&w, "updatedInputRef", d->updated_ref);
	jw_kopt(&w, "approvalActionId", d->action_id);
	jw_kopt(&w, "expiresAt", d->expires_at);
	jw_kbool(&w, "destructive", d->destructive);
	jw_kopt(&w, "impact", d->impact);
	jw_kopt(&w, "rollbackAdvice", d->advice);
	jw_obj_end(&w);
}

#include "policy/decision.h"

#include "policy/understand.h"
#include "runtime/base/buf.h"
#include "runtime/base/jw.h"

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
};

static const char *const scopes[] = {
	[POLICY_ONCE] = "once",
	[POLICY_SESSION] = "session",
	[POLICY_ALWAYS] = "always",
};

/* The mode is what answers where nothing more specific does. */
static void decide_by_mode(const struct policy_request *r, struct policy_decision *ret)
{
	ret->answer = POLICY_ALLOW;
	ret->source = POLICY_BY_MODE;
	ret->scope = POLICY_ONCE;
	(void)snprintf(ret->reason, sizeof(ret->reason), "no rule applies; mode %.32s allows commands in profile %.64s",
		       r->mode ? r->mode : "default", r->profile ? r->profile : "workspace");
}

void policy_decide(const struct policy_request *r, struct policy_decision *ret)
{
	*ret = (struct policy_decision){ 0 };
	decide_by_mode(r, ret);
	/* Whatever the answer and the mode: what would be destroyed is said. */
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
	jw_kstrv(&w, "ruleRefs", d->rules, d->nrules);
	jw_kstr(&w, "scope", scopes[d->scope]);
	jw_kbool(&w, "destructive", d->destructive);
	jw_kopt(&w, "impact", d->impact);
	jw_kopt(&w, "rollbackAdvice", d->advice);
	jw_obj_end(&w);
}

#ifndef BAILIFF_TESTS_RULES_RIG_H
#define BAILIFF_TESTS_RULES_RIG_H

/* Rules from a text, and what they decide about a command line. */

#include "policy/command_analysis.h"
#include "policy/decision.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <jansson.h>

static const struct analysis_options where = { .cwd = "/w/proj/sub", .workspace = "/w/proj", .home = "/home/u" };

static inline void load(struct policy_rules *s, enum rule_layer layer, const char *text)
{
	struct err e = ERR_INIT;

	if (policy_rules_parse(s, layer, "policy.json", text, strlen(text), &e) < 0)
		ck_abort_msg("%s", e.message);
}

static inline void decide_in(const struct policy_rules *s, const struct policy_rules *session, int mode,
			     const char *line, struct policy_decision *ret)
{
	const char *const argv[] = { "/bin/sh", "-c", line };
	command_facts_auto struct command_facts f = { 0 };
	struct policy_request q = { .argv = argv,
				    .argc = 3,
				    .command_line = line,
				    .cwd = where.cwd,
				    .workspace = where.workspace,
				    .home = where.home,
				    .mode = mode,
				    .facts = &f,
				    .rules = s,
				    .session_rules = session };

	command_analyse_line(line, strlen(line), &where, &f);
	policy_decide(&q, ret);
	ret->impact = ret->advice = NULL; /* they point into the tables; a test must not rely on that */
}

static inline void decide(const struct policy_rules *s, int mode, const char *line, struct policy_decision *ret)
{
	decide_in(s, NULL, mode, line, ret);
}

/* As permissions of a session. */
static inline int give(struct policy_rules *s, const char *text, struct err *e)
{
	json_auto_t *v = json_loads(text, 0, NULL);

	ck_assert_msg(v != NULL, "%s", text);
	*s = RULES_INIT;
	return policy_rules_session(s, "sess_1", v, e);
}

#endif

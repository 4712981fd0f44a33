#ifndef BAILIFF_TESTS_SIM_POLICY_H
#define BAILIFF_TESTS_SIM_POLICY_H

/*
 * The policy of a history: rules that ask and deny, and hooks at random points, whose programs answer at random. Some
 * histories have none.
 */

#include "policy/hooks.h"
#include "policy/rules.h"
#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "tests/crash/sim_model.h"
#include "tests/crash/sim_threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_policy {
	struct policy_rules rules;
	struct policy_hooks hooks;
	bool exists;
};

static inline void policy_fail(const struct err *e)
{
	fprintf(stderr, "the simulator's own policy: %s\n", e->message);
	abort();
}

static inline void sim_policy_init(struct sim_policy *p, uint64_t random)
{
	static const char *const permissions[] = { "\"ask\":[\"Bash(true *)\"]",
						   "\"ask\":[\"Bash\"],\"allow\":[\"Bash(ls)\"]",
						   "\"deny\":[\"Bash(ls)\"]", "\"defaultMode\":\"plan\"",
						   "\"allow\":[\"Bash(true *)\"]" };
	buf_auto struct buf text = BUF_INIT;
	struct err e = ERR_INIT;
	const char *comma = "";

	*p = (struct sim_policy){ .rules = RULES_INIT, .exists = random % 4 != 0 };
	random /= 4;
	if (!p->exists)
		return;
	buf_printf(&text, "{\"permissions\":{%s},\"hooks\":{",
		   random % 2 ? permissions[random / 2 % countof(permissions)] : "");
	random /= 2 * countof(permissions);
	for (int i = 0; i < HOOK_POINTS; i++, random /= 4)
		if (random % 4 == 0) {
			buf_printf(&text, "%s\"%s\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"hook\"}]}]", comma,
				   hook_point_event((enum hook_point)i));
			comma = ",";
		}
	buf_str(&text, "}}");
	if (policy_rules_parse(&p->rules, RULE_OF_HOST, "policy.json", text.data, text.len, &e) < 0 ||
	    policy_hooks_parse(&p->hooks, RULE_OF_HOST, "policy.json", text.data, text.len, &e) < 0)
		policy_fail(&e);
	p->rules.hooks = &p->hooks;
}

static inline void sim_policy_done(struct sim_policy *p)
{
	policy_rules_done(&p->rules);
	policy_hooks_done(&p->hooks);
}

/* What a hook prints and returns; at the end of a history nothing that could keep a turn from ending. */
static inline void sim_hook_answer(bool finishing, uint64_t random, struct sim_answer *ret)
{
	static const struct {
		const char *text;
		int exit_code;
	} answers[] = {
		{ "", 0 },
		{ "{}", 0 },
		{ "{\"decision\":\"approve\"}", 0 },
		{ "{\"hookSpecificOutput\":{\"hookEventName\":\"PreToolUse\",\"permissionDecision\":\"ask\"}}", 0 },
		{ "{\"hookSpecificOutput\":{\"hookEventName\":\"PostToolUse\",\"additionalContext\":\"more\"}}", 0 },
		{ "{\"decision\":\"block\",\"reason\":\"no\"}", 0 },
		{ "no", 2 },
		{ "{not json", 0 },
		{ "{\"continue\":false,\"stopReason\":\"enough\"}", 0 },
		{ "", 1 },
	};
	const size_t i = random % (finishing ? 3 : countof(answers));

	*ret = (struct sim_answer){ .text = mem_strdup(answers[i].text),
				    .len = strlen(answers[i].text),
				    .exit_code = answers[i].exit_code };
}

#endif

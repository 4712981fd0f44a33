/* The hooks of a policy file, and (after the first NUL) what one of them printed: rejected with file and line, or
 * usable. */

#include "policy/command_analysis.h"
#include "policy/decision.h"
#include "policy/hook_answer.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void select_all(const struct policy_hooks *s, const char *text, size_t len)
{
	const struct analysis_options o = { .cwd = "/w" };
	static const char *const names[] = { "Bash", "mcp__a__b", "" };
	const struct policy_hook *list[HOOKS_SELECTED_MAX];
	command_facts_auto struct command_facts f = { 0 };

	command_analyse_line(text, len < 200 ? len : 200, &o, &f);
	const struct rules_query use = { .facts = &f, .bases = { .cwd = "/w" } };
	for (int p = 0; p < HOOK_POINTS; p++) {
		const struct hook_query q = { .point = (enum hook_point)p, .name = names, .nnames = 3, .use = &use };
		size_t n = policy_hooks_select(s, &q, list);

		if (n > s->at[p])
			abort();
		for (size_t i = 0; i < n; i++) {
			buf_auto struct buf out = BUF_INIT;

			policy_hook_text(list[i], &out);
		}
	}
}

static void read_answers(enum hook_point p, const char *text, size_t len)
{
	for (int code = -1; code < 4; code++) {
		const struct hook_output o = { .exit_code = code, .out = text, .nout = len, .err = text, .nerr = len };
		struct hook_reply said = { .ref = { .file = (char *)"f", .text = (char *)"t", .closed = true } };
		struct policy_decision d = { .answer = POLICY_ASK, .ruled = true };
		buf_auto struct buf out = BUF_INIT;
		struct hook_result sum;

		hook_answer_read(p, &o, &said.answer);
		if ((code == 1 || code == 3 || code < 0) && !said.answer.failed)
			abort();
		hook_result_of(&said, 1, &sum);
		policy_decision_hooks(&d, MODE_DEFAULT, &sum);
		if (d.answer == POLICY_ALLOW)
			abort();
		policy_decision_json(&d, &out);
		hook_answer_done(&said.answer);
	}
	(void)hook_answer_is_async(text, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = memchr(data, 0, size);
	size_t n = nul ? (size_t)(nul - data) : size;
	const char *rest = nul ? (const char *)nul + 1 : "{}";
	size_t len = nul ? size - n - 1 : 2;
	struct policy_hooks s = { 0 };
	struct err e = ERR_INIT;

	if (policy_hooks_parse(&s, n & 1 ? RULE_OF_USER : RULE_OF_WORKSPACE, "F", (const char *)data, n, &e) < 0) {
		if (e.code != ERR_INVALID || strncmp(e.message, "F: ", 3) != 0 || s.count)
			abort();
	} else {
		select_all(&s, rest, len);
	}
	/* All points would take most of the time; which one it is depends on the length, which is easy to change. */
	read_answers((enum hook_point)(size % HOOK_POINTS), rest, len);
	policy_hooks_done(&s);
	return 0;
}

/* The rules of a policy file, also as rules of a session, and a command line to evaluate (after the first NUL):
 * rejected with file and line, or usable. */

#include "policy/command_analysis.h"
#include "policy/decision.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void judge(const struct policy_rules *s, const struct policy_rules *session, const char *line, size_t len)
{
	const struct analysis_options o = { .cwd = "/w/p", .workspace = "/w", .home = "/home/u" };
	const struct command_path path = { .path = "/w/p/x", .word = "x", .exact = true, .access = COMMAND_WRITES };
	command_facts_auto struct command_facts f = { 0 };
	buf_auto struct buf out = BUF_INIT;
	struct policy_decision d;

	command_analyse_line(line, len, &o, &f);
	for (int mode = 0; mode < MODE_COUNT; mode++) {
		struct policy_request q = { .cwd = o.cwd,
					    .workspace = o.workspace,
					    .home = o.home,
					    .mode = mode,
					    .facts = &f,
					    .rules = s,
					    .session_rules = session };

		policy_decide(&q, &d);
		if ((d.source == POLICY_BY_RULE) != (d.nrules > 0) && d.source != POLICY_BY_HOST)
			abort();
		if (mode == MODE_NEVER && d.answer == POLICY_ASK)
			abort();
		policy_decision_json(&d, &out);
		q.facts = NULL;
		q.tool = "write_file";
		q.tool_path = &path;
		q.ntool_paths = 1;
		policy_decide(&q, &d);
	}
}

/* Rules that are valid in a file are valid for a session; others give an error about permissions. */
static void as_session(const uint8_t *data, size_t n, const struct policy_rules *s, const char *line, size_t len)
{
	json_auto_t *v = json_loadb((const char *)data, n, 0, NULL);
	struct policy_rules own = RULES_INIT;
	struct err e = ERR_INIT;

	if (!json_is_object(json_object_get(v, "permissions")))
		return;
	if (policy_rules_session(&own, "sess_f", json_object_get(v, "permissions"), &e) < 0) {
		if (e.code != ERR_INVALID || strncmp(e.field, "permissions.", 12) != 0 || own.count)
			abort();
		return;
	}
	judge(s, &own, line, len);
	policy_rules_done(&own);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = memchr(data, 0, size);
	size_t n = nul ? (size_t)(nul - data) : size;
	struct policy_rules s = RULES_INIT;
	struct err e = ERR_INIT;

	if (policy_rules_parse(&s, n & 1 ? RULE_OF_USER : RULE_OF_HOST, "F", (const char *)data, n, &e) < 0) {
		if (e.code != ERR_INVALID || strncmp(e.message, "F: ", 3) != 0 || s.count)
			abort();
	} else {
		judge(&s, NULL, nul ? (const char *)nul + 1 : "git push", nul ? size - n - 1 : 8);
		as_session(data, n, &s, nul ? (const char *)nul + 1 : "git push", nul ? size - n - 1 : 8);
	}
	policy_rules_done(&s);
	return 0;
}

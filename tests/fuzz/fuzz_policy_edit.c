/* A rule added to a policy file's text (a rule, a NUL, the text): the file is rejected unchanged, or keeps all its
 * contents and has the rule once. */

#include "policy/policy_edit.h"
#include "policy/rules.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t count(const char *text, size_t len)
{
	struct policy_rules s = RULES_INIT;
	struct err e = ERR_INIT;

	if (policy_rules_parse(&s, RULE_OF_USER, "F", text, len, &e) < 0)
		abort(); /* it was accepted before, and is written now */
	size_t n = s.count;
	policy_rules_done(&s);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = memchr(data, 0, size);
	const char *rule = (const char *)data, *text = nul ? (const char *)nul + 1 : NULL;
	buf_auto struct buf once = BUF_INIT, twice = BUF_INIT;
	struct err e = ERR_INIT;
	unsigned line = 0, again = 0;

	if (!nul)
		return 0;
	size_t len = size - (size_t)(text - rule);
	if (policy_edit_add(text, len, size & 1 ? "allow" : "deny", &rule, 1, &once, &line, &e) < 0) {
		if (once.len || line)
			abort();
		return 0;
	}
	if (!line || count(once.data, once.len) > (len ? count(text, len) : 0) + 1)
		abort();
	if (policy_edit_add(once.data, once.len, size & 1 ? "allow" : "deny", &rule, 1, &twice, &again, &e) < 0 ||
	    again != line || once.len != twice.len || memcmp(once.data, twice.data, once.len) != 0)
		abort();
	return 0;
}

/*
 * Parses a policy file. Duplicate keys are rejected: of two "deny" lists only one would be in effect.
 */

#include "policy/policy_text.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <string.h>

json_t *policy_text_load(const char *name, const char *text, size_t len, size_t max, struct err *e)
{
	json_error_t where;
	json_t *root;

	if (len > max) {
		err_set(e, ERR_INVALID, "%.200s: larger than %zu bytes", name, max);
		return NULL;
	}
	/* To jansson the text ends there, and what follows would be ignored. */
	const char *nul = len ? memchr(text, 0, len) : NULL;
	if (nul) {
		size_t line = 1;
		for (const char *p = text; p < nul; p++)
			line += *p == '\n';
		err_set(e, ERR_INVALID, "%.200s: line %zu: NUL byte", name, line);
		return NULL;
	}
	root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
	if (!root)
		err_set(e, ERR_INVALID, "%.200s: line %d, column %d: %s", name, where.line, where.column, where.text);
	else if (!json_is_object(root))
		err_set(e, ERR_INVALID, "%.200s: line 1: must be an object", name);
	else
		return root;
	json_decref(root);
	return NULL;
}

unsigned policy_text_line(const struct policy_text *f, const char *const *words, size_t n)
{
	const char *at = f->text, *end = f->text + f->len;
	unsigned line = 1;

	for (size_t i = 0; i < n && words[i]; i++) {
		mem_auto char *quoted = mem_printf("\"%s\"", words[i]);
		const char *hit = memmem(at, (size_t)(end - at), quoted, strlen(quoted));
		if (!hit)
			break;
		at = hit;
	}
	for (const char *p = f->text; p < at; p++)
		line += *p == '\n';
	return line;
}

/* The entry points. A file of its own, because the grammar calls parser.c, and this calls the grammar. */

#include "policy/shell/parser.h"

int shell_parse_into(struct shell_arena *a, const char *text, size_t len, enum shell_dialect dialect,
		     struct shell_script *ret)
{
	/* Shells disagree about NUL bytes: the text before it is parsed, and the whole reported as an error. */
	const char *nul = len ? memchr(text, '\0', len) : NULL;

	*ret = (struct shell_script){ 0 };
	struct parser p = { .script = ret, .arena = a, .dialect = dialect };
	parser_scope_enter(&p);
	if (len > SHELL_TEXT_MAX) {
		p.text = p.at = p.end = "";
		parser_limit(&p, "too long");
		return 1;
	}
	p.len = len;
	p.text = p.at = shell_arena_strndup(a, text, len);
	p.end = p.text + (nul ? (size_t)(nul - text) : len);
	parse_list(&p);
	if (!p.failed && parser_op(&p) != OP_END)
		parser_unexpected(&p);
	/*
	 * Arithmetic evaluates a variable's value: with a[$(…)] as plain text somewhere in the script, that may run a
	 * command.
	 */
	ret->hidden = p.subscript && p.computes;
	if (p.heredocs && p.shifts_lines)
		parser_ambiguous(&p, "the text has a here-document and $'…', $\"…\", coproc or an array");
	if (nul && !p.failed)
		parser_fail(&p, "a NUL byte");
	return p.failed || p.soft;
}

int shell_parse(const char *text, size_t len, enum shell_dialect dialect, struct shell_script *ret)
{
	struct shell_arena *a = shell_arena_new();
	int rc = shell_parse_into(a, text, len, dialect, ret);

	ret->arena = a;
	return rc;
}

void shell_script_done(struct shell_script *s)
{
	shell_arena_free(s->arena);
	*s = (struct shell_script){ 0 };
}

/* Variables that make programs run or load other code (exec_vars.def). */

#include "policy/analysis.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"

#include <ctype.h>
#include <limits.h>

static const struct variable {
	const char *names, *harmless;
} variables[] = {
#define EXEC_VAR(names, harmless) { names, harmless },
#include "policy/exec_vars.def"
#undef EXEC_VAR
};

bool command_variable_matters(const char *name, const char *value)
{
	char folded[64] = "";

	/* npm and yarn take their variables in any case; the table has them in lower case. */
	for (size_t i = 0; name[i] && i + 1 < sizeof(folded); i++)
		folded[i] = (char)tolower((unsigned char)name[i]);
	for (size_t i = 0; i < countof(variables); i++)
		if (args_named(name, variables[i].names) || args_named(folded, variables[i].names))
			return !value || strchr(value, ' ') || !args_named(value, variables[i].harmless);
	return false;
}

bool command_path_is_fixed(const char *value, const char *const *writable, size_t count)
{
	for (const char *s = value;; s++) {
		const size_t n = strcspn(s, ":");
		mem_auto char *folder = mem_strndup(s, n);
		char clean[PATH_MAX];
		struct err e = ERR_INIT;

		if (*folder != '/' || path_clean(folder, clean, &e) < 0 || strstr(folder, "/.."))
			return false;
		for (size_t i = 0; i < count; i++)
			if (path_within(writable[i], clean))
				return false;
		s += n;
		if (!*s)
			return true;
	}
}

/* Whether one directory of a list is in the workspace, or is the variable's previous value. */
static bool is_of_project(struct analysis *r, const char *name, const char *s, size_t n, const char *cwd)
{
	static const char *const here[] = { "$PWD", "${PWD}" };
	const char *path = shell_arena_strndup(r->arena, s, n);
	const size_t len = strlen(name);

	if (*path == '$' && (strcmp(path + 1, name) == 0 ||
			     (path[1] == '{' && strncmp(path + 2, name, len) == 0 && strcmp(path + 2 + len, "}") == 0)))
		return true;
	for (size_t i = 0; i < countof(here); i++)
		if (strncmp(path, here[i], strlen(here[i])) == 0 &&
		    (path[strlen(here[i])] == '/' || !path[strlen(here[i])])) {
			path += strlen(here[i]);
			path = *path ? path + 1 : ".";
			break;
		}
	const char *whole = strpbrk(path, "$`*?[~") ? NULL : command_paths_absolute(r, cwd, *path ? path : ".");
	return whole && path_within(r->workspace, whole);
}

/* The text of a word, with \001 in place of $PATH; NULL: something else in it is unknown. */
static const char *text_with_path(struct analysis *r, const struct shell_word *w)
{
	buf_auto struct buf text = BUF_INIT;

	if (w->unknown & ~(unsigned)(SHELL_VARIABLE | SHELL_TILDE))
		return NULL;
	for (size_t i = 0; i < w->nparts; i++) {
		const struct shell_part *p = &w->part[i];
		const char *known = p->kind == SHELL_PART_LITERAL ? NULL : analysis_known_part(r, p);
		const char *name = shell_arena_strndup(r->arena, p->text, p->len);

		if (p->kind == SHELL_PART_LITERAL && memchr(p->text, '\001', p->len))
			return NULL;
		if (p->kind == SHELL_PART_LITERAL)
			buf_append(&text, p->text, p->len);
		else if (known)
			buf_str(&text, known);
		else if (strcmp(name, "$PATH") == 0 || strcmp(name, "${PATH}") == 0)
			buf_byte(&text, '\001');
		else
			return NULL;
	}
	return shell_arena_strndup(r->arena, buf_cstr(&text), text.len);
}

/* PATH=~/.local/bin:$PATH: the folders that it adds cannot be written by the command. */
static bool extends_path(struct analysis *r, const char *text)
{
	if (!r->o->writable || !text)
		return false;
	for (;; text++) {
		const size_t n = strcspn(text, ":");
		const char *folder = shell_arena_strndup(r->arena, text, n);

		if (strcmp(folder, "\001") != 0 &&
		    (strchr(folder, '\001') || !command_path_is_fixed(folder, r->o->writable, r->o->nwritable)))
			return false;
		text += n;
		if (!*text)
			return true;
	}
}

bool exec_variables_is_fixed_path(struct analysis *r, const char *name, const struct shell_word *w, size_t skip)
{
	const char *text = w && strcmp(name, "PATH") == 0 ? text_with_path(r, w) : NULL;

	return text && strlen(text) >= skip && extends_path(r, text + skip);
}

bool exec_variables_is_harmless(struct analysis *r, size_t index, const char *name, const char *plain, const char *cwd)
{
	static const char loads[] = "PYTHONPATH|NODE_PATH|RUBYLIB|PERL5LIB|CLASSPATH";
	const struct command_simple *c = analysis_simple(r, index);

	if (strcmp(name, "IFS") == 0)
		return c->argc && c->argv[0] && strcmp(c->argv[0], "read") == 0;
	if (!(c->flags & COMMAND_CODE) || !args_named(name, loads))
		return false;
	for (const char *s = plain;; s++) {
		const size_t n = strcspn(s, ":");

		if (!is_of_project(r, name, s, n, cwd))
			return false;
		s += n;
		if (!*s)
			return true;
	}
}

/* The first variable is named in the question to the approver. */
static void note_variable(struct analysis *r, const char *name)
{
	if (name && !r->facts->variable)
		r->facts->variable = shell_arena_strndup(r->arena, name, strlen(name));
}

void exec_variables_of_assignment(struct analysis *r, size_t index, const char *name, const char *value)
{
	struct command_simple *c = analysis_simple(r, index);

	if (strcmp(name, "HOME") == 0)
		r->home_changed = true;
	if (command_variable_matters(name, value)) {
		note_variable(r, name);
		c->flags |= COMMAND_EXECUTES;
		c->unknown |= COMMAND_UNKNOWN(VARIABLE);
	}
}

void exec_variables_of_name(struct analysis *r, const char *name)
{
	if (name && !command_variable_matters(name, NULL))
		return;
	note_variable(r, name);
	r->facts->flags |= COMMAND_EXECUTES;
	r->facts->unknown |= COMMAND_UNKNOWN(VARIABLE);
}

void exec_variables_of_script(struct analysis *r, const struct shell_script *s)
{
	for (size_t i = 0; i < s->nset; i++)
		exec_variables_of_name(r, s->set[i].name);
}

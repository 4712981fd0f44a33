/*
 * Reads a git configuration like git, as far as includes and core.hooksPath need it: sections, comments, quotes,
 * continuation lines. A line that cannot be parsed sets nothing here; it is still part of the file, which is compared
 * as a whole.
 */

#include "sandbox/git_config.h"

#include <stdio.h>
#include <string.h>

static const char *skip_blanks(const char *p)
{
	while (*p == ' ' || *p == '\t')
		p++;
	return p;
}

/* "[core]", "[include]", "[includeIf "…"]": reads the first word; returns the position after the bracket. */
static const char *read_section(const char *p, char ret[32])
{
	size_t n = strcspn(p, " \t\"].\n");
	bool quoted = false;
	snprintf(ret, 32, "%.*s", n < 32 ? (int)n : 0, p);
	for (p += n; *p && *p != '\n' && (quoted || *p != ']'); p++) {
		if (*p == '\\' && p[1] && p[1] != '\n')
			p++;
		else
			quoted ^= *p == '"';
	}
	return *p == ']' ? p + 1 : p;
}

/* Reads and unquotes the value; false if it is too long. */
static bool read_value(const char **at, char ret[PATH_MAX])
{
	const char *p = skip_blanks(*at);
	size_t n = 0, end = 0;
	bool quoted = false, fits = true;
	for (; *p && *p != '\n' && (quoted || (*p != '#' && *p != ';')); p++) {
		char c = *p;
		if (c == '"') {
			quoted = !quoted;
			continue;
		}
		if (c == '\r' && p[1] == '\n')
			continue;
		if (c == '\\' && p[1]) {
			p++;
			if (*p == '\n')
				continue;
			c = *p == 'n' ? '\n' : *p == 't' ? '\t' : *p;
		}
		fits &= n + 1 < PATH_MAX;
		if (fits)
			ret[n++] = c;
		if (quoted || (c != ' ' && c != '\t'))
			end = n;
	}
	ret[fits ? end : 0] = 0;
	*at = p + strcspn(p, "\n");
	return fits;
}

bool git_config_next(const char **at, struct git_setting *s)
{
	for (const char *p = *at; *p;) {
		p = skip_blanks(p);
		if (*p == '[') {
			p = read_section(p + 1, s->section);
			continue;
		}
		size_t n = strcspn(p, " \t=\n#;");
		const char *equals = skip_blanks(p + n);
		if (n == 0 || n >= sizeof s->key || *equals != '=') {
			p += strcspn(p, "\n");
			p += *p == '\n';
			continue;
		}
		memcpy(s->key, p, n);
		s->key[n] = 0;
		p = equals + 1;
		bool fits = read_value(&p, s->value);
		*at = p + (*p == '\n');
		if (fits && s->value[0])
			return true;
		p = *at;
	}
	return false;
}

/*
 * What a git configuration leads to: files that it includes, and the folder that it names for hooks. Those are executed
 * like the configuration itself, and are often part of the working tree.
 *
 * Read the way git does as far as these two settings need it: sections, comments, quotes, values that go on in the next
 * line. What is not understood here names nothing; such a line is still in the file, which is compared as a whole.
 */

#include "sandbox/autorun_private.h"

#include "runtime/base/path.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define INCLUDES_DEEP 5u
#define INCLUDES_MAX 256u /* of one search: files may include each other, and themselves */

struct setting {
	char section[32], key[32], value[PATH_MAX];
};

static const char *skip_blanks(const char *p)
{
	while (*p == ' ' || *p == '\t')
		p++;
	return p;
}

/* "[core]", "[include]", "[includeIf "…"]": the first word; returns what is behind the bracket. */
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

/* Up to the end of the value, which is unquoted; false: it is too long. */
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

/* The next setting with a value; false at the end. */
static bool next_setting(const char **at, struct setting *s)
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

/* Absolute; false: not a path that can be told without asking git (~, %(prefix)). */
static bool resolve(const char *folder, const char *value, char ret[PATH_MAX])
{
	char whole[2 * PATH_MAX + 2];
	if (value[0] == '~' || value[0] == '%')
		return false;
	snprintf(whole, sizeof whole, "%s/%s", value[0] == '/' ? "" : folder, value);
	return path_clean(whole, ret, NULL) == 0;
}

static void follow_include(struct autorun *a, const char *value, const char *folder, const char *top, unsigned depth)
{
	char path[PATH_MAX];
	if (!resolve(folder, value, path) || !autorun_in_write_root(a, path))
		return;
	const struct autorun_file *f = autorun_check_entry(a, AT_FDCWD, path, path, "git");
	if (f && ++a->search.includes > INCLUDES_MAX)
		a->partial |= AUTORUN_PARTIAL_FILES;
	else if (f && path_up(path))
		autorun_follow_config(a, f, path, top, depth + 1);
}

void autorun_follow_config(struct autorun *a, const struct autorun_file *config, const char *folder, const char *top,
			   unsigned depth)
{
	struct setting s = { .section = "" };
	char path[PATH_MAX];
	bool outer = a->led;
	if (config->type != AUTORUN_TYPE_FILE || !config->kept || depth > INCLUDES_DEEP)
		return;
	a->led |= !autorun_find(&a->before, config->path); /* else the first search went the same way */
	for (const char *at = config->text; next_setting(&at, &s);) {
		bool include = strcasecmp(s.section, "include") == 0 || strcasecmp(s.section, "includeif") == 0;
		if (include && strcasecmp(s.key, "path") == 0)
			follow_include(a, s.value, folder, top, depth);
		else if (strcasecmp(s.section, "core") == 0 && strcasecmp(s.key, "hookspath") == 0 &&
			 resolve(top, s.value, path) && autorun_in_write_root(a, path) && strcmp(path, top) != 0)
			autorun_check_tree(a, AT_FDCWD, path, path, "git", 0);
	}
	a->led = outer;
}

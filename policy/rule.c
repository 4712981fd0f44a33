/*
 * One rule: its syntax, and the matching of a text, a path, a host, a tool's name or a list of words.
 *
 * None of the matchers calls itself: a pattern with many wildcards takes at most |pattern| × |text| steps, because
 * backtracking to the last wildcard is sufficient. Rules come from files that anyone may have written.
 */

#include "policy/rule.h"
#include "policy/file_name.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *const effects[] = {
	[RULE_NONE] = "none", [RULE_ALLOW] = "allow", [RULE_ASK] = "ask", [RULE_DENY] = "deny"
};
static const char *const layers[] = { [RULE_OF_HOST] = "host",
				      [RULE_OF_USER] = "user",
				      [RULE_OF_WORKSPACE] = "workspace",
				      [RULE_OF_SESSION] = "session" };

static const struct {
	const char *name;
	enum rule_kind kind;
} tools[] = {
	{ "Bash", RULE_BASH },        { "shell", RULE_BASH },          { "Read", RULE_READ },
	{ "read_file", RULE_READ },   { "Glob", RULE_READ },           { "Grep", RULE_READ },
	{ "LS", RULE_READ },          { "list_directory", RULE_READ }, { "Edit", RULE_EDIT },
	{ "MultiEdit", RULE_EDIT },   { "Write", RULE_EDIT },          { "write_file", RULE_EDIT },
	{ "apply_patch", RULE_EDIT }, { "edit_file", RULE_EDIT },      { "glob", RULE_READ },
	{ "grep", RULE_READ },        { "NotebookEdit", RULE_EDIT },   { "WebFetch", RULE_FETCH },
};

/* allow, ask, deny */
static const char *rule_effect_name(enum rule_effect e) { return effects[e]; }

const char *rule_layer_name(enum rule_layer l) { return layers[l]; }

enum rule_kind rule_kind_of_tool(const char *tool)
{
	for (size_t i = 0; i < countof(tools); i++)
		if (strcmp(tools[i].name, tool) == 0)
			return tools[i].kind;
	return RULE_TOOL;
}

/* ---- parsing ---- */

/* Parses a command and quotes its words as in command_simple's text; NULL if it is not one simple command. */
static char *normal_command(const char *text, char **ret_writes)
{
	const struct analysis_options o = { .cwd = "/" };
	command_facts_auto struct command_facts f = { 0 };

	command_analyse_line(text, strlen(text), &o, &f);
	if (f.ncommands < 1 || f.command[0].argc == 0 || f.command[0].nassign || f.error[0])
		return NULL;
	for (size_t i = 1; i < f.ncommands; i++)
		if (f.command[i].parent < 0)
			return NULL;
	*ret_writes = f.command[0].writes ? mem_strdup(f.command[0].writes) : NULL;
	return mem_strdup(f.command[0].text);
}

/* Stores a command pattern in the notation of command_simple's text, in which it is compared. */
static void take_bash(struct policy_rule *r, const char *spec)
{
	size_t n = strlen(spec);

	if (!n || strcmp(spec, "*") == 0 || strcmp(spec, ":*") == 0)
		return;
	if (n > 2 && strcmp(spec + n - 2, ":*") == 0)
		r->pattern = mem_printf("%.*s *", (int)n - 2, spec);
	else
		r->pattern = strchr(spec, '*') ? NULL : normal_command(spec, &r->writes);
	if (!r->pattern)
		r->pattern = mem_strdup(spec);
	n = strlen(r->pattern);
	r->literal = strcspn(r->pattern, "*");
	r->tail = n > 2 && strcmp(r->pattern + n - 2, " *") == 0;
}

/* /etc/x more often means the system's file than one in the workspace. */
static bool is_system(const char *path)
{
	static const char *const folders[] = { "etc", "usr", "boot", "proc", "sys", "root", "sbin" };
	const size_t n = strcspn(path, "/");

	for (size_t i = 0; i < countof(folders); i++)
		if (strlen(folders[i]) == n && memcmp(folders[i], path, n) == 0)
			return true;
	return false;
}

/* Finds the directory that the pattern is relative to. */
static int take_path(struct policy_rule *r, const char *spec, struct err *e)
{
	static const struct {
		const char *prefix;
		enum rule_base base;
	} bases[] = {
		{ "//", RULE_AT_ROOT }, { "~/", RULE_AT_HOME }, { "/", RULE_AT_WORKSPACE }, { "./", RULE_AT_CWD }
	};
	const char *at = spec;

	if (!*spec || strcmp(spec, "*") == 0 || strcmp(spec, "**") == 0)
		return 0;
	r->base = strcmp(spec, "~") == 0                      ? RULE_AT_HOME
		  : strchr(spec, '/') && strchr(spec, '/')[1] ? RULE_AT_CWD
							      : RULE_ANYWHERE;
	if (strcmp(spec, "~") == 0)
		at = "";
	for (size_t i = 0; i < countof(bases); i++)
		if (strncmp(spec, bases[i].prefix, strlen(bases[i].prefix)) == 0) {
			r->base = bases[i].base;
			at = spec + strlen(bases[i].prefix);
			break;
		}
	for (const char *s = at; *s; s += strcspn(s, "/"), s += *s == '/')
		if (strncmp(s, "..", 2) == 0 && (s[2] == '/' || !s[2]))
			return err_set(e, ERR_INVALID, "'%.200s' contains '..'; paths are compared without '..'", spec);
	r->at_root = r->base == RULE_AT_WORKSPACE && is_system(at);
	r->pattern = mem_strdup(at);
	size_t n = strlen(r->pattern);
	while (n && r->pattern[n - 1] == '/')
		r->pattern[--n] = '\0';
	r->literal = strcspn(r->pattern, "*?[");
	return 0;
}

static int take_fetch(struct policy_rule *r, const char *spec, struct err *e)
{
	if (!*spec || strcmp(spec, "*") == 0)
		return 0;
	if (strncmp(spec, "domain:", 7) != 0 || !spec[7])
		return err_set(e, ERR_INVALID, "WebFetch(%.200s): give a host as WebFetch(domain:example.com)", spec);
	if (strcmp(spec, "domain:*") != 0)
		r->pattern = mem_strdup(spec + 7);
	return 0;
}

int rule_parse(struct policy_rule *r, const char *text, struct err *e)
{
	size_t n = strlen(text), head = strcspn(text, "(");
	int rc = 0;

	if (!n || n > RULE_TEXT_MAX)
		return err_set(e, ERR_INVALID, "a rule must have 1 to %u bytes", RULE_TEXT_MAX);
	if (text[head] && (text[n - 1] != ')' || !head))
		return err_set(e, ERR_INVALID, "'%.200s' is not a valid rule: write Tool or Tool(pattern)", text);
	mem_auto char *tool = mem_strndup(text, head);
	mem_auto char *spec = text[head] ? mem_strndup(text + head + 1, n - head - 2) : mem_strdup("");
	if (text[head] && !*spec)
		return err_set(e, ERR_INVALID, "'%.200s': the parentheses are empty; write %.60s to match everything",
			       text, tool);
	if (strpbrk(tool, " \t\n)"))
		return err_set(e, ERR_INVALID, "'%.200s' is not a valid rule: a tool's name contains no blanks", text);
	r->kind = rule_kind_of_tool(tool);
	switch (r->kind) {
	case RULE_BASH: take_bash(r, spec); break;
	case RULE_READ:
	case RULE_EDIT: rc = take_path(r, spec, e); break;
	case RULE_FETCH: rc = take_fetch(r, spec, e); break;
	default:
		if (text[head] && strcmp(spec, "*") != 0)
			rc = err_set(
				e, ERR_INVALID,
				"'%.200s': only Bash, Read, Edit, Write and WebFetch take a pattern in parentheses",
				text);
		else
			r->pattern = mem_strdup(tool);
	}
	return rc;
}

void rule_done(struct policy_rule *r)
{
	for (size_t i = 0; i < r->nwords; i++) {
		for (size_t k = 0; k < r->word[i].count; k++)
			free(r->word[i].choice[k]);
		free(r->word[i].choice);
	}
	free(r->word);
	free(r->text);
	free(r->pattern);
	free(r->writes);
	free(r->justification);
}

/* ---- matching ---- */

/* A * matches anything. Backtracking to the last * is enough, so this takes at most |pattern| × |text| steps. */
static bool glob_matches(const char *p, size_t plen, const char *s)
{
	const char *end = p + plen, *star = NULL, *from = NULL;

	while (*s) {
		if (p < end && *p == '*') {
			star = p++;
			from = s;
		} else if (p < end && *p == *s) {
			p++;
			s++;
		} else if (star) {
			p = star + 1;
			s = ++from;
		} else {
			return false;
		}
	}
	while (p < end && *p == '*')
		p++;
	return p == end;
}

bool rule_text_matches(const struct policy_rule *r, const char *text)
{
	size_t n;

	if (!r->pattern)
		return true;
	n = strlen(r->pattern);
	if (r->literal == n)
		return strcmp(r->pattern, text) == 0;
	size_t certain = r->tail && r->literal == n - 1 ? n - 2 : r->literal;
	if (strncmp(r->pattern, text, certain) != 0)
		return false;
	return glob_matches(r->pattern, n, text) || (r->tail && glob_matches(r->pattern, n - 2, text));
}

bool rule_allows_writes(const struct policy_rule *r, const char *writes)
{
	if (!writes || !r->writes)
		return !r->writes && (!writes || (r->kind == RULE_BASH && !r->pattern));
	return strcmp(r->writes, writes) == 0;
}

static size_t segment_length(const char *s) { return strcspn(s, "/"); }

/* Matches one name of a path against one of a pattern: * and ? do not cross slashes. */
static bool name_matches(const char *p, size_t plen, const char *s, size_t slen)
{
	size_t i = 0, k = 0, star = SIZE_MAX, from = 0;

	while (k < slen) {
		if (i < plen && p[i] == '*') {
			star = i++;
			from = k;
		} else if (i < plen && (p[i] == '?' || p[i] == s[k])) {
			i++;
			k++;
		} else if (star != SIZE_MAX) {
			i = star + 1;
			k = ++from;
		} else {
			return false;
		}
	}
	while (i < plen && p[i] == '*')
		i++;
	return i == plen;
}

/* `path` has no leading slash. A pattern that ends before the path does has matched a directory above it. */
static bool path_matches(const char *p, const char *path)
{
	const char *star = NULL, *from = NULL;

	for (;;) {
		size_t n = segment_length(p);

		if (!n && !*p)
			return true;
		if (n == 2 && p[0] == '*' && p[1] == '*') {
			p += p[2] ? 3 : 2;
			star = p;
			from = path;
			continue;
		}
		if (*path && name_matches(p, n, path, segment_length(path))) {
			p += n + (p[n] == '/');
			path += segment_length(path);
			path += *path == '/';
			continue;
		}
		if (!star || !*from)
			return false;
		from += segment_length(from);
		from += *from == '/';
		p = star;
		path = from;
	}
}

const char *rule_base(const struct policy_rule *r, const struct rule_base_paths *bases)
{
	switch (r->base) {
	case RULE_AT_HOME: return bases->home;
	case RULE_AT_WORKSPACE: return bases->workspace ? bases->workspace : bases->cwd;
	case RULE_AT_CWD: return bases->cwd;
	default: return "";
	}
}

/* The rest of a path below a directory, without the slash; NULL: it is not below. */
static const char *path_below(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	while (n && folder[n - 1] == '/')
		n--;
	if (strncmp(path, folder, n) != 0 || (path[n] && path[n] != '/'))
		return NULL;
	return path[n] ? path + n + 1 : path + n;
}

void rule_path_candidates(const struct command_path *path, const struct rule_base_paths *bases,
			  bool ret_near[RULE_BASES])
{
	const bool one = path->exact && !(path->access & COMMAND_RECURSES); /* a single file */

	for (int base = 0; base < RULE_BASES; base++) {
		const struct policy_rule at = { .base = (enum rule_base)base };
		const char *folder = rule_base(&at, bases);

		ret_near[base] = !one || base == RULE_AT_ROOT || base == RULE_ANYWHERE ||
				 (folder && path_below(path->path, folder)) ||
				 (base == RULE_AT_WORKSPACE && path->path[0] == '/' && is_system(path->path + 1));
	}
}

static bool has_any(const char *s, size_t n, const char *characters)
{
	for (size_t i = 0; i < n; i++)
		if (strchr(characters, s[i]))
			return true;
	return false;
}

/* ---- names that limit a search ---- */

/* False if no name matches both globs, which their certain beginnings and ends show. */
static bool globs_meet(const char *a, const char *b)
{
	const size_t na = strlen(a), nb = strlen(b), begin_a = strcspn(a, "*?[\\"), begin_b = strcspn(b, "*?[\\");
	size_t end_a = 0, end_b = 0;

	while (end_a < na && !strchr("*?[]\\", a[na - end_a - 1]))
		end_a++;
	while (end_b < nb && !strchr("*?[]\\", b[nb - end_b - 1]))
		end_b++;
	const size_t begin = begin_a < begin_b ? begin_a : begin_b, end = end_a < end_b ? end_a : end_b;
	if (begin_a == na && begin_b == nb)
		return strcasecmp(a, b) == 0;
	return strncasecmp(a, b, begin) == 0 && strncasecmp(a + na - end, b + nb - end, end) == 0;
}

/* Whether what is used below a folder has other names than the rule's file: *.c is not .env. */
static bool names_differ(const struct policy_rule *r, const struct command_path *path)
{
	const char *name = file_name_of(r->pattern);
	bool differ = path->nnames && path->access & (COMMAND_RECURSES | COMMAND_SEARCHED) && file_name_is_usual(name);

	for (size_t i = 0; i < path->nnames && differ; i++)
		differ = !globs_meet(name, path->name[i]);
	return differ;
}

/* Whether the pattern matches only paths below this path. */
static bool lies_below(const struct policy_rule *r, const char *base, const char *path)
{
	size_t n = r->literal;

	while (r->pattern[n] && n && r->pattern[n - 1] != '/')
		n--;
	mem_auto char *whole = mem_printf("%s/%.*s", strcmp(base, "/") == 0 ? "" : base, (int)n, r->pattern);
	return path_below(whole, path) != NULL;
}

/* Whether a path that is known up to a variable may be one of the rule's: ~/.ss$x may be ~/.ssh. */
static bool may_become(const struct policy_rule *r, const char *base, const char *path)
{
	const size_t known = strcspn(path, "$`");
	mem_auto char *whole = mem_printf("%s/%.*s", strcmp(base, "/") == 0 ? "" : base, (int)r->literal, r->pattern);
	const size_t n = strlen(whole);

	return strncmp(whole, path, known < n ? known : n) == 0;
}

/* Whether the names of the directory match the pattern's first names. */
static bool may_reach(const char *p, const char *folder)
{
	while (*folder) {
		size_t n = segment_length(p);

		if (n == 2 && p[0] == '*' && p[1] == '*')
			return true;
		if (!n || !name_matches(p, n, folder, segment_length(folder)))
			return false;
		p += n + (p[n] == '/');
		folder += segment_length(folder);
		folder += *folder == '/';
	}
	return *p != '\0';
}

/* Whether a name of a rule and one with shell wildcards may match. If both have wildcards, they may. */
static bool names_meet(const char *rule, size_t nrule, const char *name, size_t n)
{
	if (!has_any(name, n, "*?["))
		return name_matches(rule, nrule, name, n);
	if (*rule == '.' && *name != '.')
		return false; /* globs do not match hidden files */
	return has_any(rule, nrule, "*?") || has_any(name, n, "[(\\") || name_matches(name, n, rule, nrule);
}

/*
 * Whether a path with shell wildcards may expand to one that the pattern matches, or, by its access, to a folder above
 * it.
 */
static bool may_meet(const char *p, const char *path, unsigned access)
{
	for (; *p && *path; path += *path == '/') {
		const size_t n = segment_length(p), m = segment_length(path);

		if ((n == 2 && memcmp(p, "**", 2) == 0) || (m == 2 && memcmp(path, "**", 2) == 0))
			return true;
		if (!names_meet(p, n, path, m))
			return false;
		p += n + (p[n] == '/');
		path += m;
	}
	return !*p || access & COMMAND_RECURSES || (access & COMMAND_WITHIN && strcmp(p, "**") == 0);
}

/* Whether the shell may expand this to a path that the rule matches. */
static bool expands_into(const struct policy_rule *r, const char *base, const struct command_path *path)
{
	if (r->base == RULE_ANYWHERE) {
		for (const char *s = path->path + 1; *s; s += segment_length(s), s += *s == '/')
			if (names_meet(r->pattern, strlen(r->pattern), s, segment_length(s)))
				return true;
		return false;
	}
	mem_auto char *whole = mem_printf("%s/%s", strcmp(base, "/") == 0 ? "" : base, r->pattern);
	return may_meet(whole + 1, path->path + 1, path->access);
}

/*
 * Whether the files below the path are read, or may be written. Nothing to read is below what has a file's name, unless
 * a slash says that it is a folder.
 */
static bool reaches_below(const struct command_path *path)
{
	const size_t n = strlen(path->word);

	if (path->access & COMMAND_SEARCHED)
		return true;
	if (!(path->access & COMMAND_RECURSES))
		return false;
	return path->access & COMMAND_WITHIN ||
	       (path->access & COMMAND_READS &&
		((n && path->word[n - 1] == '/') || !file_name_is_usual(file_name_of(path->path))));
}

/*
 * Whether a part of a path in an unknown folder has the rule's name: $PWD/.env, or .env after `cd $X`. The first part
 * is a name only if it is known. A recursive read there may come across the name.
 */
static bool names_unknown_folder(const struct policy_rule *r, const struct command_path *path)
{
	const bool known = !has_any(path->path, segment_length(path->path), "$`~");

	if (r->effect == RULE_ALLOW || r->base != RULE_ANYWHERE)
		return false;
	if (known && reaches_below(path) && !names_differ(r, path))
		return true;
	for (const char *s = path->path; *s; s += segment_length(s), s += *s == '/') {
		const size_t n = segment_length(s);

		if ((known || s > path->path) && names_meet(r->pattern, strlen(r->pattern), s, n))
			return true;
	}
	return false;
}

/* Matches the path as written, without expanding its wildcards. */
static enum rule_match written_path_matches(const struct policy_rule *r, const struct command_path *path,
					    const struct rule_base_paths *bases)
{
	const char *base, *rest;

	if (!r->pattern)
		return RULE_MATCH;
	if (path->unknown && r->effect == RULE_ALLOW)
		return RULE_NO_MATCH;
	if (path->lost)
		return RULE_MAYBE;
	if (path->path[0] != '/')
		return names_unknown_folder(r, path) ? RULE_MAYBE : RULE_NO_MATCH;
	base = rule_base(r, bases);
	if (!base)
		return RULE_NO_MATCH;
	/* Reading a directory recursively, or writing files in it, may concern the rule's path. */
	const bool others = names_differ(r, path);
	const bool uses_below = r->effect != RULE_ALLOW && !others && reaches_below(path);
	if (r->base == RULE_ANYWHERE) {
		mem_auto char *deep = mem_printf("**/%s", r->pattern);
		return path_matches(deep, path->path + 1) ? RULE_MATCH : uses_below ? RULE_MAYBE : RULE_NO_MATCH;
	}
	rest = path_below(path->path, base);
	if (rest && path_matches(r->pattern, rest))
		return RULE_MATCH;
	if (path->unknown && r->base != RULE_ANYWHERE && may_become(r, base, path->path))
		return RULE_MAYBE;
	if (r->effect != RULE_ALLOW && !others && (path->access & COMMAND_RECURSES || !path->exact) &&
	    lies_below(r, base, path->path))
		return path->exact ? RULE_MATCH : RULE_MAYBE;
	/* A pattern with wildcards that starts above the directory may match inside it. */
	if (uses_below && r->pattern[r->literal] && rest)
		return may_reach(r->pattern, rest) ? RULE_MAYBE : RULE_NO_MATCH;
	return RULE_NO_MATCH;
}

/* Whether the path names something below the folder: not the folder itself, one above it, or * in it. */
static bool names_below(const struct command_path *path, const char *folder)
{
	const char *rest = path->path[0] == '/' && folder ? path_below(path->path, folder) : NULL;

	return rest && *rest && (path->exact || strspn(rest, "*") != segment_length(rest));
}

/* Matches at the rule's base. */
static enum rule_match base_path_matches(const struct policy_rule *r, const struct command_path *path,
					 const struct rule_base_paths *bases)
{
	const enum rule_match m = written_path_matches(r, path, bases);

	if (m != RULE_NO_MATCH || r->effect == RULE_ALLOW || path->exact || path->path[0] != '/' ||
	    !rule_base(r, bases) || !has_any(path->path, strlen(path->path), "*?["))
		return m;
	return expands_into(r, rule_base(r, bases), path) ? RULE_MAYBE : m;
}

enum rule_match rule_path_matches(const struct policy_rule *r, const struct command_path *path,
				  const struct rule_base_paths *bases)
{
	struct policy_rule root = *r;

	if (!r->at_root || r->effect == RULE_ALLOW)
		return base_path_matches(r, path, bases);
	root.base = RULE_AT_ROOT;
	const enum rule_match m = base_path_matches(&root, path, bases);
	/* A rule about /etc is not for all that reads or searches the workspace as a whole. */
	const bool removed = path->exact && path->access & COMMAND_RECURSES &&
			     path->access & (COMMAND_WRITES | COMMAND_DELETES);
	if (m == RULE_MATCH || (!removed && !names_below(path, rule_base(r, bases))))
		return m;
	const enum rule_match inside = base_path_matches(r, path, bases);
	return inside > m ? inside : m;
}

enum rule_match rule_match_named(const struct policy_rule *r, const struct command_path *path,
				 const struct rule_base_paths *bases)
{
	struct command_path alone = *path;
	const bool folder = path->access & COMMAND_RECURSES && !(path->access & COMMAND_WITHIN);

	if (path->unknown)
		return r->effect == RULE_ALLOW ? RULE_NO_MATCH : RULE_MAYBE;
	if (folder)
		alone.access &= ~(unsigned)COMMAND_RECURSES;
	const enum rule_match m = rule_path_matches(r, &alone, bases);
	if (m != RULE_NO_MATCH || !folder || r->base == RULE_ANYWHERE)
		return m;
	return rule_path_matches(r, path, bases) == RULE_NO_MATCH ? RULE_NO_MATCH : RULE_MAYBE;
}

bool rule_host_matches(const struct policy_rule *r, const char *host)
{
	size_t n = strlen(host), m;

	if (!r->pattern)
		return true;
	n -= n && host[n - 1] == '.'; /* example.com. is the same host */
	if (strncmp(r->pattern, "*.", 2) != 0)
		return n == strlen(r->pattern) && strncasecmp(r->pattern, host, n) == 0;
	m = strlen(r->pattern) - 1;
	return n > m && strncasecmp(host + n - m, r->pattern + 1, m) == 0;
}

bool rule_tool_matches(const struct policy_rule *r, const char *tool)
{
	size_t n = strlen(r->pattern);

	if (strchr(r->pattern, '*'))
		return glob_matches(r->pattern, n, tool);
	if (strcmp(r->pattern, tool) == 0)
		return true;
	/* mcp__server: all of its tools. */
	return strncmp(r->pattern, "mcp__", 5) == 0 && !strstr(r->pattern + 5, "__") &&
	       strncmp(tool, r->pattern, n) == 0 && strncmp(tool + n, "__", 2) == 0;
}

static bool word_matches(const struct rule_word *w, const char *s)
{
	for (size_t i = 0; i < w->count; i++)
		if (strcmp(w->choice[i], s) == 0)
			return true;
	return false;
}

enum rule_match rule_words_match(const struct policy_rule *r, const char *const *argv, size_t argc, const char *name)
{
	enum rule_match m = RULE_MATCH;
	bool strict = r->effect == RULE_ALLOW;

	for (size_t i = 0; i < r->nwords; i++) {
		bool same;

		if (i >= argc)
			return m == RULE_MAYBE ? RULE_MAYBE : RULE_NO_MATCH; /* an unknown word may expand to several */
		same = argv[i] && word_matches(&r->word[i], argv[i]);
		if (!same && i == 0 && !strict && name)
			same = word_matches(&r->word[i], name);
		if (same)
			continue;
		if (argv[i] || strict)
			return m == RULE_MAYBE ? RULE_MAYBE : RULE_NO_MATCH;
		m = RULE_MAYBE;
	}
	return m;
}

/* ---- text of a rule ---- */

const char *policy_rule_list(const struct policy_rule *r)
{
	return r->kind == RULE_PREFIX ? "prefix" : rule_effect_name(r->effect);
}

void policy_rule_json(const struct policy_rule *r, struct jw *w)
{
	jw_obj(w);
	if (r->layer == RULE_OF_SESSION) {
		jw_kstr(w, "sessionId", r->file);
		jw_kstr(w, "list", policy_rule_list(r));
		jw_kuint(w, "number", r->line);
	} else {
		jw_kstr(w, "file", r->file);
		jw_kuint(w, "line", r->line);
	}
	jw_kstr(w, "rule", r->text);
	jw_kstr(w, "effect", rule_effect_name(r->effect));
	jw_kstr(w, "layer", rule_layer_name(r->layer));
	jw_kopt(w, "justification", r->justification);
	jw_obj_end(w);
}

void policy_rule_where(const struct policy_rule *r, char *ret, size_t size)
{
	if (r->layer == RULE_OF_SESSION)
		(void)snprintf(ret, size, "session %.64s, %s rule %u", r->file, policy_rule_list(r), r->line);
	else
		(void)snprintf(ret, size, "%.80s, line %u", r->file, r->line);
}

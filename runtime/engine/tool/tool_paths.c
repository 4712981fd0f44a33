/*
 * The files and the host that the arguments of a tool call name. Patches are parsed like bailiff-tool parses them
 * (supervisor/tool/patch.c), or more liberally: a name found only here is checked needlessly, but a name found only
 * there would be written without a check.
 */

#include "policy/command_analysis.h"
#include "policy/rule.h"
#include "runtime/base/mem.h"
#include "runtime/base/strmap.h"
#include "runtime/engine/tool/tool.h"

#include <string.h>

struct naming {
	struct tool_paths *paths;
	struct strmap seen;
};

static void name_path(struct naming *n, const char *s, size_t len)
{
	struct tool_paths *p = n->paths;
	mem_auto char *name = mem_strndup(s, len);

	/* Each name once, so that repeated hunks of one file do not count against the limit. */
	if (!len || strmap_put(&n->seen, name, p))
		return;
	if (p->count == TOOL_PATHS_MAX) {
		p->too_many = true;
		return;
	}
	if ((p->count & (p->count - 1)) == 0)
		p->path = mem_realloc(p->path, (p->count ? 2 * p->count : 1) * sizeof *p->path);
	p->path[p->count++] = mem_take(&name);
}

static size_t line_length(const char *s)
{
	size_t n = strcspn(s, "\n");

	return n && s[n - 1] == '\r' ? n - 1 : n;
}

/* "*** Add File: NAME": NAME without surrounding blanks. */
static void name_envelope_path(struct naming *n, const char *s, size_t len)
{
	for (; len && *s == ' '; len--)
		s++;
	while (len && s[len - 1] == ' ')
		len--;
	name_path(n, s, len);
}

/* "--- a/NAME\ttime": NAME ends at the tab; a/ and b/ are git's prefixes. */
static void name_diff_path(struct naming *n, const char *s, size_t len)
{
	const char *tab = memchr(s, '\t', len);

	len = tab ? (size_t)(tab - s) : len;
	while (len && s[len - 1] == ' ')
		len--;
	if (len == 9 && memcmp(s, "/dev/null", 9) == 0)
		return;
	if (len > 2 && (s[0] == 'a' || s[0] == 'b') && s[1] == '/') {
		s += 2;
		len -= 2;
	}
	name_path(n, s, len);
}

static void name_patch_paths(struct naming *n, const char *patch)
{
	static const char *const heads[] = { "*** Add File: ", "*** Update File: ", "*** Delete File: ",
					     "*** Move to: " };
	bool paired = false; /* the previous line is "--- " and this one its "+++ " */

	for (const char *s = patch; *s && !n->paths->too_many; s += strcspn(s, "\n"), s += *s == '\n') {
		const char *next = strchr(s, '\n');
		size_t len = line_length(s);

		if (paired)
			name_diff_path(n, s + 4, len - 4);
		paired = len >= 4 && strncmp(s, "--- ", 4) == 0 && next && strncmp(next + 1, "+++ ", 4) == 0;
		if (paired)
			name_diff_path(n, s + 4, len - 4);
		for (size_t i = 0; i < countof(heads); i++) {
			size_t h = strlen(heads[i]);

			if (len >= h && strncmp(s, heads[i], h) == 0)
				name_envelope_path(n, s + h, len - h);
		}
	}
}

/* Tools that use the working directory if no path is given. */
static bool defaults_to_cwd(const char *tool)
{
	static const char *const names[] = { "list_directory", "LS", "Grep", "Glob", "grep", "glob" };

	for (size_t i = 0; i < countof(names); i++)
		if (strcmp(names[i], tool) == 0)
			return true;
	return false;
}

void tool_paths_of(const char *tool, const json_t *args, struct tool_paths *ret)
{
	static const char *const members[] = { "path", "file_path", "notebook_path" };
	const char *patch = json_string_value(json_object_get(args, "patch"));
	struct naming n = { .paths = ret, .seen = STRMAP_INIT };

	*ret = (struct tool_paths){ 0 };
	for (size_t i = 0; i < countof(members); i++) {
		const char *path = json_string_value(json_object_get(args, members[i]));

		if (path)
			name_path(&n, path, strlen(path));
	}
	if (patch)
		name_patch_paths(&n, patch);
	if (!ret->count && defaults_to_cwd(tool))
		name_path(&n, ".", 1);
	strmap_done(&n.seen);
}

void tool_paths_done(struct tool_paths *n)
{
	for (size_t i = 0; i < n->count; i++)
		free(n->path[i]);
	free(n->path);
	*n = (struct tool_paths){ 0 };
}

/*
 * bailiff's own tools, and those of common agents. An edit reads the file, too: a patch can move it to a name that the
 * agent may read. Searches read everything below a directory.
 */
unsigned tool_access(const char *tool)
{
	if (rule_kind_of_tool(tool) == RULE_EDIT)
		return strcmp(tool, "Write") == 0 || strcmp(tool, "write_file") == 0 ? COMMAND_WRITES
										     : COMMAND_READS | COMMAND_WRITES;
	const bool searches = strcasecmp(tool, "grep") == 0 || strcasecmp(tool, "glob") == 0;
	return COMMAND_READS | (searches ? COMMAND_RECURSES : 0);
}

/*
 * The host of a URL; NULL if it is ambiguous. A client may normalise slashes, decode escapes or map characters, and so
 * connect to another host than the text suggests.
 */
char *tool_host_of(const json_t *args)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_+";
	const char *url = json_string_value(json_object_get(args, "url")), *s = url, *at;
	size_t n = url ? strspn(url, plain) : 0;

	if (!n || strncmp(url + n, "://", 3) != 0)
		return NULL;
	s += n + 3;
	n = strcspn(s, "/?#");
	if (strcspn(s, "\\ \t\r\n") < n)
		return NULL;
	/* The last @ ends the user part: "https://a@b@host" is "host". */
	at = memrchr(s, '@', n);
	if (at) {
		n -= (size_t)(at + 1 - s);
		s = at + 1;
	}
	const char *colon = *s == '[' ? memchr(s, ']', n) : memchr(s, ':', n);
	if (colon)
		n = (size_t)(colon - s) + (*s == '[');
	if (*s != '[' && n && s[n - 1] == '.')
		n--; /* the dot of the DNS root */
	if (*s != '[' && strspn(s, plain) < n)
		return NULL;
	return n ? mem_strndup(s, n) : NULL;
}

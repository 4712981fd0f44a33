/* The paths in a command's words (command_paths.def) and in its redirections. */

#include "policy/analysis.h"
#include "policy/command_text.h"
#include "policy/file_name.h"
#include "policy/find_search.h"
#include "policy/git_search.h"
#include "policy/word_values.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"

#include <ctype.h>

static const struct row {
	const char *pattern, *operands, *options;
} rows[] = {
#define PATHS(pattern, operands, options) { pattern, operands, options },
#include "policy/command_paths.def"
#undef PATHS
};

/* The letters of command_paths.def as bits. */
static unsigned access_of(char role)
{
	switch (role) {
	case 'f':
	case 'r': return COMMAND_READS;
	case 'F':
	case 'R': return COMMAND_READS | COMMAND_RECURSES;
	case 'l': return COMMAND_READS | COMMAND_LISTS;
	case 'w':
	case 't': return COMMAND_WRITES;
	case 'W': return COMMAND_WRITES | COMMAND_RECURSES;
	case 'd': return COMMAND_DELETES;
	case 'D':
	case 'T': return COMMAND_DELETES | COMMAND_RECURSES;
	case 'b': return COMMAND_READS | COMMAND_WRITES;
	case 'm': return COMMAND_READS | COMMAND_DELETES;
	case 'c': return COMMAND_READS;
	case 'i':
	case 'I': return COMMAND_WRITES;
	case 'x': return COMMAND_WRITES | COMMAND_WITHIN;
	case 'X': return COMMAND_WRITES | COMMAND_WITHIN | COMMAND_RECURSES;
	case 'V': return COMMAND_DELETES | COMMAND_SEARCHED;
	case 'Y': return COMMAND_WRITES | COMMAND_SEARCHED;
	default: return 0;
	}
}

bool command_paths_harmless_target(const char *path)
{
	static const char *const names[] = { "/dev/null",   "/dev/zero",  "/dev/full", "/dev/stdout",
					     "/dev/stderr", "/dev/stdin", "/dev/tty" };

	for (size_t i = 0; i < countof(names); i++)
		if (strcmp(path, names[i]) == 0)
			return true;
	return strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/dev/pts/", 9) == 0;
}

/*
 * /proc/self/root and /proc/self/cwd lead to the root and to cwd: moves `path` past them and returns the directory
 * where it continues; NULL: it is neither.
 */
static const char *resolve_proc_link(const char **path, const char *cwd)
{
	const char *s = *path + 6;
	static const char *const ways[] = { "root", "cwd" };

	if (strncmp(*path, "/proc/", 6) != 0)
		return NULL;
	s += strcspn(s, "/");
	for (size_t i = 0; i < countof(ways); i++) {
		const size_t n = strlen(ways[i]);

		if (*s == '/' && strncmp(s + 1, ways[i], n) == 0 && (s[1 + n] == '/' || !s[1 + n])) {
			*path = s + 1 + n;
			return i == 0 ? "" : cwd;
		}
	}
	return NULL;
}

/* Makes a path absolute, from cwd, and cleans it; NULL if that is not possible. */
const char *command_paths_absolute(struct analysis *r, const char *cwd, const char *path)
{
	char joined[PATH_MAX], clean[PATH_MAX];
	const char *base = resolve_proc_link(&path, cwd);
	int n;

	if (base) {
		n = snprintf(joined, sizeof(joined), "%s/%s", base, path);
	} else if (*path == '/')
		n = snprintf(joined, sizeof(joined), "%s", path);
	else if (cwd)
		n = snprintf(joined, sizeof(joined), "%s/%s", cwd, path);
	else
		return NULL;
	if (n < 0 || (size_t)n >= sizeof(joined) || path_clean(joined, clean, NULL) < 0)
		return NULL;
	return shell_arena_strdup(r->arena, clean);
}

/* Adds a path that is absolute, or is in an unknown folder. Devices such as /dev/null are left out. */
static void add_path(struct analysis *r, const struct analysis_command *c, struct command_path p)
{
	struct command_facts *f = r->facts;
	const bool absolute = *p.path == '/' && !p.unknown;

	p.command = c->index;
	p.name = c->name;
	p.nnames = c->nnames;
	p.exact &= absolute && !(p.access & (COMMAND_WITHIN | COMMAND_SEARCHED));
	p.outside = !absolute || !path_within(r->workspace, p.path);
	if (!p.access || strcmp(p.word, "-") == 0 || (absolute && command_paths_harmless_target(p.path)))
		return;
	if (p.access & (COMMAND_WRITES | COMMAND_DELETES) && !(p.access & COMMAND_REDIRECTED))
		analysis_simple(r, c->index)->output |= COMMAND_FILE_WRITTEN;
	/* Both dialects may have found it. Each listing counts: its names may go elsewhere. */
	const bool any = !(p.access & COMMAND_LISTS);
	for (size_t i = f->npaths; i-- > 0 && f->npaths - i < 32;)
		if (f->path[i].access == p.access && (any || f->path[i].command == p.command) &&
		    f->path[i].name == p.name && f->path[i].nnames == p.nnames && strcmp(f->path[i].path, p.path) == 0)
			return;
	f->path = shell_arena_grow(r->arena, f->path, f->npaths, sizeof(*f->path));
	f->path[f->npaths++] = p;
}

/* Whether the text of a path says that it is a folder: x/, ., x/.. */
static bool is_folder(const char *text)
{
	const char *slash = strrchr(text, '/'), *name = slash ? slash + 1 : text;

	return !*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Adds a path as a program gets it. */
static void add_text(struct analysis *r, const struct analysis_command *c, const char *text, const char *word,
		     bool exact, unsigned access)
{
	const char *path = command_paths_absolute(r, c->cwd, text);

	access |= access & COMMAND_WITHIN && is_folder(text) ? COMMAND_RECURSES : 0;
	if (*text)
		add_path(r, c,
			 (struct command_path){ .path = path ? path : shell_arena_strdup(r->arena, text),
						.word = word,
						.exact = exact,
						.access = access });
}

/* Adds what a word may expand to, without its first `skip` bytes. A glob stays within its directory. */
static void add_word_from(struct analysis *r, const struct analysis_command *c, const struct command_word *w,
			  size_t skip, unsigned access)
{
	const char *plain = w->plain + skip;

	if (w->value || w->unknown == SHELL_GLOB) {
		add_text(r, c, plain, plain, w->value, access);
		return;
	}
	if (w->unknown & SHELL_PROCESS)
		return;
	const struct word_values v = word_values_of(r, w, skip);
	for (size_t i = 0; i < v.count; i++)
		add_text(r, c, v.text[i].text, plain, !v.text[i].glob, access);
	if (v.open)
		add_path(r, c,
			 (struct command_path){
				 .path = plain, .word = plain, .unknown = true, .lost = v.lost, .access = access });
}

static void add_word(struct analysis *r, const struct analysis_command *c, const struct command_word *w,
		     unsigned access)
{
	if (!w->found || !access) {
		add_word_from(r, c, w, 0, access);
		return;
	}
	struct analysis_command files = *c;

	access |= COMMAND_SEARCHED;
	/* What is below a folder that was found has any name. */
	const bool files_only = !(access & COMMAND_RECURSES) || find_search_finds_files(w->found);
	files.name = w->found->name;
	files.nnames = files_only ? w->found->nnames : 0;
	for (size_t i = 0; i < w->found->count; i++)
		add_word_from(r, &files, &w->found->start[i], 0, access);
	if (!w->found->count)
		add_text(r, &files, ".", ".", true, access);
}

/* The role of operand i of n: letters before * count from the front, those after it from the end. */
static char role_of(const char *spec, size_t i, size_t n)
{
	const char *star = strchr(spec, '*');

	if (!star)
		return i < strlen(spec) ? spec[i] : '-';
	const size_t front = (size_t)(star - spec) - 1, back = strcspn(star + 1, ".?");
	if (i < front)
		return spec[i];
	if (n >= front + back && i >= n - back)
		return star[1 + (i - (n - back))];
	return star[-1];
}

/* ---- copies ---- */

/* What a command perhaps writes: rules about writing it ask. */
static void add_perhaps(struct analysis *r, const struct analysis_command *c, const char *text, unsigned access)
{
	struct command_facts *f = r->facts;
	const char *path = command_paths_absolute(r, c->cwd, text);

	access |= access & COMMAND_WITHIN && is_folder(text) ? COMMAND_RECURSES : 0;
	if (!*text || !path)
		return;
	f->named = shell_arena_grow(r->arena, f->named, f->nnamed, sizeof(*f->named));
	f->named[f->nnamed++] = (struct command_path){ .path = path,
						       .word = text,
						       .outside = !path_within(r->workspace, path),
						       .access = access,
						       .command = c->index };
}

/* folder/ or folder/NAME, where NAME is the last one of `from`; without one it is the content that is copied: x/. */
static const char *copied_file(struct analysis *r, const char *folder, const char *from)
{
	size_t n = strlen(from), m = strlen(folder);

	while (n && from[n - 1] == '/')
		n--;
	const char *slash = memrchr(from, '/', n), *name = slash ? slash + 1 : from;
	size_t len = n - (size_t)(name - from);
	if (is_folder(shell_arena_strndup(r->arena, name, len)))
		len = 0;
	char *path = shell_arena_alloc(r->arena, m + len + 2);
	memcpy(path, folder, m);
	path[m] = '/';
	memcpy(path + m + 1, name, len);
	return path;
}

/*
 * If the destination of a copy is a folder, the files in it have the names of the other operands. `deep`: with all
 * below them.
 */
static void add_into(struct analysis *r, const struct analysis_command *c, const struct word_values *folder,
		     const struct command_word *to, bool deep)
{
	const struct command_args *a = c->args;

	for (size_t k = 0; k < a->noperands; k++) {
		struct word_values from = word_values_of(r, a->operand[k], 0);

		for (size_t i = 0; i < folder->count && *folder->text[i].text && a->operand[k] != to; i++) {
			const char *at = folder->text[i].text;

			for (size_t n = 0; n < from.count; n++) {
				const char *text = from.text[n].text;
				const size_t host = args_named(a->name, "scp|rsync") ? strcspn(text, ":/") : 0;

				text += host && text[host] == ':' ? host + 1 : 0;
				/* For rsync x/ is the content of x. */
				const bool content = is_folder(text) && strcmp(a->name, "rsync") == 0;
				const char *file = copied_file(r, at, content ? "." : text);

				add_perhaps(r, c, file,
					    COMMAND_WRITES | (deep || is_folder(file) ? COMMAND_WITHIN : 0));
			}
			if (from.open)
				add_perhaps(r, c, copied_file(r, at, "."), COMMAND_WRITES | COMMAND_WITHIN);
		}
	}
}

/* Adds the values of one option, in a cluster, long or abbreviated. */
static void option_path(struct analysis *r, const struct analysis_command *c, const char *name, size_t len, char role)
{
	const struct command_args *a = c->args;

	for (size_t i = 0; i < a->noptions; i++) {
		const struct command_option *o = &a->option[i];
		const bool is = len == 1 ? o->letter == *name
					 : o->name && o->name_len && o->name_len <= len &&
						   memcmp(o->name, name, o->name_len) == 0;

		if (!is || (!o->value_word && !o->value))
			continue;
		const struct command_word *w = o->value_word ? o->value_word : o->word;
		const size_t skip = o->value_word ? 0 : (size_t)(o->value - w->plain);
		add_word_from(r, c, w, skip, access_of(role));
		if (role == 'i' || role == 'I') {
			const struct word_values to = word_values_of(r, w, skip);

			add_into(r, c, &to, NULL, role == 'I');
		}
	}
}

/* dd's of=file */
static void operand_path(struct analysis *r, const struct analysis_command *c, const char *name, size_t len, char role)
{
	const struct command_args *a = c->args;

	for (size_t i = 0; i < a->noperands; i++) {
		const struct command_word *w = a->operand[i];

		if (strncmp(w->plain, name, len) == 0)
			add_word_from(r, c, w, len, access_of(role));
	}
}

/* The top folder of the files that git tracks: the workspace, or, elsewhere, the directory. */
static const char *repository_of(const struct analysis *r, const struct analysis_command *c)
{
	return c->cwd && path_within(r->workspace, c->cwd) ? r->workspace : ".";
}

/* The options of a row, and the paths that the program uses without a word for them, such as .:x. */
static void option_paths(struct analysis *r, const struct analysis_command *outer, const struct analysis_command *c,
			 const char *spec)
{
	for (const char *s = spec; *s;) {
		const char *colon = strchr(s, ':');
		const size_t len = (size_t)(colon - s);

		const char *name = shell_arena_strndup(r->arena, s, len);

		if (*s == '^')
			add_text(r, c, repository_of(r, c), ".", true, access_of(colon[1]));
		else if (*s == '.' || *s == '/')
			add_text(r, c, name, name, true, access_of(colon[1]));
		else if (s[len - 1] == '=')
			operand_path(r, outer, s, len, colon[1]);
		else
			option_path(r, outer, s, len, colon[1]);
		s = colon + 2;
		s += *s == ' ';
	}
}

/* How a redirection accesses its file; 0: it has none. */
static unsigned redirect_access(const struct shell_redirect *d)
{
	const struct shell_word *t = &d->target;

	if (t->unknown & SHELL_PROCESS)
		return 0;
	switch (d->op) {
	case SHELL_READ: return COMMAND_READS;
	case SHELL_READ_WRITE: return COMMAND_READS | COMMAND_WRITES;
	case SHELL_APPEND:
	case SHELL_BOTH_APPEND: return COMMAND_WRITES;
	case SHELL_WRITE:
	case SHELL_CLOBBER:
	case SHELL_BOTH: return COMMAND_WRITES | COMMAND_DELETES; /* the previous content is lost */
	case SHELL_DUP_OUT:
		/* >&file; a number or - is a descriptor */
		if (t->value && (!t->value[strspn(t->value, "0123456789")] || strcmp(t->value, "-") == 0 ||
				 t->value[strlen(t->value) - 1] == '-'))
			return 0;
		if (!t->value && d->fd >= 0)
			return 0;
		return COMMAND_WRITES | COMMAND_DELETES;
	default: return 0;
	}
}

/* Where it leads the command's output to. `stores`: it writes a file, and no device such as /dev/null. */
static unsigned redirect_output(const struct shell_redirect *d, bool stores)
{
	const char *to = d->target.value ? d->target.value : "";

	if (d->op == SHELL_DUP_OUT && d->fd == 2 && strcmp(to, "1") == 0)
		return 0;
	if (stores)
		return d->fd == 2 && (d->op == SHELL_WRITE || d->op == SHELL_APPEND || d->op == SHELL_CLOBBER)
			       ? COMMAND_ERRORS_STORED
			       : COMMAND_OUTPUT_STORED;
	return d->op == SHELL_READ || d->op == SHELL_HEREDOC || d->op == SHELL_HERESTRING ||
			       strcmp(to, "/dev/null") == 0
		       ? 0
		       : COMMAND_OUTPUT_MOVED;
}

void command_paths_of_redirects(struct analysis *r, const struct analysis_command *c)
{
	static const char *const ops[] = {
		[SHELL_READ_WRITE] = "<>", [SHELL_APPEND] = ">>", [SHELL_BOTH_APPEND] = "&>>", [SHELL_WRITE] = ">",
		[SHELL_CLOBBER] = ">|",    [SHELL_BOTH] = "&>",   [SHELL_DUP_OUT] = ">&"
	};
	buf_auto struct buf text = BUF_INIT;

	for (size_t i = 0; i < c->nredirects; i++) {
		const struct shell_redirect *d = &c->redirect[i];

		const unsigned access = redirect_access(d);
		const struct command_word w = analysis_word(r, &d->target);
		/* bash's network devices are hosts and not files: network.c */
		if (access && strncmp(d->target.plain, "/dev/tcp/", 9) != 0 &&
		    strncmp(d->target.plain, "/dev/udp/", 9) != 0)
			add_word(r, c, &w, access | COMMAND_REDIRECTED);
		const char *path = w.value ? command_paths_absolute(r, c->cwd, w.value) : NULL;
		const bool stores = access & COMMAND_WRITES && !(path && command_paths_harmless_target(path));
		analysis_simple(r, c->index)->output |= redirect_output(d, stores);
		if (!stores)
			continue;
		if (text.len)
			buf_byte(&text, ' ');
		if (d->fd >= 0)
			buf_printf(&text, "%d", d->fd);
		buf_printf(&text, "%s ", ops[d->op]);
		if (w.value)
			command_quote(w.value, strlen(w.value), &text);
		else
			buf_str(&text, w.plain);
	}
	if (text.len)
		analysis_simple(r, c->index)->writes = shell_arena_strndup(r->arena, buf_cstr(&text), text.len);
}

/* Where cd leads to. It reads nothing: a folder that is known only at run time is no path of a rule. */
static void add_folder(struct analysis *r, const struct analysis_command *c, const struct command_word *w)
{
	const struct word_values to = word_values_of(r, w, 0);

	for (size_t i = 0; i < to.count; i++) {
		const char *path = command_paths_absolute(r, c->cwd, to.text[i].text);
		const bool glob = to.text[i].glob;

		add_path(r, c,
			 (struct command_path){ .path = path ? path : to.text[i].text,
						.word = w->plain,
						.exact = !glob,
						.access = COMMAND_READS | (glob ? COMMAND_WITHIN : 0) });
	}
	if (to.open && *w->plain != '/')
		add_path(r, c, (struct command_path){ .path = w->plain, .word = w->plain, .access = COMMAND_READS });
}

/* Adds operand k with its role. */
static void operand_role(struct analysis *r, const struct analysis_command *c, size_t k, char role)
{
	const struct command_word *w = c->args->operand[k];
	const char *text = w->plain;
	const size_t host = strcspn(text, ":/"); /* host:path is on another machine */
	const bool remote = strchr("fFtT", role) && text[host] == ':' && host;

	if (remote)
		return;
	if (role == 'p' && w->value) {
		add_perhaps(r, c, text, COMMAND_WRITES | COMMAND_WITHIN);
	} else if (role == 'c' && !w->value) {
		add_folder(r, c, w);
	} else {
		add_word(r, c, w, access_of(role));
		const struct word_values to = word_values_of(r, w, 0);
		if (strchr("iItT", role))
			add_into(r, c, &to, w, role != 'i');
	}
}

/* Whether the word is the value of an option: -e --include=x */
static bool is_value(const struct command_args *a, const struct command_word *w)
{
	for (size_t i = 0; i < a->noptions; i++)
		if (a->option[i].value_word == w)
			return true;
	return false;
}

/* --include=*.c of grep, unless --exclude takes part in what is read. */
static void limit_to_included(struct analysis *r, const struct command_args *a, struct analysis_command *c)
{
	static const char include[] = "--include=";
	const char **name = NULL;
	size_t n = 0;

	/* Of the words whose value is unknown, only --include=*.c is certainly no other option. */
	for (size_t i = 1; i < a->count; i++)
		if (!a->word[i].value && (!a->word[i].lead || *a->word[i].plain == '-' || a->word[i].many) &&
		    (a->word[i].unknown != SHELL_GLOB || strncmp(a->word[i].plain, include, sizeof(include) - 1) != 0))
			return;
	for (size_t i = 0; i < a->noptions; i++) {
		const struct command_option *o = &a->option[i];
		const char *long_name = o->name ? shell_arena_strndup(r->arena, o->name, o->name_len) : "";

		if (args_named(long_name, "exc*") && !args_named(long_name, "exclude-dir"))
			return;
		if (!args_named(long_name, "inc*"))
			continue;
		if ((!o->value && o->value_word) || n == FIND_SEARCH_NAMES_MAX || is_value(a, o->word))
			return;
		name = shell_arena_grow(r->arena, name, n, sizeof(*name));
		name[n++] = o->value ? o->value : o->word->plain + sizeof(include) - 1;
	}
	c->name = name;
	c->nnames = n;
}

/* -g *.c of rg: with such globs it reads only files that match one. Those that begin with ! take files away. */
static void limit_to_globs(struct analysis *r, const struct command_args *a, struct analysis_command *c)
{
	const char **name = NULL;
	size_t n = 0;

	for (size_t i = 1; i < a->count; i++)
		if (!a->word[i].value && (!a->word[i].lead || *a->word[i].plain == '-' ||
					  (a->word[i].many && a->word[i].unknown != SHELL_GLOB)))
			return;
	for (size_t i = 0; i < a->noptions; i++) {
		const struct command_option *o = &a->option[i];
		const char *long_name = o->name ? shell_arena_strndup(r->arena, o->name, o->name_len) : "";

		if (strcmp(long_name, "iglob") == 0)
			return;
		if (o->letter != 'g' && strcmp(long_name, "glob") != 0)
			continue;
		if (!o->value || !*o->value || strchr(o->value, '{') || n == FIND_SEARCH_NAMES_MAX ||
		    is_value(a, o->word))
			return;
		if (*o->value == '!')
			continue;
		const char *slash = strrchr(o->value, '/');
		name = shell_arena_grow(r->arena, name, n, sizeof(*name));
		name[n++] = slash && slash[1] ? slash + 1 : slash ? "*" : o->value;
	}
	c->name = name;
	c->nnames = n;
}

/*
 * Which names limit what find and grep use below a folder. Returns the number of operands that are paths: those of find
 * that are not in its expression.
 */
static size_t limit_to_names(struct analysis *r, const struct command_args *a, struct analysis_command *c)
{
	size_t operands = a->noperands;

	if (args_named(a->name, "grep|egrep|fgrep|rgrep"))
		limit_to_included(r, a, c);
	if (strcmp(a->name, "rg") == 0)
		limit_to_globs(r, a, c);
	if (strcmp(a->name, "find") != 0)
		return operands;
	const struct find_search *search = find_search_of(a->word, a->count, r->arena);
	c->name = search->name;
	c->nnames = search->nnames;
	while (operands && a->operand[operands - 1] >= a->word + search->expression)
		operands--;
	return operands;
}

/* A path whose * crosses slashes, and which may be a folder: of that, only what git tracks. */
static void add_pathspec(struct analysis *r, const struct analysis_command *c, const struct command_word *w,
			 unsigned access)
{
	static const char globs[] = "*?[\\";
	const bool file = file_name_is_usual(file_name_of(w->plain));
	struct analysis_command limited = *c;

	if (w->value && *w->value == ':') {
		add_text(r, c, repository_of(r, c), w->value, true, access);
	} else if (!w->value || (file && !strpbrk(w->plain, globs))) {
		add_word(r, c, w, file || w->unknown != SHELL_GLOB ? COMMAND_READS : access);
	} else if (strpbrk(w->value, globs)) {
		const size_t n = strcspn(w->value, globs);
		const char *slash = memrchr(w->value, '/', n);

		const char **name = shell_arena_alloc(r->arena, sizeof(*name));

		*name = file_name_of_pattern(w->value, r->arena);
		limited.name = name;
		limited.nnames = 1;
		add_text(r, &limited, slash ? shell_arena_strndup(r->arena, w->value, (size_t)(slash - w->value)) : ".",
			 w->value, true, access);
	} else {
		add_text(r, c, w->value, w->value, true, access);
	}
}

/* Whether the pathspec only leaves files out: :!x, :^x, :(exclude)x */
static bool is_exclusion(const struct command_word *w)
{
	return w->value && (strncmp(w->value, ":!", 2) == 0 || strncmp(w->value, ":^", 2) == 0 ||
			    strncmp(w->value, ":(exclude)", 10) == 0);
}

/* The files of the repository that a git command prints; grep reads them all, in the working directory. */
static void add_tracked(struct analysis *r, const struct analysis_command *c)
{
	const struct git_search s = git_search_of(c->args->word, c->args->count, r->arena);
	const unsigned access = COMMAND_READS | (s.greps ? COMMAND_RECURSES : COMMAND_SEARCHED);
	bool all = s.all || s.npaths;

	for (size_t i = 0; s.prints && i < s.npaths; i++) {
		if (is_exclusion(s.path[i]))
			continue;
		add_pathspec(r, c, s.path[i], access);
		all = false;
	}
	if (s.prints && all)
		add_text(r, c, s.greps ? "." : repository_of(r, c), ".", true, access);
}

const char *command_paths_of_command(struct analysis *r, const struct analysis_command *outer)
{
	static uint64_t first[countof(rows)];
	const struct command_args *a = outer->args;
	const char *roles = NULL;
	bool given = false;

	for (size_t i = 0; a->name && i < countof(rows); i++) {
		if (!args_may_name(a->name, rows[i].pattern, &first[i]) || !args_match(a, rows[i].pattern))
			continue;
		struct analysis_command inside = *outer, *c = &inside;
		roles = rows[i].operands;
		/* tar -C x, git -C x: operands are relative to the last such directory. */
		for (size_t k = 0; strstr(rows[i].options, ":c") && k < a->noptions; k++)
			if (a->option[k].letter == 'C' && (a->option[k].value || a->option[k].value_word))
				inside.cwd = inside.cwd && a->option[k].value
						     ? command_paths_absolute(r, inside.cwd, a->option[k].value)
						     : NULL;
		const size_t operands = limit_to_names(r, a, c);
		for (size_t k = 0; k < operands; k++) {
			const char role = role_of(rows[i].operands, k, operands);

			given |= access_of(role) != 0;
			operand_role(r, c, k, role);
		}
		/* Without a path: the working directory, certainly (.) or possibly (?). */
		const char last = *roles ? roles[strlen(roles) - 1] : 0;
		if (!given && (last == '.' || last == '?'))
			add_text(r, c, ".", ".", last == '.', access_of(*(strchr(roles, '*') - 1)));
		option_paths(r, outer, c, rows[i].options);
		if (strcmp(a->name, "git") == 0)
			add_tracked(r, c);
		break;
	}
	command_paths_of_redirects(r, outer);
	return roles;
}

bool command_paths_has_role(const char *roles, size_t i, size_t n) { return access_of(role_of(roles, i, n)) != 0; }

bool command_paths_may_be(const char *roles, size_t i, size_t n) { return role_of(roles, i, n) == 'u'; }

const char *command_paths_after_cd(struct analysis *r, const struct command_args *a, const char *cwd)
{
	if (!a->noperands)
		return strcmp(a->name, "cd") == 0 && !r->home_changed && r->o->home
			       ? shell_arena_strdup(r->arena, r->o->home)
			       : NULL;
	const struct word_values values = word_values_of(r, a->operand[0], 0);
	const bool known = values.count == 1 && !values.open && !values.text->glob && *values.text->text;
	const char *to = a->operand[0]->value ? a->operand[0]->value : known ? values.text->text : NULL;
	if (!to || strcmp(to, "-") == 0 || strcmp(a->name, "popd") == 0 ||
	    (*to == '+' && isdigit((unsigned char)to[1])))
		return NULL;
	return command_paths_absolute(r, cwd, to);
}

/*
 * glob and grep. Both are bounded: by the number of results, by the bytes they show, and by time. A regular expression
 * can take exponential time, which no check between lines would notice, so a timer ends the program with an error.
 */

#include "supervisor/tool/file_tool.h"
#include "supervisor/tool/file_tree.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define TIME_S 30u
#define MEMORY_MAX (1ull << 30) /* of the program: an expression with nested repetitions may need any amount */
#define PATHS_DEFAULT 500u
#define PATHS_MAX 5000u
#define MATCHES_DEFAULT 200u
#define MATCHES_MAX 2000u
#define CONTEXT_MAX 20u
#define SHOWN_BYTES (256u << 10)
#define LINE_SHOWN 500u
#define LINE_SEARCHED 65536u /* of one line */
#define BINARY_BYTES 8192u   /* a NUL in the first bytes: not text */

static void on_alarm(int sig)
{
	static const char answer[] =
		"{\"error\":{\"category\":\"timeout\",\"message\":\"the search took longer than 30 "
		"seconds; search fewer files, or use a simpler pattern\"}}\n";

	_exit(write(STDOUT_FILENO, answer, sizeof answer - 1) < 0 ? 2 : 1);
}

/* The answer is written at the end, so the error is all of the output. */
static void limit_search(void)
{
	const struct rlimit memory = { MEMORY_MAX, MEMORY_MAX };

	(void)signal(SIGALRM, on_alarm);
	(void)alarm(TIME_S);
	(void)setrlimit(RLIMIT_AS, &memory);
}

static uint64_t limit_of(struct jval args, const char *name, uint64_t otherwise, uint64_t most)
{
	uint64_t n = jval_uint(jval_get(args, name), otherwise);

	return n < most ? n : most;
}

/* ---- glob ---- */

struct glob {
	struct path_pattern pattern;
	struct jw *w;
	uint64_t left;
	bool more;
};

static bool glob_file(void *ctx, const struct tree_file *f)
{
	struct glob *g = ctx;

	if (!path_pattern_matches(&g->pattern, f->below))
		return true;
	if (!g->left) {
		g->more = true;
		return false;
	}
	g->left--;
	jw_str(g->w, f->shown);
	return true;
}

int tool_glob(struct jval args, struct jw *w, struct err *e)
{
	mem_auto char *pattern = jval_strdup(jval_get(args, "pattern")), *path = jval_strdup(jval_get(args, "path"));
	struct glob g = { .w = w, .left = limit_of(args, "limit", PATHS_DEFAULT, PATHS_MAX) };
	struct file_tree tree = { .start = path && *path ? path : ".",
				  .ignored_too = jval_bool(jval_get(args, "includeIgnored"), false),
				  .visit = glob_file,
				  .ctx = &g };

	limit_search();
	if (path_pattern_init(&g.pattern, "pattern", pattern ? pattern : "", e) < 0)
		return -1;
	jw_karr(w, "entries");
	int r = file_tree_walk(&tree, e);
	jw_arr_end(w);
	jw_kbool(w, "truncated", g.more || tree.truncated);
	path_pattern_done(&g.pattern);
	return r;
}

/* ---- grep ---- */

struct grep {
	regex_t regex;
	char *literal; /* instead of the expression; NULL = none */
	bool fold, names_only;
	struct path_pattern include;
	uint64_t context, left, matches, files, searched, skipped;
	struct buf text;
	bool more;
};

/* \d is not POSIX, but common. Within brackets it is left alone. */
static char *portable_pattern(const char *s)
{
	buf_auto struct buf out = BUF_INIT;
	bool bracket = false;

	for (; *s; s++) {
		if (*s == '\\' && s[1] && !bracket) {
			if (s[1] == 'd' || s[1] == 'D')
				buf_str(&out, s[1] == 'd' ? "[0-9]" : "[^0-9]");
			else
				buf_append(&out, s, 2);
			s++;
			continue;
		}
		if (*s == '[')
			bracket = true;
		else if (*s == ']')
			bracket = false;
		buf_byte(&out, *s);
	}
	return buf_take(&out);
}

static int compile_pattern(struct grep *g, struct jval args, struct err *e)
{
	mem_auto char *pattern = jval_strdup(jval_get(args, "pattern")),
		      *include = jval_strdup(jval_get(args, "include"));
	char why[200];

	if (!pattern || !*pattern)
		return err_field(e, "pattern", "must not be empty");
	if (strchr(pattern, '\n'))
		return err_field(e, "pattern", "must be one line: lines are searched one by one");
	g->fold = jval_bool(jval_get(args, "ignoreCase"), false);
	if (jval_bool(jval_get(args, "literal"), false)) {
		g->literal = mem_take(&pattern);
	} else {
		mem_auto char *portable = portable_pattern(pattern);
		int r = regcomp(&g->regex, portable, REG_EXTENDED | (g->fold ? REG_ICASE : 0));

		if (r != 0) {
			regerror(r, &g->regex, why, sizeof why);
			return err_field(e, "pattern", "%s (POSIX extended syntax; literal: true takes it as text)",
					 why);
		}
	}
	if (include && path_pattern_init(&g->include, "include", include, e) < 0) {
		if (!g->literal)
			regfree(&g->regex);
		return -1;
	}
	return 0;
}

static bool line_matches(const struct grep *g, const char *line, size_t n)
{
	regmatch_t range = { 0, (regoff_t)(n < LINE_SEARCHED ? n : LINE_SEARCHED) };

	if (g->literal && !g->fold)
		return memmem(line, n, g->literal, strlen(g->literal)) != NULL;
	if (!g->literal)
		return regexec(&g->regex, line, 1, &range, REG_STARTEND) == 0;
	for (size_t i = 0, k = strlen(g->literal); i + k <= n; i++)
		if (strncasecmp(line + i, g->literal, k) == 0)
			return true;
	return false;
}

static void write_line(struct grep *g, const char *shown, uint64_t number, char mark, const char *line, size_t n)
{
	bool cut = n > LINE_SHOWN;

	n = n && line[n - 1] == '\r' ? n - 1 : n;
	buf_printf(&g->text, "%s%c%llu%c", shown, mark, (unsigned long long)number, mark);
	buf_append(&g->text, line, cut ? text_utf8_cut(line, LINE_SHOWN) : n);
	buf_str(&g->text, cut ? "[…]\n" : "\n");
}

/* The lines of one file, and the context of its matches. */
struct lines {
	const char *start[2 * CONTEXT_MAX + 2]; /* ring of the last lines, by number */
	size_t len[2 * CONTEXT_MAX + 2];
	uint64_t number, shown, after; /* last line read, last line written; context lines that still follow */
};

static void write_match(struct grep *g, struct lines *l, const char *shown)
{
	uint64_t from = l->number > g->context ? l->number - g->context : 1;

	from = from > l->shown ? from : l->shown + 1;
	if (g->context && l->shown && from > l->shown + 1)
		buf_str(&g->text, "--\n");
	for (uint64_t i = from; i <= l->number; i++)
		write_line(g, shown, i, i == l->number ? ':' : '-', l->start[i % countof(l->start)],
			   l->len[i % countof(l->start)]);
	l->shown = l->number;
	l->after = g->context;
}

/* False: the limits are reached. */
static bool search_text(struct grep *g, const struct tree_file *f, const char *text, size_t size)
{
	struct lines l = { 0 };
	bool found = false;

	for (const char *p = text, *end = text + size; p < end;) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t n = nl ? (size_t)(nl - p) : (size_t)(end - p), slot = ++l.number % countof(l.start);

		l.start[slot] = p;
		l.len[slot] = n;
		if (line_matches(g, p, n)) {
			if (g->left == 0 || g->text.len > SHOWN_BYTES) {
				g->more = true;
				return false;
			}
			g->left--;
			g->matches++;
			g->files += !found;
			found = true;
			if (g->names_only) {
				buf_printf(&g->text, "%s\n", f->shown);
				return true;
			}
			write_match(g, &l, f->shown);
		} else if (l.after) {
			l.after--;
			l.shown = l.number;
			write_line(g, f->shown, l.number, '-', p, n);
		}
		p += n + 1;
	}
	return true;
}

static bool grep_file(void *ctx, const struct tree_file *f)
{
	struct grep *g = ctx;
	buf_auto struct buf text = BUF_INIT;
	struct err ignored = ERR_INIT;

	if (g->include.count && !path_pattern_matches(&g->include, f->below))
		return true;
	if (tool_file_load(f->path, &text, &ignored) < 0 ||
	    (text.len && memchr(text.data, '\0', text.len < BINARY_BYTES ? text.len : BINARY_BYTES))) {
		g->skipped++;
		return true;
	}
	g->searched++;
	return search_text(g, f, buf_cstr(&text), text.len);
}

int tool_grep(struct jval args, struct jw *w, struct err *e)
{
	mem_auto char *path = jval_strdup(jval_get(args, "path"));
	struct grep g = { .names_only = jval_bool(jval_get(args, "filesOnly"), false),
			  .context = limit_of(args, "context", 0, CONTEXT_MAX),
			  .left = limit_of(args, "limit", MATCHES_DEFAULT, MATCHES_MAX) };
	struct file_tree tree = { .start = path && *path ? path : ".",
				  .ignored_too = jval_bool(jval_get(args, "includeIgnored"), false),
				  .visit = grep_file,
				  .ctx = &g };

	limit_search();
	if (compile_pattern(&g, args, e) < 0)
		return -1;
	int r = file_tree_walk(&tree, e);
	if (r == 0) {
		jw_kuint(w, "matches", g.matches);
		jw_kuint(w, "matchingFiles", g.files);
		jw_kuint(w, "searchedFiles", g.searched);
		jw_kuint(w, "skippedFiles", g.skipped);
		jw_kbool(w, "truncated", g.more || tree.truncated);
		jw_kstrn(w, "text", buf_cstr(&g.text), g.text.len);
	}
	if (!g.literal)
		regfree(&g.regex);
	free(g.literal);
	path_pattern_done(&g.include);
	buf_done(&g.text);
	return r;
}

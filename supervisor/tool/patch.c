#include "supervisor/tool/patch.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <stdint.h>
#include <string.h>

/*
 * The format is chosen by the first line that is not empty: "*** Begin Patch", else a unified diff. Agents write
 * patches by hand, so what is lost easily and is not ambiguous is accepted: a context line whose only space is missing,
 * text around a diff, and carriage returns on every line of the patch, as a transport may add them. Everything else is
 * an error with the line's number, because a guess would change the wrong lines.
 *
 * An envelope's hunk ends at the next line with @@ or ***. A unified diff's hunk ends when it has as many lines as its
 * header says: a removed line that starts with "--" looks like the header of the next file.
 */

struct patch_reader {
	const char *p, *end;
	size_t number; /* of the last line */
	const char *line;
	size_t len;    /* without the carriage return */
	bool returned; /* the line ends with a carriage return */
	bool returns;  /* the first line does: carriage returns belong to the patch, not to the files */
	struct patch *patch;
	size_t hunks;
};

static bool read_line(struct patch_reader *r)
{
	if (r->p >= r->end)
		return false;
	const char *nl = memchr(r->p, '\n', (size_t)(r->end - r->p));
	r->line = r->p;
	r->len = (size_t)((nl ? nl : r->end) - r->p);
	r->p = nl ? nl + 1 : r->end;
	r->returned = r->len && r->line[r->len - 1] == '\r';
	r->len -= r->returned;
	if (!r->number++)
		r->returns = r->returned;
	return true;
}

static bool line_starts(const struct patch_reader *r, const char *with)
{
	size_t n = strlen(with);

	return r->len >= n && memcmp(r->line, with, n) == 0;
}

static bool line_is(const struct patch_reader *r, const char *what)
{
	return line_starts(r, what) && r->len == strlen(what);
}

/* Whether the next line starts with this; does not consume it. */
static bool next_starts(const struct patch_reader *r, const char *with)
{
	size_t n = strlen(with);

	return (size_t)(r->end - r->p) >= n && memcmp(r->p, with, n) == 0;
}

static int set_error(const struct patch_reader *r, struct err *e, const char *what)
{
	return err_field(e, "patch", "line %zu: %s", r->number, what);
}

/* ---- the list ---- */

static struct patch_file *file_add(struct patch_reader *r, enum patch_change change, struct err *e)
{
	struct patch *p = r->patch;

	if (p->nfiles == PATCH_FILES_MAX) {
		(void)set_error(r, e, "too many files");
		return NULL;
	}
	p->files = mem_realloc(p->files, (p->nfiles + 1) * sizeof(*p->files));
	p->files[p->nfiles] = (struct patch_file){ .change = change };
	return &p->files[p->nfiles++];
}

static struct patch_hunk *hunk_add(struct patch_reader *r, struct patch_file *f, struct err *e)
{
	if (r->hunks++ == PATCH_HUNKS_MAX) {
		(void)set_error(r, e, "too many hunks");
		return NULL;
	}
	f->hunks = mem_realloc(f->hunks, (f->nhunks + 1) * sizeof(*f->hunks));
	f->hunks[f->nhunks] = (struct patch_hunk){ 0 };
	return &f->hunks[f->nhunks++];
}

/* Adds the current line without its first `skip` bytes. */
static void line_add(const struct patch_reader *r, struct patch_hunk *h, char kind, size_t skip)
{
	/* Grows by doubling: a hunk may be long. */
	if ((h->nlines & (h->nlines - 1)) == 0)
		h->lines = mem_realloc(h->lines, (h->nlines ? 2 * h->nlines : 1) * sizeof(*h->lines));
	h->lines[h->nlines++] = (struct patch_line){ kind, r->line + skip,
						     r->len - skip + (r->returned && !r->returns) };
}

void patch_done(struct patch *p)
{
	for (size_t i = 0; i < p->nfiles; i++) {
		for (size_t k = 0; k < p->files[i].nhunks; k++)
			free(p->files[i].hunks[k].lines);
		free(p->files[i].hunks);
		free(p->files[i].path);
		free(p->files[i].move_to);
	}
	free(p->files);
	*p = (struct patch){ 0 };
}

static char *path_of(const struct patch_reader *r, size_t skip)
{
	const char *p = r->line + skip;
	size_t n = r->len - skip;

	while (n && *p == ' ') {
		p++;
		n--;
	}
	while (n && p[n - 1] == ' ')
		n--;
	return mem_strndup(p, n);
}

static int check_path(const struct patch_reader *r, const char *path, struct err *e)
{
	return path && *path && strlen(path) < 4096 ? 0 : set_error(r, e, "a path is missing or too long");
}

/* ---- the envelope ---- */

#define ADD "*** Add File: "
#define DELETE "*** Delete File: "
#define UPDATE "*** Update File: "
#define MOVE "*** Move to: "

static int envelope_added(struct patch_reader *r, struct patch_file *f, struct err *e)
{
	struct patch_hunk *h = hunk_add(r, f, e);

	if (!h)
		return -1;
	while (next_starts(r, "+") && read_line(r))
		line_add(r, h, '+', 1);
	return 0;
}

/* Parses one hunk; its @@ line, if any, is already consumed. */
static int envelope_hunk(struct patch_reader *r, struct patch_file *f, bool headed, struct err *e)
{
	struct patch_hunk *h = hunk_add(r, f, e);

	if (!h)
		return -1;
	if (headed && r->len > 3) {
		h->after = r->line + 3;
		h->after_len = r->len - 3;
	}
	while (r->p < r->end && !next_starts(r, "@@")) {
		if (next_starts(r, "*** End of File")) {
			(void)read_line(r);
			h->at_end = true;
			break;
		}
		if (next_starts(r, "***"))
			break;
		(void)read_line(r);
		if (r->len == 0)
			line_add(r, h, ' ', 0); /* an empty context line whose space was lost */
		else if (strchr(" -+", r->line[0]))
			line_add(r, h, r->line[0], 1);
		else
			return set_error(r, e, "expected a line that starts with ' ', '-' or '+'");
	}
	if (!h->nlines)
		return set_error(r, e, "a hunk without lines");
	return 0;
}

static int envelope_updated(struct patch_reader *r, struct patch_file *f, struct err *e)
{
	if (next_starts(r, MOVE) && read_line(r)) {
		f->move_to = path_of(r, strlen(MOVE));
		if (check_path(r, f->move_to, e) < 0)
			return -1;
	}
	while (r->p < r->end && !next_starts(r, "***")) {
		bool headed = next_starts(r, "@@");

		if (headed)
			(void)read_line(r);
		if (envelope_hunk(r, f, headed, e) < 0)
			return -1;
	}
	if (!f->nhunks && !f->move_to)
		return set_error(r, e, "an update without hunks");
	return 0;
}

static int parse_envelope(struct patch_reader *r, struct err *e)
{
	static const struct {
		const char *head;
		enum patch_change change;
	} heads[] = { { ADD, PATCH_ADD }, { DELETE, PATCH_DELETE }, { UPDATE, PATCH_UPDATE } };

	while (read_line(r)) {
		struct patch_file *f = NULL;

		if (line_is(r, "*** End Patch"))
			return r->patch->nfiles ? 0 : set_error(r, e, "the patch changes nothing");
		for (size_t i = 0; i < countof(heads) && !f; i++) {
			if (!line_starts(r, heads[i].head))
				continue;
			f = file_add(r, heads[i].change, e);
			if (!f)
				return -1;
			f->path = path_of(r, strlen(heads[i].head));
			if (check_path(r, f->path, e) < 0)
				return -1;
		}
		if (!f)
			return set_error(r, e,
					 "expected *** Add File:, *** Delete File:, *** Update File: or *** End Patch");
		if ((f->change == PATCH_ADD && envelope_added(r, f, e) < 0) ||
		    (f->change == PATCH_UPDATE && envelope_updated(r, f, e) < 0))
			return -1;
	}
	return set_error(r, e, "*** End Patch is missing");
}

/* ---- unified diffs ---- */

/* "--- a/path\ttime": the path, NULL for /dev/null. */
static char *diff_path(const struct patch_reader *r)
{
	const char *p = r->line + 4, *tab = memchr(p, '\t', r->len - 4);
	size_t n = tab ? (size_t)(tab - p) : r->len - 4;

	while (n && p[n - 1] == ' ')
		n--;
	if (n == 9 && memcmp(p, "/dev/null", 9) == 0)
		return NULL;
	if (n > 2 && (p[0] == 'a' || p[0] == 'b') && p[1] == '/') {
		p += 2;
		n -= 2;
	}
	return mem_strndup(p, n);
}

static bool read_number(const char **p, const char *end, size_t *ret)
{
	size_t v = 0, digits = 0;

	for (; *p < end && **p >= '0' && **p <= '9' && digits < 9; (*p)++, digits++)
		v = 10 * v + (size_t)(**p - '0');
	*ret = v;
	return digits > 0;
}

/* "@@ -l,c +l,c @@" */
static bool read_range(const struct patch_reader *r, size_t *ret_old, size_t *ret_nold, size_t *ret_nnew)
{
	const char *p = r->line + 4, *end = r->line + r->len;
	size_t line;

	*ret_nold = *ret_nnew = 1;
	if (!line_starts(r, "@@ -") || !read_number(&p, end, ret_old))
		return false;
	if (p < end && *p == ',' && (p++, !read_number(&p, end, ret_nold)))
		return false;
	if (end - p < 2 || p[0] != ' ' || p[1] != '+')
		return false;
	p += 2;
	if (!read_number(&p, end, &line) || (p < end && *p == ',' && (p++, !read_number(&p, end, ret_nnew))))
		return false;
	return end - p >= 3 && memcmp(p, " @@", 3) == 0;
}

static int diff_hunk(struct patch_reader *r, struct patch_file *f, struct err *e)
{
	struct patch_hunk *h = hunk_add(r, f, e);
	size_t nold, nnew;

	if (!h)
		return -1;
	if (!read_range(r, &h->old_line, &nold, &nnew))
		return set_error(r, e, "expected @@ -line,count +line,count @@");
	while ((nold || nnew || next_starts(r, "\\")) && read_line(r)) {
		char kind = r->len ? r->line[0] : ' ';

		if (kind == '\\') {
			h->no_newline = h->nlines && h->lines[h->nlines - 1].kind != '-';
			continue;
		}
		if (!strchr(" -+", kind) || (kind != '+' && !nold) || (kind != '-' && !nnew))
			return set_error(r, e, "the hunk does not have as many lines as its @@ line says");
		line_add(r, h, kind, r->len > 0);
		nold -= kind != '+';
		nnew -= kind != '-';
	}
	return nold || nnew ? set_error(r, e, "the hunk ends early") : 0;
}

/* Parses one file, from its "--- " line. */
static int diff_file(struct patch_reader *r, struct err *e)
{
	mem_auto char *old = diff_path(r), *new = NULL;

	if (!read_line(r) || !line_starts(r, "+++ "))
		return set_error(r, e, "expected a line that starts with '+++ '");
	new = diff_path(r);
	if (!old && !new)
		return set_error(r, e, "both sides are /dev/null");
	struct patch_file *f = file_add(r, !old ? PATCH_ADD : !new ? PATCH_DELETE : PATCH_UPDATE, e);
	if (!f)
		return -1;
	if (old && new &&strcmp(old, new) != 0)
		f->move_to = mem_take(&new);
	f->path = old ? mem_take(&old) : mem_take(&new);
	if (check_path(r, f->path, e) < 0 || (f->move_to && check_path(r, f->move_to, e) < 0))
		return -1;
	while (next_starts(r, "@@ -") && read_line(r))
		if (diff_hunk(r, f, e) < 0)
			return -1;
	return f->nhunks || f->move_to ? 0 : set_error(r, e, "a file without hunks");
}

static int parse_diff(struct patch_reader *r, struct err *e)
{
	while (read_line(r))
		/* Lines between files (diff, index, mode lines, mail) are ignored. */
		if (line_starts(r, "--- ") && next_starts(r, "+++ ") && diff_file(r, e) < 0)
			return -1;
	if (r->patch->nfiles)
		return 0;
	err_field(e, "patch", "is neither a *** Begin Patch envelope nor a unified diff");
	e->reason = REASON_NOT_A_PATCH;
	return -1;
}

int patch_parse(const char *text, size_t len, struct patch *ret, struct err *e)
{
	struct patch p = { 0 };
	struct patch_reader r = { .p = text, .end = text + len, .patch = &p };
	struct patch_reader start = r;
	int done;

	while (read_line(&start) && start.len == 0)
		r = start;
	if (start.line && line_is(&start, "*** Begin Patch")) {
		r = start;
		done = parse_envelope(&r, e);
	} else {
		done = parse_diff(&r, e);
	}
	if (done < 0) {
		patch_done(&p);
		return -1;
	}
	*ret = p;
	return 0;
}

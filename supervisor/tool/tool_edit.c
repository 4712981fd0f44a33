/*
 * edit_file: replaces a text in a file, which must occur exactly once unless all occurrences are meant. A text that
 * does not occur is usually indented differently or has changed since it was read, so the error shows the most similar
 * lines.
 */

#include "supervisor/tool/file_tool.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <string.h>

#define NEAR_LINES 40u /* of the text that are compared */
#define NEAR_SHOWN 12u
#define OCCURRENCES_SHOWN 8u

struct line {
	const char *s;
	size_t n; /* without the newline */
};

static struct line next_line(const char **p, const char *end)
{
	const char *nl = memchr(*p, '\n', (size_t)(end - *p));
	const struct line l = { *p, nl ? (size_t)(nl - *p) : (size_t)(end - *p) };

	*p = nl ? nl + 1 : end;
	return l;
}

static struct line trimmed(struct line l)
{
	for (; l.n && strchr(" \t\r", l.s[l.n - 1]); l.n--)
		;
	for (; l.n && strchr(" \t", *l.s); l.n--)
		l.s++;
	return l;
}

static bool same_line(struct line a, struct line b) { return a.n == b.n && memcmp(a.s, b.s, a.n) == 0; }

/* How many lines of the text are at this place of the file, one below the other and without regard to indentation. */
static size_t equal_lines(const char *at, const char *end, const struct line *want, size_t count)
{
	size_t equal = 0;

	for (size_t i = 0; i < count && at < end; i++)
		equal += same_line(trimmed(next_line(&at, end)), want[i]) && want[i].n;
	return equal;
}

/* Writes "nearMiss": the lines that are most similar to the text, with their numbers. */
static void write_near_miss(const struct buf *file, const struct buf *old, struct jw *w)
{
	const char *p = buf_cstr(old), *end = p + old->len, *best_at = NULL;
	struct line want[NEAR_LINES];
	size_t count = 0, best = 0, best_line = 0, line = 1;
	buf_auto struct buf text = BUF_INIT;

	while (count < NEAR_LINES && p < end)
		want[count++] = trimmed(next_line(&p, end));
	end = buf_cstr(file) + file->len;
	for (p = buf_cstr(file); p < end; line++) {
		size_t equal = equal_lines(p, end, want, count);

		if (equal > best) {
			best = equal;
			best_at = p;
			best_line = line;
		}
		(void)next_line(&p, end);
	}
	if (!best_at)
		return;
	buf_printf(&text, "%zu of %zu lines are equal except for indentation, at line %zu:\n", best, count, best_line);
	for (size_t i = 0; i < count && i < NEAR_SHOWN && best_at < end; i++) {
		struct line l = next_line(&best_at, end);

		buf_printf(&text, "%6zu\t%.*s\n", best_line + i, (int)(l.n < 300 ? l.n : 300), l.s);
	}
	jw_kstrn(w, "nearMiss", text.data, text.len);
}

static size_t count_text(const struct buf *file, const struct buf *old, struct buf *lines)
{
	const char *p = buf_cstr(file), *end = p + file->len, *from = p;
	size_t n = 0, line = 1;

	for (; (p = memmem(p, (size_t)(end - p), old->data, old->len)); p += old->len, n++) {
		for (; from < p; from++)
			line += *from == '\n';
		if (n < OCCURRENCES_SHOWN)
			buf_printf(lines, "%s%zu", n ? ", " : "", line);
	}
	return n;
}

static void replace_text(const struct buf *file, const struct buf *old, const struct buf *new, struct buf *out)
{
	const char *p = buf_cstr(file), *end = p + file->len;

	for (const char *at; (at = memmem(p, (size_t)(end - p), old->data, old->len)); p = at + old->len) {
		buf_append(out, p, (size_t)(at - p));
		buf_append(out, buf_cstr(new), new->len);
	}
	buf_append(out, p, (size_t)(end - p));
}

/* Models write \n; a file whose lines end with \r\n keeps these. */
static void use_crlf(struct buf *text)
{
	buf_auto struct buf out = BUF_INIT;

	for (size_t i = 0; i < text->len; i++) {
		if (text->data[i] == '\n' && (!i || text->data[i - 1] != '\r'))
			buf_byte(&out, '\r');
		buf_byte(&out, text->data[i]);
	}
	buf_reset(text);
	buf_append(text, buf_cstr(&out), out.len);
}

int tool_edit_file(struct jval args, struct jw *w, struct err *e)
{
	mem_auto char *path = jval_strdup(jval_get(args, "path"));
	const bool all = jval_bool(jval_get(args, "replaceAll"), false);
	buf_auto struct buf file = BUF_INIT, old = BUF_INIT, new = BUF_INIT, out = BUF_INIT, lines = BUF_INIT;

	if (!path || !*path)
		return err_field(e, "path", "missing");
	jval_str_buf(jval_get(args, "oldText"), &old);
	jval_str_buf(jval_get(args, "newText"), &new);
	if (!old.len)
		return err_field(e, "oldText", "must not be empty; write_file creates or replaces a whole file");
	if (old.len == new.len && memcmp(old.data, new.data, old.len) == 0)
		return err_field(e, "newText", "is the same as oldText: nothing would change");
	if (tool_file_load(path, &file, e) < 0)
		return -1;
	size_t n = count_text(&file, &old, &lines);
	if (!n && memchr(old.data, '\n', old.len) && file.len && memmem(file.data, file.len, "\r\n", 2)) {
		use_crlf(&old);
		use_crlf(&new);
		n = count_text(&file, &old, &lines);
	}
	if (!n) {
		write_near_miss(&file, &old, w);
		return err_set(e, ERR_CONFLICT, "oldText does not occur in '%.200s'; read the file again", path);
	}
	if (n > 1 && !all)
		return err_set(
			e, ERR_CONFLICT,
			"oldText occurs %zu times in '%.200s' (at lines %.100s%s); add lines around it to make it "
			"unique, or set replaceAll",
			n, path, buf_cstr(&lines), n > OCCURRENCES_SHOWN ? ", …" : "");
	replace_text(&file, &old, &new, &out);
	if (tool_file_store(path, buf_cstr(&out), out.len, 0, 0, e) < 0)
		return -1;
	jw_karr(w, "files");
	jw_obj(w);
	jw_kstr(w, "path", path);
	jw_kstr(w, "change", "modified");
	jw_kuint(w, "bytes", out.len);
	jw_kuint(w, "oldBytes", file.len);
	jw_obj_end(w);
	jw_arr_end(w);
	jw_kuint(w, "replacements", n);
	return 0;
}

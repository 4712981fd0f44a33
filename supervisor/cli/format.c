#include "supervisor/cli/format.h"

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char *const paints[] = {
	[FORMAT_PLAIN] = "",        [FORMAT_DIM] = "\033[2m",    [FORMAT_BOLD] = "\033[1m",
	[FORMAT_RED] = "\033[31m",  [FORMAT_GREEN] = "\033[32m", [FORMAT_YELLOW] = "\033[33m",
	[FORMAT_CYAN] = "\033[36m",
};

bool format_coloured(int fd)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(fd) && !(no && no[0]) && !(term && strcmp(term, "dumb") == 0);
}

static struct winsize size_of(int fd)
{
	struct winsize ws = { 0 };

	if (!isatty(fd) || ioctl(fd, TIOCGWINSZ, &ws) < 0)
		return (struct winsize){ 0 };
	return ws;
}

unsigned format_width(int fd)
{
	struct winsize ws = size_of(fd);

	return ws.ws_col ? ws.ws_col : isatty(fd) ? 80 : 0;
}

unsigned format_height(int fd)
{
	struct winsize ws = size_of(fd);

	return ws.ws_row ? ws.ws_row : isatty(fd) ? 24 : 0;
}

void format_paint(struct buf *out, bool on, enum format_colour colour, const char *text)
{
	on = on && colour != FORMAT_PLAIN;
	if (on)
		buf_str(out, paints[colour]);
	buf_str(out, text);
	if (on)
		buf_str(out, "\033[0m");
}

enum format_colour format_status_colour(const char *status)
{
	static const struct {
		const char *status;
		enum format_colour colour;
	} map[] = {
		{ "running", FORMAT_GREEN },
		{ "failed", FORMAT_RED },
		{ "lost", FORMAT_RED },
		{ "terminated", FORMAT_YELLOW },
		{ "waiting_permission", FORMAT_YELLOW },
	};

	for (size_t i = 0; i < countof(map); i++)
		if (strcmp(map[i].status, status) == 0)
			return map[i].colour;
	return FORMAT_PLAIN;
}

/* ---- tables ---- */

void format_table_init(struct format_table *t, const char *const *heads, size_t n)
{
	*t = (struct format_table){ .ncolumns = n };
	for (size_t i = 0; i < n; i++)
		format_table_cell(t, FORMAT_BOLD, heads[i]);
}

void format_table_cell(struct format_table *t, enum format_colour colour, const char *text)
{
	buf_auto struct buf clean = BUF_INIT;

	text_sanitize(text, strlen(text), &clean);
	for (size_t i = 0; i < clean.len; i++)
		if (clean.data[i] == '\n' || clean.data[i] == '\t')
			clean.data[i] = ' ';
	t->cells = mem_realloc(t->cells, (t->ncells + 1) * sizeof(*t->cells));
	t->cells[t->ncells++] = (struct format_cell){ .text = buf_take(&clean), .colour = colour };
}

void format_table_done(struct format_table *t)
{
	for (size_t i = 0; i < t->ncells; i++)
		free(t->cells[i].text);
	free(t->cells);
	*t = (struct format_table){ 0 };
}

/* Counts characters as one column each: sufficient for commands. */
static size_t columns_of(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

/* Truncates the text; the last column shows an ellipsis. */
static void cut_to(char **text, size_t columns)
{
	size_t n = 0, keep = 0;

	for (const char *s = *text; *s; s++) {
		n += ((unsigned char)*s & 0xc0) != 0x80;
		if (n < columns)
			keep = (size_t)(s - *text) + 1;
	}
	if (n <= columns)
		return;
	char *cut = mem_printf("%.*s%s", (int)keep, *text, columns ? "…" : "");
	free(*text);
	*text = cut;
}

/* Only the last column is cut; the others always have their full width. */
static void render_row(const struct format_table *t, size_t row, const size_t *widths, bool coloured, unsigned width,
		       struct buf *out)
{
	size_t used = 0;

	for (size_t c = 0; c < t->ncolumns; c++) {
		const struct format_cell *cell = &t->cells[row * t->ncolumns + c];
		mem_auto char *text = mem_strdup(cell->text);
		bool last = c + 1 == t->ncolumns;

		if (last && width)
			cut_to(&text, width > used ? width - used : 0);
		format_paint(out, coloured, cell->colour, text);
		if (last)
			break;
		for (size_t pad = columns_of(text); pad < widths[c] + 2; pad++)
			buf_byte(out, ' ');
		used += widths[c] + 2;
	}
	buf_byte(out, '\n');
}

void format_table_render(const struct format_table *t, bool coloured, unsigned width, struct buf *out)
{
	size_t widths[FORMAT_COLUMNS] = { 0 };

	for (size_t i = 0; i < t->ncells; i++) {
		size_t n = columns_of(t->cells[i].text), c = i % t->ncolumns;
		if (n > widths[c])
			widths[c] = n;
	}
	for (size_t row = 0; row < t->ncells / t->ncolumns; row++)
		render_row(t, row, widths, coloured, width, out);
}

/* ---- members of a process ---- */

static bool real_us_of(struct jval timestamp, uint64_t *ret)
{
	char text[CLOCK_TEXT_MAX + 16];

	jval_str(timestamp, text, sizeof(text));
	return text[0] && clock_parse(text, ret) == 0;
}

static void rough_time(uint64_t s, struct buf *out)
{
	if (s < 120)
		buf_printf(out, "%us", (unsigned)s);
	else if (s < 2 * 3600)
		buf_printf(out, "%um", (unsigned)(s / 60));
	else if (s < 2 * 86400)
		buf_printf(out, "%uh", (unsigned)(s / 3600));
	else
		buf_printf(out, "%llud", (unsigned long long)(s / 86400));
}

void format_ago(struct jval timestamp, uint64_t now_us, struct buf *out)
{
	uint64_t then;

	if (!real_us_of(timestamp, &then)) {
		buf_byte(out, '-');
		return;
	}
	rough_time(now_us > then ? (now_us - then) / 1000000 : 0, out);
	buf_str(out, " ago");
}

void format_left(struct jval timestamp, uint64_t now_us, struct buf *out)
{
	uint64_t then;

	if (!real_us_of(timestamp, &then)) {
		buf_byte(out, '-');
		return;
	}
	rough_time(then > now_us ? (then - now_us) / 1000000 : 0, out);
}

static void quote_word(const char *s, struct buf *out)
{
	static const char harmless[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%^";

	if (s[0] && strspn(s, harmless) == strlen(s)) {
		buf_str(out, s);
		return;
	}
	buf_byte(out, '\'');
	for (; *s; s++)
		if (*s == '\'')
			buf_str(out, "'\\''");
		else
			buf_byte(out, *s);
	buf_byte(out, '\'');
}

void format_command(struct jval process, struct buf *out)
{
	struct jval line = jval_get(process, "commandLine");
	bool first = true;

	if (line.type == JT_STRING) {
		jval_str_buf(line, out);
		return;
	}
	for (struct jiter it = jiter_on(jval_get(process, "command")); jiter_next(&it); first = false) {
		mem_auto char *word = jval_strdup(it.value);
		if (!first)
			buf_byte(out, ' ');
		if (word)
			quote_word(word, out);
	}
	if (jval_bool(jval_get(process, "commandTruncated"), false))
		buf_str(out, " ...");
}

void format_duration(struct jval process, uint64_t now_us, struct buf *out)
{
	struct jval ms = jval_get(process, "durationMs");
	uint64_t from, to, took;
	char text[16];

	if (ms.type == JT_NUMBER) {
		took = jval_uint(ms, 0);
	} else if (real_us_of(jval_get(process, "startedAt"), &from)) {
		if (!real_us_of(jval_get(process, "endedAt"), &to))
			to = now_us;
		took = to > from ? (to - from) / 1000 : 0;
	} else {
		buf_byte(out, '-');
		return;
	}
	text_format_duration(took, text);
	buf_str(out, text);
}

void format_exit(struct jval process, struct buf *out)
{
	struct jval sig = jval_get(process, "signal"), code = jval_get(process, "exitCode");

	if (sig.type == JT_NUMBER && jval_int(sig, 0) > 0)
		buf_str(out, text_signal_name((int)jval_int(sig, 0)));
	else if (sig.type == JT_STRING)
		jval_str_buf(sig, out);
	else if (code.type == JT_NUMBER)
		buf_append(out, code.text, code.len);
	else
		buf_byte(out, '-');
}

void format_scalar(struct jval v, struct buf *out)
{
	buf_auto struct buf plain = BUF_INIT;

	if (v.type != JT_STRING) {
		buf_append(out, v.text, v.len);
		return;
	}
	jval_str_buf(v, &plain);
	text_sanitize_line(buf_cstr(&plain), plain.len, out);
}

void format_json(struct jval v, unsigned indent, struct buf *out)
{
	struct jiter it = jiter_on(v);

	if (v.type != JT_OBJECT && v.type != JT_ARRAY) {
		buf_printf(out, "%*s", (int)indent, "");
		format_scalar(v, out);
		buf_byte(out, '\n');
		return;
	}
	while (jiter_next(&it)) {
		bool nested = it.value.type == JT_OBJECT || it.value.type == JT_ARRAY;
		bool empty = nested && it.value.len == 2;

		buf_printf(out, "%*s", (int)indent, "");
		if (it.object) {
			format_scalar(it.key, out);
			buf_str(out, nested && !empty ? ":" : ": ");
		} else {
			buf_str(out, nested && !empty ? "-" : "- ");
		}
		if (empty)
			buf_append(out, it.value.text, it.value.len);
		else if (!nested)
			format_scalar(it.value, out);
		buf_byte(out, '\n');
		if (nested && !empty && indent < 64)
			format_json(it.value, indent + 2, out);
	}
}

int format_write(int fd, const char *text, size_t n)
{
	buf_auto struct buf visible = BUF_INIT;

	if (!isatty(fd))
		return n ? fd_write_all(fd, text, n) : 0;
	text_json_visible(text, n, &visible);
	return visible.len ? fd_write_all(fd, visible.data, visible.len) : 0;
}

int format_out(const struct buf *b)
{
	if (format_write(STDOUT_FILENO, b->data, b->len) == 0)
		return 0;
	if (errno != EPIPE)
		fprintf(stderr, "bailiff: write to stdout: %s\n", strerror(errno));
	return 1;
}

/* ---- lists ---- */

void format_list_init(struct format_list *l, const char *const *heads, size_t n, bool as_json)
{
	*l = (struct format_list){ .now_us = clock_real_us(), .as_json = as_json };
	format_table_init(&l->table, heads, n);
	buf_byte(&l->json, '[');
}

bool format_list_takes(struct format_list *l, struct jval element)
{
	if (!l->as_json)
		return false;
	buf_str(&l->json, l->json.len > 1 ? ",\n" : "\n");
	buf_append(&l->json, element.text, element.len);
	return true;
}

int format_list_print(struct format_list *l)
{
	buf_auto struct buf out = BUF_INIT;

	if (l->as_json) {
		buf_str(&l->json, "\n]\n");
		return format_out(&l->json);
	}
	format_table_render(&l->table, format_coloured(STDOUT_FILENO), format_width(STDOUT_FILENO), &out);
	return format_out(&out);
}

void format_list_done(struct format_list *l)
{
	format_table_done(&l->table);
	buf_done(&l->json);
}

/*
 * Text that came from a process or a client is untrusted on a terminal: an escape sequence in a file name could hide a
 * line or imitate one. So every function here that takes such text sanitises it, and what is printed passes through
 * format_write.
 */

#include "supervisor/cli/format.h"

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"

#include <errno.h>
#include <locale.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#define ID_RANDOM_PART 26    /* characters of a generated id after its prefix */
#define ID_END 6             /* the fewest that are shown of one */
#define LAST_COLUMN 40       /* a last column that is cut to less makes ids shorter */
#define LAST_COLUMN_LEAST 10 /* cutting it to less would leave nothing to read */

static const char *const paints[] = {
	[FORMAT_PLAIN] = "",        [FORMAT_DIM] = "\033[2m",    [FORMAT_BOLD] = "\033[1m",
	[FORMAT_RED] = "\033[31m",  [FORMAT_GREEN] = "\033[32m", [FORMAT_YELLOW] = "\033[33m",
	[FORMAT_CYAN] = "\033[36m",
};

/* NO_COLOR and TERM=dumb are the conventions of other tools. */
bool format_has_control(int fd)
{
	const char *term = getenv("TERM");

	return isatty(fd) && !(term && strcmp(term, "dumb") == 0);
}

bool format_coloured(int fd)
{
	const char *no = getenv("NO_COLOR");

	return format_has_control(fd) && !(no && no[0]);
}

static struct winsize size_of(int fd)
{
	struct winsize ws = { 0 };

	if (!isatty(fd) || ioctl(fd, TIOCGWINSZ, &ws) < 0)
		return (struct winsize){ 0 };
	return ws;
}

static unsigned format_width(int fd)
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

/* Only states that need attention have a colour. */
static enum format_colour format_status_colour(const char *status)
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

/* A cell is one line: newlines and tabs would break the columns. */
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

/*
 * The columns of the character at `s`, and in *ret_bytes its length: 2 for wide ones (CJK, emoji), 0 for those that
 * combine with the one before. wcwidth needs a locale that knows UTF-8; without one, every character counts as 1.
 */
static size_t columns_at(const char *s, size_t *ret_bytes)
{
	static locale_t utf8;
	size_t n = 1;
	wchar_t c;

	while (((unsigned char)s[n] & 0xc0) == 0x80)
		n++;
	*ret_bytes = n;
	if ((unsigned char)*s < 0x80)
		return 1;
	if (!utf8 && !(utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0)))
		return 1;
	locale_t before = uselocale(utf8);
	int columns = mbrtowc(&c, s, n, &(mbstate_t){ 0 }) == n ? wcwidth(c) : 1;
	uselocale(before);
	return columns < 0 ? 1 : (size_t)columns;
}

static size_t columns_of(const char *s)
{
	size_t n = 0, bytes;

	for (; *s; s += bytes)
		n += columns_at(s, &bytes);
	return n;
}

/* Truncates the text; the last column shows an ellipsis. */
static void cut_to(char **text, size_t columns)
{
	size_t n = 0, keep = 0, bytes;

	for (const char *s = *text; *s; s += bytes) {
		n += columns_at(s, &bytes);
		if (n < columns)
			keep = (size_t)(s - *text) + bytes;
	}
	if (n <= columns)
		return;
	char *cut = mem_printf("%.*s%s", (int)keep, *text, columns ? "…" : "");
	free(*text);
	*text = cut;
}

/* A generated id: "proc_" and 26 characters. */
static bool is_generated_id(const char *text)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz");

	return n && text[n] == '_' && strlen(text + n + 1) == ID_RANDOM_PART &&
	       strspn(text + n + 1, "abcdefghijklmnopqrstuvwxyz0123456789") == ID_RANDOM_PART;
}

/* How many of their last characters two texts have in common. */
static size_t common_end(const char *a, const char *b)
{
	size_t na = strlen(a), nb = strlen(b), n = 0;

	while (n < na && n < nb && a[na - n - 1] == b[nb - n - 1])
		n++;
	return n;
}

/* Orders texts by their reversed characters, so that those with the longest common ends are neighbours. */
static int compare_ends(const void *x, const void *y)
{
	const char *a = *(const char *const *)x, *b = *(const char *const *)y;
	size_t na = strlen(a), nb = strlen(b), n = common_end(a, b);

	if (n == na || n == nb)
		return na < nb ? -1 : na > nb;
	return (unsigned char)a[na - n - 1] < (unsigned char)b[nb - n - 1] ? -1 : 1;
}

/* Shows the ends of a column's ids, as long as needed to tell them apart; verbs accept them (id_lookup.h). */
static void shorten_ids(struct format_table *t, size_t column)
{
	const size_t rows = t->ncells / t->ncolumns;
	mem_auto char **ids = mem_alloc(rows * sizeof(*ids));
	size_t n = 0, keep = ID_END;

	for (size_t row = 1; row < rows; row++)
		if (is_generated_id(t->cells[row * t->ncolumns + column].text))
			ids[n++] = t->cells[row * t->ncolumns + column].text;
	qsort(ids, n, sizeof(*ids), compare_ends);
	for (size_t i = 1; i < n; i++) {
		size_t common = strcmp(ids[i - 1], ids[i]) == 0 ? 0 : common_end(ids[i - 1], ids[i]);

		if (common >= keep)
			keep = common + 1;
	}
	for (size_t i = 0; i < n && keep <= ID_RANDOM_PART; i++)
		memmove(ids[i], ids[i] + strlen(ids[i]) - keep, keep + 1);
}

static void drop_column(struct format_table *t, size_t column)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->ncells; i++)
		if (i % t->ncolumns == column)
			free(t->cells[i].text);
		else
			t->cells[kept++] = t->cells[i];
	t->ncells = kept;
	memmove(t->optional + column, t->optional + column + 1, (t->ncolumns - column - 1) * sizeof(t->optional[0]));
	t->ncolumns--;
}

/* The widest cell of each column; returns the room that is left for the last one. */
static size_t measure(const struct format_table *t, unsigned width, size_t widths[FORMAT_COLUMNS])
{
	size_t used = 0;

	memset(widths, 0, FORMAT_COLUMNS * sizeof(*widths));
	for (size_t i = 0; i < t->ncells; i++) {
		size_t n = columns_of(t->cells[i].text), c = i % t->ncolumns;
		if (n > widths[c])
			widths[c] = n;
	}
	for (size_t c = 0; c + 1 < t->ncolumns; c++)
		used += widths[c] + 2;
	return width > used ? width - used : 0;
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

/*
 * The last column is the one that people look for: a command, a title. On a narrow terminal it gets the room that ids
 * and optional columns need, and where that is not enough, a row continues on the next line.
 */
void format_table_finish(struct format_table *t, struct buf *out)
{
	unsigned width = format_width(STDOUT_FILENO);
	size_t widths[FORMAT_COLUMNS], room = measure(t, width, widths);

	if (width && room < widths[t->ncolumns - 1] && room < LAST_COLUMN) {
		for (size_t c = 0; c + 1 < t->ncolumns; c++)
			if (strcmp(t->cells[c].text, "NAME") != 0) /* names are looked up as a whole */
				shorten_ids(t, c);
		room = measure(t, width, widths);
		for (size_t c = t->ncolumns - 1; c-- > 0 && room < widths[t->ncolumns - 1] && room < LAST_COLUMN;)
			if (t->optional[c]) {
				drop_column(t, c);
				room = measure(t, width, widths);
			}
		for (unsigned line = width; room < LAST_COLUMN_LEAST || (width > line && room < LAST_COLUMN / 2);
		     room = measure(t, width, widths))
			width += line;
	}
	for (size_t row = 0; row < t->ncells / t->ncolumns; row++)
		render_row(t, row, widths, format_coloured(STDOUT_FILENO), width, out);
	for (size_t i = 0; i < t->ncells; i++)
		free(t->cells[i].text);
	free(t->cells);
	*t = (struct format_table){ 0 };
}

/* ---- members of a process ---- */

static bool real_us_of(struct jval timestamp, uint64_t *ret)
{
	char text[CLOCK_TEXT_MAX + 16];

	jval_str(timestamp, text, sizeof(text));
	return text[0] && clock_parse(text, ret) == 0;
}

/* Two units are too long for a column, and one is precise enough below 120 of it. */
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

/* "3s ago" */
static void format_ago(struct jval timestamp, uint64_t now_us, struct buf *out)
{
	uint64_t then;

	if (!real_us_of(timestamp, &then)) {
		buf_byte(out, '-');
		return;
	}
	rough_time(now_us > then ? (now_us - then) / 1000000 : 0, out);
	buf_str(out, " ago");
}

/* "12m" */
static void format_left(struct jval timestamp, uint64_t now_us, struct buf *out)
{
	uint64_t then;

	if (!real_us_of(timestamp, &then)) {
		buf_byte(out, '-');
		return;
	}
	rough_time(then > now_us ? (then - now_us) / 1000000 : 0, out);
}

/* So that the command can be copied to a shell. */
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

/* The recorded duration is exact; otherwise from the two times, or until now. */
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

/* "0", "3", "KILL" or "-" */
static void format_exit(struct jval process, struct buf *out)
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

/* Like YAML, but only for reading: strings are not quoted. */
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

static bool print_failed;

/* A reader that has gone away (head, less) is not worth a message. */
int format_print(const char *text, size_t n)
{
	if (format_write(STDOUT_FILENO, text, n) == 0)
		return 0;
	if (errno != EPIPE && !print_failed) {
		cli_error("write to stdout: %s", strerror(errno));
		print_failed = true;
	}
	return -1;
}

bool format_print_failed(void) { return print_failed; }

int format_out(const struct buf *b) { return format_print(b->data, b->len) < 0 ? EXIT_FAILED : 0; }

int format_record(struct jval record, bool as_json)
{
	buf_auto struct buf out = BUF_INIT;

	if (as_json) {
		buf_append(&out, record.text, record.len);
		buf_byte(&out, '\n');
	} else {
		format_json(record, 0, &out);
	}
	return format_out(&out);
}

void format_output_line(const char *stream, const char *p, size_t n, struct buf *out)
{
	struct jw w = jw_on(out);

	if (!n)
		return;
	jw_obj(&w);
	jw_kstr(&w, "stream", stream);
	if (text_utf8_valid(p, n)) {
		jw_kstrn(&w, "text", p, n);
	} else {
		jw_key(&w, "base64");
		jw_base64(&w, p, n);
	}
	jw_obj_end(&w);
	buf_byte(out, '\n');
}

/* ---- lists ---- */

/* Kinds of columns in verbs.def. Those that need several members get the whole element: their path is empty. */
enum column_kind {
	COLUMN_TEXT,
	COLUMN_DIM,
	COLUMN_STATUS,
	COLUMN_AGO,
	COLUMN_LEFT,   /* the time until then */
	COLUMN_COUNT,  /* the number of an array's elements */
	COLUMN_NUMBER, /* 0 if it is missing */
	COLUMN_PERCENT,
	COLUMN_IF,    /* the member's name, if it is true */
	COLUMN_ITEMS, /* of a job: how many have ended, of how many */
	COLUMN_EXIT,  /* of a process, like the next two */
	COLUMN_DURATION,
	COLUMN_COMMAND,
	COLUMN_WORD, /* quoted where necessary: its blanks must not look like the end of the column */
};
static const char *const column_kinds[] = { "",        "dim", "status", "ago",  "left",     "count",   "number",
					    "percent", "if",  "items",  "exit", "duration", "command", "word" };

struct column {
	char head[32], path[40], other[40]; /* the path, and the one to use if that is missing */
	enum column_kind kind;
	bool optional;
};

/* "HEAD=PATH,OTHER:KIND …"; HEAD? is optional. Returns the number of columns. */
static size_t parse_columns(const char *spec, struct column ret[FORMAT_COLUMNS])
{
	size_t n = 0;

	for (; *spec && n < FORMAT_COLUMNS; spec += strspn(spec, " "), n++) {
		struct column *c = &ret[n];
		char kind[16] = "";

		*c = (struct column){ 0 };
		size_t len = strcspn(spec, "=");
		c->optional = spec[len - 1] == '?';
		snprintf(c->head, sizeof(c->head), "%.*s", (int)(len - c->optional), spec);
		spec += len + 1;
		len = strcspn(spec, ",: ");
		snprintf(c->path, sizeof(c->path), "%.*s", (int)len, spec);
		spec += len;
		if (*spec == ',') {
			len = strcspn(++spec, ": ");
			snprintf(c->other, sizeof(c->other), "%.*s", (int)len, spec);
			spec += len;
		}
		if (*spec == ':') {
			len = strcspn(++spec, " ");
			snprintf(kind, sizeof(kind), "%.*s", (int)len, spec);
			spec += len;
		}
		while (strcmp(column_kinds[c->kind], kind) != 0) /* the tables are part of the program */
			c->kind++;
	}
	return n;
}

static void add_cell(struct format_table *t, struct jval element, const struct column *col, uint64_t now_us)
{
	buf_auto struct buf text = BUF_INIT;
	struct jval v = col->path[0] ? jval_path(element, col->path) : element;
	enum format_colour colour = FORMAT_PLAIN;
	const char *name = strrchr(col->path, '.');
	size_t n = 0;

	if (v.type == JT_NONE && col->other[0])
		v = jval_path(element, col->other);
	switch (col->kind) {
	case COLUMN_AGO: format_ago(v, now_us, &text); break;
	case COLUMN_LEFT: format_left(v, now_us, &text); break;
	case COLUMN_EXIT: format_exit(v, &text); break;
	case COLUMN_DURATION: format_duration(v, now_us, &text); break;
	case COLUMN_COMMAND: format_command(v, &text); break;
	case COLUMN_WORD: {
		mem_auto char *word = jval_strdup(v);
		if (word)
			quote_word(word, &text);
		break;
	}
	case COLUMN_NUMBER: buf_printf(&text, "%llu", (unsigned long long)jval_uint(v, 0)); break;
	case COLUMN_ITEMS:
		buf_printf(&text, "%llu/%llu",
			   (unsigned long long)(jval_uint(jval_path(v, "progress.completed"), 0) +
						jval_uint(jval_path(v, "progress.reported"), 0)),
			   (unsigned long long)jval_uint(jval_get(v, "itemCount"), 0));
		break;
	case COLUMN_IF:
		if (jval_bool(v, false))
			buf_str(&text, name ? name + 1 : col->path);
		colour = FORMAT_RED;
		break;
	case COLUMN_COUNT:
		for (struct jiter it = jiter_on(v); jiter_next(&it);)
			n++;
		buf_printf(&text, "%zu", n);
		break;
	case COLUMN_TEXT:
	case COLUMN_DIM:
	case COLUMN_STATUS:
	case COLUMN_PERCENT:
		if (v.type == JT_STRING)
			jval_str_buf(v, &text);
		else if (v.type != JT_NONE)
			buf_append(&text, v.text, v.len);
		if (col->kind == COLUMN_STATUS)
			colour = format_status_colour(buf_cstr(&text));
		if (col->kind == COLUMN_PERCENT && text.len)
			buf_byte(&text, '%');
		break;
	}
	if (col->kind == COLUMN_AGO || col->kind == COLUMN_LEFT || col->kind == COLUMN_DIM ||
	    col->kind == COLUMN_PERCENT || !text.len)
		colour = FORMAT_DIM;
	format_table_cell(t, colour, text.len ? text.data : "-");
}

int format_columns(const char *spec, struct jval list, bool as_json)
{
	struct column columns[FORMAT_COLUMNS];
	const char *heads[FORMAT_COLUMNS] = { 0 };
	buf_auto struct buf out = BUF_INIT;
	uint64_t now = clock_real_us();
	struct format_table t;

	if (as_json)
		return format_record(list.type == JT_ARRAY ? list : jval_of("[]", 2), true);
	size_t n = parse_columns(spec, columns);
	for (size_t i = 0; i < n; i++)
		heads[i] = columns[i].head;
	format_table_init(&t, heads, n);
	for (size_t i = 0; i < n; i++)
		t.optional[i] = columns[i].optional;
	for (struct jiter it = jiter_on(list); jiter_next(&it);)
		for (size_t i = 0; i < n; i++)
			add_cell(&t, it.value, &columns[i], now);
	format_table_finish(&t, &out);
	return format_out(&out);
}

int format_ids(const char *spec, struct jval list)
{
	struct column columns[FORMAT_COLUMNS];
	buf_auto struct buf out = BUF_INIT;

	parse_columns(spec, columns);
	for (struct jiter it = jiter_on(list); jiter_next(&it);) {
		jval_str_buf(jval_path(it.value, columns[0].path), &out);
		buf_byte(&out, '\n');
	}
	return format_out(&out);
}

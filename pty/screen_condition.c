#include "pty/screen_condition.h"

#include "pty/screen.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"

/* A match takes up to the product of the text and the items of the pattern, so a large pattern sees less of the text.
 */
#define SCAN_MIN (2u << 10)
#define SCAN_MAX (32u << 10)
#define SCAN_PRODUCT (256u << 10)

static int fail_size(struct err *e)
{
	return err_field(e, "until.regex", "repeats too much: it may have %u items with all repetitions written out",
			 SCREEN_CONDITION_SIZE_MAX);
}

/* Skips a bracket expression: [^]a-z[:alpha:]]. Returns its last byte. */
static const char *bracket_end(const char *p)
{
	p += p[1] == '^';
	p += p[1] == ']';
	for (p++; *p && *p != ']'; p++) {
		if (*p == '[' && p[1] && strchr(".:=", p[1])) {
			const char close[] = { p[1], ']', '\0' };
			const char *end = strstr(p + 2, close);
			if (end)
				p = end + 1;
		}
	}
	return *p ? p : p - 1;
}

/* The copies of an item that a repetition at *p compiles to; 0: this is none. Moves *p to its last byte. */
static unsigned long copies_of(const char **p)
{
	char *end;

	if (**p == '+')
		return 2; /* x+ is compiled as xx* */
	if (**p != '{')
		return 0;
	unsigned long from = strtoul(*p + 1, &end, 10), to = from;
	if (*end == ',') {
		const char *second = end + 1;
		to = strtoul(second, &end, 10);
		if (end == second)
			to = from + 1; /* x{3,} is compiled as xxxx* */
	}
	if (*end != '}')
		return 0;
	*p = end;
	const unsigned long most = from > to ? from : to;
	return most ? most : 1;
}

/*
 * Compiling takes memory for each item of the pattern with its repetitions written out, which multiply if nested.
 * Returns how many these are, or −1.
 */
static int check_pattern(const char *p, struct err *e)
{
	struct {
		unsigned long size, last; /* of this group, of its last item */
	} group[SCREEN_CONDITION_REGEX_MAX + 1] = { 0 }, *g = group;

	for (; *p; p++) {
		const unsigned long copies = copies_of(&p);

		if (copies > SCREEN_CONDITION_SIZE_MAX)
			return fail_size(e);
		if (copies) {
			g->size += g->last * (copies - 1);
			g->last *= copies;
		} else if (*p == '(') {
			g++;
			g->size = g->last = 0;
		} else if (*p == ')' && g > group) {
			const unsigned long inner = g->size + 1;
			g--;
			g->size += inner;
			g->last = inner;
		} else if (!strchr("*?", *p)) {
			if (*p == '\\' && p[1] >= '1' && p[1] <= '9')
				return err_field(e, "until.regex", "must not use back-references (\\%c)", p[1]);
			p = *p == '[' ? bracket_end(p) : p + (*p == '\\' && p[1]);
			g->size++;
			g->last = 1;
		}
		if (g->size > SCREEN_CONDITION_SIZE_MAX)
			return fail_size(e);
	}
	return (int)group[0].size;
}

static int compile_regex(struct screen_condition *u, const char *pattern, struct err *e)
{
	char why[160];
	int r;

	if (!*pattern || strlen(pattern) > SCREEN_CONDITION_REGEX_MAX)
		return err_field(e, "until.regex", "must have 1 to %u bytes", SCREEN_CONDITION_REGEX_MAX);
	const int size = check_pattern(pattern, e);
	if (size < 0)
		return -1;
	const size_t share = SCAN_PRODUCT / (size_t)(size ? size : 1);
	u->scan_max = share < SCAN_MIN ? SCAN_MIN : share > SCAN_MAX ? SCAN_MAX : share;
	u->regex = mem_zalloc(1, sizeof(*u->regex));
	r = regcomp(u->regex, pattern, REG_EXTENDED | REG_NEWLINE | REG_NOSUB);
	if (r == 0)
		return 0;
	regerror(r, u->regex, why, sizeof(why));
	free(u->regex);
	u->regex = NULL;
	return err_field(e, "until.regex", "is not a POSIX extended regular expression: %s", why);
}

int screen_condition_init(struct screen_condition *u, const char *text, const char *regex, struct err *e)
{
	*u = (struct screen_condition){ 0 };
	if (text && (!*text || strlen(text) > SCREEN_CONDITION_TEXT_MAX))
		return err_field(e, "until.text", "must have 1 to %u bytes", SCREEN_CONDITION_TEXT_MAX);
	if (regex && compile_regex(u, regex, e) < 0)
		return -1;
	u->text = mem_strdup(text);
	return 0;
}

void screen_condition_done(struct screen_condition *u)
{
	free(u->text);
	if (u->regex)
		regfree(u->regex);
	free(u->regex);
	*u = (struct screen_condition){ 0 };
}

/* The newest part, starting at the beginning of a line. */
static const char *newest_text(const struct buf *b, size_t max)
{
	const char *p;

	if (b->len <= max)
		return buf_cstr(b);
	p = strchr(b->data + b->len - max, '\n');
	return p ? p + 1 : b->data + b->len;
}

/* The text comes first, because searching for it is cheaper than matching. */
static enum screen_match check_after(const struct screen_condition *u, const struct screen *s, uint64_t after)
{
	buf_auto struct buf drawn = BUF_INIT, trimmed = BUF_INIT;

	screen_drawn_after(s, after, false, &drawn);
	if (u->text && strstr(newest_text(&drawn, SCAN_MAX), u->text))
		return SCREEN_CONDITION_TEXT;
	if (!u->regex)
		return SCREEN_CONDITION_NONE;
	if (regexec(u->regex, newest_text(&drawn, u->scan_max), 0, NULL, 0) == 0)
		return SCREEN_CONDITION_REGEX;
	/* Retry without trailing blanks, so that $ also matches in programs that pad their lines. */
	screen_drawn_after(s, after, true, &trimmed);
	return regexec(u->regex, newest_text(&trimmed, u->scan_max), 0, NULL, 0) == 0 ? SCREEN_CONDITION_REGEX
										      : SCREEN_CONDITION_NONE;
}

enum screen_match screen_condition_check(const struct screen_condition *u, const struct screen *s)
{
	enum screen_match m;

	if (!u->text && !u->regex)
		return SCREEN_CONDITION_NONE;
	if (u->has_after)
		return check_after(u, s, u->after);
	m = check_after(u, s, 0);
	return m || !u->after ? m : check_after(u, s, u->after);
}

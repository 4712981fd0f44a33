#include "pty/screen_condition.h"

#include "pty/screen.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#define SCAN_MAX (32u * 1024) /* of the newest text: bounds the cost of one match */

/* Nested counts like {3,20} multiply the size of the compiled pattern. */
static int check_pattern(const char *p, struct err *e)
{
	unsigned long product = 1;

	for (; *p; p++) {
		if (*p == '\\' && p[1] >= '1' && p[1] <= '9')
			return err_field(e, "until.regex", "must not use back-references (\\%c)", p[1]);
		if (*p == '\\' && p[1]) {
			p++;
			continue;
		}
		if (*p != '{')
			continue;
		for (p++; *p && *p != '}'; p++) {
			char *end;
			unsigned long n;

			if (*p < '0' || *p > '9')
				continue;
			n = strtoul(p, &end, 10);
			p = end - 1;
			if (n > SCREEN_CONDITION_REPEAT_MAX || (n && (product *= n) > SCREEN_CONDITION_REPEAT_MAX))
				return err_field(e, "until.regex",
						 "repeats too much: all its counts in braces together may make %u",
						 SCREEN_CONDITION_REPEAT_MAX);
		}
		if (!*p)
			break;
	}
	return 0;
}

static int compile_regex(struct screen_condition *u, const char *pattern, struct err *e)
{
	char why[160];
	int r;

	if (!*pattern || strlen(pattern) > SCREEN_CONDITION_REGEX_MAX)
		return err_field(e, "until.regex", "must have 1 to %u bytes", SCREEN_CONDITION_REGEX_MAX);
	if (check_pattern(pattern, e) < 0)
		return -1;
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
static const char *newest_text(const struct buf *b)
{
	const char *p;

	if (b->len <= SCAN_MAX)
		return buf_cstr(b);
	p = strchr(b->data + b->len - SCAN_MAX, '\n');
	return p ? p + 1 : b->data + b->len;
}

/* The text comes first, because searching for it is cheaper than matching. */
static enum screen_match check_after(const struct screen_condition *u, const struct screen *s, uint64_t after)
{
	buf_auto struct buf drawn = BUF_INIT, trimmed = BUF_INIT;

	screen_drawn_after(s, after, false, &drawn);
	if (u->text && strstr(newest_text(&drawn), u->text))
		return SCREEN_CONDITION_TEXT;
	if (!u->regex)
		return SCREEN_CONDITION_NONE;
	if (regexec(u->regex, newest_text(&drawn), 0, NULL, 0) == 0)
		return SCREEN_CONDITION_REGEX;
	/* Retry without trailing blanks, so that $ also matches in programs that pad their lines. */
	screen_drawn_after(s, after, true, &trimmed);
	return regexec(u->regex, newest_text(&trimmed), 0, NULL, 0) == 0 ? SCREEN_CONDITION_REGEX
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

#include "supervisor/client/keys.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/text.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static const struct key {
	const char *name, *bytes;
} keys[] = {
	{ "Enter", "\r" },
	{ "Tab", "\t" },
	{ "BTab", "\033[Z" },
	{ "Escape", "\033" },
	{ "Space", " " },
	{ "Comma", "," },
	{ "BSpace", "\177" },
	{ "Up", "\033[A" },
	{ "Down", "\033[B" },
	{ "Right", "\033[C" },
	{ "Left", "\033[D" },
	{ "Home", "\033[H" },
	{ "End", "\033[F" },
	{ "Insert", "\033[2~" },
	{ "Delete", "\033[3~" },
	{ "PageUp", "\033[5~" },
	{ "PageDown", "\033[6~" },
	{ "F1", "\033OP" },
	{ "F2", "\033OQ" },
	{ "F3", "\033OR" },
	{ "F4", "\033OS" },
	{ "F5", "\033[15~" },
	{ "F6", "\033[17~" },
	{ "F7", "\033[18~" },
	{ "F8", "\033[19~" },
	{ "F9", "\033[20~" },
	{ "F10", "\033[21~" },
	{ "F11", "\033[23~" },
	{ "F12", "\033[24~" },
	/* aliases */
	{ "Return", "\r" },
	{ "Esc", "\033" },
	{ "Backspace", "\177" },
	{ "PgUp", "\033[5~" },
	{ "PgDn", "\033[6~" },
	{ "Del", "\033[3~" },
};
#define NAMED 29 /* the number of rows before the aliases */

void keys_names(struct buf *out)
{
	for (size_t i = 0; i < NAMED; i++)
		buf_printf(out, "%s%s", i ? ", " : "", keys[i].name);
}

/* The text after a modifier ("C-", "ctrl-" …), or NULL. */
static const char *skip_modifier(const char *s, const char *brief, const char *spelt)
{
	if (strncmp(s, brief, strlen(brief)) == 0)
		return s + strlen(brief);
	return strncasecmp(s, spelt, strlen(spelt)) == 0 ? s + strlen(spelt) : NULL;
}

/* The control character of a key: @ A–Z [ \ ] ^ _ ? and space. −1 if there is none. */
static int control_of(const char *s)
{
	if (strcasecmp(s, "space") == 0)
		return 0;
	if (!s[0] || s[1])
		return -1;
	if (s[0] == '?')
		return 0x7f;
	int c = toupper((unsigned char)s[0]);
	return c >= '@' && c <= '_' ? c - '@' : -1;
}

/* Order matters: M- before C-, so that M-C-x works; names before single characters. */
static int parse_key(const char *name, struct buf *out, struct err *e)
{
	const char *rest = skip_modifier(name, "M-", "alt-");
	int c;

	if (rest && rest[0]) {
		buf_byte(out, '\033');
		return parse_key(rest, out, e);
	}
	rest = skip_modifier(name, "C-", "ctrl-");
	if (rest && (c = control_of(rest)) >= 0) {
		buf_byte(out, (char)c);
		return 0;
	}
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcasecmp(keys[i].name, name) == 0) {
			buf_str(out, keys[i].bytes);
			return 0;
		}
	if (name[0] && text_utf8_len(name, strlen(name)) == strlen(name)) {
		buf_str(out, name);
		return 0;
	}
	return err_set(e, ERR_INVALID, "no key is called '%.40s'", name);
}

int keys_parse(const char *text, struct buf *out, struct err *e)
{
	for (;;) {
		size_t n = strcspn(text, ",");
		buf_auto struct buf name = BUF_INIT;

		buf_append(&name, text, n);
		if (n == 0)
			return err_set(e, ERR_INVALID, "a key's name is missing (a comma itself is called Comma)");
		if (parse_key(buf_cstr(&name), out, e) < 0)
			return -1;
		if (!text[n])
			return 0;
		text += n + 1;
	}
}

int keys_watch_init(struct keys_watch *w, const char *text, struct err *e)
{
	buf_auto struct buf bytes = BUF_INIT;

	*w = (struct keys_watch){ 0 };
	if (!text[0] || strcmp(text, "none") == 0)
		return 0;
	if (keys_parse(text, &bytes, e) < 0)
		return -1;
	if (bytes.len > sizeof(w->bytes))
		return err_set(e, ERR_INVALID, "the sequence of keys is too long");
	memcpy(w->bytes, bytes.data, bytes.len);
	w->n = bytes.len;
	return 0;
}

/* After a mismatch at `c`: the length of the longest prefix of the sequence that is a suffix of the typed bytes. */
static size_t fall_back(const struct keys_watch *w, char c)
{
	char typed[sizeof(w->bytes) + 1];
	size_t have = w->matched;

	memcpy(typed, w->bytes, have);
	typed[have++] = c;
	for (size_t n = have - 1; n > 0; n--)
		if (memcmp(typed + have - n, w->bytes, n) == 0)
			return n;
	return 0;
}

bool keys_watch_feed(struct keys_watch *w, const char *p, size_t n, struct buf *out)
{
	for (size_t i = 0; i < n; i++) {
		if (w->n && p[i] == w->bytes[w->matched]) {
			if (++w->matched == w->n)
				return true;
			continue;
		}
		size_t keep = w->n && w->matched ? fall_back(w, p[i]) : 0;
		buf_append(out, w->bytes, w->matched - (keep ? keep - 1 : 0));
		if (!keep)
			buf_byte(out, p[i]);
		w->matched = keep;
	}
	return false;
}

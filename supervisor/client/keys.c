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

/* ---- keys in typed bytes ---- */

int keys_watch_init(struct keys_watch *w, const char *text, struct err *e)
{
	buf_auto struct buf bytes = BUF_INIT;

	*w = (struct keys_watch){ 0 };
	if (!text[0] || strcmp(text, "none") == 0)
		return 0;
	if (keys_parse(text, &bytes, e) < 0)
		return -1;
	if (bytes.len > KEYS_WATCH_MAX)
		return err_set(e, ERR_INVALID, "the sequence of keys is too long");
	memcpy(w->bytes, bytes.data, bytes.len);
	w->n = bytes.len;
	return 0;
}

/* After a mismatch at `c`: the length of the longest prefix of the sequence that is a suffix of the typed bytes. */
static size_t fall_back(const struct keys_watch *w, char c)
{
	char typed[KEYS_WATCH_MAX + 1];
	size_t have = w->matched;

	memcpy(typed, w->bytes, have);
	typed[have++] = c;
	for (size_t n = have - 1; n > 0; n--)
		if (memcmp(typed + have - n, w->bytes, n) == 0)
			return n;
	return 0;
}

static size_t held_bytes(const struct keys_watch *w) { return w->matched ? w->ends[w->matched - 1] : 0; }

/* Passes on what was typed for the first of the bytes that match. */
static void release_bytes(struct keys_watch *w, size_t count, struct buf *out)
{
	size_t n = count ? w->ends[count - 1] : 0;

	buf_append(out, w->typed, n);
	memmove(w->typed, w->typed + n, held_bytes(w) - n);
	w->matched -= count;
	for (size_t i = 0; i < w->matched; i++)
		w->ends[i] = w->ends[i + count] - n;
}

/* A key, as the byte that it usually sends, and what was typed for it. True: the sequence is complete. */
static bool take_key(struct keys_watch *w, char c, const char *typed, size_t n, struct buf *out)
{
	size_t at = held_bytes(w), keep = 0;

	if (w->n && c == w->bytes[w->matched])
		keep = w->matched + 1;
	else if (w->n && w->matched)
		keep = fall_back(w, c);
	if (!keep || at + n > sizeof(w->typed)) {
		release_bytes(w, w->matched, out);
		buf_append(out, typed, n);
		return false;
	}
	memcpy(w->typed + at, typed, n);
	w->ends[w->matched++] = at + n;
	release_bytes(w, w->matched - keep, out);
	return w->matched == w->n;
}

static bool take_bytes(struct keys_watch *w, const char *p, size_t n, struct buf *out)
{
	for (size_t i = 0; i < n; i++)
		if (take_key(w, p[i], p + i, 1, out))
			return true;
	return false;
}

/* A control sequence of numbers: CSI 1:2:3;4:5 FINAL. */
struct key_sequence {
	unsigned number[3][3];
	char final; /* 0: incomplete */
};

/* False: it is none. */
static bool parse_sequence(const char *p, size_t n, struct key_sequence *ret)
{
	unsigned param = 0, sub = 0;

	*ret = (struct key_sequence){ 0 };
	for (size_t i = 2; i < n; i++) {
		unsigned *number = param < 3 && sub < 3 ? &ret->number[param][sub] : NULL;

		if (p[i] >= '0' && p[i] <= '9' && number && *number < 0x110000)
			*number = *number * 10 + (unsigned)(p[i] - '0');
		else if (p[i] == ':')
			sub++;
		else if (p[i] == ';')
			param++, sub = 0;
		else if (i + 1 == n && i > 2 && (p[i] == 'u' || p[i] == '~'))
			ret->final = p[i];
		else
			return false;
	}
	return n < 2 || p[1] == '[';
}

/* The control character of a key with Ctrl; −1: it has none. */
static int control_of_code(unsigned code)
{
	static const char digits[] = { 0, 27, 28, 29, 30, 31, 127 }; /* of 2 to 8 */
	char text[2] = { (char)code };

	if (code >= '2' && code <= '8')
		return digits[code - '2'];
	return code == ' ' ? 0 : code == '/' ? 31 : code < 128 ? control_of(text) : -1;
}

enum { OTHER_KEY = -1, NO_KEY = -2, NAMED_KEY = -3 };

/*
 * The character of a key that is sent as a control sequence; NO_KEY: none was pressed. *ret_alt: with an escape before
 * it. Shift and the locks do not count; Super, Hyper and Meta make it another key.
 */
static int character_of(const struct key_sequence *s, bool *ret_alt)
{
	bool xterm = s->final == '~';
	unsigned code = xterm ? s->number[2][0] : s->number[0][0], modifiers = s->number[1][0];

	if (xterm && s->number[0][0] != 27)
		return NAMED_KEY; /* Delete, F5 … */
	if (!xterm && (s->number[1][1] == 3 || (code >= 57441 && code <= 57454)))
		return NO_KEY; /* a key is released; a modifier */
	if (!xterm && code >= 128 && s->number[0][2])
		code = s->number[0][2]; /* where it is on a Latin keyboard */
	modifiers -= modifiers > 0;
	*ret_alt = modifiers & 2;
	if (modifiers & (8 | 16 | 32))
		return OTHER_KEY;
	return modifiers & 4 ? control_of_code(code) : code && code < 128 ? (int)code : OTHER_KEY;
}

/* `begun` is a complete sequence, and is consumed. */
static bool take_sequence(struct keys_watch *w, const struct key_sequence *s, struct buf *out)
{
	bool alt = false;
	int c = character_of(s, &alt);
	size_t n = w->nbegun, at = held_bytes(w);

	w->nbegun = 0;
	if (c >= 0)
		return (alt && take_key(w, '\033', w->begun, 0, out)) || take_key(w, (char)c, w->begun, n, out);
	if (c == NAMED_KEY)
		return take_bytes(w, w->begun, n, out);
	if (c == NO_KEY && w->matched && at + n <= sizeof(w->typed)) { /* the keys around it may be the sequence */
		memcpy(w->typed + at, w->begun, n);
		w->ends[w->matched - 1] = at + n;
		return false;
	}
	release_bytes(w, w->matched, out);
	buf_append(out, w->begun, n);
	return false;
}

/* `begun` is no such sequence. */
static bool take_begun(struct keys_watch *w, struct buf *out)
{
	size_t n = w->nbegun;

	w->nbegun = 0;
	return take_bytes(w, w->begun, n, out);
}

/* Whether pasted text begins or ends after this byte. */
static void look_for_paste(struct keys_watch *w, char c)
{
	const char *mark = w->pasting ? "\033[201~" : "\033[200~";

	w->marked = c == mark[w->marked] ? w->marked + 1 : c == mark[0];
	if (!mark[w->marked]) {
		w->pasting = !w->pasting;
		w->marked = 0;
	}
}

void keys_watch_end_paste(struct keys_watch *w)
{
	if (w->pasting)
		w->marked = 0;
	w->pasting = false;
}

/*
 * An escape and a bracket alone are keys, too, so only a sequence that has a number is held back at the end of what was
 * read.
 */
bool keys_watch_feed(struct keys_watch *w, const char *p, size_t n, struct buf *out)
{
	for (size_t i = 0; i < n; i++) {
		const bool pasted = w->pasting;
		struct key_sequence s;
		bool done = false;

		look_for_paste(w, p[i]);
		if (pasted) {
			buf_byte(out, p[i]);
			continue;
		}
		if (p[i] == '\033')
			done = take_begun(w, out);
		if (!done && w->n && (w->nbegun || p[i] == '\033')) {
			w->begun[w->nbegun++] = p[i];
			if (!parse_sequence(w->begun, w->nbegun, &s) || w->nbegun == sizeof(w->begun) ||
			    (w->nbegun <= 2 && i + 1 == n))
				done = take_begun(w, out);
			else if (s.final)
				done = take_sequence(w, &s, out);
		} else if (!done) {
			done = take_key(w, p[i], p + i, 1, out);
		}
		if (done)
			return true;
		if (w->pasting) /* the mark is no key */
			release_bytes(w, w->matched, out);
	}
	return false;
}

/*
 * Text is copied in runs: eight bytes at a time are tested for characters that need escaping, which almost nothing
 * that bailiff writes does. The writer trusts its caller to balance brackets.
 */

#include "runtime/base/jw.h"
#include "runtime/base/buf.h"
#include "runtime/base/text.h"

#include <endian.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Whatever is written passes through these, so they are inline: room for n bytes and a NUL behind them, and their end.
 */
static inline char *jw_room(struct buf *b, size_t n)
{
	return b->cap > b->len && b->cap - b->len > n ? b->data + b->len : buf_reserve(b, n);
}

static inline void jw_end(struct buf *b, char *end)
{
	*end = '\0';
	b->len = (size_t)(end - b->data);
}

static inline void jw_char(struct buf *b, char c)
{
	char *at = jw_room(b, 1);

	*at = c;
	jw_end(b, at + 1);
}

static inline void jw_value(struct jw *w)
{
	if (w->need_comma)
		jw_char(w->buf, ',');
	w->need_comma = true;
}

static void jw_open(struct jw *w, char c)
{
	char *at = jw_room(w->buf, 2);

	*at = ',';
	at += w->need_comma;
	*at = c;
	jw_end(w->buf, at + 1);
	w->need_comma = false;
}

static void jw_close(struct jw *w, char c)
{
	jw_char(w->buf, c);
	w->need_comma = true;
}

void jw_obj(struct jw *w) { jw_open(w, '{'); }

void jw_obj_end(struct jw *w) { jw_close(w, '}'); }

void jw_arr(struct jw *w) { jw_open(w, '['); }

void jw_arr_end(struct jw *w) { jw_close(w, ']'); }

static void jw_escape(struct buf *b, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	static const char named[32] = { ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r' };
	char text[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };

	if (c == '"' || c == '\\')
		text[1] = (char)c;
	else if (named[c])
		text[1] = named[c];
	buf_append(b, text, text[1] == 'u' ? 6 : 2);
}

/* How many of the first eight bytes are ASCII that needs no escape. The bit tricks are those of jscan.c. */
static unsigned jw_plain8(const unsigned char *p)
{
	const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
	uint64_t v, quote, slash;

	memcpy(&v, p, sizeof(v));
	v = le64toh(v);
	quote = v ^ ones * '"';
	slash = v ^ ones * '\\';
	v = (v | (v - ones * 0x20) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash)) & tops;
	return v ? (unsigned)__builtin_ctzll(v) / 8 : 8;
}

/*
 * C1 controls, marks that change the writing direction, and other line ends. text_sanitize, for terminals, escapes
 * more. This set must not change, because stored documents and evidence packs are compared byte by byte.
 */
static unsigned jw_unshowable(const char *s, size_t len)
{
	unsigned c = text_utf8_code(s, len);
	bool turns = c == 0x061c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
		     (c >= 0x2066 && c <= 0x2069);

	return (c >= 0x80 && c < 0xa0) || turns ? c : 0;
}

static bool jw_all_plain(const unsigned char *p, size_t n)
{
	size_t i = 0;

	for (; n - i >= 8; i += 8)
		if (jw_plain8(p + i) != 8)
			return false;
	if (i < n && n >= 8) /* the last eight, of which some are tested again */
		return jw_plain8(p + n - 8) == 8;
	for (; i < n; i++)
		if (p[i] < 0x20 || p[i] >= 0x80 || p[i] == '"' || p[i] == '\\')
			return false;
	return true;
}

/* Copies runs that need no escape as a whole. */
static void jw_quoted(struct buf *b, const char *s, size_t n)
{
	const unsigned char *p = (const unsigned char *)(n ? s : ""), *end = p + n, *run = p;
	char *at = jw_room(b, n + 2);

	if (jw_all_plain(p, n)) {
		at[0] = '"';
		memcpy(at + 1, p, n);
		at[n + 1] = '"';
		jw_end(b, at + n + 2);
		return;
	}
	buf_byte(b, '"');
	while (p < end) {
		unsigned unshowable;
		size_t len;

		if (end - p >= 8 && (len = jw_plain8(p))) {
			p += len;
			continue;
		}
		if (*p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\') {
			p++;
			continue;
		}
		len = *p < 0x80 ? 0 : text_utf8_len((const char *)p, (size_t)(end - p));
		unshowable = len ? jw_unshowable((const char *)p, len) : 0;
		if (len && !unshowable) {
			p += len;
			continue;
		}
		buf_append(b, run, (size_t)(p - run));
		if (unshowable)
			buf_printf(b, "\\u%04x", unshowable);
		else if (*p < 0x80)
			jw_escape(b, *p);
		else
			buf_append(b, "\xef\xbf\xbd", 3);
		p += len ? len : 1;
		run = p;
	}
	buf_append(b, run, (size_t)(p - run));
	buf_byte(b, '"');
}

/* Half of what is written are keys, and they need no escape. */
void jw_key(struct jw *w, const char *key)
{
	const size_t n = strlen(key);
	char *at = jw_room(w->buf, n + 4);

	if (jw_all_plain((const unsigned char *)key, n)) {
		*at = ',';
		at += w->need_comma;
		*at = '"';
		memcpy(at + 1, key, n);
		memcpy(at + 1 + n, "\":", 2);
		jw_end(w->buf, at + n + 3);
	} else {
		jw_value(w);
		jw_quoted(w->buf, key, n);
		buf_byte(w->buf, ':');
	}
	w->need_comma = false;
}

void jw_str(struct jw *w, const char *s) { jw_strn(w, s, strlen(s)); }

void jw_strn(struct jw *w, const char *s, size_t n)
{
	jw_value(w);
	jw_quoted(w->buf, s, n);
}

/* The negation is unsigned, because −INT64_MIN does not fit into an int64_t. */
void jw_int(struct jw *w, int64_t v)
{
	jw_value(w);
	if (v < 0)
		buf_byte(w->buf, '-');
	w->need_comma = false;
	jw_uint(w, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void jw_uint(struct jw *w, uint64_t v)
{
	char text[20], *p = text + sizeof(text), *at = jw_room(w->buf, sizeof(text) + 1);

	*at = ',';
	at += w->need_comma;
	w->need_comma = true;
	do
		*--p = (char)('0' + v % 10);
	while (v /= 10);
	while (p < text + sizeof(text))
		*at++ = *p++;
	jw_end(w->buf, at);
}

/* The shortest form that parses to the same number; infinity and NaN, which JSON does not have, become null. */
void jw_real(struct jw *w, double v)
{
	char text[40];

	if (!isfinite(v)) {
		jw_null(w);
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	for (char *p = text; *p; p++)
		if (*p == ',') /* decimal comma of a locale */
			*p = '.';
	jw_raw(w, text, strlen(text));
}

void jw_bool(struct jw *w, bool v)
{
	if (v)
		jw_raw(w, "true", 4);
	else
		jw_raw(w, "false", 5);
}

void jw_null(struct jw *w) { jw_raw(w, "null", 4); }

void jw_raw(struct jw *w, const char *json, size_t n)
{
	char *at = jw_room(w->buf, n + 1);

	*at = ',';
	at += w->need_comma;
	w->need_comma = true;
	if (n)
		memcpy(at, json, n);
	jw_end(w->buf, at + n);
}

void jw_base64(struct jw *w, const void *p, size_t n)
{
	jw_value(w);
	buf_byte(w->buf, '"');
	text_base64_encode(p, n, w->buf);
	buf_byte(w->buf, '"');
}

void jw_kobj(struct jw *w, const char *key)
{
	jw_key(w, key);
	jw_obj(w);
}

void jw_karr(struct jw *w, const char *key)
{
	jw_key(w, key);
	jw_arr(w);
}

void jw_kstr(struct jw *w, const char *key, const char *s)
{
	jw_key(w, key);
	jw_str(w, s);
}

void jw_kopt(struct jw *w, const char *key, const char *s_or_null)
{
	if (s_or_null)
		jw_kstr(w, key, s_or_null);
}

void jw_kstrn(struct jw *w, const char *key, const char *s, size_t n)
{
	jw_key(w, key);
	jw_strn(w, s, n);
}

void jw_kint(struct jw *w, const char *key, int64_t v)
{
	jw_key(w, key);
	jw_int(w, v);
}

void jw_kuint(struct jw *w, const char *key, uint64_t v)
{
	jw_key(w, key);
	jw_uint(w, v);
}

void jw_kbool(struct jw *w, const char *key, bool v)
{
	jw_key(w, key);
	jw_bool(w, v);
}

void jw_kraw(struct jw *w, const char *key, const char *json, size_t n)
{
	jw_key(w, key);
	jw_raw(w, json, n);
}

void jw_kstrv(struct jw *w, const char *key, const char *const *strv, size_t n)
{
	jw_karr(w, key);
	for (size_t i = 0; i < n; i++)
		jw_str(w, strv[i]);
	jw_arr_end(w);
}

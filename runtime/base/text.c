/*
 * Text helpers without state. text_sanitize decides what a terminal may show, for the command line and the logs alike,
 * and text_json_visible applies the same table to JSON that is shown. Stored JSON has a smaller set of its own (jw.c),
 * which must not change.
 */

#include "runtime/base/text.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

size_t text_utf8_len(const char *s, size_t n)
{
	const unsigned char *p = (const unsigned char *)s;
	/* the range of the second byte excludes overlong forms, surrogates and values above U+10FFFF */
	unsigned char low = 0x80, high = 0xbf;
	size_t len;

	if (!n)
		return 0;
	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	if (len > n || p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

bool text_utf8_valid(const char *s, size_t n)
{
	while (n) {
		size_t len = text_utf8_len(s, n);

		if (!len)
			return false;
		s += len;
		n -= len;
	}
	return true;
}

size_t text_utf8_encode(uint32_t c, char out[4])
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/* A character has at most four bytes, so an incomplete one at the end has at most three. */
size_t text_utf8_cut(const char *s, size_t n)
{
	for (size_t back = 1; back <= 3 && back <= n; back++) {
		unsigned char c = (unsigned char)s[n - back];

		if ((c & 0xc0) == 0x80)
			continue;
		if ((c >= 0xf0 && back < 4) || (c >= 0xe0 && back < 3) || (c >= 0xc0 && back < 2))
			return n - back;
		return n;
	}
	return n;
}

/* Two thirds of the space for the beginning and one for the end. */
void text_ends(const char *s, size_t n, size_t most, struct buf *out)
{
	size_t head, tail = n - most / 3;

	if (n <= most) {
		buf_append(out, s, n);
		return;
	}
	head = text_utf8_cut(s, most - most / 3);
	while (tail < n && ((unsigned char)s[tail] & 0xc0) == 0x80)
		tail++;
	buf_append(out, s, head);
	buf_printf(out, " … [%zu bytes left out] … ", tail - head);
	buf_append(out, s + tail, n - tail);
}

static const char base64_chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void text_base64_encode(const void *src, size_t n, struct buf *out)
{
	const unsigned char *p = src;
	size_t len = n / 3 * 4 + (n % 3 ? 4 : 0);
	char *at = buf_reserve(out, len);

	for (; n >= 3; n -= 3, p += 3) {
		*at++ = base64_chars[p[0] >> 2];
		*at++ = base64_chars[(p[0] & 3) << 4 | p[1] >> 4];
		*at++ = base64_chars[(p[1] & 15) << 2 | p[2] >> 6];
		*at++ = base64_chars[p[2] & 63];
	}
	if (n) {
		unsigned second = n == 2 ? p[1] : 0;

		*at++ = base64_chars[p[0] >> 2];
		*at++ = base64_chars[(p[0] & 3) << 4 | second >> 4];
		*at++ = n == 2 ? base64_chars[(second & 15) << 2] : '=';
		*at++ = '=';
	}
	*at = '\0';
	out->len += len;
}

/* 1 + the value of the digit; 0 for other characters */
static const unsigned char base64_values[256] = {
	['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,  ['H'] = 8,
	['I'] = 9,  ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16,
	['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24,
	['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28, ['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32,
	['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40,
	['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48,
	['w'] = 49, ['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56,
	['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['+'] = 63, ['/'] = 64,
};

/* Only the canonical form: padded, without spaces, unused bits zero. */
int text_base64_decode(const char *s, size_t n, struct buf *out)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t pad = 0, start = out->len;
	char *at;

	if (n % 4)
		return -1;
	if (n && p[n - 1] == '=')
		pad = p[n - 2] == '=' ? 2 : 1;
	at = buf_reserve(out, n / 4 * 3);
	size_t i = 0;
	/* All except for the last four, which may be padded. */
	for (; i + 4 < n; i += 4, at += 3) {
		uint32_t a = base64_values[p[i]], b = base64_values[p[i + 1]], c = base64_values[p[i + 2]],
			 d = base64_values[p[i + 3]];
		uint32_t bits = (a - 1) << 18 | (b - 1) << 12 | (c - 1) << 6 | (d - 1);

		if (!a || !b || !c || !d)
			goto bad;
		at[0] = (char)(bits >> 16);
		at[1] = (char)(bits >> 8);
		at[2] = (char)bits;
	}
	for (; i < n; i += 4, at += 3) {
		size_t digits = i + 4 == n ? 4 - pad : 4;
		uint32_t bits = 0;

		for (size_t j = 0; j < 4; j++) {
			unsigned char v = j < digits ? base64_values[p[i + j]] : 1;

			if (!v)
				goto bad;
			bits = bits << 6 | (v - 1u);
		}
		if (bits & ((1u << 8 * (4 - digits)) - 1))
			goto bad;
		at[0] = (char)(bits >> 16);
		at[1] = (char)(bits >> 8);
		at[2] = (char)bits;
	}
	out->len = start + n / 4 * 3 - pad;
	out->data[out->len] = '\0';
	return 0;
bad:
	out->data[start] = '\0';
	return -1;
}

struct text_unit {
	const char *name;
	uint64_t factor;
};

/*
 * A number, possibly with a fraction, and a unit of the table, whose first row is the default unit. Fails on anything
 * else and on overflow.
 */
static int text_quantity(const char *s, const struct text_unit *units, size_t nunits, uint64_t *ret)
{
	uint64_t whole = 0, value, fraction = 0, scale = 1;
	const struct text_unit *u = units;
	const char *p = s;

	if (*p < '0' || *p > '9')
		return -1;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole))
			return -1;
	if (*p == '.') {
		if (p[1] < '0' || p[1] > '9')
			return -1;
		for (p++; *p >= '0' && *p <= '9'; p++) {
			if (scale < 1000000) {
				fraction = fraction * 10 + (uint64_t)(*p - '0');
				scale *= 10;
			}
		}
	}
	if (*p) {
		for (u = units; u < units + nunits && strcasecmp(u->name, p) != 0; u++)
			;
		if (u == units + nunits)
			return -1;
	}
	/* the largest factor is 2^40 and a fraction has six digits: this product fits */
	if (__builtin_mul_overflow(whole, u->factor, &value) ||
	    __builtin_add_overflow(value, fraction * u->factor / scale, &value))
		return -1;
	*ret = value;
	return 0;
}

int text_duration_ms(const char *s, uint64_t *ret_ms, struct err *e)
{
	static const struct text_unit units[] = {
		{ "s", 1000 }, { "ms", 1 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 },
	};

	if (text_quantity(s, units, countof(units), ret_ms) < 0)
		return err_set(
			e, ERR_INVALID,
			"'%.40s' is not a duration: write a number with ms, s, m, h or d, such as 500ms, 30s or 5m", s);
	return 0;
}

/* Suffixes are powers of 1024 with or without "iB"; an overflow is an error and not a wrap. */
int text_size_bytes(const char *s, uint64_t *ret_bytes, struct err *e)
{
	static const struct text_unit units[] = {
		{ "B", 1 },
		{ "K", 1ull << 10 },
		{ "KiB", 1ull << 10 },
		{ "M", 1ull << 20 },
		{ "MiB", 1ull << 20 },
		{ "G", 1ull << 30 },
		{ "GiB", 1ull << 30 },
		{ "T", 1ull << 40 },
		{ "TiB", 1ull << 40 },
	};

	if (text_quantity(s, units, countof(units), ret_bytes) < 0)
		return err_set(e, ERR_INVALID,
			       "'%.40s' is not a size: write a number with K, M, G or T (powers of 1024), such as 512M "
			       "or 64KiB",
			       s);
	return 0;
}

int text_count(const char *s, uint64_t *ret, struct err *e)
{
	const size_t n = strlen(s);

	if (!n || n > 18 || strspn(s, "0123456789") != n)
		return err_set(e, ERR_INVALID, "'%.40s' is not a whole number", s);
	*ret = strtoull(s, NULL, 10);
	return 0;
}

int text_thousandths(const char *s, uint64_t *ret, struct err *e)
{
	static const struct text_unit units[] = { { "", 1000 } };

	if (text_quantity(s, units, countof(units), ret) < 0)
		return err_set(e, ERR_INVALID, "'%.40s' is not a number: write one such as 2, 0.5 or 1.25", s);
	return 0;
}

void text_format_thousandths(uint64_t v, char out[32])
{
	int n = snprintf(out, 32, "%llu.%03u", (unsigned long long)(v / 1000), (unsigned)(v % 1000));

	while (out[n - 1] == '0')
		out[--n] = '\0';
	if (out[n - 1] == '.')
		out[--n] = '\0';
}

void text_format_size(uint64_t bytes, char out[16])
{
	static const char units[] = "KMGTPE";
	uint64_t tenths; /* of the unit, rounded to the nearest */
	int unit = 0;

	if (bytes < 1024) {
		snprintf(out, 16, "%uB", (unsigned)bytes);
		return;
	}
	tenths = bytes / 1024 * 10 + (bytes % 1024 * 10 + 512) / 1024;
	while (tenths >= 10240) {
		tenths = (tenths + 512) / 1024;
		unit++;
	}
	if (tenths % 10)
		snprintf(out, 16, "%u.%u%c", (unsigned)(tenths / 10), (unsigned)(tenths % 10), units[unit]);
	else
		snprintf(out, 16, "%u%c", (unsigned)(tenths / 10), units[unit]);
}

void text_format_duration(uint64_t ms, char out[16])
{
	uint64_t s = ms / 1000;

	if (ms < 1000)
		snprintf(out, 16, "%ums", (unsigned)ms);
	else if (s < 60)
		snprintf(out, 16, "%u.%us", (unsigned)s, (unsigned)(ms % 1000 / 100));
	else if (s < 3600)
		snprintf(out, 16, "%um%02us", (unsigned)(s / 60), (unsigned)(s % 60));
	else if (s < 86400)
		snprintf(out, 16, "%uh%02um", (unsigned)(s / 3600), (unsigned)(s / 60 % 60));
	else
		snprintf(out, 16, "%llud%02uh", (unsigned long long)(s / 86400 % 100000000), (unsigned)(s / 3600 % 24));
}

/* On a mismatch the last '*' is extended by one character: constant memory, no recursion. */
bool text_glob(const char *pattern, const char *s)
{
	const char *star = NULL, *retry = NULL;

	while (*s) {
		size_t len = text_utf8_len(s, strnlen(s, 4));

		if (!len)
			len = 1;
		if (*pattern == '*') {
			star = pattern++;
			retry = s;
		} else if (*pattern == '?') {
			pattern++;
			s += len;
		} else if (*pattern && *pattern == *s) {
			pattern++;
			s++;
		} else if (star) {
			pattern = star + 1;
			s = ++retry;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

unsigned text_utf8_code(const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *)s;
	unsigned c = len == 1 ? p[0] : p[0] & (0x7fu >> len);

	for (size_t i = 1; i < len; i++)
		c = c << 6 | (p[i] & 0x3fu);
	return c;
}

/* Controls, marks that change the writing direction, other line ends, and characters without a glyph (Unicode: default
 * ignorable). */
static const struct hidden_range {
	unsigned from, to;
} hidden_ranges[] = {
	{ 0x80, 0x9f },       { 0xad, 0xad },       { 0x34f, 0x34f },     { 0x61c, 0x61c },   { 0x115f, 0x1160 },
	{ 0x17b4, 0x17b5 },   { 0x180b, 0x180f },   { 0x200b, 0x200f },   { 0x2028, 0x202e }, { 0x2060, 0x206f },
	{ 0x3164, 0x3164 },   { 0xfe00, 0xfe0f },   { 0xfeff, 0xfeff },   { 0xffa0, 0xffa0 }, { 0xfff0, 0xfffb },
	{ 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a }, { 0xe0000, 0xe0fff },
};

static bool is_hidden(unsigned c)
{
	for (size_t i = 0; i < countof(hidden_ranges) && c >= hidden_ranges[i].from; i++)
		if (c <= hidden_ranges[i].to)
			return true;
	return false;
}

enum { NON_JOINER = 0x200c, JOINER = 0x200d, TEXT_STYLE = 0xfe0e, EMOJI_STYLE = 0xfe0f };

/*
 * Persian, Indic scripts and emoji use joiners and variation selectors. One of them directly after a character of such
 * a script is part of it; elsewhere, or repeated, it only hides something.
 */
static bool is_joiner_in_place(const unsigned char *from, const unsigned char *p, unsigned c)
{
	const unsigned char *before = p;

	if ((c != NON_JOINER && c != JOINER && c != TEXT_STYLE && c != EMOJI_STYLE) || before == from)
		return false;
	while (before > from && (*--before & 0xc0) == 0x80)
		;
	size_t len = text_utf8_len((const char *)before, (size_t)(p - before));
	unsigned last = len == (size_t)(p - before) ? text_utf8_code((const char *)before, len) : 0;
	if (last == EMOJI_STYLE)
		return c == JOINER && is_joiner_in_place(from, before, last);
	return last >= 0x80 && !is_hidden(last);
}

/* The code point of the non-ASCII character at p (len bytes) in a text that begins at `from`, if it must be escaped;
 * else 0. */
static unsigned hidden_code_point(const unsigned char *from, const unsigned char *p, size_t len)
{
	unsigned c = text_utf8_code((const char *)p, len);

	return is_hidden(c) && !is_joiner_in_place(from, p, c) ? c : 0;
}

/* Appends the escape of one such character; returns its length in bytes. */
static size_t put_visible(const unsigned char *p, size_t len, struct buf *out)
{
	unsigned c = len ? text_utf8_code((const char *)p, len) : 0;
	size_t bad = len ? len : 1;

	if (*p == '\n' || *p == '\t')
		buf_str(out, *p == '\n' ? "\\n" : "\\t");
	else if (c >= 0xa0)
		buf_printf(out, c > 0xffff ? "\\U%08x" : "\\u%04x", c);
	else
		for (size_t i = 0; i < bad; i++)
			buf_printf(out, "\\x%02x", p[i]);
	return bad;
}

/* The first `shown` bytes are only context. Harmless characters, almost all of the text, are copied in runs. */
static void sanitize_text(const char *s, size_t n, size_t shown, bool lines, struct buf *out)
{
	const unsigned char *from = (const unsigned char *)(n ? s : ""), *p = from + shown, *end = from + n, *run = p;

	while (p < end) {
		size_t len;

		if ((*p >= 0x20 && *p < 0x7f) || (lines && (*p == '\t' || *p == '\n'))) {
			p++;
			continue;
		}
		len = *p < 0x80 ? 0 : text_utf8_len((const char *)p, (size_t)(end - p));
		if (len && !hidden_code_point(from, p, len)) {
			p += len;
			continue;
		}
		buf_append(out, run, (size_t)(p - run));
		p += put_visible(p, len, out);
		run = p;
	}
	buf_append(out, run, (size_t)(p - run));
}

/* Works on JSON text as a whole, because the characters in question occur only inside strings. */
void text_json_visible(const char *s, size_t n, struct buf *out)
{
	const unsigned char *from = (const unsigned char *)(n ? s : ""), *p = from, *end = p + n, *run = p;

	while (p < end) {
		size_t len = *p < 0x80 ? 1 : text_utf8_len((const char *)p, (size_t)(end - p));
		unsigned c = *p == 0x7f ? *p : len > 1 ? hidden_code_point(from, p, len) : 0;

		if (!len)
			len = 1;
		if (c) {
			buf_append(out, run, (size_t)(p - run));
			if (c > 0xffff)
				buf_printf(out, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
			else
				buf_printf(out, "\\u%04x", c);
			run = p + len;
		}
		p += len;
	}
	buf_append(out, run, (size_t)(p - run));
}

void text_sanitize(const char *s, size_t n, struct buf *out) { sanitize_text(s, n, 0, true, out); }

void text_sanitize_line(const char *s, size_t n, struct buf *out) { sanitize_text(s, n, 0, false, out); }

void text_stream_feed(struct text_stream *t, const char *s, size_t n, struct buf *out)
{
	buf_auto struct buf all = BUF_INIT;

	if (!n)
		return;
	buf_append(&all, t->bytes, t->n);
	buf_append(&all, s, n);
	const size_t cut = t->shown + text_utf8_cut(all.data + t->shown, all.len - t->shown);
	sanitize_text(all.data, cut, t->shown, true, out);
	const size_t from = cut > TEXT_STREAM_CONTEXT ? cut - TEXT_STREAM_CONTEXT : 0;
	t->shown = cut - from;
	t->n = all.len - from;
	memcpy(t->bytes, all.data + from, t->n);
}

void text_stream_end(struct text_stream *t, struct buf *out)
{
	sanitize_text(t->bytes, t->n, t->shown, true, out);
	*t = (struct text_stream){ 0 };
}

bool text_stream_waits(const struct text_stream *t) { return t->n > t->shown; }

static const char *const realtime_names[] = {
	"RTMIN",    "RTMIN+1",  "RTMIN+2",  "RTMIN+3",  "RTMIN+4",  "RTMIN+5",  "RTMIN+6",  "RTMIN+7",  "RTMIN+8",
	"RTMIN+9",  "RTMIN+10", "RTMIN+11", "RTMIN+12", "RTMIN+13", "RTMIN+14", "RTMIN+15", "RTMIN+16", "RTMIN+17",
	"RTMIN+18", "RTMIN+19", "RTMIN+20", "RTMIN+21", "RTMIN+22", "RTMIN+23", "RTMIN+24", "RTMIN+25", "RTMIN+26",
	"RTMIN+27", "RTMIN+28", "RTMIN+29", "RTMIN+30", "RTMIN+31", "RTMIN+32",
};

const char *text_signal_name(int sig)
{
	const char *name = NULL;

	if (sig > 0 && sig < 32)
		name = sigabbrev_np(sig);
	else if (sig >= SIGRTMIN && sig <= SIGRTMAX && sig - SIGRTMIN < (int)countof(realtime_names))
		name = realtime_names[sig - SIGRTMIN];
	return name ? name : "unknown";
}

/* Names with or without SIG, numbers, RTMIN+n and RTMAX. */
int text_signal_number(const char *name)
{
	if (*name >= '0' && *name <= '9') {
		int sig = 0;

		for (; *name >= '0' && *name <= '9' && sig < 1000; name++)
			sig = sig * 10 + (*name - '0');
		return *name || sig < 1 || sig > SIGRTMAX ? -1 : sig;
	}
	if (strncasecmp(name, "SIG", 3) == 0)
		name += 3;
	for (int sig = 1; sig <= SIGRTMAX; sig++) {
		const char *known = text_signal_name(sig);

		if (strcmp(known, "unknown") != 0 && strcasecmp(known, name) == 0)
			return sig;
	}
	return strcasecmp(name, "RTMAX") == 0 ? SIGRTMAX : -1;
}

/* A token of RFC 9110. Rejecting everything else prevents the injection of further headers. */
bool text_http_token(const char *s)
{
	if (!*s)
		return false;
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && !strchr("!#$%&'*+-.^_`|~", *s))
			return false;
	return true;
}

#include "runtime/base/jscan.h"
#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <endian.h>
#include <string.h>

/*
 * To find a value means to find its end: strings are skipped character by character, containers by counting brackets
 * outside of strings (their kinds are on a stack of 64 bits, so there is no recursion), the rest by its grammar. The
 * content of a container is parsed only when a caller iterates over it.
 */

static inline const char *jscan_space(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
		p++;
	return p;
}

/*
 * The index of the first of eight bytes that is a quote, a backslash or a control character; 8 = none. Each bit trick
 * marks such bytes and, because the subtraction borrows, possibly others after the first of them.
 */
static unsigned jscan_plain8(const char *p)
{
	const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
	uint64_t v, quote, slash;

	memcpy(&v, p, sizeof(v));
	v = le64toh(v);
	quote = v ^ ones * '"';
	slash = v ^ ones * '\\';
	v = (((v - ones * 0x20) & ~v) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash)) & tops;
	return v ? (unsigned)__builtin_ctzll(v) / 8 : 8;
}

/* p is at the opening quote; returns the position after the closing one, or NULL. Strings may be a megabyte long. */
static const char *jscan_string(const char *p, const char *end)
{
	for (p++; p < end; p++) {
		unsigned plain = 8;

		while (plain == 8 && end - p > 8) {
			plain = jscan_plain8(p);
			p += plain;
		}
		if (*p == '"')
			return p + 1;
		if (*p == '\\')
			p++;
		else if ((unsigned char)*p < 0x20)
			return NULL;
	}
	return NULL;
}

static const char *jscan_digits(const char *p, const char *end)
{
	const char *start = p;

	while (p < end && *p >= '0' && *p <= '9')
		p++;
	return p == start ? NULL : p;
}

/* Accepts leading zeroes, which JSON does not: the scanner reads text that bailiff wrote. */
static const char *jscan_number(const char *p, const char *end)
{
	if (p < end && *p == '-')
		p++;
	p = jscan_digits(p, end);
	if (p && p < end && *p == '.')
		p = jscan_digits(p + 1, end);
	if (p && p < end && (*p == 'e' || *p == 'E')) {
		p++;
		if (p < end && (*p == '+' || *p == '-'))
			p++;
		p = jscan_digits(p, end);
	}
	return p;
}

static const char *jscan_word(const char *p, const char *end, const char *word, size_t n)
{
	return (size_t)(end - p) >= n && memcmp(p, word, n) == 0 ? p + n : NULL;
}

/*
 * Checks brackets and strings only. What is between the brackets is checked when it is iterated, so skipping a large
 * member is cheap.
 */
static const char *jscan_container(const char *p, const char *end)
{
	uint64_t objects = 0; /* bit 0: is the innermost open container an object? */
	int depth = 0;

	while (p < end) {
		switch (*p) {
		case '"':
			p = jscan_string(p, end);
			if (!p)
				return NULL;
			continue;
		case '{':
		case '[':
			if (depth++ == JSCAN_DEPTH)
				return NULL;
			objects = objects << 1 | (*p == '{');
			break;
		case '}':
		case ']':
			if ((objects & 1) != (*p == '}'))
				return NULL;
			objects >>= 1;
			if (--depth == 0)
				return p + 1;
			break;
		default:
			if ((unsigned char)*p < 0x20 && jscan_space(p, end) == p)
				return NULL;
			break;
		}
		p++;
	}
	return NULL;
}

/* The value at p, which is not a space; all zero if there is none. */
static struct jval jscan_value(const char *p, const char *end)
{
	enum jtype type = JT_NONE;
	const char *stop = NULL;

	if (p >= end)
		return (struct jval){ 0 };
	switch (*p) {
	case '"':
		type = JT_STRING;
		stop = jscan_string(p, end);
		break;
	case '{':
	case '[':
		type = *p == '{' ? JT_OBJECT : JT_ARRAY;
		stop = jscan_container(p, end);
		break;
	case 't':
		type = JT_TRUE;
		stop = jscan_word(p, end, "true", 4);
		break;
	case 'f':
		type = JT_FALSE;
		stop = jscan_word(p, end, "false", 5);
		break;
	case 'n':
		type = JT_NULL;
		stop = jscan_word(p, end, "null", 4);
		break;
	default:
		type = JT_NUMBER;
		stop = jscan_number(p, end);
		break;
	}
	if (!stop)
		return (struct jval){ 0 };
	return (struct jval){ .type = type, .text = p, .len = (size_t)(stop - p) };
}

struct jval jval_of(const char *text, size_t len)
{
	if (!text || !len)
		return (struct jval){ 0 };
	return jscan_value(jscan_space(text, text + len), text + len);
}

struct jiter jiter_on(struct jval container)
{
	struct jiter it = { .object = container.type == JT_OBJECT, .fresh = true };

	if ((container.type != JT_OBJECT && container.type != JT_ARRAY) || container.len < 2)
		return it;
	it.p = container.text + 1;
	it.end = container.text + container.len;
	return it;
}

struct jiter jiter_inside(const char *text, size_t len)
{
	return (struct jiter){ .p = text, .end = text + len, .object = true, .fresh = true };
}

static bool jiter_stop(struct jiter *it, const char *p)
{
	it->p = p;
	it->end = p; /* later calls find nothing */
	return false;
}

bool jiter_next(struct jiter *it)
{
	const char *p = it->p, *end = it->end;
	char close = it->object ? '}' : ']';

	if (!p || p >= end)
		return false;
	p = jscan_space(p, end);
	if (p < end && *p == close)
		return jiter_stop(it, p + 1);
	if (!it->fresh) {
		if (p >= end || *p != ',')
			return jiter_stop(it, NULL);
		p = jscan_space(p + 1, end);
	}
	it->fresh = false;
	if (it->object) {
		const char *stop = p < end && *p == '"' ? jscan_string(p, end) : NULL;
		if (!stop)
			return jiter_stop(it, NULL);
		it->key = (struct jval){ .type = JT_STRING, .text = p, .len = (size_t)(stop - p) };
		p = jscan_space(stop, end);
		if (p >= end || *p != ':')
			return jiter_stop(it, NULL);
		p = jscan_space(p + 1, end);
	}
	it->value = jscan_value(p, end);
	if (it->value.type == JT_NONE)
		return jiter_stop(it, NULL);
	it->p = it->value.text + it->value.len;
	if (it->p >= end) /* the closing bracket is missing */
		return jiter_stop(it, NULL);
	return true;
}

static bool jscan_equal(struct jval v, const char *s, size_t n);

/* Most strings differ in the first byte. False: they may be equal. */
static inline bool jscan_differs(struct jval v, const char *s)
{
	return v.type != JT_STRING || (v.len > 2 && v.text[1] != *s && v.text[1] != '\\');
}

static struct jval jval_getn(struct jval obj, const char *key, size_t n)
{
	if (obj.type != JT_OBJECT)
		return (struct jval){ 0 };
	for (struct jiter it = jiter_on(obj); jiter_next(&it);) {
		if (!(n && jscan_differs(it.key, key)) && jscan_equal(it.key, key, n))
			return it.value;
	}
	return (struct jval){ 0 };
}

struct jval jval_get(struct jval obj, const char *key) { return jval_getn(obj, key, strlen(key)); }

struct jval jval_path(struct jval obj, const char *dotted)
{
	for (;;) {
		size_t n = strcspn(dotted, ".");

		obj = jval_getn(obj, dotted, n);
		if (!dotted[n])
			return obj;
		dotted += n + 1;
	}
}

static int jscan_hex4(const char *p, const char *end)
{
	int v = 0;

	if (end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		char c = p[i];

		if (c >= '0' && c <= '9')
			v = v * 16 + (c - '0');
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			v = v * 16 + ((c | 32) - 'a' + 10);
		else
			return -1;
	}
	return v;
}

/* \uXXXX, after the u; an unpaired surrogate or an invalid digit becomes U+FFFD. */
static const char *jscan_unicode(const char *p, const char *end, char out[4], size_t *ret_n)
{
	int hi = jscan_hex4(p, end), lo;
	uint32_t c = 0xfffd;

	if (hi < 0) {
		*ret_n = text_utf8_encode(c, out);
		return p;
	}
	p += 4;
	if (hi < 0xd800 || hi > 0xdfff) {
		c = (uint32_t)hi;
	} else if (hi < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u') {
		lo = jscan_hex4(p + 2, end);
		if (lo >= 0xdc00 && lo <= 0xdfff) {
			c = 0x10000 + (((uint32_t)hi - 0xd800) << 10) + ((uint32_t)lo - 0xdc00);
			p += 6;
		}
	}
	*ret_n = text_utf8_encode(c, out);
	return p;
}

/* One escape sequence; p is after the backslash. */
static const char *jscan_escape(const char *p, const char *end, char out[4], size_t *ret_n)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	const char *at;

	if (*p == 'u')
		return jscan_unicode(p + 1, end, out, ret_n);
	at = memchr(from, *p, 5);
	out[0] = at ? to[at - from] : *p;
	*ret_n = 1;
	return p + 1;
}

/* Calls `put` for every run of the unescaped string. */
static void jscan_unescape(struct jval v, void (*put)(void *ctx, const char *s, size_t n), void *ctx)
{
	const char *p, *end;

	if (v.type != JT_STRING || v.len < 2)
		return;
	p = v.text + 1;
	end = v.text + v.len - 1;
	while (p < end) {
		const char *run = memchr(p, '\\', (size_t)(end - p));
		char out[4];
		size_t n;

		if (!run) {
			put(ctx, p, (size_t)(end - p));
			return;
		}
		if (run > p)
			put(ctx, p, (size_t)(run - p));
		if (run + 1 >= end)
			return;
		p = jscan_escape(run + 1, end, out, &n);
		put(ctx, out, n);
	}
}

struct jscan_compare {
	const char *s;
	size_t left;
	bool equal;
};

static void jscan_put_compare(void *ctx, const char *s, size_t n)
{
	struct jscan_compare *c = ctx;

	if (!c->equal || n > c->left || memcmp(c->s, s, n) != 0) {
		c->equal = false;
		return;
	}
	c->s += n;
	c->left -= n;
}

static bool jscan_equal(struct jval v, const char *s, size_t n)
{
	struct jscan_compare c = { .s = s, .left = n, .equal = v.type == JT_STRING };

	if (v.type != JT_STRING)
		return false;
	if (!memchr(v.text, '\\', v.len))
		return v.len == n + 2 && memcmp(v.text + 1, s, n) == 0;
	jscan_unescape(v, jscan_put_compare, &c);
	return c.equal && c.left == 0;
}

bool jval_is_str(struct jval v, const char *s) { return !jscan_differs(v, s) && jscan_equal(v, s, strlen(s)); }

struct jscan_copy {
	char *dst;
	size_t size; /* without the NUL */
	size_t have;
	size_t whole;
	bool full;
};

/* A string that does not fit is cut between characters; jval_str still returns the whole length. */
static void jscan_put_copy(void *ctx, const char *s, size_t n)
{
	struct jscan_copy *c = ctx;
	size_t take = n;

	c->whole += n;
	if (c->full)
		return;
	if (take > c->size - c->have) {
		take = text_utf8_cut(s, c->size - c->have);
		c->full = true;
	}
	memcpy(c->dst + c->have, s, take);
	c->have += take;
}

size_t jval_str(struct jval v, char *dst, size_t cap)
{
	struct jscan_copy c = { .dst = dst, .size = cap ? cap - 1 : 0, .full = cap == 0 };

	jscan_unescape(v, jscan_put_copy, &c);
	if (cap)
		dst[c.have] = '\0';
	return c.whole;
}

static void jscan_put_buf(void *ctx, const char *s, size_t n) { buf_append(ctx, s, n); }

void jval_str_buf(struct jval v, struct buf *dst) { jscan_unescape(v, jscan_put_buf, dst); }

char *jval_strdup(struct jval v)
{
	struct buf b = BUF_INIT;

	if (v.type != JT_STRING)
		return NULL;
	jval_str_buf(v, &b);
	return buf_take(&b);
}

/* Integers only: not "1.5", "1e3" or numbers that do not fit. */
static bool jscan_integer(struct jval v, bool *ret_negative, uint64_t *ret)
{
	uint64_t n = 0;

	if (v.type != JT_NUMBER)
		return false;
	*ret_negative = v.text[0] == '-';
	for (size_t i = *ret_negative; i < v.len; i++) {
		char c = v.text[i];

		if (c < '0' || c > '9' || __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(c - '0'), &n))
			return false;
	}
	*ret = n;
	return true;
}

int64_t jval_int(struct jval v, int64_t otherwise)
{
	bool negative;
	uint64_t n;

	if (!jscan_integer(v, &negative, &n) || n > (uint64_t)INT64_MAX + negative)
		return otherwise;
	return negative ? (int64_t)(0 - n) : (int64_t)n;
}

uint64_t jval_uint(struct jval v, uint64_t otherwise)
{
	bool negative;
	uint64_t n;

	if (!jscan_integer(v, &negative, &n) || (negative && n))
		return otherwise;
	return n;
}

bool jval_bool(struct jval v, bool otherwise)
{
	return v.type == JT_TRUE ? true : v.type == JT_FALSE ? false : otherwise;
}

/*
 * The capacity doubles, so appending is linear. `data` keeps a NUL after the last byte for callers that want a
 * string. Sizes that overflow abort, like out of memory.
 */

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define BUF_FIRST 256

void buf_done(struct buf *b)
{
	free(b->data);
	*b = BUF_INIT;
}

void buf_reset(struct buf *b)
{
	b->len = 0;
	if (b->data)
		b->data[0] = '\0';
}

/* Doubles until n more bytes and a NUL fit. */
static void buf_grow(struct buf *b, size_t n)
{
	size_t want, cap = b->cap ? b->cap : BUF_FIRST;

	if (n > SIZE_MAX / 4 - b->len)
		abort();
	want = b->len + n + 1;
	while (cap < want)
		cap *= 2;
	if (cap <= MEM_CACHED_MAX) {
		char *data = mem_alloc(cap);

		if (b->len)
			memcpy(data, b->data, b->len);
		free(b->data);
		b->data = data;
	} else {
		b->data = mem_realloc(b->data, cap);
	}
	b->cap = cap;
	b->data[b->len] = '\0';
}

char *buf_reserve(struct buf *b, size_t n)
{
	if (b->cap <= b->len || b->cap - b->len <= n)
		buf_grow(b, n);
	return b->data + b->len;
}

void buf_extend(struct buf *b, size_t n)
{
	assert(b->cap > b->len && b->cap - b->len > n);
	b->len += n;
	b->data[b->len] = '\0';
}

void buf_append(struct buf *b, const void *p, size_t n)
{
	char *at = buf_reserve(b, n);

	if (n)
		memcpy(at, p, n);
	at[n] = '\0';
	b->len += n;
}

void buf_str(struct buf *b, const char *s) { buf_append(b, s, strlen(s)); }

void buf_byte(struct buf *b, char c)
{
	char *at = buf_reserve(b, 1);

	at[0] = c;
	at[1] = '\0';
	b->len++;
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(b, fmt, ap);
	va_end(ap);
}

/* Formats into the free space first; a second time only if that was too small. */
void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;
	size_t space;
	int n;

	va_copy(again, ap);
	buf_reserve(b, 64);
	space = b->cap - b->len;
	n = vsnprintf(b->data + b->len, space, fmt, ap);
	if (n < 0)
		abort();
	if ((size_t)n >= space) {
		buf_reserve(b, (size_t)n);
		vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
	}
	b->len += (size_t)n;
	va_end(again);
}

void buf_consume(struct buf *b, size_t n)
{
	if (n >= b->len) {
		buf_reset(b);
		return;
	}
	memmove(b->data, b->data + n, b->len - n + 1);
	b->len -= n;
}

char *buf_take(struct buf *b)
{
	char *s;

	buf_reserve(b, 0);
	b->data[b->len] = '\0';
	s = b->data;
	*b = BUF_INIT;
	return s;
}

const char *buf_cstr(const struct buf *b) { return b->data ? b->data : ""; }

bool buf_has_text(const struct buf *list, const char *text)
{
	for (const char *s = list->data; s && s < list->data + list->len; s += strlen(s) + 1)
		if (strcmp(s, text) == 0)
			return true;
	return false;
}

#ifndef BAILIFF_BASE_BUF_H
#define BAILIFF_BASE_BUF_H

/*
 * A growing byte buffer. `data` is always NUL-terminated once anything was appended; `len` does not count it.
 *
 * The buffer owns its memory: declare it with buf_auto and BUF_INIT, or call buf_done. Pointers into `data` are invalid
 * after the next call that adds bytes. An empty buffer may have data == NULL; buf_cstr is safe in that case, too.
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct buf {
	char *data;
	size_t len;
	size_t cap;
};

#define BUF_INIT ((struct buf){ 0 })

void buf_done(struct buf *b);               /* frees and zeroes */
void buf_reset(struct buf *b);              /* len = 0, keeps the memory */
char *buf_reserve(struct buf *b, size_t n); /* space for n more bytes and a NUL; returns its start */
void buf_extend(struct buf *b, size_t n);   /* n bytes were written to the reserved space: adds them and a NUL */
void buf_append(struct buf *b, const void *p, size_t n);
void buf_str(struct buf *b, const char *s);
void buf_byte(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *fmt, va_list ap);
void buf_consume(struct buf *b, size_t n); /* drops n bytes at the front */
char *buf_take(struct buf *b);             /* the heap string (never NULL); b is empty afterwards */
const char *buf_cstr(const struct buf *b); /* "" when empty */
/* Whether a list of texts, each terminated by NUL, has this one. */
bool buf_has_text(const struct buf *list, const char *text);

#define buf_auto __attribute__((cleanup(buf_done)))

#endif

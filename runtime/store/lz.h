#ifndef BAILIFF_STORE_LZ_H
#define BAILIFF_STORE_LZ_H

/*
 * Compression of events and documents (internal to runtime/store): LZ77 in the block format of LZ4, with a dictionary
 * (lz_dictionary.h) that makes short JSON texts small from their first byte. Deterministic: the same text always gives
 * the same bytes. Any thread.
 */

#include <stddef.h>

struct buf;
struct err;

/* Other texts are stored as they are. Positions in dictionary and text are 16 bits. */
#define LZ_MIN 32u
#define LZ_MAX 49152u

/* Writes the compressed text to `dst` (n bytes are enough); 0: it would not be smaller. */
size_t lz_compress(const void *text, size_t n, void *dst);
/* Appends the text, which must have exactly `n` bytes; ERR_CORRUPT. */
int lz_expand(const void *p, size_t len, size_t n, struct buf *out, struct err *e);

#endif

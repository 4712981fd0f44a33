/* Streams of any bytes: however they are cut, the events are the same and none is larger than allowed. */

#include "runtime/base/hash.h"
#include "runtime/dialect/sse.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX 64

static void add_event(void *ctx, const char *data, size_t n)
{
	if (n > MAX || data[n] != '\0')
		abort();
	buf_printf(ctx, "%zu:", n);
	buf_append(ctx, data, n);
}

static uint64_t decode(const uint8_t *data, size_t size, size_t piece)
{
	buf_auto struct buf out = BUF_INIT;
	struct sse s;

	sse_init(&s, MAX);
	for (size_t at = 0; at < size; at += piece)
		sse_feed(&s, data + at, size - at < piece ? size - at : piece, add_event, &out);
	sse_finish(&s, add_event, &out);
	buf_printf(&out, "%d", s.too_large);
	sse_done(&s);
	return hash64(out.data, out.len, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t whole = decode(data, size, size ? size : 1);

	for (size_t piece = 1; piece < 8; piece++)
		if (decode(data, size, piece) != whole)
			abort();
	return 0;
}

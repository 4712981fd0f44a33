/* Names of keys, and the detection of a sequence of keys: all input except this sequence is passed on. */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/client/keys.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Input: a name, a newline, and the typed bytes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
	size_t named = end ? (size_t)(end - data) : size;
	mem_auto char *name = mem_strndup((const char *)data, named);
	const char *typed = (const char *)data + (end ? named + 1 : size);
	size_t n = size - (size_t)(typed - (const char *)data);
	buf_auto struct buf out = BUF_INIT;
	struct keys_watch w;
	struct err e = ERR_INIT;
	bool found;

	if (keys_watch_init(&w, name, &e) < 0)
		return 0;
	found = keys_watch_feed(&w, typed, n, &out);
	/* what is held back: a part of the sequence, or of a key */
	buf_append(&out, w.typed, w.matched ? w.ends[w.matched - 1] : 0);
	buf_append(&out, w.begun, w.nbegun);
	if (out.len > n || memcmp(buf_cstr(&out), typed, out.len) != 0 || (!found && out.len != n))
		abort();
	/* The passed bytes contain the sequence at most at their end, or as a part of a key. */
	for (size_t i = 0; w.n && !memchr(buf_cstr(&out), '\033', out.len) && i + w.n < out.len; i++)
		if (memcmp(out.data + i, w.bytes, w.n) == 0)
			abort();
	return 0;
}

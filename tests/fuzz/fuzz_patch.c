/* A patch and a file's text, apart by the first 0xff: whatever they are, reading and applying ends, and keeps to its memory. */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "supervisor/tool/patch.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data, *cut = size ? memchr(data, 0xff, size) : NULL;
	size_t n = cut ? (size_t)(cut - text) : size;
	const char *old = cut ? cut + 1 : "";
	size_t old_len = cut ? size - n - 1 : 0;
	patch_auto struct patch p = { 0 };
	struct err e = ERR_INIT;
	if (patch_parse(text, n, &p, &e) < 0)
		return 0;
	for (size_t i = 0; i < p.nfiles && i < 8; i++) {
		buf_auto struct buf out = BUF_INIT;
		(void)patch_text(&p.files[i], old, old_len, &out, &e);
	}
	return 0;
}

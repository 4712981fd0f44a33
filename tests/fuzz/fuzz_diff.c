/* Two texts, separated by the first 0xff: the diff must turn the first into the second. */

#include "runtime/base/buf.h"
#include "sandbox/diff.h"
#include "tests/unit/sandbox/patch.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *a = (const char *)data, *cut = size ? memchr(data, 0xff, size) : NULL;
	size_t an = cut ? (size_t)(cut - a) : size, bn = cut ? size - an - 1 : 0;
	const char *b = cut ? cut + 1 : "";
	buf_auto struct buf out = BUF_INIT, again = BUF_INIT;
	bool differ = diff_unified(a, an, b, bn, &out);
	if (differ != (an != bn || (an && memcmp(a, b, an) != 0)))
		abort();
	if (!patch_apply(a, an, buf_cstr(&out), out.len, &again) || again.len != bn ||
	    (bn && memcmp(again.data, b, bn) != 0))
		abort();
	return 0;
}

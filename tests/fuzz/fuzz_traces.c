/* What output leaves switched on: the same however it is cut, and undoing it leaves nothing. */

#include "pty/traces.h"
#include "runtime/base/buf.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct traces whole = TRACES_INIT, pieces = TRACES_INIT;
	buf_auto struct buf a = BUF_INIT, b = BUF_INIT;

	traces_feed(&whole, (const char *)data, size);
	for (size_t i = 0; i < size; i++)
		traces_feed(&pieces, (const char *)data + i, 1);
	traces_undo(&whole, &a);
	traces_undo(&pieces, &b);
	if (a.len != b.len || (a.len && memcmp(a.data, b.data, a.len) != 0))
		abort();
	traces_feed(&whole, buf_cstr(&a), a.len);
	if (!traces_clean(&whole))
		abort();
	return 0;
}

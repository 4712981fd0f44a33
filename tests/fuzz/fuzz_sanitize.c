/* A terminal's output for a reader: no control character but tab and newline, and the same however it is cut. */

#include "pty/sanitize.h"
#include "runtime/base/buf.h"
#include "runtime/base/text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sanitize whole = SANITIZE_INIT, pieces = SANITIZE_INIT;
	buf_auto struct buf a = BUF_INIT, b = BUF_INIT, again = BUF_INIT;

	sanitize_feed(&whole, (const char *)data, size, &a);
	sanitize_end(&whole, &a);
	for (size_t i = 0; i < size; i++)
		sanitize_feed(&pieces, (const char *)data + i, 1, &b);
	sanitize_end(&pieces, &b);
	if (a.len != b.len || (a.len && memcmp(a.data, b.data, a.len) != 0))
		abort();
	text_sanitize(buf_cstr(&a), a.len, &again); /* has nothing left to do */
	if (again.len != a.len || (a.len && memcmp(a.data, again.data, a.len) != 0))
		abort();
	return 0;
}

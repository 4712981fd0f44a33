/* Modes that output leaves on: the same for any split of the output, and the reset clears all of them. */

#include "pty/terminal_modes.h"
#include "runtime/base/buf.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct terminal_modes whole = TERMINAL_MODES_INIT, pieces = TERMINAL_MODES_INIT;
	buf_auto struct buf a = BUF_INIT, b = BUF_INIT;

	terminal_modes_feed(&whole, (const char *)data, size);
	for (size_t i = 0; i < size; i++)
		terminal_modes_feed(&pieces, (const char *)data + i, 1);
	terminal_modes_write_reset(&whole, &a);
	terminal_modes_write_reset(&pieces, &b);
	if (a.len != b.len || (a.len && memcmp(a.data, b.data, a.len) != 0))
		abort();
	terminal_modes_feed(&whole, buf_cstr(&a), a.len);
	if (!terminal_modes_is_default(&whole))
		abort();
	return 0;
}

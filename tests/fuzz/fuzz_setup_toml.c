/* Any file: either rejected, or merged so that a second merge changes nothing. */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/setup.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct setup_entry entry = { .program = "/b" };
	struct buf buf_auto text = BUF_INIT, once = BUF_INIT, twice = BUF_INIT;
	struct err e = ERR_INIT;

	buf_append(&text, data, size);
	if (setup_merge_toml(buf_cstr(&text), &entry, &once, &e) < 0)
		return 0;
	if (setup_merge_toml(buf_cstr(&once), &entry, &twice, &e) < 0 || strcmp(buf_cstr(&once), buf_cstr(&twice)) != 0)
		abort();
	return 0;
}

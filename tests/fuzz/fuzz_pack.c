/* pack_check: whatever a file holds, it is projected, found to differ, or rejected with a reason. */

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/evidence/pack_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	mem_auto char *text = mem_dup(data, size);
	struct pack_verdict v;
	struct err e = ERR_INIT;

	if (pack_check(text, size, &v, &e) < 0) {
		if (!e.message[0])
			abort();
		return 0;
	}
	if (v.ok != (v.nproblems == 0))
		abort();
	return 0;
}

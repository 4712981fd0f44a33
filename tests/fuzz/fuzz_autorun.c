/* Reports on autorun files, as runtime and spawner read them after autorun_report_check has accepted them. */

#include "sandbox/autorun_report.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t key[AUTORUN_SEAL_BYTES] = { 7 };
	void *report = malloc(size ? size : 1); /* just as long: nothing beyond may be read */
	struct autorun_record r;
	size_t at = 0, sum = 0;
	if (!report)
		abort();
	memcpy(report, data, size);
	if (autorun_report_check(report, size, NULL) == 0) {
		while (autorun_report_next(report, &at, &r)) {
			sum += r.path_len + r.program_len + r.before.len + r.after.len;
			if (r.path[0] != '/' || memchr(r.path, 0, r.path_len) || !autorun_record_change(&r))
				abort();
			if (r.after.len && memchr(r.after.text, 0, r.after.len) == report)
				abort();
		}
		if (autorun_report_sealed(report, key))
			abort(); /* the seal cannot be guessed */
	}
	if (sum > size)
		abort();
	free(report);
	return 0;
}

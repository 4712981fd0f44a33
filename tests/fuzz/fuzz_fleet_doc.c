/* Documents of a hostile bus: accepted ones can be written and read again, and no read exceeds the input. */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/fleet/fleet_doc.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	mem_auto char *text = mem_dup(data, size);
	struct buf buf_auto out = BUF_INIT;
	struct err e = ERR_INIT;
	struct fleet_task t, again;
	struct fleet_spec spec;
	struct fleet_signed s = { 0 };
	struct fleet_request r;

	if (fleet_task_parse(text, size, &t, &e) == 0) {
		fleet_task_write(&t, &out);
		if (fleet_task_parse(out.data, out.len, &again, &e) < 0)
			abort();
		fleet_task_attempts_allowed(&again, NULL, NULL);
		fleet_task_cancelled(&again, NULL, NULL);
		fleet_task_done(&t);
		fleet_task_done(&again);
	}
	if (fleet_spec_parse(text, size, &spec, &e) == 0)
		fleet_spec_done(&spec);
	if (fleet_signed_parse(text, size, &s, &e) == 0 && s.text && fleet_request_parse(s.text, &r, &e) == 0)
		fleet_request_done(&r);
	fleet_signed_done(&s);
	return 0;
}

/* Any JSON as the parameters of any method: accepted, or rejected with the field and a message. */

#include "runtime/base/err.h"
#include "supervisor/control/control.h"
#include "supervisor/control/method_params.h"
#include "tests/unit/supervisor/control/fake_engine.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	json_auto_t *params = json_loadb((const char *)data + 1, size - 1, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
					 NULL);
	if (!json_is_object(params))
		return 0;
	struct err e = ERR_INIT;
	const struct method *m = &control_methods.rows[data[0] % control_methods.count];
	union method_params parsed = { 0 };
	if (params_parse(m->params(), params, &parsed, &e) < 0 &&
	    (e.code != ERR_INVALID || !e.field[0] || !e.message[0]))
		abort();
	return 0;
}

/* config.json: any text is either accepted as a whole or rejected with a message. */

#include "runtime/base/err.h"
#include "supervisor/host/config.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = ERR_INIT;
	struct config c;

	config_defaults(&c);
	if (config_parse((const char *)data, size, &c, &e) < 0 && (e.code != ERR_INVALID || !e.message[0]))
		abort();
	return 0;
}

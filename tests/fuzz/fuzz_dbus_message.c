/* Messages from the bus, as the guard reads them when it asks systemd for a scope. */

#include "supervisor/daemon/dbus_message.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *p = malloc(size ? size : 1); /* just as long: nothing beyond may be read */
	struct dbus_message m;

	if (!p)
		abort();
	if (size)
		memcpy(p, data, size);
	if (dbus_message_read(p, size, &m) == 0) {
		struct dbus_reader r = { .p = m.body, .len = m.body_len };
		char text[32];
		uint32_t number;
		if (m.body + m.body_len != p + size)
			abort();
		(void)!(dbus_get_u32(&r, &number) && dbus_get_str(&r, text, sizeof text) &&
			dbus_get_str(&r, text, sizeof text));
	}
	free(p);
	return 0;
}

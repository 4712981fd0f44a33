/* event_view_of: any bytes are either parsed as a record or rejected as corrupt. */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/event/event.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	mem_auto void *record = mem_dup(data, size);
	buf_auto struct buf json = BUF_INIT;
	struct err e = ERR_INIT;
	struct event_index index;
	struct event_view v;
	char id[ID_TEXT_MAX];

	if (event_view_of(record, size, 1, &v, &e) < 0) {
		if (e.code != ERR_CORRUPT || !e.message[0])
			abort();
		return 0;
	}
	for (int f = 0; f < ID_FIELD_COUNT; f++)
		event_id_copy(&v, f, id, sizeof(id));
	jval_get(event_payload(&v), "status");
	event_member(&v, "sessionId");
	event_view_index(&v, &index);
	event_payload_member(&v, "status");
	event_member(&v, "sessionId");
	event_json(&v, &json);
	return 0;
}

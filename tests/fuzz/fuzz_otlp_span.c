/* Events of any shape: every span is valid JSON, and no read exceeds the input. */

#include "runtime/base/mem.h"
#include "supervisor/otlp/span.h"

#include <jansson.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	mem_auto char *text = mem_dup(data, size);
	struct span_table book;
	struct buf buf_auto out = BUF_INIT;
	size_t at = 0;

	span_table_init(&book, "rt_1");
	buf_str(&out, "[{}"); /* an event to a line */
	while (at < size) {
		const char *end = memchr(text + at, '\n', size - at);
		size_t n = end ? (size_t)(end - text) - at : size - at;

		span_table_event(&book, jval_of(text + at, n), &out);
		at += n + 1;
	}
	buf_str(&out, "]");
	json_auto_t *spans = json_loadb(out.data, out.len, 0, NULL);
	if (!spans)
		abort();
	span_table_done(&book);
	return 0;
}

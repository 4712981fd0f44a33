/* Audit records from the kernel, which contain names that hostile programs chose: lines of "type text". */

#include "runtime/base/mem.h"
#include "sandbox/violation.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned type_of(const char **p, const char *end)
{
	unsigned n = 0;

	while (*p < end && **p >= '0' && **p <= '9' && n < 100000)
		n = n * 10 + (unsigned)(*(*p)++ - '0');
	if (*p < end && **p == ' ')
		(*p)++;
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct violation_builder *b = violation_builder_new();
	const char *p = (const char *)data, *end = p + size;

	while (p < end) {
		const char *line_end = memchr(p, '\n', (size_t)(end - p));
		const struct violation *v = NULL;
		struct violation_mark mark;

		if (!line_end)
			line_end = end;
		unsigned type = type_of(&p, line_end);
		mem_auto char *text = mem_dup(p, (size_t)(line_end - p));
		if (violation_builder_take(b, type, text, (size_t)(line_end - p), &v, &mark) == VIOLATION_READY) {
			if (!v->kind || !v->operation || !v->source || strlen(v->path) >= sizeof v->path)
				abort();
			violation_is_benign(v);
			struct violation *copy = violation_copy(v);
			if (!violation_same(copy, v))
				abort();
			free(copy);
		}
		p = line_end < end ? line_end + 1 : end;
	}
	violation_builder_free(b);
	return 0;
}

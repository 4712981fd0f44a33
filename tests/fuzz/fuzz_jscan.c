/* jscan: safe on any bytes, and where jansson finds an object's member, so does jscan. */

#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"

#include <jansson.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(struct jval v, int depth)
{
	char small[5];

	jval_str(v, small, sizeof(small));
	jval_int(v, 0);
	jval_uint(v, 0);
	jval_bool(v, false);
	for (struct jiter it = jiter_on(v); depth < JSCAN_DEPTH && jiter_next(&it);) {
		mem_auto char *key = jval_strdup(it.key);

		if (key && jval_get(v, key).type == JT_NONE && strlen(key) == jval_str(it.key, NULL, 0))
			abort();
		walk(it.value, depth + 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* an exact copy, so that a sanitizer sees every byte read too far */
	mem_auto char *text = mem_dup(data, size);
	struct jval v = jval_of(text, size);
	json_auto_t *tree = json_loadb(text, size, 0, NULL);
	const char *key;
	json_t *value;

	walk(v, 0);
	jval_path(v, "a.b.c");
	json_object_foreach (tree, key, value)
		if (v.type == JT_OBJECT && jval_get(v, key).type == JT_NONE)
			abort();
	return 0;
}

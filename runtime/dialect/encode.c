#include "runtime/dialect/encode.h"

#include "runtime/base/json_get.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"

#include <string.h>

void encode_value(struct jw *w, const json_t *value)
{
	mem_auto char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

	if (text)
		jw_raw(w, text, strlen(text));
	else
		jw_null(w); /* deeper than jansson writes */
}

void encode_key_value(struct jw *w, const char *key, const json_t *value_or_null)
{
	jw_key(w, key);
	if (value_or_null)
		encode_value(w, value_or_null);
	else
		jw_raw(w, "{}", 2);
}

void encode_key_data_url(struct jw *w, const char *key, const json_t *image)
{
	mem_auto char *url = mem_printf("data:%s;base64,%s", json_get_text(image, "mediaType"),
					json_get_text(image, "data"));

	jw_kstr(w, key, url);
}

void encode_key_text(struct jw *w, const char *key, const json_t *value_or_null)
{
	mem_auto char *text = value_or_null ? json_dumps(value_or_null, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	jw_kstr(w, key, text ? text : "{}");
}

#ifndef BAILIFF_BASE_JSON_GET_H
#define BAILIFF_BASE_JSON_GET_H

/* Members of a JSON object (jansson) by name. A missing member, one of another type and a NULL object are the same. */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* NULL if it is not a string. */
static inline const char *json_get_string(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

/* "" if it is not a string. */
static inline const char *json_get_text(const json_t *object, const char *key)
{
	const char *s = json_get_string(object, key);

	return s ? s : "";
}

static inline bool json_text_is(const json_t *object, const char *key, const char *text)
{
	return strcmp(json_get_text(object, key), text) == 0;
}

/* 0 if it is not a positive integer. */
static inline uint64_t json_get_uint(const json_t *object, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(object, key));

	return v > 0 ? (uint64_t)v : 0;
}

static inline bool json_get_flag(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}

/* Whether arrays and objects are nested in more than `most` levels. */
static inline bool json_is_deeper(const json_t *value, unsigned most)
{
	json_t *v = (json_t *)(uintptr_t)value, *item;
	const char *key;
	size_t i;

	if (!most)
		return json_is_array(v) || json_is_object(v);
	json_array_foreach (v, i, item)
		if (json_is_deeper(item, most - 1))
			return true;
	json_object_foreach (v, key, item)
		if (json_is_deeper(item, most - 1))
			return true;
	return false;
}

#endif

#ifndef BAILIFF_EVENT_JSON_VALUE_H
#define BAILIFF_EVENT_JSON_VALUE_H

/*
 * A JSON value that is written later, straight into the payload: either its text, or a function that writes it. Zeroed
 * is absent. It owns nothing: what it points to must live until the event is written.
 */

#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"

#include <string.h>

/* Writes exactly one value. `n` is what json_from_writer was given, for example the length of a list. */
typedef void json_write_fn(struct jw *w, const void *value, size_t n);

struct json_value {
	json_write_fn *write; /* NULL = `value` is JSON text of `n` bytes */
	const void *value;
	size_t n;
	bool certain; /* the text is one value that bailiff's own writer has made */
};

#define JSON_NONE ((struct json_value){ 0 })
#define JSON_EMPTY_ARRAY ((struct json_value){ .value = "[]", .n = 2 })

static inline struct json_value json_from_writer(json_write_fn *write, const void *value, size_t n)
{
	return (struct json_value){ .write = write, .value = value, .n = n };
}

/* JSON text, or NULL. */
static inline struct json_value json_from_text(const char *text)
{
	return (struct json_value){ .value = text, .n = text ? strlen(text) : 0 };
}

/* Text that jw has written as one value, or NULL. It is not scanned when the event is encoded. */
static inline struct json_value json_from_written(const char *text)
{
	return (struct json_value){ .value = text, .n = text ? strlen(text) : 0, .certain = true };
}

static inline struct json_value json_from_buf(const struct buf *b)
{
	return b->len ? (struct json_value){ .value = b->data, .n = b->len } : JSON_NONE;
}

static inline struct json_value json_from_jval(struct jval v)
{
	return v.type != JT_NONE ? (struct json_value){ .value = v.text, .n = v.len } : JSON_NONE;
}

void json_write_string(struct jw *w, const void *text, size_t n);
void json_write_strings(struct jw *w, const void *strv, size_t n);
void json_write_uint(struct jw *w, const void *number, size_t n);
void json_write_real(struct jw *w, const void *number, size_t n);

/* A string for a member of kind ANY; NULL = absent. */
static inline struct json_value json_from_string(const char *s)
{
	return s ? json_from_writer(json_write_string, s, 0) : JSON_NONE;
}

/* An array of strings. */
static inline struct json_value json_from_strings(const char *const *strv, size_t n)
{
	return json_from_writer(json_write_strings, strv, n);
}

static inline struct json_value json_from_uint(const uint64_t *number)
{
	return json_from_writer(json_write_uint, number, 0);
}

static inline struct json_value json_from_real(const double *number)
{
	return json_from_writer(json_write_real, number, 0);
}

void json_value_write(struct jw *w, struct json_value v); /* one that is not absent */
/* Writes nothing for an absent value. */
void json_value_member(struct jw *w, const char *key, struct json_value v);

#endif

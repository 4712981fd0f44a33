#ifndef BAILIFF_BASE_JSCAN_H
#define BAILIFF_BASE_JSCAN_H

/*
 * Reads members of JSON text without building a tree: for records that bailiff itself has written and reads often
 * (projections, filters, the command line). Memory-safe on any bytes; finds nothing in text that is not JSON. It does
 * not validate: input from outside is parsed with jansson.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

enum jtype { JT_NONE = 0, JT_OBJECT, JT_ARRAY, JT_STRING, JT_NUMBER, JT_TRUE, JT_FALSE, JT_NULL };

/* The text of a value inside the scanned text, with quotes or brackets. All zero = no value. */
struct jval {
	enum jtype type;
	const char *text;
	size_t len;
};

struct jval jval_of(const char *text, size_t len);          /* the value that the text starts with */
struct jval jval_get(struct jval obj, const char *key);     /* a member, or JT_NONE */
struct jval jval_path(struct jval obj, const char *dotted); /* "payload.exitCode" */

#define JSCAN_DEPTH 64 /* deeper containers are not found */
/* Of a value from outside: events, documents and replies with it add levels of their own. */
#define JSCAN_VALUE_DEPTH (JSCAN_DEPTH - 16)

/*
 * for (struct jiter it = jiter_on(v); jiter_next(&it);) … it.key (objects only, JT_STRING) and it.value
 * After the loop it.p is after the closing bracket, or NULL if the text is malformed.
 */
struct jiter {
	const char *p, *end;
	struct jval key;
	struct jval value;
	bool object;
	bool fresh; /* jiter_next was not called yet */
};
struct jiter jiter_on(struct jval container);
/* Over the members of an object whose opening brace is not part of the text. */
struct jiter jiter_inside(const char *text, size_t len);
bool jiter_next(struct jiter *it);

bool jval_is_str(struct jval v, const char *s); /* equal after unescaping */
/* Unescaped, truncated to cap and NUL-terminated; "" unless a string. Returns the full length. */
size_t jval_str(struct jval v, char *dst, size_t cap);
void jval_str_buf(struct jval v, struct buf *dst); /* appends the unescaped string */
char *jval_strdup(struct jval v);                  /* NULL unless a string */
int64_t jval_int(struct jval v, int64_t otherwise);
uint64_t jval_uint(struct jval v, uint64_t otherwise);
bool jval_bool(struct jval v, bool otherwise);

#endif

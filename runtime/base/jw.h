#ifndef BAILIFF_BASE_JW_H
#define BAILIFF_BASE_JW_H

/*
 * Writes JSON to a buf: no tree, no allocation except for the buffer, automatic commas. All JSON that bailiff sends or
 * stores is written with it; jansson only parses input from outside.
 *
 * Strings become valid UTF-8 (U+FFFD for an invalid byte) and are escaped, including characters that are dangerous on a
 * terminal (C1 controls, changes of the writing direction). For exact bytes use base64.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

struct jw {
	struct buf *buf;
	bool need_comma;
};

static inline struct jw jw_on(struct buf *b) { return (struct jw){ .buf = b }; }

void jw_obj(struct jw *w);
void jw_obj_end(struct jw *w);
void jw_arr(struct jw *w);
void jw_arr_end(struct jw *w);
void jw_key(struct jw *w, const char *key);

void jw_str(struct jw *w, const char *s);
void jw_strn(struct jw *w, const char *s, size_t n);
void jw_int(struct jw *w, int64_t v);
void jw_uint(struct jw *w, uint64_t v);
void jw_real(struct jw *w, double v);
void jw_bool(struct jw *w, bool v);
void jw_null(struct jw *w);
void jw_raw(struct jw *w, const char *json, size_t n); /* a complete JSON value */
void jw_base64(struct jw *w, const void *p, size_t n); /* as a string */

/* key and value; jw_kopt writes nothing for NULL, "absent members are omitted, never null". */
void jw_kobj(struct jw *w, const char *key);
void jw_karr(struct jw *w, const char *key);
void jw_kstr(struct jw *w, const char *key, const char *s);
void jw_kopt(struct jw *w, const char *key, const char *s_or_null);
void jw_kstrn(struct jw *w, const char *key, const char *s, size_t n);
void jw_kint(struct jw *w, const char *key, int64_t v);
void jw_kuint(struct jw *w, const char *key, uint64_t v);
void jw_kbool(struct jw *w, const char *key, bool v);
void jw_kraw(struct jw *w, const char *key, const char *json, size_t n);
void jw_kstrv(struct jw *w, const char *key, const char *const *strv, size_t n); /* array of strings */

#endif

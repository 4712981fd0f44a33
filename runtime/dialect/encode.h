#ifndef BAILIFF_DIALECT_ENCODE_H
#define BAILIFF_DIALECT_ENCODE_H

/* JSON values (jansson) inside of a request body. Members keep their order, so that equal values are equal bytes. */

#include <jansson.h>

struct jw;

void encode_value(struct jw *w, const json_t *value);
void encode_key_value(struct jw *w, const char *key, const json_t *value_or_null); /* NULL = {} */
/* A value as a string that holds its JSON text. */
void encode_key_text(struct jw *w, const char *key, const json_t *value_or_null);

#endif

#ifndef BAILIFF_DIALECT_ENCODE_H
#define BAILIFF_DIALECT_ENCODE_H

/* JSON values (jansson) inside of a request body. Members keep their order, so that equal values are equal bytes. */

#include <jansson.h>

struct jw;

void encode_value(struct jw *w, const json_t *value);
void encode_key_value(struct jw *w, const char *key, const json_t *value_or_null); /* NULL = {} */
/* An image of the conversation as a data: URL. */
void encode_key_data_url(struct jw *w, const char *key, const json_t *image);
/* A value as a string that holds its JSON text. */
void encode_key_text(struct jw *w, const char *key, const json_t *value_or_null);

#endif

#ifndef BAILIFF_POLICY_TEXT_H
#define BAILIFF_POLICY_TEXT_H

#include <jansson.h>
#include <stddef.h>

struct err;

#define POLICY_TEXT_MAX (4u << 20)

/* A policy file's text as an object, for json_decref; NULL with the file's name and the place of the fault. Each part
 * of it has its reader. */
json_t *policy_text_load(const char *name, const char *text, size_t len, size_t max, struct err *e);

#endif

#ifndef BAILIFF_POLICY_TEXT_H
#define BAILIFF_POLICY_TEXT_H

#include <jansson.h>
#include <stddef.h>

struct err;

/* A policy file that is being read. */
struct policy_text {
	const char *name, *text;
	size_t len;
};

#define POLICY_TEXT_MAX (4u << 20)

/*
 * Parses the text of a policy file to an object, which the caller releases with json_decref. NULL: *e has the file's
 * name and the position of the error. Each section has its own reader.
 */
json_t *policy_text_load(const char *name, const char *text, size_t len, size_t max, struct err *e);

/*
 * The line of the last of these words, each of them searched after the previous one; NULL ends them. The parser does
 * not keep line numbers, but messages need one.
 */
unsigned policy_text_line(const struct policy_text *f, const char *const *words, size_t n);

#endif

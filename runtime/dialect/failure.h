#ifndef BAILIFF_DIALECT_FAILURE_H
#define BAILIFF_DIALECT_FAILURE_H

/*
 * What a provider's error means: its category, whether and when to retry. Sources, in this order: the provider's own
 * type or code, the message's text, the HTTP status. The rules are tables in failure.c.
 */

#include "runtime/dialect/dialect.h"

/* status: of the response; 0 or 2xx = the error came inside of a successful response. error: any JSON, or NULL. */
void failure_classify(int status, const json_t *headers, const json_t *error, struct dialect_failure *ret);
/* A response that failed with a body that is not JSON (a proxy's page, text, nothing). */
void failure_from_text(int status, const json_t *headers, const char *body, size_t n, struct dialect_failure *ret);
/* One line, safe for a terminal, cut to the space that there is. */
void failure_message(struct dialect_failure *f, const char *text, size_t n);
/* Whether the text is a web page. */
bool failure_is_html(const char *body, size_t n);

#endif

#ifndef BAILIFF_GATEWAY_CODEX_GLOB_SCAN_H
#define BAILIFF_GATEWAY_CODEX_GLOB_SCAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

/* '*' and '?' within a name, '**' for any number of folders; both absolute and clean. */
bool glob_scan_match(const char *pattern, const char *path);
/* Adds what exists and matches to `ret`, at most `most`. ERR_INVALID when there is more to look through than is
 * sensible. */
int glob_scan(const char *pattern, size_t most, json_t *ret, struct err *e);

#endif

#ifndef BAILIFF_GATEWAY_CODEX_GLOB_SCAN_H
#define BAILIFF_GATEWAY_CODEX_GLOB_SCAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

/* '*' and '?' match within a name, '**' any number of directories. Both arguments are absolute and clean. */
bool glob_scan_match(const char *pattern, const char *path);
/* Appends the existing paths that match to `ret`, at most `most`. ERR_INVALID if the search exceeds its limits. */
int glob_scan(const char *pattern, size_t most, json_t *ret, struct err *e);

#endif

#ifndef BAILIFF_FLEET_MEMBER_H
#define BAILIFF_FLEET_MEMBER_H

/*
 * Members of documents from the bus, read with their bounds. A missing member is not an error and leaves *ret as it is;
 * one of another type, length or range is, and the error names it. Strings point into the object.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct fleet_signed;

/* Parses an object of at most `max` bytes; NULL with the error, which calls it `what`. */
json_t *member_object(const char *text, size_t n, size_t max, const char *what, struct err *e);
/* Every member of the object is one of these; the list ends with NULL. */
int member_known(const json_t *object, const char *what, const char *const *known, struct err *e);
/* "v":1 is there. */
int member_version(const json_t *object, struct err *e);
int member_string(const json_t *object, const char *name, size_t min, size_t max, const char **ret, struct err *e);
int member_uint(const json_t *object, const char *name, uint64_t min, uint64_t max, uint64_t *ret, struct err *e);
int member_flag(const json_t *object, const char *name, bool *ret, struct err *e);
int member_typed(const json_t *object, const char *name, json_type type, const json_t **ret, struct err *e);
/* fleet_id_valid */
int member_id(const json_t *object, const char *name, const char **ret, struct err *e);
int member_ids(const json_t *object, const char *name, size_t max, const json_t **ret, struct err *e);
/* An envelope as a member; name NULL: the object itself. */
int member_signed(const json_t *object, const char *name, struct fleet_signed *ret, struct err *e);

#endif

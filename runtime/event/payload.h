#ifndef BAILIFF_EVENT_PAYLOAD_H
#define BAILIFF_EVENT_PAYLOAD_H

/*
 * Checks of payloads against `event_info.payload`, which is the row's fields as "name:type name?:type …". The string is
 * read as it is. A payload usually has its members in the order of the row, so the check walks both together and
 * searches from the start only where they differ.
 */

#include "runtime/base/jscan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct event_info;

#define PAYLOAD_MEMBERS_MAX 64 /* in one row */

struct payload_member {
	const char *name; /* not NUL-terminated */
	size_t name_len;
	const char *type; /* not NUL-terminated */
	size_t type_len;
	bool optional;
};

/* for (const char *p = info->payload; payload_member_next(&p, &m);) … */
bool payload_member_next(const char **p, struct payload_member *ret);

/* The payload is one object, has the required members, and members that the row names have the type that it names. */
int payload_check(const struct event_info *info, const char *json, size_t len, struct err *e);

/* required_members: marks a name that is present in `seen`, and reports the first that is missing. */
void payload_name_seen(const char *names, struct jval key, uint64_t *seen);
int payload_names_missing(const struct event_info *info, uint64_t seen, struct err *e);

#endif

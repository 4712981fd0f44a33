#ifndef BAILIFF_EVENT_PAYLOAD_H
#define BAILIFF_EVENT_PAYLOAD_H

/*
 * The payload column of event_types.def: "name:type name?:type …", read as it stands. A payload usually brings its
 * members in the order of the row, so the check walks both together and only looks back when they part.
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

/* The payload is one object, has what the row demands, and what the row names has the named type. */
int payload_check(const struct event_info *info, const char *json, size_t len, struct err *e);

/* required_members: marks a name that was there in `seen`, and tells the first that was not. */
void payload_name_seen(const char *names, struct jval key, uint64_t *seen);
int payload_names_missing(const struct event_info *info, uint64_t seen, struct err *e);

#endif

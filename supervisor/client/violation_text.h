#ifndef BAILIFF_CLIENT_VIOLATION_TEXT_H
#define BAILIFF_CLIENT_VIOLATION_TEXT_H

/* A sandbox.violation in plain words, and what would have to be granted for it not to happen again. */

#include "runtime/base/jscan.h"

#include <stdbool.h>

struct buf;

/* What several refusals of one process would take; zeroed = nothing. */
struct violation_needs {
	bool write, read;
	bool network;     /* something was tried without any network */
	bool proxy;       /* something was tried past the proxy */
	char folder[256]; /* of the first path that was to be written; "" = none was told */
	char file[256];   /* the first path that is hidden; "" = none was told */
	char host[256];   /* the first that is not among the allowed ones, a name or an address; "" = none */
	int port;         /* 0 = any */
};

/* "write /etc/hosts (outside the write roots)"; `violation` is the event's payload, or a row of a process's violations.
 */
void violation_text_describe(struct jval violation, struct buf *out);
/* A guess from what the command printed: nothing reported the refusal itself. */
bool violation_text_is_hint(struct jval violation);
/*
 * A name was looked up, or a resolver tried. Many programs do that and go on without: a command that succeeded did not
 * need it, and nobody is told.
 */
bool violation_text_is_lookup(struct jval violation);
/* Adds what this one would take, if anything could be granted at all. */
void violation_needs_add(struct violation_needs *n, struct jval violation);
/* "example.org:443", "[::1]:80"; "" when no host is missing that could be named. */
void violation_needs_host(const struct violation_needs *n, struct buf *out);

#endif

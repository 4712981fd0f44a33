#ifndef BAILIFF_SANDBOX_VIOLATION_TEXT_H
#define BAILIFF_SANDBOX_VIOLATION_TEXT_H

/* A sandbox.violation as text, and the permissions that would prevent it. */

#include "runtime/base/jscan.h"

#include <stdbool.h>

struct buf;

/* The permissions that several violations of one process would need; zeroed = none. */
struct violation_needs {
	bool write, read;
	bool located;     /* a write to a path, not in an open folder whose path is unknown */
	bool network;     /* network access without a network */
	bool proxy;       /* a connection that bypasses the proxy */
	bool session;     /* what an earlier command has left in a sandbox of its own */
	bool policy;      /* a file that the policy hides */
	bool closed;      /* another sandbox has to be closed first */
	bool protected;   /* a file that no option opens */
	bool outside;     /* a system folder to write, or credentials: an option would be dangerous */
	char folder[256]; /* of the first path to write; "" = unknown */
	char file[256];   /* the first hidden path; "" = unknown */
	char host[256];   /* the first host that is not allowed, a name or an address; "" = none */
	int port;         /* 0 = any */
};

/*
 * "write /etc/hosts (outside the write roots)". `violation` is the event's payload, or a row of a process's violations.
 */
void violation_text_describe(struct jval violation, struct buf *out);
/* A guess from the command's output: neither the kernel nor the proxy reported it. */
bool violation_text_is_hint(struct jval violation);
/*
 * A name lookup, or the index that git status refreshes. Many programs try that and continue without: if the command
 * succeeded, it was not needed and is not reported.
 */
bool violation_text_is_optional(struct jval violation);
/* A guess that a file in /tmp or a server on localhost is in the sandbox of another command: nothing was denied. */
bool violation_text_is_elsewhere(struct jval violation);
/* Adds the permission for this violation, if there is one. */
void violation_needs_add(struct violation_needs *n, struct jval violation);
/* What to do about those for which no option is suggested: a sentence without a full stop; NULL = there are none. */
const char *violation_needs_person(const struct violation_needs *n);
/* "example.org:443", "[::1]:80"; "" if no host is needed or known. */
void violation_needs_host(const struct violation_needs *n, struct buf *out);

#endif

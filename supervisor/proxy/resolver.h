#ifndef BAILIFF_SUPERVISOR_PROXY_RESOLVER_H
#define BAILIFF_SUPERVISOR_PROXY_RESOLVER_H

/*
 * Resolves names with the system's resolver, which follows the machine's configuration. It blocks, so it runs in a few
 * threads. A name is looked up once per connection; the resulting addresses are the ones that are checked and dialled.
 * One sandbox, and all sandboxes of one user, can occupy only a part of the threads: a lookup takes long if its name
 * server does not answer, and others must not wait for it.
 *
 * Not cached: a cache would have to honour the time to live, which getaddrinfo does not report. The system's own cache,
 * if there is one, is used.
 */

#include "sandbox/host_rule.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;
struct resolver;
struct lookup;

#define LOOKUP_ADDRESSES_MAX 8

/* error: an EAI_… code, or 0. Not called after lookup_cancel. */
typedef void (*lookup_fn)(void *ctx, int error, const struct net_address *addresses, size_t n);

struct resolver *resolver_new(struct event_base *base);
void resolver_free(struct resolver *r);
/* Adds a fixed answer for a name, in effect after resolver_fixed; a NULL address removes the ones added so far. */
void resolver_fix(struct resolver *r, const char *name, const struct net_address *a);
/* The fixed answers added so far replace the previous ones. */
void resolver_fixed(struct resolver *r);
/* Whom a lookup is for. */
struct lookup_owner {
	uint32_t uid;
	const void *sandbox; /* only compared */
};
/* fn is called from the event loop, never before this returns. NULL = too many lookups are in progress. */
struct lookup *resolver_ask(struct resolver *r, const struct lookup_owner *owner, const char *name, lookup_fn fn,
			    void *ctx);
void lookup_cancel(struct lookup *l);

#endif

#ifndef BAILIFF_SUPERVISOR_PROXY_RESOLVER_H
#define BAILIFF_SUPERVISOR_PROXY_RESOLVER_H

/*
 * Names to addresses with the system's resolver, which knows the machine's configuration and blocks, so it runs in a
 * few threads. A name is looked up once per connection; the addresses found are those that are checked and dialled.
 */

#include "sandbox/host_rule.h"

#include <stdbool.h>
#include <stddef.h>

struct event_base;
struct resolver;
struct lookup;

#define LOOKUP_ADDRESSES_MAX 8

/* error: an EAI_… code, or 0. Not called after lookup_cancel. */
typedef void (*lookup_fn)(void *ctx, int error, const struct net_address *addresses, size_t n);

struct resolver *resolver_new(struct event_base *base);
void resolver_free(struct resolver *r);
/* Adds a fixed answer for a name, effective after resolver_fixed; a NULL address removes those added so far. */
void resolver_fix(struct resolver *r, const char *name, const struct net_address *a);
/* The fixed answers added so far take effect and replace the previous ones. */
void resolver_fixed(struct resolver *r);
/* Calls fn later, never from within. NULL = too many lookups are in progress. */
struct lookup *resolver_ask(struct resolver *r, const char *name, lookup_fn fn, void *ctx);
void lookup_cancel(struct lookup *l);

#endif

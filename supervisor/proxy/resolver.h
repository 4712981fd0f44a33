#ifndef BAILIFF_SUPERVISOR_PROXY_RESOLVER_H
#define BAILIFF_SUPERVISOR_PROXY_RESOLVER_H

/*
 * Names to addresses, by the system's resolver in a few threads: it is the one that knows the machine's configuration,
 * and it blocks. Each name is looked up once for each connection, and the addresses found are the ones that are judged
 * and dialled.
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
/* What the configuration will say about a name; NULL address forgets all that was said so far. */
void resolver_fix(struct resolver *r, const char *name, const struct net_address *a);
/* From here on it says that, and nothing else. */
void resolver_fixed(struct resolver *r);
/* Answers later, never from within. NULL = too many are waiting. */
struct lookup *resolver_ask(struct resolver *r, const char *name, lookup_fn fn, void *ctx);
void lookup_cancel(struct lookup *l);

#endif

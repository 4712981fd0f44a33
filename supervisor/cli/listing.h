#ifndef BAILIFF_CLI_LISTING_H
#define BAILIFF_CLI_LISTING_H

/* Lists of the daemon, page by page. */

#include "runtime/base/jscan.h"

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct cli;
struct err;

typedef void (*listing_fn)(void *ctx, struct jval element);

int listing_processes(struct cli *c, bool live_only, bool helpers, listing_fn fn, void *ctx, struct err *e);
/* Any list method: its name, the member of the result, and whether only what has not ended is wanted. */
int listing_of(struct cli *c, const char *method, const char *member, bool live_only, listing_fn fn, void *ctx,
	       struct err *e);
int listing_sessions(struct cli *c, listing_fn fn, void *ctx, struct err *e);
/*
 * Events after *sequence, which is moved to the last one seen. `filter` holds the members of the request that select
 * (`"processId":"…"`), or is empty. fn returns false to stop.
 */
int listing_events(struct cli *c, const struct buf *filter, uint64_t *sequence,
		   bool (*fn)(void *ctx, struct jval event), void *ctx, struct err *e);

#endif

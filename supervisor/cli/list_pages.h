#ifndef BAILIFF_CLI_LIST_PAGES_H
#define BAILIFF_CLI_LIST_PAGES_H

/* Reads lists from the daemon page by page. */

#include "runtime/base/jscan.h"

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct cli;
struct err;

typedef void (*list_pages_fn)(void *ctx, struct jval element);

int list_pages_processes(struct cli *c, bool live_only, bool helpers, list_pages_fn fn, void *ctx, struct err *e);
/* Any list method: its name, the member of the result, and whether to list only what has not ended. */
int list_pages(struct cli *c, const char *method, const char *member, bool live_only, list_pages_fn fn, void *ctx,
	       struct err *e);
int list_pages_sessions(struct cli *c, list_pages_fn fn, void *ctx, struct err *e);
/*
 * Events after *sequence, which is advanced to the last one seen. `filter` has the members of the request that select
 * (`"processId":"…"`), or is empty. fn returns false to stop.
 */
int list_pages_events(struct cli *c, const struct buf *filter, uint64_t *sequence,
		      bool (*fn)(void *ctx, struct jval event), void *ctx, struct err *e);

#endif

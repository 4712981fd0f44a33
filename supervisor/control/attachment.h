#ifndef BAILIFF_CONTROL_ATTACHMENT_H
#define BAILIFF_CONTROL_ATTACHMENT_H

/*
 * Which connections display which terminals, and the size of a terminal that follows from it. A connection gives its
 * size with resize_process and `policy`; it counts until the connection ends. The newest policy decides: with "newest"
 * the terminal has the size of the last request, with "smallest" it fits every display; connections with "keep" do not
 * count. When a connection ends, the others decide again. A size without a policy is set once and is not recorded here.
 */

#include "runtime/engine/core/engine.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define ATTACHMENTS_MAX 64 /* terminals of one connection */

enum attachment_policy { ATTACHMENT_NEWEST, ATTACHMENT_SMALLEST, ATTACHMENT_KEEP };

struct attachment_size {
	uint32_t rows, cols;
};

struct attachment;
struct attachments {
	TAILQ_HEAD(, attachment) list; /* the newest first */
};

void attachments_init(struct attachments *a);
void attachments_done(struct attachments *a);

/* The caller's connection displays this terminal in this size. False if it displays too many already. */
bool attachment_put(struct attachments *a, const char *process_id, const struct caller *c, struct attachment_size size,
		    enum attachment_policy policy);
bool attachment_any(const struct attachments *a, const char *process_id); /* a connection displays it */
/* The size that this terminal should have; false if no connection that counts displays it. */
bool attachment_size(const struct attachments *a, const char *process_id, struct attachment_size *ret);
void attachment_remove(struct attachments *a, const char *process_id, uint64_t connection);
/*
 * The connection ended: removes its entries. fn is called for each terminal whose size changes and that another
 * connection still displays; `c` is the newest of those.
 */
typedef void (*attachment_fn)(void *ctx, const char *process_id, const struct caller *c, struct attachment_size size);
void attachment_gone(struct attachments *a, uint64_t connection, attachment_fn fn, void *ctx);

#endif

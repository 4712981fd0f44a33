#ifndef BAILIFF_STORE_WORKER_H
#define BAILIFF_STORE_WORKER_H

/* The side thread (internal to runtime/store): long reads (verify, backup), one after another. Made when first needed.
 */

struct err;
struct store;

int worker_start(struct store *s, struct err *e);
void worker_stop(struct store *s);

#endif

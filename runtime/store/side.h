#ifndef BAILIFF_STORE_SIDE_H
#define BAILIFF_STORE_SIDE_H

/* The side thread (internal to runtime/store): long reads (verify, backup), one after another. Made when first needed.
 */

struct err;
struct store;

int side_start(struct store *s, struct err *e);
void side_stop(struct store *s);

#endif

#ifndef BAILIFF_SUPERVISOR_HOST_SNAPSHOT_FACTS_H
#define BAILIFF_SUPERVISOR_HOST_SNAPSHOT_FACTS_H

/* Facts about the read models themselves, in the system session: one was stored, or did not equal its fold. */

#include <stdint.h>

struct store;
struct store_verdict;

/* Retention keeps the models as they were at this sequence; everything before it is gone. */
void snapshot_fact_stored(struct store *s, uint64_t at_sequence);
/* A rebuild found these models unlike their facts and made them anew. */
void snapshot_fact_repaired(struct store *s, const struct store_verdict *v);

#endif

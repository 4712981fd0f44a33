#ifndef BAILIFF_SUPERVISOR_HOST_SNAPSHOT_FACTS_H
#define BAILIFF_SUPERVISOR_HOST_SNAPSHOT_FACTS_H

/* Events about the read models themselves, in the system session: they were stored, or differed from a rebuild. */

#include <stdint.h>

struct store;
struct store_verdict;

/* Retention keeps the models as of this sequence; all events before it are removed. */
void snapshot_fact_stored(struct store *s, uint64_t at_sequence);
/* A rebuild found models that differed from their events and replaced them. */
void snapshot_fact_repaired(struct store *s, const struct store_verdict *v);

#endif

#ifndef BAILIFF_SUPERVISOR_SPAWNER_RESOLVER_ANSWER_H
#define BAILIFF_SUPERVISOR_SPAWNER_RESOLVER_ANSWER_H

#include <stddef.h>
#include <stdint.h>

struct step_context;

#define RESOLVER_NAMES_MAX 64

/* Names that were reported already. */
struct resolver_names {
	uint64_t hash[RESOLVER_NAMES_MAX];
	size_t count;
};

/* Refuses the lookups that have arrived and reports each new name over the status socket. */
void resolver_answer(const struct step_context *c, struct resolver_names *known);

#endif

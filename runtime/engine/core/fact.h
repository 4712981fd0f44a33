#ifndef BAILIFF_ENGINE_CORE_FACT_H
#define BAILIFF_ENGINE_CORE_FACT_H

/*
 * Facts: events that are added to a batch and exist once it is committed. Each type has its emitter:
 *
 *	emit_turn_started(b, &scope, &(struct turn_started){ .envelope.status = "running", .driver = "runtime" });
 *
 * The emitter returns −1 and logs if the event is invalid or longer than EVENT_MAX; the batch then cannot be submitted.
 */

#include "runtime/event/payloads.h"

struct store_batch;

int fact_emit(struct store_batch *b, const struct scope *s, enum event_type type, const struct envelope *payload);

#define EVENT_TYPE(NAME, name, ...)                                                                       \
	static inline int emit_##name(struct store_batch *b, const struct scope *s, const struct name *p) \
	{                                                                                                 \
		return fact_emit(b, s, EVENT_##NAME, &p->envelope);                                       \
	}
#include "runtime/event/event_types.def"
#undef EVENT_TYPE

#endif

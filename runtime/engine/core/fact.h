#ifndef BAILIFF_ENGINE_FACT_H
#define BAILIFF_ENGINE_FACT_H

/*
 * Facts: events that are added to a batch and exist once it is committed. Each type has its emitter:
 *
 *	emit_turn_started(b, scope, &(struct turn_started){ .envelope.status = "running", .driver = "runtime" });
 *
 * The emitter returns −1 and logs if the event is invalid or longer than EVENT_MAX; the batch then cannot be submitted.
 */

#include "runtime/event/payloads.h"

#include <jansson.h>

struct engine;
struct process_limits;
struct requester;
struct store_batch;

int fact_emit(struct store_batch *b, const struct scope *s, enum event_type type, const struct envelope *payload);

#define EVENT_TYPE(NAME, name, ...)                                                                \
	static inline int emit_##name(struct store_batch *b, struct scope s, const struct name *p) \
	{                                                                                          \
		return fact_emit(b, &s, EVENT_##NAME, &p->envelope);                               \
	}
#include "runtime/event/event_types.def"
#undef EVENT_TYPE
/* Short form with the members as arguments: EMIT(task_delegated, b, scope, .delegateKind = "job", .delegateId = id). */
#define EMIT(name, b, scope, ...) emit_##name(b, scope, &(const struct name){ __VA_ARGS__ })

static inline const char *none_if_empty(const char *s) { return s && *s ? s : NULL; }

/*
 * Values for members of a payload. They borrow their argument and are written when the fact is emitted, so the argument
 * must stay valid until then.
 */
struct json_value json_from_tree(const json_t *v);                     /* NULL and JSON null: the member is omitted */
struct json_value json_from_ids(const char (*ids)[ID_SIZE], size_t n); /* array of strings */
struct json_value json_requester(const struct requester *by);          /* {"uid":…,"pid":…,"role":…} */
struct json_value json_limits(const struct process_limits *l);

/*
 * snapshot.updated: a task (if the scope has one) or a turn of the thread has ended, so clients should read the read
 * model again. atSequence is the last event committed before this batch; at the event's own sequence number the read
 * model includes the end.
 */
void fact_snapshot(struct engine *g, struct store_batch *b, const struct scope *of);

#endif

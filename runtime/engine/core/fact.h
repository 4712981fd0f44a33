#ifndef BAILIFF_ENGINE_FACT_H
#define BAILIFF_ENGINE_FACT_H

/*
 * Facts: events that are added to a transaction and exist once it is committed. Each type has its emitter:
 *
 *	emit_turn_started(tx, scope, &(struct turn_started){ .envelope.status = "running", .driver = "runtime" });
 *
 * The emitter returns −1 and logs if the event is invalid or longer than EVENT_MAX; a request then cannot be
 * committed (transaction_commit rejects it).
 */

#include "runtime/event/payloads.h"

#include <jansson.h>

struct process_limits;
struct requester;
struct transaction;

/* Adds the fact and offers it to the ON_FACT rows of modules.def, which may add facts after it. */
int fact_emit(struct transaction *tx, const struct scope *s, enum event_type type, const struct envelope *payload);

#define EVENT_TYPE(NAME, name, ...)                                                                 \
	static inline int emit_##name(struct transaction *tx, struct scope s, const struct name *p) \
	{                                                                                           \
		return fact_emit(tx, &s, EVENT_##NAME, &p->envelope);                               \
	}
#include "runtime/event/event_types.def"
#undef EVENT_TYPE
/* Short form with the members as arguments: EMIT(task_delegated, tx, scope, .delegateKind = "job", .delegateId = id).
 */
#define EMIT(name, tx, scope, ...) emit_##name(tx, scope, &(const struct name){ __VA_ARGS__ })

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
 * model again. atSequence is the last event committed before this transaction; at the event's own sequence number the
 * read model includes the end.
 */
void fact_snapshot(struct transaction *tx, const struct scope *of);

#endif

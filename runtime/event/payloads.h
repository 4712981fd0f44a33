#ifndef BAILIFF_EVENT_PAYLOADS_H
#define BAILIFF_EVENT_PAYLOADS_H

/*
 * The payload of each event type as a struct, from the rows of event_types.def. Its members have the names of the wire.
 *
 * For writing, a caller fills `struct task_queued` and passes it to emit_task_queued (engine/core/fact.h). All of it
 * lives as long as the call: literals, buffers of the caller, documents that it has read.
 *
 * For reading, read_task_queued fills `struct task_queued_json` in one pass: a struct jval for each member, JT_NONE
 * where the event has none. It points into the event.
 */

#include "runtime/event/event.h"
#include "runtime/event/json_value.h"

#include <stdbool.h>
#include <stdint.h>

struct opt_int {
	bool present;
	int64_t value;
};
static inline struct opt_int opt_int(int64_t value) { return (struct opt_int){ true, value }; }
static inline struct opt_int opt_int_if(bool present, int64_t value) { return (struct opt_int){ present, value }; }

enum opt_bool { OPT_BOOL_ABSENT, OPT_BOOL_FALSE, OPT_BOOL_TRUE };
static inline enum opt_bool opt_bool(bool b) { return b ? OPT_BOOL_TRUE : OPT_BOOL_FALSE; }

/* Parts that several types share, and shapes of nested objects. */
#define PAYLOAD_text const char *
#define PAYLOAD_time uint64_t
#define PAYLOAD_int int64_t
#define PAYLOAD_opt_int struct opt_int
#define PAYLOAD_bool bool
#define PAYLOAD_opt_bool enum opt_bool
#define PAYLOAD_flag bool
#define PAYLOAD_real double
#define PAYLOAD_json struct json_value
#define FIELD(member, key, kind, type, optional) PAYLOAD_##kind member;
#define PART(name, member) struct name##_part member;
#define WRITTEN(member, fields) struct json_value member;
#define EVENT_PART(name)     \
	struct name##_part { \
		PART_##name  \
	};                   \
	json_write_fn json_write_##name;
#define EVENT_TYPE(...)
#include "runtime/event/event_types.def"
#undef EVENT_TYPE
#undef EVENT_PART

/* What stands in the envelope in addition to the ids. The first member of every payload struct. */
struct envelope {
	const char *status, *status_reason, *phase; /* NULL = absent */
	uint64_t real_us;                           /* 0 = now */
	struct envelope_members_part members;       /* further top-level members */
};

#define EVENT_TYPE(NAME, name, wire, class, origin, extension, ids, members, cause, fields) \
	struct name {                                                                       \
		struct envelope envelope;                                                   \
		fields                                                                      \
	};
#include "runtime/event/event_types.def"
#undef EVENT_TYPE
#undef WRITTEN
#undef PART
#undef FIELD

/*
 * An object with the fields of a part. The part lives until the end of the enclosing block; note that the body of an
 * `if` without braces is a block, too, so a value that is used behind it needs `?:`.
 */
#define JSON_OBJECT(name, ...) json_from_writer(json_write_##name, &(const struct name##_part){ __VA_ARGS__ }, 0)

/*
 * Writes the members of the payload of the type, without braces. True: they are as the type's row requires, and
 * payload_check need not read them again. False: not certain.
 */
bool payload_write(struct jw *w, enum event_type type, const struct envelope *payload);
/* True: each of them is one JSON value. False: not certain. */
bool payload_write_envelope(struct jw *w, const struct envelope_members_part *m);

/* ---- reading ---- */

#define FIELD(member, key, kind, type, optional) struct jval member;
#define PART(name, member) PART_##name
#define WRITTEN(member, fields) fields
#define EVENT_TYPE(NAME, name, wire, class, origin, extension, ids, members, cause, fields) \
	struct name##_json {                                                                \
		fields struct jval end_; /* no struct is empty */                           \
	};                                                                                  \
	void read_##name(const struct event_view *ev, struct name##_json *ret);
#include "runtime/event/event_types.def"
#undef EVENT_TYPE
#undef WRITTEN
#undef PART
#undef FIELD

#endif

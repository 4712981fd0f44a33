#ifndef BAILIFF_EVENT_EVENT_H
#define BAILIFF_EVENT_EVENT_H

/*
 * An event: the envelope of the specification, encoded once and never parsed again on the hot path.
 *
 * event_types.def declares every event type. A caller fills a `struct event_draft` (the engine by its emitters,
 * engine/core/fact.h); event_encode checks it against the type's row (required ids, required payload members) and
 * writes a *record*:
 *
 *   record  = struct event_head, then the id block, then the envelope's JSON without its first member
 *   id block = for each id that is set: u8 field, u8 length, bytes (no NUL); then u8 0xff
 *   JSON    = `"type":…,…}`: the store puts `{"sequence":N,` in front of it at commit, when the number is known
 *
 * The store keeps records, subscribers receive them and projections read them.
 */

#include "runtime/base/jscan.h"
#include "runtime/event/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

enum id_field {
#define ID_FIELD(NAME, name, member, indexed) ID_##NAME,
#include "runtime/event/id_fields.def"
#undef ID_FIELD
	ID_FIELD_COUNT
};
const char *id_field_member(enum id_field f); /* "sessionId" */
bool id_field_indexed(enum id_field f);

/*
 * What an event belongs to: the uid that may see it and the ids that it is filed under. An id that is NULL or "" is
 * absent. The texts belong to the caller.
 */
struct scope {
	uint32_t uid;
	const char *event; /* its own id, for a fact that another one of the same transaction names; NULL = generated */
	union {
		const char *ids[ID_FIELD_COUNT];
		struct {
#define ID_FIELD(NAME, name, member, indexed) const char *name;
#include "runtime/event/id_fields.def"
#undef ID_FIELD
		};
	};
};

enum event_type {
#define EVENT_TYPE(name, ...) EVENT_##name,
#include "runtime/event/event_types.def"
#undef EVENT_TYPE
	EVENT_TYPE_COUNT
};

/* How soon the event must be committed. */
enum event_class {
	EVENT_NOW,  /* decisions, starts, ends, actions, violations */
	EVENT_SOON, /* within 50 ms: output offsets, progress, deltas */
};

/* The permitted writers. */
enum event_origin {
	EVENT_BY_RUNTIME, /* only bailiff itself */
	EVENT_BY_CLIENT,  /* a client, with emit_events */
	EVENT_BY_OWNER,   /* the peer that owns the call, child or item, through its report method */
};

struct event_info {
	const char *name; /* "process.started" */
	size_t name_len;
	enum event_class class;
	enum event_origin origin;
	bool extension;               /* not in the published schema */
	uint32_t required_ids;        /* bits 1u << ID_… in addition to SESSION, which every event has */
	const char *required_members; /* top-level members that the profile requires ("benchmark refs"),
					 space-separated, or "" */
	const char *payload;          /* payload members: "exitCode?:int status:string …", see event_types.def */
	const char *cause;            /* one line for the docs */
};
const struct event_info *event_info(enum event_type t);
int event_type_find(const char *name, size_t n); /* the type, or −1 */

/* Members that are the same in every event of this runtime. */
struct event_env {
	const char *runtime_id;
	const char *schema_version; /* "lime-profile-0.4.0" */
};

struct event_draft {
	enum event_type type;
	uint32_t uid;                    /* owner of the session; root and this uid may see the event */
	const char *event_id;            /* NULL = generated */
	const char *ids[ID_FIELD_COUNT]; /* NULL = absent */
	const char *status;              /* envelope members, NULL = absent */
	const char *status_reason;
	const char *phase;
	uint64_t real_us;    /* 0 = now */
	const char *payload; /* a JSON object's text; NULL = {} */
	size_t payload_len;
	bool payload_fits;   /* payload_write has compared it with the type's row */
	const char *members; /* further top-level members: `"permissionDecision":{…},"refs":{…}`, or NULL */
	size_t members_len;
	bool members_fit; /* payload_write_envelope has written them: each name is there once, and none is
			     event_encode's */
};

#define EVENT_MAX (64 * 1024) /* no event's JSON is larger */

/*
 * Appends the record to `out`. ERR_INVALID (field = the missing member) or ERR_EXHAUSTED
 * (too large); `out` is unchanged then.
 */
int event_encode(const struct event_env *env, const struct event_draft *d, struct buf *out, struct err *e);

struct event_head {
	uint32_t version; /* EVENT_RECORD_VERSION */
	uint32_t type;    /* event_types.def keeps the numbers: rows are only ever appended */
	uint32_t uid;
	uint32_t ids_len;
	uint32_t json_len;
	uint32_t reserved;
	uint64_t real_us;
};
#define EVENT_RECORD_VERSION 1u

struct id_text {
	const char *text; /* not NUL-terminated; NULL = absent */
	size_t len;
};

/* The members of an event, found in one pass: for events of which many members are read. */
#define EVENT_INDEX_MAX 64
struct event_index {
	size_t envelope, count; /* first those of the envelope, then those of the payload */
	struct event_index_entry {
		const char *name; /* without quotes */
		size_t len;
		struct jval value;
	} entries[EVENT_INDEX_MAX];
};

/* A decoded record; points into it. */
struct event_view {
	uint64_t sequence;
	enum event_type type;
	uint32_t uid;
	uint64_t real_us;
	struct id_text ids[ID_FIELD_COUNT];
	const char *json; /* `"type":…}` */
	size_t json_len;
	struct jval payload;             /* none until event_view_index */
	const struct event_index *index; /* likewise; NULL = the members are not indexed */
};
/* ERR_CORRUPT for every record that event_encode cannot have written. */
int event_view_of(const void *record, size_t len, uint64_t sequence, struct event_view *ret, struct err *e);
void event_id_copy(const struct event_view *v, enum id_field f, char *dst, size_t cap); /* "" when absent */
/*
 * From now on the members are looked up in `space`, which must last as long as the view is used. An event with too many
 * members, or with names that have escapes, is scanned for each member.
 */
void event_view_index(struct event_view *v, struct event_index *space);
struct jval event_payload(const struct event_view *v);
/* A member of the envelope, or of the payload; JT_NONE if there is none. */
struct jval event_member(const struct event_view *v, const char *member);
struct jval event_payload_member(const struct event_view *v, const char *member);
bool event_from_client(
	const struct event_view *v); /* written by emit_events: reported by a client, not observed by the runtime */
/* The whole envelope as sent: {"sequence":N,"type":…} */
void event_json(const struct event_view *v, struct buf *out);

#endif

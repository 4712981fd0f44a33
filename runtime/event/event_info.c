/* The tables of event types and id fields, and lookups in them. */

#include "runtime/base/mem.h"
#include "runtime/event/event.h"

#include <string.h>

static const struct {
	const char *member;
	bool indexed;
} id_fields[] = {
#define ID_FIELD(NAME, name, member, indexed) [ID_##NAME] = { member, indexed },
#include "runtime/event/id_fields.def"
#undef ID_FIELD
};

const char *id_field_member(enum id_field f) { return id_fields[f].member; }

bool id_field_indexed(enum id_field f) { return id_fields[f].indexed; }

/* The sets of ids that rows of event_types.def require. */
#define ID_BIT(name) (1u << ID_##name)
#define IDS_NONE 0u
#define IDS_THREAD ID_BIT(THREAD)
#define IDS_TURN (ID_BIT(THREAD) | ID_BIT(TURN))
#define IDS_TOOL (IDS_TURN | ID_BIT(STEP) | ID_BIT(TOOL_CALL))
#define IDS_ACTION (IDS_TURN | ID_BIT(ACTION))
#define IDS_TASK ID_BIT(TASK)
#define IDS_ATTEMPT (ID_BIT(TASK) | ID_BIT(RUN))
#define IDS_SUBAGENT ID_BIT(SUBAGENT)
#define IDS_EVIDENCE ID_BIT(EVIDENCE)
#define IDS_PROCESS ID_BIT(PROCESS)
#define IDS_OUTPUT ID_BIT(OUTPUT)
#define IDS_TRIAL (ID_BIT(TASK) | ID_BIT(RUN))
#define IDS_TRIAL_START (IDS_TRIAL | IDS_TURN)

static const struct event_info infos[] = {
#define FIELD(member, key, kind, type, optional) key optional ":" type " "
#define PART(name, member) PART_##name
#define WRITTEN(member, fields) fields
#define EVENT_TYPE(NAME, name_, wire, class_, origin_, extension_, ids_, members_, cause_, fields) \
	[EVENT_##NAME] = { .name = wire,                                                           \
			   .class = EVENT_##class_,                                                \
			   .origin = EVENT_BY_##origin_,                                           \
			   .extension = extension_,                                                \
			   .required_ids = IDS_##ids_,                                             \
			   .required_members = members_,                                           \
			   .payload = "" fields,                                                   \
			   .cause = cause_ },
#include "runtime/event/event_types.def"
#undef EVENT_TYPE
#undef WRITTEN
#undef PART
#undef FIELD
};

_Static_assert(countof(infos) == EVENT_TYPE_COUNT, "a row for every type");
_Static_assert(ID_FIELD_COUNT <= 32, "a set of ids is a u32");

const struct event_info *event_info(enum event_type t) { return (unsigned)t < EVENT_TYPE_COUNT ? &infos[t] : NULL; }

int event_type_find(const char *name, size_t n)
{
	for (int t = 0; t < EVENT_TYPE_COUNT; t++)
		if (strncmp(infos[t].name, name, n) == 0 && infos[t].name[n] == '\0')
			return t;
	return -1;
}

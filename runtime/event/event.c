#include "runtime/event/event.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/event/payload.h"

#include <string.h>

/*
 * Writing and reading records (event.h describes the layout).
 *
 * event_encode runs for every fact, so it builds no tree: it appends texts and scans the payload once, to compare it
 * with the type's row. The payload is the last member, with the further members right before it.
 */

#define EVENT_IDS_END 0xffu
#define EVENT_ID_MAX 255u /* its length is one byte */

static const struct {
	const char *member;
	uint8_t len; /* of `member` */
	bool indexed;
} id_fields[] = {
#define ID_FIELD(NAME, name, member, indexed) [ID_##NAME] = { member, sizeof(member) - 1, indexed },
#include "runtime/event/id_fields.def"
#undef ID_FIELD
};

/* Ids of other systems (a JSON-RPC id, a trace) are any text; all others have the alphabet of id_valid. */
static bool event_id_is_foreign(enum id_field f) { return f == ID_REQUEST || f == ID_TRACE || f == ID_SPAN; }

static int event_check_id(enum id_field f, const char *id, size_t n, struct err *e)
{
	if (!event_id_is_foreign(f)) {
		if (!id_valid(id, n))
			return err_field(e, id_field_member(f),
					 "'%.64s' is not an id: 1 to %d letters, digits, '_', '-', '.' or ':'", id,
					 ID_GIVEN_MAX);
		return 0;
	}
	if (n < 1 || n > EVENT_ID_MAX || !text_utf8_valid(id, n))
		return err_field(e, id_field_member(f), "must be 1 to %u bytes of UTF-8, has %zu", EVENT_ID_MAX, n);
	return 0;
}

/* The ids that a draft has, in the order of their fields. */
struct draft_ids {
	size_t count;
	struct draft_id {
		enum id_field field;
		const char *text;
		size_t len;
	} id[ID_FIELD_COUNT];
};

/* Checked when the event is added, so that the writer cannot fail on it later. */
static int event_check_draft(const struct event_draft *d, const struct event_info *info, struct draft_ids *ids,
			     struct err *e)
{
	uint32_t need = info->required_ids | 1u << ID_SESSION;

	ids->count = 0;
	for (int f = 0; f < ID_FIELD_COUNT; f++) {
		if (d->ids[f]) {
			const struct draft_id id = { (enum id_field)f, d->ids[f], strlen(d->ids[f]) };

			if (event_check_id(id.field, id.text, id.len, e) < 0)
				return -1;
			ids->id[ids->count++] = id;
		} else if (need >> f & 1) {
			return err_field(e, id_field_member(f), "%s needs %s", info->name, id_field_member(f));
		}
	}
	if (d->payload_len > EVENT_MAX || d->members_len > EVENT_MAX)
		return err_set(e, ERR_EXHAUSTED, "%s is larger than %d bytes", info->name, EVENT_MAX);
	if (d->payload_fits)
		return 0;
	return d->payload ? payload_check(info, d->payload, d->payload_len, e) : payload_check(info, "{}", 2, e);
}

/* Names that event_encode writes itself; a caller's further members must not repeat them. */
static bool event_member_is_own(struct jval key)
{
	static const char *const own[] = {
		"sequence",  "type",   "eventId",      "timestamp", "schemaVersion",
		"runtimeId", "status", "statusReason", "phase",     "payload",
	};

	for (size_t i = 0; i < countof(own); i++)
		if (jval_is_str(key, own[i]))
			return true;
	for (int f = 0; f < ID_FIELD_COUNT; f++)
		if (jval_is_str(key, id_field_member(f)))
			return true;
	return false;
}

static bool event_member_is_among(struct jval key, const struct jval *keys, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (keys[i].len == key.len && memcmp(keys[i].text, key.text, key.len) == 0)
			return true;
	return false;
}

/* Each member is compared with all before it, so their number is limited. */
#define EVENT_MEMBERS_MAX 32

/* In its buffer `text` is followed by a comma, which ends the last value for the scan. */
static int event_check_members(const struct event_info *info, const char *text, size_t len, struct err *e)
{
	struct jiter it = jiter_inside(text, len + 1);
	struct jval keys[EVENT_MEMBERS_MAX];
	size_t count = 0;
	uint64_t seen = 0;

	while (it.p < text + len) {
		if (!jiter_next(&it))
			return err_field(e, "members", "%s: further members are not JSON", info->name);
		if (count == EVENT_MEMBERS_MAX)
			return err_field(e, "members", "%s: more than %d further members", info->name,
					 EVENT_MEMBERS_MAX);
		if (event_member_is_own(it.key) || event_member_is_among(it.key, keys, count))
			return err_field(e, "members", "%s: %.*s appears twice", info->name,
					 (int)(it.key.len < 40 ? it.key.len : 40), it.key.text);
		keys[count++] = it.key;
		payload_name_seen(info->required_members, it.key, &seen);
	}
	return payload_names_missing(info, seen, e);
}

/* `,"member":"text"` for texts that need no escaping */
static void event_put_plain(struct buf *out, const char *member, size_t m, const char *text, size_t n)
{
	char *at = buf_reserve(out, m + n + 6);

	*at++ = ',';
	*at++ = '"';
	memcpy(at, member, m);
	at += m;
	memcpy(at, "\":\"", 3);
	at += 3;
	memcpy(at, text, n);
	at += n;
	*at++ = '"';
	*at = '\0';
	out->len += m + n + 6;
}

/* The envelope up to where further members and the payload go; ends without a comma. */
static void event_put_envelope(struct buf *out, const struct event_env *env, const struct event_draft *d,
			       const struct draft_ids *ids, uint64_t real_us)
{
	static const char begin[] = "\"type\":\"";
	const struct event_info *info = event_info(d->type);
	char id[ID_TEXT_MAX], now[CLOCK_TEXT_MAX];
	struct jw w = { .buf = out, .need_comma = true };

	if (d->event_id)
		snprintf(id, sizeof id, "%s", d->event_id);
	else
		id_make(ID_KIND_EVENT, id);
	clock_format(real_us, now);
	buf_append(out, begin, sizeof(begin) - 1);
	buf_append(out, info->name, info->name_len);
	buf_byte(out, '"');
	event_put_plain(out, "eventId", 7, id, strlen(id));
	event_put_plain(out, "timestamp", 9, now, strlen(now));
	jw_kstr(&w, "schemaVersion", env->schema_version);
	jw_kstr(&w, "runtimeId", env->runtime_id);
	for (const struct draft_id *i = ids->id; i < ids->id + ids->count; i++) {
		if (event_id_is_foreign(i->field))
			jw_kstrn(&w, id_field_member(i->field), i->text, i->len);
		else
			event_put_plain(out, id_fields[i->field].member, id_fields[i->field].len, i->text, i->len);
	}
	jw_kopt(&w, "status", d->status);
	jw_kopt(&w, "statusReason", d->status_reason);
	jw_kopt(&w, "phase", d->phase);
}

/*
 * The record is a binary head, the ids, then the JSON text as clients get it except for the sequence, which the
 * store assigns.
 */
int event_encode(const struct event_env *env, const struct event_draft *d, struct buf *out, struct err *e)
{
	const struct event_info *info = event_info(d->type);
	struct event_head head = { .version = EVENT_RECORD_VERSION, .type = d->type, .uid = d->uid };
	size_t start = out->len, ids_at = start + sizeof(head), json_at;
	struct draft_ids ids;

	if (!info)
		return err_set(e, ERR_INTERNAL, "there is no event type %d", (int)d->type);
	if (event_check_draft(d, info, &ids, e) < 0)
		return -1;
	head.real_us = d->real_us ? d->real_us : clock_real_us();

	buf_reserve(out, sizeof(head) + 1024 + d->payload_len + d->members_len);
	buf_append(out, &head, sizeof(head)); /* its lengths follow below */
	for (const struct draft_id *i = ids.id; i < ids.id + ids.count; i++) {
		buf_byte(out, (char)i->field);
		buf_byte(out, (char)i->len);
		buf_append(out, i->text, i->len);
	}
	buf_byte(out, (char)EVENT_IDS_END);
	json_at = out->len;
	event_put_envelope(out, env, d, &ids, head.real_us);
	buf_byte(out, ',');
	if (d->members_len) {
		size_t at = out->len;

		buf_append(out, d->members, d->members_len);
		buf_byte(out, ',');
		if (!(d->members_fit && !info->required_members[0]) &&
		    event_check_members(info, out->data + at, d->members_len, e) < 0)
			goto fail;
	} else if (payload_names_missing(info, 0, e) < 0) {
		goto fail;
	}
	buf_str(out, "\"payload\":");
	if (d->payload)
		buf_append(out, d->payload, d->payload_len);
	else
		buf_str(out, "{}");
	buf_byte(out, '}');
	if (out->len - json_at > EVENT_MAX) {
		err_set(e, ERR_EXHAUSTED, "%s is larger than %d bytes", info->name, EVENT_MAX);
		goto fail;
	}
	head.ids_len = (uint32_t)(json_at - ids_at);
	head.json_len = (uint32_t)(out->len - json_at);
	memcpy(out->data + start, &head, sizeof(head));
	return 0;
fail:
	out->len = start;
	out->data[start] = '\0';
	return -1;
}

/* Ids ascend by field, so none comes twice; the block ends exactly at its end mark. */
static bool event_view_ids(const unsigned char *p, size_t len, struct id_text ids[ID_FIELD_COUNT])
{
	size_t at = 0;
	int last = -1;

	while (at < len) {
		unsigned field = p[at], n;

		if (field == EVENT_IDS_END)
			return at + 1 == len && ids[ID_SESSION].text;
		if (field >= ID_FIELD_COUNT || (int)field <= last || len - at < 2)
			return false;
		n = p[at + 1];
		if (n < 1 || n > len - at - 2)
			return false;
		ids[field] = (struct id_text){ .text = (const char *)p + at + 2, .len = n };
		last = (int)field;
		at += 2 + n;
	}
	return false;
}

/*
 * The beginning and the end are enough: checksums protect the text, and a record of another type must not be accepted.
 */
static bool event_view_json(const struct event_view *v)
{
	const char *name = event_info(v->type)->name;
	size_t n = event_info(v->type)->name_len;

	/* "type":"<name>",…} */
	return v->json_len >= 8 + n + 3 && v->json_len <= EVENT_MAX && memcmp(v->json, "\"type\":\"", 8) == 0 &&
	       memcmp(v->json + 8, name, n) == 0 && memcmp(v->json + 8 + n, "\",", 2) == 0 &&
	       v->json[v->json_len - 1] == '}';
}

/* Points into the record; the caller keeps it alive. */
int event_view_of(const void *record, size_t len, uint64_t sequence, struct event_view *ret, struct err *e)
{
	struct event_view v = { .sequence = sequence };
	const unsigned char *ids = (const unsigned char *)record + sizeof(struct event_head);
	struct event_head head;

	if (len < sizeof(head))
		return err_set(e, ERR_CORRUPT, "event record of %zu bytes is too short", len);
	memcpy(&head, record, sizeof(head));
	if (head.version != EVENT_RECORD_VERSION || head.reserved)
		return err_set(e, ERR_CORRUPT, "event record has version %u", head.version);
	if (head.type >= EVENT_TYPE_COUNT)
		return err_set(e, ERR_CORRUPT, "event record has type %u", head.type);
	if ((uint64_t)head.ids_len + head.json_len != len - sizeof(head))
		return err_set(e, ERR_CORRUPT, "event record's lengths do not add up to its %zu bytes", len);
	v.type = head.type;
	v.uid = head.uid;
	v.real_us = head.real_us;
	v.json = (const char *)ids + head.ids_len;
	v.json_len = head.json_len;
	if (!event_view_ids(ids, head.ids_len, v.ids))
		return err_set(e, ERR_CORRUPT, "event record's ids are broken");
	if (!event_view_json(&v))
		return err_set(e, ERR_CORRUPT, "event record's JSON is not that of %s", event_info(v.type)->name);
	*ret = v;
	return 0;
}

/* "" if the event has no such id. */
void event_id_copy(const struct event_view *v, enum id_field f, char *dst, size_t cap)
{
	size_t n = v->ids[f].text ? v->ids[f].len : 0;

	if (!cap)
		return;
	if (n > cap - 1)
		n = cap - 1;
	if (n)
		memcpy(dst, v->ids[f].text, n);
	dst[n] = '\0';
}

/* event_encode writes the payload last, so its end is known: whether it follows the member that ends at `at`. */
static bool payload_follows(const struct event_view *v, const char *at, struct jval *ret)
{
	static const char key[] = ",\"payload\":{";
	const char *end = v->json + v->json_len - 1;
	const size_t n = sizeof(key) - 1;

	if ((size_t)(end - at) <= n || memcmp(at, key, n) != 0 || end[-1] != '}')
		return false;
	*ret = (struct jval){ .type = JT_OBJECT, .text = at + n - 1, .len = (size_t)(end - at) - n + 1 };
	return true;
}

static struct jval find_payload(const struct event_view *v)
{
	struct jval payload;

	for (struct jiter it = jiter_inside(v->json, v->json_len); jiter_next(&it);) {
		if (payload_follows(v, it.p, &payload))
			return payload;
		if (jval_is_str(it.key, "payload"))
			return it.value;
	}
	return (struct jval){ 0 };
}

static bool add_entry(struct event_index *index, const char *name, size_t len, struct jval value)
{
	if (index->count == EVENT_INDEX_MAX || memchr(name, '\\', len))
		return false;
	index->entries[index->count++] = (struct event_index_entry){ name, len, value };
	return true;
}

/* If the payload is known already, only its members are indexed: the envelope is long and rarely needed. */
void event_view_index(struct event_view *v, struct event_index *space)
{
	struct jiter it = jiter_inside(v->json, v->json_len);
	bool found = v->payload.type != JT_NONE;

	v->index = NULL;
	space->count = 0;
	while (!found && jiter_next(&it)) {
		if (!add_entry(space, it.key.text + 1, it.key.len - 2, it.value))
			return;
		found = payload_follows(v, it.p, &v->payload);
		if (found && !add_entry(space, "payload", 7, v->payload))
			return;
	}
	space->envelope = space->count;
	for (it = jiter_on(v->payload); jiter_next(&it);)
		if (!add_entry(space, it.key.text + 1, it.key.len - 2, it.value))
			return;
	if (v->payload.type != JT_NONE)
		v->index = space;
}

static struct jval find_entry(const struct event_index *index, size_t from, size_t end, const char *name)
{
	const size_t len = strlen(name);

	for (const struct event_index_entry *n = &index->entries[from]; n < &index->entries[end]; n++)
		if (n->len == len && memcmp(n->name, name, len) == 0)
			return n->value;
	return (struct jval){ 0 };
}

struct jval event_payload(const struct event_view *v)
{
	return v->payload.type != JT_NONE ? v->payload : find_payload(v);
}

/* A known payload that is the last member is skipped. */
struct jval event_member(const struct event_view *v, const char *member)
{
	const struct jval *payload = &v->payload;
	size_t len = v->json_len;

	if (v->index && v->index->envelope)
		return find_entry(v->index, 0, v->index->envelope, member);
	if (payload->type != JT_NONE && payload->text + payload->len == v->json + v->json_len - 1) {
		if (strcmp(member, "payload") == 0)
			return *payload;
		len = (size_t)(payload->text - v->json);
	}
	for (struct jiter it = jiter_inside(v->json, len); jiter_next(&it);)
		if (jval_is_str(it.key, member))
			return it.value;
	return (struct jval){ 0 };
}

struct jval event_payload_member(const struct event_view *v, const char *member)
{
	return v->index ? find_entry(v->index, v->index->envelope, v->index->count, member)
			: jval_get(event_payload(v), member);
}

bool event_from_client(const struct event_view *v)
{
	if (event_info(v->type)->origin != EVENT_BY_CLIENT)
		return false; /* emit_events rejects it */
	return jval_get(event_member(v, "correlation"), "emittedBy").type != JT_NONE;
}

void event_json(const struct event_view *v, struct buf *out)
{
	struct jw w = jw_on(out);

	buf_reserve(out, v->json_len + 40);
	jw_obj(&w);
	jw_kuint(&w, "sequence", v->sequence);
	buf_byte(out, ',');
	buf_append(out, v->json, v->json_len);
}

/* The tables of event types and id fields, and lookups in them. */

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
#define IDS_SANDBOX (IDS_TURN | ID_BIT(PROCESS) | ID_BIT(SANDBOX))
#define IDS_OUTPUT ID_BIT(OUTPUT)
#define IDS_TRIAL (ID_BIT(TASK) | ID_BIT(RUN))
#define IDS_TRIAL_START (IDS_TRIAL | IDS_TURN)

static const struct event_info infos[] = {
#define FIELD(member, key, kind, type, optional) key optional ":" type " "
#define PART(name, member) PART_##name
#define WRITTEN(member, fields) fields
#define EVENT_TYPE(NAME, name_, wire, class_, origin_, extension_, ids_, members_, cause_, fields) \
	[EVENT_##NAME] = { .name = wire,                                                           \
			   .name_len = sizeof(wire) - 1,                                           \
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

/* A linear search: only requests and packs name a type by its text. */
int event_type_find(const char *name, size_t n)
{
	for (int t = 0; t < EVENT_TYPE_COUNT; t++)
		if (strncmp(infos[t].name, name, n) == 0 && infos[t].name[n] == '\0')
			return t;
	return -1;
}

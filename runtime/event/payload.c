#include "runtime/event/payload.h"

#include "runtime/base/err.h"
#include "runtime/event/event.h"

#include <stdio.h>
#include <string.h>

/* A row is "name:type name?:type …", as the macros in event.c concatenate it from event_types.def; it is trusted. */
bool payload_member_next(const char **p, struct payload_member *ret)
{
	const char *at = *p;

	while (*at == ' ')
		at++;
	if (!*at)
		return false;
	ret->name = at;
	while (*at != ':' && *at != '?')
		at++;
	ret->name_len = (size_t)(at - ret->name);
	ret->optional = *at == '?';
	at += ret->optional ? 2 : 1;
	ret->type = at;
	while (*at && *at != ' ')
		at++;
	ret->type_len = (size_t)(at - ret->type);
	*p = at;
	return true;
}

static bool payload_is_int(struct jval v)
{
	if (v.type != JT_NUMBER)
		return false;
	for (size_t i = v.text[0] == '-'; i < v.len; i++)
		if (v.text[i] < '0' || v.text[i] > '9')
			return false;
	return true;
}

/* The types differ in their first letters, but for "array" and "any". */
static bool payload_type_fits(const struct payload_member *m, struct jval v)
{
	switch (m->type[0]) {
	case 's': return v.type == JT_STRING;
	case 'i': return payload_is_int(v);
	case 'n': return v.type == JT_NUMBER;
	case 'b': return v.type == JT_TRUE || v.type == JT_FALSE;
	case 'o': return v.type == JT_OBJECT;
	default: return m->type_len == 5 ? v.type == JT_ARRAY : v.type != JT_NULL;
	}
}

/* The position of the walk through the row. */
struct payload_cursor {
	const char *row;
	const char *at;
	unsigned index; /* of the member at `at` */
	uint64_t seen;  /* bit for each member of the row */
};

/* Searches for the key from the current position, then once more from the start of the row. */
static bool payload_find(struct payload_cursor *c, struct jval key, struct payload_member *ret)
{
	for (int lap = 0; lap < 2; lap++) {
		while (payload_member_next(&c->at, ret)) {
			unsigned index = c->index++;

			if (key.len == ret->name_len + 2 && memcmp(key.text + 1, ret->name, ret->name_len) == 0) {
				c->seen |= 1ull << (index % PAYLOAD_MEMBERS_MAX);
				return true;
			}
		}
		c->at = c->row;
		c->index = 0;
	}
	return false;
}

static int payload_fail(const struct event_info *info, const struct payload_member *m, struct err *e)
{
	char field[ERR_FIELD_MAX];

	snprintf(field, sizeof(field), "payload.%.*s", (int)m->name_len, m->name);
	return err_field(e, field, "%s needs payload.%.*s (%.*s)", info->name, (int)m->name_len, m->name,
			 (int)m->type_len, m->type);
}

/* Required members and types, by the row in event_types.def. Members that the row does not have are allowed. */
int payload_check(const struct event_info *info, const char *json, size_t len, struct err *e)
{
	struct payload_cursor c = { .row = info->payload, .at = info->payload };
	struct jiter it = jiter_on((struct jval){ .type = JT_OBJECT, .text = json, .len = len });
	struct payload_member m;
	unsigned index = 0;

	if (len < 2 || json[0] != '{')
		return err_field(e, "payload", "%s: the payload is not a JSON object", info->name);
	while (jiter_next(&it)) {
		if (it.value.type == JT_NULL)
			return err_field(e, "payload", "%s: payload member %.*s is null; leave it out", info->name,
					 (int)(it.key.len < 40 ? it.key.len : 40), it.key.text);
		if (payload_find(&c, it.key, &m) && !payload_type_fits(&m, it.value))
			return payload_fail(info, &m, e);
	}
	if (it.p != json + len)
		return err_field(e, "payload", "%s: the payload is not a JSON object", info->name);
	for (const char *p = info->payload; payload_member_next(&p, &m); index++)
		if (!m.optional && !(c.seen >> (index % PAYLOAD_MEMBERS_MAX) & 1))
			return payload_fail(info, &m, e);
	return 0;
}

/* The names of "a b c" one by one. */
static bool payload_name_next(const char **p, const char **ret_name, size_t *ret_n)
{
	*p += strspn(*p, " ");
	*ret_name = *p;
	*ret_n = strcspn(*p, " ");
	*p += *ret_n;
	return *ret_n > 0;
}

/* One bit for each name of the list. */
void payload_name_seen(const char *names, struct jval key, uint64_t *seen)
{
	const char *name;
	uint64_t bit = 1;
	size_t n;

	for (const char *p = names; payload_name_next(&p, &name, &n); bit <<= 1)
		if (key.len == n + 2 && memcmp(key.text + 1, name, n) == 0)
			*seen |= bit;
}

/* The first missing member is reported; the caller sees the next one after fixing it. */
int payload_names_missing(const struct event_info *info, uint64_t seen, struct err *e)
{
	const char *name;
	uint64_t bit = 1;
	size_t n;

	for (const char *p = info->required_members; payload_name_next(&p, &name, &n); bit <<= 1) {
		char field[ERR_FIELD_MAX];

		if (seen & bit)
			continue;
		snprintf(field, sizeof(field), "%.*s", (int)n, name);
		return err_field(e, field, "%s needs %s", info->name, field);
	}
	return 0;
}

/*
 * Writers and readers of payloads, one of each per row of event_types.def.
 *
 * A writer is a function of its own, not a table of offsets: the compiler checks each member's type, and the hot path
 * has no dispatch on kinds. A reader only needs the names in order, since all members of its struct are struct jval.
 */

#include "runtime/event/payloads.h"

#include "runtime/base/clock.h"
#include "runtime/base/mem.h"

/* ---- writing: one function per kind of field ---- */

static inline void put_text(struct jw *w, const char *key, const char *const *v) { jw_kopt(w, key, *v); }

static inline void put_time(struct jw *w, const char *key, const uint64_t *v)
{
	char text[CLOCK_TEXT_MAX];

	if (!*v)
		return;
	clock_format(*v, text);
	jw_kstr(w, key, text);
}

static inline void put_int(struct jw *w, const char *key, const int64_t *v) { jw_kint(w, key, *v); }

static inline void put_opt_int(struct jw *w, const char *key, const struct opt_int *v)
{
	if (v->present)
		jw_kint(w, key, v->value);
}

static inline void put_bool(struct jw *w, const char *key, const bool *v) { jw_kbool(w, key, *v); }

static inline void put_opt_bool(struct jw *w, const char *key, const enum opt_bool *v)
{
	if (*v != OPT_BOOL_ABSENT)
		jw_kbool(w, key, *v == OPT_BOOL_TRUE);
}

static inline void put_flag(struct jw *w, const char *key, const bool *v)
{
	if (*v)
		jw_kbool(w, key, true);
}

static inline void put_real(struct jw *w, const char *key, const double *v)
{
	jw_key(w, key);
	jw_real(w, *v);
}

static inline void put_json(struct jw *w, const char *key, const struct json_value *v)
{
	json_value_member(w, key, *v);
}

/*
 * Members without braces around them: a function's, which is trusted to write the fields of its row, or, from a buffer,
 * their text. False: which ones is not known.
 */
static inline bool put_members(struct jw *w, const struct json_value *v)
{
	if (v->write)
		v->write(w, v->value, v->n);
	else if (v->value)
		jw_raw(w, v->value, v->n);
	return v->write;
}

/* Only a text that was passed as JSON may be something else; "{}" and "[]" are not. */
static inline bool json_is_certain(const void *member)
{
	const struct json_value *v = member;

	return v->write || v->certain || v->n <= 2;
}
static inline bool always_certain(const void *member) { return true; }
#define IS_CERTAIN(member) \
	_Generic((member), const struct json_value * : json_is_certain, default : always_certain)(member)

/*
 * Whether the field that was written at `at` satisfies payload_check. The type of a field's member is that of the
 * field, except for JSON, which is recognised by its first character.
 */
static inline bool field_fits(const struct jw *w, size_t at, size_t key_len, const char *type, bool optional)
{
	if (w->buf->len == at)
		return optional;
	const char *text = w->buf->data + at;
	const char first = text[(*text == ',') + key_len + 3];
	return type[0] == 'o' ? first == '{' : type[0] == 'a' && type[1] == 'r' ? first == '[' : first != 'n';
}

#define FIELD(member, key, kind, type, optional) \
	at = w->buf->len;                        \
	put_##kind(w, key, &p->member);          \
	fits &= field_fits(w, at, sizeof(key) - 1, type, sizeof(optional) > 1) && IS_CERTAIN(&p->member);
#define PART(name, member) fits &= write_##name##_part(w, &p->member);
#define WRITTEN(member, fields) fits &= put_members(w, &p->member);
#define EVENT_PART(name)                                                           \
	static bool write_##name##_part(struct jw *w, const struct name##_part *p) \
	{                                                                          \
		bool fits = true;                                                  \
		size_t at = 0;                                                     \
                                                                                   \
		(void)at;                                                          \
		PART_##name return fits;                                           \
	}                                                                          \
	void json_write_##name(struct jw *w, const void *value, size_t n)          \
	{                                                                          \
                                                                                   \
		jw_obj(w);                                                         \
		write_##name##_part(w, value);                                     \
		jw_obj_end(w);                                                     \
	}
#define EVENT_TYPE(NAME, name, wire, class, origin, extension, ids, members, cause, fields) \
	static bool write_##name(struct jw *w, const void *payload)                         \
	{                                                                                   \
		const struct name *p = payload;                                             \
		bool fits = true;                                                           \
		size_t at = 0;                                                              \
                                                                                            \
		(void)w;                                                                    \
		(void)p;                                                                    \
		(void)at;                                                                   \
		fields return fits;                                                         \
	}
#include "runtime/event/event_types.def"
#undef EVENT_TYPE
#undef EVENT_PART
#undef WRITTEN
#undef PART
#undef FIELD

bool payload_write(struct jw *w, enum event_type type, const struct envelope *payload)
{
	static bool (*const writers[])(struct jw *, const void *) = {
#define EVENT_TYPE(NAME, name, ...) [EVENT_##NAME] = write_##name,
#include "runtime/event/event_types.def"
#undef EVENT_TYPE
	};

	return writers[type](w, payload);
}

bool payload_write_envelope(struct jw *w, const struct envelope_members_part *m)
{
	return write_envelope_members_part(w, m);
}

/* ---- reading ---- */

/* A payload brings its members in the order of the row, so the search continues where the last one was found. */
static void read_members(const struct event_view *ev, const char *const *names, size_t count, struct jval *ret)
{
	size_t at = 0;

	memset(ret, 0, count * sizeof *ret);
	for (struct jiter it = jiter_on(event_payload(ev)); jiter_next(&it);)
		for (size_t k = 0; k < count; k++, at = at + 1 < count ? at + 1 : 0)
			if (jval_is_str(it.key, names[at])) {
				ret[at] = it.value;
				break;
			}
}

#define FIELD(member, key, kind, type, optional) key,
#define PART(name, member) PART_##name
#define WRITTEN(member, fields) fields
#define EVENT_TYPE(NAME, name, wire, class, origin, extension, ids, members, cause, fields)                         \
	void read_##name(const struct event_view *ev, struct name##_json *ret)                                      \
	{                                                                                                           \
		static const char *const names[] = { fields NULL };                                                 \
                                                                                                                    \
		_Static_assert(sizeof *ret == countof(names) * sizeof(struct jval), "a struct jval for each name"); \
		*ret = (struct name##_json){ 0 };                                                                   \
		read_members(ev, names, countof(names) - 1, (struct jval *)(void *)ret);                            \
	}
#include "runtime/event/event_types.def"
#undef EVENT_TYPE
#undef WRITTEN
#undef PART
#undef FIELD

#include "runtime/view/view_codec.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/event/event.h"
#include "runtime/store/store.h"

#define LIST_KEY_MAX (2 * VIEW_ID_MAX + 32)

static void *field_at(const struct view_field *f, void *doc) { return (char *)doc + f->offset; }

static const void *field_in(const struct view_field *f, const void *doc) { return (const char *)doc + f->offset; }

void view_clear(const struct view_schema *shape, void *ret)
{
	memset(ret, 0, shape->size);
	for (size_t i = 0; i < shape->nfields; i++)
		if (shape->fields[i].type == VIEW_UINT)
			*(uint64_t *)field_at(&shape->fields[i], ret) = VIEW_ABSENT;
}

static void decode_field(const struct view_field *f, struct jval v, void *doc)
{
	char text[CLOCK_TEXT_MAX];

	switch (f->type) {
	case VIEW_ID: view_copy_string(field_at(f, doc), v); break;
	case VIEW_UINT: *(uint64_t *)field_at(f, doc) = jval_uint(v, VIEW_ABSENT); break;
	case VIEW_TIME:
		if (jval_str(v, text, sizeof(text)) < sizeof(text))
			(void)clock_parse(text, field_at(f, doc));
		break;
	case VIEW_FLAG: *(bool *)field_at(f, doc) = jval_bool(v, false); break;
	case VIEW_JSON: *(struct jval *)field_at(f, doc) = v; break;
	}
}

/* Documents are written in table order, so the next member is nearly always the next field or close to it. */
static const struct view_field *field_after(const struct view_schema *shape, struct jval key, size_t *at)
{
	for (size_t i = 0; i < shape->nfields; i++) {
		size_t k = (*at + i) % shape->nfields;

		if (jval_is_str(key, shape->fields[k].member)) {
			*at = k + 1;
			return &shape->fields[k];
		}
	}
	return NULL;
}

void view_decode(const struct view_schema *shape, struct jval doc, void *ret)
{
	size_t at = 0;

	view_clear(shape, ret);
	for (struct jiter it = jiter_on(doc); jiter_next(&it);) {
		const struct view_field *f = it.object ? field_after(shape, it.key, &at) : NULL;

		if (f)
			decode_field(f, it.value, ret);
	}
}

static void encode_field(const struct view_field *f, const void *doc, struct jw *w)
{
	const void *p = field_in(f, doc);
	char text[CLOCK_TEXT_MAX];

	switch (f->type) {
	case VIEW_ID:
		if (*(const char *)p)
			jw_kstr(w, f->member, p);
		break;
	case VIEW_UINT:
		if (*(const uint64_t *)p != VIEW_ABSENT)
			jw_kuint(w, f->member, *(const uint64_t *)p);
		break;
	case VIEW_TIME:
		if (*(const uint64_t *)p) {
			clock_format(*(const uint64_t *)p, text);
			jw_kstr(w, f->member, text);
		}
		break;
	case VIEW_FLAG:
		if (*(const bool *)p)
			jw_kbool(w, f->member, true);
		break;
	case VIEW_JSON: {
		const struct jval *v = p;

		if (v->type != JT_NONE && v->type != JT_NULL)
			jw_kraw(w, f->member, v->text, v->len);
		break;
	}
	}
}

void view_encode(const struct view_schema *shape, const void *doc, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	for (size_t i = 0; i < shape->nfields; i++)
		encode_field(&shape->fields[i], doc, &w);
	jw_obj_end(&w);
}

void view_copy_members(const struct view_schema *shape, void *doc, struct jval payload)
{
	size_t at = 0;

	for (struct jiter it = jiter_on(payload); jiter_next(&it);) {
		const struct view_field *f = it.object ? field_after(shape, it.key, &at) : NULL;

		if (f && f->type == VIEW_JSON)
			decode_field(f, it.value, doc);
	}
}

/* A document as it was stored, under a checksum: it needs no scan of its own to be known as an object. */
static struct jval stored(const char *json, size_t len)
{
	return len >= 2 && json[0] == '{' ? (struct jval){ .type = JT_OBJECT, .text = json, .len = len }
					  : (struct jval){ 0 };
}

int view_load(struct models *m, const struct view_schema *shape, const char *id, void *ret, struct err *e)
{
	const char *json;
	size_t len;
	int r = models_get(m, (uint8_t)shape->kind, id, strlen(id), &json, &len, e);

	if (r == 0)
		view_decode(shape, stored(json, len), ret);
	else if (r > 0)
		view_clear(shape, ret);
	return r;
}

int view_save(struct models *m, const struct view_schema *shape, const char *id, const void *doc, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;

	view_encode(shape, doc, &text);
	return models_put(m, (uint8_t)shape->kind, id, strlen(id), text.data, text.len, e);
}

static int list_key(const char *owner, const char *member, char key[LIST_KEY_MAX])
{
	if (!*owner || (member && !*member))
		return 0;
	return snprintf(key, LIST_KEY_MAX, "%s%s%s", owner, member ? "/" : "", member ? member : "");
}

int view_list_put(struct models *m, enum view_kind kind, const char *owner, const char *member, struct err *e)
{
	char key[LIST_KEY_MAX];
	int n = list_key(owner, member, key);

	return n > 0 ? models_put(m, (uint8_t)kind, key, (size_t)n, "{}", 2, e) : 0;
}

int view_list_del(struct models *m, enum view_kind kind, const char *owner, const char *member, struct err *e)
{
	char key[LIST_KEY_MAX];
	int n = list_key(owner, member, key);

	if (n <= 0)
		return 0;
	return models_del(m, (uint8_t)kind, key, (size_t)n, e) < 0 ? -1 : 0;
}

void view_copy_string(char dst[VIEW_ID_MAX], struct jval v)
{
	if (v.type == JT_STRING)
		(void)jval_str(v, dst, VIEW_ID_MAX);
}

void view_set_string(char dst[VIEW_ID_MAX], const char *s) { (void)snprintf(dst, VIEW_ID_MAX, "%s", s); }

typedef int (*get_fn)(struct store *s, uint8_t kind, const char *id, struct buf *out, struct err *e);

static int read_by(get_fn get, struct store *s, const struct view_schema *shape, const char *id, struct buf *text,
		   void *ret, struct err *e)
{
	int r;

	buf_reset(text);
	r = get(s, (uint8_t)shape->kind, id, text, e);
	if (r == 0)
		view_decode(shape, stored(text->data, text->len), ret);
	return r;
}

int view_read(struct store *s, const struct view_schema *shape, const char *id, struct buf *text, void *ret,
	      struct err *e)
{
	return read_by(store_model_get, s, shape, id, text, ret, e);
}

int view_read_speculative(struct store *s, const struct view_schema *shape, const char *id, struct buf *text, void *ret,
			  struct err *e)
{
	return read_by(store_model_get_speculative, s, shape, id, text, ret, e);
}

int view_owner(struct store *s, const struct view_schema *shape, const char *id, uint32_t *ret, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	int r = store_model_get_speculative(s, (uint8_t)shape->kind, id, &text, e);

	if (r == 0)
		*ret = (uint32_t)jval_uint(jval_get(stored(text.data, text.len), "uid"), 0);
	return r;
}

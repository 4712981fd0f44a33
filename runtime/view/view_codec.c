/*
 * Documents between text and structs, by the tables that view_documents.c generates. Decoding copies short strings
 * and numbers and only points at JSON members; encoding writes the members in table order. The text is therefore a
 * function of the struct, which the byte comparison of store_verify relies on.
 */

#include "runtime/view/view_codec.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/event/event.h"
#include "runtime/store/store.h"

#include <assert.h>

#define LIST_KEY_MAX (4 * ID_SIZE) /* an id and a member of up to three more */

static void *field_at(const struct view_field *f, void *doc) { return (char *)doc + f->offset; }

static const void *field_in(const struct view_field *f, const void *doc) { return (const char *)doc + f->offset; }

void view_clear(const struct view_schema *schema, void *ret)
{
	memset(ret, 0, schema->form.size);
	for (size_t i = 0; i < schema->nfields; i++)
		if (schema->fields[i].type == VIEW_UINT)
			*(uint64_t *)field_at(&schema->fields[i], ret) = VIEW_ABSENT;
}

static void decode_field(const struct view_field *f, struct jval v, void *doc)
{
	switch (f->type) {
	case VIEW_STRING: view_copy_string(field_at(f, doc), v); break;
	case VIEW_UINT: *(uint64_t *)field_at(f, doc) = jval_uint(v, VIEW_ABSENT); break;
	case VIEW_TIME: view_copy_time(field_at(f, doc), v); break;
	case VIEW_FLAG: *(bool *)field_at(f, doc) = jval_bool(v, false); break;
	case VIEW_JSON: *(struct jval *)field_at(f, doc) = v; break;
	}
}

/* Members are mostly in table order, so the search starts at the field after the last one. */
static const struct view_field *field_after(const struct view_schema *schema, const char *name, size_t len, size_t *at)
{
	for (size_t i = 0, k = *at; i < schema->nfields; i++, k++) {
		const struct view_field *f = &schema->fields[k < schema->nfields ? k : (k = 0)];

		if (len != f->length || *name != *f->member || memcmp(name, f->member, len) != 0)
			continue;
		*at = k + 1;
		return f;
	}
	return NULL;
}

/* The field of a member's key, which may have escapes. */
static const struct view_field *field_of(const struct view_schema *schema, struct jval key, size_t *at)
{
	if (!memchr(key.text, '\\', key.len))
		return field_after(schema, key.text + 1, key.len - 2, at);
	for (size_t i = 0; i < schema->nfields; i++)
		if (jval_is_str(key, schema->fields[i].member))
			return &schema->fields[i];
	return NULL;
}

/* Members that the table does not have are skipped. */
void view_decode(const struct view_schema *schema, struct jval doc, void *ret)
{
	size_t at = 0;

	view_clear(schema, ret);
	for (struct jiter it = jiter_on(doc); jiter_next(&it);) {
		const struct view_field *f = it.object ? field_of(schema, it.key, &at) : NULL;

		if (f)
			decode_field(f, it.value, ret);
	}
}

/* Absent values write nothing; that is how "absent members are omitted, never null" holds for all documents. */
static void encode_field(const struct view_field *f, const char *key, const void *doc, struct jw *w)
{
	const void *p = field_in(f, doc);
	char text[CLOCK_TEXT_MAX];

	switch (f->type) {
	case VIEW_STRING:
		if (*(const char *)p)
			jw_kstr(w, key, p);
		break;
	case VIEW_UINT:
		if (*(const uint64_t *)p != VIEW_ABSENT)
			jw_kuint(w, key, *(const uint64_t *)p);
		break;
	case VIEW_TIME:
		if (*(const uint64_t *)p) {
			clock_format(*(const uint64_t *)p, text);
			jw_kstr(w, key, text);
		}
		break;
	case VIEW_FLAG:
		if (*(const bool *)p)
			jw_kbool(w, key, true);
		break;
	case VIEW_JSON: {
		const struct jval *v = p;

		if (v->type != JT_NONE && v->type != JT_NULL)
			jw_kraw(w, key, v->text, v->len);
		break;
	}
	}
}

void view_encode(const struct view_schema *schema, const void *doc, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	for (size_t i = 0; i < schema->nfields; i++)
		encode_field(&schema->fields[i], schema->fields[i].member, doc, &w);
	jw_obj_end(&w);
}

#ifndef NDEBUG
static bool fields_are_equal(const struct view_field *f, const void *a, const void *b)
{
	const struct jval *x = field_in(f, a), *y = field_in(f, b);

	switch (f->type) {
	case VIEW_STRING: return strcmp(field_in(f, a), field_in(f, b)) == 0;
	case VIEW_UINT:
	case VIEW_TIME: return *(const uint64_t *)field_in(f, a) == *(const uint64_t *)field_in(f, b);
	case VIEW_FLAG: return *(const bool *)field_in(f, a) == *(const bool *)field_in(f, b);
	case VIEW_JSON: return x->type == y->type && x->len == y->len && (!x->len || !memcmp(x->text, y->text, x->len));
	}
	return false;
}

/* Whether the text gives the same struct again: with a kept struct a projection does the same as without. */
static bool is_decoded_equal(const struct view_schema *schema, const void *doc, const struct buf *text)
{
	mem_auto void *again = mem_zalloc(1, schema->form.size);

	view_decode(schema, (struct jval){ .type = JT_OBJECT, .text = text->data, .len = text->len }, again);
	for (size_t i = 0; i < schema->nfields; i++)
		if (!fields_are_equal(&schema->fields[i], doc, again))
			return false;
	return true;
}
#endif

void view_encode_form(const struct model_form *form, const void *doc, struct buf *out)
{
	const struct view_schema *schema = (const struct view_schema *)form;

	view_encode(schema, doc, out);
	assert(is_decoded_equal(schema, doc, out));
}

/* The search starts where the last one ended, because `names` are mostly in table order. */
void view_write_members(struct jw *w, const struct view_schema *schema, const void *doc, const char *names)
{
	size_t at = 0;

	for (const char *p = names; *p;) {
		size_t len = strcspn(p, " "), i = 0;
		const char *equals = memchr(p, '=', len), *member = equals ? equals + 1 : p;
		size_t member_len = len - (size_t)(member - p);
		char key[64];

		while (i < schema->nfields &&
		       (strncmp(schema->fields[(at + i) % schema->nfields].member, member, member_len) ||
			schema->fields[(at + i) % schema->nfields].member[member_len]))
			i++;
		assert(i < schema->nfields);
		at = (at + i) % schema->nfields;
		(void)snprintf(key, sizeof(key), "%.*s", (int)(equals ? (size_t)(equals - p) : len), p);
		encode_field(&schema->fields[at], key, doc, w);
		p += len + strspn(p + len, " ");
	}
}

void view_copy_members(const struct view_schema *schema, void *doc, struct jval object)
{
	size_t at = 0;

	for (struct jiter it = jiter_on(object); jiter_next(&it);) {
		const struct view_field *f = it.object ? field_of(schema, it.key, &at) : NULL;

		if (f && f->type == VIEW_JSON)
			decode_field(f, it.value, doc);
	}
}

void view_copy_payload(const struct view_schema *schema, void *doc, const struct event_view *ev)
{
	const struct event_index *index = ev->index;
	size_t at = 0;

	if (!index)
		view_copy_members(schema, doc, event_payload(ev));
	for (size_t i = index ? index->envelope : 0; index && i < index->count; i++) {
		const struct event_index_entry *n = &index->entries[i];
		const struct view_field *f = field_after(schema, n->name, n->len, &at);

		if (f && f->type == VIEW_JSON)
			decode_field(f, n->value, doc);
	}
}

/* Stored documents are under a checksum, so no scan is needed to trust that one is an object. */
static struct jval stored_object(const char *json, size_t len)
{
	return len >= 2 && json[0] == '{' ? (struct jval){ .type = JT_OBJECT, .text = json, .len = len }
					  : (struct jval){ 0 };
}

/* The JSON members of *ret point into the stored text and are valid until the next call on the models. */
int view_load(struct models *m, const struct view_schema *schema, const char *id, void *ret, struct err *e)
{
	const void *kept;
	const char *json;
	size_t len;
	int r = models_get_struct(m, &schema->form, (uint8_t)schema->kind, id, strlen(id), &kept, &json, &len, e);

	if (r == 0 && kept)
		memcpy(ret, kept, schema->form.size);
	else if (r == 0)
		view_decode(schema, stored_object(json, len), ret);
	else if (r > 0)
		view_clear(schema, ret);
	return r;
}

/* What an event gives to a document that it creates. */
static void fill_field(const struct view_field *f, const struct event_view *ev, void *doc)
{
	switch (f->fill) {
	case FILL_ID: event_id_copy(ev, f->id, field_at(f, doc), ID_SIZE); break;
	case FILL_TEXT: id_copy(field_at(f, doc), f->initial); break;
	case FILL_ZERO: *(uint64_t *)field_at(f, doc) = 0; break;
	case FILL_UID: *(uint64_t *)field_at(f, doc) = ev->uid; break;
	case FILL_CREATED:
	case FILL_UPDATED: *(uint64_t *)field_at(f, doc) = ev->real_us; break;
	case FILL_NOTHING: break;
	}
}

void view_create(const struct view_schema *schema, const struct event_view *ev, void *ret)
{
	view_clear(schema, ret);
	for (size_t i = 0; i < schema->nfields; i++)
		fill_field(&schema->fields[i], ev, ret);
}

/*
 * A document may be created by any event about it. The store projects the creating event first, but an export projects
 * only the events of its scope, and retention may have removed the oldest of them.
 */
int view_open(struct models *m, const struct view_schema *schema, const struct event_view *ev, const char *id,
	      void *ret, struct err *e)
{
	int r = view_load(m, schema, id, ret, e);

	if (r < 0)
		return -1;
	if (r > 0)
		view_create(schema, ev, ret);
	for (size_t i = 0; r == 0 && i < schema->nfields; i++)
		if (schema->fields[i].fill == FILL_UPDATED)
			fill_field(&schema->fields[i], ev, ret);
	return 0;
}

/* The key is the first field of every document that events name (documents.def). */
int view_open_event(struct models *m, const struct view_schema *schema, const struct event_view *ev, void *ret,
		    struct err *e)
{
	char id[ID_SIZE];

	event_id_copy(ev, schema->fields[0].id, id, sizeof(id));
	return *id ? view_open(m, schema, ev, id, ret, e) : 1;
}

/* JSON members that are null become absent ones, as by encoding and decoding. */
static void keep_struct(struct models *m, const struct view_schema *schema, const void *doc, void *kept)
{
	memcpy(kept, doc, schema->form.size);
	for (size_t i = 0; i < schema->nfields; i++) {
		struct jval *v = field_at(&schema->fields[i], kept);

		if (schema->fields[i].type != VIEW_JSON)
			continue;
		if (v->type == JT_NONE || v->type == JT_NULL)
			*v = (struct jval){ 0 };
		else
			v->text = models_keep(m, v->text, v->len);
	}
}

int view_save(struct models *m, const struct view_schema *schema, const char *id, const void *doc, struct err *e)
{
	void *kept = models_put_struct(m, &schema->form, (uint8_t)schema->kind, id, strlen(id));
	buf_auto struct buf text = BUF_INIT;

	if (kept) {
		keep_struct(m, schema, doc, kept);
		return 0;
	}
	buf_reserve(&text, 1000); /* most documents: one allocation, small enough for the allocator's cache */
	view_encode(schema, doc, &text);
	return models_put(m, (uint8_t)schema->kind, id, strlen(id), text.data, text.len, e);
}

/* Its length; 0: a part is "". Called too often for snprintf. */
static size_t list_key(const char *owner, const char *member, char key[LIST_KEY_MAX])
{
	const size_t n = strlen(owner), more = member ? strlen(member) : 0;

	assert(n + 1 + more < LIST_KEY_MAX);
	if (n == 0 || (member && more == 0) || n + 1 + more >= LIST_KEY_MAX)
		return 0;
	memcpy(key, owner, n);
	if (!member)
		return n;
	key[n] = '/';
	memcpy(key + n + 1, member, more);
	return n + 1 + more;
}

int view_list_put(struct models *m, enum view_kind kind, const char *owner, const char *member, struct err *e)
{
	char key[LIST_KEY_MAX];
	const size_t n = list_key(owner, member, key);

	return n ? models_put(m, (uint8_t)kind, key, n, "{}", 2, e) : 0;
}

int view_list_del(struct models *m, enum view_kind kind, const char *owner, const char *member, struct err *e)
{
	char key[LIST_KEY_MAX];
	const size_t n = list_key(owner, member, key);

	return n && models_del(m, (uint8_t)kind, key, n, e) < 0 ? -1 : 0;
}

void view_copy_string(char dst[ID_SIZE], struct jval v)
{
	if (v.type == JT_STRING)
		(void)jval_str(v, dst, ID_SIZE);
}

void view_copy_time(uint64_t *dst, struct jval v)
{
	char text[CLOCK_TEXT_MAX];

	if (v.type == JT_STRING && jval_str(v, text, sizeof(text)) < sizeof(text))
		(void)clock_parse(text, dst);
}

/* Unlike view_load this leaves *ret alone if there is no document. */
int view_read(struct store *s, const struct view_schema *schema, const char *id, struct buf *text, void *ret,
	      struct err *e)
{
	buf_reset(text);
	int r = store_model_get(s, (uint8_t)schema->kind, id, text, e);
	if (r == 0)
		view_decode(schema, stored_object(text->data, text->len), ret);
	return r;
}

/* A document without an owner is visible to VIEW_ANY_UID only. */
bool view_is_visible(const struct view_schema *schema, const void *doc, uint32_t uid)
{
	for (size_t i = 0; uid != VIEW_ANY_UID && i < schema->nfields; i++)
		if (schema->fields[i].fill == FILL_UID)
			return *(const uint64_t *)field_in(&schema->fields[i], doc) == uid;
	return uid == VIEW_ANY_UID;
}

int view_read_visible(struct store *s, const struct view_schema *schema, uint32_t uid, const char *field,
		      const char *id, struct buf *text, void *ret, struct err *e)
{
	int r = view_read(s, schema, id, text, ret, e);

	if (r < 0)
		return -1;
	return r == 0 && view_is_visible(schema, ret, uid) ? 0 : err_not_known(e, field, id);
}

struct struct_copy {
	const struct view_schema *schema;
	struct buf *text;
	void *ret;
	bool done;
};

/* A copy of a struct that the store keeps. Each JSON member is followed by a comma, as in a document. */
static void copy_struct(void *ctx, const void *kept)
{
	struct struct_copy *c = ctx;
	size_t room = 0;

	memcpy(c->ret, kept, c->schema->form.size);
	for (size_t i = 0; i < c->schema->nfields; i++)
		if (c->schema->fields[i].type == VIEW_JSON)
			room += ((const struct jval *)field_in(&c->schema->fields[i], kept))->len + 1;
	buf_reserve(c->text, room); /* it is not moved while members point into it */
	for (size_t i = 0; i < c->schema->nfields; i++) {
		struct jval *v = field_at(&c->schema->fields[i], c->ret);

		if (c->schema->fields[i].type != VIEW_JSON || !v->text)
			continue;
		const size_t at = c->text->len;
		buf_append(c->text, v->text, v->len);
		buf_byte(c->text, ',');
		v->text = c->text->data + at;
	}
	c->done = true;
}

int view_read_speculative(struct store *s, const struct view_schema *schema, const char *id, struct buf *text,
			  void *ret, struct err *e)
{
	struct struct_copy copy = { .schema = schema, .text = text, .ret = ret };
	const struct model_reader by = { &schema->form, copy_struct, &copy };

	buf_reset(text);
	int r = store_model_read_speculative(s, &by, (uint8_t)schema->kind, id, text, e);
	if (r == 0 && !copy.done)
		view_decode(schema, stored_object(text->data, text->len), ret);
	return r;
}

int view_owner(struct store *s, const struct view_schema *schema, const char *id, uint32_t *ret, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	int r = store_model_get_speculative(s, (uint8_t)schema->kind, id, &text, e);

	if (r == 0)
		*ret = (uint32_t)jval_uint(jval_get(stored_object(text.data, text.len), "uid"), 0);
	return r;
}

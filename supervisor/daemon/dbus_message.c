#include "supervisor/daemon/dbus_message.h"

#include "runtime/base/mem.h"

#include <stdio.h>
#include <string.h>

/*
 * Alignment counts from the start of the message, which is why a call is built in a buffer of its own. A body can be
 * built separately: it starts at a multiple of 8, the largest alignment. Of a received header only the fields below are
 * used; a field of a type other than u, s, o and g makes the message malformed, since its length would be unknown.
 */

#define VERSION 1
enum field {
	FIELD_PATH = 1,
	FIELD_INTERFACE = 2,
	FIELD_MEMBER = 3,
	FIELD_ERROR = 4,
	FIELD_REPLY = 5,
	FIELD_DESTINATION = 6,
	FIELD_SIGNATURE = 8
};

static size_t align_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* ---- writing ---- */

void dbus_put_align(struct buf *b, size_t to)
{
	while (b->len % to)
		buf_byte(b, 0);
}

static void put_number(struct buf *b, uint64_t v, size_t size)
{
	dbus_put_align(b, size);
	for (size_t i = 0; i < size; i++)
		buf_byte(b, (char)(v >> (8 * i)));
}

void dbus_put_u32(struct buf *b, uint32_t v) { put_number(b, v, 4); }

void dbus_put_u64(struct buf *b, uint64_t v) { put_number(b, v, 8); }

void dbus_put_str(struct buf *b, const char *s)
{
	dbus_put_u32(b, (uint32_t)strlen(s));
	buf_append(b, s, strlen(s) + 1);
}

void dbus_put_signature(struct buf *b, const char *s)
{
	buf_byte(b, (char)strlen(s));
	buf_append(b, s, strlen(s) + 1);
}

static void set_u32(struct buf *b, size_t at, uint32_t v)
{
	for (size_t i = 0; i < 4; i++)
		b->data[at + i] = (char)(v >> (8 * i));
}

/* The length does not count the padding between it and the first element. */
size_t dbus_put_array(struct buf *b)
{
	dbus_put_u32(b, 0);
	size_t at = b->len - 4;
	dbus_put_align(b, 8);
	return at;
}

void dbus_end_array(struct buf *b, size_t at) { set_u32(b, at, (uint32_t)(b->len - align_up(at + 4, 8))); }

static void put_field(struct buf *b, enum field code, const char *type, const char *value)
{
	dbus_put_align(b, 8);
	buf_byte(b, (char)code);
	dbus_put_signature(b, type);
	if (type[0] == 'g')
		dbus_put_signature(b, value);
	else
		dbus_put_str(b, value);
}

void dbus_put_call(struct buf *out, const struct dbus_call *c, uint32_t serial, const struct buf *body)
{
	buf_auto struct buf m = BUF_INIT; /* alignment counts from a message's start */
	const char head[] = { 'l', DBUS_CALL, 0, VERSION };
	buf_append(&m, head, sizeof head);
	dbus_put_u32(&m, (uint32_t)body->len);
	dbus_put_u32(&m, serial);
	size_t fields = dbus_put_array(&m);
	put_field(&m, FIELD_PATH, "o", c->path);
	put_field(&m, FIELD_INTERFACE, "s", c->interface);
	put_field(&m, FIELD_MEMBER, "s", c->member);
	put_field(&m, FIELD_DESTINATION, "s", c->destination);
	if (c->signature[0])
		put_field(&m, FIELD_SIGNATURE, "g", c->signature);
	dbus_end_array(&m, fields);
	dbus_put_align(&m, 8);
	buf_append(&m, body->len ? body->data : "", body->len);
	buf_append(out, m.data, m.len);
}

/* ---- reading ---- */

static uint32_t u32_at(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

ptrdiff_t dbus_message_size(const uint8_t head[DBUS_HEAD_SIZE])
{
	uint64_t body = u32_at(head + 4), fields = u32_at(head + 12),
		 size = align_up(DBUS_HEAD_SIZE + fields, 8) + body;
	return head[0] != 'l' || head[3] != VERSION || size > DBUS_MESSAGE_MAX ? -1 : (ptrdiff_t)size;
}

static bool skip_padding(struct dbus_reader *r, size_t to)
{
	r->at = align_up(r->at, to);
	return r->at <= r->len;
}

bool dbus_get_u32(struct dbus_reader *r, uint32_t *ret)
{
	if (!skip_padding(r, 4) || r->len - r->at < 4)
		return false;
	*ret = u32_at(r->p + r->at);
	r->at += 4;
	return true;
}

/* A string of n bytes, followed by a NUL. */
static bool get_text(struct dbus_reader *r, size_t n, char *ret, size_t cap)
{
	if (r->len - r->at <= n || r->p[r->at + n])
		return false;
	snprintf(ret, cap, "%s", (const char *)r->p + r->at);
	r->at += n + 1;
	return true;
}

bool dbus_get_str(struct dbus_reader *r, char *ret, size_t cap)
{
	uint32_t n;
	return dbus_get_u32(r, &n) && get_text(r, n, ret, cap);
}

static bool get_signature(struct dbus_reader *r, char *ret, size_t cap)
{
	return r->at < r->len && get_text(r, r->p[r->at++], ret, cap);
}

/* One header field: (code, variant). */
static bool read_field(struct dbus_reader *r, struct dbus_message *m)
{
	char type[8], text[256];
	uint32_t number;
	if (!skip_padding(r, 8) || r->at >= r->len)
		return false;
	uint8_t code = r->p[r->at++];
	if (!get_signature(r, type, sizeof type))
		return false;
	if (strcmp(type, "u") == 0) {
		if (!dbus_get_u32(r, &number))
			return false;
		if (code == FIELD_REPLY)
			m->reply_serial = number;
		return true;
	}
	bool is_signature = strcmp(type, "g") == 0;
	if (!is_signature && strcmp(type, "s") != 0 && strcmp(type, "o") != 0)
		return false;
	if (is_signature ? !get_signature(r, text, sizeof text) : !dbus_get_str(r, text, sizeof text))
		return false;
	if (code == FIELD_MEMBER)
		snprintf(m->member, sizeof m->member, "%.*s", (int)sizeof m->member - 1, text);
	else if (code == FIELD_ERROR)
		snprintf(m->error, sizeof m->error, "%.*s", (int)sizeof m->error - 1, text);
	else if (code == FIELD_SIGNATURE)
		snprintf(m->signature, sizeof m->signature, "%.*s", (int)sizeof m->signature - 1, text);
	return true;
}

int dbus_message_read(const void *data, size_t len, struct dbus_message *ret)
{
	const uint8_t *p = data;
	struct dbus_message m = { 0 };
	if (len < DBUS_HEAD_SIZE || dbus_message_size(p) != (ptrdiff_t)len || p[1] < DBUS_CALL || p[1] > DBUS_SIGNAL)
		return -1;
	m.type = p[1];
	size_t fields_end = DBUS_HEAD_SIZE + u32_at(p + 12);
	struct dbus_reader r = { .p = p, .len = fields_end, .at = DBUS_HEAD_SIZE };
	while (r.at < fields_end) {
		if (!read_field(&r, &m))
			return -1;
	}
	m.body = p + align_up(fields_end, 8);
	m.body_len = u32_at(p + 4);
	*ret = m;
	return 0;
}

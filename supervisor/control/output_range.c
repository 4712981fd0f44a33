#include "supervisor/control/output_range.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/text.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"

#include <string.h>

/* The part of a range that was read. */
struct part {
	struct view_output_brief brief;
	struct buf bytes;
	uint64_t skipped; /* bytes of the omitted part */
};

/* FORM_WAIT: the only bytes are the beginning of a character whose rest has not been printed yet. */
enum form { FORM_TEXT, FORM_BASE64, FORM_WAIT };

/* Chooses the encoding and how many bytes are shown. */
static enum form form_of(const struct output_range *o, const struct part *p, size_t *ret_n)
{
	bool last = o->offset + p->bytes.len >= p->brief.bytes;
	size_t n = p->bytes.len;

	*ret_n = n;
	if (o->base64)
		return FORM_BASE64;
	/* The rest of a character that is cut here comes with the next read or with more output. */
	if (n && (!last || !p->brief.ended))
		n = text_utf8_cut(p->bytes.data, n);
	if (n == 0 && p->bytes.len && last && !p->brief.ended) {
		*ret_n = 0;
		return FORM_WAIT;
	}
	if ((n == 0 && p->bytes.len) || !text_utf8_valid(buf_cstr(&p->bytes), n))
		return FORM_BASE64;
	*ret_n = n;
	return FORM_TEXT;
}

static void write_part(const struct output_range *o, const struct part *p, struct buf *out)
{
	struct jw w = jw_on(out);
	size_t n;
	enum form form = form_of(o, p, &n);
	uint64_t next = o->offset + p->skipped + n;

	jw_obj(&w);
	jw_key(&w, "data");
	if (form == FORM_BASE64)
		jw_base64(&w, buf_cstr(&p->bytes), n);
	else
		jw_strn(&w, buf_cstr(&p->bytes), n);
	jw_kstr(&w, "encoding", form == FORM_BASE64 ? "base64" : "utf8");
	jw_kuint(&w, "offset", o->offset);
	jw_kuint(&w, "nextOffset", next);
	jw_kuint(&w, "totalBytes", p->brief.bytes);
	jw_kbool(&w, "eof", p->brief.ended && next >= p->brief.bytes);
	if (p->skipped)
		jw_kuint(&w, "omittedBytes", p->skipped);
	jw_obj_end(&w);
}

/* Stops at the omitted part: a range has data from one side of it only. */
static int read_part(struct store *s, const struct output_range *o, struct part *p, struct err *e)
{
	const struct view_output_brief *b = &p->brief;
	uint64_t n = o->length;

	if (o->offset >= b->bytes)
		return 0;
	if (o->offset >= b->omitted_from && o->offset < b->omitted_to) {
		p->skipped = b->omitted_to - o->offset;
		return 0;
	}
	if (n > b->bytes - o->offset)
		n = b->bytes - o->offset;
	if (b->omitted_to > b->omitted_from && o->offset < b->omitted_from && n > b->omitted_from - o->offset)
		n = b->omitted_from - o->offset;
	if (store_output_read(s, o->ref, o->offset, (size_t)n, &p->bytes, e) < 0)
		return -1;
	if (!p->bytes.len && b->ended)
		return err_set(e, ERR_CORRUPT, "output '%s' has no bytes at %llu, though it is said to have %llu",
			       o->ref, (unsigned long long)o->offset, (unsigned long long)b->bytes);
	return 0;
}

/* At most three continuation bytes: more of them is not UTF-8, and stays for base64. */
static size_t drop_rest_of_character(struct buf *b)
{
	size_t n = 0;

	while (n < b->len && n < 3 && ((unsigned char)b->data[n] & 0xc0) == 0x80)
		n++;
	if (n)
		memmove(b->data, b->data + n, b->len -= n);
	return n;
}

int output_range_write(struct store *s, uint32_t uid, const struct output_range *o, struct buf *out, struct err *e)
{
	struct part p = { .bytes = BUF_INIT };
	struct output_range at = *o;
	int r = view_output_brief(s, uid, o->ref, &p.brief, e);

	if (r > 0)
		return err_set(e, ERR_NOT_FOUND, "no output '%s'", o->ref);
	if (r == 0 && p.brief.expired)
		return err_set(e, ERR_EXPIRED, "output '%s' has expired", o->ref);
	if (r == 0)
		r = read_part(s, o, &p, e);
	if (r == 0 && o->from_character)
		at.offset += drop_rest_of_character(&p.bytes);
	if (r == 0)
		write_part(&at, &p, out);
	buf_done(&p.bytes);
	return r;
}

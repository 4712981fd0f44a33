#ifndef BAILIFF_VIEW_WRITE_H
#define BAILIFF_VIEW_WRITE_H

/*
 * Members of a result from documents; absent ones are left out, as in stored documents. These are for members that
 * are computed or renamed; view_write_members writes those that are taken over as they are.
 */

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/view/view_codec.h"

static inline void view_write_json(struct jw *w, const char *key, struct jval v)
{
	if (v.type != JT_NONE && v.type != JT_NULL)
		jw_kraw(w, key, v.text, v.len);
}

static inline void view_write_word(struct jw *w, const char *key, const char *s)
{
	if (*s)
		jw_kstr(w, key, s);
}

static inline void view_write_time(struct jw *w, const char *key, uint64_t real_us)
{
	char text[CLOCK_TEXT_MAX];

	if (!real_us)
		return;
	clock_format(real_us, text);
	jw_kstr(w, key, text);
}

/* Begins an object with the members of a stored document, to which others are added; jw_obj_end closes it. */
static inline void view_write_stored(struct jw *w, const struct buf *text)
{
	if (w->need_comma)
		buf_byte(w->buf, ',');
	buf_append(w->buf, text->data, text->len - 1); /* without its closing brace */
	w->need_comma = true;
}

#endif

#include "pty/recording.h"

#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <jansson.h>
#include <math.h>

#define SECONDS_MAX 1e9      /* about thirty years */
#define SIZE_MAX_CELLS 65535 /* a terminal's size is 16 bits */

/* ---- writing ---- */

void recording_begin(struct recording *r, const struct recording_header *h, uint64_t start_us, struct buf *out)
{
	struct jw w = jw_on(out);

	*r = (struct recording){ .start_us = start_us, .last_us = start_us };
	jw_obj(&w);
	jw_kuint(&w, "version", 2);
	jw_kuint(&w, "width", h->cols);
	jw_kuint(&w, "height", h->rows);
	if (h->timestamp_s)
		jw_kuint(&w, "timestamp", h->timestamp_s);
	if (h->duration_s > 0) {
		jw_key(&w, "duration");
		jw_real(&w, h->duration_s);
	}
	jw_kopt(&w, "command", h->command);
	jw_kopt(&w, "title", h->title);
	if (h->term || h->shell) {
		jw_kobj(&w, "env");
		jw_kopt(&w, "SHELL", h->shell);
		jw_kopt(&w, "TERM", h->term);
		jw_obj_end(&w);
	}
	jw_obj_end(&w);
	buf_byte(out, '\n');
}

static void write_event(struct recording *r, uint64_t at_us, const char *code, const char *data, size_t n,
			struct buf *out)
{
	struct jw w = { .buf = out, .need_comma = true };
	uint64_t since;

	if (at_us > r->last_us)
		r->last_us = at_us;
	since = r->last_us - r->start_us;
	/* by hand, not with %f: exact microseconds, whatever the locale */
	buf_printf(out, "[%llu.%06llu", (unsigned long long)(since / 1000000), (unsigned long long)(since % 1000000));
	jw_str(&w, code);
	jw_strn(&w, data, n);
	jw_arr_end(&w);
	buf_byte(out, '\n');
}

/*
 * The cut bytes come first in the next piece, with its time. A character that never completes is written by
 * recording_end.
 */
void recording_output(struct recording *r, uint64_t at_us, const void *p, size_t n, struct buf *out)
{
	buf_auto struct buf joined = BUF_INIT;
	const char *s = p;
	size_t whole;

	if (!n)
		return;
	if (r->ncut) {
		buf_append(&joined, r->cut, r->ncut);
		buf_append(&joined, p, n);
		s = joined.data;
		n = joined.len;
	}
	whole = text_utf8_cut(s, n);
	r->ncut = n - whole;
	memcpy(r->cut, s + whole, r->ncut);
	if (whole)
		write_event(r, at_us, "o", s, whole, out);
}

void recording_resize(struct recording *r, uint64_t at_us, unsigned rows, unsigned cols, struct buf *out)
{
	char size[32];
	int n = snprintf(size, sizeof(size), "%ux%u", cols, rows);

	write_event(r, at_us, "r", size, (size_t)n, out);
}

void recording_end(struct recording *r, struct buf *out)
{
	if (r->ncut)
		write_event(r, r->last_us, "o", r->cut, r->ncut, out);
	r->ncut = 0;
}

/* ---- reading ---- */

static json_t *parse_line(const char *line, size_t n, struct err *e)
{
	json_error_t je;
	json_t *v;

	if (n > RECORDING_LINE_MAX) {
		err_set(e, ERR_INVALID, "a line of %zu bytes; at most %u are read", n, RECORDING_LINE_MAX);
		return NULL;
	}
	v = json_loadb(line, n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &je);
	if (!v)
		err_set(e, ERR_INVALID, "not JSON: %.200s", je.text);
	return v;
}

/* The limit is that of a terminal, not of the format. */
static int size_of(const json_t *header, const char *name, unsigned *ret, struct err *e)
{
	const json_t *v = json_object_get(header, name);

	if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > SIZE_MAX_CELLS)
		return err_field(e, name, "must be a number from 1 to %d", SIZE_MAX_CELLS);
	*ret = (unsigned)json_integer_value(v);
	return 0;
}

static const char *text_of(const json_t *object, const char *name)
{
	const json_t *v = json_object_get(object, name);

	return json_is_string(v) ? mem_strdup(json_string_value(v)) : NULL;
}

int recording_parse_header(const char *line, size_t n, struct recording_header *ret, struct err *e)
{
	json_auto_t *v = parse_line(line, n, e);
	const json_t *env = json_object_get(v, "env"), *when = json_object_get(v, "timestamp"),
		     *took = json_object_get(v, "duration");
	struct recording_header h = { 0 };

	if (!v)
		return -1;
	if (!json_is_object(v))
		return err_set(e, ERR_INVALID, "the first line of a recording is a JSON object");
	if (json_integer_value(json_object_get(v, "version")) != 2)
		return err_field(e, "version", "only asciicast version 2 is read");
	if (size_of(v, "width", &h.cols, e) < 0 || size_of(v, "height", &h.rows, e) < 0)
		return -1;
	if (json_is_integer(when) && json_integer_value(when) > 0)
		h.timestamp_s = (uint64_t)json_integer_value(when);
	if (json_is_number(took) && json_number_value(took) > 0 && json_number_value(took) < SECONDS_MAX)
		h.duration_s = json_number_value(took);
	h.command = text_of(v, "command");
	h.title = text_of(v, "title");
	h.term = text_of(env, "TERM");
	h.shell = text_of(env, "SHELL");
	*ret = h;
	return 0;
}

void recording_header_free(struct recording_header *h)
{
	free((char *)(uintptr_t)h->command);
	free((char *)(uintptr_t)h->title);
	free((char *)(uintptr_t)h->term);
	free((char *)(uintptr_t)h->shell);
	*h = (struct recording_header){ 0 };
}

/* "80x24" */
static int parse_size(const char *s, struct recording_event *ev, struct err *e)
{
	unsigned cols = 0, rows = 0;
	int end = 0;

	if (sscanf(s, "%5ux%5u%n", &cols, &rows, &end) != 2 || s[end] || !cols || !rows || cols > SIZE_MAX_CELLS ||
	    rows > SIZE_MAX_CELLS)
		return err_set(e, ERR_INVALID, "a resize to '%.40s'; it is written COLSxROWS", s);
	ev->cols = cols;
	ev->rows = rows;
	return 0;
}

/* Blank lines are skipped: 1. *ret keeps its buffer for the next line. */
int recording_parse_event(const char *line, size_t n, struct recording_event *ret, struct err *e)
{
	struct recording_event ev = *ret;
	size_t blank = 0;

	while (blank < n && strchr(" \t\r\n", line[blank]) && line[blank])
		blank++;
	if (blank == n)
		return 1;
	json_auto_t *v = parse_line(line, n, e);
	const json_t *at = json_array_get(v, 0), *code = json_array_get(v, 1), *data = json_array_get(v, 2);
	if (!v)
		return -1;
	if (!json_is_array(v) || json_array_size(v) != 3 || !json_is_number(at) || !json_is_string(code) ||
	    !json_is_string(data))
		return err_set(e, ERR_INVALID, "an event is an array of a time, a code and a text");
	/* written so that NaN is rejected, too */
	if (!(json_number_value(at) >= 0 && json_number_value(at) < SECONDS_MAX))
		return err_set(e, ERR_INVALID, "a time of %g seconds", json_number_value(at));
	ev.at_us = (uint64_t)llround(json_number_value(at) * 1e6);
	ev.code = json_string_length(code) == 1 ? json_string_value(code)[0] : '?';
	if (ev.code == 'r' && parse_size(json_string_value(data), &ev, e) < 0)
		return -1;
	buf_reset(&ev.data);
	buf_append(&ev.data, json_string_value(data), json_string_length(data));
	*ret = ev;
	return 0;
}

void recording_event_done(struct recording_event *ev) { buf_done(&ev->data); }

/* ---- pace ---- */

/* A time that goes back counts as no pause, and the clock continues from the latest time. */
uint64_t recording_pause(struct recording_pace *p, uint64_t at_us)
{
	uint64_t pause = p->begun && at_us > p->last_us ? at_us - p->last_us : 0;

	if (!p->begun || at_us > p->last_us)
		p->last_us = at_us;
	p->begun = true;
	if (p->idle_us && pause > p->idle_us)
		pause = p->idle_us;
	return p->speed > 0 ? (uint64_t)((double)pause / p->speed) : pause;
}

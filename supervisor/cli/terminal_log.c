/*
 * Puts the recording of a terminal together: times and sizes from the events, bytes from the stored output. Events may
 * have been removed by retention while the output is kept; then the size in the process's record is used.
 */

#include "supervisor/cli/terminal_log.h"

#include "runtime/base/clock.h"
#include "supervisor/cli/event_stream.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/output_stream.h"

#define PIECE (256u << 10)

/* The state of one reading. `next` skips what was passed on already; `begun` says whether `start` was called. */
struct tape {
	struct cli *cli;
	const struct terminal_log_fns *fns;
	struct terminal_log_start start;
	bool begun, stopped;
	uint64_t next; /* offset in the output */
	struct err *e;
	int result;
};

/* In microseconds since 1970. */
static uint64_t time_of(struct jval timestamp, uint64_t otherwise)
{
	char text[CLOCK_TEXT_MAX + 16];
	uint64_t us;

	jval_str(timestamp, text, sizeof(text));
	return text[0] && clock_parse(text, &us) == 0 ? us : otherwise;
}

static void read_size(struct jval v, unsigned *rows, unsigned *cols)
{
	*rows = (unsigned)jval_uint(jval_get(v, "rows"), *rows);
	*cols = (unsigned)jval_uint(jval_get(v, "cols"), *cols);
}

/* False: the callback wants no more. */
static bool begin_log(struct tape *t)
{
	if (!t->begun)
		t->stopped = !t->fns->start(t->fns->ctx, &t->start);
	t->begun = true;
	return !t->stopped;
}

/* Reads the bytes printed at that time; bytes that were not kept are skipped. */
static int read_range(struct tape *t, const char *ref, uint64_t at_us, uint64_t offset, uint64_t end)
{
	struct output_piece piece = { .next = offset };
	int r = 0;

	while (r == 0 && piece.next < end && !t->stopped) {
		offset = piece.next;
		r = output_read(t->cli, ref, offset, end - offset < PIECE ? end - offset : PIECE, &piece, t->e);
		if (r < 0 || piece.next <= offset)
			break;
		if (piece.bytes.len)
			t->stopped = !t->fns->piece(t->fns->ctx, at_us, piece.bytes.data, piece.bytes.len, 0, 0);
	}
	buf_done(&piece.bytes);
	return r;
}

/* Ranges may overlap after a crash; each byte is passed on once. */
static int on_output(struct tape *t, struct jval event, struct jval payload)
{
	uint64_t offset = jval_uint(jval_get(payload, "offset"), 0),
		 end = offset + jval_uint(jval_get(payload, "length"), 0);
	uint64_t at_us = time_of(jval_get(event, "timestamp"), t->start.at_us),
		 from = offset > t->next ? offset : t->next;
	char ref[72];

	jval_str(jval_get(event, "outputRef"), ref, sizeof(ref));
	if (!jval_is_str(jval_get(payload, "stream"), "pty") || end <= from)
		return 0;
	t->next = end;
	return read_range(t, ref, at_us, from, end);
}

static bool on_event(void *ctx, struct jval event)
{
	struct tape *t = ctx;
	struct jval payload = jval_get(event, "payload"), type = jval_get(event, "type");

	if (jval_is_str(type, "process.started")) {
		read_size(jval_get(payload, "tty"), &t->start.rows, &t->start.cols);
		t->start.at_us = time_of(jval_get(event, "timestamp"), t->start.at_us);
		/* The size at the start is in this event; the record's may be a later one. */
		return begin_log(t);
	}
	if (!begin_log(t))
		return false;
	if (jval_is_str(type, "process.output")) {
		t->result = on_output(t, event, payload);
	} else if (jval_is_str(jval_get(payload, "kind"), "resize")) {
		unsigned rows = 0, cols = 0;

		read_size(payload, &rows, &cols);
		if (rows && cols)
			t->stopped = !t->fns->piece(t->fns->ctx, time_of(jval_get(event, "timestamp"), 0), NULL, 0,
						    rows, cols);
	}
	return t->result == 0 && !t->stopped;
}

int terminal_log_read(struct cli *c, const char *process_id, const struct terminal_log_fns *fns, struct err *e)
{
	static const char *const types[] = { "process.started", "process.output", "process.input" };
	struct tape t = { .cli = c, .fns = fns, .e = e, .start = { .rows = 24, .cols = 80 } };
	request_auto struct request q = REQUEST_INIT(q);
	buf_auto struct buf filter = BUF_INIT;
	struct jw w = jw_on(&filter);
	uint64_t sequence = 0;
	int r;

	jw_kstr(&q.w, "processId", process_id);
	if (request_read(c, &q, "get_process") < 0) {
		*e = q.e;
		return -1;
	}
	if (jval_get(q.result, "tty").type != JT_OBJECT)
		return err_set(e, ERR_STATE, "it has no terminal");
	read_size(jval_get(q.result, "tty"), &t.start.rows, &t.start.cols);
	t.start.at_us = time_of(jval_get(q.result, "startedAt"), 0);
	format_command(q.result, &t.start.command);
	jw_kstr(&w, "processId", process_id);
	jw_kstrv(&w, "types", types, sizeof(types) / sizeof(types[0]));
	r = event_stream_list(c, &filter, &sequence, on_event, &t, e);
	if (r == 0)
		(void)begin_log(&t); /* no event is kept */
	buf_done(&t.start.command);
	return r < 0 ? r : t.result;
}

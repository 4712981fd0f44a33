/*
 * A queue of items, each a range of one stream: WANTED (only cited), REQUESTED (a read_output is pending) or READY (its
 * bytes are in memory). Items are requested from the front while fewer than WINDOW bytes are pending or unwritten, and
 * written from the front. So both streams keep the order of their events, and memory is bounded by the window. Cited
 * ranges need only a few bytes, and adjacent ones of a stream are merged.
 *
 * Beyond three quarters of the output limit the daemon returns nothing until the process ends, because only then is it
 * known which bytes are kept. A stream whose read returned nothing is stalled until output_stream_flush; the other
 * stream may overtake it.
 *
 * Much output of a running process of our own is read from its spool file, of which the daemon passes a descriptor
 * (open_output): WANTED ranges of such a stream need no request. A pipe gets them with splice(2), which copies nothing.
 * The file also has bytes that no event has cited yet. They are written, too, unless both streams are written to the
 * same file, where the order of events decides; while the file grows its size is checked every few milliseconds.
 */

#include "supervisor/cli/output_stream.h"

#include "pty/sanitize.h"
#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/spool_source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOT_BASE64 "the daemon's reply is not valid base64"
#define PIECE (512u << 10) /* bytes of one read_output */
/* Enough to keep the daemon busy over several round trips. */
#define WINDOW (4u << 20)
#define ITEMS_MOST 4096 /* above this, ranges are merged at the cost of the order between streams */
#define SURE_WRITE 4096 /* a pipe that polls writable takes this much without blocking */
#define PIPE_LARGE (1 << 20)
#define CHECK_MOST_MS 64 /* a file that has not grown for twice this time is checked with the next event */

enum item_state { WANTED, REQUESTED, READY };

struct item {
	struct item *next;
	struct output_stream *flow;
	int stream;
	enum item_state state;
	uint64_t offset, length;
	struct buf data;      /* READY: the bytes; length is 0 then */
	size_t pos;           /* written so far */
	size_t reported;      /* passed to `wrote` so far */
	bool own;             /* output of our own */
	bool requested_final; /* requested after the end: an empty reply is final */
	bool made_visible;
};

struct output_stream {
	struct output_stream_options o;
	struct item *first, *last;
	size_t nitems;
	size_t under_way; /* bytes REQUESTED, or READY and not written */
	char ref[OUTPUT_STREAMS][72];
	uint64_t next[OUTPUT_STREAMS]; /* everything before is queued or written */
	uint64_t omitted[OUTPUT_STREAMS];
	bool waits[OUTPUT_STREAMS];  /* writing may block: a pipe, terminal or socket */
	bool closed[OUTPUT_STREAMS]; /* it has no reader */
	bool stalled[OUTPUT_STREAMS];
	bool final; /* the process has ended: what cannot be read now was not kept */
	struct text_stream text[OUTPUT_STREAMS];
	char carry[OUTPUT_STREAMS][4]; /* JSON: the start of a character that a piece split */
	size_t ncarry[OUTPUT_STREAMS];
	struct sanitize terminal; /* state of the sanitiser for terminal output */
	bool visible;             /* stdout is a terminal: escape control characters in our JSON lines */
	struct err failure;
	bool failed;
	struct spool_source source[OUTPUT_STREAMS];
	bool splices[OUTPUT_STREAMS]; /* our descriptor is a pipe, and the bytes are not inspected */
	bool ahead;                   /* bytes that are not cited yet may be written */
	uint64_t grown_ns;            /* when a file was opened, or found to have grown; 0 = none is open */
};

/* The same pipe, file or terminal. */
static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static void on_opened(void *ctx);

struct output_stream *output_stream_new(const struct output_stream_options *o)
{
	struct output_stream *f = mem_zalloc(1, sizeof(*f));

	f->o = *o;
	f->visible = isatty(o->fd[OUTPUT_STDOUT]);
	struct stat st[OUTPUT_STREAMS] = { 0 };
	for (int i = 0; i < OUTPUT_STREAMS; i++) {
		f->waits[i] = fstat(o->fd[i], &st[i]) < 0 || !(S_ISREG(st[i].st_mode) || S_ISBLK(st[i].st_mode));
		f->splices[i] = S_ISFIFO(st[i].st_mode) && !o->sanitize && !o->json && !o->wrote;
		f->source[i] = SPOOL_SOURCE_INIT;
		f->source[i].opened = on_opened;
		f->source[i].ctx = f;
		f->source[i].remote = o->remote;
	}
	f->ahead = !is_same_file(&st[OUTPUT_STDOUT], &st[OUTPUT_STDERR]);
	return f;
}

void output_stream_free(struct output_stream *f)
{
	if (!f)
		return;
	while (f->first) {
		struct item *it = f->first;
		f->first = it->next;
		buf_done(&it->data);
		free(it);
	}
	for (int i = 0; i < OUTPUT_STREAMS; i++)
		fd_close(&f->source[i].fd);
	free(f);
}

static const char *const names[OUTPUT_STREAMS] = {
	[OUTPUT_STDOUT] = "stdout", [OUTPUT_STDERR] = "stderr", [OUTPUT_PTY] = "pty"
};

int output_stream_of_name(struct jval name)
{
	for (int i = 0; i < OUTPUT_STREAMS; i++)
		if (jval_is_str(name, names[i]))
			return i;
	return -1;
}

const char *output_stream_name(int stream) { return names[stream]; }

void output_stream_start_at(struct output_stream *f, int stream, uint64_t offset) { f->next[stream] = offset; }

/* ---- queue ---- */

/* `before` NULL: at the front. */
static struct item *insert_after(struct output_stream *f, struct item *before, int stream, enum item_state state)
{
	struct item *it = mem_zalloc(1, sizeof(*it));

	it->flow = f;
	it->stream = stream;
	it->state = state;
	it->next = before ? before->next : f->first;
	*(before ? &before->next : &f->first) = it;
	if (f->last == before)
		f->last = it;
	f->nitems++;
	return it;
}

/* Usually the first one; items of a stalled stream may be before it. */
static void pop_item(struct output_stream *f, struct item *it)
{
	struct item **at = &f->first, *before = NULL;

	for (; *at != it; at = &before->next)
		before = *at;
	*at = it->next;
	if (f->last == it)
		f->last = before;
	f->nitems--;
	buf_done(&it->data);
	free(it);
}

/*
 * Merges with the previous range if it is adjacent. Beyond ITEMS_MOST it merges with the last WANTED range of the
 * stream, anywhere in the queue.
 */
static void add_range(struct output_stream *f, int stream, uint64_t offset, uint64_t length)
{
	struct item *it = f->last;

	if (f->nitems >= ITEMS_MOST)
		for (struct item *i = f->first; i; i = i->next)
			if (i->stream == stream && i->state == WANTED)
				it = i;
	if (it && it->stream == stream && it->state == WANTED && it->offset + it->length == offset) {
		it->length += length;
		return;
	}
	it = insert_after(f, f->last, stream, WANTED);
	it->offset = offset;
	it->length = length;
}

/* ---- reading from the daemon ---- */

static void on_piece(void *ctx, struct jval result, struct jval error);

/* A range longer than PIECE is split; the rest stays in the queue behind it. */
static void request_range(struct output_stream *f, struct item *it)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);

	if (it->length > PIECE) {
		struct item *rest = insert_after(f, it, it->stream, WANTED);
		rest->offset = it->offset + PIECE;
		rest->length = it->length - PIECE;
		it->length = PIECE;
	}
	jw_obj(&w);
	jw_kstr(&w, "outputRef", f->ref[it->stream]);
	jw_kuint(&w, "offset", it->offset);
	jw_kuint(&w, "length", it->length);
	jw_kstr(&w, "encoding", "base64");
	jw_obj_end(&w);
	it->state = REQUESTED;
	it->requested_final = f->final;
	f->under_way += it->length;
	remote_send(f->o.remote, "read_output", &params, on_piece, it);
}

/* Its first byte can be read from the spool file. */
static bool is_in_file(const struct output_stream *f, const struct item *it)
{
	const struct spool_source *s = &f->source[it->stream];

	return it->state == WANTED && s->fd >= 0 && it->offset < s->kept && !f->closed[it->stream];
}

/* Fills the window from the front of the queue. */
static void request_more(struct output_stream *f)
{
	for (struct item *it = f->first; it && f->under_way < WINDOW; it = it->next) {
		if (it->state != WANTED || is_in_file(f, it))
			continue;
		if (f->closed[it->stream] || f->failed) { /* it has no reader, or cannot be read */
			it->state = READY;
			it->length = 0;
		} else if (!f->stalled[it->stream] && !f->source[it->stream].opening) {
			request_range(f, it);
		}
	}
}

/* The next item to write: the first one that is not of a stalled stream, if its bytes are in memory or in the file. */
static struct item *next_ready(const struct output_stream *f)
{
	struct item *it = f->first;

	while (it && it->state == WANTED && f->stalled[it->stream] && !is_in_file(f, it))
		it = it->next;
	return it && (it->state == READY || is_in_file(f, it)) ? it : NULL;
}

/* −1: not base64. */
static int decode_bytes(struct jval data, struct jval encoding, struct buf *out)
{
	if (jval_is_str(encoding, "utf8")) {
		jval_str_buf(data, out);
		return 0;
	}
	/* bailiff's base64 has no escapes, so it can be decoded in place. */
	if (data.type == JT_STRING && data.len >= 2 && !memchr(data.text, '\\', data.len))
		return text_base64_decode(data.text + 1, data.len - 2, out);
	buf_auto struct buf plain = BUF_INIT;
	jval_str_buf(data, &plain);
	return text_base64_decode(buf_cstr(&plain), plain.len, out);
}

int output_read(struct cli *c, const char *output_ref, uint64_t offset, uint64_t length, struct output_piece *ret,
		struct err *e)
{
	request_auto struct request q = REQUEST_INIT(q);

	jw_kstr(&q.w, "outputRef", output_ref);
	jw_kuint(&q.w, "offset", offset);
	jw_kuint(&q.w, "length", length);
	jw_kstr(&q.w, "encoding", "base64");
	buf_reset(&ret->bytes);
	if (request_read(c, &q, "read_output") < 0) {
		*e = q.e;
		return -1;
	}
	if (decode_bytes(jval_get(q.result, "data"), jval_get(q.result, "encoding"), &ret->bytes) < 0)
		return err_set(e, ERR_INTERNAL, NOT_BASE64);
	ret->next = jval_uint(jval_get(q.result, "nextOffset"), offset);
	/* A daemon that reports more without progress must not make the caller loop. */
	ret->eof = jval_bool(jval_get(q.result, "eof"), true) || ret->next <= offset;
	return 0;
}

/* The first error is kept; later ones are its consequences. */
static void fail_stream(struct output_stream *f, const struct err *e)
{
	if (!f->failed)
		f->failure = *e;
	f->failed = true;
}

/* The reply may be short, or skip bytes that were not kept. */
static void store_piece(struct output_stream *f, struct item *it, struct jval result)
{
	struct jval data = { 0 }, encoding = { 0 };
	uint64_t offset = it->offset, next = 0, end = it->offset + it->length;
	struct err e = ERR_INIT;

	for (struct jiter m = jiter_on(result); jiter_next(&m);) {
		if (jval_is_str(m.key, "data"))
			data = m.value;
		else if (jval_is_str(m.key, "encoding"))
			encoding = m.value;
		else if (jval_is_str(m.key, "offset"))
			offset = jval_uint(m.value, offset);
		else if (jval_is_str(m.key, "nextOffset"))
			next = jval_uint(m.value, 0);
	}
	if (decode_bytes(data, encoding, &it->data) < 0 || offset < it->offset || next > UINT64_MAX / 2) {
		err_set(&e, ERR_INTERNAL, NOT_BASE64);
		fail_stream(f, &e);
		return;
	}
	/* Never more than was asked for: the bytes after it belong to the next item. */
	if (offset + it->data.len > end)
		it->data.len = offset < end ? (size_t)(end - offset) : 0;
	if (next < offset + it->data.len)
		next = offset + it->data.len;
	/* Nothing yet. If the process ended after this was requested, the item is simply requested again. */
	if (next <= it->offset && !it->requested_final) {
		f->stalled[it->stream] = !f->final;
		it->state = WANTED;
		return;
	}
	if (next <= it->offset || next > end)
		next = end;
	f->omitted[it->stream] += next - it->offset - it->data.len;
	if (next < end) {
		struct item *rest = insert_after(f, it, it->stream, WANTED);
		rest->offset = next;
		rest->length = end - next;
	}
}

/* The reply to one read_output, in any order: each item knows its place in the queue. */
static void on_piece(void *ctx, struct jval result, struct jval error)
{
	struct item *it = ctx;
	struct output_stream *f = it->flow;
	struct err e = ERR_INIT;

	f->under_way -= it->length;
	it->state = READY;
	if (error.type == JT_NONE) {
		store_piece(f, it, result);
	} else {
		remote_error(error, &e);
		err_wrap(&e, "read %s", names[it->stream]);
		fail_stream(f, &e);
	}
	if (it->state == READY) {
		it->length = 0;
		f->under_way += it->data.len;
	}
	request_more(f);
}

/* ---- the spool file ---- */

static void cite_upto(struct output_stream *f, int stream, uint64_t end)
{
	if (end <= f->next[stream])
		return;
	add_range(f, stream, f->next[stream], end - f->next[stream]);
	f->next[stream] = end;
	request_more(f);
}

/* Larger pipes mean fewer wakeups of the reader and of us. The kernel may refuse. */
static void on_opened(void *ctx)
{
	struct output_stream *f = ctx;

	for (int i = 0; i < OUTPUT_PTY; i++)
		if (f->splices[i] && f->source[i].fd >= 0)
			fcntl(f->o.fd[i], F_SETPIPE_SZ, PIPE_LARGE);
	f->grown_ns = clock_mono_ns();
	request_more(f);
}

/* Cites what the files have beyond the events. */
static void read_ahead(struct output_stream *f)
{
	bool grown = false;

	for (int i = 0; i < OUTPUT_PTY && f->ahead && !f->final; i++) {
		uint64_t end = f->closed[i] ? 0 : spool_source_end(&f->source[i]);

		grown |= end > f->next[i];
		cite_upto(f, i, end);
	}
	if (grown)
		f->grown_ns = clock_mono_ns();
}

/* The rest stays in the queue behind it. */
static void load_item(struct output_stream *f, struct item *it, uint64_t n)
{
	if (it->length > n) {
		struct item *rest = insert_after(f, it, it->stream, WANTED);
		rest->offset = it->offset + n;
		rest->length = it->length - n;
	}
	it->length = 0;
	it->state = READY;
	f->under_way += (size_t)n;
}

/* 1: would block, or enough for one turn; −1: no reader. Otherwise it is written, READY, or no longer in the file. */
static int write_from_file(struct output_stream *f, struct item *it)
{
	int to = f->splices[it->stream] ? f->o.fd[it->stream] : -1;

	for (size_t copied = 0; it->length && is_in_file(f, it);) {
		uint64_t most = it->length < PIECE ? it->length : PIECE;
		ssize_t n = copied < WINDOW ? spool_source_copy(&f->source[it->stream], it->offset, most, to, &it->data)
					    : 0;

		if (n == 0 || (n < 0 && errno == EAGAIN))
			return 1;
		if (n < 0 && errno == EPIPE)
			return -1;
		if (n < 0)
			continue;
		if (to < 0) {
			load_item(f, it, (uint64_t)n);
			return 0;
		}
		it->offset += (uint64_t)n;
		it->length -= (uint64_t)n;
		copied += (size_t)n;
	}
	return 0;
}

/* ---- ranges to show ---- */

static void output_stream_upto(struct output_stream *f, int stream, const char *output_ref, uint64_t end)
{
	if (f->o.fd[stream] < 0 || f->closed[stream])
		return;
	snprintf(f->ref[stream], sizeof(f->ref[stream]), "%s", output_ref);
	cite_upto(f, stream, end);
}

void output_stream_outputs(struct output_stream *f, struct jval outputs)
{
	for (struct jiter it = jiter_on(outputs); jiter_next(&it);) {
		int stream = output_stream_of_name(it.key);
		char ref[72];

		jval_str(jval_get(it.value, "outputRef"), ref, sizeof(ref));
		if (stream >= 0 && ref[0])
			output_stream_upto(f, stream, ref, jval_uint(jval_get(it.value, "bytes"), 0));
	}
}

/* Short output comes with the event itself, which saves a request. */
void output_stream_event(struct output_stream *f, struct jval event)
{
	struct jval payload = jval_get(event, "payload");
	int stream = output_stream_of_name(jval_get(payload, "stream"));
	uint64_t offset = jval_uint(jval_get(payload, "offset"), 0), length = jval_uint(jval_get(payload, "length"), 0);
	char ref[72];

	if (stream < 0 || f->o.fd[stream] < 0 || !jval_is_str(jval_get(event, "type"), "process.output"))
		return;
	jval_str(jval_get(event, "outputRef"), ref, sizeof(ref));
	if (offset == f->next[stream] && f->under_way < WINDOW) {
		buf_auto struct buf bytes = BUF_INIT;
		uint64_t n = jval_uint(jval_get(payload, "previewBytes"), 0);

		/*
		 * A partial preview is used only at offset 0: the beginning is always kept, whereas later ranges may
		 * still be omitted.
		 */
		if (n && (n == length || (offset == 0 && n < length)) &&
		    decode_bytes(jval_get(payload, "preview"), jval_get(payload, "encoding"), &bytes) == 0 &&
		    bytes.len == n) {
			struct item *it = insert_after(f, f->last, stream, READY);

			it->data = bytes;
			bytes = BUF_INIT;
			f->under_way += it->data.len;
			f->next[stream] = offset + n;
		}
	}
	if (offset + length > f->next[stream] && f->o.process_id && stream != OUTPUT_PTY)
		spool_source_open(&f->source[stream], f->o.process_id, names[stream]);
	output_stream_upto(f, stream, ref, offset + length);
}

void output_stream_bytes(struct output_stream *f, const char *bytes, size_t n)
{
	struct item *it = f->last;

	if (!it || !it->own || it->pos || it->data.len > SURE_WRITE) {
		it = insert_after(f, f->last, OUTPUT_STDOUT, READY);
		it->own = true;
	}
	buf_append(&it->data, bytes, n);
	f->under_way += n;
}

void output_stream_line(struct output_stream *f, const char *text, size_t len)
{
	buf_auto struct buf visible = BUF_INIT;

	if (f->visible)
		text_json_visible(text, len, &visible);
	output_stream_bytes(f, f->visible ? buf_cstr(&visible) : text, f->visible ? visible.len : len);
	output_stream_bytes(f, "\n", 1);
}

/* ---- writing ---- */

/*
 * Sanitises an item's bytes for a terminal, or makes them JSON; an incomplete character is carried over to the next
 * item.
 */
static void make_visible(struct output_stream *f, struct item *it)
{
	struct buf whole = BUF_INIT, shown = BUF_INIT;
	int s = it->stream;
	size_t cut;

	if (s == OUTPUT_PTY && !f->o.json) {
		sanitize_feed(&f->terminal, buf_cstr(&it->data), it->data.len, &shown);
	} else if (!f->o.json) {
		text_stream_feed(&f->text[s], it->data.data, it->data.len, &shown);
	} else {
		buf_append(&whole, f->carry[s], f->ncarry[s]);
		buf_append(&whole, it->data.data, it->data.len);
		cut = text_utf8_cut(buf_cstr(&whole), whole.len);
		f->ncarry[s] = whole.len - cut;
		if (f->ncarry[s])
			memcpy(f->carry[s], whole.data + cut, f->ncarry[s]);
		format_output_line(output_stream_name(s), buf_cstr(&whole), cut, &shown);
	}
	f->under_way = f->under_way - it->data.len + shown.len;
	buf_done(&whole);
	buf_done(&it->data);
	it->data = shown;
	it->made_visible = true;
}

static bool is_writable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return poll(&p, 1, 0) > 0;
}

/* 1: would block; −1: no reader. */
static int write_item(struct output_stream *f, struct item *it)
{
	int fd = f->o.fd[it->stream];

	while (it->pos < it->data.len) {
		size_t n = it->data.len - it->pos;
		ssize_t w;

		if (f->waits[it->stream]) {
			if (!is_writable(fd))
				return 1;
			if (n > SURE_WRITE)
				n = SURE_WRITE;
		}
		/* Before the write and only once for each byte, although a partial write repeats the range. */
		if (f->o.wrote && it->reported < it->pos + n) {
			f->o.wrote(f->o.ctx, it->data.data + it->reported, it->pos + n - it->reported);
			it->reported = it->pos + n;
		}
		w = write(fd, it->data.data + it->pos, n);
		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && errno == EAGAIN)
			return 1;
		if (w < 0)
			return -1;
		it->pos += (size_t)w;
	}
	return 0;
}

void output_stream_flush(struct output_stream *f)
{
	f->final = true;
	for (int s = 0; s < OUTPUT_STREAMS; s++)
		f->stalled[s] = false;
	request_more(f);
}

/* At the end: shows the incomplete characters, which will not be completed. */
static bool show_carry(struct output_stream *f)
{
	bool any = false;

	for (int s = 0; s < OUTPUT_STREAMS; s++) {
		if (!f->ncarry[s] && !text_stream_waits(s == OUTPUT_PTY ? &f->terminal.text : &f->text[s]))
			continue;
		struct item *it = insert_after(f, f->last, s, READY);
		if (f->o.json)
			format_output_line(output_stream_name(s), f->carry[s], f->ncarry[s], &it->data);
		else
			text_stream_end(s == OUTPUT_PTY ? &f->terminal.text : &f->text[s], &it->data);
		it->made_visible = true;
		f->under_way += it->data.len;
		f->ncarry[s] = 0;
		any = true;
	}
	return any;
}

int output_stream_write(struct output_stream *f, struct err *e)
{
	struct item *it;

	read_ahead(f);
	while ((it = next_ready(f)) || (!f->first && f->final && show_carry(f))) {
		int r = 0;

		if (!it)
			continue;
		if (it->state == WANTED)
			r = write_from_file(f, it);
		if (r == 0 && it->state == WANTED && it->length) {
			request_more(f);
			continue;
		}
		if ((f->o.sanitize || f->o.json) && !it->own && !it->made_visible)
			make_visible(f, it);
		if (r == 0 && !f->closed[it->stream])
			r = write_item(f, it);
		if (r > 0)
			return 0;
		if (r < 0) {
			int why = errno;

			f->closed[it->stream] = true;
			request_more(f); /* items behind it are no longer requested */
			/*
			 * A closed stderr does not end the command's output; a closed stdout is reported to the caller,
			 * which can stop, as in a pipeline with head.
			 */
			if (it->stream != OUTPUT_STDERR)
				return err_sys(e, why, "write to stdout");
		}
		f->under_way -= it->data.len;
		pop_item(f, it);
		request_more(f);
	}
	return 0;
}

int output_stream_fd(const struct output_stream *f)
{
	const struct item *it = next_ready(f);

	return it ? f->o.fd[it->stream] : -1;
}

bool output_stream_closed(const struct output_stream *f, int stream) { return f->closed[stream]; }

/* As long again as the files have not grown: by the clock, because each write checks them, too. */
int output_stream_timeout(const struct output_stream *f)
{
	const uint64_t idle_ms = (clock_mono_ns() - f->grown_ns) / 1000000;
	if (f->final || next_ready(f) || idle_ms >= 2 * CHECK_MOST_MS)
		return -1;
	return idle_ms < 1 ? 1 : idle_ms < CHECK_MOST_MS ? (int)idle_ms : CHECK_MOST_MS;
}

bool output_stream_done(const struct output_stream *f)
{
	return f->first == NULL && !f->source[OUTPUT_STDOUT].opening && !f->source[OUTPUT_STDERR].opening;
}

size_t output_stream_buffered(const struct output_stream *f) { return f->under_way; }

const struct err *output_stream_failed(const struct output_stream *f) { return f->failed ? &f->failure : NULL; }

void output_stream_print_omitted(const struct output_stream *f)
{
	for (int i = 0; i < OUTPUT_STREAMS; i++)
		if (f->omitted[i])
			cli_error("%llu bytes of %s were omitted (output limit)", (unsigned long long)f->omitted[i],
				  names[i]);
}

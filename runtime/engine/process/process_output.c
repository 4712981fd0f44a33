/*
 * Facts about output. The bytes are already in the spool (the kernel moved them there); process.output events cite
 * them, each with the range received since the last one and a preview of its beginning. The first event after a quiet
 * period is submitted immediately, then at most one every 50 ms or 16 MiB for each process. Interactive terminals need
 * lower latency: the first output after input is submitted immediately and committed without waiting for other batches,
 * and for a quarter of a second the interval is a few milliseconds.
 *
 * A stream within the inline limit is stored whole in the database, and its spool file is removed at the end. Beyond
 * the limit it is *spilled*: from then on the cited bytes are synced and checksummed before the event commits.
 */

#include "runtime/engine/core/core.h"

#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/process/process.h"
#include "runtime/store/spool.h"

static const char *const stream_names[STREAM_COUNT] = { "stdout", "stderr", "pty" };

const char *stream_name(int stream) { return stream_names[stream]; }

int stream_index(struct jval name)
{
	for (int i = 0; i < STREAM_COUNT; i++)
		if (jval_is_str(name, stream_names[i]))
			return i;
	return -1;
}

static bool much_is_uncited(const struct process *p)
{
	uint64_t bytes = 0;

	for (int i = 0; i < STREAM_COUNT; i++)
		bytes += p->streams[i].size - p->streams[i].cited;
	return bytes >= PROCESS_FLUSH_BYTES;
}

void process_output_due(struct process *p)
{
	uint64_t now = engine_now(p->engine);
	uint64_t pause_ms = p->typed || much_is_uncited(p) ? 0
			    : now < p->typed_until_ns      ? PROCESS_FLUSH_TYPED_MS
							   : PROCESS_FLUSH_MS;
	uint64_t earliest = p->last_flush_ns + pause_ms * 1000000ull;
	uint64_t at = now >= earliest ? now : earliest;

	/* An event is already due by then; it will include these bytes. */
	if (p->flush_at_ns <= at)
		return;
	p->flush_at_ns = at;
	engine_wake(p->engine, p->flush_at_ns);
}

static uint64_t output_limit(const struct process *p)
{
	return p->limits.output_bytes == LIMIT_NONE ? 0 : p->limits.output_bytes;
}

uint64_t process_output_kept(const struct process *p, uint64_t size)
{
	uint64_t limit = output_limit(p);

	return limit && size > spool_head(limit) ? spool_head(limit) : size;
}

/* Whether a stream of `size` bytes is stored in the spool instead of the database. */
static bool output_spills(const struct process *p, uint64_t size)
{
	return size > p->engine->o.inline_bytes || (output_limit(p) && size > output_limit(p));
}

static void write_preview(struct jw *w, const void *bytes, size_t n)
{
	const char *p = bytes;
	size_t cut = text_utf8_cut(p, n);
	bool text = n - cut < 4 && text_utf8_valid(p, cut) && !memchr(p, 0, cut);

	if (text) {
		jw_kstrn(w, "preview", p, cut);
		jw_kstr(w, "encoding", "utf8");
		jw_kuint(w, "previewBytes", cut);
	} else {
		jw_key(w, "preview");
		jw_base64(w, p, n);
		jw_kstr(w, "encoding", "base64");
		jw_kuint(w, "previewBytes", n);
	}
}

/*
 * Why a stream is not stored in the database, or NULL: then `ret` has all its bytes. Bytes that cannot be read just now
 * stay in the spool, where the commit that cites them reads them or fails.
 */
static const char *spill_reason(struct process *p, int stream, struct buf *ret)
{
	struct process_stream *s = &p->streams[stream];
	struct engine *engine = p->engine;

	if (output_spills(p, s->size))
		return s->size > engine->o.inline_bytes ? "inline_limit" : "output_limit";
	ssize_t n = engine->o.ports->peek_output(engine->o.host, p->id, stream, 0, buf_reserve(ret, s->size + 1),
						 s->size);
	if (n < 0)
		return "unreadable";
	ret->len += (size_t)n;
	return NULL;
}

/*
 * Makes the bytes that the events of this batch cite durable with it. `whole` is a stream that is not spilled: it is
 * stored again with each event, which the inline limit keeps cheap.
 */
static void stream_secure(struct process *p, int stream, const struct buf *whole, struct transaction *tx)
{
	struct process_stream *s = &p->streams[stream];
	struct engine *engine = p->engine;

	if (!s->spilled) {
		if (whole->len)
			transaction_add_output(tx, s->ref, whole->data, whole->len);
		return;
	}
	/*
	 * Only the kept beginning is final. The kept end moves as long as output arrives; process_truncated_facts
	 * checksums it once, at the end.
	 */
	uint64_t upto = process_output_kept(p, s->size);
	int fd = engine->o.ports->output_fd(engine->o.host, p->id, stream);
	if (upto > s->summed && fd >= 0) {
		transaction_add_spool(tx, s->ref, fd, s->summed, upto - s->summed);
		s->summed = upto;
	}
}

/* One process.output for what the stream has beyond the last event. Its first part is shown in the event. */
static void output_fact(struct process *p, int stream, struct transaction *tx)
{
	struct process_stream *s = &p->streams[stream];
	struct engine *engine = p->engine;
	const uint32_t inline_max = engine->o.inline_bytes;
	struct scope scope = process_scope(p);
	uint64_t want = s->size - s->cited, from, to;
	buf_auto struct buf whole = BUF_INIT;
	const char *reason = s->spilled ? NULL : spill_reason(p, stream, &whole);

	/* A preview cannot show bytes that were dropped because of the output limit. */
	spool_hole(s->size, output_limit(p), &from, &to);
	if (to > from && s->cited < to && s->cited + want > from)
		want = s->cited < from ? from - s->cited : 0;
	want = want < inline_max ? want : inline_max;
	mem_auto char *bytes = mem_alloc(want + 1);
	/* If the bytes cannot be read, the event still cites the range, with an empty preview. */
	ssize_t n = engine->o.ports->peek_output(engine->o.host, p->id, stream, s->cited, bytes, want);

	scope.output = s->ref;
	if (reason) {
		s->spilled = true;
		EMIT(output_spilled, tx, scope, .outputRef = s->ref, .stream = stream_name(stream), .bytes = s->size,
		     .limit = strcmp(reason, "output_limit") == 0 ? output_limit(p) : inline_max, .reason = reason,
		     .owner = JSON_OBJECT(output_owner, .processId = p->id), .mediaType = "application/octet-stream",
		     .encoding = "binary");
		transaction_add_output(tx, s->ref, NULL, 0); /* removes what was stored inline */
	}
	EMIT(process_output, tx, scope, .stream = stream_name(stream), .offset = s->cited, .length = s->size - s->cited,
	     .shown = json_from_writer(write_preview, bytes, n > 0 ? (size_t)n : 0));
	stream_secure(p, stream, &whole, tx);
	s->cited = s->size;
}

int process_output_flush(struct process *p, struct transaction *tx)
{
	int added = 0;

	for (int i = 0; i < STREAM_COUNT; i++)
		if (p->streams[i].ref[0] && p->streams[i].size > p->streams[i].cited) {
			output_fact(p, i, tx);
			added++;
		}
	if (added > 0 && p->owner && process_owner(p->engine, p->owner)->output)
		process_owner(p->engine, p->owner)->output(p, tx);
	return added;
}

void process_output_submit(struct process *p)
{
	struct transaction *tx = transaction_new_internal(p->engine);

	p->flush_at_ns = UINT64_MAX;
	p->last_flush_ns = engine_now(p->engine);
	/*
	 * STORE_MUST: the bytes are in the spool in any case, so a full disk delays the event instead of dropping it.
	 */
	if (process_output_flush(p, tx) > 0) {
		bool watched = p->typed || p->last_flush_ns < p->typed_until_ns;
		p->typed = false;
		transaction_commit_then(tx, STORE_MUST | (watched ? STORE_NOW : 0), NULL, NULL);
	} else {
		transaction_free(tx);
	}
}

/* Their bytes are in the database, so the host deletes the spool files when it releases the process. */
unsigned process_unspilled(const struct process *p)
{
	unsigned bits = 0;

	for (int i = 0; i < STREAM_COUNT; i++)
		if (p->streams[i].ref[0] && !p->streams[i].spilled)
			bits |= 1u << i;
	return bits;
}

void process_outputs_json(const struct process *p, struct jw *w)
{
	jw_obj(w);
	for (int i = 0; i < STREAM_COUNT; i++) {
		const struct process_stream *s = &p->streams[i];
		uint64_t from = 0, to = 0;
		if (!s->ref[0])
			continue;
		spool_hole(s->size, output_limit(p), &from, &to);
		jw_kobj(w, stream_name(i));
		jw_kstr(w, "outputRef", s->ref);
		jw_kuint(w, "bytes", s->size);
		jw_kbool(w, "truncated", to > from);
		if (to > from) {
			jw_kuint(w, "omittedBytes", to - from);
			jw_kuint(w, "omittedFrom", from);
			jw_kuint(w, "omittedTo", to);
		}
		jw_obj_end(w);
	}
	jw_obj_end(w);
}

void process_stream_names(const struct process *p, struct jw *w)
{
	jw_arr(w);
	for (int i = 0; i < STREAM_COUNT; i++) {
		if (!p->streams[i].ref[0])
			continue;
		jw_obj(w);
		jw_kstr(w, "outputRef", p->streams[i].ref);
		jw_kstr(w, "stream", stream_name(i));
		jw_kuint(w, "bytes", p->streams[i].size);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

static void write_stream_names(struct jw *w, const void *process, size_t n) { process_stream_names(process, w); }

struct json_value json_stream_names(const struct process *p) { return json_from_writer(write_stream_names, p, 0); }

/*
 * The steps of a wait, each a request whose reply starts the next: wait_process in slices, with a progress message
 * after each (which reads the last line of the output), until the command has ended or the time is over; then
 * get_process, the planned excerpts of each stream, the number of changes of a copy-on-write run, and the report.
 *
 * The offsets that the client has seen are stored only when the report is complete. If the call is cancelled in
 * between, the next report shows that output again instead of skipping it.
 */

#include "supervisor/gateway/mcp/mcp_wait_process.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/gateway/mcp/mcp_client_state.h"
#include "supervisor/gateway/mcp/mcp_report.h"
#include "supervisor/gateway/mcp/mcp_session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BEAT_FIRST_MS 1000 /* until the first progress message */
#define BEAT_MS 5000
#define LINE_MAX_BYTES 160
#define LINE_READ 512

/* The state of one wait, in the call's `data`; cancelling the call frees it (follow_free). */
struct follow {
	char process_id[72];
	char *note;
	uint64_t began_ns, wait_ms;
	size_t budget;
	bool patient, ended_is_fine, from_start, beaten;
	json_t *process;
	struct excerpt streams[MCP_REPORT_STREAMS];
	size_t nstreams, at;     /* at: index of the stream being read */
	bool reads_last;         /* its tail is being read */
	int64_t changes;         /* as in struct mcp_report */
	uint64_t reported_bytes; /* total at the last progress message */
	void (*then)(struct mcp_call *c, json_t *report, void *with);
	void *with;
	void (*with_free)(void *with);
};

static void wait_on(struct mcp_call *c);
static void read_next(struct mcp_call *c);

static void follow_free(void *data)
{
	struct follow *f = data;

	for (size_t i = 0; i < f->nstreams; i++)
		excerpt_done(&f->streams[i]);
	json_decref(f->process);
	if (f->with_free)
		f->with_free(f->with);
	free(f->note);
	free(f);
}

static uint64_t elapsed_ms(const struct follow *f) { return (clock_boot_ns() - f->began_ns) / 1000000; }

/* A call may become a task while it waits, which removes the limit. */
static uint64_t left_ms(const struct mcp_call *c)
{
	const struct follow *f = c->data;
	uint64_t gone = elapsed_ms(f);

	if (f->patient && mcp_call_is_task(c))
		return UINT64_MAX;
	return f->wait_ms > gone ? f->wait_ms - gone : 0;
}

/* ---- end ---- */

static void fail_wait(struct mcp_call *c, const char *what, const json_t *error)
{
	struct follow *f = c->data;

	if (f->then)
		f->then(c, NULL, f->with);
	else
		mcp_call_daemon_error(c, what, error);
}

/* Stores the offsets shown, so that the client's next report continues there. */
static void report_process(struct mcp_call *c)
{
	struct follow *f = c->data;
	struct mcp_client_state *memory = mcp_session_client_state(c->mcp);
	struct mcp_report r = {
		.process = f->process,
		.streams = f->streams,
		.nstreams = f->nstreams,
		.note = f->note,
		.changes = f->changes,
		.ended_is_fine = f->ended_is_fine,
	};

	for (size_t i = 0; i < f->nstreams; i++)
		mcp_client_state_set_offset(memory, f->process_id, f->streams[i].stream, excerpt_end(&f->streams[i]));
	if (!mcp_report_has_ended(f->process))
		mcp_call_remove_process(c, f->process_id); /* it continues after this call */
	if (f->then)
		f->then(c, mcp_report_result(&r), f->with);
	else
		mcp_call_finish(c, mcp_report_result(&r));
}

static void on_changes(struct mcp_call *c, json_t *result, json_t *error)
{
	struct follow *f = c->data;
	const json_t *total = json_object_get(result, "total");

	f->changes = error || !json_is_integer(total) ? -1 : json_integer_value(total);
	report_process(c);
}

/* Counts the changes of a copy-on-write run, to report whether there is anything to review. */
static void count_changes(struct mcp_call *c)
{
	struct follow *f = c->data;

	f->changes = -1;
	if (!json_get_flag(f->process, "cow") || !mcp_report_has_ended(f->process))
		return report_process(c);
	mcp_call_query(c, "list_changes", json_pack("{ss}", "processId", f->process_id), on_changes);
}

static void on_read(struct mcp_call *c, json_t *result, json_t *error)
{
	struct follow *f = c->data;
	struct excerpt *x = &f->streams[f->at];
	const json_t *data = json_object_get(result, "data");

	/* Bytes that retention has removed meanwhile count as omitted. */
	if (!error)
		(void)text_base64_decode(json_string_value(data), json_string_length(data),
					 f->reads_last ? &x->last : &x->first);
	if (!f->reads_last && x->tail) {
		f->reads_last = true;
	} else {
		f->reads_last = false;
		f->at++;
	}
	read_next(c);
}

/* Reads the excerpts one after another: first the head, then the tail, of each stream. */
static void read_next(struct mcp_call *c)
{
	struct follow *f = c->data;

	while (f->at < f->nstreams && !f->reads_last && !f->streams[f->at].head && !f->streams[f->at].tail)
		f->at++;
	if (f->at == f->nstreams)
		return count_changes(c);
	const struct excerpt *x = &f->streams[f->at];
	uint64_t offset = f->reads_last ? x->total - x->tail : x->from;
	mcp_call_read_output(c, x->ref, offset, f->reads_last ? x->tail : x->head, on_read);
}

static void add_stream(struct mcp_call *c, const char *name, const json_t *output)
{
	struct follow *f = c->data;
	struct excerpt *x = &f->streams[f->nstreams];
	const char *ref = json_get_string(output, "outputRef");

	if (f->nstreams == MCP_REPORT_STREAMS || !ref)
		return;
	f->nstreams++;
	snprintf(x->stream, sizeof(x->stream), "%s", name);
	snprintf(x->ref, sizeof(x->ref), "%s", ref);
	x->total = (uint64_t)json_integer_value(json_object_get(output, "bytes"));
	x->from = f->from_start ? 0 : mcp_client_state_offset(mcp_session_client_state(c->mcp), f->process_id, name);
	if (x->from > x->total)
		x->from = x->total;
}

static void on_process(struct mcp_call *c, json_t *result, json_t *error)
{
	struct follow *f = c->data;
	const json_t *output;
	const char *name;

	if (error)
		return fail_wait(c, "get the process", error);
	f->process = json_incref(result);
	json_object_foreach (json_object_get(result, "outputs"), name, output)
		add_stream(c, name, output);
	for (size_t i = 0; i < f->nstreams; i++)
		f->streams[i].open = !mcp_report_has_ended(result);
	excerpt_plan(f->streams, f->nstreams, f->budget);
	read_next(c);
}

/* ---- waiting ---- */

static void on_line(struct mcp_call *c, json_t *result, json_t *error)
{
	const json_t *data = json_object_get(result, "data");
	buf_auto struct buf bytes = BUF_INIT, message = BUF_INIT, line = BUF_INIT;
	struct follow *f = c->data;
	char size[16], time[16];

	if (!error)
		(void)text_base64_decode(json_string_value(data), json_string_length(data), &bytes);
	excerpt_last_line(buf_cstr(&bytes), bytes.len, LINE_MAX_BYTES, &line);
	text_format_size(f->reported_bytes, size);
	text_format_duration(elapsed_ms(f), time);
	buf_printf(&message, "running for %s, %s printed%s%s", time, size, line.len ? ": " : "", buf_cstr(&line));
	mcp_call_progress(c, -1, -1, message.data);
	wait_on(c);
}

/* Progress quotes the stream with the most output. */
static void send_progress(struct mcp_call *c, const json_t *waited)
{
	struct follow *f = c->data;
	const json_t *output, *quoted = NULL;
	json_int_t most = 0;
	const char *name;
	char time[16], message[64];

	json_object_foreach (json_object_get(waited, "outputs"), name, output) {
		json_int_t bytes = json_integer_value(json_object_get(output, "bytes"));

		if (bytes > most) {
			most = bytes;
			quoted = output;
		}
	}
	f->reported_bytes = (uint64_t)most;
	if (quoted)
		return mcp_call_query(c, "read_output",
				      json_pack("{sO sI si ss}", "outputRef", json_object_get(quoted, "outputRef"),
						"offset", most > LINE_READ ? most - LINE_READ : 0, "length", LINE_READ,
						"encoding", "base64"),
				      on_line);
	text_format_duration(elapsed_ms(f), time);
	snprintf(message, sizeof(message), "%s for %s, nothing printed",
		 strcmp(json_get_string(waited, "status") ?: "", "waiting_permission") == 0 ? "waiting for permission"
											    : "running",
		 time);
	mcp_call_progress(c, -1, -1, message);
	wait_on(c);
}

/* wait_process is called in slices, so that progress can be sent in between. */
static void on_waited(struct mcp_call *c, json_t *result, json_t *error)
{
	if (error)
		fail_wait(c, "wait for the process", error);
	else if (json_get_flag(result, "timedOut") && left_ms(c) > 0)
		send_progress(c, result);
	else {
		struct follow *f = c->data;

		mcp_call_get_process(c, f->process_id, on_process);
	}
}

static void wait_on(struct mcp_call *c)
{
	struct follow *f = c->data;
	uint64_t left = left_ms(c), slice = f->beaten ? BEAT_MS : BEAT_FIRST_MS;

	f->beaten = true;
	mcp_call_query(c, "wait_process",
		       json_pack("{ss ss sI}", "processId", f->process_id, "until", "command", "timeoutMs",
				 (json_int_t)(left < slice ? left : slice)),
		       on_waited);
}

void mcp_wait_process(struct mcp_call *c, const struct mcp_wait_process_options *o)
{
	struct follow *f = mem_zalloc(1, sizeof(*f));

	snprintf(f->process_id, sizeof(f->process_id), "%s", o->process_id);
	f->note = mem_strdup(o->note);
	f->began_ns = clock_boot_ns();
	f->wait_ms = o->wait_ms;
	f->budget = o->budget;
	f->patient = o->patient;
	f->ended_is_fine = o->ended_is_fine;
	f->from_start = o->from_start;
	f->then = o->then;
	f->with = o->with;
	f->with_free = o->with_free;
	/* Another tool's state, which it no longer needs: this ends the call. */
	if (c->data_free)
		c->data_free(c->data);
	c->data = f;
	c->data_free = follow_free;
	wait_on(c);
}

size_t mcp_wait_process_budget(const struct mcp_call *c)
{
	return (size_t)mcp_wait_process_number(c, "maxOutputBytes", MCP_WAIT_PROCESS_BUDGET);
}

uint64_t mcp_wait_process_number(const struct mcp_call *c, const char *name, uint64_t otherwise)
{
	const json_t *v = json_object_get(c->arguments, name);

	return v ? (uint64_t)json_integer_value(v) : otherwise;
}

/*
 * `logs`: the recorded output of a process, and with -f what it prints until it ends. The events say which ranges of
 * which stream were printed and in which order; output_stream.c reads and writes them. --tail finds out first where to
 * start in each stream.
 */

#include "supervisor/cli/event_stream.h"
#include "supervisor/cli/exit_status.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/output_stream.h"
#include "supervisor/cli/process_logs.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define TAIL_PIECE (64u << 10)

struct logs {
	struct cli *cli;
	struct process_logs how;
	struct output_stream *flow;
	struct buf filter; /* members that select this process's output and end events */
	struct event_stream feed;
	int fd[OUTPUT_STREAMS]; /* where each stream is written; −1: nowhere */
	bool ended;
	int status; /* > 0: exit with this */
};

/* ---- --tail ---- */

/*
 * The offset at which the last `lines` lines start: pieces are read backwards from the end, and newlines counted over
 * all of them. A newline at the very end belongs to the last line.
 */
static int tail_start(struct cli *c, const char *ref, uint64_t size, uint64_t lines, uint64_t *ret, struct err *e)
{
	struct output_piece piece = { 0 };
	uint64_t end = size, seen = 0;
	int r = 0;

	*ret = size;
	while (lines && end > 0 && seen < lines) {
		uint64_t from = end > TAIL_PIECE ? end - TAIL_PIECE : 0;

		r = output_read(c, ref, from, end - from, &piece, e);
		if (r < 0 || piece.bytes.len < end - from)
			break; /* bytes before `end` were omitted: the tail starts after the gap */
		*ret = from;
		for (size_t i = piece.bytes.len; i-- > 0 && seen < lines;)
			if (piece.bytes.data[i] == '\n' && from + i + 1 != size && ++seen == lines)
				*ret = from + i + 1;
		end = from;
	}
	buf_done(&piece.bytes);
	return r;
}

/* ---- output ---- */

/* The end of the process flushes what is buffered: nothing more can come. */
static void on_event(void *ctx, struct jval event)
{
	struct logs *l = ctx;
	struct exit_status ignored;

	output_stream_event(l->flow, event);
	if (exit_status_of_event(event, &ignored)) {
		l->ended = true;
		output_stream_outputs(l->flow, jval_path(event, "payload.outputs"));
		output_stream_flush(l->flow);
	}
}

static bool on_listed(void *ctx, struct jval event)
{
	on_event(ctx, event);
	return true;
}

/* Runs until everything is written and, with `follow`, the process has ended. */
static void pump_output(struct logs *l, bool follow)
{
	struct remote *r = l->cli->remote;
	struct err e = ERR_INIT;

	while (!l->status) {
		struct pollfd p[2 + OUTPUT_STREAMS];
		bool unread = false;
		int timeout;

		if (output_stream_write(l->flow, &e) < 0) {
			l->status = e.sys == EPIPE ? 128 + SIGPIPE : cli_fail(NULL, EXIT_FAILED, &e, "logs");
			return;
		}
		if (output_stream_done(l->flow) && (!follow || l->ended))
			return;
		timeout = remote_prepare_poll(r, true, &p[0]);
		p[1] = (struct pollfd){ .fd = output_stream_fd(l->flow), .events = POLLOUT };
		/* With no events requested, poll reports only that the reader has exited. */
		for (int i = 0; i < OUTPUT_STREAMS; i++)
			p[2 + i] = (struct pollfd){ .fd = l->fd[i] };
		int n = poll(p, 2 + OUTPUT_STREAMS, timeout);
		if (n < 0)
			p[0].revents = 0;
		for (int i = 0; n > 0 && i < OUTPUT_STREAMS; i++)
			unread |= p[2 + i].revents & POLLERR;
		if (unread)
			l->status = 128 + SIGPIPE;
		else if (remote_process_poll(r, p[0].revents, &e) < 0)
			l->status = cli_fail(NULL, EXIT_FAILED, &e, "logs");
		else if (l->feed.failed)
			l->status = cli_fail(NULL, EXIT_FAILED, &l->feed.failure, "logs");
	}
}

/* With --tail: where each stream starts. Without it all streams start at 0. */
static int prepare_streams(struct logs *l, struct jval process, struct err *e)
{
	const char *tail = l->how.tail;

	if (!tail)
		return 0;
	for (struct jiter it = jiter_on(jval_get(process, "outputs")); jiter_next(&it);) {
		int stream = output_stream_of_name(it.key);
		char ref[72];
		uint64_t start;

		if (stream < 0)
			continue;
		jval_str(jval_get(it.value, "outputRef"), ref, sizeof(ref));
		if (tail_start(l->cli, ref, jval_uint(jval_get(it.value, "bytes"), 0), strtoull(tail, NULL, 10), &start,
			       e) < 0)
			return -1;
		output_stream_start_at(l->flow, stream, start);
	}
	return 0;
}

/* Lists first and follows afterwards, from the last event that was listed: nothing is missed or shown twice. */
static int show_logs(struct logs *l, const char *id)
{
	bool follow = l->how.follow;
	request_auto struct request q = REQUEST_INIT(q);
	struct exit_status ignored;

	jw_kstr(&q.w, "processId", id);
	if (request_read(l->cli, &q, "get_process") < 0 || prepare_streams(l, q.result, &q.e) < 0 ||
	    event_stream_list(l->cli, &l->filter, &l->feed.sequence, on_listed, l, &q.e) < 0)
		return cli_fail(l->cli, EXIT_FAILED, &q.e, "%s", id);
	/* The totals, also if the events that cited them have been removed by retention. */
	output_stream_outputs(l->flow, jval_get(q.result, "outputs"));
	l->ended |= exit_status_of_process(q.result, &ignored);
	if (follow && !l->ended)
		event_stream_start(&l->feed);
	else
		output_stream_flush(l->flow);
	pump_output(l, follow);
	event_stream_stop(&l->feed);
	output_stream_print_omitted(l->flow);
	if (!l->status && output_stream_failed(l->flow))
		l->status = cli_fail(NULL, EXIT_FAILED, output_stream_failed(l->flow), "%s", id);
	return l->status;
}

int process_logs(struct cli *c, const char *process_id, const struct process_logs *how)
{
	static const char *const types[] = { "process.started", "process.output", "process.completed", "process.failed",
					     "process.terminated" };
	struct output_stream_options fo = { .remote = c->remote,
					    .fd = { STDOUT_FILENO, STDERR_FILENO, STDOUT_FILENO },
					    .sanitize = !how->raw,
					    .json = how->json };
	struct logs l = { .cli = c, .how = *how };
	struct jw w = jw_on(&l.filter);

	if (how->json)
		fo.fd[OUTPUT_STDERR] = STDOUT_FILENO;
	for (int i = 0; how->stream && i < OUTPUT_STREAMS; i++)
		if (strcmp(output_stream_name(i), how->stream) != 0)
			fo.fd[i] = -1;
	memcpy(l.fd, fo.fd, sizeof(l.fd));
	jw_kstr(&w, "processId", process_id);
	jw_kstrv(&w, "types", types, sizeof(types) / sizeof(types[0]));
	l.feed = (struct event_stream){ .remote = c->remote, .filter = &l.filter, .event = on_event, .ctx = &l };
	l.flow = output_stream_new(&fo);
	int status = show_logs(&l, process_id);
	output_stream_free(l.flow);
	buf_done(&l.filter);
	return status;
}

int cmd_logs(struct cli *c)
{
	const struct process_logs how = { .follow = opts_has(&c->opts, OPT_logs_FOLLOW),
					  .raw = opts_has(&c->opts, OPT_logs_RAW),
					  .json = cli_as_json(c),
					  .stream = opts_get(&c->opts, OPT_logs_STREAM),
					  .tail = opts_get(&c->opts, OPT_logs_TAIL) };
	bool known = !how.stream;
	char id[ID_LOOKUP_MAX];
	int status = cli_one_process(c);

	for (int i = 0; how.stream && i < OUTPUT_STREAMS; i++)
		known |= strcmp(output_stream_name(i), how.stream) == 0;
	if (status)
		return status;
	if (how.raw && how.json)
		return cli_usage(c, "--raw excludes --json");
	if (!known)
		return cli_usage(c, "option '--stream': '%s' is not stdout, stderr or pty", how.stream);
	if (how.tail && (!how.tail[0] || strspn(how.tail, "0123456789") != strlen(how.tail) || strlen(how.tail) > 18))
		return cli_usage(c, "option '--tail': '%s' is not a number of lines", how.tail);
	return id_lookup_connect(c, id) < 0 ? EXIT_FAILED : process_logs(c, id, &how);
}

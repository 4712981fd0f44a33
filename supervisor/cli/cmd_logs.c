#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/event_stream.h"
#include "supervisor/cli/exit_status.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/list_pages.h"
#include "supervisor/cli/output_stream.h"
#include "supervisor/client/remote.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#define TAIL_PIECE (64u << 10)

struct logs {
	struct cli *cli;
	struct output_stream *flow;
	struct buf filter; /* members that select this process's output and end events */
	struct event_stream feed;
	bool ended;
	int status; /* > 0: exit with this */
};

/* ---- --tail ---- */

/* Searches a piece backwards for the start of the last `lines` lines; `seen` counts newlines over all pieces. */
static bool find_start(const struct buf *piece, uint64_t lines, bool at_end, uint64_t *seen, size_t *ret)
{
	for (size_t i = piece->len; i-- > 0;) {
		if (piece->data[i] != '\n' || (at_end && i + 1 == piece->len))
			continue;
		if (++*seen == lines) {
			*ret = i + 1;
			return true;
		}
	}
	return false;
}

static int read_piece(struct cli *c, const char *ref, uint64_t offset, uint64_t length, struct buf *ret, struct err *e)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct jval data;

	jw_obj(&w);
	jw_kstr(&w, "outputRef", ref);
	jw_kuint(&w, "offset", offset);
	jw_kuint(&w, "length", length);
	jw_kstr(&w, "encoding", "base64");
	jw_obj_end(&w);
	if (cli_call(c, "read_output", &params, &a, e) < 0)
		return -1;
	data = jval_get(a.result, "data");
	buf_reset(ret);
	if (data.type != JT_STRING || text_base64_decode(data.text + 1, data.len - 2, ret) < 0)
		return err_set(e, ERR_INTERNAL, "read_output gave something that is not base64");
	return 0;
}

static int tail_start(struct cli *c, const char *ref, uint64_t size, uint64_t lines, uint64_t *ret, struct err *e)
{
	buf_auto struct buf piece = BUF_INIT;
	uint64_t end = size, seen = 0;
	size_t at;

	*ret = size;
	while (lines && end > 0) {
		uint64_t from = end > TAIL_PIECE ? end - TAIL_PIECE : 0;

		if (read_piece(c, ref, from, end - from, &piece, e) < 0)
			return -1;
		if (piece.len < end - from)
			return 0; /* bytes before `end` were omitted: the tail starts after the gap */
		if (find_start(&piece, lines, end == size, &seen, &at)) {
			*ret = from + at;
			return 0;
		}
		*ret = end = from;
	}
	return 0;
}

/* ---- output ---- */

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
		struct pollfd p[2];
		int timeout;

		if (output_stream_write(l->flow, &e) < 0) {
			l->status = e.sys == EPIPE ? 128 + SIGPIPE : cli_fail(NULL, EXIT_FAILED, &e, "logs");
			return;
		}
		if (output_stream_done(l->flow) && (!follow || l->ended))
			return;
		timeout = remote_prepare_poll(r, true, &p[0]);
		p[1] = (struct pollfd){ .fd = output_stream_fd(l->flow), .events = POLLOUT };
		if (poll(p, 2, timeout) < 0)
			p[0].revents = 0;
		if (remote_process_poll(r, p[0].revents, &e) < 0)
			l->status = cli_fail(NULL, EXIT_FAILED, &e, "logs");
		else if (l->feed.failed)
			l->status = cli_fail(NULL, EXIT_FAILED, &l->feed.failure, "logs");
	}
}

static int prepare_streams(struct logs *l, struct jval process, struct err *e)
{
	const char *tail = opts_get(&l->cli->opts, OPT_logs_TAIL);

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

static int show_logs(struct logs *l, const char *id)
{
	bool follow = opts_has(&l->cli->opts, OPT_logs_FOLLOW);
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct exit_status ignored;
	struct err e = ERR_INIT;

	jw_obj(&w);
	jw_kstr(&w, "processId", id);
	jw_obj_end(&w);
	if (cli_call(l->cli, "get_process", &params, &a, &e) < 0 || prepare_streams(l, a.result, &e) < 0 ||
	    list_pages_events(l->cli, &l->filter, &l->feed.sequence, on_listed, l, &e) < 0)
		return cli_fail(l->cli, EXIT_FAILED, &e, "%s", id);
	/* The totals, also if the events that cited them have been removed by retention. */
	output_stream_outputs(l->flow, jval_get(a.result, "outputs"));
	l->ended |= exit_status_of_process(a.result, &ignored);
	if (follow && !l->ended) {
		event_stream_start(&l->feed);
	} else {
		output_stream_flush(l->flow);
	}
	pump_output(l, follow);
	event_stream_stop(&l->feed);
	output_stream_print_omitted(l->flow);
	if (!l->status && output_stream_failed(l->flow))
		l->status = cli_fail(NULL, EXIT_FAILED, output_stream_failed(l->flow), "%s", id);
	return l->status;
}

static int stream_named(const char *name)
{
	for (int i = 0; i < OUTPUT_STREAMS; i++)
		if (strcmp(output_stream_name(i), name) == 0)
			return i;
	return -1;
}

static int check_options(struct cli *c)
{
	const char *stream = opts_get(&c->opts, OPT_logs_STREAM), *tail = opts_get(&c->opts, OPT_logs_TAIL);

	if (c->opts.nargs != 1)
		return cli_usage(c, c->opts.nargs ? "one process at a time" : "which process?");
	if (stream && stream_named(stream) < 0)
		return cli_usage(c, "option '--stream': '%s' is not stdout, stderr or pty", stream);
	if (tail && (!tail[0] || strspn(tail, "0123456789") != strlen(tail) || strlen(tail) > 18))
		return cli_usage(c, "option '--tail': '%s' is not a number of lines", tail);
	return 0;
}

int cmd_logs(struct cli *c)
{
	const char *only = opts_get(&c->opts, OPT_logs_STREAM);
	struct output_stream_options fo = { .fd = { STDOUT_FILENO, STDERR_FILENO, STDOUT_FILENO },
					    .sanitize = !opts_has(&c->opts, OPT_logs_RAW) };
	struct logs l = { .cli = c };
	char id[ID_LOOKUP_MAX];
	struct jw w = jw_on(&l.filter);
	int status = check_options(c);

	if (status)
		return status;
	if (cli_connect(c, CLI_START_IF_STORE) < 0 || id_lookup_process(c, c->opts.args[0], id) < 0)
		return EXIT_FAILED;
	jw_kstr(&w, "processId", id);
	jw_karr(&w, "types");
	jw_str(&w, "process.started");
	jw_str(&w, "process.output");
	jw_str(&w, "process.completed");
	jw_str(&w, "process.failed");
	jw_str(&w, "process.terminated");
	jw_arr_end(&w);
	for (int i = 0; only && i < OUTPUT_STREAMS; i++)
		if (i != stream_named(only))
			fo.fd[i] = -1;
	fo.remote = c->remote;
	l.feed = (struct event_stream){ .remote = c->remote, .filter = &l.filter, .event = on_event, .ctx = &l };
	l.flow = output_stream_new(&fo);
	status = show_logs(&l, id);
	output_stream_free(l.flow);
	buf_done(&l.filter);
	return status;
}

/* `events`: lists the stored events, then with -f follows new ones; one line each, for people or as JSON. */

#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/event_stream.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/noun.h"
#include "supervisor/cli/output_stream.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define HELD_MOST (4u << 20)
#define SUMMARY_MOST 100
#define PAGE_MAX 1000u

struct listener {
	struct cli *cli;
	struct output_stream *flow; /* only its line output is used */
	struct buf filter;
	uint64_t sequence; /* of the last event shown */
	bool json, coloured;
	int status;
};

/* ---- one line ---- */

/* An event is one line, whatever its texts contain. */
static void join_lines(struct buf *text)
{
	for (size_t i = 0; i < text->len; i++)
		if (text->data[i] == '\n' || text->data[i] == '\t')
			text->data[i] = ' ';
}

/* The scalar members of the payload, as many as fit. */
static void append_summary(struct jval payload, struct buf *out)
{
	buf_auto struct buf command = BUF_INIT;
	size_t from = out->len;

	if (jval_get(payload, "command").type == JT_ARRAY) {
		format_command(payload, &command);
		join_lines(&command);
		buf_byte(out, ' ');
		text_sanitize(
			buf_cstr(&command),
			text_utf8_cut(buf_cstr(&command), command.len < SUMMARY_MOST ? command.len : SUMMARY_MOST),
			out);
	}
	for (struct jiter it = jiter_on(payload); jiter_next(&it) && out->len - from < SUMMARY_MOST;) {
		buf_auto struct buf text = BUF_INIT;
		bool string = it.value.type == JT_STRING;

		if (it.value.type == JT_OBJECT || it.value.type == JT_ARRAY)
			continue;
		buf_byte(out, ' ');
		jval_str_buf(it.key, &text);
		buf_byte(&text, '=');
		if (string)
			jval_str_buf(it.value, &text);
		else
			buf_append(&text, it.value.text, it.value.len);
		bool cut = text.len > SUMMARY_MOST;
		join_lines(&text);
		text_sanitize(text.data, cut ? text_utf8_cut(text.data, SUMMARY_MOST) : text.len, out);
		if (cut)
			buf_str(out, "...");
	}
}

/* "SEQUENCE  TIME  TYPE  ID  SUMMARY"; the time in milliseconds, which is enough to compare events by eye. */
static void append_line(const struct listener *l, struct jval event, struct buf *out)
{
	static const char *const ids[] = { "processId", "taskId", "turnId", "threadId", "sessionId" };
	char type[64], time[40], id[72] = "-";
	buf_auto struct buf padded = BUF_INIT;

	jval_str(jval_get(event, "type"), type, sizeof(type));
	jval_str(jval_get(event, "timestamp"), time, sizeof(time));
	if (strlen(time) > 23)
		snprintf(time + 23, 2, "Z");
	buf_printf(out, "%8llu  ", (unsigned long long)jval_uint(jval_get(event, "sequence"), 0));
	format_paint(out, l->coloured, FORMAT_DIM, time);
	buf_printf(&padded, "  %-22s  ", type);
	format_paint(out, l->coloured, FORMAT_CYAN, padded.data);
	/* The most specific of the event's ids. */
	for (size_t i = countof(ids); i-- > 0;)
		if (jval_get(event, ids[i]).type == JT_STRING)
			jval_str(jval_get(event, ids[i]), id, sizeof(id));
	buf_reset(&padded);
	buf_printf(&padded, "%-31s", id);
	text_sanitize(padded.data, padded.len, out);
	append_summary(jval_get(event, "payload"), out);
}

/* ---- the stream ---- */

static void show_event(struct listener *l, struct jval event)
{
	buf_auto struct buf line = BUF_INIT;

	if (l->json) {
		output_stream_line(l->flow, event.text, event.len);
		return;
	}
	append_line(l, event, &line);
	output_stream_line(l->flow, line.data, line.len);
}

/* Writes, and blocks while more than `most` bytes are buffered. Does not read from the daemon meanwhile. */
static void write_out(struct listener *l, size_t most)
{
	struct err e = ERR_INIT;

	while (!l->status) {
		struct pollfd p = { .events = POLLOUT };

		if (output_stream_write(l->flow, &e) < 0)
			l->status = e.sys == EPIPE ? 128 + SIGPIPE : cli_fail(NULL, EXIT_FAILED, &e, "events");
		if (output_stream_buffered(l->flow) <= most)
			return;
		p.fd = output_stream_fd(l->flow);
		poll(&p, 1, -1);
	}
}

/* While events are listed, nothing else needs the connection, so writing may block. */
static bool on_listed(void *ctx, struct jval event)
{
	struct listener *l = ctx;

	show_event(l, event);
	write_out(l, HELD_MOST);
	return l->status == 0;
}

static void on_event(void *ctx, struct jval event) { show_event(ctx, event); }

/* Stops reading from the daemon while too much output is buffered, which throttles the daemon. */
static void follow_events(struct listener *l)
{
	struct remote *r = l->cli->remote;
	struct event_stream feed = {
		.remote = r, .filter = &l->filter, .sequence = l->sequence, .event = on_event, .ctx = l
	};
	struct err e = ERR_INIT;

	event_stream_start(&feed);
	while (!l->status) {
		struct pollfd p[2];
		int timeout = remote_prepare_poll(r, output_stream_buffered(l->flow) < HELD_MOST, &p[0]);

		/*
		 * With no events requested, poll still reports POLLERR when the reader of stdout has exited; we exit
		 * with it.
		 */
		p[1] = (struct pollfd){ .fd = STDOUT_FILENO, .events = output_stream_fd(l->flow) >= 0 ? POLLOUT : 0 };
		if (poll(p, 2, timeout) < 0)
			p[0].revents = p[1].revents = 0;
		if (remote_process_poll(r, p[0].revents, &e) < 0)
			l->status = cli_fail(NULL, EXIT_FAILED, &e, "events");
		else if (feed.failed)
			l->status = cli_fail(NULL, EXIT_FAILED, &feed.failure, "events");
		else if (p[1].revents & POLLERR)
			l->status = 128 + SIGPIPE;
		else if (output_stream_write(l->flow, &e) < 0)
			l->status = e.sys == EPIPE ? 128 + SIGPIPE : cli_fail(NULL, EXIT_FAILED, &e, "events");
	}
	event_stream_stop(&feed);
}

/* ---- request ---- */

/*
 * Moves the position of `l` to before the newest `limit` events that match. Only counts them: they are listed from
 * there like any others, oldest first.
 */
static int skip_to_newest(struct listener *l, uint64_t limit, struct err *e)
{
	uint64_t before = 0, page;
	bool more = true;

	for (; limit && more; limit -= page) {
		request_auto struct request q = REQUEST_INIT(q);

		buf_append(&q.params, buf_cstr(&l->filter), l->filter.len);
		q.w.need_comma = l->filter.len > 0;
		jw_kstr(&q.w, "order", "desc");
		jw_kuint(&q.w, "limit", limit < PAGE_MAX ? limit : PAGE_MAX);
		if (l->sequence)
			jw_kuint(&q.w, "afterSequence", l->sequence);
		if (before)
			jw_kuint(&q.w, "beforeSequence", before);
		if (request_read(l->cli, &q, "list_events") < 0) {
			*e = q.e;
			return -1;
		}
		page = 0;
		for (struct jiter it = jiter_on(jval_get(q.result, "events")); jiter_next(&it) && page < limit; page++)
			before = jval_uint(jval_get(it.value, "sequence"), before);
		more = page && jval_bool(jval_get(q.result, "hasMore"), false);
	}
	if (before)
		l->sequence = before - 1;
	return 0;
}

static int show_events(struct listener *l, const char *since, uint64_t limit, bool followed)
{
	request_auto struct request q = REQUEST_INIT(q);
	struct jw w = jw_on(&l->filter);
	struct cli *c = l->cli;
	struct err e = ERR_INIT;
	uint64_t last = 0;

	if (noun_options(c, "process=processId:process session=sessionId:session type=types[]", &w))
		return EXIT_FAILED;
	if (followed) {
		if (request_read(c, &q, "initialize") < 0)
			return cli_fail(c, EXIT_FAILED, &q.e, "events");
		last = jval_uint(jval_get(q.result, "lastSequence"), 0);
	}
	if (since && strcmp(since, "now") == 0)
		l->sequence = last;
	else if (since)
		l->sequence = strtoull(since, NULL, 10);
	if (limit && skip_to_newest(l, limit, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "events");
	if (event_stream_list(c, &l->filter, &l->sequence, on_listed, l, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "events");
	if (followed && !l->status) {
		/* Everything up to `last` was listed, whether it matched the filter or not. */
		if (l->sequence < last)
			l->sequence = last;
		follow_events(l);
	}
	write_out(l, 0);
	return l->status;
}

int cmd_events(struct cli *c)
{
	const char *since = opts_get(&c->opts, OPT_events_SINCE);
	const char *given = opts_get(&c->opts, OPT_events_LIMIT);
	bool followed = opts_has(&c->opts, OPT_events_FOLLOW);
	uint64_t limit = 0;
	char *end = NULL;
	struct output_stream_options fo = { .fd = { STDOUT_FILENO, -1, -1 } };
	struct listener l = { .cli = c,
			      .json = opts_has(&c->opts, OPT_events_JSON),
			      .coloured = format_coloured(STDOUT_FILENO) };
	int status;

	if (c->opts.nargs)
		return cli_usage(c, "unexpected argument '%s'", c->opts.args[0]);
	if (since && strcmp(since, "now") == 0 && !followed)
		return cli_usage(c, "option '--since': now goes with -f");
	if (since && strcmp(since, "now") != 0 &&
	    (!since[0] || strspn(since, "0123456789") != strlen(since) || strlen(since) > 19))
		return cli_usage(c, "option '--since': '%s' is not a sequence number", since);
	if (given && (*given < '0' || *given > '9' || !(limit = strtoull(given, &end, 10)) || *end))
		return cli_usage(c, "option '--limit': '%s' is not a number from 1 on", given);
	if (cli_connect(c, CLI_START_IF_STORE) < 0)
		return EXIT_FAILED;
	fo.remote = c->remote;
	l.flow = output_stream_new(&fo);
	status = show_events(&l, since, limit, followed);
	output_stream_free(l.flow);
	buf_done(&l.filter);
	return status;
}

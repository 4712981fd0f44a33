#ifndef BAILIFF_GATEWAY_HTTP_MCP_STREAM_H
#define BAILIFF_GATEWAY_HTTP_MCP_STREAM_H

/*
 * The streams of one MCP client over HTTP: where messages to it go.
 *
 * Each POST of a request makes a stream. It is answered with plain JSON if the answer is the first thing that is sent
 * on it, and with server-sent events if something else comes first or the answer takes long. A client that can resume
 * (legacy sessions) also has a general stream, number 0, for what belongs to no request; it is read by GET.
 *
 * In a legacy session a connection that breaks changes nothing: its stream goes on, what is sent on it is kept
 * (REPLAY_BYTES at most, the oldest goes first), and a GET with Last-Event-ID takes it up behind the last event that
 * arrived. In the modern era there is nothing to resume: a connection that breaks is how a client says that it wants no
 * answer (`abandoned`).
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct event_base;
struct http_exchange;
struct mcp_stream;
struct mcp_streams;

struct mcp_streams_options {
	struct event_base *base;
	bool resumable;
	void (*abandoned)(
		void *ctx,
		struct mcp_stream *s); /* not resumable: the client went away; the stream is dead afterwards */
	void *ctx;
};

struct mcp_streams *mcp_streams_new(const struct mcp_streams_options *o);
/* Ends them all: who still waits for an answer is told that there is none. */
void mcp_streams_free(struct mcp_streams *s);

struct mcp_post {
	bool modern, complete;  /* as of the envelope: decides on the HTTP status of an error */
	const char *session_id; /* to be told with a good answer (initialize), or NULL; must last */
	bool hang_up; /* end the first connection at once, to be resumed: a fixture of the conformance suite */
};
/* The exchange is taken over. */
struct mcp_stream *mcp_streams_post(struct mcp_streams *s, struct http_exchange *x, const struct mcp_post *post);
/* A message on a stream, NULL: the general one. `message` is taken over; after `last` the stream is dead for the
 * caller. */
void mcp_streams_send(struct mcp_streams *s, struct mcp_stream *on, json_t *message, bool last);
/* Reads the general stream, or resumes behind an event. False: the exchange was refused (it is answered either way). */
bool mcp_streams_get(struct mcp_streams *s, struct http_exchange *x, const char *last_event_id);
/* Streams begin with an event that has an id and no data: clients from 2025-11-25 on understand that. */
void mcp_streams_prime(struct mcp_streams *s, bool on);
/* Connections that are open. */
size_t mcp_streams_open(const struct mcp_streams *s);

#endif

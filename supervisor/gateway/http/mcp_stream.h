#ifndef BAILIFF_GATEWAY_HTTP_MCP_STREAM_H
#define BAILIFF_GATEWAY_HTTP_MCP_STREAM_H

/*
 * The streams of one MCP client over HTTP, which carry messages to it.
 *
 * Each POST of a request creates a stream. The response is plain JSON if it is the first message on the stream, and
 * server-sent events if another message comes first or the response takes long. A client that can resume (legacy
 * sessions) also has a general stream, number 0, for messages that belong to no request; GET reads it.
 *
 * In a legacy session a broken connection does not end its stream: later messages are kept (up to REPLAY_BYTES, oldest
 * dropped first), and a GET with Last-Event-ID resumes after the last event that arrived. The modern era cannot resume:
 * breaking the connection is how a client cancels its request (`abandoned`).
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
		struct mcp_stream *s); /* not resumable: the client disconnected; the stream is freed afterwards */
	void *ctx;
};

struct mcp_streams *mcp_streams_new(const struct mcp_streams_options *o);
/* Ends all streams; exchanges without a response get 503. */
void mcp_streams_free(struct mcp_streams *s);

struct mcp_post {
	bool modern, complete;  /* from the envelope; determine the HTTP status of an error */
	const char *session_id; /* sent with a successful response (initialize), or NULL; borrowed */
	bool hang_up; /* end the first connection immediately so that the client resumes: for the conformance suite */
};
/* Takes ownership of the exchange. */
struct mcp_stream *mcp_streams_post(struct mcp_streams *s, struct http_exchange *x, const struct mcp_post *post);
/*
 * Sends a message on a stream; NULL: the general one. Takes ownership of `message`. After `last` the caller must not
 * use the stream.
 */
void mcp_streams_send(struct mcp_streams *s, struct mcp_stream *on, json_t *message, bool last);
/* Reads the general stream, or resumes after an event. Responds in any case; false if that was an error. */
bool mcp_streams_get(struct mcp_streams *s, struct http_exchange *x, const char *last_event_id);
/* Starts streams with an event that has an id and no data. Clients from 2025-11-25 on support that. */
void mcp_streams_prime(struct mcp_streams *s, bool on);
/* Number of open connections. */
size_t mcp_streams_open(const struct mcp_streams *s);

#endif

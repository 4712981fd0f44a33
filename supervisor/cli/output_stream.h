#ifndef BAILIFF_CLI_OUTPUT_STREAM_H
#define BAILIFF_CLI_OUTPUT_STREAM_H

/*
 * Copies a process's output from its process.output events to file descriptors: exact, in the order of the events, in
 * bounded memory. Small ranges come with the event; others are read from the daemon in pieces, a few at a time. Nothing
 * blocks: the caller polls output_stream_fd for writing and calls output_stream_write.
 */

#include "supervisor/cli/cli.h"

#include <stdint.h>

struct output_stream;

/* A process has stdout and stderr, or, on a terminal, only pty. */
enum { OUTPUT_STDOUT, OUTPUT_STDERR, OUTPUT_PTY, OUTPUT_STREAMS };

struct output_stream_options {
	struct remote *remote;
	int fd[OUTPUT_STREAMS]; /* −1: the stream is not wanted */
	bool sanitize;          /* control characters become visible */
	bool json;              /* instead, JSON objects, one per line: stream, and text or base64 */
	/* The process, if it may still run: much output is read from its spool file instead of through the daemon. */
	const char *process_id;
	/* Sees every byte just before it is written; or NULL. */
	void (*wrote)(void *ctx, const char *bytes, size_t n);
	void *ctx;
};

struct output_stream *output_stream_new(const struct output_stream_options *o);
void output_stream_free(struct output_stream *f);

int output_stream_of_name(struct jval name); /* −1 for an unknown name */
const char *output_stream_name(int stream);
void output_stream_start_at(struct output_stream *f, int stream,
			    uint64_t offset);                         /* skip everything before this offset */
void output_stream_event(struct output_stream *f, struct jval event); /* process.output; others are ignored */
void output_stream_outputs(struct output_stream *f,
			   struct jval outputs); /* a process's `outputs`: it printed everything up to their ends */
void output_stream_line(struct output_stream *f, const char *text, size_t len); /* a line of our own on stdout */
void output_stream_bytes(struct output_stream *f, const char *bytes, size_t n); /* bytes of our own on stdout */

int output_stream_fd(const struct output_stream *f);      /* to poll for POLLOUT, or −1 */
int output_stream_timeout(const struct output_stream *f); /* for poll: then call output_stream_write; −1 = none */
/* Writes as much as possible without blocking. −1: sys = EPIPE when stdout has no reader. */
int output_stream_write(struct output_stream *f, struct err *e);
bool output_stream_closed(const struct output_stream *f,
			  int stream); /* it could not be written; its bytes are no longer read */
/*
 * No more ranges will be cited: flushes what is buffered, and counts what was not stored as omitted. An incomplete
 * character at the end is written as it is.
 */
void output_stream_flush(struct output_stream *f);
bool output_stream_done(const struct output_stream *f);       /* everything cited so far was written */
size_t output_stream_buffered(const struct output_stream *f); /* bytes in memory */
/* An error of the daemon while reading; NULL if there was none. */
const struct err *output_stream_failed(const struct output_stream *f);
/* Prints to stderr how many bytes were not stored and so not shown. */
void output_stream_print_omitted(const struct output_stream *f);

/*
 * One piece of an output, read on its own: bytes from `offset` on, at most `length`. `bytes` is replaced. The piece may
 * be short, and skips bytes that were not kept.
 */
struct output_piece {
	struct buf bytes;
	uint64_t next; /* the offset after it */
	bool eof;      /* nothing follows */
};
int output_read(struct cli *c, const char *output_ref, uint64_t offset, uint64_t length, struct output_piece *ret,
		struct err *e);

#endif

#ifndef BAILIFF_CLI_FLOW_H
#define BAILIFF_CLI_FLOW_H

/*
 * A process's bytes, from its process.output events to file descriptors: exact, in the order of the events, in bounded
 * memory. Small ranges come with the event; others are read from the daemon in pieces, a few of them under way at a
 * time. Nothing here waits: the caller polls flow_fd for writing and calls flow_write.
 */

#include "runtime/base/jscan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct flow;
struct remote;

/* A process has stdout and stderr, or, on a terminal, only pty. */
enum { FLOW_STDOUT, FLOW_STDERR, FLOW_PTY, FLOW_STREAMS };

struct flow_options {
	struct remote *remote;
	int fd[FLOW_STREAMS]; /* −1: the stream is left out */
	bool sanitize;        /* control characters become visible */
	/* Sees every byte just before it is written; or NULL. */
	void (*wrote)(void *ctx, const char *bytes, size_t n);
	void *ctx;
};

struct flow *flow_new(const struct flow_options *o);
void flow_free(struct flow *f);

int flow_stream_of(struct jval name); /* −1 if it is none */
const char *flow_stream_name(int stream);
void flow_start_at(struct flow *f, int stream, uint64_t offset); /* nothing before this is shown */
void flow_event(struct flow *f, struct jval event);              /* process.output; others are ignored */
void flow_upto(struct flow *f, int stream, const char *output_ref, uint64_t end); /* all up to here was printed */
void flow_outputs(struct flow *f, struct jval outputs);       /* the same, of a process's `outputs` */
void flow_line(struct flow *f, const char *text, size_t len); /* a line of our own on stdout */
void flow_bytes(struct flow *f, const char *bytes, size_t n); /* bytes of our own on stdout */

int flow_fd(const struct flow *f); /* to poll for POLLOUT, or −1 */
/* Writes what can be written without waiting. −1: sys = EPIPE when nobody reads stdout any more. */
int flow_write(struct flow *f, struct err *e);
bool flow_closed(const struct flow *f, int stream); /* it could not be written to; nothing of it is read any more */
/*
 * Nothing more will be cited: what was held back now comes, or was not kept. (Half a character that was waiting for its
 * other half is shown after all.)
 */
void flow_flush(struct flow *f);
bool flow_done(const struct flow *f);   /* everything cited so far was written */
size_t flow_held(const struct flow *f); /* bytes in memory */
/* An error of the daemon while reading; NULL if there was none. */
const struct err *flow_failed(const struct flow *f);
/* On stderr, if bytes were not kept and so not shown. */
void flow_tell_omitted(const struct flow *f);

#endif

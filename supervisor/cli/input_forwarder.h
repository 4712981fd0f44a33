#ifndef BAILIFF_CLI_INPUT_FORWARDER_H
#define BAILIFF_CLI_INPUT_FORWARDER_H

/*
 * Forwards stdin to a process: one write in flight at a time, each with its own idempotency key, so that it is written
 * exactly once even if the daemon restarts in between. Single keys have no idempotency key: making each of them durable
 * first would be noticeable. A key in flight when the daemon exits is written once or not at all; the user sees which.
 *
 * A pipe or a file is read in large pieces when the buffer has space. A terminal is always read, even while the daemon
 * does not respond, because the detach keys must work then, too; typed bytes wait in a bounded buffer.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "supervisor/client/keys.h"

#include <stdbool.h>
#include <stddef.h>

struct remote;

struct input_forwarder {
	struct remote *remote;
	const char *process_id;
	bool terminal;  /* stdin is one: look for the keys that detach */
	bool keys;      /* … in raw mode; its end is a hangup, not the end of the process's stdin */
	bool keep_open; /* the end of our stdin is not that of the process's */
	bool discard;   /* nothing is sent; only the keys that detach matter */
	struct keys_watch watch;
	/* the outcome */
	bool over;     /* nothing more will be sent */
	bool detached; /* the keys were pressed */
	bool hung_up;  /* the terminal was closed */
	bool failed;   /* a write was rejected though the process runs: `failure` */
	bool unknown;  /* … and whether it happened is not known */
	struct err failure;
	/* private */
	struct buf pending;
	bool busy, eof;
};

int input_forwarder_fd(const struct input_forwarder *t); /* to poll for POLLIN, or −1 */
void input_forwarder_read(struct input_forwarder *t);    /* it is readable */
void input_forwarder_done(struct input_forwarder *t);

#endif

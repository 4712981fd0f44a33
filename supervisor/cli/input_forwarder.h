#ifndef BAILIFF_CLI_INPUT_FORWARDER_H
#define BAILIFF_CLI_INPUT_FORWARDER_H

/*
 * Our stdin, on its way to a process: one write under way at a time, each under its own idempotency key, so that a
 * daemon which restarts in between gets it exactly once. Single keys go without: making each of them durable before it
 * is pressed would be felt. One that is under way when the daemon goes is pressed once or not at all, and a person sees
 * which.
 *
 * A pipe or a file is read when there is room, in large pieces. A terminal is read at once, whatever the daemon does,
 * because the keys that detach must work then too; what was typed meanwhile waits in a bounded buffer.
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
	/* what came of it */
	bool over;     /* nothing more will be sent */
	bool detached; /* the keys were pressed */
	bool hung_up;  /* the terminal has gone */
	bool failed;   /* a write was refused though the process runs: `failure` */
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

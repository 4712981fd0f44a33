#ifndef BAILIFF_CLI_INPUT_FORWARDER_H
#define BAILIFF_CLI_INPUT_FORWARDER_H

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "supervisor/client/keys.h"

#include <stdbool.h>

struct remote;

/*
 * Forwards stdin to a process: one write in flight at a time, each with its own idempotency key, so that it is written
 * exactly once even if the daemon restarts in between. Single keys have no idempotency key: making each of them durable
 * first would be noticeable. A key in flight when the daemon exits is written once or not at all; the user sees which.
 *
 * A pipe or a file is read in large pieces when the buffer has space. A terminal is always read, even while the daemon
 * does not respond, because the detach keys must work then, too; typed bytes wait in a bounded buffer.
 */
struct input_forwarder {
	struct remote *remote;
	const char *process_id;
	bool terminal;  /* stdin is a terminal: look for the detach keys */
	bool keys;      /* … in raw mode; its end of file is a hangup, not the end of the process's stdin */
	bool keep_open; /* do not close the process's stdin at the end of ours */
	bool discard;   /* send nothing; only look for the detach keys */
	struct keys_watch watch;
	struct keys_watch
		interrupt; /* Ctrl-C, which leaves as well while input is discarded: it has no other receiver */
	/* result */
	bool over;     /* nothing more will be sent */
	bool detached; /* the keys were pressed */
	bool hung_up;  /* the terminal was closed */
	bool failed;   /* a write was rejected while the process runs: see `failure` */
	bool unknown;  /* … and it is unknown whether it took effect */
	struct err failure;
	/* private */
	struct buf pending;
	bool busy, eof;
};

/* The descriptor to wait for, or −1 while there is no space for more. */
int input_forwarder_fd(const struct input_forwarder *t);
/* The descriptor can be read. */
void input_forwarder_read(struct input_forwarder *t);

#endif

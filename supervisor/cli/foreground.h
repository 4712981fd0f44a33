#ifndef BAILIFF_CLI_FOREGROUND_H
#define BAILIFF_CLI_FOREGROUND_H

#include "runtime/base/jscan.h"
#include "supervisor/cli/output_stream.h"
#include "supervisor/client/keys.h"

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct remote;

struct foreground {
	struct remote *remote;
	const char *process_id;
	const char *name;        /* of the command, for messages */
	uint64_t after_sequence; /* its events after this one are wanted */
	bool json;               /* events instead of bytes */
	bool forward_stdin;
	bool cow; /* it runs on copies of its write roots */
	/* terminals */
	bool keys;               /* stdin is a terminal whose keys go to the process as they are pressed */
	bool lines;              /* … or line by line */
	struct keys_watch watch; /* which keys detach */
	/*
	 * "newest", "smallest", "keep": the daemon knows that our terminal shows the process's and answers what
	 * programs ask it, and whether it counts for the size; "": only the size is set; NULL = not even that.
	 */
	const char *size_policy;
	unsigned rows, cols; /* our size, if the daemon was told it already */
	/* attach */
	bool guest;                     /* the process is not ours: leaving does not end it */
	bool observer;                  /* neither keys nor signals reach it; the connection's role says so too */
	const struct buf *screen;       /* shown first; or NULL */
	uint64_t start[OUTPUT_STREAMS]; /* bytes before these are not shown */
	struct jval outputs;            /* what is known to be printed already, as get_process says it; or nothing */
};

/*
 * Follows a process until its end, or until we detach (0): output, stdin, signals. Returns the exit status. *ret_seen:
 * we did not leave before its end; if we did, requests may be unanswered and the connection is not to be used again.
 */
int foreground_follow(const struct foreground *o, bool *ret_seen);

/* Where our terminal's size is known from: a descriptor, or −1. */
int foreground_terminal(void);

#endif

#ifndef BAILIFF_CLI_FOREGROUND_H
#define BAILIFF_CLI_FOREGROUND_H

/* Follows a process in the foreground, for `run` and `attach`: its output, our stdin and our signals. */

#include "supervisor/cli/output_stream.h"
#include "supervisor/client/keys.h"

#include <stdint.h>

struct early_events;

struct foreground {
	struct cli *cli;
	struct remote *remote;
	const char *process_id;
	const char *name;                 /* the command's name for messages */
	uint64_t after_sequence;          /* follow its events after this one */
	const struct early_events *early; /* they are subscribed to already; or NULL */
	const char *action_id;            /* the approval that it waits for, to ask for; NULL = none */
	bool json;                        /* print events instead of output */
	bool forward_stdin;
	bool cow;        /* a copy-on-write run */
	bool in_sandbox; /* … in a session sandbox */
	/* terminals */
	bool keys;               /* stdin is a terminal; keys are passed on as they are pressed */
	bool lines;              /* … or line by line */
	struct keys_watch watch; /* the keys that detach */
	/*
	 * "newest", "smallest", "keep": the daemon treats our terminal as a view of the process's terminal: it answers
	 * programs' queries, and its size may count. "": only the size is set. NULL: nothing is sent.
	 */
	const char *size_policy;
	unsigned rows, cols; /* our size, if the daemon already has it */
	/* attach */
	bool guest;                     /* the process is not ours: exiting does not terminate it */
	bool observer;                  /* sends neither keys nor signals; enforced by the connection's role */
	const struct buf *screen;       /* printed first; or NULL */
	uint64_t start[OUTPUT_STREAMS]; /* skip output before these offsets */
	struct jval outputs;            /* `outputs` of get_process: what was printed already; may be empty */
};

/*
 * Follows a process until it ends or we detach (0): output, stdin, signals. Returns the exit status. *ret_seen: we
 * stayed until the end. If not, requests may be unanswered, and the connection must not be reused.
 */
int foreground_follow(const struct foreground *o, bool *ret_seen);

/* A descriptor of our terminal, or −1. */
int foreground_terminal(void);
/*
 * stdin is a pipe, file or socket, and so meant for the process. A terminal is used only on request, and other
 * descriptors (such as /dev/null) have no input.
 */
bool foreground_stdin_given(void);

#endif

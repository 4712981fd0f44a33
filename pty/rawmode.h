#ifndef BAILIFF_PTY_RAWMODE_H
#define BAILIFF_PTY_RAWMODE_H

/*
 * The user's own terminal while its keys go to a remote program. The terminal's settings are restored whatever happens
 * short of SIGKILL and SIGSTOP: by rawmode_leave on regular exits, and by handlers of the signals that a crash raises
 * (SEGV, BUS, FPE, ILL, ABRT; out of memory aborts, too).
 */

#include <stdbool.h>
#include <termios.h>

struct err;

enum rawmode_kind {
	RAWMODE_KEYS,  /* every key as it is pressed, no interpretation or echo, output unchanged */
	RAWMODE_LINES, /* lines, edited and echoed as usual; but `wake` is delivered immediately, like Enter */
	RAWMODE_QUIET, /* every key, without echo; Ctrl-C and the like are signals as usual */
};

struct rawmode {
	int fd;
	bool on;
	struct termios saved;
};

/* At most one at a time. ERR_SYS if fd is not a terminal. */
int rawmode_enter(struct rawmode *m, int fd, enum rawmode_kind kind, char wake, struct err *e);
void rawmode_leave(struct rawmode *m); /* harmless when not on */
/*
 * Before leaving: reads and drops what the terminal still sends, answers to queries that were written to it (`out_fd`)
 * or reports of the mouse, so that it does not reach the shell as typed text. Waits for at most half a second.
 */
void rawmode_drain(struct rawmode *m, int out_fd);

/* The terminal's size; false if fd is not a terminal or its size is unknown. */
bool rawmode_size(int fd, unsigned *ret_rows, unsigned *ret_cols);

#endif

#ifndef BAILIFF_PTY_RAWMODE_H
#define BAILIFF_PTY_RAWMODE_H

/*
 * The user's own terminal, while its keys belong to a program elsewhere. Whatever happens to us short of SIGKILL and
 * SIGSTOP, the terminal gets its settings back: rawmode_leave on the ordinary ways out, and handlers of the signals
 * that a crash raises (SEGV, BUS, FPE, ILL, ABRT; out of memory aborts too).
 */

#include <stdbool.h>
#include <termios.h>

struct err;

enum rawmode_kind {
	RAWMODE_KEYS,  /* every key as it is pressed, nothing interpreted or echoed, output untouched */
	RAWMODE_LINES, /* lines, edited and echoed as ever; but `wake` is delivered at once, like Enter */
};

struct rawmode {
	int fd;
	bool on;
	struct termios saved;
};

/* At most one at a time. ERR_SYS when fd is no terminal. */
int rawmode_enter(struct rawmode *m, int fd, enum rawmode_kind kind, char wake, struct err *e);
void rawmode_leave(struct rawmode *m); /* harmless when not on */

/* The terminal's size; false if fd is none or does not know. */
bool rawmode_size(int fd, unsigned *ret_rows, unsigned *ret_cols);

#endif

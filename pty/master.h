#ifndef BAILIFF_PTY_MASTER_H
#define BAILIFF_PTY_MASTER_H

/* The master's side of a terminal (pty(7)): what goes out of it, what is typed into it, and how its line is set. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* How the line is set now, by whoever runs on it. */
struct master_line {
	bool echo, canonical;
	unsigned char eof; /* the character that ends input in canonical mode; 0 = it has none */
};

bool master_is(int fd);
/*
 * Moves what was printed into a pipe, in the kernel: what was taken from the terminal is in the pipe, whenever this
 * process dies. >0 bytes; 0 = nobody has the terminal open any more, and nothing is left of what was printed; −1 with
 * errno (EAGAIN = nothing there now, or no room in the pipe).
 */
ssize_t master_move(int fd, int pipe);
/* >0 bytes taken; 0 = no room now; −1 with errno (EIO = nobody has the terminal open any more). */
ssize_t master_write(int fd, const void *p, size_t n);
int master_resize(int fd, uint32_t rows, uint32_t cols);
int master_line_get(int fd, struct master_line *ret);

#endif

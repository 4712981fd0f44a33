#ifndef BAILIFF_PTY_MASTER_H
#define BAILIFF_PTY_MASTER_H

/* The master side of a terminal (pty(7)): its output, its input, and its line settings. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The current line settings, as the program on the terminal has set them. */
struct master_line {
	bool echo, canonical;
	unsigned char eof; /* the character that ends input in canonical mode; 0 = none */
};

bool master_is(int fd);
/*
 * Moves output into a pipe inside the kernel: bytes taken from the terminal are in the pipe even if this process dies.
 * Returns >0 bytes; 0 if no process has the terminal open and no output is left; −1 with errno (EAGAIN = no output now,
 * or the pipe is full).
 */
ssize_t master_move(int fd, int pipe);
/* Returns >0 bytes written; 0 if the buffer is full; −1 with errno (EIO = no process has the terminal open). */
ssize_t master_write(int fd, const void *p, size_t n);
int master_resize(int fd, uint32_t rows, uint32_t cols);
int master_line_get(int fd, struct master_line *ret);

#endif

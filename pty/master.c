#include "pty/master.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define MOVE_AT_ONCE 16384u /* the pipe's pages are allocated for this much; a terminal rarely has more */

/* Only a master has a number. */
bool master_is(int fd)
{
	unsigned number;

	return ioctl(fd, TIOCGPTN, &number) == 0;
}

/* EIO: the last process has closed the terminal, which is the end of output and no failure. */
ssize_t master_move(int fd, int pipe)
{
	ssize_t n;

	do
		n = splice(fd, NULL, pipe, NULL, MOVE_AT_ONCE, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	while (n < 0 && errno == EINTR);
	return n < 0 && errno == EIO ? 0 : n;
}

ssize_t master_write(int fd, const void *p, size_t n)
{
	ssize_t r;

	do
		r = write(fd, p, n);
	while (r < 0 && errno == EINTR);
	return r < 0 && errno == EAGAIN ? 0 : r;
}

int master_resize(int fd, uint32_t rows, uint32_t cols)
{
	const struct winsize size = { .ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols };

	return ioctl(fd, TIOCSWINSZ, &size);
}

int master_line_get(int fd, struct master_line *ret)
{
	struct termios t;

	if (tcgetattr(fd, &t) < 0)
		return -1;
	*ret = (struct master_line){ .echo = t.c_lflag & ECHO, .canonical = t.c_lflag & ICANON, .eof = t.c_cc[VEOF] };
	return 0;
}

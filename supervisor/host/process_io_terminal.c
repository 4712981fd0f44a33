/* Size and modes of a command's terminal; process_io.c moves its output. */

#include "supervisor/host/process_io.h"

#include "pty/master.h"

#include <errno.h>

int process_io_line(const struct process_io *io, struct port_line *ret)
{
	struct master_line line;

	if (io->fds[GUARD_SLOT_PTY] < 0) {
		errno = ENOTTY;
		return -1;
	}
	if (master_line_get(io->fds[GUARD_SLOT_PTY], &line) < 0)
		return -1;
	*ret = (struct port_line){ .echo = line.echo, .canonical = line.canonical, .eof = line.eof };
	return 0;
}

int process_io_resize(const struct process_io *io, uint32_t rows, uint32_t cols)
{
	if (io->fds[GUARD_SLOT_PTY] >= 0)
		return master_resize(io->fds[GUARD_SLOT_PTY], rows, cols);
	errno = ENOTTY;
	return -1;
}

#include "pty/master.h"

#include "runtime/base/fd.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

struct terminal {
	int master, slave, pipe[2];
};

static struct terminal terminal_open(void)
{
	struct terminal t = { .master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK) };

	ck_assert_int_ge(t.master, 0);
	ck_assert(unlockpt(t.master) == 0 && pipe2(t.pipe, O_CLOEXEC) == 0);
	t.slave = ioctl(t.master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	ck_assert_int_ge(t.slave, 0);
	return t;
}

static void terminal_close(struct terminal *t)
{
	int *all[] = { &t->master, &t->slave, &t->pipe[0], &t->pipe[1] };

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		fd_close(all[i]);
}

static void wait_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	ck_assert_int_eq(poll(&p, 1, 60000), 1);
}

START_TEST(output_moves_to_the_pipe_until_the_last_slave_closes)
{
	struct terminal t = terminal_open();
	char got[64] = "";

	ck_assert_int_eq(master_move(t.master, t.pipe[1]), -1);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_int_eq(write(t.slave, "one\n", 4), 4);
	wait_readable(t.master);
	ck_assert_int_eq(master_move(t.master, t.pipe[1]), 5);
	ck_assert_int_eq(write(t.slave, "two\n", 4), 4);
	fd_close(&t.slave);
	wait_readable(t.master);
	ck_assert_int_eq(master_move(t.master, t.pipe[1]), 5);
	ck_assert_int_eq(master_move(t.master, t.pipe[1]), 0);
	ck_assert_int_eq(read(t.pipe[0], got, sizeof got), 10);
	ck_assert_str_eq(got, "one\r\ntwo\r\n");
	ck_assert_int_eq(master_write(t.master, "x", 1), 1); /* the kernel accepts it although no process reads it */
	terminal_close(&t);
}
END_TEST

/* A full pipe is not the end of output: the bytes stay in the terminal. */
START_TEST(a_full_pipe_loses_nothing)
{
	struct terminal t = terminal_open();
	char fill[4096] = { 0 };
	size_t full = 0;
	ssize_t n;

	ck_assert_int_eq(fd_nonblock(t.pipe[1], true), 0);
	while ((n = write(t.pipe[1], fill, sizeof fill)) > 0)
		full += (size_t)n;
	ck_assert_int_eq(write(t.slave, "kept", 4), 4);
	wait_readable(t.master);
	ck_assert_int_eq(master_move(t.master, t.pipe[1]), -1);
	ck_assert_int_eq(errno, EAGAIN);
	for (size_t got = 0; got < full; got += (size_t)n)
		ck_assert_int_gt(n = read(t.pipe[0], fill, sizeof fill), 0);
	ck_assert_int_eq(master_move(t.master, t.pipe[1]), 4);
	ck_assert_int_eq(read(t.pipe[0], fill, sizeof fill), 4);
	ck_assert_int_eq(memcmp(fill, "kept", 4), 0);
	terminal_close(&t);
}
END_TEST

START_TEST(size_and_line_settings_are_those_of_the_slave)
{
	struct terminal t = terminal_open();
	struct master_line line;
	struct winsize size;
	struct termios modes;

	ck_assert_int_eq(master_resize(t.master, 33, 101), 0);
	ck_assert_int_eq(ioctl(t.slave, TIOCGWINSZ, &size), 0);
	ck_assert_uint_eq(size.ws_row, 33);
	ck_assert_uint_eq(size.ws_col, 101);
	ck_assert_int_eq(master_line_get(t.master, &line), 0);
	ck_assert(line.echo && line.canonical && line.eof == 4);
	ck_assert_int_eq(tcgetattr(t.slave, &modes), 0);
	modes.c_lflag &= ~(tcflag_t)ECHO;
	modes.c_cc[VEOF] = 5;
	ck_assert_int_eq(tcsetattr(t.slave, TCSANOW, &modes), 0);
	ck_assert_int_eq(master_line_get(t.master, &line), 0);
	ck_assert(!line.echo && line.canonical && line.eof == 5);
	terminal_close(&t);
}
END_TEST

START_TEST(unread_input_is_accepted_up_to_a_limit)
{
	struct terminal t = terminal_open();
	struct termios modes;
	char block[4096];
	size_t taken = 0;
	ssize_t n;

	memset(block, 'x', sizeof block);
	ck_assert_int_eq(tcgetattr(t.slave, &modes), 0);
	cfmakeraw(&modes);
	ck_assert_int_eq(tcsetattr(t.slave, TCSANOW, &modes), 0);
	while ((n = master_write(t.master, block, sizeof block)) > 0)
		taken += (size_t)n;
	ck_assert_int_eq(n, 0);
	ck_assert_uint_lt(taken, 1u << 20);
	for (size_t got = 0; got < taken; got += (size_t)n)
		ck_assert_int_gt(n = read(t.slave, block, sizeof block), 0);
	ck_assert_int_gt(master_write(t.master, block, sizeof block), 0);
	terminal_close(&t);
}
END_TEST

START_TEST(only_a_master_is_recognized)
{
	struct terminal t = terminal_open();

	ck_assert(master_is(t.master));
	ck_assert(!master_is(t.slave));
	ck_assert(!master_is(t.pipe[0]));
	terminal_close(&t);
}
END_TEST

int main(void)
{
	return SUITE("master", output_moves_to_the_pipe_until_the_last_slave_closes, a_full_pipe_loses_nothing,
		     size_and_line_settings_are_those_of_the_slave, unread_input_is_accepted_up_to_a_limit,
		     only_a_master_is_recognized);
}

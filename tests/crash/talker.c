/*
 * The command that tests run under bailiff. It has no dependencies and starts fast.
 *
 *   talker talk SEED COUNT DELAY_US EXIT     COUNT numbered records, odd ones on stderr; each can be checked alone
 *   talker spew SEED BYTES                   BYTES pseudo-random bytes on stdout, as fast as they go
 *   talker hold KIND MARK                    stays until it is killed; prints "ready" when it is set up
 *       KIND: plain | setsid | daemon (double fork, own session) | ignore (all signals that can be) | many (a small
 *         tree)
 *   talker left MARK                         leaves a detached child that keeps stdout open and says "ready" once it
 *                                            is alone, and exits 0
 *   talker spin                              burns cpu
 *   talker send WHAT                         sends a descriptor through the socket "out" of the working directory
 *       WHAT: nothing (/dev/null) | folder (/tmp) | locked (the same, with a lock) | file (of /tmp, without a name)
 *         | terminal | unix | inet | inet6 (a socket)
 *   talker packet                            sends one to itself
 *   talker queue                             makes a message queue of POSIX
 *
 * Record i of a seed: "%08x %06u %08x\n" of seed, i and talker_hash(seed, i); the Python tests compute the same.
 */

#include <arpa/inet.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static uint32_t talker_hash(uint32_t seed, uint32_t i)
{
	uint32_t h = seed ^ (i * 2654435761u);
	h ^= h >> 15;
	h *= 2246822519u;
	h ^= h >> 13;
	return h;
}

static void put(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t r = write(fd, p, n);
		if (r <= 0)
			_exit(99);
		p += r;
		n -= (size_t)r;
	}
}

static int talk(uint32_t seed, uint32_t count, long delay_us, int code)
{
	struct timespec pause_for = { delay_us / 1000000, delay_us % 1000000 * 1000 };
	for (uint32_t i = 0; i < count; i++) {
		char line[64];
		int n = snprintf(line, sizeof line, "%08x %06u %08x\n", seed, i, talker_hash(seed, i));
		put(i % 2 ? 2 : 1, line, (size_t)n);
		if (delay_us)
			nanosleep(&pause_for, NULL);
	}
	return code;
}

static int spew(uint32_t seed, unsigned long long bytes)
{
	static uint32_t block[16384];
	for (uint32_t at = 0; bytes; at++) {
		for (uint32_t i = 0; i < 16384; i++)
			block[i] = talker_hash(seed + at, i);
		size_t n = bytes < sizeof block ? (size_t)bytes : sizeof block;
		put(1, (const char *)block, n);
		bytes -= n;
	}
	return 0;
}

static void hold_on(void)
{
	put(1, "ready\n", 6);
	for (;;)
		pause();
}

static int hold(const char *kind)
{
	if (!strcmp(kind, "setsid")) {
		if (fork() == 0) {
			setsid();
			hold_on();
		}
	} else if (!strcmp(kind, "daemon")) {
		if (fork() == 0) {
			setsid();
			if (fork() == 0)
				hold_on();
			_exit(0);
		}
	} else if (!strcmp(kind, "ignore")) {
		for (int s = 1; s < 32; s++)
			sigaction(s, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL);
	} else if (!strcmp(kind, "many")) {
		for (int i = 0; i < 3; i++)
			if (fork() == 0) {
				fork();
				for (;;)
					pause();
			}
	}
	if (strcmp(kind, "setsid") != 0 && strcmp(kind, "daemon") != 0)
		hold_on();
	for (;;)
		pause();
}

static int make(const char *what)
{
	if (!strcmp(what, "nothing"))
		return open("/dev/null", O_RDONLY);
	if (!strcmp(what, "folder"))
		return open("/tmp", O_RDONLY);
	if (!strcmp(what, "locked")) {
		int fd = open("/tmp", O_RDONLY);
		return flock(fd, LOCK_EX) < 0 ? -1 : fd;
	}
	if (!strcmp(what, "file"))
		return open("/tmp", O_TMPFILE | O_RDWR, 0600);
	if (!strcmp(what, "terminal"))
		return posix_openpt(O_RDWR | O_NOCTTY);
	return socket(!strcmp(what, "inet") ? AF_INET : !strcmp(what, "inet6") ? AF_INET6 : AF_UNIX, SOCK_STREAM, 0);
}

static int send_out(int fd)
{
	const struct sockaddr_un to = { .sun_family = AF_UNIX, .sun_path = "out" };
	struct iovec byte = { .iov_base = (char[]){ 'x' }, .iov_len = 1 };
	_Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof fd)] = { 0 };
	struct msghdr m = { .msg_iov = &byte, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };
	struct cmsghdr *rights = CMSG_FIRSTHDR(&m);
	*rights = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
				    .cmsg_type = SCM_RIGHTS,
				    .cmsg_len = CMSG_LEN(sizeof fd) };
	memcpy(CMSG_DATA(rights), &fd, sizeof fd);
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	if (fd < 0 || connect(s, (const struct sockaddr *)&to, sizeof to) < 0 || sendmsg(s, &m, 0) != 1)
		return 1;
	return read(s, room, 1) != 0; /* until it was received */
}

static int send_packet(void)
{
	const struct sockaddr_in to = { .sin_family = AF_INET,
					.sin_port = htons(9),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	return sendto(s, "x", 1, 0, (const struct sockaddr *)&to, sizeof to) != 1;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";
	if (!strcmp(verb, "talk") && argc == 6)
		return talk((uint32_t)strtoul(argv[2], NULL, 0), (uint32_t)strtoul(argv[3], NULL, 0),
			    strtol(argv[4], NULL, 0), (int)strtol(argv[5], NULL, 0));
	if (!strcmp(verb, "spew") && argc == 4)
		return spew((uint32_t)strtoul(argv[2], NULL, 0), strtoull(argv[3], NULL, 0));
	if (!strcmp(verb, "hold") && argc == 4)
		return hold(argv[2]);
	if (!strcmp(verb, "left") && argc == 3) {
		int alone[2];
		char none;
		if (pipe(alone) < 0)
			return 99;
		if (fork() == 0) {
			setsid();
			close(alone[1]);
			while (read(alone[0], &none, 1) > 0) /* ends when the parent has exited */
				continue;
			hold_on();
		}
		return 0;
	}
	if (!strcmp(verb, "send") && argc == 3)
		return send_out(make(argv[2]));
	if (!strcmp(verb, "packet"))
		return send_packet();
	if (!strcmp(verb, "queue")) {
		(void)mq_open("/left", O_RDWR | O_CREAT, 0600, NULL); /* denied, after the queue was made */
		return 0;
	}
	if (!strcmp(verb, "spin"))
		for (;;)
			__asm__ volatile("");
	fprintf(stderr,
		"talker: talk SEED COUNT DELAY_US EXIT | spew SEED BYTES | hold KIND MARK | left MARK | spin\n");
	return 2;
}

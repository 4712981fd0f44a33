/*
 * The command that tests run under bailiff. It has no dependencies and starts fast.
 *
 *   talker talk SEED COUNT DELAY_US EXIT     COUNT numbered records, odd ones on stderr; each can be checked alone
 *   talker spew SEED BYTES                   BYTES pseudo-random bytes on stdout, as fast as they go
 *   talker hold KIND MARK                    stays until it is killed; says "ready" when it is set up
 *       KIND: plain | setsid | daemon (double fork, own session) | ignore (all signals that can be) | many (a small
 *         tree)
 *   talker left MARK                         leaves a detached child that keeps stdout open and says "ready" once it
 *                                            is alone, and exits 0
 *   talker spin                              burns cpu
 *
 * Record i of a seed: "%08x %06u %08x\n" of seed, i and talker_hash(seed, i); the Python tests compute the same.
 */

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
	if (!strcmp(verb, "spin"))
		for (;;)
			__asm__ volatile("");
	fprintf(stderr,
		"talker: talk SEED COUNT DELAY_US EXIT | spew SEED BYTES | hold KIND MARK | left MARK | spin\n");
	return 2;
}

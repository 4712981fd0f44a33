/*
 * How long understanding a command line takes: typical lines, one of 200 words, and the worst that the limits let
 * through.
 *
 * bench_command_analysis [ROUNDS]
 */

#include "policy/command_analysis.h"
#include "runtime/base/buf.h"
#include "runtime/base/mem.h"

#include <stdint.h>
#include <string.h>
#include <time.h>

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void measure(const char *what, const char *line, size_t len, unsigned rounds)
{
	const struct analysis_options o = { .cwd = "/w/proj", .workspace = "/w/proj", .home = "/home/u" };
	uint64_t *took = mem_zalloc(rounds, sizeof(*took));
	size_t commands = 0;

	for (unsigned i = 0; i < rounds; i++) {
		struct command_facts f;
		const uint64_t start = now_ns();

		command_analyse_line(line, len, &o, &f);
		took[i] = now_ns() - start;
		commands = f.ncommands;
		command_facts_done(&f);
	}
	qsort(took, rounds, sizeof(*took), by_value);
	printf("%-28s %8zu bytes %5zu commands   p50 %9.1f µs   p99 %9.1f µs\n", what, len, commands,
	       (double)took[rounds / 2] / 1000, (double)took[rounds * 99 / 100] / 1000);
	free(took);
}

static void repeat(const char *what, const char *head, const char *piece, size_t times, unsigned rounds)
{
	buf_auto struct buf line = BUF_INIT;

	buf_str(&line, head);
	while (times--)
		buf_str(&line, piece);
	measure(what, line.data, line.len, rounds);
}

int main(int argc, char **argv)
{
	const unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 2000, few = rounds / 200 + 1;
	static const char typical[] = "cd build && cmake .. -DCMAKE_BUILD_TYPE=Debug 2>&1 | tail -5";
	static const char nested[] =
		"sudo env X=1 timeout 5 bash -c 'find . -name \"*.o\" -exec rm {} \\; | xargs -n1 echo $(date)'";

	measure("ls", "ls -la", 6, rounds);
	measure("typical", typical, strlen(typical), rounds);
	measure("nested", nested, strlen(nested), rounds);
	repeat("200 words, one command", "git commit", " word1 --opt", 99, rounds);
	repeat("200 words, 40 commands", "true", "; grep -n foo bar", 49, rounds);
	repeat("128 KiB of words", "echo", " some words and \"$more\"", (128 << 10) / 24, few);
	repeat("2,000 commands", "a", ";rm -rf x", 1999, few);
	repeat("nested subshells", "", "(", 1 << 20, few);
	repeat("braces", "echo ", "{a,b}", 200000, few);
	repeat("texts in texts", "", "((eval 'eval \"eval {a,b}\"'));", 30000, few);
	return 0;
}

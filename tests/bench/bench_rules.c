/*
 * How long a decision takes with ten thousand rules: command lines of one word and of 200, one command and many,
 * understanding them included.
 *
 * bench_rules [ROUNDS]
 */

#include "policy/command_analysis.h"
#include "policy/decision.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define RULES 10000

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts); /* CPU time only: other load does not count */
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* As people write them: most begin with a program, some name paths and hosts, a few begin with a wildcard. */
static void rules_text(struct buf *out)
{
	static const char *const lists[] = { "deny", "ask", "allow" };

	buf_str(out, "{\"permissions\":{");
	for (int l = 0; l < 3; l++) {
		buf_printf(out, "%s\"%s\":[\"Bash(never-%d)\"", l ? "," : "", lists[l], l);
		for (int i = 0; i < RULES * 9 / 10 / 3; i++)
			buf_printf(out,
				   i % 20 == 0     ? ",\"Bash(git push origin%d *)\""
				   : i % 20 == 1   ? ",\"Read(~/.secret%d/**)\""
				   : i % 20 == 2   ? ",\"Edit(/gen%d/*.c)\""
				   : i % 20 == 3   ? ",\"WebFetch(domain:h%d.example)\""
				   : i % 1000 == 4 ? ",\"Bash(* --danger%d)\""
						   : ",\"Bash(tool%d run:*)\"",
				   i + l * RULES);
		buf_str(out, "]");
	}
	buf_str(out, "},\"prefixRules\":[{\"pattern\":[\"x\"]}");
	for (int i = 0; i < RULES / 10; i++)
		buf_printf(out, ",{\"pattern\":[\"cargo\",\"sub%d\"],\"decision\":\"prompt\"}", i);
	buf_str(out, "]}");
}

static double measure(const struct policy_rules *s, const char *what, const char *line, unsigned rounds)
{
	const struct analysis_options o = { .cwd = "/w/proj", .workspace = "/w/proj", .home = "/home/u" };
	uint64_t *took = mem_zalloc(rounds, sizeof(*took));
	struct policy_decision d = { 0 };

	for (unsigned i = 0; i < rounds; i++) {
		struct command_facts f;
		const uint64_t start = now_ns();

		command_analyse_line(line, strlen(line), &o, &f);
		const struct policy_request q = { .command_line = line,
						  .cwd = o.cwd,
						  .workspace = o.workspace,
						  .home = o.home,
						  .mode = MODE_DEFAULT,
						  .facts = &f,
						  .rules = s };
		policy_decide(&q, &d);
		took[i] = now_ns() - start;
		command_facts_done(&f);
	}
	qsort(took, rounds, sizeof(*took), by_value);
	double p99 = (double)took[rounds * 99 / 100] / 1000;
	printf("%-40s %-6s p50 %8.1f µs   p99 %8.1f µs\n", what, policy_answer_name(d.answer),
	       (double)took[rounds / 2] / 1000, p99);
	free(took);
	return p99;
}

static void repeat(struct buf *out, const char *head, const char *piece, int times)
{
	buf_reset(out);
	buf_str(out, head);
	while (times--)
		buf_str(out, piece);
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 2000;
	buf_auto struct buf text = BUF_INIT, line = BUF_INIT;
	struct policy_rules s = RULES_INIT;
	struct err e = ERR_INIT;

	rules_text(&text);
	const uint64_t start = now_ns();
	if (policy_rules_parse(&s, RULE_OF_USER, "bench", text.data, text.len, &e) < 0) {
		fprintf(stderr, "%s\n", e.message);
		return 1;
	}
	printf("%zu rules loaded in %.1f ms\n", s.count, (double)(now_ns() - start) / 1e6);
	measure(&s, "ls", "ls", rounds);
	measure(&s, "git push origin7 main", "git push origin7 main", rounds);
	repeat(&line, "printf", " word", 199);
	double worst = measure(&s, "200 words, one command", line.data, rounds);
	repeat(&line, "true", " && tool7 run x", 49);
	double many = measure(&s, "200 words, 50 commands", line.data, rounds);
	worst = many > worst ? many : worst;
	static const char *const programs[] = { "cat", "a-tool-that-nobody-knows" };
	for (size_t i = 0; i < countof(programs); i++) {
		char what[64];

		buf_reset(&line);
		buf_str(&line, programs[i]);
		for (int k = 0; k < 199; k++)
			buf_printf(&line, " a/file%d", k);
		(void)snprintf(what, sizeof(what), "199 paths, %s", programs[i]);
		double paths = measure(&s, what, line.data, rounds);
		worst = paths > worst ? paths : worst;
	}
	policy_rules_done(&s);
	printf("the worst p99: %.1f µs\n", worst);
	return 0;
}

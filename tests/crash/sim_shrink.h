#ifndef BAILIFF_TESTS_SIM_SHRINK_H
#define BAILIFF_TESTS_SIM_SHRINK_H

/*
 * A history that fails is shrunk: steps are left out, in ever smaller portions, as long as it fails in the same way.
 * Each attempt is a process of its own, because the failure may be a crash of the engine.
 */

#include "tests/crash/sim_run.h"

#include <ctype.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define SIGNALLED "the engine was ended by signal "
#define ATTEMPTS 3000u

static void *shared_memory(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

/* What goes wrong in it; "" = nothing. */
static void attempt(const struct script *x, enum sim_mode mode, char wrong[300])
{
	struct sim *s = shared_memory(sizeof *s);
	const pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		if (mode != SIM_TELLS && (dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO) < 0))
			_exit(1);
		sim_run(s, x, mode);
		sim_end(s);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (status) {
		snprintf(wrong, 300, SIGNALLED "%d", WTERMSIG(status));
		remove_dir(s);
	} else {
		memcpy(wrong, s->check.wrong, 300);
	}
	munmap(s, sizeof *s);
}

/* Apart from words with numbers, which are ids and sequences. */
static bool same_failure(const char *a, const char *b)
{
	while (*a || *b) {
		const size_t m = strcspn(a, " "), n = strcspn(b, " "), da = strcspn(a, "0123456789"),
			     db = strcspn(b, "0123456789");

		if ((da < m) != (db < n) || (da >= m && (m != n || strncmp(a, b, m) != 0)))
			return false;
		a += m + strspn(a + m, " ");
		b += n + strspn(b + n, " ");
	}
	return true;
}

static void shrink(struct script *x, const char *wrong, enum sim_mode mode)
{
	unsigned tried = 0;

	for (unsigned portion = x->count / 2, removed = 0; portion && tried < ATTEMPTS;) {
		for (unsigned at = 0; at < x->count && tried < ATTEMPTS; tried++) {
			const unsigned n = portion < x->count - at ? portion : x->count - at;
			struct script less = *x;
			char now[300];

			less.count -= n;
			memmove(less.steps + at, less.steps + at + n, (less.count - at) * sizeof *less.steps);
			attempt(&less, mode, now);
			if (same_failure(now, wrong)) {
				*x = less;
				removed++;
			} else {
				at += n;
			}
		}
		if (portion > 1)
			portion /= 2;
		else if (!removed)
			break;
		else
			removed = 0;
	}
}

/* Runs it and prints each step. True: it fails. */
static bool tell_script(const struct script *x)
{
	char wrong[300];

	fprintf(stderr, "SEED=%llu SIM_SCRIPT=", (unsigned long long)x->seed);
	for (unsigned i = 0; i < x->count; i++)
		fprintf(stderr, "%s%u", i ? "," : "", x->steps[i]);
	fprintf(stderr, "\n");
	attempt(x, SIM_TELLS, wrong);
	fprintf(stderr, "%s\n", wrong[0] ? wrong : "nothing is wrong");
	return wrong[0] != '\0';
}

/* "3,17,40": only these. */
static void script_select(struct script *x, const char *steps)
{
	x->count = 0;
	for (const char *at = steps; isdigit((unsigned char)*at) && x->count < STEPS_MOST;) {
		char *end;

		x->steps[x->count++] = (unsigned)strtoul(at, &end, 10);
		at = end + (*end == ',');
	}
}

#endif

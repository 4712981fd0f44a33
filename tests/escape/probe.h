#ifndef BAILIFF_TESTS_ESCAPE_PROBE_H
#define BAILIFF_TESTS_ESCAPE_PROBE_H

/*
 * Ways out of a sandbox, one function each. A probe tries the thing itself: ≥ 0 = it worked (the way is open), −1 with
 * errno = it was denied (shut). Each runs in a process of its own, so it need not clean up after itself in memory; on
 * disk it does.
 */

struct probe {
	const char *name;
	int (*try_it)(const char *arg); /* what follows '=' in the command line; "" = nothing */
};

extern const struct probe probe_files[], probe_kernel[], probe_process[], probe_network[];

/* More about the outcome, shown after it. */
void probe_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* −1 with that errno. */
int probe_shut(int error);
/*
 * For calls that must not succeed on the host even where they may: they are given nonsense, and an answer about the
 * nonsense means that the way to it is open.
 */
int probe_reached(long result, int nonsense);

#endif

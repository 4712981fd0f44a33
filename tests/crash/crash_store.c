/*
 * SIGKILL against the store: a child appends and reports acknowledgements until it is killed at a random moment. Then
 * all acknowledged events must exist, without a gap, and verify must succeed. The control acknowledges before the
 * commit and must be caught, or the test would prove nothing.
 *
 * STORE_N=n and SEED=n set the number of kills and the seed, which is printed.
 */

#include "tests/crash/appender.h"

#define DEFAULT_KILLS 300
#define CONTROL_KILLS 60
#define CONTROL_KILLS_MAX 600
#define KILLS_A_STORE 10

static unsigned seed, kills;

/* SIGKILL does not affect the page cache, so a file system in memory proves the same, with many more kills a minute.
 */
static void init(struct rig *r)
{
	rig_init_quick(r);
	r->o.soon_ms = 1;
}

/* Kills one child; returns what it acknowledged last. */
static struct ack run_once(struct rig *r, bool early, unsigned *windows)
{
	struct ack a = { 0 }, next;
	useconds_t wait = (useconds_t)(rand() % 20000);
	int p[2], status;
	pid_t pid;

	ck_assert_int_eq(pipe(p), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		close(p[0]);
		appender_main(r, p[1], early, false);
	}
	close(p[1]);
	/* half of the delays start at the first acknowledgement, so that not every kill hits the opening */
	if (rand() % 2 && read(p[0], &next, sizeof(next)) == sizeof(next))
		a = next;
	usleep(wait);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFSIGNALED(status), "the child ended by itself with %d", WEXITSTATUS(status));
	while (read(p[0], &next, sizeof(next)) == sizeof(next))
		a = next;
	close(p[0]);
	*windows += a.last != 0;
	return a;
}

START_TEST(acknowledged_survives_sigkill)
{
	uint64_t before = 0, events = 0;
	unsigned windows = 0;
	struct rig r;

	init(&r);
	srand(seed);
	for (unsigned i = 0; i < kills; i++) {
		struct ack a;
		struct rig_seen x;

		if (i % KILLS_A_STORE == KILLS_A_STORE - 1) { /* a new one: a long log makes every round long */
			events += before;
			before = 0;
			rig_done(&r);
			init(&r);
		}
		a = run_once(&r, false, &windows);
		rig_open(&r);
		ck_assert_uint_ge(store_last_sequence(r.s), a.last);
		ck_assert_uint_ge(store_last_sequence(r.s), before);
		before = store_last_sequence(r.s);
		x = rig_events(&r, 0, 0, -1, NULL);
		ck_assert(x.gapless && x.count == before);
		ck_assert_uint_ge(appender_bytes(&r), a.spooled);
		rig_verify_ok(&r);
		rig_close(&r);
	}
	printf("# %u kills (seed %u), %u of them after an acknowledgement; %llu events; 0 lost, 0 gaps\n", kills, seed,
	       windows, (unsigned long long)(events + before));
	ck_assert_uint_gt(windows, kills / 4);
	rig_done(&r);
}
END_TEST

/* The same loop must detect a store that acknowledges too early: not with every kill, but often enough. */
START_TEST(the_control_is_caught)
{
	unsigned caught = 0, windows = 0, i;
	struct rig r;

	init(&r);
	srand(seed);
	for (i = 0; i < CONTROL_KILLS || (!caught && i < CONTROL_KILLS_MAX); i++) {
		struct ack a = run_once(&r, true, &windows);

		rig_open(&r);
		caught += store_last_sequence(r.s) < a.last;
		rig_close(&r);
	}
	printf("# control: acknowledging before the commit was caught in %u of %u kills\n", caught, i);
	ck_assert_uint_gt(caught, 0);
	rig_done(&r);
}
END_TEST

int main(void)
{
	const char *s = getenv("SEED"), *n = getenv("STORE_N");

	seed = s ? (unsigned)strtoul(s, NULL, 10) : (unsigned)time(NULL);
	kills = n ? (unsigned)strtoul(n, NULL, 10) : DEFAULT_KILLS;
	const struct suite_case all = { "crash_store", NULL, NULL, 3600,
					SUITE_TESTS(acknowledged_survives_sigkill, the_control_is_caught) };
	return suite_run_cases("crash_store", &all, 1);
}

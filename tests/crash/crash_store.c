/*
 * SIGKILL against the store: a child appends and says what was acknowledged; it is killed at a random moment; then
 * everything acknowledged must be there, without a gap, and verify must agree. The control acknowledges before the
 * commit and must be caught, or the test would prove nothing.
 *
 * STORE_N=kills SEED=n choose how many and which; the seed is printed.
 */

#include "tests/unit/runtime/store/rig.h"

#include "runtime/store/spool.h"

#include <errno.h>

#define DEFAULT_KILLS 300
#define CONTROL_KILLS 60
#define KILLS_A_STORE 10

static unsigned seed, kills;

/* SIGKILL takes nothing from the page cache, so a file system in memory proves the same, with many more kills a minute. */
static void init(struct rig *r)
{
	char dir[] = "/dev/shm/bailiff-store-XXXXXX";

	if (mkdtemp(dir))
		rig_at(r, dir);
	else
		rig_init(r);
	r->o.soon_ms = 1;
}

/* What the child says through the pipe after a batch was decided (or, as the control, when it was submitted). */
struct ack {
	uint64_t last;
	uint64_t spooled; /* bytes of out_1 that events cite */
};

struct child {
	struct rig *r;
	int pipe;
	bool early;
	struct spool_file spool;
	uint64_t cited, submitted;
	struct ack pending[64];
	unsigned in_flight, head;
};

static void say(struct child *c, const struct ack *a)
{
	if (write(c->pipe, a, sizeof(*a)) != sizeof(*a))
		_exit(0);
}

static void decided(void *ctx, const struct store_result *res)
{
	struct child *c = ctx;
	struct ack a = c->pending[c->head % 64];

	if (res->status != 0)
		_exit(3);
	if (a.last != res->last_sequence)
		_exit(4);
	c->head++;
	c->in_flight--;
	if (!c->early)
		say(c, &a);
}

static void submit_one(struct child *c, unsigned i)
{
	struct store_batch *b = store_batch_new(c->r->s);
	unsigned events = 1 + i % 4;
	struct ack a;

	for (unsigned k = 0; k < events; k++)
		rig_event(b, k % 2 ? EVENT_PROCESS_OUTPUT : EVENT_RUNTIME_WARNING, i % 2 ? "sess_a" : "sess_b", "proc_1", i);
	if (i % 3 == 0) {
		char bytes[700];

		for (size_t k = 0; k < sizeof(bytes); k++)
			bytes[k] = (char)(c->spool.size + k);
		if (pwrite(c->spool.fd, bytes, sizeof(bytes), (off_t)c->spool.size) != (ssize_t)sizeof(bytes))
			_exit(5);
		c->spool.size += sizeof(bytes);
		store_batch_spool(b, "out_1", c->spool.fd, c->cited, c->spool.size - c->cited);
		c->cited = c->spool.size;
	}
	c->submitted += events;
	a = (struct ack){ .last = c->submitted, .spooled = c->cited };
	c->pending[(c->head + c->in_flight) % 64] = a;
	c->in_flight++;
	if (c->early)
		say(c, &a);
	store_submit(c->r->s, b, 0, decided, c);
}

static void child_main(struct rig *r, int fd, bool early)
{
	struct child c = { .r = r, .pipe = fd, .early = early };
	struct err e = ERR_INIT;
	int dir;

	if (store_open(&r->o, &r->s, &e) != 0) {
		fprintf(stderr, "# child: %s\n", e.message);
		_exit(2);
	}
	c.submitted = store_last_sequence(r->s);
	dir = open(r->spool_dir, O_RDONLY | O_DIRECTORY);
	if (spool_open(dir, "out_1", 0, &c.spool, &e) != 0)
		_exit(2);
	/* what came before the last kill and was not cited is cited now: nothing of a stream is lost */
	{
		buf_auto struct buf out = BUF_INIT;

		while (c.cited < c.spool.size) {
			buf_reset(&out);
			if (store_output_read(r->s, "out_1", c.cited, 1 << 20, &out, &e) != 0)
				_exit(6);
			if (out.len == 0)
				break;
			c.cited += out.len;
		}
	}
	for (unsigned i = 0;;) {
		struct pollfd p = { .fd = store_dispatch_fd(r->s), .events = POLLIN };

		do
			submit_one(&c, i++);
		while (c.in_flight < 32 && i % 40);
		poll(&p, 1, 1000);
		store_dispatch(r->s);
	}
}

/* Kills one child; what it acknowledged last. */
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
		child_main(r, p[1], early);
	}
	close(p[1]);
	/* half of the kills count from the first word, so that they do not all fall into the opening */
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

static uint64_t durable_bytes(struct rig *r)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	uint64_t n = 0;

	for (;;) {
		buf_reset(&out);
		ck_assert_msg(store_output_read(r->s, "out_1", n, 1 << 20, &out, &e) == 0, "%s", e.message);
		if (out.len == 0)
			return n;
		for (size_t i = 0; i < out.len; i++)
			if ((unsigned char)out.data[i] != (unsigned char)(n + i))
				ck_abort_msg("byte %llu is wrong", (unsigned long long)(n + i));
		n += out.len;
	}
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
		ck_assert_uint_ge(durable_bytes(&r), a.spooled);
		rig_verify_ok(&r);
		rig_close(&r);
	}
	printf("# %u kills (seed %u), %u of them after an acknowledgement; %llu events; 0 lost, 0 gaps\n", kills, seed, windows,
	       (unsigned long long)(events + before));
	ck_assert_uint_gt(windows, kills / 4);
	rig_done(&r);
}
END_TEST

/* The same loop must see a store that speaks too early. */
START_TEST(the_control_is_caught)
{
	unsigned caught = 0, windows = 0;
	struct rig r;

	init(&r);
	srand(seed);
	for (unsigned i = 0; i < CONTROL_KILLS; i++) {
		struct ack a = run_once(&r, true, &windows);

		rig_open(&r);
		caught += store_last_sequence(r.s) < a.last;
		rig_close(&r);
	}
	printf("# control: acknowledging before the commit was caught in %u of %u kills\n", caught, CONTROL_KILLS);
	ck_assert_uint_gt(caught, 0);
	rig_done(&r);
}
END_TEST

int main(void)
{
	const char *s = getenv("SEED"), *n = getenv("STORE_N");

	seed = s ? (unsigned)strtoul(s, NULL, 10) : (unsigned)time(NULL);
	kills = n ? (unsigned)strtoul(n, NULL, 10) : DEFAULT_KILLS;
	Suite *suite = suite_create("crash_store");
	TCase *t = tcase_create("crash_store");
	SRunner *runner;

	tcase_set_timeout(t, 3600);
	tcase_add_test(t, acknowledged_survives_sigkill);
	tcase_add_test(t, the_control_is_caught);
	suite_add_tcase(suite, t);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	unsigned failed = (unsigned)srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}

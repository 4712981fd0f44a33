/*
 * The simulator of a fleet: three nodes (supervisor/fleet, unchanged) over a simulated server and simulated daemons, a
 * client that submits, cancels and retries, and faults: killed and stopped nodes, frozen and crashed machines, restarts
 * of runtimes and of the server, partitions, calls whose request or answer is lost or arrives late, clocks that differ
 * in time and rate. Then the faults end, and every task has to end, too.
 *
 * Checked: no task is lost; a document that has ended stays as it is; a task completes once, with a command that
 * completed; every start of a command has its own attempt, token and entry among the attempts; nothing starts again
 * after `lost` unless its submitter permitted that; and no two commands of one task run at the same time.
 *
 * In other worlds a hostile client also writes documents: earlier ones, or some in which a task is queued. Whatever the
 * documents contain then, the commands that were started are checked: no more of them than the signed texts permit,
 * none after one that completed, and no two at the same time.
 *
 * The controls are a daemon that does not end tasks whose lease is over, a server that ignores revisions, a daemon that
 * forgets its tasks, and a server without the records of starts: the checker must detect each of them.
 *
 * FLEET_STEPS=n SEED=n set the number of calls and the seed; FLEET_TELL=1 prints what happens in one world.
 */

#include "tests/crash/fleet_host.h"

#include "runtime/base/json_get.h"
#include "runtime/base/log.h"

#include <check.h>
#include <time.h>

#define DEFAULT_STEPS 300000u
#define TASKS 24
#define STARTS_MAX 128     /* of one task */
#define SETTLE_MS 3000000u /* after the last fault */

static char seed_text[FLEET_SEED_TEXT], key_text[FLEET_KEY_TEXT];
static uint64_t
	cancelled[TASKS]; /* revision of an acknowledged cancel, until a retry; 0: none. Claims must precede it */
static uint64_t granted[TASKS], grants[TASKS]; /* attempts, by requests to retry */
static struct buf earlier[TASKS];              /* an earlier version of a document */

/* ---- the client ---- */

static void write_spec(struct fleet_world *w, int number, struct buf *ret)
{
	static const unsigned leases[] = { 2000, 3000, 6000, 30000 };

	buf_printf(ret,
		   "{\"v\":1,\"id\":\"t%d\",\"command\":[\"true\"],\"submittedAt\":1800000000000,\"leaseMs\":%u,"
		   "\"priority\":%u,\"retries\":%u,"
		   "\"retryLost\":%u}",
		   number, leases[world_pick(w, 4)], world_pick(w, 2) ? 5 : 7, (unsigned)world_pick(w, 3),
		   world_pick(w, 3) ? (unsigned)world_pick(w, 3) : 0);
}

static int enqueue(struct actor *a, const struct fleet_task *t, struct err *e)
{
	struct buf buf_auto needs = BUF_INIT;
	char class[FLEET_CLASS_TEXT];

	fleet_needs_write(&t->spec.needs, &needs);
	fleet_needs_class(&t->spec.needs, class);
	if (a->port.ops->put_class(&a->port, class, (unsigned)t->spec.priority, &needs, e) < 0)
		return -1;
	return a->port.ops->enqueue(&a->port, class, (unsigned)t->spec.priority, t->spec.id, t->attempt + 1, e);
}

static void submit(struct actor *a, int number)
{
	struct buf buf_auto spec = BUF_INIT, text = BUF_INIT;
	struct fleet_signed signed_spec = { 0 };
	struct fleet_task t = { 0 };
	struct err e = ERR_INIT;
	uint64_t revision;

	write_spec(a->w, number, &spec);
	ck_assert_int_eq(fleet_signed_make(seed_text, buf_cstr(&spec), &signed_spec, &e), 0);
	ck_assert_msg(fleet_task_make(&signed_spec, &t, &e) == 0, "%s: %s", e.field, e.message);
	fleet_task_write(&t, &text);
	/* Without a reply it submits again, as a person would; sometimes it gives up after the document was created. */
	for (int i = 0; i < 50 && a->port.ops->create_task(&a->port, t.spec.id, &text, &revision, &e) < 0; i++)
		actor_wait(a, 500);
	if (world_pick(a->w, 8))
		(void)enqueue(a, &t, &e);
	fleet_task_done(&t);
}

static unsigned task_number(const char *id) { return (unsigned)strtoul(id + 1, NULL, 10) % TASKS; }

/* Cancels or retries a task, whatever its state is. */
static void change(struct actor *a)
{
	struct buf buf_auto text = BUF_INIT, changed = BUF_INIT;
	struct bus *b = (struct bus *)a->w;
	struct fleet_task t;
	struct err e = ERR_INIT;
	uint64_t revision;
	char id[FLEET_ID_MAX + 1];

	if (!b->ntasks)
		return;
	snprintf(id, sizeof(id), "%s", b->tasks[world_pick(a->w, b->ntasks)].id);
	if (a->port.ops->get_task(&a->port, id, &text, &revision, &e) != 0 ||
	    fleet_task_parse(text.data, text.len, &t, &e) < 0)
		return;
	bool retry = fleet_state_ended(t.state) && t.state != FLEET_COMPLETED;
	if (retry) {
		mem_auto char *args = mem_printf("{\"attempts\":%llu}", (unsigned long long)t.attempt + 1);

		fleet_signed_done(&t.retry);
		fleet_signed_done(&t.cancel);
		t.state = FLEET_QUEUED;
		if (granted[task_number(id)] < t.attempt + 1)
			granted[task_number(id)] = t.attempt + 1;
		grants[task_number(id)]++;
		ck_assert_int_eq(fleet_request_make(seed_text, "retry", id, args, &t.retry, &e), 0);
	} else if (t.state != FLEET_COMPLETED) {
		fleet_signed_done(&t.cancel);
		ck_assert_int_eq(fleet_request_make(seed_text, "cancel", id, NULL, &t.cancel, &e), 0);
		if (t.state == FLEET_QUEUED)
			t.state = FLEET_CANCELLED;
	}
	fleet_task_write(&t, &changed);
	if (retry)
		cancelled[task_number(id)] = 0; /* also if the answer is lost */
	if ((retry || t.state != FLEET_COMPLETED) &&
	    a->port.ops->update_task(&a->port, id, &changed, revision, &revision, &e) == 0) {
		if (retry)
			(void)enqueue(a, &t, &e);
		else
			cancelled[task_number(id)] = revision;
	}
	fleet_task_done(&t);
}

static void client_main(struct actor *a)
{
	for (int i = 0; i < TASKS; i++) {
		submit(a, i);
		actor_wait(a, world_pick(a->w, 8000));
		if (world_pick(a->w, 4) == 0)
			change(a);
	}
	a->killed = true;
}

/* ---- nodes ---- */

static void node_main(struct actor *a)
{
	struct fleet_sim *s = (struct fleet_sim *)a->w;

	fleet_node_init(&a->node, &a->port, &s->hosts[a->number].daemon, &a->config);
	while (!a->killed) {
		uint64_t before = actor_boot(a);

		a->w->steps++;
		if (a->woken)
			a->node.woken = true;
		a->woken = false;
		uint64_t next = fleet_node_tick(&a->node, before, actor_real(a)), after = actor_boot(a);
		actor_wait(a, a->woken || next <= after ? 1 : next - after);
	}
	fleet_node_done(&a->node);
}

static void actor_main(unsigned high, unsigned low)
{
	struct actor *a = (struct actor *)(((uintptr_t)high << 32) | low);

	if (a->number == FLEET_NODES)
		client_main(a);
	else
		node_main(a);
	a->done = true;
	swapcontext(&a->context, &a->w->scheduler);
}

static void actor_start(struct actor *a)
{
	uintptr_t p = (uintptr_t)a;

	getcontext(&a->context);
	a->context.uc_stack.ss_sp = a->stack;
	a->context.uc_stack.ss_size = ACTOR_STACK;
	a->context.uc_link = NULL;
	makecontext(&a->context, (void (*)(void))actor_main, 2, (unsigned)(p >> 32), (unsigned)p);
	a->alive = true;
	a->killed = a->done = false;
	a->wake_at = a->w->now;
}

/* ---- a world ---- */

static void world_init(struct fleet_sim *s, uint64_t seed, enum fleet_fault fault)
{
	struct fleet_world *w = &s->b.w;

	*w = (struct fleet_world){ .seed = seed, .fault = fault, .now = 1000, .tell = getenv("FLEET_TELL") != NULL };
	w->faults_until = 60000 + world_pick(w, 240000);
	for (int i = 0; i < FLEET_ACTORS; i++) {
		struct actor *a = &w->actors[i];

		*a = (struct actor){
			.w = w, .number = i, .port.ops = &bus_ops, .offset = 1000000 + world_pick(w, 1u << 30)
		};
		a->stack = mem_alloc(ACTOR_STACK);
		a->ppm = (int64_t)world_pick(w, 400) - 200;
		a->skew = (int64_t)world_pick(w, 200000) - 100000;
		snprintf(a->config.node, sizeof(a->config.node), "n%d", i);
		a->config.labels = json_object();
		a->config.max_tasks = 2 + world_pick(w, 4);
		a->config.memory = a->config.cpus = 1000;
		snprintf(a->submitter.key, sizeof(a->submitter.key), "%s", key_text);
		snprintf(a->submitter.name, sizeof(a->submitter.name), "sim");
		a->config.submitters = &a->submitter;
		a->config.nsubmitters = 1;
		if (i < FLEET_NODES)
			s->hosts[i] = (struct host){ .daemon.ops = &host_ops, .b = &s->b, .a = a };
		actor_start(a);
	}
}

/* A client that writes arbitrary documents: an earlier one, or one in which the task is queued. */
static void write_hostile(struct bus *b)
{
	struct buf buf_auto text = BUF_INIT;
	struct bus_task *t = b->ntasks ? &b->tasks[world_pick(&b->w, b->ntasks)] : NULL;
	struct fleet_task d;
	struct err e = ERR_INIT;

	if (!t)
		return;
	struct buf *kept = &earlier[task_number(t->id)];
	const struct buf *from = kept->len && world_pick(&b->w, 2) ? kept : &t->text;
	if (fleet_task_parse(from->data, from->len, &d, &e) < 0)
		return;
	if (world_pick(&b->w, 3)) {
		d.state = FLEET_QUEUED;
		d.attempt = world_pick(&b->w, d.attempt + 1 + (world_pick(&b->w, 4) ? 0 : 5));
		fleet_signed_done(&d.cancel);
	}
	if (world_pick(&b->w, 2))
		json_array_clear(d.attempts);
	fleet_task_write(&d, &text);
	if (!world_pick(&b->w, 3)) {
		buf_reset(kept);
		buf_append(kept, t->text.data, t->text.len);
	}
	b->w.counts[COUNT_HOSTILE]++;
	bus_write(b, t, &text, BUS_HOSTILE);
	/* Of another priority: the server accepts it although the task has a message. */
	if (b->nmessages < BUS_TASKS) {
		struct bus_message *m = &b->messages[b->nmessages++];

		*m = (struct bus_message){ .priority = world_pick(&b->w, 2) ? 5 : 7, .sequence = ++b->sequence };
		memcpy(m->task, t->id, sizeof(m->task));
		fleet_needs_class(&d.spec.needs, m->class);
		for (int i = 0; i < FLEET_NODES; i++)
			b->w.actors[i].woken |= actor_connected(&b->w.actors[i]);
	}
	fleet_task_done(&d);
}

/* Faults that do not belong to a call. */
static void world_mishaps(struct fleet_sim *s)
{
	struct fleet_world *w = &s->b.w;
	struct actor *a = &w->actors[world_pick(w, FLEET_ACTORS)];

	if (world_fault(w, 4)) {
		w->counts[COUNT_CUT]++;
		a->cut_since = w->now;
		a->cut_until = w->now + world_pick(w, world_pick(w, 2) ? 5000 : 60000);
		world_tell(w, "actor %d is cut off until %llu", a->number, (unsigned long long)a->cut_until);
	}
	if (world_fault(w, 2)) {
		w->counts[COUNT_SERVER]++;
		w->server_down_until = w->now + world_pick(w, world_pick(w, 2) ? 3000 : 30000);
		world_tell(w, "the server is down until %llu", (unsigned long long)w->server_down_until);
	}
	if (a->number < FLEET_NODES && world_fault(w, 3))
		host_freeze(&s->hosts[a->number], world_pick(w, 60000));
	if (a->number < FLEET_NODES && world_fault(w, 3))
		host_crash(&s->hosts[a->number]);
	if (a->number < FLEET_NODES && world_fault(w, 5))
		host_crash_runtime(&s->hosts[a->number]);
	if (w->hostile && world_fault(w, 150))
		write_hostile(&s->b);
}

static uint64_t due(const struct actor *a)
{
	if (!a->alive)
		return UINT64_MAX;
	return a->wake_at > a->stopped_until ? a->wake_at : a->stopped_until;
}

static void world_step(struct fleet_sim *s)
{
	struct fleet_world *w = &s->b.w;
	struct actor *next = &w->actors[0];

	for (int i = 1; i < FLEET_ACTORS; i++)
		if (due(&w->actors[i]) < due(next))
			next = &w->actors[i];
	if (due(next) > w->now)
		w->now = due(next);
	bus_tick(&s->b);
	swapcontext(&w->scheduler, &next->context);
	if (next->done) {
		next->alive = next->number < FLEET_NODES;
		if (next->alive) { /* its guard starts it again when the machine runs */
			actor_start(next);
			next->wake_at = w->now + 100 + world_pick(w, 2000);
			if (next->wake_at < s->hosts[next->number].down_until)
				next->wake_at = s->hosts[next->number].down_until;
		}
	}
	world_mishaps(s);
}

static bool settled(const struct fleet_sim *s)
{
	if (s->b.w.actors[FLEET_NODES].alive || (s->b.w.hostile && s->b.w.now < s->b.w.faults_until))
		return false;
	for (size_t i = 0; i < s->b.ntasks; i++)
		if (!fleet_state_ended(s->b.tasks[i].state))
			return false;
	return true;
}

static void world_done(struct fleet_sim *s)
{
	for (int i = 0; i < FLEET_ACTORS; i++) {
		struct actor *a = &s->b.w.actors[i];

		actor_kill(a);
		while (a->alive && !a->done)
			swapcontext(&s->b.w.scheduler, &a->context);
		json_decref(a->config.labels);
		free(a->stack);
	}
	bus_done(&s->b);
}

/* ---- the checker ---- */

static const json_t *entry_of(const struct fleet_task *t, uint64_t attempt, struct fleet_world *w)
{
	const json_t *found = NULL;
	size_t i;
	json_t *a;

	json_array_foreach (t->attempts, i, a) {
		if (json_get_uint(a, "attempt") != attempt)
			continue;
		if (found)
			world_wrong(w, "task %s has two entries of attempt %llu", t->spec.id,
				    (unsigned long long)attempt);
		found = a;
	}
	return found;
}

static void check_start(struct fleet_world *w, const struct fleet_task *t, const struct host_task *h)
{
	const json_t *entry = entry_of(t, h->attempt, w);
	uint64_t token = entry ? json_get_uint(entry, "token") : 0;

	if (!entry)
		world_wrong(w, "task %s: attempt %llu (token %llu) was started and is not reported", t->spec.id,
			    (unsigned long long)h->attempt, (unsigned long long)h->token);
	else if (token && token != h->token)
		world_wrong(w, "task %s: attempt %llu was started with token %llu and is reported with %llu",
			    t->spec.id, (unsigned long long)h->attempt, (unsigned long long)h->token,
			    (unsigned long long)token);
	else if (json_text_is(entry, "state", "completed") && strcmp(h->status, "completed") != 0)
		world_wrong(w, "task %s is reported as completed; its command was %s", t->spec.id, h->status);
}

static int by_time(const void *a, const void *b)
{
	const struct host_task *const *x = a, *const *y = b;

	return (*x)->started_at < (*y)->started_at ? -1 : (*x)->started_at > (*y)->started_at;
}

/* The commands of the task that were started, in their order. */
static size_t find_starts(struct fleet_sim *s, const struct fleet_task *t, const struct host_task *ret[STARTS_MAX])
{
	size_t n = 0;

	for (int i = 0; i < FLEET_NODES; i++)
		for (size_t k = 0; k < s->hosts[i].ntasks && n < STARTS_MAX; k++) {
			struct host_task *h = &s->hosts[i].tasks[k];

			host_advance(&s->hosts[i], h);
			if (h->started && strcmp(h->task, t->spec.id) == 0)
				ret[n++] = h;
		}
	qsort(ret, n, sizeof(ret[0]), by_time);
	return n;
}

/* With hostile documents: only what the signed texts permit was started. */
static void check_permitted(struct fleet_sim *s, const struct fleet_task *t)
{
	const struct host_task *starts[STARTS_MAX];
	const uint64_t retries = granted[task_number(t->spec.id)], most = 1 + t->spec.retries + t->spec.retry_lost;
	const size_t n = find_starts(s, t, starts);

	if (n > most + grants[task_number(t->spec.id)])
		world_wrong(&s->b.w, "task %s was started %zu times", t->spec.id, n);
	for (size_t i = 0; i < n; i++) {
		const char *before = i ? starts[i - 1]->status : "";

		if (starts[i]->attempt > (retries > most ? retries : most) ||
		    (i && starts[i]->attempt <= starts[i - 1]->attempt) ||
		    (!retries && !t->spec.retry_lost && strcmp(before, "completed") == 0) ||
		    (!retries && !t->spec.retries && strcmp(before, "failed") == 0 && !t->spec.retry_lost))
			world_wrong(&s->b.w, "task %s: attempt %llu was started after one that %s", t->spec.id,
				    (unsigned long long)starts[i]->attempt, before);
	}
}

static void check_starts(struct fleet_sim *s, const struct fleet_task *t)
{
	const struct host_task *starts[STARTS_MAX];
	struct fleet_world *w = &s->b.w;
	const size_t n = find_starts(s, t, starts);

	for (size_t i = 0; i < n; i++) {
		if (starts[i]->state != HOST_ENDED) {
			world_wrong(w, "task %s is %s; its command runs", t->spec.id, fleet_state_name(t->state));
			return;
		}
		check_start(w, t, starts[i]);
		if (cancelled[task_number(t->spec.id)] && starts[i]->token > cancelled[task_number(t->spec.id)])
			world_wrong(w, "task %s was claimed with token %llu after its cancel (%llu) was acknowledged",
				    t->spec.id, (unsigned long long)starts[i]->token,
				    (unsigned long long)cancelled[task_number(t->spec.id)]);
		if (i && (starts[i]->token <= starts[i - 1]->token || starts[i]->attempt <= starts[i - 1]->attempt))
			world_wrong(w, "task %s: token %llu (attempt %llu) was started after token %llu (attempt %llu)",
				    t->spec.id, (unsigned long long)starts[i]->token,
				    (unsigned long long)starts[i]->attempt, (unsigned long long)starts[i - 1]->token,
				    (unsigned long long)starts[i - 1]->attempt);
	}
}

/* Only permitted attempts are made: the spec's retries, and one for each request of the client. */
static void check_attempts(struct fleet_world *w, const struct fleet_task *t)
{
	uint64_t lost = 0, completed = 0;
	size_t i;
	json_t *a;

	json_array_foreach (t->attempts, i, a) {
		lost += json_text_is(a, "state", "lost");
		completed += json_text_is(a, "state", "completed");
	}
	if (completed > 1 || (completed == 1) != (t->state == FLEET_COMPLETED))
		world_wrong(w, "task %s is %s, and %llu attempts completed", t->spec.id, fleet_state_name(t->state),
			    (unsigned long long)completed);
	if (!t->retry.text && lost > t->spec.retry_lost + 1)
		world_wrong(w, "task %s was lost %llu times, and started again", t->spec.id, (unsigned long long)lost);
	if (!t->retry.text && lost == t->spec.retry_lost + 1 && t->state != FLEET_LOST)
		world_wrong(w, "task %s was lost %llu times, and is %s", t->spec.id, (unsigned long long)lost,
			    fleet_state_name(t->state));
}

static void check_tasks(struct fleet_sim *s)
{
	struct fleet_world *w = &s->b.w;

	for (size_t i = 0; i < s->b.ntasks && !w->wrong[0]; i++) {
		struct fleet_task t;
		struct err e = ERR_INIT;

		if (!fleet_state_ended(s->b.tasks[i].state)) {
			world_wrong(w, "task %s is still %s", s->b.tasks[i].id, fleet_state_name(s->b.tasks[i].state));
			return;
		}
		if (fleet_task_parse(s->b.tasks[i].text.data, s->b.tasks[i].text.len, &t, &e) < 0) {
			world_wrong(w, "task %s: %s", s->b.tasks[i].id, e.message);
			return;
		}
		if (w->hostile) {
			check_permitted(s, &t);
		} else {
			check_starts(s, &t);
			check_attempts(w, &t);
		}
		w->counts[t.state == FLEET_COMPLETED ? COUNT_COMPLETED
			  : t.state == FLEET_LOST    ? COUNT_LOST
			  : t.state == FLEET_FAILED  ? COUNT_FAILED
						     : COUNT_CANCELLED]++;
		fleet_task_done(&t);
	}
}

static void run_world(uint64_t seed, enum fleet_fault fault, bool hostile, uint64_t counts[16], uint64_t *steps,
		      char ret_wrong[256])
{
	struct fleet_sim *s = mem_zalloc(1, sizeof(*s));
	struct fleet_world *w = &s->b.w;

	memset(cancelled, 0, sizeof(cancelled));
	memset(granted, 0, sizeof(granted));
	memset(grants, 0, sizeof(grants));
	world_init(s, seed, fault);
	w->hostile = hostile;
	w->flips = hostile && seed % 8 == 0;
	while (!w->wrong[0] && !settled(s) && w->now < w->faults_until + SETTLE_MS)
		world_step(s);
	for (uint64_t end = w->now + 120000; !w->wrong[0] && w->now < end;) /* the last writes are received */
		world_step(s);
	if (!w->wrong[0])
		check_tasks(s);
	world_done(s);
	for (int i = 0; i < TASKS; i++)
		buf_reset(&earlier[i]);
	for (int i = 0; i < 16; i++)
		counts[i] += w->counts[i];
	*steps += w->steps;
	memcpy(ret_wrong, w->wrong, sizeof(w->wrong));
	free(s);
}

/* ---- tests ---- */

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	const char *given = getenv(name);

	return given && *given ? strtoull(given, NULL, 10) : otherwise;
}

START_TEST(whatever_happens_a_task_runs_once)
{
	uint64_t seed = number_of("SEED", (uint64_t)time(NULL)), want = number_of("FLEET_STEPS", DEFAULT_STEPS);
	uint64_t counts[16] = { 0 }, steps = 0, worlds = 0;
	char wrong[256] = "";

	/* Every fourth fleet has a hostile client. */
	for (; steps < want && !wrong[0]; worlds++)
		run_world(seed + worlds, FAULT_NONE, (seed + worlds) % 4 == 0, counts, &steps, wrong);
	printf("%llu steps: %llu fleets from seed %llu; hostile documents %llu; %llu commands started, tasks %llu "
	       "completed, %llu failed, %llu "
	       "cancelled, "
	       "%llu lost; nodes %llu killed, %llu stopped, %llu frozen, %llu cut off, runtimes %llu killed, server "
	       "%llu down, "
	       "calls %llu lost, %llu late\n",
	       (unsigned long long)steps, (unsigned long long)worlds, (unsigned long long)seed,
	       (unsigned long long)counts[COUNT_HOSTILE], (unsigned long long)counts[COUNT_STARTS],
	       (unsigned long long)counts[COUNT_COMPLETED], (unsigned long long)counts[COUNT_FAILED],
	       (unsigned long long)counts[COUNT_CANCELLED], (unsigned long long)counts[COUNT_LOST],
	       (unsigned long long)counts[COUNT_KILLED], (unsigned long long)counts[COUNT_STOPPED],
	       (unsigned long long)counts[COUNT_FROZEN], (unsigned long long)counts[COUNT_CUT],
	       (unsigned long long)counts[COUNT_RUNTIME], (unsigned long long)counts[COUNT_SERVER],
	       (unsigned long long)counts[COUNT_LOST_CALLS], (unsigned long long)counts[COUNT_LATE]);
	fflush(stdout);
	ck_assert_msg(!wrong[0], "SEED=%llu FLEET_STEPS=1: %s", (unsigned long long)(seed + worlds - 1), wrong);
}
END_TEST

START_TEST(a_broken_fleet_is_seen)
{
	uint64_t counts[16] = { 0 }, steps = 0;
	char wrong[256] = "";

	for (uint64_t seed = 1; seed <= 60 && !wrong[0]; seed++)
		run_world(seed, (enum fleet_fault)_i, _i == FAULT_NO_RECORDS, counts, &steps, wrong);
	ck_assert_msg(wrong[0], "the checker does not detect the fault");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fleet");
	TCase *t = tcase_create("fleet");
	struct err e = ERR_INIT;

	if (fleet_key_new(seed_text, key_text, &e) < 0)
		return 1;
	log_setup("fleet", getenv("FLEET_TELL") ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR, false);
	tcase_set_timeout(t, 3600);
	tcase_add_loop_test(t, a_broken_fleet_is_seen, FAULT_NO_LEASE, FAULTS);
	tcase_add_test(t, whatever_happens_a_task_runs_once);
	suite_add_tcase(suite, t);
	SRunner *r = srunner_create(suite);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}

#ifndef BAILIFF_TESTS_SIM_RUN_H
#define BAILIFF_TESTS_SIM_RUN_H

/*
 * A history: one store from its creation to its end, with random steps from a seed. Each step has its own random
 * numbers, so that a history without some of its steps is still valid (sim_shrink.h).
 */

#include "supervisor/host/retention.h"
#include "tests/crash/sim_requests.h"

#define STEPS_MOST 1500u

/* Which of the steps of a seed a history has. */
struct script {
	uint64_t seed;
	unsigned count, steps[STEPS_MOST];
};

/* Most histories are short: failures need few steps, and each step is cheaper. */
static void script_init(struct script *x, uint64_t seed)
{
	uint64_t random = seed;
	const uint64_t length = splitmix64(&random);

	x->seed = seed;
	x->count = length % 64 == 0 ? STEPS_MOST : 50 + (unsigned)(length / 64 % 200);
	for (unsigned i = 0; i < x->count; i++)
		x->steps[i] = i;
}

enum sim_mode {
	SIM_QUIET,
	SIM_TELLS,       /* prints each step and its events */
	SIM_BROKEN_RULE, /* for the control: an approval breaks a rule */
};

/* ---- steps ---- */

static void on_verified(void *ctx, const struct store_verdict *v, const struct err *e)
{
	struct sim *s = ctx;

	if ((e || !v->ok) && !s->check.wrong[0])
		snprintf(s->check.wrong, sizeof s->check.wrong, "verify: %.200s", e ? e->message : v->problems[0].what);
	s->verified = true;
}

static void verify(struct sim *s)
{
	s->verified = false;
	store_verify(s->w.store, on_verified, s);
	while (!s->verified) {
		threads_run();
		store_dispatch(s->w.store);
	}
}

/* The runtime ends and another one starts. Either it is stopped, or it was killed and left what it had written. */
static void crash(struct sim *s)
{
	const bool killed = disk.copied;

	if (!killed && sim_chance(&s->w, 50))
		sim_settle(&s->w); /* otherwise queued batches are committed while the store is closed */
	sim_crash(&s->w, sim_chance(&s->w, 20));
	s->crashes++;
	s->kills += killed;
	check_survived(&s->check, s->w.store);
	retries_open(s);
	if (s->compares)
		verify(s);
}

/* ---- upkeep ---- */

static void upkeep_done(struct sim *s, const struct err *e)
{
	if (e && (e->code == ERR_INTERNAL || e->code == ERR_CORRUPT) && !s->check.wrong[0] && !disk.copied)
		snprintf(s->check.wrong, sizeof s->check.wrong, "upkeep: %.200s", e->message);
}

static void on_rebuilt(void *ctx, const struct store_verdict *v, const struct err *e) { upkeep_done(ctx, e); }

static void on_compacted(void *ctx, uint64_t before, uint64_t after, const struct err *e) { upkeep_done(ctx, e); }

static void on_pruned(void *ctx, uint64_t removed, const struct err *e) { upkeep_done(ctx, e); }

static void on_retained(void *ctx, const struct retention_result *r, const struct err *e) { upkeep_done(ctx, e); }

/* It continues while other things happen. */
static const char *upkeep(struct sim *s)
{
	/* Only what was checked. */
	const uint64_t floor = sim_random(&s->w) % (s->check.sequence + 1);

	switch (sim_pick(&s->w, 4)) {
	case 0: store_rebuild(s->w.store, on_rebuilt, s); return "a rebuild";
	case 1: store_compact(s->w.store, on_compacted, s); return "a compaction";
	case 2: store_prune(s->w.store, floor, 0, on_pruned, s); return "a prune";
	default:
		retention_run(&s->retention, s->w.store, floor, 0, on_retained, s);
		return "outputs and sessions expire";
	}
}

/* Returns what it was. */
static const char *step(struct sim *s)
{
	const unsigned what = sim_pick(&s->w, 1000);
	const char *name = "a process does something";

	if (what < s->share) {
		name = request(s);
	} else if (what < 900) {
		if (!sim_live(&s->w)) {
			name = "time passes until something is due";
			sim_advance(&s->w, sim_pick(&s->w, 3000));
		}
	} else if (what < 976) {
		name = "time passes";
		sim_advance(&s->w, sim_pick(&s->w, 3000));
	} else if (what < 980) {
		name = "the clock is set";
		sim_set_clock(&s->w);
	} else if (what < 982 && disk.may_fail) {
		name = "the disk fails, or is full, for some writes";
		sim_settle(&s->w);
		disk.failing = 1 + sim_pick(&s->w, sim_chance(&s->w, 80) ? 6 : 60);
		disk.error = sim_chance(&s->w, 50) ? EIO : ENOSPC;
	} else if (what < 992) {
		name = "a client disconnects";
		engine_client_disconnected(s->w.engine, s->connection++);
	} else if (what < 996) {
		name = upkeep(s);
	} else if (what < 997) {
		name = "a stop";
		crash(s);
	} else {
		name = "a kill at one of the next writes";
		sim_kill_soon(&s->w);
		if (sim_chance(&s->w, 60))
			do_new_retry(s, sim_chance(&s->w, 50));
	}
	/*
	 * Several steps may happen before anything is committed; not while the disk fails, because facts that are never
	 * rejected may depend on rejected ones (docs/proof.md).
	 */
	if (!disk.copied && (disk.failing || sim_chance(&s->w, 70))) {
		sim_settle(&s->w);
		if (!disk.copied)
			(void)check_log(&s->check, s->w.store);
	}
	if (disk.copied) {
		name = "a kill";
		crash(s);
	}
	if (s->w.models.wrong[0] && !s->check.wrong[0])
		snprintf(s->check.wrong, sizeof s->check.wrong, "%s", s->w.models.wrong);
	return name;
}

/* ---- to analyse a failure ---- */

static bool tell_event(void *ctx, const struct event_view *ev)
{
	buf_auto struct buf json = BUF_INIT;

	event_json(ev, &json);
	fprintf(stderr, "  %.*s\n", (int)(json.len < 600 ? json.len : 600), json.data);
	return true;
}

/* What was committed after `last`. */
static void tell_events(struct sim *s, uint64_t last)
{
	const struct store_query q = { .after = last, .index = -1 };
	struct err e = ERR_INIT;

	(void)store_events(s->w.store, &q, tell_event, NULL, &e);
}

/* ---- the end ---- */

static void deny(void *ctx, const char *id, void *value)
{
	struct sim *s = ctx;
	const struct action_answer a = { .action_id = id, .decision = "deny", .source = "user" };

	if ((enum sim_life)(intptr_t)value != LIFE_BEGUN)
		return;
	s->asked++;
	engine_respond_action(s->w.engine, &a, &nobody, on_reply, s);
}

static void stuck(void *ctx, const char *id, void *value)
{
	struct sim *s = ctx;

	snprintf(s->check.wrong, sizeof s->check.wrong, "turn %.80s is stuck", id);
}

static void cancel_turn(void *ctx, const char *id, void *value)
{
	struct sim *s = ctx;
	const struct turn_interrupt r = { .turn_id = id, .reason = "the end" };
	const enum sim_life now = (enum sim_life)(intptr_t)value;

	if (now == LIFE_ENDED)
		return;
	s->asked++;
	if (now == LIFE_BEGUN)
		engine_remove_queued_turn(s->w.engine, id, "the end", &nobody, on_reply, s);
	else
		engine_interrupt_turn(s->w.engine, &r, &nobody, on_reply, s);
}

/*
 * There are no more requests, every question is answered, and models no longer call tools, so that turns of the loop
 * end. In most histories all turns are cancelled first, in the others they run.
 */
static void drain(struct sim *s)
{
	s->w.models.finishing = true;
	if (!sim_chance(&s->w, 25))
		strmap_visit(&s->check.turns, cancel_turn, s);
	for (unsigned i = 0; i < 3000 && s->check.loops.count && !s->check.wrong[0]; i++) {
		strmap_visit(&s->check.actions, deny, s);
		for (unsigned k = 0; k < 32; k++)
			s->drained += sim_live(&s->w);
		sim_advance(&s->w, 1000);
		sim_settle(&s->w);
		(void)check_log(&s->check, s->w.store);
	}
	if (!s->check.wrong[0])
		strmap_each(&s->check.loops, stuck, s);
}

/* ---- a whole one ---- */

static void make_dir(struct sim *s)
{
	snprintf(s->w.dir, sizeof s->w.dir, "/dev/shm/bailiff-sim-XXXXXX");
	if (!mkdtemp(s->w.dir)) {
		snprintf(s->w.dir, sizeof s->w.dir, "/tmp/bailiff-sim-XXXXXX");
		if (!mkdtemp(s->w.dir))
			abort();
	}
	sim_name_dirs(&s->w, 0);
	if (mkdir(s->w.store_dir, 0700) != 0 || mkdir(s->w.spool, 0700) != 0)
		abort();
}

/* The step's own numbers. */
static uint64_t seed_of_step(uint64_t seed, uint64_t step)
{
	const uint64_t of_step = splitmix64(&step);

	seed ^= of_step;
	return splitmix64(&seed);
}

/*
 * The clock begins later for each seed, because ids ascend within a program: a history gets the same ids whatever ran
 * before it.
 */
static void sim_begin(struct sim *s, uint64_t seed)
{
	static const uint64_t journals[] = { 0, 1u << 14, 1u << 16, 1u << 16, 1u << 18, 1u << 18, 1u << 18, 1u << 18 };
	static const uint32_t settles[] = { 1, 200, 10000, 60000 };

	*s = (struct sim){ .connection = 1 };
	make_dir(s);
	s->w.seed = threads.seed = seed_of_step(seed, UINT64_MAX);
	s->w.boot_ns = 1000000000000ull;
	threads.real_us = 1700000000000000ull + seed % 1000000 * 10000000000ull;
	threads.mono_ns = 1000000000000ull;
	s->w.journal_bytes = journals[sim_pick(&s->w, countof(journals))];
	s->w.settle_ms = settles[sim_pick(&s->w, countof(settles))];
	s->w.file_tools = sim_chance(&s->w, 50);
	s->w.quick_disk = sim_chance(&s->w, 50);
	s->compares = sim_chance(&s->w, 33);
	requests_init(s);
	sim_policy_init(&s->w.policy, sim_random(&s->w));
	sim_open(&s->w);
}

static void sim_run(struct sim *s, const struct script *x, enum sim_mode mode)
{
	sim_begin(s, x->seed);
	s->check.nobody_allows = mode == SIM_BROKEN_RULE;
	for (unsigned i = 0; i < x->count && !s->check.wrong[0]; i++) {
		const uint64_t last = store_last_sequence(s->w.store);

		s->w.seed = seed_of_step(x->seed, x->steps[i]);
		threads.seed = ~s->w.seed;
		const char *name = step(s);
		if (mode == SIM_TELLS) {
			fprintf(stderr, "step %u: %s\n", x->steps[i], name);
			tell_events(s, last);
		}
	}
	if (!s->check.wrong[0]) {
		const uint64_t last = store_last_sequence(s->w.store);

		s->w.seed = seed_of_step(x->seed, STEPS_MOST);
		disk.countdown = disk.failing = 0;
		sim_advance(&s->w, 1000);
		if (store_queued(s->w.store) && threads_have_timer())
			threads_run(); /* the store retries what it deferred */
		sim_settle(&s->w);
		(void)check_log(&s->check, s->w.store);
		drain(s);
		sim_settle(&s->w);
		if (store_queued(s->w.store) && !s->check.wrong[0])
			snprintf(s->check.wrong, sizeof s->check.wrong, "facts wait, although the disk works");
		if (s->compares)
			verify(s);
		if (mode == SIM_TELLS) {
			fprintf(stderr, "the end\n");
			tell_events(s, last);
		}
	}
}

static void remove_dir(struct sim *s)
{
	if (s->w.dir[0])
		disk_remove(s->w.dir);
}

static void sim_end(struct sim *s)
{
	store_close(s->w.store);
	engine_free(s->w.engine);
	for (size_t i = 0; i < SIM_PROCESSES; i++)
		if (s->w.processes[i].stage != SIM_FREE)
			sim_release(&s->w, s->w.processes[i].id, 0);
	check_done(&s->check);
	sim_policy_done(&s->w.policy);
	remove_dir(s);
	threads.real_us = 0;
	disk.countdown = disk.failing = 0;
	disk.copied = false;
}

#endif

#ifndef BAILIFF_TESTS_SIM_HOST_H
#define BAILIFF_TESTS_SIM_HOST_H

/*
 * The simulated host: a clock that the test advances, a disk that is a directory in memory, and processes that exist
 * only by name and behave at random. Everything random comes from one seed.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/engine.h"
#include "runtime/engine/core/ports.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"
#include "tests/crash/sim_disk.h"
#include "tests/crash/sim_model.h"
#include "tests/crash/sim_policy.h"
#include "tests/crash/sim_threads.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIM_PROCESSES 1024
#define SIM_HANGUPS 32u
#define SIM_LEASES 16u
#define SIM_REPORTS 16u
#define SIM_OUTPUT "some output of a process that does not exist\n"

enum sim_stage { SIM_FREE, SIM_ASKED, SIM_STARTED, SIM_READY, SIM_RUNNING, SIM_EXITED };

struct sim_process {
	char id[PLAN_KEY_MAX];
	enum sim_stage stage;
	struct port_streams streams;
	bool gate_open, doomed; /* doomed: its end was requested */
	uint64_t size;
	int fd;
	struct sim_answer answer;  /* of a model */
	unsigned effect;           /* of a call of a model or of a client's request, from 1 */
	uint64_t limit_ns;         /* when the guard ends it; 0 = never */
	bool holder;               /* of a session sandbox */
	char within[PLAN_KEY_MAX]; /* the holder in whose sandbox it runs; "" = in its own */
};

/* What the host reports later: a copy of a sandbox's changes, a port that is published or no longer. */
struct sim_report {
	enum sim_report_kind { REPORT_NONE, REPORT_COPIED, REPORT_PUBLISHED, REPORT_UNPUBLISHED } kind;
	char id[PLAN_KEY_MAX];
	uint16_t port;
};

/* A task of a fleet: its command may run while its node holds the claim, which the node renews. */
struct sim_lease {
	char task_id[24];
	unsigned effect; /* of its command, from 1; 0 = none */
	uint64_t lease_ms, claim_ns;
};

struct sim_host {
	uint64_t seed;
	char dir[64], store_dir[96], spool[96];
	unsigned generation; /* of the last two; a killed runtime leaves a copy of what it had written */
	struct store *store;
	struct engine *engine;
	uint64_t boot_ns, wake_ns;
	uint64_t journal_bytes; /* of the store; 0 = it has no journal */
	uint32_t settle_ms;     /* of the store */
	struct sim_process processes[SIM_PROCESSES];
	struct sim_models models;
	struct sim_policy policy;
	bool file_tools; /* bailiff-tool exists */
	/* The newest processes that got SIGHUP, which only requests that may be repeated send. */
	char hung_up[SIM_HANGUPS][PLAN_KEY_MAX];
	unsigned hangups;
	struct sim_lease leases[SIM_LEASES];
	unsigned leased;
	struct sim_report reports[SIM_REPORTS];
	bool quick_disk; /* everything is committed before time passes */
};

static inline uint64_t sim_random(struct sim_host *w) { return splitmix64(&w->seed); }

static inline unsigned sim_pick(struct sim_host *w, unsigned n) { return n ? (unsigned)(sim_random(w) % n) : 0; }

static inline bool sim_chance(struct sim_host *w, unsigned percent) { return sim_pick(w, 100) < percent; }

static inline struct sim_process *sim_process(struct sim_host *w, const char *id)
{
	for (size_t i = 0; i < SIM_PROCESSES; i++)
		if (w->processes[i].stage != SIM_FREE && strcmp(w->processes[i].id, id) == 0)
			return &w->processes[i];
	return NULL;
}

/* ---- ports ---- */

static uint64_t sim_real_us(void *host) { return threads.real_us; }
static uint64_t sim_boot_ns(void *host) { return ((struct sim_host *)host)->boot_ns; }
static void sim_base_env(void *host, uint32_t uid, struct buf *out) { buf_append(out, "PATH=/bin", 10); }
static void sim_add_peer(void *host, uint32_t uid, int fd) {}
static int sim_find_peer(void *host, uint32_t uid) { return 0; }

static void sim_wake_at(void *host, uint64_t ns)
{
	struct sim_host *w = host;

	if (ns < w->wake_ns)
		w->wake_ns = ns;
}

static void sim_launch(void *host, const char *id, const void *plan, size_t len, uint32_t flags,
		       const struct port_streams *streams, int peer_fd)
{
	struct sim_host *w = host;

	for (size_t i = 0; i < SIM_PROCESSES && !disk.copied; i++)
		if (w->processes[i].stage == SIM_FREE) {
			struct sim_process *p = &w->processes[i];

			*p = (struct sim_process){ .stage = SIM_ASKED, .streams = *streams, .fd = -1 };
			snprintf(p->id, sizeof p->id, "%s", id);
			snprintf(p->within, sizeof p->within, "%s", streams->within ? streams->within : "");
			p->holder = flags & PLAN_HOLDER;
			p->effect = sim_effect_of(plan, len);
			if (streams->input && strncmp(streams->input, "{\"url\"", 6) == 0)
				sim_answer(&w->models, streams->input, sim_random(w), &p->answer);
			else if (streams->input && strstr(streams->input, "\"hook_event_name\""))
				sim_hook_answer(w->models.finishing, sim_random(w), &p->answer);
			else if (streams->input && sim_mcp_answer(&w->models, plan, len, sim_random(w), &p->answer))
				p->effect = sim_effect_of(streams->input, strlen(streams->input));
			return;
		}
	if (disk.copied)
		return;
	fprintf(stderr, "more processes than the simulator has room for\n");
	abort();
}

static void sim_doom(void *host, const char *id)
{
	struct sim_process *p = sim_process(host, id);

	if (p && !disk.copied)
		p->doomed = true;
}

static void sim_open_gate(void *host, const char *id)
{
	struct sim_process *p = sim_process(host, id);

	if (p && !disk.copied)
		p->gate_open = true;
}

static void sim_signal(void *host, const char *id, int sig)
{
	struct sim_host *w = host;

	if (sig == SIGHUP && !disk.copied)
		snprintf(w->hung_up[w->hangups++ % SIM_HANGUPS], sizeof w->hung_up[0], "%s", id);
	if (sig == SIGTERM || sig == SIGKILL || sig == SIGINT || sig == SIGHUP)
		sim_doom(host, id);
}

static void sim_limit(void *host, const char *id, uint64_t ns)
{
	struct sim_process *p = sim_process(host, id);

	if (p && !disk.copied)
		p->limit_ns = ns;
}

static ssize_t sim_write_stdin(void *host, const char *id, const void *p, size_t n) { return (ssize_t)n; }
static void sim_close_stdin(void *host, const char *id) {}
static int sim_line(void *host, const char *id, struct port_line *ret)
{
	errno = ENOTTY;
	return -1;
}
static int sim_resize(void *host, const char *id, uint32_t rows, uint32_t cols)
{
	errno = ENOTTY;
	return -1;
}

static ssize_t sim_peek(void *host, const char *id, int stream, uint64_t offset, void *p, size_t n)
{
	struct sim_process *s = sim_process(host, id);

	return s && stream == STREAM_STDOUT && s->fd >= 0 ? pread(s->fd, p, n, (off_t)offset) : 0;
}

static int sim_output_fd(void *host, const char *id, int stream)
{
	struct sim_process *s = sim_process(host, id);

	return s && stream == STREAM_STDOUT ? s->fd : -1;
}

static void sim_stop_reading(void *host, const char *id) {}

static void sim_release(void *host, const char *id, unsigned unspilled)
{
	struct sim_process *p = sim_process(host, id);

	if (!p || disk.copied)
		return;
	if (p->fd >= 0)
		close(p->fd);
	free(p->answer.text);
	p->answer.text = NULL;
	p->stage = SIM_FREE;
}

static int sim_report_later(struct sim_host *w, enum sim_report_kind kind, const char *id, uint16_t port)
{
	for (size_t i = 0; i < SIM_REPORTS && !disk.copied; i++)
		if (w->reports[i].kind == REPORT_NONE) {
			w->reports[i] = (struct sim_report){ .kind = kind, .port = port };
			snprintf(w->reports[i].id, sizeof w->reports[i].id, "%s", id);
			return 0;
		}
	errno = EAGAIN;
	return -1;
}

static int sim_copy(void *host, const char *from, const char *to)
{
	return sim_report_later(host, REPORT_COPIED, to, 0);
}

static void sim_drop(void *host, const char *id) {}

static int sim_publish(void *host, const char *id, const struct port_publication *p)
{
	return sim_report_later(host, REPORT_PUBLISHED, id, p->port);
}

static int sim_unpublish(void *host, const char *id, uint16_t port)
{
	return sim_report_later(host, REPORT_UNPUBLISHED, id, port) < 0 ? 1 : 0;
}

static const struct ports sim_ports = {
	.real_us = sim_real_us,
	.boot_ns = sim_boot_ns,
	.wake_at = sim_wake_at,
	.base_env = sim_base_env,
	.add_peer = sim_add_peer,
	.find_peer = sim_find_peer,
	.launch = sim_launch,
	.open_gate = sim_open_gate,
	.signal = sim_signal,
	.kill_tree = sim_doom,
	.kill = sim_doom,
	.write_stdin = sim_write_stdin,
	.close_stdin = sim_close_stdin,
	.line = sim_line,
	.resize = sim_resize,
	.peek_output = sim_peek,
	.output_fd = sim_output_fd,
	.stop_reading = sim_stop_reading,
	.release = sim_release,
	.limit = sim_limit,
	.copy_changes = sim_copy,
	.drop_changes = sim_drop,
	.publish = sim_publish,
	.unpublish = sim_unpublish,
};

/* ---- behaviour of processes ---- */

static void sim_print(struct sim_host *w, struct sim_process *p, const char *text, size_t len)
{
	mem_auto char *path = mem_printf("%s/%s", w->spool, p->streams.ref[STREAM_STDOUT]);

	if (p->fd < 0)
		p->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (pwrite(p->fd, text, len, (off_t)p->size) != (ssize_t)len)
		abort();
	p->size += len;
	engine_on_output(w->engine, p->id, STREAM_STDOUT, p->size);
}

static void sim_exit(struct sim_host *w, struct sim_process *p)
{
	int status = p->doomed           ? SIGTERM
		     : p->answer.text    ? p->answer.sent < p->answer.len ? SIGKILL : p->answer.exit_code << 8
		     : sim_chance(w, 70) ? 0
					 : (int)(1 + sim_pick(w, 3)) << 8;
	const struct status_msg m = { .kind = STATUS_EXITED, .wait_status = status };
	char id[PLAN_KEY_MAX];

	memcpy(id, p->id, sizeof id); /* the last call may release it */
	p->stage = SIM_EXITED;
	engine_on_exited(w->engine, id, &m);
	engine_on_gone(w->engine, id, &m);
	for (int i = 0; i < STREAM_COUNT; i++)
		engine_on_output_end(w->engine, id, i);
}

/* Everything in its sandbox ends with a holder, without a last message. */
static void sim_exit_holder(struct sim_host *w, struct sim_process *p)
{
	char id[PLAN_KEY_MAX], member[PLAN_KEY_MAX];

	memcpy(id, p->id, sizeof id);
	sim_exit(w, p);
	for (size_t k = 0; k < SIM_PROCESSES; k++) {
		p = &w->processes[k];
		if (p->stage == SIM_FREE || p->stage == SIM_EXITED || strcmp(p->within, id) != 0)
			continue;
		const bool led = p->stage != SIM_ASKED;

		memcpy(member, p->id, sizeof member);
		p->stage = SIM_EXITED;
		if (led)
			engine_on_gone(w->engine, member, NULL);
		else
			engine_on_launch_failed(w->engine, member, STEP_CLONE, ECONNRESET, REASON_NONE, "");
		for (int i = 0; led && i < STREAM_COUNT; i++)
			engine_on_output_end(w->engine, member, i);
	}
}

/* A model prints a part of its answer, or ends. */
static void sim_step_model(struct sim_host *w, struct sim_process *p)
{
	struct sim_answer *a = &p->answer;
	const size_t left = a->len - a->sent, n = left < 200 ? left : 1 + sim_pick(w, (unsigned)left);

	if (p->doomed || !left || sim_chance(w, 2)) {
		sim_exit(w, p);
		return;
	}
	a->sent += n;
	sim_answered(&w->models, a, a->sent - n);
	sim_print(w, p, a->text + a->sent - n, n);
}

/* Nothing of a task runs once another node may have its claim. */
static void sim_check_lease(struct sim_host *w, const struct sim_process *p)
{
	for (unsigned i = 0; p->effect && i < SIM_LEASES; i++)
		if (w->leases[i].effect == p->effect && w->boot_ns > w->leases[i].claim_ns && !w->models.wrong[0])
			snprintf(w->models.wrong, sizeof w->models.wrong, "the command of %s runs after its lease",
				 w->leases[i].task_id);
}

/* Whether commands can be started in the sandbox of this holder. */
static bool sim_holds(struct sim_host *w, const char *id)
{
	const struct sim_process *p = sim_process(w, id);

	return p && p->stage == SIM_RUNNING;
}

/* One process takes one step. */
static void sim_step(struct sim_host *w, struct sim_process *p)
{
	const struct port_started s = { .pid = 1000, .start_time = 1, .attempt = 1 };

	switch (p->stage) {
	case SIM_ASKED:
		if (sim_chance(w, 3) || (p->within[0] && !sim_holds(w, p->within))) {
			engine_on_launch_failed(w->engine, p->id, STEP_CLONE, EAGAIN, REASON_NONE, "");
			return;
		}
		p->stage = SIM_STARTED;
		engine_on_started(w->engine, p->id, &s);
		if (!p->within[0] || p->stage != SIM_STARTED)
			return;
		/* One message reports both of a member. */
		/* fallthrough */
	case SIM_STARTED:
		p->stage = SIM_READY;
		engine_on_ready(w->engine, p->id, UINT32_MAX);
		return;
	case SIM_READY:
		if (p->doomed) {
			p->holder ? sim_exit_holder(w, p) : sim_exit(w, p);
		} else if (p->gate_open) {
			p->stage = SIM_RUNNING;
			if (p->effect)
				sim_effect_happens(&w->models, p->effect);
			sim_check_lease(w, p);
			engine_on_execed(w->engine, p->id);
		}
		return;
	case SIM_RUNNING:
		if (!p->doomed)
			sim_check_lease(w, p);
		if (p->answer.text)
			sim_step_model(w, p);
		else if (p->holder && !p->doomed && !sim_chance(w, 2))
			return;
		else if (p->holder)
			sim_exit_holder(w, p);
		else if (p->doomed || sim_chance(w, 40))
			sim_exit(w, p);
		else if (sim_chance(w, 30))
			sim_print(w, p, SIM_OUTPUT, strlen(SIM_OUTPUT));
		return;
	default: return;
	}
}

/* Batches that were deferred by a failing disk stay in the queue until time passes. */
static inline void sim_settle(struct sim_host *w)
{
	uint64_t before;
	unsigned idle = 0;

	do {
		before = store_last_sequence(w->store);
		store_flush(w->store);
		if (store_queued(w->store))
			(void)thread_switch(); /* a flush does not wait for deferred batches whose retry is due */
		idle = store_last_sequence(w->store) != before ? 0 : idle + 1;
	} while (idle == 0 || (store_queued(w->store) && idle < 5));
}

static void sim_report(struct sim_host *w, struct sim_report *given)
{
	const struct sim_report r = *given;
	struct err e = ERR_INIT;

	given->kind = REPORT_NONE;
	const bool fails = sim_chance(w, 10);
	if (fails)
		err_sys(&e, EIO, "simulated");
	if (r.kind == REPORT_COPIED)
		engine_on_copied(w->engine, r.id, fails ? &e : NULL);
	else if (r.kind == REPORT_PUBLISHED)
		engine_on_published(w->engine, r.id, r.port, r.port, fails ? EADDRINUSE : 0);
	else
		engine_on_unpublished(w->engine, r.id, r.port);
}

/* A process takes a step; repeated often enough, all of them end. False: there is none. */
static inline bool sim_live(struct sim_host *w)
{
	size_t from = sim_pick(w, SIM_PROCESSES);

	for (size_t i = 0; i < SIM_REPORTS; i++)
		if (w->reports[i].kind != REPORT_NONE && sim_chance(w, 30)) {
			sim_report(w, &w->reports[i]);
			return true;
		}
	for (size_t i = 0; i < SIM_PROCESSES; i++) {
		struct sim_process *p = &w->processes[(from + i) % SIM_PROCESSES];

		if (p->stage != SIM_FREE && p->stage != SIM_EXITED) {
			sim_step(w, p);
			return true;
		}
	}
	return false;
}

static inline void sim_pass(struct sim_host *w, uint64_t until)
{
	if (until <= w->boot_ns)
		return;
	threads.real_us += (until - w->boot_ns) / 1000;
	threads.mono_ns += until - w->boot_ns;
	w->boot_ns = until;
	for (size_t i = 0; i < SIM_PROCESSES; i++)
		if (w->processes[i].stage != SIM_FREE && w->processes[i].limit_ns && w->processes[i].limit_ns <= until)
			w->processes[i].doomed = true;
}

static inline void sim_advance(struct sim_host *w, uint64_t ms)
{
	uint64_t until = w->boot_ns + ms * 1000000;

	if (w->quick_disk)
		sim_settle(w);
	for (unsigned i = 0; w->wake_ns <= until && i < 1000 && !disk.copied; i++) {
		sim_pass(w, w->wake_ns);
		w->wake_ns = UINT64_MAX;
		engine_tick(w->engine);
		sim_settle(w);
	}
	sim_pass(w, until);
}

/* The clock is set, by up to two days in either direction. */
static inline void sim_set_clock(struct sim_host *w)
{
	const uint64_t by = sim_random(w) % (2 * 86400 * 1000000ull);

	threads.real_us = sim_chance(w, 50) ? threads.real_us + by : threads.real_us - by;
}

/* ---- crashes ---- */

static void sim_adopt(void *host, const struct port_held *h, const struct port_streams *streams,
		      uint64_t size[STREAM_COUNT])
{
	struct sim_process *p = sim_process(host, h->id);

	p->streams = *streams;
	p->gate_open = false;
	size[STREAM_STDOUT] = p->size;
}

static void sim_abandon(void *host, const struct port_held *h) { sim_release(host, h->id, 0); }

static void sim_salvage(void *host, const char *id, const struct port_streams *streams, uint64_t size[STREAM_COUNT])
{
	struct sim_host *w = host;
	mem_auto char *path = mem_printf("%s/%s", w->spool, streams->ref[STREAM_STDOUT]);
	struct stat st;

	sim_launch(host, id, NULL, 0, 0, streams, -1);
	struct sim_process *p = sim_process(host, id);
	p->stage = SIM_EXITED;
	p->fd = open(path, O_RDWR | O_CLOEXEC);
	p->size = p->fd >= 0 && fstat(p->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
	size[STREAM_STDOUT] = p->size;
}

static inline void sim_open(struct sim_host *w)
{
	static const char addresses[][48] = { "127.0.0.1" };
	static const struct recovery_ports recovery = { sim_adopt, sim_abandon, sim_salvage };
	const struct store_options so = { .dir = w->store_dir,
					  .spool_dir = w->spool,
					  .map_bytes = 512u << 20,
					  .ballast_bytes = 4096,
					  .journal_bytes = w->journal_bytes,
					  .no_journal = !w->journal_bytes,
					  .settle_ms = w->settle_ms,
					  .project = view_project,
					  .project_speculative = view_project_speculative,
					  .soon_ms = 1 };
	struct port_held held[SIM_PROCESSES];
	struct err e = ERR_INIT;
	size_t n = 0;

	if (store_open(&so, &w->store, &e) < 0) {
		fprintf(stderr, "open the store: %s\n", e.message);
		abort();
	}
	const struct engine_options eo = {
		.store = w->store,
		.ports = &sim_ports,
		.host = w,
		.boot_id = "boot",
		.owner_uid = 0,
		.model_program = "/bin/true", /* any program that exists: nothing is executed */
		.tool_program = w->file_tools ? "/bin/true" : NULL,
		.publish_addresses = addresses,
		.npublish_addresses = countof(addresses),
		.defaults = { LIMIT_NONE, LIMIT_NONE, LIMIT_NONE, LIMIT_NONE, LIMIT_NONE, LIMIT_NONE },
	};
	w->engine = engine_new(&eo);
	if (w->policy.exists) {
		engine_set_rules(w->engine, &w->policy.rules);
		engine_set_hooks(w->engine, &w->policy.hooks);
	}
	w->wake_ns = UINT64_MAX;
	for (size_t i = 0; i < SIM_PROCESSES; i++) {
		struct sim_process *p = &w->processes[i];

		if (p->stage != SIM_FREE && p->stage != SIM_EXITED)
			held[n++] = (struct port_held){ .id = p->id, .attempt = 1, .started = p->stage != SIM_ASKED };
		else if (p->stage == SIM_EXITED)
			sim_release(w, p->id, 0);
	}
	if (engine_recover(w->engine, &recovery, held, n, &e) < 0) {
		fprintf(stderr, "recover: %s\n", e.message);
		abort();
	}
	engine_resume(w->engine);
	sim_settle(w);
}

static inline void sim_name_dirs(struct sim_host *w, unsigned generation)
{
	snprintf(w->store_dir, sizeof w->store_dir, "%s/store%u", w->dir, generation);
	snprintf(w->spool, sizeof w->spool, "%s/spool%u", w->dir, generation);
}

/* Surviving processes write to the same files as before, which are the copies now. */
static inline void sim_reopen_output(struct sim_host *w, struct sim_process *p)
{
	mem_auto char *path = mem_printf("%s/%s", w->spool, p->streams.ref[STREAM_STDOUT]);

	if (p->fd < 0)
		return;
	close(p->fd);
	p->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

/*
 * Ends the runtime. If it was killed, the next one finds what had been written until then (disk_copy); what this one
 * does from that moment on affects neither processes nor clients.
 */
static inline void sim_stop(struct sim_host *w)
{
	char store[sizeof w->store_dir], spool[sizeof w->spool];

	/* Queued batches may still commit and be reported to the engine; its port calls are ignored from here on. */
	store_close(w->store);
	engine_free(w->engine);
	disk.countdown = disk.failing = 0;
	if (!disk.copied)
		return;
	memcpy(store, w->store_dir, sizeof store);
	memcpy(spool, w->spool, sizeof spool);
	disk.copied = false;
	sim_name_dirs(w, ++w->generation);
	for (size_t i = 0; i < SIM_PROCESSES; i++)
		if (w->processes[i].stage != SIM_FREE)
			sim_reopen_output(w, &w->processes[i]);
	disk_remove(store);
	disk_remove(spool);
}

/* The runtime crashes; with `all` the guard and every process die with it. */
static inline void sim_crash(struct sim_host *w, bool all)
{
	sim_stop(w);
	memset(w->reports, 0, sizeof w->reports);
	for (size_t i = 0; i < SIM_PROCESSES; i++) {
		struct sim_process *p = &w->processes[i];

		if (p->stage == SIM_FREE)
			continue;
		if (all || p->stage == SIM_EXITED || (p->stage == SIM_ASKED && !(p->within[0] && sim_chance(w, 50)))) {
			sim_release(w, p->id, 0);
			continue;
		}
		/* An opened gate stays open; a new runtime opens it again. The init's last message is received again.
		 */
		if (p->stage == SIM_STARTED)
			p->stage = SIM_READY;
	}
	sim_open(w);
}

/* The runtime is killed now, unless it was already. */
static inline void sim_kill(struct sim_host *w)
{
	if (!disk.copied)
		disk_copy();
}

/* It is killed at one of its next writes. */
static inline void sim_kill_soon(struct sim_host *w)
{
	snprintf(disk.store, sizeof disk.store, "%s", w->store_dir);
	snprintf(disk.spool, sizeof disk.spool, "%s", w->spool);
	snprintf(disk.store_copy, sizeof disk.store_copy, "%s/store%u", w->dir, w->generation + 1);
	snprintf(disk.spool_copy, sizeof disk.spool_copy, "%s/spool%u", w->dir, w->generation + 1);
	disk.countdown = 1 + sim_pick(w, 12);
}

#endif

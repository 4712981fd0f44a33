#include "tests/unit/supervisor/rig.h"

#include "supervisor/guard/guard.h"

#include <time.h>

static struct rig rig;

static void setup(void) { rig_start(&rig); }

static void teardown(void) { rig_stop(&rig); }

/* The guard's handover message at an index: GUARD_ITEM or GUARD_END. */
static struct guard_msg next(uint32_t index, int fds[GUARD_SLOT_COUNT])
{
	struct guard_msg m = { .kind = GUARD_NEXT, .index = index };
	int got[GUARD_SLOT_COUNT];
	size_t n = GUARD_SLOT_COUNT;
	ck_assert_int_eq(fd_send(rig.link, &m, sizeof m, NULL, 0, 0), 0);
	m = rig_guard_message(&rig, got, &n);
	ck_assert_uint_eq(n, (size_t)__builtin_popcount(m.slots));
	for (int slot = 0, i = 0; slot < GUARD_SLOT_COUNT; slot++)
		fds[slot] = m.slots & 1u << slot ? got[i++] : -1;
	return m;
}

/* What a new runtime does first: it waits for the spawner's pending requests, then takes over one process. */
static void take_over(struct run *run)
{
	int fds[GUARD_SLOT_COUNT];
	rig_sync(&rig);
	struct guard_msg m = next(0, fds);
	ck_assert_uint_eq(m.kind, GUARD_ITEM);
	ck_assert_int_eq(memcmp(&m.key, &run->key, sizeof m.key), 0);
	ck_assert_uint_eq(m.slots, (1u << (GUARD_SLOT_PIDFD + 1)) - 1);
	ck_assert_int_eq(m.pid, run->pid);
	memcpy(run->fd, fds, sizeof fds);
	m = next(m.index, fds);
	ck_assert_uint_eq(m.kind, GUARD_END);
}

static void start_reader(struct run *run)
{
	run_start(
		&rig, run,
		&(struct run_spec){ .argv = SH("echo begun; read x; echo got $x; exit 7"), .flags = PLAN_STDIN_PIPE });
}

/* Writes to the process, and checks that all of its output and its status arrive. */
static void finish_reader(struct run *run)
{
	char out[64];
	ck_assert_int_eq(write(run->fd[GUARD_SLOT_STDIN], "it\n", 3), 3);
	run_read(run, GUARD_SLOT_STDOUT, out, sizeof out);
	ck_assert_str_eq(out, "begun\ngot it\n");
	struct status_msg m = run_status(run);
	ck_assert_uint_eq(m.kind, STATUS_EXITED);
	ck_assert_int_eq(WEXITSTATUS(m.wait_status), 7);
	run_release(&rig, run);
	run_close(run);
}

START_TEST(releasing_an_unknown_process_kills_nothing)
{
	struct run run = { .key = { .id = "proc_unknown", .attempt = 3 } };
	ck_assert_uint_eq(run_release(&rig, &run), 0);
}
END_TEST

START_TEST(a_release_kills_and_reaps_the_process)
{
	struct run run;
	start_reader(&run);
	ck_assert_uint_eq(run_release(&rig, &run), 1);
	/* After RELEASED nothing of it exists, not even a zombie of the init. */
	ck_assert_int_eq(kill(run.pid, 0), -1);
	ck_assert_int_eq(errno, ESRCH);
	int fds[GUARD_SLOT_COUNT];
	ck_assert_uint_eq(next(0, fds).kind, GUARD_END);
	run_close(&run);
}
END_TEST

/* As the runtime does for a member, which has no init: the next message is the reply to another request. */
START_TEST(a_member_is_released_without_a_reply)
{
	struct guard_msg m = { .kind = GUARD_DEPOSIT, .slots = 1u << GUARD_SLOT_GATE, .key = { .id = "proc_member" } };
	int ends[2], fds[GUARD_SLOT_COUNT];
	char byte;

	m.key.attempt = 1;
	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	ck_assert_int_eq(fd_send(rig.link, &m, sizeof m, &ends[1], 1, 0), 0);
	fd_close(&ends[1]);
	m = (struct guard_msg){ .kind = GUARD_RELEASE, .value = 1, .key = m.key };
	ck_assert_int_eq(fd_send(rig.link, &m, sizeof m, NULL, 0, 0), 0);
	ck_assert_uint_eq(next(0, fds).kind, GUARD_END);
	ck_assert_int_eq(read(ends[0], &byte, 1), 0); /* the guard has closed its copy */
	fd_close(&ends[0]);
}
END_TEST

/* Deposits the write end of a new pipe as the gate of a member; returns the read end. */
static int deposit_member(struct plan_key *key, uint32_t attempt)
{
	*key = (struct plan_key){ .id = "proc_member", .attempt = attempt };
	const struct guard_msg m = {
		.kind = GUARD_DEPOSIT, .slots = 1u << GUARD_SLOT_GATE, .value = GUARD_DEPOSIT_MEMBER, .key = *key
	};
	int ends[2];
	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	ck_assert_int_eq(fd_send(rig.link, &m, sizeof m, &ends[1], 1, 0), 0);
	fd_close(&ends[1]);
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	return ends[0];
}

/* The guard leaves their messages in its socket for a moment. No other message follows. */
START_TEST(members_in_quick_succession_are_released)
{
	struct plan_key key;
	char byte;

	for (uint32_t i = 1; i <= 30; i++) {
		fd_auto int end = deposit_member(&key, i);
		const struct guard_msg m = { .kind = GUARD_RELEASE, .value = GUARD_RELEASE_MEMBER, .key = key };
		ck_assert_int_eq(fd_send(rig.link, &m, sizeof m, NULL, 0, 0), 0);
		if (i % 10 == 0)
			ck_assert_int_eq(read(end, &byte, 1), 0);
	}
}
END_TEST

START_TEST(members_in_quick_succession_survive_the_runtime)
{
	struct plan_key keys[30];
	int ends[30], fds[GUARD_SLOT_COUNT];
	uint32_t index = 0;

	for (uint32_t i = 0; i < countof(keys); i++)
		ends[i] = deposit_member(&keys[i], i + 1);
	rig_kill_runtime(&rig);
	rig_await_runtime(&rig);
	rig_sync(&rig);
	for (size_t i = 0; i < countof(keys); i++) {
		const struct guard_msg m = next(index, fds);
		ck_assert_uint_eq(m.kind, GUARD_ITEM);
		ck_assert_int_eq(memcmp(&m.key, &keys[i], sizeof m.key), 0);
		ck_assert_uint_eq(m.slots, 1u << GUARD_SLOT_GATE);
		ck_assert_int_eq(write(fds[GUARD_SLOT_GATE], "g", 1), 1);
		fd_close(&fds[GUARD_SLOT_GATE]);
		char byte;
		ck_assert_int_eq(read(ends[i], &byte, 1), 1);
		fd_close(&ends[i]);
		index = m.index;
	}
	ck_assert_uint_eq(next(index, fds).kind, GUARD_END);
}
END_TEST

START_TEST(a_process_is_killed_among_members_in_quick_succession)
{
	struct plan_key key;
	struct run run;

	start_reader(&run);
	for (uint32_t i = 1; i <= 10; i++)
		close(deposit_member(&key, i));
	ck_assert_uint_eq(run_release(&rig, &run), 1);
	ck_assert_int_eq(kill(run.pid, 0), -1);
	run_close(&run);
}
END_TEST

START_TEST(a_killed_process_keeps_its_entry)
{
	struct run run;
	start_reader(&run);
	struct guard_msg m = { .kind = GUARD_KILL, .key = run.key };
	ck_assert_int_eq(fd_send(rig.link, &m, sizeof m, NULL, 0, 0), 0);
	rig_readable(run.fd[GUARD_SLOT_PIDFD], "its death");
	int fds[GUARD_SLOT_COUNT];
	ck_assert_uint_eq(next(0, fds).kind, GUARD_ITEM);
	for (int i = 0; i < GUARD_SLOT_COUNT; i++)
		fd_close(&fds[i]);
	ck_assert_uint_eq(run_release(&rig, &run), 0);
	run_close(&run);
}
END_TEST

START_TEST(a_process_survives_the_runtime)
{
	struct run run;
	for (int i = 0; i < 20; i++) {
		start_reader(&run);
		run_close(&run);
		rig_kill_runtime(&rig);
		rig_await_runtime(&rig);
		take_over(&run);
		finish_reader(&run);
	}
}
END_TEST

START_TEST(a_process_survives_the_spawner)
{
	struct run run;
	for (int i = 0; i < 20; i++) {
		start_reader(&run);
		kill(rig_spawner_pid(&rig), SIGKILL);
		rig_take_new_peer(&rig);
		rig_sync(&rig);
		finish_reader(&run);
	}
}
END_TEST

START_TEST(a_process_survives_runtime_and_spawner)
{
	struct run run;
	for (int i = 0; i < 20; i++) {
		start_reader(&run);
		run_close(&run);
		kill(rig_spawner_pid(&rig), SIGKILL);
		rig_kill_runtime(&rig);
		rig_await_runtime(&rig);
		/* The spawner may have died before or after this runtime was started; in the latter case it gets a link
		 * to the new one. */
		struct pollfd p = { .fd = rig.peer, .events = POLLIN };
		struct spawn_msg sync = { .kind = SPAWN_SYNC };
		if (fd_send(rig.peer, &sync, sizeof sync, NULL, 0, 0) < 0 || poll(&p, 1, RIG_TIMEOUT_MS) != 1 ||
		    fd_recv(rig.peer, &sync, sizeof sync, NULL, NULL, 0) <= 0)
			rig_take_new_peer(&rig);
		take_over(&run);
		finish_reader(&run);
	}
}
END_TEST

START_TEST(an_exit_without_a_runtime_is_kept_for_the_next_one)
{
	struct run run;
	char out[64];
	start_reader(&run);
	pid_t pid = run.pid;
	ck_assert_int_eq(write(run.fd[GUARD_SLOT_STDIN], "it\n", 3), 3);
	int pidfd = fd_take(&run.fd[GUARD_SLOT_PIDFD]);
	run_close(&run);
	rig_kill_runtime(&rig);
	rig_readable(pidfd, "its end");
	rig_await_runtime(&rig);
	run.pid = pid;
	take_over(&run);
	run_read(&run, GUARD_SLOT_STDOUT, out, sizeof out);
	ck_assert_str_eq(out, "begun\ngot it\n");
	struct status_msg m = run_status(&run);
	ck_assert_uint_eq(m.kind, STATUS_EXITED);
	ck_assert_int_eq(WEXITSTATUS(m.wait_status), 7);
	run_release(&rig, &run);
	run_close(&run);
	close(pidfd);
}
END_TEST

/* A start that a runtime requested before it died is in the handover, with its init at the gate. */
START_TEST(a_start_whose_sender_died_waits_at_the_gate)
{
	struct run run;
	for (int i = 0; i < 50; i++) {
		int fds[GUARD_SLOT_COUNT];
		run_send(&rig, &run, &(struct run_spec){ .argv = SH("echo ran") });
		run_close(&run);
		rig_kill_runtime(&rig);
		rig_await_runtime(&rig);
		rig_sync(&rig);
		struct guard_msg m = next(0, fds);
		ck_assert_uint_eq(m.kind, GUARD_ITEM);
		ck_assert(m.slots & 1u << GUARD_SLOT_PIDFD);
		memcpy(run.fd, fds, sizeof fds);
		ck_assert_uint_eq(run_release(&rig, &run), 1);
		ck_assert_uint_eq(next(0, fds).kind, GUARD_END);
		run_close(&run);
	}
}
END_TEST

/* Sleeps for up to about the duration of a start. */
static void sleep_randomly(void)
{
	struct timespec t = { .tv_nsec = rand() % 6000000 };
	nanosleep(&t, NULL);
}

/* The spawner dies at a random moment of a start; after its release the start has left nothing. */
START_TEST(a_start_leaves_nothing_if_the_spawner_dies)
{
	srand(1);
	for (int i = 0; i < 200; i++) {
		struct run run;
		char out[64];
		pid_t spawner = 0;
		while (!spawner)
			spawner = rig_spawner_pid(&rig);
		rig_sync(&rig);
		run_send(&rig, &run, &(struct run_spec){ .argv = SH("echo ran; exec sleep 1000") });
		sleep_randomly();
		kill(spawner, SIGKILL);
		rig_take_new_peer(&rig);
		rig_sync(&rig);
		fd_close(&run.fd[GUARD_SLOT_GATE]);
		run_release(&rig, &run);
		ck_assert_uint_eq(run_read(&run, GUARD_SLOT_STDOUT, out, sizeof out), 0);
		run_close(&run);
	}
}
END_TEST

START_TEST(invalid_messages_end_the_sender)
{
	struct guard_msg bad[] = {
		{ .kind = 77 },
		{ .kind = GUARD_ITEM },
		{ .kind = GUARD_DEPOSIT, .slots = 1, .key = { .id = "proc_x" } },
		{ .kind = GUARD_DEPOSIT, .slots = 1u << GUARD_SLOT_PIDFD, .key = { .id = "proc_x" } },
	};
	for (size_t i = 0; i < countof(bad); i++) {
		ck_assert_int_eq(fd_send(rig.link, &bad[i], sizeof bad[i], NULL, 0, 0), 0);
		rig_drop_links(&rig);
		rig_await_runtime(&rig);
	}
}
END_TEST

START_TEST(a_process_survives_an_upgrade_of_the_guard)
{
	struct run run;
	for (int i = 0; i < 5; i++) {
		start_reader(&run);
		run_close(&run);
		kill(rig.guard, SIGUSR2);
		/* The new guard ends the old runtime: its links (ours) must be closed too, otherwise it would wait for
		 * them.
		 */
		rig_drop_links(&rig);
		rig_await_runtime(&rig);
		take_over(&run);
		finish_reader(&run);
	}
}
END_TEST

/* Saves the state of a guard with one process, and shortens its entry by `slots`, as a version with fewer slots writes
 * it. */
static int older_state(struct guard *g, int out, unsigned slots)
{
	uint32_t head[5]; /* magic, version, head_size, entry_size, count */
	char bytes[4096];
	struct fd_store_entry *en = fd_store_get(&g->store, &(struct plan_key){ .id = "proc_1" });
	fd_store_deposit(&g->store, en, 1u << GUARD_SLOT_STDOUT, &out, 0);
	int fd = guard_state_save(g);
	ssize_t n = read(fd, bytes, sizeof bytes);
	memcpy(head, bytes, sizeof head);
	ck_assert_int_eq(n, head[2] + head[3]);
	head[3] -= slots * (uint32_t)sizeof(int32_t);
	ck_assert_int_eq(pwrite(fd, head, sizeof head, 0), sizeof head);
	ck_assert_int_eq(ftruncate(fd, head[2] + head[3]), 0);
	ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static void load_older_state(unsigned slots, int expected)
{
	struct guard_options o = { .listen_fd = -1, .store_fd = -1, .spool_fd = -1, .lock_fd = -1, .audit_fd = -1 };
	struct guard old = { .o = &o }, new = { .o = &o };
	int fds[GUARD_SLOT_COUNT], out = open("/dev/null", O_WRONLY | O_CLOEXEC);
	uint32_t held = 0;

	fd_store_init(&old.store, 4), fd_store_init(&new.store, 4);
	for (int i = 0; i < GUARD_ROLES; i++)
		guard_child_init(&old.child[i], (enum guard_role)i),
			guard_child_init(&new.child[i], (enum guard_role)i);
	ck_assert_int_eq(guard_state_load(&new, &o, older_state(&old, out, slots)), expected);
	if (expected == 0) {
		const struct fd_store_entry *en = fd_store_find(&new.store, &(struct plan_key){ .id = "proc_1" });
		ck_assert_ptr_nonnull(en);
		ck_assert_uint_eq(fd_store_list(en, fds, &held), 1);
		ck_assert_uint_eq(held, 1u << GUARD_SLOT_STDOUT);
		ck_assert_int_eq(fds[0], out);
	}
	fd_store_done(&old.store);
	free(new.store.entries), free(new.store.hashes); /* its descriptors were those of `old` */
}

START_TEST(the_state_of_a_version_with_fewer_slots_is_loaded)
{
	load_older_state(0, 0);
	load_older_state(2, 0);
	load_older_state(GUARD_SLOT_COUNT + 1, -1);
}
END_TEST

START_TEST(stop_and_reload_reach_the_runtime)
{
	struct guard_msg m = { .kind = GUARD_WANT_RELOAD, .value = 7 };

	kill(rig.guard, SIGHUP);
	struct guard_msg reload = rig_guard_message(&rig, NULL, NULL);
	ck_assert(reload.kind == GUARD_RELOAD && reload.token == 0);
	ck_assert_int_eq(fd_send(rig.link, &m, sizeof m, NULL, 0, 0), 0);
	reload = rig_guard_message(&rig, NULL, NULL);
	ck_assert(reload.kind == GUARD_RELOAD && reload.token == 7);
	kill(rig.guard, SIGHUP);
	reload = rig_guard_message(&rig, NULL, NULL);
	ck_assert(reload.kind == GUARD_RELOAD && reload.token == 7);
	kill(rig.guard, SIGTERM);
	ck_assert_uint_eq(rig_guard_message(&rig, NULL, NULL).kind, GUARD_STOP);
	/* A runtime that dies while it stops is restarted and gets STOP again. */
	rig_kill_runtime(&rig);
	rig_await_runtime(&rig);
	ck_assert_uint_eq(rig_guard_message(&rig, NULL, NULL).kind, GUARD_STOP);
	kill(rig.guard, SIGTERM);
	rig_readable(rig.guard_pidfd, "the guard's end");
}
END_TEST

/* The guard dies at a random moment; then no process holds the command's outputs or its status socket.
 */
START_TEST(nothing_survives_the_guard)
{
	srand(2);
	unsigned begun = 0;
	for (int i = 0; i < 200; i++) {
		struct run run;
		char out[64];
		rig_sync(&rig);
		run_send(&rig, &run, &(struct run_spec){ .argv = SH("echo ran; setsid sleep 1000 & exec sleep 1000") });
		if (i % 2)
			run_open_gate(&run);
		sleep_randomly();
		rig_kill_guard(&rig);
		begun += run_read(&run, GUARD_SLOT_STDOUT, out, sizeof out) > 0;
		while (run_status(&run).kind != 0)
			continue;
		run_close(&run);
		rig_stop(&rig);
		rig_start(&rig);
	}
	printf("# of 200, %u commands had begun when the guard was killed\n", begun);
}
END_TEST

int main(int argc, char **argv)
{
	return RIG_SUITE(argc, argv, "guard", "guard", setup, teardown, 600, releasing_an_unknown_process_kills_nothing,
			 a_release_kills_and_reaps_the_process, a_member_is_released_without_a_reply,
			 members_in_quick_succession_are_released, members_in_quick_succession_survive_the_runtime,
			 a_process_is_killed_among_members_in_quick_succession, a_killed_process_keeps_its_entry,
			 a_process_survives_the_runtime, a_process_survives_the_spawner,
			 a_process_survives_runtime_and_spawner, an_exit_without_a_runtime_is_kept_for_the_next_one,
			 a_start_whose_sender_died_waits_at_the_gate, a_start_leaves_nothing_if_the_spawner_dies,
			 invalid_messages_end_the_sender, a_process_survives_an_upgrade_of_the_guard,
			 the_state_of_a_version_with_fewer_slots_is_loaded, stop_and_reload_reach_the_runtime,
			 nothing_survives_the_guard);
}

/*
 * A compromised runtime that sends random requests, MESSAGES of them (default 100,000; SEED repeats a run), with a
 * check of every reply of the spawner.
 */

#include "tests/unit/supervisor/spawner/compromised.h"

#include "sandbox/change_list.h"
#include "sandbox/landlock.h"
#include "supervisor/spawner/peer_files.h"

#include <grp.h>
#include <sys/mman.h>
#include <time.h>

static uint64_t chance_state;

/* xorshift64*: the same everywhere, from one seed. */
static uint32_t random_below(uint32_t below)
{
	chance_state ^= chance_state >> 12;
	chance_state ^= chance_state << 25;
	chance_state ^= chance_state >> 27;
	return (uint32_t)((chance_state * 2685821657736338717ull) >> 33) % below;
}

struct fuzz {
	int out[2], gate[2], status[2], request, result,
		clients[3]; /* connected root (or the user), disconnected root, another user */
	char canary[64];    /* a system directory that no command may write */
	struct buf plan;
	struct buf authorised; /* grants of the connected root, each NUL-terminated */
	uint64_t refused, accepted, fatal, others;
};

static void open_ends(struct fuzz *f)
{
	ck_assert(pipe2(f->out, O_CLOEXEC) == 0 && pipe2(f->gate, O_CLOEXEC) == 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, f->status), 0);
}

static void close_ends(struct fuzz *f)
{
	for (int i = 0; i < 2; i++) {
		fd_close(&f->out[i]);
		fd_close(&f->gate[i]);
		fd_close(&f->status[i]);
	}
}

static const char *any_path(const struct fuzz *f)
{
	const char *const paths[] = { work,
				      other,
				      work,
				      f->canary,
				      "/etc",
				      "/usr/bin",
				      "/root",
				      "/root/.ssh",
				      "/home",
				      "/",
				      "//etc",
				      "/tmp/../etc",
				      "/var/spool/cron",
				      "/proc/self/fd/0",
				      "/dev/shm",
				      "/tmp",
				      config,
				      state,
				      top,
				      "/etc/shadow",
				      "/run",
				      "/sys/fs/cgroup",
				      "relative",
				      "",
				      "/opt",
				      "/usr",
				      "/proc/1/root/etc",
				      "/root/.cargo",
				      "/nonexistent/x",
				      "/bin" };
	return paths[random_below(countof(paths))];
}

/* A mount that a root peer does not get, even if the rest of the plan is valid. */
static struct plan_mount_spec forbidden_mount(const struct fuzz *f)
{
	const char *const written[] = { f->canary, "/etc", "/etc/cron.d",     "/usr/bin", "/root", "/root/.ssh",
					"/home",   "/",    "/var/spool/cron", config,     state,   top,
					"/opt",    "/run" };
	const char *const read[] = { "/etc/shadow", "/etc", "/run", "/var/lib", config };
	if (random_below(3))
		return (struct plan_mount_spec){ .kind = PLAN_MOUNT_WRITE,
						 .flags = random_below(8),
						 .path = written[random_below(countof(written))] };
	return (struct plan_mount_spec){ .kind = PLAN_MOUNT_READ,
					 .flags = PLAN_MOUNT_OWNED | random_below(8),
					 .path = read[random_below(countof(read))] };
}

static void damage(struct buf *plan, size_t from, uint32_t times)
{
	for (; times > 0; times--) {
		size_t at = random_below((uint32_t)from);
		plan->data[at] = random_below(2) ? (char)random_below(256)
						 : (char)(plan->data[at] ^ (1 << random_below(8)));
	}
}

/* A plan with a forbidden mount, a damaged one, or both; a tame one is intended to be neither. */
static void any_plan(struct fuzz *f, uint32_t flags, bool tame)
{
	static const char script[] =
		"for d in \"$@\"; do touch \"$d/taken\" 2>/dev/null; chmod 4755 \"$d\" 2>/dev/null; done";
	const char *const argv[] = { "sh", "-c", script, "sh", f->canary, "/etc", "/usr/bin", "/root" };
	const char *const envv[] = { "HOME=/root", "PATH=/bin:/usr/bin", "LD_PRELOAD=/tmp/x.so" };
	struct plan_mount_spec mounts[8];
	size_t n = 2 + random_below(5);
	bool harmed = !tame && (geteuid() != 0 || random_below(3) == 0);
	mounts[0] = (struct plan_mount_spec)SYSTEM_MOUNT;
	for (size_t i = 1; i < n; i++)
		mounts[i] = (struct plan_mount_spec){ .kind = 1 + random_below(6),
						      .flags = random_below(8),
						      .path = any_path(f) };
	if (!tame && !harmed)
		mounts[1 + random_below((uint32_t)n - 1)] = forbidden_mount(f);
	struct plan_spec p = { .flags = flags,
			       .layers = random_below(128),
			       .cwd = random_below(4) ? "/" : work,
			       .argv = argv,
			       .argc = countof(argv),
			       .envv = envv,
			       .envc = countof(envv),
			       .mounts = mounts,
			       .nmounts = n,
			       .network = random_below(3),
			       .tmp_bytes = random_below(2) ? 0 : random_below(UINT32_MAX),
			       .cpu_ms = PLAN_UNLIMITED,
			       .open_files = PLAN_UNLIMITED,
			       .file_bytes = PLAN_UNLIMITED };
	struct err e = ERR_INIT;
	p.require = random_below(4) ? 0 : p.layers & random_below(128);
	buf_reset(&f->plan);
	for (size_t i = 1; plan_build(&p, &f->plan, &e) < 0;
	     i = i % (n - 1) + 1) /* a path that the builder itself rejects */
		mounts[i].path = geteuid() == 0 ? "/etc" : work;
	if (harmed)
		damage(&f->plan, sizeof(struct plan_head), 3 + random_below(8));
	else if (random_below(4) == 0)
		damage(&f->plan, f->plan.len, 1 + random_below(4));
}

static bool is_inside(const char *path, const char *folder) { return plan_path_inside(path, folder); }

static bool was_authorised(const struct fuzz *f, const char *path)
{
	for (const char *p = f->authorised.data; p && p < f->authorised.data + f->authorised.len; p += strlen(p) + 1) {
		if (is_inside(path, p))
			return true;
	}
	return false;
}

/* What a connected root starts in, it may also use later. */
static void note_authorised(struct fuzz *f, const struct plan_head *plan)
{
	for (uint32_t i = 0; i < plan->mount_count; i++) {
		const struct plan_mount *m = plan_mount(plan, i);
		const char *path = plan_string(plan, m->path_off);
		bool roots = m->kind == PLAN_MOUNT_WRITE || (m->kind == PLAN_MOUNT_READ && m->flags & PLAN_MOUNT_OWNED);
		if (roots && !was_authorised(f, path))
			buf_append(&f->authorised, path, strlen(path) + 1);
	}
}

/* The rules for an accepted plan, stated independently of the spawner's code. */
static void check_accepted(struct fuzz *f, const struct plan_head *plan, int client)
{
	static const char *const shut[] = { "/etc",       "/usr", "/root", "/home", "/var/lib",
					    "/var/spool", "/opt", "/bin",  "/run" };
	ck_assert_msg(plan->flags & PLAN_PRIVATE_ROOT, "a command without a sandbox");
	if (client == 0)
		note_authorised(f, plan);
	for (uint32_t i = 0; geteuid() == 0 && client != 2 && i < plan->mount_count; i++) {
		const struct plan_mount *m = plan_mount(plan, i);
		const char *path = plan_string(plan, m->path_off);
		bool own = m->kind == PLAN_MOUNT_READ && m->flags & PLAN_MOUNT_OWNED;
		if (own && client == 1)
			ck_assert_msg(was_authorised(f, path) || strcmp(path, "/root/.cargo") == 0,
				      "%s is shown for a root that has left", path);
		if (m->kind != PLAN_MOUNT_WRITE)
			continue;
		for (size_t k = 0; k < countof(shut); k++)
			ck_assert_msg(!is_inside(path, shut[k]), "%s can be written", path);
		ck_assert_msg(strcmp(path, config) != 0 && strcmp(path, state) != 0 && strcmp(path, "/") != 0,
			      "%s can be written", path);
		ck_assert_msg(client == 0 || was_authorised(f, path), "%s can be written for a root that has left",
			      path);
	}
}

static void send_start(struct fuzz *f, uint64_t serial)
{
	uint32_t flags = (random_below(16) ? PLAN_PRIVATE_ROOT : 0) | PLAN_STDERR_MERGE |
			 (random_below(8) ? 0 : PLAN_KEEP_TREE);
	bool tame = random_below(150) == 0;
	int client = (int)random_below(tame ? 3 : 2);
	any_plan(f, flags, tame);
	bool in_file = random_below(8) == 0;
	struct {
		struct spawn_msg m;
		char plan[SPAWN_INLINE_MAX];
	} room = { .m = { .kind = SPAWN_START,
			  .flags = flags,
			  .cpu = random_below(8) ? -1 : (int32_t)random_below(UINT32_MAX),
			  .hint = random_below(4),
			  .token = random_below(4),
			  .plan_len = in_file ? 0 : (uint32_t)f->plan.len } };
	snprintf(room.m.key.id, sizeof room.m.key.id, "fuzz_%llu", (unsigned long long)serial);
	memcpy(room.plan, f->plan.data, f->plan.len);
	int fds[5], plan = -1;
	size_t n = 0;
	if (in_file)
		fds[n++] = plan = fd_memfd_sealed("plan", f->plan.data, f->plan.len);
	fds[n++] = f->clients[client];
	fds[n++] = f->status[1];
	fds[n++] = f->gate[0];
	fds[n++] = f->out[1];
	ck_assert_int_eq(fd_send(rig.peer, &room, sizeof room.m + room.m.plan_len, fds, n, 0), 0);
	fd_close(&plan);
	struct run run = { .key = room.m.key };
	for (int i = 0; i < GUARD_SLOT_COUNT; i++)
		run.fd[i] = -1;
	run_answer(&rig, &run);
	if (run.answer.kind == SPAWN_STARTED) {
		const uint32_t wanted = PLAN_LAYER_NAMESPACES | PLAN_LAYER_SECCOMP | PLAN_LAYER_CAPABILITIES |
					(landlock_abi() ? PLAN_LAYER_LANDLOCK : 0);
		f->accepted++;
		check_accepted(f, (const struct plan_head *)(const void *)f->plan.data, client);
		run.fd[GUARD_SLOT_STATUS] = f->status[0];
		close(f->status[1]);
		f->status[1] = -1;
		struct status_msg m = run_status(&run);
		if (m.kind == STATUS_READY) {
			ck_assert_uint_eq(m.layers & wanted, wanted);
			(void)!write(f->gate[1], "g", 1);
			for (m = run_status(&run); m.kind == STATUS_EXECED; m = run_status(&run))
				continue;
		}
		run.fd[GUARD_SLOT_STATUS] = -1;
		run_release(&rig, &run);
		close_ends(f);
		open_ends(f);
	} else {
		ck_assert_uint_eq(run.answer.kind, SPAWN_FAILED);
		/* It was permitted, but a limit cannot be enforced: for files on a tmpfs there is none of I/O. */
		if (client == 0 && run.answer.error == EOPNOTSUPP)
			note_authorised(f, (const struct plan_head *)(const void *)f->plan.data);
		f->refused++;
	}
	fd_close(&run.fd[GUARD_SLOT_PIDFD]);
	fd_close(&run.fd[GUARD_SLOT_NET]);
}

/* Well-formed messages that request something missing, or with the wrong identity. */
static void send_other(struct fuzz *f)
{
	static const uint32_t kinds[] = { SPAWN_CLEAN,      SPAWN_ANNOUNCE, SPAWN_MARK,
					  SPAWN_PEER_FILES, SPAWN_CHANGES,  SPAWN_GRANT };
	struct spawn_msg m = { .kind = kinds[random_below(countof(kinds))],
			       .token = random_below(UINT32_MAX),
			       .hint = random_below(8),
			       .cpu = (int32_t)random_below(UINT32_MAX),
			       .error = (int32_t)random_below(256),
			       .step = random_below(64),
			       .layers = random_below(256),
			       .pid = (int32_t)random_below(65536) };
	int fds[4] = { -1, -1, -1, -1 }, answer[2] = { -1, -1 };
	size_t n = 0;
	char text[256];
	for (size_t i = 0; i < sizeof text; i++)
		text[i] = (char)(random_below(4) ? "/etc./root\0tmp"[random_below(14)] : (char)random_below(256));
	snprintf(m.key.id, sizeof m.key.id, "fuzz_%u", random_below(1000));
	fd_auto int bytes = fd_memfd_sealed("bytes", text, random_below(sizeof text));
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, answer), 0);
	int client = f->clients[m.kind == SPAWN_GRANT ? 1 : random_below(3)]; /* a connected root may grant anything */
	if (m.kind == SPAWN_PEER_FILES) {
		m.op = random_below(PEER_FILES_OP_COUNT);
		if (m.op == PEER_FILES_WRITE) /* for a connected root this would write its policy */
			client = f->clients[1];
		if (m.op == PEER_FILES_WRITE && geteuid() != 0)
			m.op = PEER_FILES_USER;
		fds[n++] = random_below(8) ? bytes : f->out[0];
		fds[n++] = client;
		fds[n++] = answer[1];
	} else if (m.kind == SPAWN_CHANGES) {
		m.op = random_below(CHANGE_OP_COUNT);
		fds[n++] = random_below(8) ? bytes : f->out[0];
		fds[n++] = random_below(8) ? f->result : f->out[1];
		if (change_op_needs_client((enum change_op)m.op))
			fds[n++] = client;
		if (m.op == CHANGE_OP_REVERT)
			fds[n++] = bytes;
	} else if (m.kind == SPAWN_GRANT) {
		fds[n++] = client;
		fds[n++] = random_below(8) ? bytes : f->out[0];
		fds[n++] = answer[1];
	}
	ck_assert_int_eq(fd_send(rig.peer, &m, sizeof m, fds, n, 0), 0);
	f->others++;
	if (m.kind == SPAWN_CHANGES) {
		rig_readable(rig.peer, "an answer");
		ck_assert_int_eq(fd_recv(rig.peer, &m, sizeof m, NULL, NULL, 0), sizeof m);
		ck_assert_uint_eq(m.kind, SPAWN_CHANGED);
		ck_assert_int_ne(m.error, 0);
	}
	close(answer[0]);
	close(answer[1]);
}

/* A malformed message: the spawner exits, and another one is started. */
static void send_malformed(struct fuzz *f)
{
	union {
		struct spawn_msg m;
		char bytes[sizeof(struct spawn_msg) + 64];
	} u = { .m = { .kind = SPAWN_START, .key = { .id = "fuzz_bad" } } };
	size_t len = sizeof u.m, n = 0;
	int fds[3] = { f->out[0], f->out[0], f->out[0] };
	switch (random_below(6)) {
	case 0: len = 1 + random_below(sizeof u.m - 1); break;
	case 1: len = sizeof u.m + 1 + random_below(63); break;
	case 2: u.m.kind = random_below(2) ? 9 + random_below(100) : random_below(UINT32_MAX) | 256; break;
	case 3: n = random_below(3); break; /* too few descriptors */
	case 4:
		u.m.kind = SPAWN_CLEAN;
		memset(u.m.key.id, random_below(2) ? '/' : 'x', sizeof u.m.key.id);
		break;
	default:
		u.m.flags = 1u << (9 + random_below(23));
		u.m.kind = SPAWN_SYNC;
		break;
	}
	ck_assert_int_eq(fd_send(rig.peer, &u, len, fds, n, 0), 0);
	rig_take_new_peer(&rig);
	f->fatal++;
}

static int socket_of_stranger(void)
{
	int meet[2], fd = -1;
	size_t n = 1;
	char byte;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, meet), 0);
	pid_t pid = fork();
	if (pid == 0) {
		int pair[2];
		if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(65533, 65533, 65533) < 0 ||
				       setresuid(65533, 65533, 65533) < 0))
			_exit(1);
		_exit(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ||
		      fd_send(meet[1], "", 1, pair, 1, 0) < 0);
	}
	ck_assert_int_eq(fd_recv(meet[0], &byte, 1, &fd, &n, 0), 1);
	waitpid(pid, NULL, 0);
	close(meet[0]);
	close(meet[1]);
	return fd;
}

START_TEST(no_random_message_gets_more_than_is_permitted)
{
	uint64_t messages = getenv("MESSAGES") ? strtoull(getenv("MESSAGES"), NULL, 10) : 100000;
	uint64_t seed = getenv("SEED") ? strtoull(getenv("SEED"), NULL, 10) : (uint64_t)time(NULL);
	struct fuzz f = { .plan = BUF_INIT, .authorised = BUF_INIT, .clients = { rig.client[0], -1, -1 } };
	struct stat before, after;
	int gone[2];
	chance_state = seed * 2 + 1;
	printf("# SEED=%llu MESSAGES=%llu\n", (unsigned long long)seed, (unsigned long long)messages);
	fflush(stdout);
	snprintf(f.canary, sizeof f.canary, "%s/rig-canary-XXXXXX", geteuid() == 0 ? "/var/lib" : "/var/tmp");
	ck_assert_ptr_nonnull(mkdtemp(f.canary));
	ck_assert_int_eq(stat(f.canary, &before), 0);
	buf_append(&f.authorised, work, strlen(work) + 1);
	ck_assert(writes(work)); /* authorises it, so that it is possible for the disconnected client */
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gone), 0);
	close(gone[1]);
	f.clients[1] = gone[0];
	f.clients[2] = socket_of_stranger();
	f.result = memfd_create("result", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	open_ends(&f);
	for (uint64_t i = 0; i < messages; i++) {
		uint32_t what = random_below(500);
		if (what == 0)
			send_malformed(&f);
		else if (what < 470)
			send_start(&f, i);
		else
			send_other(&f);
	}
	rig_sync(&rig);
	printf("# %llu starts refused, %llu accepted and confined, %llu other requests, %llu malformed\n",
	       (unsigned long long)f.refused, (unsigned long long)f.accepted, (unsigned long long)f.others,
	       (unsigned long long)f.fatal);
	ck_assert_uint_gt(f.accepted, 0);
	ck_assert_uint_gt(f.refused, f.accepted);
	if (geteuid() == 0) {
		ck_assert_int_eq(stat(f.canary, &after), 0);
		ck_assert(before.st_mtim.tv_sec == after.st_mtim.tv_sec &&
			  before.st_mtim.tv_nsec == after.st_mtim.tv_nsec && before.st_mode == after.st_mode);
		ck_assert(access("/etc/taken", F_OK) < 0 && access("/usr/bin/taken", F_OK) < 0 &&
			  access("/root/taken", F_OK) < 0);
	}
	ck_assert(writes(work)); /* the spawner still serves requests */
	nftw(f.canary, unlink_one, 16, FTW_DEPTH | FTW_PHYS);
	close_ends(&f);
	for (int i = 1; i < 3; i++)
		close(f.clients[i]);
	close(f.result);
	buf_done(&f.plan);
	buf_done(&f.authorised);
}
END_TEST

int main(int argc, char **argv)
{
	return RIG_SUITE(argc, argv, "compromised_random", "runtime", setup, teardown, 3000,
			 no_random_message_gets_more_than_is_permitted);
}

#ifndef BAILIFF_TESTS_COMPROMISED_H
#define BAILIFF_TESTS_COMPROMISED_H

/* A compromised runtime: the test has the runtime's links to a real guard and a real spawner. */

#include "tests/unit/supervisor/rig.h"

#include <ftw.h>
#include <sys/stat.h>

#define SYSTEM_MOUNT                                   \
	{                                              \
		.kind = PLAN_MOUNT_SYSTEM, .path = "/" \
	}

static struct rig rig;
static char top[64], work[80], other[80], config[80], state[80], out[16384];

static inline int unlink_one(const char *path, const struct stat *st, int type, struct FTW *f) { return remove(path); }

static inline void make_folder(char ret[80], const char *name)
{
	snprintf(ret, 80, "%s/%s", top, name);
	ck_assert_int_eq(mkdir(ret, 0755), 0);
}

static inline void setup(void)
{
	snprintf(top, sizeof top, "/tmp/rig-taken-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
	ck_assert_int_eq(chmod(top, 0755), 0);
	make_folder(work, "work");
	make_folder(other, "other");
	make_folder(config, "config");
	make_folder(state, "state");
	setenv("RIG_CONFIG", config, 1);
	setenv("RIG_STATE", state, 1);
	setenv("RIG_NO_HOST", "1", 1);
	rig_start(&rig);
}

static inline void teardown(void)
{
	rig_stop(&rig);
	nftw(top, unlink_one, 16, FTW_DEPTH | FTW_PHYS);
	unsetenv("RIG_CONFIG");
	unsetenv("RIG_STATE");
	unsetenv("RIG_NO_HOST");
}

/* The spawner's reply to a plan with the system and this one mount; a process that was started is released. */
static inline struct spawn_msg ask(uint32_t kind, uint32_t flags, const char *path, const char *script)
{
	const struct plan_mount_spec mounts[] = { SYSTEM_MOUNT, { .kind = kind, .flags = flags, .path = path } };
	struct run run;
	run_send(&rig, &run,
		 &(struct run_spec){ .argv = SH(script),
				     .flags = PLAN_PRIVATE_ROOT | PLAN_STDERR_MERGE,
				     .mounts = mounts,
				     .nmounts = countof(mounts),
				     .network = PLAN_NET_NONE });
	run_answer(&rig, &run);
	if (run.answer.kind == SPAWN_STARTED) {
		run_open_gate(&run);
		run_read(&run, GUARD_SLOT_STDOUT, out, sizeof out);
	}
	run_release(&rig, &run);
	run_close(&run);
	return run.answer;
}

static inline bool started(uint32_t kind, uint32_t flags, const char *path)
{
	return ask(kind, flags, path, "true").kind == SPAWN_STARTED;
}

static inline bool writes(const char *path) { return started(PLAN_MOUNT_WRITE, PLAN_MOUNT_OWNED, path); }

#endif

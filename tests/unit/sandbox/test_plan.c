#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "sandbox/plan.h"
#include "sandbox/steps.h"
#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>

static const char *const argv_[] = { "sh", "-c", "echo \xff\"", "" };
static const char *const envv_[] = { "PATH=/bin", "EMPTY=" };

static struct plan_spec spec(void)
{
	return (struct plan_spec){ .flags = PLAN_STDIN_PIPE,
				   .layers = PLAN_LAYER_NAMESPACES | PLAN_LAYER_CGROUP,
				   .require = PLAN_LAYER_NAMESPACES,
				   .cwd = "/tmp",
				   .argv = argv_,
				   .argc = countof(argv_),
				   .envv = envv_,
				   .envc = countof(envv_),
				   .cpu_ms = 5,
				   .open_files = PLAN_UNLIMITED,
				   .file_bytes = 7 };
}

static void build(struct buf *b)
{
	struct plan_spec s = spec();
	struct err e = ERR_INIT;
	ck_assert_msg(plan_build(&s, b, &e) == 0, "%s", e.message);
}

START_TEST(a_plan_is_built_and_read_back)
{
	buf_auto struct buf b = BUF_INIT;
	build(&b);
	struct err e = ERR_INIT;
	ck_assert_msg(plan_check(b.data, b.len, &e) == 0, "%s %s", e.field, e.message);
	const struct plan_head *p = (const struct plan_head *)b.data;
	ck_assert_uint_eq(p->argc, 4);
	for (uint32_t i = 0; i < p->argc; i++)
		ck_assert_str_eq(plan_arg(p, i), argv_[i]);
	for (uint32_t i = 0; i < p->envc; i++)
		ck_assert_str_eq(plan_env(p, i), envv_[i]);
	ck_assert_str_eq(plan_string(p, p->cwd_off), "/tmp");
	ck_assert_uint_eq(p->cpu_ms, 5);
	ck_assert_uint_eq(p->open_files, PLAN_UNLIMITED);
}
END_TEST

/* Because the plan's hash is recorded. */
START_TEST(the_same_request_gives_the_same_bytes)
{
	buf_auto struct buf a = BUF_INIT, b = BUF_INIT;
	build(&a);
	build(&b);
	ck_assert_uint_eq(a.len, b.len);
	ck_assert_int_eq(memcmp(a.data, b.data, a.len), 0);
}
END_TEST

START_TEST(a_terminal_has_a_size_and_no_pipes)
{
	static const struct {
		uint32_t flags, rows, cols;
		bool good;
	} rows[] = {
		{ PLAN_TTY, 24, 80, true },
		{ PLAN_TTY, 1000, 1000, true },
		{ PLAN_TTY, 0, 80, false },
		{ PLAN_TTY, 24, 1001, false },
		{ PLAN_TTY | PLAN_STDIN_PIPE, 24, 80, false },
		{ PLAN_TTY | PLAN_STDERR_MERGE, 24, 80, false },
		{ 0, 24, 0, false },
	};
	for (size_t i = 0; i < countof(rows); i++) {
		struct plan_spec s = spec();
		buf_auto struct buf b = BUF_INIT;
		struct err e = ERR_INIT;
		s.flags = rows[i].flags;
		s.tty_rows = rows[i].rows;
		s.tty_cols = rows[i].cols;
		ck_assert_int_eq(plan_build(&s, &b, &e), 0);
		ck_assert_int_eq(plan_check(b.data, b.len, &e), rows[i].good ? 0 : -1);
		if (!rows[i].good)
			ck_assert_str_eq(e.field, "tty");
	}
}
END_TEST

START_TEST(errors_name_the_field)
{
	static const char *const nothing[] = { "" }, *const nameless[] = { "=x" }, *const none[] = { "x" };
	struct {
		struct plan_spec s;
		const char *field;
	} rows[] = {
		{ spec(), "command" }, { spec(), "command" }, { spec(), "command" }, { spec(), "cwd" },
		{ spec(), "cwd" },     { spec(), "env" },     { spec(), "env" },
	};
	rows[0].s.argc = 0;
	rows[1].s.argv = nothing;
	rows[1].s.argc = 1;
	rows[2].s.argc = PLAN_ARGS_MAX + 1;
	rows[3].s.cwd = "tmp";
	rows[4].s.cwd = NULL;
	rows[5].s.envv = nameless;
	rows[5].s.envc = 1;
	rows[6].s.envv = none;
	rows[6].s.envc = 1;
	for (size_t i = 0; i < countof(rows); i++) {
		buf_auto struct buf b = BUF_INIT;
		struct err e = ERR_INIT;
		ck_assert_int_eq(plan_build(&rows[i].s, &b, &e), -1);
		ck_assert_str_eq(e.field, rows[i].field);
		ck_assert_uint_eq(b.len, 0);
	}
}
END_TEST

START_TEST(a_plan_that_is_too_large_is_rejected)
{
	mem_auto char *big = mem_alloc(PLAN_MAX + 1);
	memset(big, 'x', PLAN_MAX);
	big[PLAN_MAX] = 0;
	const char *argv[] = { "echo", big };
	struct plan_spec s = spec();
	s.argv = argv;
	s.argc = 2;
	buf_auto struct buf b = BUF_INIT;
	struct err e = ERR_INIT;
	ck_assert_int_eq(plan_build(&s, &b, &e), -1);
	ck_assert_str_eq(e.field, "command");
}
END_TEST

/* With any byte of the head and the tables changed, a plan is rejected or still safe to read. */
START_TEST(damaged_plans_are_rejected_or_safe)
{
	buf_auto struct buf b = BUF_INIT;
	build(&b);
	static const uint8_t values[] = { 0, 1, 0x7f, 0x80, 0xff };
	for (size_t i = 0; i < b.len; i++) {
		for (size_t v = 0; v < countof(values); v++) {
			mem_auto char *copy = mem_dup(b.data, b.len);
			copy[i] = (char)values[v];
			if (plan_check(copy, b.len, NULL) < 0)
				continue;
			const struct plan_head *p = (const struct plan_head *)copy;
			for (uint32_t k = 0; k < p->argc; k++)
				ck_assert(plan_arg(p, k) + strlen(plan_arg(p, k)) < copy + b.len);
			for (uint32_t k = 0; k < p->envc; k++)
				ck_assert(plan_env(p, k) + strlen(plan_env(p, k)) < copy + b.len);
		}
	}
	for (size_t n = 0; n < b.len; n++)
		ck_assert_int_eq(plan_check(b.data, n, NULL), -1);
}
END_TEST

START_TEST(limits_out_of_range_are_rejected)
{
	static const struct {
		enum plan_limit limit;
		uint64_t value;
		bool good;
	} rows[] = {
		{ PLAN_LIMIT_CPUS, 10, true },         { PLAN_LIMIT_CPUS, 9, false },
		{ PLAN_LIMIT_IO_WEIGHT, 10000, true }, { PLAN_LIMIT_IO_WEIGHT, 10001, false },
		{ PLAN_LIMIT_IO_READ, 4095, false },   { PLAN_LIMIT_IO_WRITE, 4096, true },
		{ PLAN_LIMIT_MEMORY_HIGH, 1, false },
	};
	for (size_t i = 0; i < countof(rows); i++) {
		buf_auto struct buf b = BUF_INIT;
		struct plan_spec s = spec();
		struct err e = ERR_INIT;
		s.limits.value[rows[i].limit] = rows[i].value;
		ck_assert_int_eq(plan_build(&s, &b, &e), 0);
		ck_assert_int_eq(plan_check(b.data, b.len, &e), rows[i].good ? 0 : -1);
		if (!rows[i].good)
			ck_assert_str_eq(e.field, plan_limit_info[rows[i].limit].key);
	}
	buf_auto struct buf b = BUF_INIT;
	struct plan_spec s = spec();
	s.limits.required = 1u << PLAN_LIMIT_CPUS; /* but not set */
	ck_assert_int_eq(plan_build(&s, &b, NULL), 0);
	ck_assert_int_eq(plan_check(b.data, b.len, NULL), -1);
}
END_TEST

START_TEST(limits_are_scaled)
{
	ck_assert_uint_eq(plan_limit_scale(PLAN_LIMIT_CPUS, 1.5), 1500);
	ck_assert_uint_eq(plan_limit_scale(PLAN_LIMIT_CPUS, 0.29), 290);
	ck_assert_uint_eq(plan_limit_scale(PLAN_LIMIT_CPUS, -1), 0);
	ck_assert_uint_eq(plan_limit_scale(PLAN_LIMIT_PIDS, 7), 7);
	ck_assert_uint_eq(plan_limit_scale(PLAN_LIMIT_MEMORY, 1e30), PLAN_UNLIMITED);
}
END_TEST

START_TEST(keys_are_checked)
{
	struct plan_key k = { .id = "proc_01ABC-x" };
	ck_assert(plan_key_valid(&k));
	k.id[PLAN_KEY_MAX - 1] = 'x';
	ck_assert(!plan_key_valid(&k)); /* bytes after the end */
	ck_assert(!plan_key_valid(&(struct plan_key){ .id = "" }));
	ck_assert(!plan_key_valid(&(struct plan_key){ .id = "../x" }));
	ck_assert(!plan_key_valid(&(struct plan_key){ .id = "a b" }));
	ck_assert(!plan_key_valid(&(struct plan_key){ .id = "a", .reserved = 1 }));
	memset(k.id, 'a', sizeof k.id);
	ck_assert(!plan_key_valid(&k));
}
END_TEST

START_TEST(steps_have_names)
{
	ck_assert_str_eq(sandbox_step_name(STEP_CLONE), "clone");
	ck_assert_str_eq(sandbox_step_name(STEP_NO_NEW_PRIVS), "no_new_privs");
	ck_assert_str_eq(sandbox_step_name(STEP_EXEC), "exec");
	ck_assert_str_eq(sandbox_step_name(STEP_COUNT), "unknown");
}
END_TEST

START_TEST(mount_paths_must_be_absolute_and_clean)
{
	static const struct {
		const char *path;
		bool good;
	} rows[] = {
		{ "/", true },      { "/a", true },      { "/a/b", true },     { "/.a", true },    { "/..a", true },
		{ "/a/...", true }, { "/a/b..", true },  { "/a/.b/c", true },  { "", false },      { "a", false },
		{ "./a", false },   { "//", false },     { "//a", false },     { "/a/", false },   { "/a//b", false },
		{ "/.", false },    { "/..", false },    { "/./a", false },    { "/../a", false }, { "/a/.", false },
		{ "/a/..", false }, { "/a/./b", false }, { "/a/../b", false },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		const struct plan_mount_spec m = { .path = rows[i].path, .kind = PLAN_MOUNT_READ };
		struct plan_spec s = spec();
		buf_auto struct buf b = BUF_INIT;
		struct err e = ERR_INIT;

		s.mounts = &m;
		s.nmounts = 1;
		ck_assert_msg((plan_build(&s, &b, &e) == 0) == rows[i].good, "'%s': %s", rows[i].path, e.message);
		if (!rows[i].good)
			ck_assert_str_eq(e.field, "sandbox");
	}
}
END_TEST

int main(void)
{
	return SUITE("plan", a_plan_is_built_and_read_back, the_same_request_gives_the_same_bytes,
		     a_terminal_has_a_size_and_no_pipes, errors_name_the_field, a_plan_that_is_too_large_is_rejected,
		     damaged_plans_are_rejected_or_safe, limits_out_of_range_are_rejected, limits_are_scaled,
		     keys_are_checked, steps_have_names, mount_paths_must_be_absolute_and_clean);
}

/* Audit records as the kernel writes them, and the resulting violations. */

#include "sandbox/sysfilter.h"
#include "sandbox/violation.h"

#include "runtime/base/mem.h"
#include "sandbox/audit.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <malloc.h>
#include <seccomp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LANDLOCK 1423
#define TASK                                                                                                   \
	"ppid=1753 pid=1754 auid=4294967280 uid=65534 gid=65534 euid=65534 suid=65534 fsuid=65534 egid=65534 " \
	"sgid=65534 "                                                                                          \
	"fsgid=65534 tty=(none) ses=7 comm=\"sh\" exe=\"/bin/sh\" key=(null)"
#define INODE "inode=19 dev=fe:00 mode=040755 ouid=0 ogid=0 rdev=00:00 "
#define CAPS " cap_fp=0 cap_fi=0 cap_fe=0 cap_fver=0 cap_frootid=0"

static struct violation_builder *b;
static const struct violation *v;
static struct violation_mark mark;

__attribute__((format(printf, 3, 4))) static enum violation_step put(unsigned type, unsigned serial, const char *fmt,
								     ...)
{
	char text[4096];
	int n = snprintf(text, sizeof text, "audit(1794712292.031:%u): ", serial);
	va_list ap;
	va_start(ap, fmt);
	n += vsnprintf(text + n, sizeof text - (size_t)n, fmt, ap);
	va_end(ap);
	mem_auto char *exact = mem_dup(text, (size_t)n); /* not NUL-terminated */
	v = NULL;
	return violation_builder_take(b, type, exact, (size_t)n, &v, &mark);
}

static void put_call(unsigned serial, const char *name, int error, const char *args)
{
	put(AUDIT_SYSCALL, serial, "arch=%x syscall=%d success=no exit=-%d %s items=1 " TASK, seccomp_arch_native(),
	    sysfilter_number(seccomp_arch_native(), name), error, args);
}

static void put_path(unsigned serial, const char *name, const char *type)
{
	ck_assert_int_eq(put(AUDIT_PATH, serial, "item=0 name=%s " INODE "nametype=%s" CAPS, name, type),
			 VIOLATION_NOTHING);
}

static void check_violation(unsigned serial, const char *kind, const char *operation, const char *path, bool directory)
{
	ck_assert_int_eq(put(AUDIT_EOE, serial, "%s", ""), VIOLATION_READY);
	ck_assert_str_eq(v->kind, kind);
	ck_assert_str_eq(v->operation, operation);
	ck_assert_str_eq(v->path, path);
	ck_assert_int_eq(v->directory, directory);
	ck_assert_ptr_null(v->reason);
	ck_assert_str_eq(v->host, "");
	ck_assert_uint_eq(v->count, 0);
	ck_assert_uint_eq(v->session, 7);
	ck_assert_int_eq(v->pid, 1754);
	ck_assert_str_eq(v->comm, "sh");
}

#define AT_CWD "a0=ffffffffffffff9c a1=aaaae7ee1ac8"

START_TEST(opens_are_classified_by_their_flags)
{
	mallopt(M_PERTURB, 0xa5); /* simulates a heap that was used before */
	b = violation_builder_new();
	put_call(1, "openat", EACCES, AT_CWD " a2=0 a3=0");
	put(AUDIT_CWD, 1, "cwd=\"/etc\"");
	put_path(1, "\"/etc/shadow\"", "NORMAL");
	check_violation(1, "filesystem", "read", "/etc/shadow", false);
	ck_assert_str_eq(v->source, "audit");
	ck_assert_str_eq(v->syscall, "openat");
	ck_assert_int_eq(v->error, EACCES);
	put_call(2, "openat", EROFS, AT_CWD " a2=1 a3=0");
	put(AUDIT_CWD, 2, "cwd=\"/etc\"");
	put_path(2, "\"./x//hosts\"", "NORMAL");
	check_violation(2, "filesystem", "write", "/etc/x/hosts", false);
	put_call(3, "openat", EACCES, AT_CWD " a2=41 a3=180");
	put(AUDIT_CWD, 3, "cwd=2F6574632FC3B6"); /* hexadecimal: not printable */
	put_path(3, "\"new/\"", "PARENT");
	check_violation(3, "filesystem", "create", "/etc/\xc3\xb6/new", true);
	/* Truncation is a write. */
	mem_auto char *args = mem_printf(AT_CWD " a2=%x a3=0", O_RDONLY | O_TRUNC);
	put_call(4, "openat", EACCES, args);
	put_path(4, "\"/x\"", "NORMAL");
	check_violation(4, "filesystem", "write", "/x", false);
	violation_builder_free(b);
}
END_TEST

START_TEST(a_relative_path_of_a_descriptor_is_not_resolved)
{
	b = violation_builder_new();
	put_call(1, "openat", EACCES, "a0=5 a1=aaaa a2=1 a3=0");
	put(AUDIT_CWD, 1, "cwd=\"/etc\"");
	put_path(1, "\"x\"", "NORMAL");
	check_violation(1, "filesystem", "write", "x", false);
	/* Landlock reports the path. */
	put(LANDLOCK, 2, "domain=1cdcb0b08 blockers=fs.write_file path=\"/srv/d/x\" dev=\"vda\" ino=724");
	put_call(2, "openat", EACCES, "a0=5 a1=aaaa a2=1 a3=0");
	put(AUDIT_CWD, 2, "cwd=\"/etc\"");
	put_path(2, "\"x\"", "NORMAL");
	check_violation(2, "filesystem", "write", "/srv/d/x", false);
	ck_assert_str_eq(v->source, "landlock");
	/* The kernel records the working directory instead of a directory that only the descriptor names. */
	put_call(3, "unlinkat", EROFS, "a0=5 a1=aaaa a2=0 a3=0");
	put(AUDIT_CWD, 3, "cwd=\"/srv/home\"");
	put_path(3, "\"/srv/home\"", "PARENT");
	check_violation(3, "filesystem", "delete", "", true);
	put_call(4, "openat", EROFS, "a0=5 a1=aaaa a2=41 a3=0");
	put(AUDIT_CWD, 4, "cwd=\"/srv/home\"");
	put_path(4, "\"/srv/home\"", "PARENT");
	check_violation(4, "filesystem", "create", "", true);
	put_call(5, "unlinkat", EROFS, "a0=5 a1=aaaa a2=0 a3=0");
	put(AUDIT_CWD, 5, "cwd=\"/srv/home\"");
	put_path(5, "\"/srv/home/\"", "PARENT");
	check_violation(5, "filesystem", "delete", "/srv/home", true);
	put_call(6, "unlinkat", EROFS, "a0=5 a1=aaaa a2=0 a3=0");
	put(AUDIT_CWD, 6, "cwd=\"/srv/home\"");
	put_path(6, "\"sub/\"", "PARENT");
	check_violation(6, "filesystem", "delete", "sub", true);
	put_call(7, "unlinkat", EROFS, AT_CWD " a2=0 a3=0");
	put(AUDIT_CWD, 7, "cwd=\"/srv/home\"");
	put_path(7, "\"/srv/home\"", "PARENT");
	check_violation(7, "filesystem", "delete", "/srv/home", true);
	violation_builder_free(b);
}
END_TEST

static int looked;

static bool is_srv(const char *path, const struct dirfd_path *f)
{
	looked++;
	return f->inode == 19 && f->major == 0xfe && f->minor == 0 &&
	       (strcmp(path, "/srv") == 0 || strcmp(path, "/srv/x") == 0);
}

START_TEST(an_open_directory_is_found_in_the_command_line)
{
	b = violation_builder_new();
	violation_builder_set_resolver(b, is_srv);
	for (unsigned i = 1; i < 4; i++) {
		put_call(i, "openat", EROFS, "a0=5 a1=aaaa a2=41 a3=0");
		put(AUDIT_CWD, i, "cwd=\"/srv/home\"");
		put_path(i, "\"/srv/home\"", "PARENT");
		put(AUDIT_PROCTITLE, i, "proctitle=6370006D696E65002F7372762F"); /* cp mine /srv/ */
		check_violation(i, "filesystem", "create", "/srv", true);
	}
	ck_assert_int_eq(looked, 2); /* mine and /srv, once for all records */
	put_call(4, "openat", EACCES, "a0=5 a1=aaaa a2=1 a3=0");
	put(AUDIT_CWD, 4, "cwd=\"/srv/home\"");
	put_path(4, "\"x\"", "NORMAL");
	put(AUDIT_PROCTITLE, 4, "proctitle=6370006D696E65002F7372762F");
	check_violation(4, "filesystem", "write", "/srv/x", false);
	/* A target that is named first is not the directory. */
	put_call(5, "symlinkat", EROFS, "a0=aaaa a1=5 a2=aaaa a3=d");
	put(AUDIT_CWD, 5, "cwd=\"/srv/home\"");
	put_path(5, "\"t\"", "UNKNOWN");
	put_path(5, "\"/srv/home\"", "PARENT");
	put(AUDIT_PROCTITLE, 5, "proctitle=\"x\"");
	check_violation(5, "filesystem", "create", "", true);
	violation_builder_free(b);
}
END_TEST

START_TEST(parent_references_from_the_working_directory_are_resolved)
{
	static const struct {
		const char *cwd, *name, *path;
	} rows[] = {
		{ "/a/b", "../x", "/a/x" },
		{ "/a/b", "../../x", "/x" },
		{ "/a/b", ".././/../x", "/x" },
		{ "/a/b", "../../../../x", "/x" },
		{ "/a/b", "..", "/a" },
		{ "/a/b", "../..", "/" },
		{ "/", "../x", "/x" },
		{ "/a/b", "./../x/", "/a/x" },
		{ "/a/b", "..x", "/a/b/..x" },
		{ "/a/b", ".hidden", "/a/b/.hidden" },
		/* Other directories may be links, so .. is not resolved after them. */
		{ "/a/b", "x/../y", "/a/b/x/../y" },
		{ "/a/b", "../x/../y", "/a/x/../y" },
		{ "/a/b", "/x/../y", "/x/../y" },
	};
	b = violation_builder_new();
	for (unsigned i = 0; i < countof(rows); i++) {
		mem_auto char *name = mem_printf("\"%s\"", rows[i].name);
		put_call(i + 1, "openat", EACCES, AT_CWD " a2=1 a3=0");
		put(AUDIT_CWD, i + 1, "cwd=\"%s\"", rows[i].cwd);
		put_path(i + 1, name, "NORMAL");
		check_violation(i + 1, "filesystem", "write", rows[i].path, false);
	}
	violation_builder_free(b);
}
END_TEST

START_TEST(the_denied_one_of_several_paths_is_chosen)
{
	b = violation_builder_new();
	put_call(1, "renameat2", EACCES, AT_CWD " a2=ffffffffffffff9c a3=aaaa");
	put(AUDIT_CWD, 1, "cwd=\"/\"");
	put_path(1, "\"/etc/\"", "PARENT");
	put_path(1, "\"/etc/\"", "PARENT");
	put_path(1, "\"/etc/hosts\"", "DELETE");
	check_violation(1, "filesystem", "rename", "/etc/hosts", false);
	put_call(2, "symlinkat", EACCES, "a0=aaaa a1=ffffffffffffff9c a2=aaaa a3=d");
	put(AUDIT_CWD, 2, "cwd=\"/etc\"");
	put_path(2, "\"/target\"", "UNKNOWN");
	put_path(2, "\"/etc/\"", "PARENT");
	put_path(2, "\"q\"", "CREATE");
	check_violation(2, "filesystem", "create", "/etc/q", false);
	put_call(3, "linkat", EPERM, AT_CWD " a2=ffffffffffffff9c a3=aaaa");
	put_path(3, "\"/etc/hosts\"", "NORMAL");
	put_path(3, "\"/etc/\"", "PARENT");
	check_violation(3, "filesystem", "create", "/etc", true);
	put_call(4, "fchmodat", EPERM, AT_CWD " a2=1ff a3=0");
	put_path(4, "(null)", "NORMAL");
	check_violation(4, "filesystem", "metadata", "", false);
	put_call(5, "mkdirat", EACCES, AT_CWD " a2=1ff a3=0");
	put_path(5, "\"/root/x/y\"", "UNKNOWN"); /* not looked up */
	check_violation(5, "filesystem", "create", "/root/x/y", false);
	violation_builder_free(b);
}
END_TEST

START_TEST(addresses_are_decoded)
{
	b = violation_builder_new();
	put_call(1, "connect", ENETUNREACH, "a0=3 a1=aaaa a2=10 a3=0");
	put(AUDIT_SOCKADDR, 1, "saddr=020001BBCB0071070000000000000000");
	check_violation(1, "network", "connect", "", false);
	ck_assert_str_eq(v->address, "203.0.113.7");
	ck_assert_int_eq(v->port, 443);
	put_call(2, "sendto", ENETUNREACH, "a0=3 a1=aaaa a2=10 a3=0");
	put(AUDIT_SOCKADDR, 2, "saddr=0A0000350000000020010DB800000000000000000000000100000000");
	check_violation(2, "network", "send", "", false);
	ck_assert_str_eq(v->address, "2001:db8::1");
	ck_assert_int_eq(v->port, 53);
	put_call(3, "connect", EACCES, "a0=3 a1=aaaa a2=10 a3=0");
	put(AUDIT_SOCKADDR, 3, "saddr=01002F72756E2F782E736F636B00");
	put_path(3, "\"/run/x.sock\"", "NORMAL");
	check_violation(3, "network", "connect", "/run/x.sock", false);
	put_call(4, "connect", EACCES, "a0=3 a1=aaaa a2=10 a3=0");
	put(AUDIT_SOCKADDR, 4, "saddr=0100006162");
	check_violation(4, "network", "connect", "@ab", false);
	ck_assert_int_eq(v->port, -1);
	put_call(5, "bind", EROFS, "a0=3 a1=aaaa a2=10 a3=0");
	put(AUDIT_SOCKADDR, 5, "saddr=0100612F622E736F636B");
	put(AUDIT_CWD, 5, "cwd=\"/srv/w\"");
	put_path(5, "\"a/\"", "PARENT");
	check_violation(5, "network", "bind", "/srv/w/a/b.sock", false);
	violation_builder_free(b);
}
END_TEST

START_TEST(system_calls_are_named)
{
	b = violation_builder_new();
	ck_assert_int_eq(put(AUDIT_SECCOMP, 1,
			     "auid=4294967280 uid=65534 gid=65534 ses=70 pid=13518 comm=\"x\" exe=\"/x\" sig=0 "
			     "arch=%x syscall=%d compat=0 ip=0xffff90387c28 code=0x50000",
			     seccomp_arch_native(), seccomp_syscall_resolve_name("personality")),
			 VIOLATION_READY);
	ck_assert_str_eq(v->kind, "syscall");
	ck_assert_str_eq(v->operation, "call");
	ck_assert_str_eq(v->source, "seccomp");
	ck_assert_str_eq(v->syscall, "personality");
	ck_assert_ptr_nonnull(strstr(v->reason, "not for sandboxes: all but the usual one"));
	ck_assert_uint_eq(v->session, 70);
	put_call(2, "unshare", EPERM, "a0=0 a1=0 a2=0 a3=0");
	check_violation(2, "syscall", "namespace", "", false);
	/* A call that only Landlock denies. */
	put(LANDLOCK, 3, "domain=1cdcb0b08 blockers=scope.signal opid=1 ocomm=\"init\"");
	put_call(3, "tgkill", EPERM, "a0=0 a1=0 a2=0 a3=0");
	check_violation(3, "syscall", "signal", "", false);
	ck_assert_str_eq(v->syscall, "tgkill");
	violation_builder_free(b);
}
END_TEST

/* The same call of a 64-bit program is denied for its arguments only. */
START_TEST(a_32_bit_call_is_named_by_its_own_table)
{
	static const struct {
		uint32_t arch;
		int clone;
	} rows[] = { { SCMP_ARCH_X86, 120 }, { SCMP_ARCH_ARM, 120 } };
	for (size_t i = 0; i < countof(rows); i++) {
		b = violation_builder_new();
		ck_assert_int_eq(put(AUDIT_SECCOMP, 1,
				     "auid=4294967280 uid=65534 gid=65534 ses=7 pid=13518 comm=\"x\" exe=\"/x\" sig=31 "
				     "arch=%x syscall=%d compat=1 ip=0x8049011 code=0x80000000",
				     rows[i].arch, rows[i].clone),
				 VIOLATION_READY);
		ck_assert_str_eq(v->syscall, "clone");
		ck_assert_str_eq(v->reason, "not for sandboxes: 32-bit system calls");
		violation_builder_free(b);
	}
}
END_TEST

START_TEST(creat_is_an_open_that_creates)
{
	SKIP_IF(seccomp_syscall_resolve_name("creat") < 0, "this architecture has no creat(2)");
	b = violation_builder_new();
	put_call(1, "creat", EROFS, "a0=aaaa a1=180 a2=0 a3=0");
	put(AUDIT_CWD, 1, "cwd=\"/srv\"");
	put_path(1, "\"/etc/\"", "PARENT");
	check_violation(1, "filesystem", "create", "/etc", true);
	put_call(2, "creat", EROFS, "a0=aaaa a1=180 a2=0 a3=0");
	put_path(2, "\"/etc/\"", "PARENT");
	put_path(2, "\"/etc/hosts\"", "NORMAL");
	check_violation(2, "filesystem", "write", "/etc/hosts", false);
	violation_builder_free(b);
}
END_TEST

/* libseccomp may not know them yet. */
START_TEST(calls_newer_than_libseccomp_are_named)
{
	b = violation_builder_new();
	put_call(1, "setxattrat", EROFS, "a0=ffffff9c a1=aaaa a2=0 a3=bbbb");
	put(AUDIT_CWD, 1, "cwd=\"/srv\"");
	put_path(1, "\"/etc/hosts\"", "NORMAL");
	check_violation(1, "filesystem", "metadata", "/etc/hosts", false);
	ck_assert_str_eq(v->syscall, "setxattrat");
	violation_builder_free(b);
}
END_TEST

START_TEST(only_records_of_sandboxes_are_reported)
{
	b = violation_builder_new();
	put(AUDIT_SYSCALL, 1,
	    "arch=%x syscall=%d success=no exit=-13 a0=0 a1=0 a2=0 a3=0 items=0 pid=9 auid=1000 ses=7 comm=\"sh\"",
	    seccomp_arch_native(), seccomp_syscall_resolve_name("openat"));
	ck_assert_int_eq(put(AUDIT_EOE, 1, "%s", ""), VIOLATION_NOTHING);
	ck_assert_int_eq(put(AUDIT_EOE, 2, "%s", ""), VIOLATION_NOTHING); /* without earlier records */
	ck_assert_int_eq(put(1006, 3, "pid=1753 uid=0 old-auid=4294967295 auid=4294967280 ses=1 res=1"),
			 VIOLATION_NOTHING);
	violation_builder_free(b);
}
END_TEST

START_TEST(interleaved_records_are_assigned_by_serial)
{
	b = violation_builder_new();
	for (unsigned i = 1; i <= 300; i++)
		put_call(i, "openat", EACCES, AT_CWD " a2=0 a3=0");
	for (unsigned i = 300; i >= 1; i--) {
		mem_auto char *name = mem_printf("\"/x/%u\"", i);
		put_path(i, name, "NORMAL");
	}
	for (unsigned i = 1; i <= 300; i++) {
		mem_auto char *path = mem_printf("/x/%u", i);
		check_violation(i, "filesystem", "read", path, false);
	}
	/* If end marks are missing, only the oldest records are lost. */
	for (unsigned i = 1001; i <= 3000; i++)
		put_call(i, "openat", EACCES, AT_CWD " a2=0 a3=0");
	put_path(3000, "\"/last\"", "NORMAL");
	check_violation(3000, "filesystem", "read", "/last", false);
	violation_builder_free(b);
}
END_TEST

START_TEST(marks_are_recognized)
{
	b = violation_builder_new();
	ck_assert_int_eq(put(AUDIT_MARK_TYPE, 1,
			     "pid=1752 uid=0 auid=4294967295 ses=4294967295 msg='" AUDIT_MARK "18446744073709'"),
			 VIOLATION_MARK);
	ck_assert_uint_eq(mark.token, 18446744073709ull);
	ck_assert_int_eq(put(AUDIT_MARK_TYPE, 1, "pid=1752 uid=0 auid=1 ses=1 msg='something else'"),
			 VIOLATION_NOTHING);
	violation_builder_free(b);
}
END_TEST

static struct violation sample(const char *operation, const char *path)
{
	struct violation x = {
		.kind = "filesystem", .operation = operation, .source = "audit", .port = -1, .error = EACCES
	};
	snprintf(x.path, sizeof x.path, "%s", path);
	snprintf(x.syscall, sizeof x.syscall, "openat");
	return x;
}

START_TEST(common_denials_are_benign)
{
	static const struct {
		const char *operation, *path;
		bool benign;
	} rows[] = {
		{ "read", "/root/.bashrc", true },
		{ "write", "/root/.bashrc", false },
		{ "read", "/root/.config/git/config", true },
		{ "read", "/root/.ssh/id_rsa", false },
		{ "read", "/proc/12/environ", true },
		{ "read", "/proc/kcore", false },
		{ "create", "/usr/lib/python3/x/__pycache__", true },
		{ "create", "/usr/lib/python3/x", false },
		{ "read", ".bashrc", false },
		{ "read", "/etc/shadow", false },
	};
	for (size_t i = 0; i < countof(rows); i++) {
		struct violation x = sample(rows[i].operation, rows[i].path);
		ck_assert_msg(violation_is_benign(&x) == rows[i].benign, "%s %s", rows[i].operation, rows[i].path);
	}
	struct violation lock = sample("create", "/root/.cargo");
	lock.directory = true;
	ck_assert(!violation_is_benign(&lock));
	snprintf(lock.comm, sizeof lock.comm, "cargo");
	ck_assert(violation_is_benign(&lock));
	snprintf(lock.path, sizeof lock.path, "/root/.cargo/bin");
	ck_assert(!violation_is_benign(&lock));
	struct violation git = sample("delete", "/srv/x/.git");
	git.error = EBUSY;
	ck_assert(!violation_is_benign(&git));
	snprintf(git.comm, sizeof git.comm, "git");
	snprintf(git.syscall, sizeof git.syscall, "rmdir");
	ck_assert(violation_is_benign(&git));
	snprintf(git.path, sizeof git.path, "/srv/x/.git/config");
	ck_assert(!violation_is_benign(&git));
	git.directory = true;
	ck_assert(!violation_is_benign(&git));
	snprintf(git.path, sizeof git.path, "/srv/x/.git/worktrees");
	ck_assert(violation_is_benign(&git));
	snprintf(git.path, sizeof git.path, "/srv/x/.git/modules/libs");
	ck_assert(violation_is_benign(&git));
	snprintf(git.path, sizeof git.path, "/srv/x/.git/modules-old");
	ck_assert(!violation_is_benign(&git));
	snprintf(git.path, sizeof git.path, "/srv/x/.git/modules/libs/hooks");
	snprintf(git.syscall, sizeof git.syscall, "unlink"); /* of a file, which does not fail anywhere */
	ck_assert(!violation_is_benign(&git));
	struct violation own = sample("metadata", "/srv/x");
	snprintf(own.syscall, sizeof own.syscall, "fchownat");
	own.error = EPERM;
	ck_assert(violation_is_benign(&own));
	own.error = EROFS;
	ck_assert(!violation_is_benign(&own));
}
END_TEST

START_TEST(violations_are_copied_and_compared)
{
	struct violation x = sample("read", "/etc/shadow"), y = sample("read", "/etc/shadow");
	mem_auto struct violation *copy = violation_copy(&x);
	y.pid = 5; /* the pid does not matter */
	ck_assert(violation_same(copy, &y));
	y.path[1] = 'E';
	ck_assert(!violation_same(copy, &y));
	ck_assert_str_eq(copy->path, "/etc/shadow");
}
END_TEST

int main(void)
{
	return SUITE("violation", opens_are_classified_by_their_flags, a_relative_path_of_a_descriptor_is_not_resolved,
		     parent_references_from_the_working_directory_are_resolved,
		     an_open_directory_is_found_in_the_command_line, the_denied_one_of_several_paths_is_chosen,
		     addresses_are_decoded, system_calls_are_named, a_32_bit_call_is_named_by_its_own_table,
		     creat_is_an_open_that_creates, calls_newer_than_libseccomp_are_named,
		     only_records_of_sandboxes_are_reported, interleaved_records_are_assigned_by_serial,
		     marks_are_recognized, common_denials_are_benign, violations_are_copied_and_compared);
}

/* Output of commands about denials, and the hints derived from it. */

#include "sandbox/output_hint.h"

#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct output_hint found[8];
static size_t count;

static void on_hint(void *ctx, const struct output_hint *h)
{
	ck_assert_uint_lt(count, countof(found));
	found[count++] = *h;
}

static size_t scan(const char *text)
{
	mem_auto char *exact = mem_dup(text, strlen(text)); /* not NUL-terminated */

	count = 0;
	output_hints(exact, strlen(text), on_hint, NULL);
	return count;
}

START_TEST(paths_are_found_in_messages_of_common_programs)
{
	static const struct {
		const char *line, *operation, *path;
		int error;
	} rows[] = {
		{ "touch: cannot touch '/etc/x': Read-only file system", "create", "/etc/x", EROFS },
		{ "sh: 1: cannot create /etc/x: Read-only file system", "create", "/etc/x", EROFS },
		{ "bash: line 1: /etc/x: Read-only file system", "write", "/etc/x", EROFS },
		{ "tee: /srv/a b: Read-only file system", "write", "/srv/a b", EROFS },
		{ "mkdir: cannot create directory \xe2\x80\x98"
		  "/srv/new\xe2\x80\x99: Read-only file system",
		  "create", "/srv/new", EROFS },
		{ "rm: cannot remove '/usr/bin/x': Read-only file system", "delete", "/usr/bin/x", EROFS },
		{ "mv: cannot move 'a' to '/etc/a': Read-only file system", "rename", "/etc/a", EROFS },
		{ "mv: cannot move '.git/hooks' to 'x': Device or resource busy", "rename", "x", EBUSY },
		{ "chmod: changing permissions of '/etc/hosts': Read-only file system", "metadata", "/etc/hosts",
		  EROFS },
		{ "OSError: [Errno 30] Read-only file system: '/etc/x'", "write", "/etc/x", EROFS },
		{ "Error: EROFS: read-only file system, mkdir '/opt/x'", "create", "/opt/x", EROFS },
		{ "open /etc/x: read-only file system", "write", "/etc/x", EROFS },
		{ "error: could not write config file .git/config: Read-only file system", "write", ".git/config",
		  EROFS },
		{ "fatal: could not create work tree dir 'clone': Read-only file system", "create", "clone", EROFS },
		{ "sh: 1: cannot create /tmp/d/x: Directory nonexistent", "create", "/tmp/d/x", ENOENT },
		{ "cat: /home/u/.netrc: No such file or directory", "read", "/home/u/.netrc", ENOENT },
		{ "FileNotFoundError: [Errno 2] No such file or directory: '/tmp/x'", "read", "/tmp/x", ENOENT },
		{ "ls: cannot open directory '/home/u': Permission denied", "read", "/home/u", EACCES },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		ck_assert_msg(scan(rows[i].line) == 1, "%s", rows[i].line);
		ck_assert_str_eq(found[0].kind, "filesystem");
		ck_assert_str_eq(found[0].operation, rows[i].operation);
		ck_assert_str_eq(found[0].paths[0], rows[i].path);
		ck_assert_int_eq(found[0].error, rows[i].error);
		ck_assert_str_eq(found[0].line, rows[i].line);
	}
}
END_TEST

START_TEST(an_error_on_its_own_line_applies_to_the_path_before)
{
	ck_assert_uint_eq(scan("error: failed to create directory `/opt/cargo/registry`\n\nCaused by:\n  Read-only "
			       "file system (os error 30)\n"),
			  1);
	ck_assert_str_eq(found[0].paths[0], "/opt/cargo/registry");
	ck_assert_uint_eq(scan("Read-only file system\n"), 0);
}
END_TEST

START_TEST(hosts_and_addresses_are_found)
{
	static const struct {
		const char *line, *operation, *host, *address;
		int port;
	} rows[] = {
		{ "curl: (6) Could not resolve host: example.org", "lookup", "example.org", "", -1 },
		{ "ping: example.org: Temporary failure in name resolution", "lookup", "example.org", "", -1 },
		{ "ssh: Could not resolve hostname github.com: Name or service not known", "lookup", "github.com", "",
		  -1 },
		{ "wget: unable to resolve host address \xe2\x80\x98"
		  "example.org\xe2\x80\x99",
		  "lookup", "example.org", "", -1 },
		{ "npm error network request to https://registry.npmjs.org/x failed, reason: getaddrinfo EAI_AGAIN "
		  "registry.npmjs.org",
		  "lookup", "registry.npmjs.org", "", -1 },
		{ "dial tcp: lookup proxy.golang.org on 127.0.0.1:53: no such host", "lookup", "proxy.golang.org", "",
		  -1 },
		{ "curl: (7) Failed to connect to 203.0.113.7 port 80 after 0 ms: Couldn't connect to server",
		  "connect", "", "203.0.113.7", 80 },
		{ "ssh: connect to host 203.0.113.7 port 22: Network is unreachable", "connect", "", "203.0.113.7",
		  22 },
		{ "Error: connect ENETUNREACH 203.0.113.7:443 - Local (0.0.0.0:0)", "connect", "", "203.0.113.7", 443 },
		{ "Connecting to 203.0.113.7:80... failed: Network is unreachable.", "connect", "", "203.0.113.7", 80 },
		{ "connect to [2001:db8::1]:443: Network is unreachable", "connect", "", "2001:db8::1", 443 },
		{ "OSError: [Errno 101] Network is unreachable", "connect", "", "", -1 },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		ck_assert_msg(scan(rows[i].line) == 1, "%s", rows[i].line);
		ck_assert_str_eq(found[0].kind, "network");
		ck_assert_str_eq(found[0].operation, rows[i].operation);
		ck_assert_str_eq(found[0].host, rows[i].host);
		ck_assert_str_eq(found[0].address, rows[i].address);
		ck_assert_int_eq(found[0].port, rows[i].port);
	}
	/* A lookup without its name. */
	ck_assert_uint_eq(scan("socket.gaierror: [Errno -3] Temporary failure in name resolution"), 0);
}
END_TEST

START_TEST(servers_on_this_machine_are_found)
{
	static const struct {
		const char *line, *host;
		int port;
	} rows[] = {
		{ "curl: (7) Failed to connect to localhost port 3000 after 0 ms: Couldn't connect to server",
		  "localhost", 3000 },
		{ "curl: (7) Failed to connect to 127.0.0.1 port 80: Connection refused", "localhost", 80 },
		{ "Error: connect ECONNREFUSED ::1:3000", "localhost", 3000 },
		{ "Connecting to localhost (localhost)|127.0.0.1|:8000... failed: Connection refused.", "localhost",
		  8000 },
		{ "nc: connect to localhost port 3000 (tcp) failed: Connection refused", "localhost", 3000 },
		{ "connection to server at \"localhost\" (127.0.0.1), port 5432 failed: Connection refused",
		  "localhost", 5432 },
		{ "Could not connect to Redis at 127.0.0.1:6379: Connection refused", "localhost", 6379 },
		{ "ConnectionRefusedError: [Errno 111] Connection refused", "", -1 },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		ck_assert_msg(scan(rows[i].line) == 1, "%s", rows[i].line);
		ck_assert_str_eq(found[0].operation, "connect");
		ck_assert_int_eq(found[0].error, ECONNREFUSED);
		ck_assert(found[0].this_host);
		ck_assert_str_eq(found[0].host, rows[i].host);
		ck_assert_int_eq(found[0].port, rows[i].port);
	}
	ck_assert_uint_eq(scan("ssh: connect to host 203.0.113.7 port 22: Connection refused"), 0);
	ck_assert_uint_eq(scan("Failed to connect to db.localhost.example port 22: Connection refused"), 0);
}
END_TEST

START_TEST(git_directories_are_found)
{
	ck_assert_uint_eq(scan("fatal: not a git repository: /m/.git/worktrees/x\n"), 1);
	ck_assert_str_eq(found[0].paths[0], "/m/.git/worktrees/x");
	ck_assert_uint_eq(scan("fatal: not a git repository (or any of the parent directories): .git\n"), 0);
}
END_TEST

START_TEST(missing_privileges_are_found)
{
	ck_assert_uint_eq(scan("unshare: unshare failed: Operation not permitted"), 1);
	ck_assert_str_eq(found[0].kind, "syscall");
	ck_assert_str_eq(found[0].operation, "namespace");
	ck_assert_uint_eq(scan("mount: /mnt: permission denied."), 1);
	ck_assert_str_eq(found[0].operation, "mount");
}
END_TEST

START_TEST(terminal_sequences_are_ignored)
{
	ck_assert_uint_eq(scan("\033]0;title\a\033[1;31mtouch:\033[0m cannot touch '\033[4m/etc/x\033[m': Read-only "
			       "file system\r\n$ "),
			  1);
	ck_assert_str_eq(found[0].paths[0], "/etc/x");
	ck_assert_str_eq(found[0].line, "touch: cannot touch '/etc/x': Read-only file system");
	ck_assert_uint_eq(scan("\033[31"), 0);
	ck_assert_uint_eq(scan("\033]unfinished Read-only file system: '/etc/x'"), 0);
}
END_TEST

START_TEST(other_output_gives_no_hint)
{
	static const char *const texts[] = {
		"",
		"\n\n",
		"all tests passed",
		"PEROFSX",
		"the file system is read-only",
		"3 files changed",
		"error: expected ';'",
	};

	for (size_t i = 0; i < countof(texts); i++)
		ck_assert_msg(scan(texts[i]) == 0, "%s", texts[i]);
}
END_TEST

int main(void)
{
	return SUITE("output_hint", paths_are_found_in_messages_of_common_programs,
		     an_error_on_its_own_line_applies_to_the_path_before, hosts_and_addresses_are_found,
		     servers_on_this_machine_are_found, git_directories_are_found, missing_privileges_are_found,
		     terminal_sequences_are_ignored, other_output_gives_no_hint);
}

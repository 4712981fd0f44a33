#include "supervisor/cli/violation_summary.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "sandbox/violation_text.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <string.h>

static struct violation_summary d;

static bool take(const char *payload)
{
	mem_auto char *event = mem_printf("{\"type\":\"sandbox.violation\",\"payload\":%s}", payload);
	return violation_summary_add(&d, jval_of(event, strlen(event)));
}

START_TEST(violations_become_lines)
{
	d = (struct violation_summary){ 0 };
	ck_assert(take("{\"kind\":\"filesystem\",\"operation\":\"write\",\"path\":\"/srv/"
		       "hosts\",\"pathIs\":\"entry\",\"reason\":\"outside the write roots\"}"));
	ck_assert(take("{\"kind\":\"filesystem\",\"operation\":\"create\",\"path\":\"/"
		       "srv\",\"pathIs\":\"directory\",\"errnoName\":\"EROFS\"}"));
	ck_assert(take("{\"kind\":\"network\",\"operation\":\"connect\",\"address\":\"2001:db8::1\",\"port\":443,"
		       "\"errnoName\":\"ENETUNREACH\"}"));
	ck_assert(take("{\"kind\":\"network\",\"operation\":\"connect\",\"address\":\"203.0.113.7\",\"port\":80,"
		       "\"reason\":\"no network\"}"));
	ck_assert(take("{\"kind\":\"syscall\",\"operation\":\"call\",\"syscall\":\"unshare\",\"source\":\"seccomp\"}"));
	ck_assert_uint_eq(d.count, 5);
	ck_assert_str_eq(d.lines[0], "denied: write /srv/hosts (outside the write roots)");
	ck_assert_str_eq(d.lines[1], "denied: create in /srv (outside the write roots)");
	ck_assert_str_eq(d.lines[2], "denied: connect [2001:db8::1]:443 (no network)");
	ck_assert_str_eq(d.lines[3], "denied: connect 203.0.113.7:80 (no network)");
	ck_assert_str_eq(d.lines[4], "denied: system call unshare (a system call that sandboxes may not use)");
	ck_assert_str_eq(d.needs.folder, "/srv");
	ck_assert(d.needs.write && d.needs.network && !d.needs.read);
	violation_summary_done(&d);
}
END_TEST

START_TEST(violations_without_a_path_are_described)
{
	d = (struct violation_summary){ 0 };
	take("{\"kind\":\"filesystem\",\"operation\":\"delete\",\"pathIs\":\"directory\",\"syscall\":\"unlinkat\","
	     "\"reason\":\"read-only there\"}");
	take("{\"kind\":\"filesystem\",\"operation\":\"metadata\",\"syscall\":\"fchmod\",\"reason\":\"read-only "
	     "there\"}");
	take("{\"kind\":\"filesystem\",\"operation\":\"write\",\"path\":\"fstab\",\"pathIs\":\"entry\",\"syscall\":"
	     "\"openat\"}");
	take("{\"kind\":\"filesystem\",\"operation\":\"create\",\"path\":\"/w/"
	     "link\",\"pathIs\":\"directory\",\"reason\":\"leads out of the write roots\"}");
	ck_assert_str_eq(d.lines[0], "denied: delete in an open folder (read-only there)");
	ck_assert_str_eq(d.lines[1], "denied: metadata of an open file (read-only there)");
	ck_assert_str_eq(d.lines[2], "denied: write fstab in an open folder");
	ck_assert_str_eq(d.lines[3], "denied: create in /w/link (leads out of the write roots)");
	/* None of them suggests an option. */
	ck_assert(d.needs.write && !d.needs.folder[0]);
	violation_summary_done(&d);
	take("{\"kind\":\"filesystem\",\"operation\":\"other\",\"source\":\"audit\",\"count\":436}");
	ck_assert_str_eq(d.lines[0], "denied: other files");
	violation_summary_done(&d);
}
END_TEST

START_TEST(an_unknown_folder_next_to_protected_files_suggests_nothing)
{
	static const char unknown[] = "{\"kind\":\"filesystem\",\"operation\":\"delete\",\"pathIs\":\"directory\","
				      "\"reason\":\"read-only there\"}";
	static const char protected[] = "{\"kind\":\"filesystem\",\"operation\":\"delete\",\"path\":\"/w/.git/config\","
					"\"reason\":\"protected\"}";

	for (int first = 0; first < 2; first++) {
		d = (struct violation_summary){ 0 };
		take(first ? unknown : protected);
		take(first ? protected : unknown);
		ck_assert(d.needs.protected && !d.needs.write);
		take("{\"kind\":\"filesystem\",\"operation\":\"write\",\"path\":\"/srv/x\",\"pathIs\":\"entry\"}");
		ck_assert(d.needs.write);
		ck_assert_str_eq(d.needs.folder, "/srv");
		violation_summary_done(&d);
	}
}
END_TEST

START_TEST(only_git_itself_refreshes_an_index)
{
	static const struct {
		const char *comm, *path;
		bool optional;
	} rows[] = { { "git", "/w/.git", true },
		     { "git", "/w/.git/modules/libs", true },
		     { "sh", "/w/.git", false },
		     { "git", "/w/.git/modules/libs/hooks", false } };

	for (size_t i = 0; i < countof(rows); i++) {
		mem_auto char *text = mem_printf(
			"{\"kind\":\"filesystem\",\"operation\":\"create\",\"pathIs\":\"directory\","
			"\"comm\":\"%s\",\"path\":\"%s\"}",
			rows[i].comm, rows[i].path);
		ck_assert_int_eq(violation_text_is_optional(jval_of(text, strlen(text))), rows[i].optional);
	}
}
END_TEST

START_TEST(a_hint_is_marked_as_a_guess)
{
	d = (struct violation_summary){ 0 };
	take("{\"kind\":\"filesystem\",\"operation\":\"read\",\"path\":\"/home/u/"
	     "x\",\"reason\":\"hidden\",\"source\":\"output\",\"confidence\":\"hint\"}");
	take("{\"kind\":\"network\",\"operation\":\"connect\",\"reason\":\"no "
	     "network\",\"source\":\"output\",\"confidence\":\"hint\"}");
	ck_assert_str_eq(d.lines[0], "probably denied: read /home/u/x (hidden), guessed from the output");
	ck_assert_str_eq(d.lines[1], "probably denied: connect (no network), guessed from the output");
	ck_assert_str_eq(d.needs.file, "/home/u/x");
	ck_assert(d.needs.read && d.needs.network && !d.needs.write);
	violation_summary_done(&d);
}
END_TEST

START_TEST(repeated_violations_are_listed_once_and_the_list_is_bounded)
{
	d = (struct violation_summary){ 0 };
	for (int i = 0; i < 300; i++) {
		mem_auto char *payload = mem_printf(
			"{\"kind\":\"filesystem\",\"operation\":\"read\",\"path\":\"/x/%d\",\"count\":%d}", i / 3, i);
		ck_assert(take(payload));
	}
	ck_assert_uint_eq(d.count, VIOLATION_SUMMARY_LINES);
	ck_assert_uint_eq(d.nlater, 64);
	ck_assert(d.many);
	violation_summary_done(&d);
	ck_assert(!violation_summary_add(&d, jval_of("{\"type\":\"process.output\"}", 25)));
}
END_TEST

START_TEST(no_option_is_suggested_where_none_would_help)
{
	d = (struct violation_summary){ 0 };
	take("{\"kind\":\"filesystem\",\"operation\":\"read\",\"path\":\"/etc/shadow\",\"reason\":\"not permitted to "
	     "its user\"}");
	take("{\"kind\":\"filesystem\",\"operation\":\"write\",\"path\":\"/w/.git/config\",\"reason\":\"protected\"}");
	take("{\"kind\":\"network\",\"operation\":\"bind\",\"address\":\"0.0.0.0\",\"port\":80,\"reason\":\"a port "
	     "below 1024\"}");
	take("{\"kind\":\"network\",\"operation\":\"connect\",\"address\":\"10.0.0.1\",\"port\":80,\"reason\":\"the "
	     "host has no route there\"}");
	ck_assert(!d.needs.read && !d.needs.write && !d.needs.network);
	take("{\"kind\":\"filesystem\",\"operation\":\"write\",\"path\":\"/"
	     "x\",\"pathIs\":\"entry\",\"reason\":\"outside the write roots\"}");
	ck_assert(!d.needs.write && !d.needs.folder[0] && d.needs.outside && d.needs.protected);
	violation_summary_done(&d);
}
END_TEST

/* Writing the system's folders is equivalent to being root, and keys work outside of the sandbox. */
START_TEST(no_option_is_suggested_that_would_be_dangerous)
{
	static const char *const dangerous[][3] = {
		{ "write", "/etc/hosts", "entry" },
		{ "create", "/etc", "directory" },
		{ "create", "/", "directory" },
		{ "delete", "/usr/bin", "directory" },
		{ "write", "/var/lib/dpkg/lock", "entry" },
		{ "write", "/proc/sys/kernel/hostname", "entry" },
		{ "read", "/home/u/.ssh/id_rsa", "entry" },
		{ "read", "/home/u/.sshd/.ssh/id_rsa", "entry" },
		{ "read", "/home/u/.netrc", "entry" },
		{ "write", "/home/u/.aws/config", "entry" },
	};
	static const char *const harmless[][3] = {
		{ "write", "/srv/x", "entry" },
		{ "create", "/srv", "directory" },
		{ "create", "/var/tmp/x", "directory" },
		{ "read", "/home/u/.sshd/x", "entry" },
	};

	for (size_t i = 0; i < countof(dangerous) + countof(harmless); i++) {
		const char *const *row = i < countof(dangerous) ? dangerous[i] : harmless[i - countof(dangerous)];
		mem_auto char *payload = mem_printf(
			"{\"kind\":\"filesystem\",\"operation\":\"%s\",\"path\":\"%s\",\"pathIs\":\"%s\","
			"\"reason\":\"%s\"}",
			row[0], row[1], row[2], row[0][0] == 'r' ? "hidden" : "outside the write roots");
		const bool outside = i < countof(dangerous);
		d = (struct violation_summary){ 0 };
		take(payload);
		ck_assert_msg(d.needs.outside == outside && (d.needs.write || d.needs.read) == !outside, "%s", row[1]);
		ck_assert_int_eq(violation_needs_person(&d.needs) != NULL, outside);
		violation_summary_done(&d);
	}
}
END_TEST

/* The narrowest option is suggested, with the host's name if it is known. */
START_TEST(a_host_is_suggested_instead_of_the_network)
{
	buf_auto struct buf host = BUF_INIT;

	d = (struct violation_summary){ 0 };
	take("{\"kind\":\"network\",\"operation\":\"connect\",\"address\":\"10.0.0.53\",\"port\":53,\"reason\":\"no "
	     "network\"}");
	ck_assert(d.needs.network && !d.needs.host[0] && !d.needs_without_optional.network);
	take("{\"kind\":\"network\",\"operation\":\"lookup\",\"host\":\"example.test\",\"reason\":\"no network\"}");
	violation_needs_host(&d.needs, &host);
	ck_assert_str_eq(host.data, "example.test");
	ck_assert(!d.needs_without_optional.host[0] && d.optional[0] && d.optional[1]);
	violation_summary_done(&d);
	buf_reset(&host);
	take("{\"kind\":\"network\",\"operation\":\"connect\",\"address\":\"2001:db8::1\",\"port\":443,\"reason\":\"no "
	     "network\"}");
	violation_needs_host(&d.needs, &host);
	ck_assert_str_eq(host.data, "[2001:db8::1]:443");
	violation_summary_done(&d);
	take("{\"kind\":\"network\",\"operation\":\"connect\",\"address\":\"10.0.0.1\",\"port\":443,\"reason\":\"only "
	     "through the proxy\"}");
	ck_assert(d.needs.proxy && !d.needs.network && !d.needs.host[0]);
	violation_summary_done(&d);
}
END_TEST

/* git status succeeds without the index that it would have written; a file of the working tree is another matter. */
START_TEST(what_a_command_can_do_without_is_marked)
{
	static const struct {
		const char *operation, *path, *is;
		bool optional;
	} rows[] = {
		{ "create", "/srv/repo/.git", "directory", true },
		{ "create", "/srv/main/.git/worktrees/side", "directory", true },
		{ "create", "/srv/super/.git/modules/sub", "directory", true },
		{ "create", "/srv/repo", "directory", false },
		{ "create", "/srv/repo/x.git", "directory", false },
		{ "create", "/srv/repo/.git/hooks/pre-commit", "entry", false },
		{ "delete", "/srv/repo/.git", "directory", false },
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char payload[400];

		snprintf(payload, sizeof payload,
			 "{\"kind\":\"filesystem\",\"operation\":\"%s\",\"path\":\"%s\",\"pathIs\":\"%s\",\"reason\":"
			 "\"outside the write roots\"}",
			 rows[i].operation, rows[i].path, rows[i].is);
		take(payload);
		ck_assert_msg(d.optional[0] == rows[i].optional && d.needs_without_optional.write == !rows[i].optional,
			      "%s", payload);
		violation_summary_done(&d);
	}
}
END_TEST

int main(void)
{
	return SUITE("violation_summary", what_a_command_can_do_without_is_marked,
		     a_host_is_suggested_instead_of_the_network, violations_become_lines,
		     violations_without_a_path_are_described,
		     an_unknown_folder_next_to_protected_files_suggests_nothing, only_git_itself_refreshes_an_index,
		     a_hint_is_marked_as_a_guess, repeated_violations_are_listed_once_and_the_list_is_bounded,
		     no_option_is_suggested_where_none_would_help, no_option_is_suggested_that_would_be_dangerous);
}

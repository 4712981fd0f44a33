#include "supervisor/client/home_candidates.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/daemon/daemon_home.h"
#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>

static void set(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

/* Checks that the first candidate of the command line is the home that the daemon would use. */
static void compare(uid_t uid)
{
	struct home places[HOME_CANDIDATES_MAX];
	struct daemon_paths paths;
	struct err e = ERR_INIT;

	ck_assert_int_ge(home_candidates(uid, places), 1);
	ck_assert_int_eq(daemon_paths_find(NULL, uid, &paths, &e), 0);
	mem_auto char *socket = mem_printf("%s/control.sock", paths.run);
	mem_auto char *store = mem_printf("%s/store", paths.state);
	ck_assert_str_eq(places[0].socket, socket);
	ck_assert_str_eq(places[0].store, store);
}

START_TEST(test_the_first_candidate_is_the_daemons_home)
{
	static const char *const rows[][5] = {
		/* BAILIFF_HOME, HOME, runtime, state, config */
		{ "/tmp/h", NULL, NULL, NULL, NULL },
		{ "relative/h", "/home/x", NULL, NULL, NULL },
		{ NULL, "/home/x", NULL, NULL, NULL },
		{ NULL, "/home/x", "/run/user/7", NULL, NULL },
		{ NULL, "/home/x", "/run/user/7", "/srv/state", "/srv/config" },
		{ "", "/home/x", "", "", "" },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		set("BAILIFF_HOME", rows[i][0]);
		set("HOME", rows[i][1]);
		set("XDG_RUNTIME_DIR", rows[i][2]);
		set("XDG_STATE_HOME", rows[i][3]);
		set("XDG_CONFIG_HOME", rows[i][4]);
		compare(4242);
		compare(0);
	}
}
END_TEST

START_TEST(test_user_homes_come_before_the_system_home)
{
	struct home places[HOME_CANDIDATES_MAX];

	set("BAILIFF_HOME", NULL);
	set("HOME", "/home/x");
	set("XDG_RUNTIME_DIR", "/run/user/7");
	ck_assert_uint_eq(home_candidates(7, places), 2);
	ck_assert_str_eq(places[0].kind, "user");
	ck_assert_str_eq(places[1].socket, "/run/bailiff/control.sock");
	ck_assert_uint_eq(home_candidates(0, places), 1);
	ck_assert_str_eq(places[0].kind, "system");
	set("BAILIFF_HOME", "/tmp/h");
	ck_assert_uint_eq(home_candidates(7, places), 1);
	ck_assert_str_eq(places[0].dir, "/tmp/h");
	ck_assert(!home_has_store(&places[0]));
}
END_TEST

int main(void)
{
	return SUITE("home_candidates", test_the_first_candidate_is_the_daemons_home,
		     test_user_homes_come_before_the_system_home);
}

#include "sandbox/profile.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <string.h>

static const char *const secrets[] = { "/home/ann/state/store", "/home/ann/state/control.sock" };
static const char *const folders[] = { "/home/ann/state" };
static const struct profile_paths ann = {
	.cwd = "/home/ann/proj/src",
	.home = "/home/ann",
	.workspace = "/home/ann/proj",
	.secrets = secrets,
	.nsecrets = 2,
	.folders = folders,
	.nfolders = 1,
};

static void make(const char *name, const struct profile_paths *place, struct profile *p)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(profile_shipped(name, p), 0);
	ck_assert_int_eq(profile_expand(p, place, &e), 0);
}

static void compile(struct profile *p, const struct profile_paths *place)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(profile_compile(p, place, &e), 0);
	for (size_t i = 1; i < p->count; i++)
		ck_assert_str_ne(p->entry[i - 1].path, p->entry[i].path);
}

static size_t place_of(const struct profile *p, const char *path)
{
	size_t i = 0;

	while (i < p->count && strcmp(p->entry[i].path, path) != 0)
		i++;
	return i;
}

/* "": the profile has no entry for this path */
static const char *kind_of(const struct profile *p, const char *path)
{
	size_t i = place_of(p, path);

	return i == p->count ? "" : profile_kind_name(p->entry[i].kind);
}

static void change(struct profile *p, struct profile_change c, bool may_widen, int expected)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(profile_adjust(p, &c, &ann, may_widen, &e), expected ? -1 : 0);
	ck_assert_int_eq((int)e.code, expected);
}

#define LIST(what, ...)                               \
	.what = (const char *const[]){ __VA_ARGS__ }, \
	.n##what = sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *)

START_TEST(the_workspace_profile_compiles_to_its_entries)
{
	struct profile p;

	make("workspace", &ann, &p);
	compile(&p, &ann);
	ck_assert(p.confined);
	ck_assert_uint_eq(p.network, PLAN_NET_NONE);
	ck_assert_str_eq(kind_of(&p, "/"), "system");
	ck_assert_str_eq(kind_of(&p, "/home"), "hide");
	ck_assert_str_eq(kind_of(&p, "/home/ann"), "empty");
	ck_assert_str_eq(kind_of(&p, "/home/ann/.cargo"), "read");
	ck_assert_str_eq(kind_of(&p, "/home/ann/.cargo/credentials"), "hide");
	ck_assert_str_eq(kind_of(&p, "/home/ann/.local/share/uv/credentials"), "hide");
	ck_assert_str_eq(kind_of(&p, "/home/ann/.dotnet/corefx"), "hide"); /* private keys of certificates */
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj"), "write");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/.git/hooks"), "protect");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/.git/config"), "protect");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/.bailiff"), "protect");
	ck_assert_str_eq(kind_of(&p, "/home/ann/state"), "hide");
	ck_assert_str_eq(kind_of(&p, "/home/ann/state/store"), "");
	ck_assert_uint_eq(p.entry[place_of(&p, "/home/ann/.cargo")].flags, PLAN_MOUNT_OPTIONAL | PLAN_MOUNT_OWNED);
	/* A directory comes before its contents. */
	ck_assert_uint_eq(place_of(&p, "/"), 0);
	ck_assert_uint_lt(place_of(&p, "/home"), place_of(&p, "/home/ann"));
	ck_assert_uint_lt(place_of(&p, "/home/ann"), place_of(&p, "/home/ann/proj"));
	ck_assert_uint_lt(place_of(&p, "/home/ann/proj"), place_of(&p, "/home/ann/proj/.git/hooks"));
	profile_done(&p);
}
END_TEST

START_TEST(the_other_profiles_compile_to_their_entries)
{
	struct profile p;

	make("readonly", &ann, &p);
	compile(&p, &ann);
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj"), "read");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/.git/hooks"), "");
	ck_assert_str_eq(kind_of(&p, "/home/ann/.claude/CLAUDE.md"), "");
	profile_done(&p);

	make("instructions", &ann, &p);
	compile(&p, &ann);
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj"), "read");
	ck_assert_str_eq(kind_of(&p, "/home/ann/.cargo"), "");
	ck_assert_uint_eq(p.entry[place_of(&p, "/home/ann/.claude/CLAUDE.md")].flags,
			  PLAN_MOUNT_OPTIONAL | PLAN_MOUNT_OWNED | PLAN_MOUNT_EXACT);
	profile_done(&p);

	make("isolated", &ann, &p);
	compile(&p, &ann);
	ck_assert_str_eq(kind_of(&p, "/"), "");
	ck_assert_str_eq(kind_of(&p, "/usr"), "read");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj"), "empty");
	profile_done(&p);

	make("ci", &ann, &p);
	compile(&p, &ann);
	ck_assert_str_eq(kind_of(&p, "/home/ann"), "empty");
	ck_assert_str_eq(kind_of(&p, "/home/ann/.cargo"), "");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj"), "write");
	ck_assert_uint_eq(p.limits.value[PLAN_LIMIT_PIDS], 4096);
	ck_assert_uint_eq(p.tmp_bytes, 4ull << 30);
	profile_done(&p);

	make("host", &ann, &p);
	compile(&p, &ann);
	ck_assert(!p.confined);
	ck_assert_uint_eq(p.count, 0);
	profile_done(&p);
	ck_assert_int_eq(profile_shipped("no such", &p), -1);
}
END_TEST

START_TEST(without_home_and_workspace_nothing_is_writable)
{
	const struct profile_paths bare = { .cwd = "/tmp", .home = "/", .workspace = "" };
	struct profile p;

	make("workspace", &bare, &p);
	compile(&p, &bare);
	ck_assert_str_eq(kind_of(&p, "/"), "system");
	for (size_t i = 0; i < p.count; i++)
		ck_assert(p.entry[i].kind == PLAN_MOUNT_SYSTEM || p.entry[i].kind == PLAN_MOUNT_HIDE);
	profile_done(&p);
}
END_TEST

START_TEST(the_home_of_root_is_empty)
{
	const struct profile_paths root = { .cwd = "/srv/x", .home = "/root", .workspace = "/srv/x" };
	struct profile p;

	make("workspace", &root, &p);
	compile(&p, &root);
	ck_assert_str_eq(kind_of(&p, "/root"), "empty");
	ck_assert_str_eq(kind_of(&p, "/home"), "hide");
	profile_done(&p);
}
END_TEST

/* A bailiff home that contains the workspace is visible as far as the workspace; its secrets are hidden. */
START_TEST(a_workspace_inside_a_private_directory_hides_the_secrets)
{
	const struct profile_paths inside = {
		.cwd = "/home/ann/state/tree",
		.home = "/home/ann",
		.workspace = "/home/ann/state/tree",
		.secrets = secrets,
		.nsecrets = 2,
		.folders = folders,
		.nfolders = 1,
	};
	const struct profile_paths whole = {
		.cwd = "/home/ann/state",
		.home = "/home/ann",
		.workspace = "/home/ann/state",
		.secrets = secrets,
		.nsecrets = 2,
		.folders = folders,
		.nfolders = 1,
	};
	static const char *const own[] = { "/srv/x/state/store", "/srv/x/state/policy.json" }, *const folder[] = {
		"/srv/x/state"
	};
	const struct profile_paths around = {
		.cwd = "/srv/x",
		.home = "",
		.workspace = "/srv/x",
		.secrets = own,
		.nsecrets = 2,
		.folders = folder,
		.nfolders = 1,
	};
	const struct profile_paths within = {
		.cwd = "/srv/x/state/tree",
		.home = "",
		.workspace = "/srv/x",
		.secrets = own,
		.nsecrets = 2,
		.folders = folder,
		.nfolders = 1,
	};
	struct profile p;

	make("workspace", &inside, &p);
	compile(&p, &inside);
	ck_assert_str_eq(kind_of(&p, "/home/ann/state/tree"), "write");
	ck_assert_str_eq(kind_of(&p, "/home/ann/state/store"), "hide");
	profile_done(&p);

	make("workspace", &whole, &p);
	compile(&p, &whole);
	/* Missing secrets must not be created there either, so nothing is writable. */
	ck_assert_str_eq(kind_of(&p, "/home/ann/state"), "read");
	ck_assert_str_eq(kind_of(&p, "/home/ann/state/control.sock"), "hide");
	ck_assert_uint_ne(p.entry[place_of(&p, "/home/ann/state/control.sock")].flags & PLAN_MOUNT_OPTIONAL, 0);
	profile_done(&p);

	make("workspace", &around, &p);
	compile(&p, &around);
	ck_assert_str_eq(kind_of(&p, "/srv/x"), "write");
	ck_assert_str_eq(kind_of(&p, "/srv/x/state"), "hide");
	ck_assert_str_eq(kind_of(&p, "/srv/x/state/store"), "");
	profile_done(&p);

	make("workspace", &within, &p);
	compile(&p, &within);
	ck_assert_str_eq(kind_of(&p, "/srv/x"), "write");
	ck_assert_str_eq(kind_of(&p, "/srv/x/state"), "read");
	ck_assert_str_eq(kind_of(&p, "/srv/x/state/store"), "hide");
	profile_done(&p);
}
END_TEST

START_TEST(a_profile_can_always_be_narrowed)
{
	struct profile p;

	make("workspace", &ann, &p);
	change(&p,
	       (struct profile_change){ LIST(read, "/home/ann/proj/vendor", "/usr/share"),
					LIST(hide, "~/.cargo", "/srv"), .network = "none",
					.limits.value = { [PLAN_LIMIT_PIDS] = 64, [PLAN_LIMIT_MEMORY] = 1 << 20 },
					.tmp_bytes = 1 << 16, .cow = true },
	       false, 0);
	compile(&p, &ann);
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/vendor"), "read");
	ck_assert_str_eq(kind_of(&p, "/usr/share"), "");
	ck_assert_str_eq(kind_of(&p, "/home/ann/.cargo"), "hide");
	ck_assert_str_eq(kind_of(&p, "/home/ann/.cargo/credentials"), "");
	ck_assert_str_eq(kind_of(&p, "/srv"), "hide");
	ck_assert_uint_eq(p.limits.value[PLAN_LIMIT_PIDS], 64);
	ck_assert(p.cow);
	/* Requested limits are required: they are not skipped where they are unavailable. */
	ck_assert(p.require & PLAN_LAYER_CGROUP);
	profile_done(&p);
}
END_TEST

START_TEST(a_write_root_that_becomes_read_only_can_keep_writable_parts)
{
	static const char *const refused[] = {
		"/home/ann/proj/.git/hooks",
		"/home/ann/proj/.git/hooks/x",
		"/home/ann/proj/sub/.bailiff",
		"/home/ann/proj/a/b/.git/config",
		"/home/ann/proj/.claude/hooks/y",
		"/home/ann/other",
		"/home/ann/.cargo",
		"/usr/lib",
	};
	struct profile p;

	make("workspace", &ann, &p);
	change(&p,
	       (struct profile_change){ LIST(read, "/home/ann/proj"),
					LIST(write, "/home/ann/proj/out", "/home/ann/proj/hooks") },
	       false, 0);
	compile(&p, &ann);
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj"), "read");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/out"), "write");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/hooks"), "write");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/out/.git/hooks"), "protect");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/out/.bailiff"), "protect");
	for (size_t i = 0; i < countof(refused); i++) {
		make("workspace", &ann, &p);
		change(&p, (struct profile_change){ LIST(read, "/home/ann/proj"), LIST(write, refused[i]) }, false,
		       ERR_PERMISSION);
	}
	/* Nested paths may alternate between write and read; a path that is in both lists is read-only. */
	make("workspace", &ann, &p);
	change(&p,
	       (struct profile_change){
		       LIST(read, "/home/ann/proj/out/deep", "/home/ann/proj", "/home/ann/proj/two"),
		       LIST(write, "/home/ann/proj/two", "/home/ann/proj/out", "/home/ann/proj/out/deep/er") },
	       false, 0);
	compile(&p, &ann);
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj"), "read");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/out"), "write");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/out/deep"), "read");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/out/deep/er"), "write");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/two"), "read");
	/* The git directory, whose contents are protected under shorter names. */
	make("workspace", &ann, &p);
	change(&p, (struct profile_change){ LIST(read, "/home/ann/proj"), LIST(write, "/home/ann/proj/.git") }, false,
	       0);
	compile(&p, &ann);
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/.git"), "write");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/.git/hooks"), "protect");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/.git/config"), "protect");
	/* In bailiff's own directory nothing is writable, even if it is the working directory. */
	struct profile_paths inside = ann;
	struct err e = ERR_INIT;
	inside.cwd = inside.workspace = "/home/ann/state";
	make("workspace", &inside, &p);
	struct profile_change c = { LIST(read, "/home/ann/state"), LIST(write, "/home/ann/state/free") };
	ck_assert_int_eq(profile_adjust(&p, &c, &inside, false, &e), -1);
	ck_assert_int_eq((int)e.code, ERR_PERMISSION);
	/* Hidden paths stay hidden. */
	make("workspace", &ann, &p);
	change(&p,
	       (struct profile_change){ LIST(read, "/home/ann/proj"), LIST(write, "/home/ann/proj/a/b"),
					LIST(hide, "/home/ann/proj/a") },
	       false, 0);
	compile(&p, &ann);
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/a"), "hide");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/a/b"), "");
}
END_TEST

START_TEST(only_operators_can_widen_a_profile)
{
	const struct profile_change wider[] = {
		{ LIST(write, "/srv/data") },
		{ LIST(read, "/home/ann/.ssh") },
		{ LIST(read, "/home/bob") },
		{ LIST(read, "/tmp/other") },
		{ .network = "host" },
		{ .limits.value[PLAN_LIMIT_PIDS] = 100000 },
		{ LIST(write, "/home/ann/.cargo") },
		{ LIST(write, "/tmp/x") },
	};

	for (size_t i = 0; i < sizeof wider / sizeof wider[0]; i++) {
		struct profile p;
		make("workspace", &ann, &p);
		change(&p, wider[i], false, ERR_PERMISSION);
		change(&p, wider[i], true, 0);
		profile_done(&p);
	}
}
END_TEST

START_TEST(additional_write_roots_are_protected_too)
{
	struct profile p;

	make("workspace", &ann, &p);
	change(&p,
	       (struct profile_change){ LIST(write, "/srv/data", "/home/ann/proj/sub", "/srv/main/.git"),
					LIST(read, "~/.ssh/known_hosts") },
	       true, 0);
	compile(&p, &ann);
	ck_assert_str_eq(kind_of(&p, "/srv/data"), "write");
	ck_assert_str_eq(kind_of(&p, "/srv/data/.git/hooks"), "protect");
	ck_assert_str_eq(kind_of(&p, "/srv/main/.git/hooks"), "protect");
	ck_assert_str_eq(kind_of(&p, "/home/ann/.ssh/known_hosts"), "read");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/sub"), "");
	profile_done(&p);
}
END_TEST

START_TEST(invalid_changes_are_rejected)
{
	struct profile p;

	make("workspace", &ann, &p);
	change(&p, (struct profile_change){ LIST(write, "/") }, true, ERR_INVALID);
	change(&p, (struct profile_change){ LIST(read, "/home/ann/state/store/data.mdb") }, true, ERR_INVALID);
	change(&p, (struct profile_change){ LIST(write, "relative") }, true, ERR_INVALID);
	change(&p, (struct profile_change){ LIST(write, "/proc/sys") }, true, ERR_INVALID);
	change(&p, (struct profile_change){ LIST(hide, "/home/ann/proj") }, true, ERR_INVALID);
	change(&p, (struct profile_change){ .network = "lan" }, true, ERR_INVALID);
	change(&p, (struct profile_change){ .network = "allow" }, true, ERR_INVALID); /* without hosts */
	change(&p, (struct profile_change){ LIST(hosts, "http://example.com/") }, true, ERR_INVALID);
	change(&p, (struct profile_change){ .network = "none", LIST(hosts, "example.com") }, true, ERR_INVALID);
	profile_done(&p);
	make("host", &ann, &p);
	change(&p, (struct profile_change){ LIST(hide, "/srv") }, true, ERR_UNAVAILABLE);
	change(&p, (struct profile_change){ .cow = true }, true, ERR_UNAVAILABLE);
	change(&p, (struct profile_change){ .network = "host" }, true, 0);
	profile_done(&p);
}
END_TEST

START_TEST(only_operators_can_add_hosts)
{
	struct profile p;

	make("workspace", &ann, &p);
	change(&p, (struct profile_change){ LIST(hosts, "example.com") }, false, ERR_PERMISSION);
	change(&p, (struct profile_change){ LIST(hosts, "example.com", "*.example.org:443") }, true, 0);
	ck_assert_uint_eq(p.network, PLAN_NET_ALLOW);
	ck_assert_uint_eq(p.hosts.count, 2);
	/* Any caller may name hosts that the profile already has, and no others. */
	change(&p, (struct profile_change){ LIST(hosts, "example.com:80", "www.example.org:443") }, false, 0);
	ck_assert_uint_eq(p.hosts.count, 2);
	change(&p, (struct profile_change){ LIST(hosts, "www.example.org") }, false, ERR_PERMISSION);
	change(&p, (struct profile_change){ .network = "host" }, false, ERR_PERMISSION);
	change(&p, (struct profile_change){ .network = "none" }, false, 0);
	ck_assert_uint_eq(p.network, PLAN_NET_NONE);
	profile_done(&p);
	/* Any list of hosts is narrower than the whole network. */
	make("workspace", &ann, &p);
	p.network = PLAN_NET_HOST;
	change(&p, (struct profile_change){ LIST(hosts, "example.com") }, false,
	       ERR_INVALID); /* it would have no effect */
	change(&p, (struct profile_change){ .network = "allow", LIST(hosts, "example.com") }, false, 0);
	ck_assert_uint_eq(p.network, PLAN_NET_ALLOW);
	profile_done(&p);
}
END_TEST

START_TEST(too_many_paths_are_rejected)
{
	struct profile p = { 0 };
	struct err e = ERR_INIT;
	char path[64];
	int n = 0;

	do
		snprintf(path, sizeof path, "/p/%d", n++);
	while (profile_add(&p, PLAN_MOUNT_READ, 0, path, &e) == 0);
	ck_assert_int_eq(e.code, ERR_EXHAUSTED);
	ck_assert_int_le(n, (int)PLAN_MOUNTS_MAX + 1);
	profile_done(&p);
}
END_TEST

START_TEST(names_of_layers_networks_and_profiles_are_found)
{
	for (unsigned i = 0; profile_layer_name(i); i++)
		ck_assert_uint_eq(profile_layer(profile_layer_name(i)), 1u << i);
	ck_assert_uint_eq(profile_layer("walls"), 0);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(profile_network(profile_network_name((uint32_t)i)), i);
	for (size_t i = 0; i < profile_shipped_count(); i++) {
		struct profile p;
		ck_assert_int_eq(profile_shipped(profile_shipped_info(i)->name, &p), 0);
		ck_assert_uint_eq(p.require & ~p.layers, 0);
		profile_done(&p);
	}
}
END_TEST

START_TEST(what_rules_deny_is_hidden_with_what_is_shown_in_it)
{
	static const char denied[] = "/home/ann/proj/.env\0/home/ann/proj/.git/config\0/home/ann/proj/closed/inner";
	struct profile_paths place = ann;
	struct profile p;

	place.denied = denied;
	place.denied_len = sizeof denied;
	make("workspace", &ann, &p);
	ck_assert_int_eq(profile_add(&p, PLAN_MOUNT_HIDE, 0, "/home/ann/proj/closed", NULL), 0);
	ck_assert_int_eq(profile_add(&p, PLAN_MOUNT_READ, 0, "/home/ann/proj/closed/inner/file", NULL), 0);
	ck_assert_int_eq(profile_add(&p, PLAN_MOUNT_READ, 0, "/home/ann/proj/closed/other", NULL), 0);
	compile(&p, &place);
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj"), "write");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/.env"), "hide");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/.git/config"), "hide");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/.git/hooks"), "protect");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/closed/inner/file"), "");
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/closed/other"), "read");
	ck_assert(!p.denied_shown);
	profile_done(&p);
}
END_TEST

START_TEST(what_rules_deny_and_does_not_fit_is_noted)
{
	struct profile_paths place = ann;
	buf_auto struct buf denied = BUF_INIT;
	struct profile p;

	for (unsigned i = 0; i < PLAN_MOUNTS_MAX; i++) {
		buf_printf(&denied, "/home/ann/proj/%u", i);
		buf_byte(&denied, '\0');
	}
	place.denied = denied.data;
	place.denied_len = denied.len;
	make("workspace", &ann, &p);
	compile(&p, &place);
	ck_assert_str_eq(kind_of(&p, "/home/ann/proj/0"), "hide");
	ck_assert(p.denied_shown);
	profile_done(&p);
	place.denied_len = 0;
	place.denied_more = true;
	make("workspace", &ann, &p);
	compile(&p, &place);
	ck_assert(p.denied_shown);
	profile_done(&p);
}
END_TEST

int main(void)
{
	return SUITE("profile", the_workspace_profile_compiles_to_its_entries,
		     the_other_profiles_compile_to_their_entries, without_home_and_workspace_nothing_is_writable,
		     the_home_of_root_is_empty, a_workspace_inside_a_private_directory_hides_the_secrets,
		     a_profile_can_always_be_narrowed, a_write_root_that_becomes_read_only_can_keep_writable_parts,
		     only_operators_can_widen_a_profile, additional_write_roots_are_protected_too,
		     invalid_changes_are_rejected, only_operators_can_add_hosts, too_many_paths_are_rejected,
		     what_rules_deny_is_hidden_with_what_is_shown_in_it, what_rules_deny_and_does_not_fit_is_noted,
		     names_of_layers_networks_and_profiles_are_found);
}

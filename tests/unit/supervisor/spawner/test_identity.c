/* The identity of a command: never root, the user itself or an id of its own, and never with more access than the peer.
 */

#include "tests/unit/supervisor/spawner/private_root.h"

START_TEST(a_command_is_not_root_and_its_id_has_a_name)
{
	SKIP_IF(!has_proc(), "sandboxes have no /proc here");
	succeeds("id; id -u; grep -E '^(Cap|NoNewPrivs|Groups)' /proc/self/status");
	ck_assert_ptr_null(strstr(out, "uid=0"));
	ck_assert_ptr_nonnull(strstr(out, "CapBnd:\t0000000000000000"));
	ck_assert_ptr_nonnull(strstr(out, "CapEff:\t0000000000000000"));
	ck_assert_ptr_nonnull(strstr(out, "CapPrm:\t0000000000000000"));
	if (geteuid() == 0) {
		ck_assert_ptr_nonnull(strstr(out, "bailiff-sandbox"));
		succeeds("test $(whoami) = bailiff-sandbox && test $(id -gn) = bailiff-sandbox && ls -ld . | grep -q "
			 "bailiff-sandbox");
	}
}
END_TEST

/* Under a root daemon a user's command has the user's identity. */
START_TEST(commands_of_other_users_have_their_identity)
{
	enum { UID = 65533 };
	SKIP_IF(geteuid() != 0, "requires root");
	fd_close(&rig.client[0]);
	rig.client[0] = socket_of(UID);
	struct stat st;
	ck_assert_int_eq(chmod(place, 0755), 0);
	ck_assert_int_eq(chown(work, UID, UID), 0);
	mem_auto char *env = mem_printf("%s/.env", work), *private = mem_printf("%s/private", other);
	folder(other, "private");
	ck_assert_int_eq(chmod(private, 0700), 0);
	mem_auto char *inner = mem_printf("%s/inner", private);
	folder(private, "inner");
	const struct plan_mount_spec mounts[] = {
		SYSTEM_MOUNT,
		{ .kind = PLAN_MOUNT_WRITE, .path = work, .flags = PLAN_MOUNT_OWNED },
		{ .kind = PLAN_MOUNT_HIDE, .path = env },
	};
	struct status_msg m = run_in(
		"id -u; grep Groups: /proc/self/status; echo x >made; ! echo x >>file; ! echo x >.env", mounts,
		countof(mounts), work);
	ck_assert_msg(m.wait_status == 0 && strncmp(out, "65533\nGroups:\t \n", 16) == 0, "%s", out);
	ck_assert(there(work, "made", &st) && st.st_uid == UID && st.st_gid == UID);
	ck_assert(!there(work, ".env", NULL));
	/* A path that the user cannot create either needs no placeholder. */
	mem_auto char *within = mem_printf("%s/.git/missing", work);
	const struct plan_mount_spec locked[] = { SYSTEM_MOUNT,
						  { .kind = PLAN_MOUNT_WRITE, .path = work },
						  { .kind = PLAN_MOUNT_HIDE, .path = within } };
	m = run_in("! mkdir .git/missing", locked, countof(locked), work);
	ck_assert_msg(m.wait_status == 0, "%s", out);
	for (unsigned kind = PLAN_MOUNT_READ; kind <= PLAN_MOUNT_WRITE; kind++) {
		const struct plan_mount_spec more[] = { SYSTEM_MOUNT,
							{ .kind = kind, .path = inner, .flags = PLAN_MOUNT_OWNED } };
		m = failing(&(struct run_spec){
			.argv = SH("true"), .flags = PLAN_PRIVATE_ROOT, .mounts = more, .nmounts = 2 });
		ck_assert_uint_eq(m.step, STEP_TREES);
		ck_assert_int_eq(m.error, EACCES);
	}
}
END_TEST

/* A compromised runtime requests no layer and a writable system; the command gets no more access than the peer. */
START_TEST(hostile_plans_give_no_more_access_than_the_peer_has)
{
	enum { UID = 65533 };
	SKIP_IF(geteuid() != 0, "requires root");
	fd_close(&rig.client[0]);
	rig.client[0] = socket_of(UID);
	const struct plan_mount_spec mounts[] = {
		SYSTEM_MOUNT,
		{ .kind = PLAN_MOUNT_WRITE, .path = "/etc" },
		{ .kind = PLAN_MOUNT_WRITE, .path = "/usr" },
	};
	struct run run;
	struct run_spec s = {
		.argv = SH(
			"test $(id -u) = 65533 && ! echo x 2>/dev/null >>/etc/passwd && ! cat /etc/shadow 2>/dev/null"
			" && ! touch /usr/x 2>/dev/null && ! chmod u+s /usr/bin/env 2>/dev/null"
			" && grep -q 'CapEff:.0000000000000000' /proc/self/status && grep -q "
			"'CapBnd:.0000000000000000' /proc/self/status"
			" && grep -q 'NoNewPrivs:.1' /proc/self/status"),
		.flags = PLAN_PRIVATE_ROOT | PLAN_STDERR_MERGE,
		.mounts = mounts,
		.nmounts = countof(mounts),
		.network = PLAN_NET_NONE,
		.less_layers = ~0u
	};
	await_prebuilt();
	run_start(&rig, &run, &s);
	run_read(&run, GUARD_SLOT_STDOUT, out, sizeof out);
	struct status_msg m = run_status(&run);
	ck_assert_msg(m.kind == STATUS_EXITED && m.wait_status == 0, "%s", out);
	run_release(&rig, &run);
	run_close(&run);
	ck_assert_int_lt(access("/usr/x", F_OK), 0);
}
END_TEST

/* Another root peer's command runs in parallel as another id. */
START_TEST(concurrent_commands_of_root_have_different_ids)
{
	SKIP_IF(geteuid() != 0, "requires root");
	const struct plan_mount_spec mounts[] = { SYSTEM_MOUNT };
	struct run runs[3];
	char id[3][16];
	for (int i = 0; i < 3; i++) {
		run_start(&rig, &runs[i],
			  &(struct run_spec){ .argv = SH("id -u; sleep 1000"),
					      .flags = PLAN_PRIVATE_ROOT,
					      .mounts = mounts,
					      .nmounts = 1,
					      .network = PLAN_NET_NONE });
		rig_readable(runs[i].fd[GUARD_SLOT_STDOUT], "an id");
		ck_assert_int_eq(read(runs[i].fd[GUARD_SLOT_STDOUT], id[i], 6), 6);
		id[i][5] = 0;
	}
	ck_assert_str_ne(id[0], id[1]);
	ck_assert_str_ne(id[0], id[2]);
	ck_assert_str_ne(id[1], id[2]);
	for (int i = 0; i < 3; i++) {
		run_send_status(&runs[i], STATUS_KILL_TREE, 0);
		ck_assert_uint_eq(run_status(&runs[i]).kind, STATUS_EXITED);
		run_release(&rig, &runs[i]);
		run_close(&runs[i]);
	}
	rig_sync(&rig);
	const struct plan_mount_spec again[] = { SYSTEM_MOUNT };
	run_in("id -u", again, 1, "/");
	if (!use_prebuilt)
		ck_assert_int_eq(strncmp(out, id[0], 5), 0);
	/* Each prebuilt sandbox already has an id, so it may be another one; but ids are used again. */
	for (int i = 0; i < 24; i++) {
		run_in("id -u", again, 1, "/");
		unsigned long from_first = (strtoul(out, NULL, 10) + IDMAP_COUNT - strtoul(id[0], NULL, 10)) %
					   IDMAP_COUNT;
		ck_assert_msg(from_first < 12 || from_first > IDMAP_COUNT - 12, "%s after %s", out, id[0]);
	}
}
END_TEST

int main(int argc, char **argv)
{
	return PRIVATE_ROOT_SUITE(argc, argv, "identity", a_command_is_not_root_and_its_id_has_a_name,
				  commands_of_other_users_have_their_identity,
				  hostile_plans_give_no_more_access_than_the_peer_has,
				  concurrent_commands_of_root_have_different_ids);
}

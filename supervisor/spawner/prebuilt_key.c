#include "supervisor/spawner/prebuilt_key.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/spawner/spawner.h"

#include <string.h>

bool prebuilt_key_supported(const struct plan_head *plan, const struct spawn_identity *id)
{
	return plan->flags & PLAN_PRIVATE_ROOT && !(plan->flags & (PLAN_COW | PLAN_TTY)) &&
	       plan->total_len <= PREBUILT_MSG_INLINE_MAX && id->ngroups <= PREBUILT_MSG_GROUPS_MAX;
}

/* A copy of the plan without the command, its arguments and its environment. */
static int strip_command(const struct plan_head *p, struct buf *out, struct err *e)
{
	static const char *const argv[] = { "zygote" };
	struct plan_mount_spec mounts[PLAN_MOUNTS_MAX];
	mem_auto char *home = mem_printf("HOME=%s", plan_home(p));
	const char *const envv[] = { home };
	for (uint32_t i = 0; i < p->mount_count; i++) {
		const struct plan_mount *m = plan_mount(p, i);
		mounts[i] = (struct plan_mount_spec){ .kind = m->kind,
						      .flags = m->flags,
						      .path = plan_string(p, m->path_off) };
	}
	const struct plan_spec spec = {
		.flags = p->flags & PLAN_PRIVATE_ROOT,
		.layers = p->layers,
		.require = p->require,
		.network = p->network,
		.tmp_bytes = p->tmp_bytes,
		.limits = p->limits,
		.cwd = "/",
		.argv = argv,
		.argc = 1,
		.envv = envv,
		.envc = 1,
		.mounts = mounts,
		.nmounts = p->mount_count,
		.cpu_ms = PLAN_UNLIMITED,
		.open_files = PLAN_UNLIMITED,
		.file_bytes = PLAN_UNLIMITED,
	};
	return plan_build(&spec, out, e);
}

int prebuilt_key_init(struct prebuilt_key *f, const struct plan_head *plan, const struct spawn_identity *id)
{
	struct buf stripped = BUF_INIT;
	struct err e = ERR_INIT;
	if (strip_command(plan, &stripped, &e) < 0) {
		buf_done(&stripped);
		return -1;
	}
	*f = (struct prebuilt_key){ .plan = (struct plan_head *)(void *)buf_take(&stripped),
				    .uid = id->peer_uid,
				    .gid = id->peer_gid,
				    .ngroups = id->ngroups };
	memcpy(f->groups, id->groups, id->ngroups * sizeof *f->groups);
	return 0;
}

void prebuilt_key_done(struct prebuilt_key *f)
{
	free(f->plan);
	f->plan = NULL;
}

bool prebuilt_key_is_mapped(const struct prebuilt_key *f) { return f->uid == 0; }

bool prebuilt_key_matches(const struct prebuilt_key *f, const struct plan_head *plan, const struct spawn_identity *id)
{
	return f->plan && f->uid == id->peer_uid && f->gid == id->peer_gid && f->ngroups == id->ngroups &&
	       memcmp(f->groups, id->groups, id->ngroups * sizeof *f->groups) == 0 && plan_same_sandbox(f->plan, plan);
}

bool prebuilt_key_is_current(const struct prebuilt_key *f, const struct host_fingerprint *s,
			     struct fingerprint_folders *folders, bool privileged)
{
	const struct fingerprint_peer peer = { .uid = f->uid,
					       .gid = f->gid,
					       .groups = f->groups,
					       .ngroups = f->ngroups,
					       .switches = privileged && f->uid != 0 };
	return fingerprint_matches(s, folders, f->plan, &peer);
}

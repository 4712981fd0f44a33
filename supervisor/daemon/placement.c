#include "supervisor/daemon/placement.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "sandbox/cgroup.h"
#include "sandbox/tree_limit.h"
#include "supervisor/daemon/systemd_scope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUS_TIMEOUT_MS 2000
#define SYSTEMD_TIMEOUT_MS 8000

static void explain_refusal(struct cgroup_base *b, const struct err *e)
{
	bool root = geteuid() == 0;
	snprintf(b->why, sizeof b->why, "%s gave the daemon no cgroup: %.180s", root ? "systemd" : "the user's systemd",
		 e->message);
	if (root)
		snprintf(b->fix, sizeof b->fix,
			 "start it as a service (systemctl start bailiff), or repair the system bus");
	else
		snprintf(b->fix, sizeof b->fix,
			 "as root: loginctl enable-linger %u, which starts the user's manager; then restart the daemon",
			 (unsigned)geteuid());
}

/* A usable cgroup is preferred; systemd is asked only if there is none. */
static void find_base(struct cgroup_base *b, const char *tag, pid_t companion)
{
	struct err e = ERR_INIT;
	if (cgroup_base_find(b, companion, false) == CGROUP_BASE_DONE)
		return;
	mem_auto char *name = mem_printf("%s.scope", tag);
	const struct systemd_scope scope = {
		.sockets = systemd_sockets(geteuid()),
		.name = name,
		.slice = geteuid() == 0 ? "system.slice" : "app.slice",
		.pid = getpid(),
		.bus_timeout_ms = BUS_TIMEOUT_MS,
		.manager_timeout_ms = SYSTEMD_TIMEOUT_MS,
	};
	if (systemd_scope_start(&scope, &e) < 0)
		explain_refusal(b, &e);
	else
		cgroup_base_find(b, 0, true);
}

/* Opens the controllers the way the spawner will, with the same privileges, so the result is the same. */
static char *describe_limits(const struct cgroup_base *b, const char *tag)
{
	struct tree_limiter t;
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);
	tree_limiter_open(&t, b, tag);
	jw_obj(&w);
	jw_kstr(&w, "cgroup", b->path);
	jw_karr(&w, "controllers");
	for (int i = 0; i < TREE_LIMITS; i++) {
		bool there = t.of[i].folder >= 0;
		jw_obj(&w);
		jw_kstr(&w, "name", tree_limit_name(i));
		jw_kstr(&w, "state", there ? "enforced" : "unavailable");
		if (there) {
			jw_kuint(&w, "cgroupVersion", t.of[i].v2 ? 2 : 1);
		} else {
			jw_kstr(&w, "why", t.of[i].why);
			jw_kstr(&w, "fix", t.of[i].fix);
		}
		jw_obj_end(&w);
	}
	jw_arr_end(&w);
	jw_obj_end(&w);
	tree_limiter_close(&t);
	return buf_take(&out);
}

/* Leftovers of an earlier guard of this home are killed before anything new starts: they could still write files. */
void placement_take(struct placement *ret, const char *tag, pid_t companion)
{
	struct cgroup_base *b = &ret->base;
	find_base(b, tag, companion);
	if (b->path[0])
		cgroup_kill_leftovers(b->path, tag);
	ret->limits = describe_limits(b, tag);
	if (b->why[0])
		log_info("no limits by cgroup v2: %s; to change that: %s", b->why, b->fix);
	else
		log_debug("cgroups of sandboxes are below %s", b->path);
}

void placement_resume(struct placement *ret, const struct placement_arguments *a)
{
	struct cgroup_base *b = &ret->base;
	*b = (struct cgroup_base){ 0 };
	if (a->base) {
		snprintf(b->path, sizeof b->path, "%s", a->base);
		snprintf(b->why, sizeof b->why, "%s", a->why ? a->why : "");
		snprintf(b->fix, sizeof b->fix, "%s", a->fix ? a->fix : "");
	} else {
		if (cgroup_own_folder(b->path, NULL) < 0)
			b->path[0] = 0;
		snprintf(b->why, sizeof b->why,
			 "the daemon was started by a version that did not prepare a cgroup for limits");
		snprintf(b->fix, sizeof b->fix, "restart the daemon");
	}
	ret->limits = mem_strdup(a->limits ? a->limits : "{}");
}

#include "runtime/engine/start/process_plan.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/hash.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/policy/sandbox_setup.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/sandbox/sandbox.h"
#include "runtime/engine/start/process_environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bits of plan_kind in addition to the plan's flags. */
#define KIND_HOST_NETWORK (1u << 29)
#define KIND_LIMITS (1u << 30)         /* with required limits */
#define KIND_LIMITS_DEFAULT (1u << 31) /* with limits that are not required */
#define ENVIRONMENT_NAMED 200u         /* variable names listed in events */
#define ENVIRONMENT_USUAL 300u         /* bytes of these names, at first */

void process_plan_take_profile(struct process *p, const struct start_request *r, const struct sandbox_setup *f)
{
	struct buf json = BUF_INIT;
	struct jw w = jw_on(&json);

	p->cwd = mem_strdup(f->workspace.cwd);
	p->profile = mem_strdup(f->profile.name);
	p->cwd_is_private = sandbox_setup_cwd_is_private(f);
	p->denied_shown = f->profile.denied_shown;
	p->writes = !f->profile.confined;
	for (size_t i = 0; i < f->profile.count; i++)
		p->writes |= f->profile.entry[i].kind == PLAN_MOUNT_WRITE;
	p->limits.tree = f->profile.limits;
	plan_limits_add(&p->limits.tree, &r->own_limits);
	p->limits.tmp_bytes = f->profile.tmp_bytes;
	sandbox_setup_profile_json(f, &p->limits, &w);
	p->sandbox_json = buf_take(&json);
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/*
 * Adds the environment to the profile's facts: the names of the variables, and a reference that is equal for two runs
 * if and only if all values are. The values may be secrets and are never part of a fact.
 */
static void record_environment(struct process *p, const struct process_environment *v)
{
	const char **sorted = mem_dup(v->vars, (v->count + 1) * sizeof *sorted);
	const size_t profile_len = strlen(p->sandbox_json) - 1; /* without its closing brace */
	struct buf json = BUF_INIT, all = BUF_INIT;
	char hash[HASH_SHA256_TEXT];
	struct jw w = jw_on(&json);

	qsort(sorted, v->count, sizeof *sorted, by_text);
	buf_reserve(&json, profile_len + ENVIRONMENT_USUAL);
	buf_append(&json, p->sandbox_json, profile_len);
	w.need_comma = true;
	jw_karr(&w, "environment");
	for (size_t i = 0; i < v->count; i++) {
		size_t name = (size_t)(strchrnul(sorted[i], '=') - sorted[i]);

		if (i < ENVIRONMENT_NAMED)
			jw_strn(&w, sorted[i], text_utf8_cut(sorted[i], name < 128 ? name : 128));
		buf_append(&all, sorted[i], strlen(sorted[i]) + 1);
	}
	jw_arr_end(&w);
	hash_sha256_text(all.data ? all.data : "", all.len, hash);
	char ref[sizeof "env_" + 32];
	snprintf(ref, sizeof ref, "env_%.32s", hash);
	jw_kstr(&w, "environmentRef", ref);
	jw_obj_end(&w);
	free(p->sandbox_json);
	p->sandbox_json = buf_take(&json);
	buf_done(&all);
	free(sorted);
}

/* The kinds of cgroup limits in use: the layer `cgroup` may depend on them. */
static uint32_t limits_kind(const struct plan_limits *l)
{
	uint32_t kind = l->required ? KIND_LIMITS : 0;

	for (int i = 0; i < PLAN_LIMITS; i++)
		if (l->value[i] && !plan_limit_is_required(l, (enum plan_limit)i))
			kind |= KIND_LIMITS_DEFAULT;
	return kind;
}

int process_plan_build(struct process *p, const struct start_request *r, struct sandbox_setup *f,
		       const char *const *argv, size_t argc, struct buf *ret_plan, struct err *e)
{
	struct process_environment env = { 0 };

	if ((p->holder || p->within[0]) && !f->profile.confined)
		return err_field(e, "profile", "has no sandbox that commands could share");
	process_environment_build(p, r, f, &env);
	record_environment(p, &env);
	struct plan_spec spec = {
		.flags = p->holder ? PLAN_HOLDER | PLAN_STDIN_PIPE | PLAN_STDERR_MERGE |
					     (sandbox_starts_copied(p) ? PLAN_COW_COPY : 0)
				   : (p->stdin_pipe ? PLAN_STDIN_PIPE : 0) | (p->stderr_merge ? PLAN_STDERR_MERGE : 0) |
					     (p->keep_tree ? PLAN_KEEP_TREE : 0) | (process_has_tty(p) ? PLAN_TTY : 0) |
					     (p->within[0] ? PLAN_MEMBER : 0),
		.tty_rows = p->tty_rows,
		.tty_cols = p->tty_cols,
		.cwd = p->cwd,
		.argv = argv,
		.argc = argc,
		.envv = env.vars,
		.envc = env.count,
		.cpu_ms = p->limits.cpu_ms,
		.open_files = p->limits.open_files,
		.file_bytes = p->limits.file_bytes,
	};
	profile_plan(&f->profile, &f->mounts, &spec);
	p->plan_layers = spec.layers;
	p->plan_kind = (spec.flags & (PLAN_PRIVATE_ROOT | PLAN_COW)) |
		       (spec.network == PLAN_NET_HOST ? KIND_HOST_NETWORK : 0) | limits_kind(&spec.limits) |
		       limits_kind(&r->own_limits);
	int rc = plan_build(&spec, ret_plan, e);
	process_environment_done(&env);
	if (rc == 0)
		hash_sha256_text(ret_plan->data, ret_plan->len, p->plan_hash);
	return rc;
}

/*
 * Finds the hooks for work that is not a process start. The policy files of its workspace may have to be read first.
 * If they cannot be read, the result has only the hooks that apply everywhere, with an error: work that a hook could
 * have denied is then denied, work that hooks only observe continues with a warning.
 */

#include "runtime/engine/hook/hook.h"

#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/policy/policy_lookup.h"

struct hook_lookup_wait {
	struct requester by;
	char *cwd;
	uint64_t since_ns;
	hooks_known_fn fn;
	void *ctx;
};

/*
 * Work outside any workspace (in the home directory, a system directory, or with no directory) gets its user's hooks
 * only. 1: the folder is being searched, or its policy read: wait for `workspace`. −1: the hooks are not known, with
 * the reason in `e`.
 */
static int find_hooks(struct engine *engine, const char *cwd, const struct requester *by, uint64_t since_ns,
		      char workspace[PATH_MAX], const struct policy_hooks **ret, struct err *e)
{
	buf_auto struct buf env = BUF_INIT;
	const struct policy_rules *rules = NULL;

	*ret = engine->hooks;
	workspace[0] = '\0';
	if (engine->stopping) /* start nothing new */
		return 0;
	engine->o.ports->base_env(engine->o.host, by->uid, &env);
	const char *home = policy_lookup_home(&env);
	const int peer_fd = engine->o.ports->find_peer(engine->o.host, by->uid);
	const struct git_key place = {
		.uid = by->uid, .peer_fd = peer_fd, .folder = cwd, .home = home, .since_ns = since_ns
	};
	int found = cwd ? policy_lookup_workspace(engine, &place, NULL, workspace, e) : 0;
	if (found)
		return found;
	const struct policy_key at = {
		.uid = by->uid, .peer_fd = peer_fd, .workspace = workspace, .home = home, .since_ns = since_ns
	};
	found = policy_lookup_of(engine, &at, &rules, e);
	if (found == 0 && engine->o.ports->policy_of && rules)
		*ret = rules->hooks;
	return found;
}

static void report_hooks(struct engine *engine, const char *cwd, const struct policy_hooks *hooks, const struct err *e,
			 hooks_known_fn fn, void *ctx)
{
	if (e)
		engine_warn(engine, "hooks_not_known",
			    "fix the policy of that workspace; its hooks do not run until then",
			    "the hooks of '%.200s' are not known: %s", cwd ? cwd : "", e->message);
	fn(engine, hooks, e, ctx);
}

static void on_known(struct engine *engine, void *ctx)
{
	/* The files may have changed again since they were read; since_ns bounds how often that is waited for. */
	struct hook_lookup_wait *w = ctx;
	const struct policy_hooks *hooks;
	struct err e = ERR_INIT;
	char workspace[PATH_MAX];
	int found = find_hooks(engine, w->cwd, &w->by, w->since_ns, workspace, &hooks, &e);

	if (found > 0) {
		policy_lookup_await(engine, w->by.uid, workspace, on_known, w);
		return;
	}
	report_hooks(engine, w->cwd, hooks, found < 0 ? &e : NULL, w->fn, w->ctx);
	free(w->cwd);
	free(w);
}

bool hooks_for_workspace(struct engine *engine, const char *cwd, const struct requester *by,
			 const struct policy_hooks **ret)
{
	char workspace[PATH_MAX];
	struct err e = ERR_INIT;

	return find_hooks(engine, cwd, by, engine_now(engine), workspace, ret, &e) == 0;
}

void hooks_wait(struct engine *engine, const char *cwd, const struct requester *by, hooks_known_fn fn, void *ctx)
{
	const struct policy_hooks *hooks;
	struct err e = ERR_INIT;
	char workspace[PATH_MAX];
	const uint64_t since = engine_now(engine);
	int found = find_hooks(engine, cwd, by, since, workspace, &hooks, &e);

	if (found <= 0) {
		report_hooks(engine, cwd, hooks, found < 0 ? &e : NULL, fn, ctx);
		return;
	}
	struct hook_lookup_wait *w = mem_zalloc(1, sizeof *w);
	*w = (struct hook_lookup_wait){ .by = *by, .cwd = mem_strdup(cwd), .since_ns = since, .fn = fn, .ctx = ctx };
	policy_lookup_await(engine, by->uid, workspace, on_known, w);
}

#include "runtime/engine/policy/policy_lookup.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/policy/git_lookup.h"
#include "runtime/engine/policy/policy_state.h"
#include "runtime/engine/policy/sandbox_setup.h"
#include "runtime/view/view.h"
#include "runtime/view/view_documents.h"

struct policy_waiter {
	TAILQ_ENTRY(policy_waiter) link;
	uint32_t uid;
	char *workspace;
	void (*go)(struct engine *engine, void *ctx);
	void *ctx;
};

const char *policy_lookup_home(const struct buf *env)
{
	for (const char *s = env->data; s && s < env->data + env->len; s += strlen(s) + 1)
		if (strncmp(s, "HOME=/", 6) == 0 && s[6])
			return s + 5;
	return "";
}

static const char *home_of(const struct sandbox_setup *f) { return policy_lookup_home(&f->env); }

int policy_lookup_of(struct engine *engine, const struct policy_key *at, const struct policy_rules **ret, struct err *e)
{
	*ret = engine->rules;
	if (engine->policy_problem[0])
		return err_set(e, ERR_UNAVAILABLE, "the policy cannot be read: %s", engine->policy_problem);
	return engine->o.ports->policy_of ? engine->o.ports->policy_of(engine->o.host, at, ret, e) : 0;
}

int policy_lookup_workspace(struct engine *engine, const struct git_key *at, const char *given, char ret[PATH_MAX],
			    struct err *e)
{
	const char *cwd = at->folder;
	struct err unfit = ERR_INIT;
	struct workspace w;
	char clean[PATH_MAX], git[PATH_MAX] = "";

	if ((given && path_clean(given, clean, e) < 0) || (cwd && path_clean(cwd, clean, e) < 0))
		return -1;
	if (!given || workspace_find(cwd, given, at->home, git, &w, &unfit) < 0) {
		struct git_key key = *at;

		key.folder = clean;
		int found = cwd ? git_lookup_of(engine, &key, git, e) : 0;
		if (found > 0)
			snprintf(ret, PATH_MAX, "%s", clean);
		if (found)
			return found;
		if (workspace_find(cwd, NULL, at->home, git, &w, &unfit) < 0)
			w.path[0] = '\0';
	}
	snprintf(ret, PATH_MAX, "%s", w.path);
	return 0;
}

/* Without a sandbox the workspace is searched for, too: leaving the sandbox must not bypass the workspace's policy. */
int policy_lookup_find_workspace(struct engine *engine, const struct sandbox_setup *f, const struct sandbox_request *r,
				 const struct caller *c, char ret[PATH_MAX], struct err *e)
{
	const struct git_key at = { .uid = c->uid, .peer_fd = c->peer_fd, .folder = r->cwd, .home = home_of(f) };

	if (f->profile.confined) {
		snprintf(ret, PATH_MAX, "%s", f->workspace.path);
		return 0;
	}
	int found = policy_lookup_workspace(engine, &at, r->workspace, ret, e);
	return found > 0 ? err_set(e, ERR_UNAVAILABLE, "'%.300s' has not been examined yet: repeat the request", ret)
			 : found;
}

int policy_lookup_rules(struct engine *engine, const struct sandbox_setup *f, const struct sandbox_request *r,
			const struct caller *c, uint64_t since_ns, const struct policy_rules **ret, struct err *e)
{
	char workspace[PATH_MAX];

	*ret = engine->rules;
	if (policy_lookup_find_workspace(engine, f, r, c, workspace, e) < 0)
		return -1;
	const struct policy_key at = {
		.uid = c->uid, .peer_fd = c->peer_fd, .workspace = workspace, .home = home_of(f), .since_ns = since_ns
	};
	return policy_lookup_of(engine, &at, ret, e);
}

void policy_lookup_await(struct engine *engine, uint32_t uid, const char *workspace,
			 void (*go)(struct engine *engine, void *ctx), void *ctx)
{
	struct policy_waiter *w = mem_zalloc(1, sizeof *w);

	w->uid = uid;
	w->workspace = mem_strdup(workspace);
	w->go = go;
	w->ctx = ctx;
	TAILQ_INSERT_TAIL(&engine->policy->waiters, w, link);
}

void engine_on_policy(struct engine *engine, uint32_t uid, const char *workspace)
{
	TAILQ_HEAD(, policy_waiter) ready = TAILQ_HEAD_INITIALIZER(ready);
	struct policy_waiter *w, *next;

	for (w = TAILQ_FIRST(&engine->policy->waiters); w; w = next) {
		next = TAILQ_NEXT(w, link);
		if (w->uid != uid || strcmp(w->workspace, workspace) != 0)
			continue;
		TAILQ_REMOVE(&engine->policy->waiters, w, link);
		TAILQ_INSERT_TAIL(&ready, w, link);
	}
	/* Two passes: `go` may add waiters to the list. */
	while ((w = TAILQ_FIRST(&ready))) {
		TAILQ_REMOVE(&ready, w, link);
		w->go(engine, w->ctx);
		free(w->workspace);
		free(w);
	}
}

void policy_lookup_stop(struct engine *engine)
{
	struct policy_waiter *w;

	while ((w = TAILQ_FIRST(&engine->policy->waiters))) {
		TAILQ_REMOVE(&engine->policy->waiters, w, link);
		w->go(engine, w->ctx); /* rejects the request, because the engine is stopping */
		free(w->workspace);
		free(w);
	}
}

enum permission_mode policy_lookup_mode(const struct policy_rules *rules, enum permission_mode mode)
{
	return rules && rules->workspace_mode >= 0
		       ? permission_mode_join(mode, (enum permission_mode)rules->workspace_mode)
		       : mode;
}

enum permission_mode permission_mode_of(struct engine *engine, const char *session_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct session_doc d;
	struct err e = ERR_INIT;
	int mode = -1, found = session_id && *session_id ? view_read_speculative(engine->o.store, &session_schema,
										 session_id, &text, &d, &e)
							 : 1;

	if (found == 0 && d.permissionMode[0])
		mode = permission_mode_find(d.permissionMode);
	/* A mode that cannot be read may have been the strictest one: fail closed. */
	if (found < 0 || (found == 0 && d.permissionMode[0] && mode < 0))
		return MODE_PLAN;
	if (mode < 0 && engine->rules)
		mode = engine->rules->mode;
	return mode < 0 ? MODE_DEFAULT : (enum permission_mode)mode;
}

uint64_t policy_sequence(const struct engine *engine) { return engine->policy->sequence; }

/*
 * ---- policy.changed ----
 *
 * The content of a policy file differs from the last one in the log. The last hash of each file is in the store's
 * metadata, written in the same commit as the event.
 */

/* A submitted policy.changed that is not committed. Its hash counts as the last one, so that a file which is loaded
 * twice before the commit is recorded once. */
struct policy_write {
	struct engine *engine;
	char *key, *hash;
};

static void on_policy_written(void *ctx, const struct store_result *r)
{
	struct policy_write *w = ctx;
	struct engine *engine = w->engine;

	if (r->status >= 0)
		engine->policy->sequence = r->last_sequence;
	/* A newer write of the same file may have replaced this one in the map. */
	if (strmap_get(&engine->policy->writes, w->key) == w)
		strmap_del(&engine->policy->writes, w->key);
	free(w->key);
	free(w->hash);
	free(w);
}

static void policy_is(struct engine *engine, const char *key, const char *layer, const char *file, uint32_t uid,
		      const char *hash, const char *summary)
{
	buf_auto struct buf before = BUF_INIT;
	struct err e = ERR_INIT;

	const struct policy_write *newer = strmap_get(&engine->policy->writes, key);
	int r = newer ? 0 : store_meta_get(engine->o.store, key, &before, &e);
	if (newer)
		buf_str(&before, newer->hash);
	if (r < 0)
		log_error("look up the policy of last time: %s", e.message);
	if (r < 0 || strcmp(buf_cstr(&before), hash) == 0)
		return;
	struct transaction *tx = transaction_new_internal(engine);
	const struct scope s = { .uid = engine->o.owner_uid,
				 .session = engine->system_session,
				 .thread = engine->system_thread };
	if (EMIT(policy_changed, tx, s, .layer = layer, .file = file, .uid = opt_int_if(file, uid),
		 .oldHash = none_if_empty(buf_cstr(&before)), .newHash = none_if_empty(hash), .summary = summary,
		 .by = engine->policy->reloading && !file ? json_requester(&engine->policy->reload_by) : JSON_NONE) <
	    0) {
		transaction_free(tx);
		return;
	}
	transaction_set_meta(tx, key, hash, strlen(hash));
	struct policy_write *w = mem_zalloc(1, sizeof *w);
	*w = (struct policy_write){ .engine = engine, .key = mem_strdup(key), .hash = mem_strdup(hash) };
	strmap_put(&engine->policy->writes, key, w);
	transaction_commit_then(tx, STORE_MUST, on_policy_written, w);
}

void policy_reloading(struct engine *engine, const struct caller *c)
{
	engine->policy->reloading = c != NULL;
	if (c)
		engine->policy->reload_by = requester_of(c);
}

void engine_policy_is(struct engine *engine, const char *layer, const char *hash, const char *summary)
{
	mem_auto char *key = mem_printf("policy.%s", layer);

	policy_is(engine, key, layer, NULL, 0, hash, summary);
}

void engine_policy_file_is(struct engine *engine, const char *layer, const char *file, uint32_t uid, const char *hash,
			   const char *summary)
{
	mem_auto char *key = view_policy_file_key(layer, file, uid);

	policy_is(engine, key, layer, file, uid, hash, summary);
}

void policy_init(struct engine *engine)
{
	engine->policy = mem_zalloc(1, sizeof *engine->policy);
	TAILQ_INIT(&engine->policy->waiters);
}

void policy_done(struct engine *engine)
{
	session_rules_done(engine);
	sandbox_setup_forget(engine);
	strmap_done(&engine->policy->writes);
	free(engine->policy);
}

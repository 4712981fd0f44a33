/*
 * policy.changed: the content of a policy file differs from the last one in the log. The last hash of each file is in
 * the store's metadata, written in the same batch as the event.
 */

#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/policy/policy_lookup.h"
#include "runtime/engine/policy/policy_state.h"

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
		 .oldHash = none_if_empty(buf_cstr(&before)), .newHash = none_if_empty(hash), .summary = summary) < 0) {
		transaction_free(tx);
		return;
	}
	transaction_set_meta(tx, key, hash, strlen(hash));
	struct policy_write *w = mem_zalloc(1, sizeof *w);
	*w = (struct policy_write){ .engine = engine, .key = mem_strdup(key), .hash = mem_strdup(hash) };
	strmap_put(&engine->policy->writes, key, w);
	transaction_commit_then(tx, STORE_MUST, on_policy_written, w);
}

void engine_policy_is(struct engine *engine, const char *layer, const char *hash, const char *summary)
{
	mem_auto char *key = mem_printf("policy.%s", layer);

	policy_is(engine, key, layer, NULL, 0, hash, summary);
}

void engine_policy_file_is(struct engine *engine, const char *layer, const char *file, uint32_t uid, const char *hash,
			   const char *summary)
{
	char name[HASH_SHA256_TEXT];

	hash_sha256_text(file, strlen(file), name);
	mem_auto char *key = mem_printf("policy.%s.%u.%.16s", layer, uid, name);
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
	strmap_done(&engine->policy->writes);
	free(engine->policy);
}

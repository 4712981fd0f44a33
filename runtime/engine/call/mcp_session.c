#include "runtime/engine/call/mcp_session.h"

#include "runtime/base/mem.h"
#include "runtime/engine/core/registry.h"
#include "runtime/engine/core/transaction.h"
#include "runtime/engine/tool/tool.h"

static char *key_of(uint32_t uid, const char *session_id, const char *name)
{
	return mem_printf("%u %s %s", uid, session_id, name);
}

static void server_free(struct mcp_session_server *s)
{
	if (s)
		json_decref(s->settings);
	free(s);
}

const struct mcp_session_server *mcp_session_find(struct engine *engine, uint32_t uid, const char *session_id,
						  const char *name)
{
	mem_auto char *key = key_of(uid, session_id, name);

	return strmap_get(&engine->mcp_servers->of_session, key);
}

struct server_count {
	uint32_t uid;
	size_t n;
};

static void count_server(void *ctx, const char *key, void *value)
{
	const struct mcp_session_server *s = value;
	struct server_count *c = ctx;

	c->n += s->by.uid == c->uid;
}

size_t mcp_session_count(struct engine *engine, uint32_t uid)
{
	struct server_count c = { .uid = uid };

	strmap_each(&engine->mcp_servers->of_session, count_server, &c);
	return c.n;
}

void mcp_session_add(struct engine *engine, const struct mcp_session_server *s, const json_t *tools,
		     struct transaction *tx)
{
	mem_auto char *key = key_of(s->by.uid, s->session_id, s->name);
	struct mcp_session_server *copy = mem_zalloc(1, sizeof *copy);

	*copy = *s;
	json_incref(copy->settings);
	server_free(strmap_put(&engine->mcp_servers->of_session, key, copy));
	tool_set_mcp(engine, s->by.uid, s->session_id, s->name, tools);
	tool_update_catalogs(engine, s->by.uid, s->session_id, tx);
}

int mcp_session_remove(struct engine *engine, const struct requester *by, const char *session_id, const char *name,
		       struct transaction *tx, struct err *e)
{
	mem_auto char *key = key_of(by->uid, session_id, name);
	struct mcp_session_server *s = strmap_del(&engine->mcp_servers->of_session, key);

	if (!s)
		return err_at(e, ERR_NOT_FOUND, "name", "session '%.64s' has no MCP server '%.64s'", session_id, name);
	EMIT(mcp_server_removed, tx, registry_scope(engine, by->uid, NULL, NULL), .name = s->name,
	     .sessionId = s->session_id, .requestedBy = json_requester(by));
	tool_set_mcp(engine, by->uid, s->session_id, s->name, NULL);
	tool_update_catalogs(engine, by->uid, s->session_id, tx);
	server_free(s);
	return 0;
}

struct disconnected {
	struct engine *engine;
	uint64_t connection;
};

static void leave(void *ctx, const char *key, void *value)
{
	const struct mcp_session_server *s = value;
	struct disconnected *d = ctx;
	struct err e = ERR_INIT;

	if (s->connection != d->connection)
		return;
	/* Copies: the entry is freed. */
	const struct mcp_session_server gone = *s;
	struct transaction *tx = transaction_new_internal(d->engine);
	(void)mcp_session_remove(d->engine, &gone.by, gone.session_id, gone.name, tx, &e);
	transaction_commit(tx);
}

void mcp_session_client_disconnected(struct engine *engine, uint64_t connection)
{
	struct disconnected d = { .engine = engine, .connection = connection };

	strmap_visit(&engine->mcp_servers->of_session, leave, &d);
}

static void free_entry(void *ctx, const char *key, void *value) { server_free(value); }

void mcp_session_done(struct engine *engine)
{
	strmap_each(&engine->mcp_servers->of_session, free_entry, NULL);
	strmap_done(&engine->mcp_servers->of_session);
}

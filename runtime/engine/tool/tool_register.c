/* register_tools: what a client says about its tools, checked as a whole before the first one is registered. */

#include "runtime/engine/tool/tool.h"

#include "runtime/base/json_schema.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"

#define EXTERNAL_MAX 256u /* for each uid, so that one user cannot exhaust the inventory for others */
#define DESCRIPTION_MAX 4096u
#define SCHEMA_MAX 32768u
#define CAPABILITIES_MAX 16u
#define METADATA_REF_MAX 256u

static bool name_fits(const char *name)
{
	size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-");

	return n >= 1 && n <= TOOL_NAME_MAX && !name[n];
}

static int check_schema(const json_t *schema, json_t *unchecked, size_t i, struct err *e)
{
	char field[ERR_FIELD_MAX];
	mem_auto char *text = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);

	snprintf(field, sizeof field, "tools[%zu].inputSchema", i);
	if (!json_is_object(schema))
		return err_field(e, field, "must be an object");
	if (strlen(text) > SCHEMA_MAX)
		return err_field(e, field, "has %zu bytes as JSON; at most %u are kept", strlen(text), SCHEMA_MAX);
	if (json_schema_verify(schema, unchecked, e) == 0)
		return 0;
	snprintf(field, sizeof field, "tools[%u].inputSchema%s%.30s", (unsigned)i, e->field[0] ? "." : "", e->field);
	memcpy(e->field, field, sizeof field);
	return -1;
}

/* What a client may say about its tool in addition, for people and other clients: nothing here depends on it. */
static int check_claims(const json_t *v, size_t i, struct err *e)
{
	static const char *const owners[] = { "client", "mcp", "hosted", "provider", "workflow" };
	const json_t *capabilities = json_object_get(v, "capabilities"), *word,
		     *owner = json_object_get(v, "runtimeOwner"), *metadata = json_object_get(v, "metadataRef");
	bool known = !owner;
	char field[ERR_FIELD_MAX];
	size_t k;

	snprintf(field, sizeof field, "tools[%zu].capabilities", i);
	if (capabilities && (!json_is_array(capabilities) || json_array_size(capabilities) > CAPABILITIES_MAX))
		return err_field(e, field, "must be at most %u words", CAPABILITIES_MAX);
	json_array_foreach (capabilities, k, word)
		if (!json_is_string(word) || json_string_length(word) > TOOL_NAME_MAX)
			return err_field(e, field, "must be words of at most %u bytes", TOOL_NAME_MAX);
	for (k = 0; owner && k < countof(owners); k++)
		known |= json_is_string(owner) && strcmp(json_string_value(owner), owners[k]) == 0;
	snprintf(field, sizeof field, "tools[%zu].runtimeOwner", i);
	if (!known)
		return err_field(e, field, "must be client, mcp, hosted, provider or workflow");
	snprintf(field, sizeof field, "tools[%zu].metadataRef", i);
	if (metadata && (!json_is_string(metadata) || json_string_length(metadata) > METADATA_REF_MAX))
		return err_field(e, field, "must be a text of at most %u bytes", METADATA_REF_MAX);
	return 0;
}

/*
 * A name belongs to one connection within its uid and session: that connection can replace the tool, others cannot. The
 * names of built-in tools are reserved.
 */
static int check_registered(struct engine *engine, const json_t *v, size_t i, const char *session_id,
			    const struct caller *c, json_t *unchecked, struct err *e)
{
	const char *name = json_string_value(json_object_get(v, "name")),
		   *text = json_string_value(json_object_get(v, "description"));
	const json_t *schema = json_object_get(v, "inputSchema");
	uint64_t other;
	char field[ERR_FIELD_MAX];

	snprintf(field, sizeof field, "tools[%zu].name", i);
	if (!name || !name_fits(name))
		return err_field(e, field, "must be 1 to %u of A-Z a-z 0-9 _ . / -", TOOL_NAME_MAX);
	if (tool_is_builtin(name))
		return err_field(e, field, "'%s' is one of the runtime's own tools", name);
	if (tool_is_mcp(engine, name, c->uid))
		return err_field(e, field, "'%s' is a tool of a registered MCP server", name);
	other = tool_registered_by(engine, name, c->uid, session_id);
	if (other && other != c->connection) {
		err_set(e, ERR_CONFLICT, "tools[%zu].name: another connection offers '%s'", i, name);
		return -1;
	}
	if (text && strlen(text) > DESCRIPTION_MAX) {
		snprintf(field, sizeof field, "tools[%zu].description", i);
		return err_field(e, field, "must have at most %u bytes", DESCRIPTION_MAX);
	}
	if (check_claims(v, i, e) < 0)
		return -1;
	return schema ? check_schema(schema, unchecked, i, e) : 0;
}

/* Reports the schema keywords that are not supported, so that authors do not rely on checks that do not happen. */
static void unchecked_json(const json_t *tools, const json_t *unchecked, struct jw *w)
{
	const json_t *words, *word;
	size_t i, k, n = 0;

	json_array_foreach (unchecked, i, words)
		n += json_array_size(words);
	if (!n)
		return;
	jw_karr(w, "uncheckedKeywords");
	json_array_foreach (unchecked, i, words) {
		if (!json_array_size(words))
			continue;
		jw_obj(w);
		jw_kstr(w, "name", json_string_value(json_object_get(json_array_get(tools, i), "name")));
		jw_karr(w, "keywords");
		json_array_foreach (words, k, word)
			jw_str(w, json_string_value(word));
		jw_arr_end(w);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

void engine_register_tools(struct engine *engine, const json_t *tools, const char *session_id, const struct caller *c,
			   engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	json_auto_t *unchecked = json_array();
	const json_t *v;
	struct err e = ERR_INIT;
	size_t i;

	if (!c->connection)
		err_set(&e, ERR_UNAVAILABLE, "tools belong to a connection, and this request has none");
	else if (tool_registered_count(engine, c->uid) + json_array_size(tools) > EXTERNAL_MAX)
		err_set(&e, ERR_EXHAUSTED, "uid %u has registered %zu tools; at most %u can be", c->uid,
			tool_registered_count(engine, c->uid), EXTERNAL_MAX);
	json_array_foreach (tools, i, v) {
		json_t *words = json_array();

		json_array_append_new(unchecked, words);
		if (e.code || check_registered(engine, v, i, session_id, c, words, &e) < 0)
			break;
	}
	if (e.code) {
		transaction_reject(tx, &e);
		return;
	}
	/* All tools were checked above, so that a request registers all of them or none. */
	jw_karr(&tx->w, "tools");
	json_array_foreach (tools, i, v) {
		tool_register(engine, v, session_id, c);
		jw_str(&tx->w, json_string_value(json_object_get(v, "name")));
	}
	jw_arr_end(&tx->w);
	unchecked_json(tools, unchecked, &tx->w);
	tool_update_catalogs(engine, c->uid, session_id, tx);
	transaction_commit(tx);
}

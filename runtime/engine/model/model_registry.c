#include "runtime/engine/model/model_registry.h"

#include "policy/http_url.h"
#include "policy/known_model.h"
#include "policy/model_list.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/registry.h"
#include "runtime/view/view_model.h"
#include "runtime/view/view_write.h"

#define COMMAND_MAX 1024u
#define WORD_MAX 64u
#define TOKENS_MAX 1000000000u
#define OUTPUT_DEFAULT 32000u

/* ---- reading ---- */

void model_config_done(struct model_config *c)
{
	free(c->provider);
	free(c->model);
	free(c->base_url);
	free(c->host);
	free(c->key_file);
	free(c->key_command);
	free(c->ca_file);
	free(c->effort);
	*c = MODEL_CONFIG_INIT;
}

void model_configs_done(struct model_configs *c)
{
	for (size_t i = 0; i < c->count; i++)
		model_config_done(&c->config[i]);
	free(c->config);
	*c = (struct model_configs){ 0 };
}

const char *model_price_find(struct engine *engine, const char *provider, const char *model, struct model_price *ret)
{
	const struct policy_model *listed = engine->models ? model_list_find(engine->models, provider, model) : NULL;
	const struct known_model *known = known_model_find(provider, model);

	if (listed && listed->price.known) {
		*ret = listed->price;
		return "policy";
	}
	if (known)
		*ret = known->price;
	return known ? "built-in" : NULL;
}

/* Sizes: what the registration says, else the policy, else the built-in table. */
static void resolve_figures(struct engine *engine, struct model_config *c)
{
	const struct policy_model *listed = engine->models ? model_list_find(engine->models, c->provider, c->model)
							   : NULL;
	const struct known_model *known = known_model_find(c->provider, c->model);

	c->price_source = model_price_find(engine, c->provider, c->model, &c->price);
	if (!c->context_tokens && listed)
		c->context_tokens = listed->context_tokens;
	if (!c->context_tokens && known)
		c->context_tokens = known->context_tokens;
	/* Less than what the model could write: a request reserves what its longest answer costs. */
	if (!c->max_output_tokens && known)
		c->max_output_tokens = known->max_output_tokens < OUTPUT_DEFAULT ? known->max_output_tokens
										 : OUTPUT_DEFAULT;
}

/* 0, 1 = not there, −1. */
static int read_config(struct engine *engine, uint32_t uid, const char *name, struct model_config *ret, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct err ignored = ERR_INIT;
	struct http_url url;
	struct model_doc d;
	char dialect[ID_SIZE];
	int r = registry_read(engine, &model_schema, uid, name, &text, &d, e);

	if (r)
		return r;
	*ret = (struct model_config){
		.uid = uid,
		.provider = jval_strdup(d.provider),
		.model = jval_strdup(d.model),
		.base_url = jval_strdup(d.baseUrl),
		.key_file = jval_strdup(d.keyFile),
		.key_command = jval_strdup(d.keyCommand),
		.ca_file = jval_strdup(d.caFile),
		.effort = jval_strdup(d.effort),
		.context_tokens = jval_uint(d.contextTokens, 0),
		.max_output_tokens = jval_uint(d.maxOutputTokens, 0),
		.text_only = jval_bool(d.textOnly, false),
		.added_us = d.addedAt,
		.default_us = view_counted(d.defaultUs),
	};
	id_copy(ret->name, name);
	jval_str(d.dialect, dialect, sizeof dialect);
	if (!ret->provider || !ret->model || dialect_find(dialect) < 0 || !ret->base_url ||
	    http_url_parse(ret->base_url, &url, &ignored) < 0) {
		model_config_done(ret);
		return err_set(e, ERR_CORRUPT, "the document of model '%.64s' is damaged: add it again with replace",
			       name);
	}
	ret->dialect = (enum dialect)dialect_find(dialect);
	ret->host = url.host;
	resolve_figures(engine, ret);
	return 0;
}

static int compare_age(const void *a, const void *b)
{
	const struct model_config *x = a, *y = b;

	return x->added_us < y->added_us ? -1 : x->added_us > y->added_us ? 1 : strcmp(x->name, y->name);
}

int model_configs_load(struct engine *engine, uint32_t uid, struct model_configs *ret, struct err *e)
{
	view_ids_auto struct view_ids names = VIEW_IDS_INIT;
	model_configs_auto struct model_configs all = { 0 };
	size_t first = 0;

	if (registry_names(engine, VIEW_MODEL, uid, MODELS_MAX, &names, e) < 0)
		return -1;
	all.config = mem_zalloc(names.n + 1, sizeof *all.config);
	for (size_t i = 0; i < names.n; i++) {
		int r = read_config(engine, uid, names.id[i], &all.config[all.count], e);

		if (r < 0)
			return -1;
		all.count += r == 0;
	}
	qsort(all.config, all.count, sizeof *all.config, compare_age);
	for (size_t i = 1; i < all.count; i++)
		if (all.config[i].default_us > all.config[first].default_us)
			first = i;
	if (first) {
		struct model_config chosen = all.config[first];

		memmove(&all.config[1], &all.config[0], first * sizeof *all.config);
		all.config[0] = chosen;
	}
	*ret = all;
	all = (struct model_configs){ 0 };
	return 0;
}

/* `field`: the parameter that names it; without a name the default. */
static int find_config(struct engine *engine, uint32_t uid, const char *field, const char *name,
		       struct model_config *ret, struct err *e)
{
	model_configs_auto struct model_configs all = { 0 };

	if (name) {
		int r = read_config(engine, uid, name, ret, e);

		if (r <= 0)
			return r;
		return err_at(e, ERR_NOT_FOUND, field,
			      "no model '%.64s' is registered: see `bailiff model list`, or add it with "
			      "`bailiff model add`",
			      name);
	}
	if (model_configs_load(engine, uid, &all, e) < 0)
		return -1;
	if (!all.count)
		return err_at(e, ERR_NOT_FOUND, "model",
			      "no model is registered: add one, for example with "
			      "`bailiff model add anthropic --key-file FILE`");
	*ret = all.config[0];
	all.config[0] = MODEL_CONFIG_INIT;
	return 0;
}

int model_config_find(struct engine *engine, uint32_t uid, const char *name, struct model_config *ret, struct err *e)
{
	return find_config(engine, uid, "model", name, ret, e);
}

/* ---- JSON ---- */

static void write_rates(struct jw *w, const struct model_rates *r)
{
	const struct {
		const char *key;
		uint64_t micro_usd;
	} rates[] = { { "inputPerMTok", r->input },
		      { "outputPerMTok", r->output },
		      { "cachedPerMTok", r->cached },
		      { "cacheWritePerMTok", r->cache_write },
		      { "cacheWrite1hPerMTok", r->cache_write_1h } };

	for (size_t i = 0; i < countof(rates); i++) {
		jw_key(w, rates[i].key);
		jw_real(w, (double)rates[i].micro_usd / 1e6);
	}
}

static void write_price(struct jw *w, const struct model_config *c)
{
	if (!c->price.known)
		return;
	jw_kobj(w, "price");
	write_rates(w, &c->price.base);
	if (c->price.above_tokens) {
		jw_kobj(w, "above");
		jw_kuint(w, "tokens", c->price.above_tokens);
		write_rates(w, &c->price.above);
		jw_obj_end(w);
	}
	jw_kstr(w, "source", c->price_source);
	if (strcmp(c->price_source, "built-in") == 0)
		jw_kstr(w, "asOf", KNOWN_MODELS_DATE);
	jw_obj_end(w);
}

/* The members that a client gives or that follow from them. */
static void write_settings(struct jw *w, const struct model_config *c)
{
	jw_kstr(w, "name", c->name);
	jw_kstr(w, "provider", c->provider);
	jw_kstr(w, "model", c->model);
	jw_kstr(w, "dialect", dialect_name(c->dialect));
	jw_kstr(w, "baseUrl", c->base_url);
	jw_kopt(w, "keyFile", c->key_file);
	jw_kopt(w, "keyCommand", c->key_command);
	jw_kopt(w, "caFile", c->ca_file);
	jw_kopt(w, "effort", c->effort);
	if (c->context_tokens)
		jw_kuint(w, "contextTokens", c->context_tokens);
	if (c->max_output_tokens)
		jw_kuint(w, "maxOutputTokens", c->max_output_tokens);
	if (c->text_only)
		jw_kbool(w, "textOnly", true);
	write_price(w, c);
}

static void write_model(struct jw *w, const struct model_config *c, bool is_default)
{
	write_settings(w, c);
	jw_kbool(w, "isDefault", is_default);
	view_write_time(w, "addedAt", c->added_us);
}

int engine_list_models(struct engine *engine, uint32_t uid, unsigned limit, const char *cursor, struct buf *out,
		       struct err *e)
{
	model_configs_auto struct model_configs all = { 0 };
	struct jw w = jw_on(out);
	size_t from = 0;

	if (limit < 1 || limit > 1000)
		return err_field(e, "limit", "must be 1 to 1000");
	if (model_configs_load(engine, uid, &all, e) < 0)
		return -1;
	/* The cursor is the name of the last one that was returned. */
	while (cursor && from < all.count && strcmp(all.config[from++].name, cursor) != 0)
		;
	jw_obj(&w);
	jw_karr(&w, "models");
	for (size_t i = from; i < all.count && i < from + limit; i++) {
		jw_obj(&w);
		write_model(&w, &all.config[i], i == 0);
		jw_obj_end(&w);
	}
	jw_arr_end(&w);
	if (from + limit < all.count)
		jw_kstr(&w, "nextCursor", all.config[from + limit - 1].name);
	jw_obj_end(&w);
	return 0;
}

int engine_get_model(struct engine *engine, uint32_t uid, const char *name, struct buf *out, struct err *e)
{
	model_config_auto struct model_config c = MODEL_CONFIG_INIT, first = MODEL_CONFIG_INIT;
	struct jw w = jw_on(out);

	if (find_config(engine, uid, "name", name, &c, e) < 0 || model_config_find(engine, uid, NULL, &first, e) < 0)
		return -1;
	jw_obj(&w);
	write_model(&w, &c, strcmp(c.name, first.name) == 0);
	jw_obj_end(&w);
	return 0;
}

/* ---- add_model ---- */

/*
 * Provider, dialect, model and URL from what is given. A known provider needs nothing else; another one needs a URL,
 * and speaks openai-chat unless a dialect is given. A dialect without a URL means the provider that it belongs to.
 */
static int resolve_provider(const struct model_registration *r, struct model_config *c, struct err *e)
{
	const struct known_provider *owner = r->dialect && !r->base_url ? known_provider_of(r->dialect) : NULL;
	const char *provider = r->provider                    ? r->provider
			       : known_provider_find(r->name) ? r->name
			       : owner                        ? owner->name
							      : r->name;
	const struct known_provider *known = known_provider_find(provider);
	const char *dialect = r->dialect ? r->dialect : known ? known->dialect : r->base_url ? "openai-chat" : NULL;
	const char *model = r->model ? r->model : known ? known->model : NULL;

	if (!dialect)
		return err_field(e, "baseUrl",
				 "missing: '%.64s' is not a provider with a known address (anthropic, openai, gemini); "
				 "give it, and the dialect unless it is openai-chat",
				 provider);
	if (dialect_find(dialect) < 0)
		return err_field(e, "dialect", "must be anthropic, openai-responses, openai-chat or gemini");
	if (!model)
		return err_field(e, "model", "missing: give the provider's id of the model");
	if (!id_valid(provider, strlen(provider)))
		return err_field(e, "provider", "must be 1 to %d of A-Z a-z 0-9 _ - . :", ID_GIVEN_MAX);
	c->provider = mem_strdup(provider);
	c->dialect = (enum dialect)dialect_find(dialect);
	c->model = mem_strdup(model);
	return registry_url("baseUrl", r->base_url ? r->base_url : dialect_base_url(c->dialect), r->insecure,
			    &c->base_url, &c->host, e);
}

static int check_text(const char *field, const char *s, size_t most, struct err *e)
{
	if (!s)
		return 0;
	for (const char *p = s; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return err_field(e, field, "must not contain control characters");
	if (!*s || strlen(s) > most)
		return err_field(e, field, "must have 1 to %zu bytes", most);
	return 0;
}

/* Error messages do not repeat what was given: it may be a key. */
static int resolve_key(const struct model_registration *r, struct model_config *c, struct err *e)
{
	if (r->key_file && r->key_command)
		return err_field(e, "keyCommand", "give either a file or a command for the key");
	if (!r->key_file && !r->key_command && !r->base_url)
		return err_field(
			e, "keyFile",
			"missing: give a file with mode 0600 that contains the key, or a command that prints it");
	if (registry_file("keyFile", r->key_file, "the key", &c->key_file, e) < 0)
		return -1;
	if (check_text("keyCommand", r->key_command, COMMAND_MAX, e) < 0)
		return -1;
	if (r->key_command && registry_contains_key(r->key_command))
		return err_field(e, "keyCommand",
				 "contains a key: commands are stored and shown; put the key in a file with mode 0600 "
				 "(keyFile)");
	c->key_command = mem_strdup(r->key_command);
	return registry_file("caFile", r->ca_file, "certificates", &c->ca_file, e);
}

static int resolve_registration(const struct model_registration *r, uint32_t uid, struct model_config *c, struct err *e)
{
	if (strlen(r->name) > VIEW_MODEL_NAME_MAX)
		return err_field(e, "name", "must have at most %u bytes", VIEW_MODEL_NAME_MAX);
	c->uid = uid;
	id_copy(c->name, r->name);
	if (check_text("model", r->model, WORD_MAX, e) < 0 || check_text("effort", r->effort, 16, e) < 0 ||
	    resolve_provider(r, c, e) < 0 || resolve_key(r, c, e) < 0)
		return -1;
	if (r->context_tokens > TOKENS_MAX || r->max_output_tokens > TOKENS_MAX)
		return err_field(e, r->context_tokens > TOKENS_MAX ? "contextTokens" : "maxOutputTokens",
				 "must be at most %u", TOKENS_MAX);
	c->effort = mem_strdup(r->effort);
	c->context_tokens = r->context_tokens;
	c->max_output_tokens = r->max_output_tokens;
	c->text_only = r->text_only;
	return 0;
}

/* Whether the name is new (1), or registered with the same settings (0). */
static int check_name(struct engine *engine, const struct model_registration *r, const struct model_config *c,
		      struct err *e)
{
	model_config_auto struct model_config before = MODEL_CONFIG_INIT;
	model_configs_auto struct model_configs all = { 0 };
	buf_auto struct buf old = BUF_INIT, new = BUF_INIT;
	struct jw o = jw_on(&old), n = jw_on(&new);
	int found = read_config(engine, c->uid, c->name, &before, e);

	if (found > 0) {
		if (model_configs_load(engine, c->uid, &all, e) < 0)
			return -1;
		if (all.count >= MODELS_MAX)
			return err_set(e, ERR_EXHAUSTED, "%u models are registered, which is the limit: remove one",
				       MODELS_MAX);
		return 1;
	}
	if (found < 0)
		return e->code == ERR_CORRUPT && r->replace ? 1 : -1;
	write_settings(&o, &before);
	write_settings(&n, c);
	const bool same = strcmp(buf_cstr(&old), buf_cstr(&new)) == 0;
	if (!r->is_default && same)
		return 0;
	if (!r->replace && !same)
		return err_at(e, ERR_CONFLICT, "name",
			      "model '%.64s' is registered with other settings: remove it first, or give replace",
			      c->name);
	return 1;
}

void engine_add_model(struct engine *engine, const struct model_registration *r, const struct caller *c,
		      engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	model_config_auto struct model_config config = MODEL_CONFIG_INIT, first = MODEL_CONFIG_INIT;
	const struct requester by = requester_of(c);
	struct err e = ERR_INIT, ignored = ERR_INIT;

	if (resolve_registration(r, c->uid, &config, &e) < 0)
		return transaction_reject(tx, &e);
	const struct opt_int context = opt_int_if(config.context_tokens, (int64_t)config.context_tokens),
			     output = opt_int_if(config.max_output_tokens, (int64_t)config.max_output_tokens);
	resolve_figures(engine, &config);
	int fresh = check_name(engine, r, &config, &e);
	if (fresh < 0)
		return transaction_reject(tx, &e);
	registry_authorise(engine, c, (const char *const[]){ config.key_file, config.ca_file }, 2);
	config.added_us = engine_real(engine);
	bool is_default = r->is_default || model_config_find(engine, c->uid, NULL, &first, &ignored) < 0 ||
			  strcmp(first.name, config.name) == 0;
	if (fresh)
		EMIT(model_added, tx, registry_scope(engine, c->uid, c->request_id, c->trace_id), .name = config.name,
		     .provider = config.provider, .model = config.model, .dialect = dialect_name(config.dialect),
		     .baseUrl = config.base_url, .keyFile = config.key_file, .keyCommand = config.key_command,
		     .caFile = config.ca_file, .effort = config.effort, .contextTokens = context,
		     .maxOutputTokens = output, .textOnly = config.text_only, .isDefault = r->is_default,
		     .requestedBy = json_requester(&by));
	write_model(&tx->w, &config, is_default);
	transaction_commit(tx);
}

/* ---- remove_model ---- */

void engine_remove_model(struct engine *engine, const char *name, const struct caller *c, engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	model_config_auto struct model_config config = MODEL_CONFIG_INIT;
	const struct requester by = requester_of(c);
	struct err e = ERR_INIT;

	/* A damaged one can be removed. */
	if (find_config(engine, c->uid, "name", name, &config, &e) < 0 && e.code != ERR_CORRUPT)
		return transaction_reject(tx, &e);
	EMIT(model_removed, tx, registry_scope(engine, c->uid, c->request_id, c->trace_id), .name = name,
	     .requestedBy = json_requester(&by));
	jw_kstr(&tx->w, "name", name);
	jw_kbool(&tx->w, "removed", true);
	transaction_commit(tx);
}

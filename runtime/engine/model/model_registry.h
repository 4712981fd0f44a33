#ifndef BAILIFF_ENGINE_MODEL_REGISTRY_H
#define BAILIFF_ENGINE_MODEL_REGISTRY_H

/*
 * The models that the execution loop may call: add_model, list_models, get_model, remove_model. Each uid has its own,
 * under names that it chooses. They are facts (model.added, model.removed) and documents; this module keeps no state.
 *
 * A registered model has a reference to its key: a file or a command, both of which are used only inside the sandbox of
 * bailiff-model, as the user. The key itself never reaches the runtime.
 *
 * Prices and sizes come from the policy's models, or else from the built-in table (policy/known_model.h). If neither
 * has the model, its price is unknown; a request with a cost limit is then rejected.
 */

#include "policy/model_price.h"
#include "runtime/dialect/dialect.h"
#include "runtime/engine/core/engine.h"
#include "runtime/event/id.h"

struct buf;
struct err;

/* One model with everything that is needed to call it. Owns its strings. */
struct model_config {
	uint32_t uid;
	char name[ID_SIZE];
	char *provider, *model; /* model: the provider's id of it */
	enum dialect dialect;
	char *base_url;                                  /* without a trailing slash */
	char *host;                                      /* of base_url, with its port: what its sandbox may reach */
	char *key_file, *key_command, *ca_file, *effort; /* NULL = none */
	uint64_t context_tokens, max_output_tokens;      /* 0 = not known */
	bool text_only;                                  /* it cannot see images */
	struct model_price price;
	const char *price_source;      /* "policy", "built-in", NULL = unknown */
	uint64_t added_us, default_us; /* when it was added, and made the default (0 = never) */
};
#define MODEL_CONFIG_INIT ((struct model_config){ 0 })
void model_config_done(struct model_config *c);
#define model_config_auto __attribute__((cleanup(model_config_done)))

/*
 * A registered model of the uid; name NULL = its default: the one made the default last, else the one added first.
 * ERR_NOT_FOUND says what to do. *ret must be MODEL_CONFIG_INIT.
 */
int model_config_find(struct engine *engine, uint32_t uid, const char *name, struct model_config *ret, struct err *e);

#define MODELS_MAX 64u /* of a uid */
struct model_configs {
	struct model_config *config;
	size_t count;
};
/* All of the uid, the default first and then in the order in which they were added. */
int model_configs_load(struct engine *engine, uint32_t uid, struct model_configs *ret, struct err *e);
void model_configs_done(struct model_configs *c);
#define model_configs_auto __attribute__((cleanup(model_configs_done)))

/* The price of a model by the policy or else the built-in table; returns which one, or NULL if it is unknown. */
const char *model_price_find(struct engine *engine, const char *provider, const char *model, struct model_price *ret);

/* ---- methods ---- */

/* NULL and 0 = not given. Replies with the model as get_model does. */
struct model_registration {
	const char *name, *provider, *model, *dialect, *base_url, *key_file, *key_command, *ca_file, *effort;
	uint64_t context_tokens, max_output_tokens;
	bool insecure; /* allow http to a host that is not this machine */
	bool is_default, replace, text_only;
};
void engine_add_model(struct engine *engine, const struct model_registration *r, const struct caller *c,
		      engine_reply_fn fn, void *ctx);
void engine_remove_model(struct engine *engine, const char *name, const struct caller *c, engine_reply_fn fn,
			 void *ctx);
/* {"models":[…],"nextCursor"?}; limit 1 … 1000, cursor NULL = from the first. */
int engine_list_models(struct engine *engine, uint32_t uid, unsigned limit, const char *cursor, struct buf *out,
		       struct err *e);
int engine_get_model(struct engine *engine, uint32_t uid, const char *name, struct buf *out, struct err *e);

#endif

/* Registered models. Each uid has its own; root sees and changes only root's. */

#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/engine/model/model_registry.h"

int method_add_model(struct call *c, const struct add_model_params *p, struct buf *out, struct err *e)
{
	const struct model_registration r = {
		.name = p->name,
		.provider = p->provider,
		.model = p->model,
		.dialect = p->dialect,
		.base_url = p->baseUrl,
		.key_file = p->keyFile,
		.key_command = p->keyCommand,
		.ca_file = p->caFile,
		.effort = p->effort,
		.context_tokens = p->contextTokens.value,
		.max_output_tokens = p->maxOutputTokens.value,
		.insecure = p->insecure.value,
		.is_default = p->isDefault.value,
		.replace = p->replace.value,
		.text_only = p->textOnly.value,
	};

	engine_add_model(call_engine(c), &r, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_list_models(struct call *c, const struct list_models_params *p, struct buf *out, struct err *e)
{
	return engine_list_models(call_engine(c), c->caller.uid, param_page_limit(p->limit, 100), p->cursor, out, e) < 0
		       ? -1
		       : CALL_REPLY;
}

int method_get_model(struct call *c, const struct get_model_params *p, struct buf *out, struct err *e)
{
	return engine_get_model(call_engine(c), c->caller.uid, p->name, out, e) < 0 ? -1 : CALL_REPLY;
}

int method_remove_model(struct call *c, const struct remove_model_params *p, struct buf *out, struct err *e)
{
	engine_remove_model(call_engine(c), p->name, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

/* A turn with one request: the same path as any other, with its budgets, facts and costs. */
int method_test_model(struct call *c, const struct test_model_params *p, struct buf *out, struct err *e)
{
	json_auto_t *input = json_pack("[{s:s,s:s}]", "type", "text", "text",
				       "This is a test of the connection. Answer with the word ok and call no tool."),
		    *limits = json_pack("{s:i}", "maxRequests", 1);
	const struct turn_request r = { .input = input, .loop = true, .model = p->name, .loop_limits = limits };
	buf_auto struct buf known = BUF_INIT;

	if (engine_get_model(call_engine(c), c->caller.uid, p->name, &known, e) < 0)
		return -1;
	engine_submit_turn(call_engine(c), &r, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

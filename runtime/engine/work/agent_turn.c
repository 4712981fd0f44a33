/*
 * Turns of the loop that do the work of something else: of a tool call (subagent_turn.c) or of an attempt
 * (task_agent.c). The id of such a turn is derived from that of its owner. So its submission can be repeated after a
 * restart, and either of them is found from the other.
 */

#include "runtime/engine/work/agent_turn.h"

#include "runtime/engine/session/turn_read.h"
#include "runtime/engine/work/subagent_private.h"
#include "runtime/view/view.h"
#include "runtime/view/view_cost.h"

#define ANSWER_MAX (8u << 20)

void agent_id(enum id_kind kind, const char *owner_id, char ret[ID_SIZE])
{
	const char *mark = strchr(owner_id, '_');

	snprintf(ret, ID_SIZE, "%s%.64s", id_prefix(kind), mark ? mark + 1 : owner_id);
}

void agent_turn_submit(struct engine *engine, const struct turn_request *r, const struct agent_prompt *p,
		       const struct caller *c, engine_reply_fn fn, void *ctx)
{
	json_auto_t *input = json_pack("[{s:s,s:s}]", "type", "text", "text", p->text),
		    *options = p->options ? json_copy((json_t *)(uintptr_t)p->options) : json_object();
	struct turn_request request = *r;

	json_object_set_new(options, "endProcesses", json_true()); /* nobody continues its thread */

	request.input = input;
	request.loop = true;
	request.model = p->model;
	request.loop_limits = p->limits;
	request.options = options;
	engine_submit_turn(engine, &request, c, fn, ctx);
}

bool agent_turn_open(struct engine *engine, const char *turn_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;

	return turn_read(engine, turn_id, &text, &t, &e) == 0 && !turn_doc_ended(&t);
}

bool subagent_turn_of(const struct subagent_doc *d, char ret[ID_SIZE])
{
	ret[0] = '\0';
	jval_str(jval_get(d->start, "turnId"), ret, ID_SIZE);
	return ret[0] != '\0';
}

static void ignore_reply(void *ctx, const struct err *e, const char *json, size_t len)
{
	if (e)
		log_debug("interrupt the turn of an agent: %s", e->message);
}

void agent_turn_interrupt(struct engine *engine, const char *turn_id, const char *reason)
{
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;
	char id[ID_SIZE];

	if (turn_read(engine, turn_id, &text, &t, &e) != 0 || turn_doc_ended(&t))
		return;
	const struct caller c = { .uid = (uint32_t)t.uid, .role = ROLE_OPERATOR, .peer_fd = -1 };
	id_copy(id, t.turnId);
	const struct turn_interrupt r = { .turn_id = id, .reason = reason };
	engine_interrupt_turn(engine, &r, &c, ignore_reply, NULL);
}

void agent_turn_answer(struct engine *engine, const struct turn_doc *t, struct buf *ret)
{
	buf_auto struct buf text = BUF_INIT, stored = BUF_INIT;
	char key[VIEW_REQUEST_KEY_MAX];
	struct model_request_doc r;
	struct err e = ERR_INIT;
	const json_t *b;
	size_t i;

	view_model_request_key(t->sessionId, t->lastRequestId, key);
	if (!t->lastRequestId[0] ||
	    view_read_speculative(engine->o.store, &model_request_schema, key, &text, &r, &e) != 0)
		return;
	mem_auto char *ref = jval_strdup(r.responseRef);
	if (!ref || store_output_whole(engine->o.store, ref, ANSWER_MAX, &stored, &e) < 0)
		return;
	json_auto_t *answer = json_loadb(buf_cstr(&stored), stored.len, 0, NULL);
	json_array_foreach (json_object_get(answer, "blocks"), i, b)
		if (json_string_value(json_object_get(b, "text")) && strcmp(param_str(b, "type"), "text") == 0)
			buf_str(ret, param_str(b, "text"));
}

void agent_turn_usage(struct engine *engine, const char *turn_id, struct agent_usage *sum)
{
	buf_auto struct buf text = BUF_INIT;
	char key[VIEW_COST_KEY];
	struct turn_doc t;
	struct cost_doc d;
	struct err e = ERR_INIT;

	if (turn_read(engine, turn_id, &text, &t, &e) != 0)
		return;
	sum->requests += view_counted(t.requests);
	cost_key(COST_OF_TURN, turn_id, 0, 0, key);
	if (view_read_speculative(engine->o.store, &cost_schema, key, &text, &d, &e) != 0)
		return;
	sum->input += view_counted(d.inputTokens);
	sum->output += view_counted(d.outputTokens);
	sum->cached += view_counted(d.cachedTokens);
	sum->micro_usd += view_counted(d.microUsd);
}

#include "runtime/engine/session/turn_read.h"

#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/ref.h"
#include "runtime/view/view.h"

const char turn_outcome_process[] = "process_completed";

int turn_read(struct engine *engine, const char *turn_id, struct buf *text, struct turn_doc *ret, struct err *e)
{
	return view_read_speculative(engine->o.store, &turn_schema, turn_id, text, ret, e);
}

int turn_of_caller(struct engine *engine, const char *field, const char *turn_id, const struct caller *c,
		   struct buf *text, struct turn_doc *ret, struct err *e)
{
	int r = turn_read(engine, turn_id, text, ret, e);

	if (r < 0)
		return -1;
	if (r > 0 || (c->uid != 0 && ret->uid != c->uid))
		return err_not_known(e, field, turn_id);
	if (jval_is_str(ret->source, "system"))
		return err_set(e, ERR_STATE, "turn '%s' is the runtime's own: it only carries facts", turn_id);
	return 0;
}

void turn_requester(const struct turn_doc *d, struct requester *ret)
{
	char role[16] = "";

	jval_str(jval_get(d->requestedBy, "role"), role, sizeof role);
	*ret = (struct requester){
		.uid = (uint32_t)jval_uint(jval_get(d->requestedBy, "uid"), d->uid),
		.pid = (int32_t)jval_int(jval_get(d->requestedBy, "pid"), 0),
		.role = strcmp(role, "operator") == 0 ? ROLE_OPERATOR : ROLE_AGENT,
	};
}

struct scope turn_scope(const struct turn_doc *d)
{
	return (struct scope){ .uid = (uint32_t)d->uid,
			       .session = d->sessionId,
			       .thread = d->threadId,
			       .turn = d->turnId,
			       .task = d->taskId,
			       .trace = d->traceId };
}

struct ref_owner turn_ref_owner(const struct turn_doc *d, const char *kind, const char *id, const char *media_type)
{
	return (struct ref_owner){ .uid = (uint32_t)d->uid,
				   .session_id = d->sessionId,
				   .thread_id = d->threadId,
				   .turn_id = d->turnId,
				   .kind = kind,
				   .id = id,
				   .media_type = media_type };
}

/* A member of the turn's stored input, {"input":[…],"env"?:{…}}. New reference; NULL with e, or if it is missing. */
static json_t *read_stored_member(struct engine *engine, const struct turn_doc *d, const char *member, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	json_t *all, *v;

	if (store_output_whole(engine->o.store, d->inputRef, 2 * TURN_INPUT_MAX, &text, e) < 0)
		return NULL;
	all = json_loadb(buf_cstr(&text), text.len, 0, NULL);
	if (!all)
		err_set(e, ERR_CORRUPT, "the input of turn '%s' cannot be read", d->turnId);
	v = json_incref(json_object_get(all, member));
	json_decref(all);
	return v;
}

json_t *turn_input(struct engine *engine, const struct turn_doc *d, struct err *e)
{
	return d->inputRef[0] ? read_stored_member(engine, d, "input", e) : json_array();
}

json_t *turn_system_prompt(struct engine *engine, const struct turn_doc *d, struct err *e)
{
	return d->inputRef[0] ? read_stored_member(engine, d, "systemPrompt", e) : NULL;
}

json_t *turn_part_merged(struct engine *engine, const struct turn_doc *d, const json_t *part)
{
	static const char *const members[] = { "cwd", "profile", "sandbox", "limits", "sandboxId" };
	struct err e = ERR_INIT;
	json_t *merged = json_object();
	json_t *options = d->options.type == JT_OBJECT ? json_loadb(d->options.text, d->options.len, 0, NULL) : NULL;

	for (size_t i = 0; i < countof(members); i++) {
		json_t *v = json_object_get(options, members[i]);

		if (v)
			json_object_set(merged, members[i], v);
	}
	if (engine && json_object_get(options, "env")) {
		json_t *env = read_stored_member(engine, d, "env", &e);

		if (env)
			json_object_set_new(merged, "env", env);
	}
	if (part)
		json_object_update(merged, (json_t *)(uintptr_t)part);
	/* The kind of the part is not a parameter of a start. */
	json_object_del(merged, "type");
	json_decref(options);
	return merged;
}

bool turn_queue_is_empty(struct engine *engine, const char *thread_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct queue_doc d;
	struct err e = ERR_INIT;
	int r = view_read_speculative(engine->o.store, &queue_schema, thread_id, &text, &d, &e);

	if (r != 0)
		return r > 0;
	struct jiter it = jiter_on(d.order);
	return !jiter_next(&it);
}

int turn_queue_read(struct engine *engine, const char *thread_id, struct turn_queue *ret, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct queue_doc d;
	struct thread_doc t;
	int r = view_read_speculative(engine->o.store, &queue_schema, thread_id, &text, &d, e);

	*ret = (struct turn_queue){ 0 };
	id_copy(ret->thread_id, thread_id);
	if (r < 0)
		return -1;
	if (r == 0) {
		for (struct jiter it = jiter_on(d.order); ret->count < TURN_QUEUE_MAX && jiter_next(&it);)
			jval_str(it.value, ret->ids[ret->count++], ID_SIZE);
		ret->held = d.resumeState[0];
	}
	if (view_read_speculative(engine->o.store, &thread_schema, thread_id, &text, &t, e) < 0)
		return -1;
	id_copy(ret->session_id, t.sessionId);
	ret->uid = (uint32_t)t.uid;
	return 0;
}

#include "runtime/engine/session/tool_call_read.h"

#include "runtime/engine/core/core.h"
#include "runtime/view/view.h"

int tool_call_read(struct engine *engine, const char *call_id, struct buf *text, struct tool_call_doc *ret,
		   struct err *e)
{
	return view_read_speculative(engine->o.store, &tool_call_schema, call_id, text, ret, e);
}

int tool_call_of_caller(struct engine *engine, const char *call_id, const struct caller *c, struct buf *text,
			struct tool_call_doc *ret, struct err *e)
{
	int r = tool_call_read(engine, call_id, text, ret, e);

	if (r < 0)
		return -1;
	if (r > 0 || (c->uid != 0 && ret->uid != c->uid))
		return err_not_known(e, "toolCallId", call_id);
	return 0;
}

struct scope tool_call_scope(const struct tool_call_doc *d)
{
	return (struct scope){ .uid = (uint32_t)d->uid,
			       .session = d->sessionId,
			       .thread = d->threadId,
			       .turn = d->turnId,
			       .step = d->stepId,
			       .tool_call = d->toolCallId,
			       .task = d->taskId,
			       .trace = d->traceId,
			       .process = d->processId };
}

json_t *tool_call_arguments(struct engine *engine, const struct tool_call_doc *d, struct err *e)
{
	/* A hook's change replaces the original arguments. Without a ref they are short and in the document itself. */
	const char *ref = d->updatedInputRef[0] ? d->updatedInputRef : d->inputRef;
	buf_auto struct buf text = BUF_INIT;
	json_t *v;

	if (!ref[0])
		v = d->safeArgs.type == JT_OBJECT ? json_loadb(d->safeArgs.text, d->safeArgs.len, 0, NULL)
						  : json_object();
	else if (store_output_whole(engine->o.store, ref, TOOL_ARGS_MAX, &text, e) < 0)
		return NULL;
	else
		v = json_loadb(buf_cstr(&text), text.len, 0, NULL);
	if (!v)
		err_set(e, ERR_CORRUPT, "the arguments of '%s' cannot be read", d->toolCallId);
	return v;
}

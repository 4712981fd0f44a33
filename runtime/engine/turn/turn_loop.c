/*
 * The execution loop: runs the parts of a turn in order. Consecutive tool calls that only read and are declared safe
 * to run in parallel do so, up to a limit; everything else runs alone. The progress is part of the turn's document,
 * so any event can trigger the next step: a commit, the end of a tool call, a restart.
 */

#include "runtime/engine/call/tool_call.h"
#include "runtime/engine/turn/turn_private.h"

#define PARALLEL_MAX 4u

struct loop {
	struct engine *engine;
	const struct turn_doc *turn;
	json_t *input;
	size_t next;    /* the first part not started yet */
	size_t open;    /* parts that have not ended, or whose hooks have not answered */
	bool open_safe; /* all open parts may run in parallel with others */
	bool stops;     /* at the first part that fails */
};

/* Text and images are for the client or the model: nothing is run for them. */
static bool is_message(const json_t *part)
{
	const char *type = json_string_value(json_object_get(part, "type"));

	return type && (strcmp(type, "text") == 0 || strcmp(type, "image") == 0);
}

static const char *tool_name_of(const json_t *part)
{
	const char *name = json_string_value(json_object_get(part, "toolName"));

	return name ? name : "shell";
}

static struct tool_scope scope_of(const struct loop *l)
{
	return (struct tool_scope){ (uint32_t)l->turn->uid, l->turn->sessionId };
}

void turn_finish(struct engine *engine, const struct turn_doc *t, const struct turn_end *end)
{
	if (end->category || !turn_hooks_stop(engine, t, end, NULL))
		turn_end_now(engine, t, end);
}

/*
 * With stopOnFailure the failed call determines the turn's status and message; otherwise all parts ran, and the
 * message counts.
 */
static void end_turn(struct loop *l)
{
	const struct turn_doc *t = l->turn;
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc call;
	struct err e = ERR_INIT;
	char message[512], category[64] = "tool";
	struct turn_end end = { .status = "completed", .outcome = "parts_completed" };

	if (view_counted(t->partsFailed)) {
		end = (struct turn_end){
			.status = "failed", .category = category, .message = message, .call_id = t->failedCallId
		};
		snprintf(message, sizeof message, "%llu of %zu parts failed", (unsigned long long)t->partsFailed,
			 json_array_size(l->input));
		if (view_read_speculative(l->engine->o.store, &tool_call_schema, t->failedCallId, &text, &call, &e) ==
		    0) {
			jval_str(call.category, category, sizeof category);
			end.retryable = jval_bool(call.retryable, false);
			if (l->stops) {
				char why[400];

				jval_str(call.message, why, sizeof why);
				snprintf(message, sizeof message, "%s: %s", call.toolName, why);
				end.status = call.status;
			}
		}
	}
	turn_finish(l->engine, t, &end);
}

/* Finds the next part and the open ones, from the turn's document. */
static void read_progress(struct loop *l)
{
	const uint64_t ended = view_counted(l->turn->partsEnded);
	size_t started = 0;

	l->next = (size_t)view_counted(l->turn->partsStarted);
	for (size_t i = 0; i < l->next && i < json_array_size(l->input); i++)
		started += !is_message(json_array_get(l->input, i));
	l->open = started > ended ? started - (size_t)ended : 0;
	/* Hooks may end the turn, or change what the next part reads. */
	l->open += tool_hooks_pending_parts(l->engine, l->turn->turnId);
	/*
	 * A part that runs alone is never open together with others, so the last started part is representative of
	 * all open ones.
	 */
	l->open_safe = !l->open ||
		       tool_is_parallel(l->engine, tool_name_of(json_array_get(l->input, l->next - 1)), scope_of(l));
	while (l->next < json_array_size(l->input) && is_message(json_array_get(l->input, l->next)))
		l->next++;
}

/* Does one step that is due; true if another may be due. */
static bool loop_once(struct loop *l)
{
	read_progress(l);
	if ((view_counted(l->turn->partsFailed) && l->stops) || l->next >= json_array_size(l->input)) {
		if (l->open || turn_driven_by_client(l->turn))
			return false;
		if (turn_driven_by_loop(l->turn) && !(view_counted(l->turn->partsFailed) && l->stops))
			l->engine->modules->turn_driver(l->engine, l->turn);
		else if (!turn_busy(l->engine, l->turn))
			end_turn(l);
		return false;
	}
	const json_t *part = json_array_get(l->input, l->next);
	const char *type = json_string_value(json_object_get(part, "type")), *tool = tool_name_of(part);
	if (l->open && !(l->open_safe && l->open < PARALLEL_MAX && tool_is_parallel(l->engine, tool, scope_of(l))))
		return false;
	/* A command is a call of the shell tool; its part has the arguments. */
	const bool command = type && strcmp(type, "command") == 0;
	json_auto_t *arguments = command ? json_copy((json_t *)(uintptr_t)part)
					 : json_incref(json_object_get(part, "arguments"));
	struct tool_use use = { .tool = tool, .arguments = arguments, .part = (int)l->next };
	if (command)
		json_object_del(arguments, "type");
	turn_requester(l->turn, &use.by);
	if (tool_evaluated_first(l->engine, use.tool, scope_of(l))) {
		tool_check_permission(l->engine, l->turn->turnId, &use, TOOL_FROM_LOOP, LIMIT_NONE, NULL, NULL, NULL);
	} else {
		struct transaction *tx = transaction_new_internal(l->engine);

		tool_call_begin(tx, l->turn, &use, NULL);
		transaction_commit(tx);
	}
	/* While the call's rules are being looked up, the next step follows the evaluation. */
	return !tool_is_evaluating(l->engine, l->turn->turnId);
}

/*
 * An open action holds the loop: its answer continues it. The document is read again after each step, because the step
 * may have ended the turn.
 */
void turn_loop(struct engine *engine, const struct turn_doc *first)
{
	struct loop l = { .engine = engine,
			  .turn = first,
			  .stops = jval_bool(jval_get(first->options, "stopOnFailure"), true) };
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc d = *first;
	struct err e = ERR_INIT;

	if (engine->stopping || !d.inputRef[0] || tool_is_evaluating(engine, d.turnId))
		return;
	l.input = turn_input(engine, first, &e);
	if (!l.input) {
		const struct turn_end end = { .status = "failed", .category = "store", .message = e.message };

		return turn_end_now(engine, first, &end);
	}
	char id[ID_SIZE];
	id_copy(id, first->turnId);
	while (view_counted(l.turn->openActions) == 0 && loop_once(&l)) {
		if (turn_read(engine, id, &text, &d, &e) != 0 || turn_doc_ended(&d) || d.ending.type == JT_OBJECT)
			break;
		l.turn = &d;
	}
	json_decref(l.input);
}

#include "runtime/base/mem.h"
#include "runtime/view/projections.h"

/*
 * A thread's turns are ordered by a number and not by their ids, which callers choose. It is counted in the thread's
 * document, because an event has no sequence number yet in a speculative projection.
 *
 * '~' sorts after every character of an id. Members without a number come from projections before VIEW_VERSION 5; they
 * remain only where retention has removed the turn's submission, so those turns are older than all with a number.
 */
void view_turn_member(const struct turn_doc *d, char ret[VIEW_TURN_MEMBER_MAX])
{
	if (d->number == VIEW_ABSENT)
		(void)snprintf(ret, VIEW_TURN_MEMBER_MAX, "%s", d->turnId);
	else
		(void)snprintf(ret, VIEW_TURN_MEMBER_MAX, "~%020llu/%s", (unsigned long long)d->number, d->turnId);
}

/* The thread counts its turns first, so that this one gets its number. */
int view_turn_on_submitted(struct models *m, const struct event_view *ev, struct err *e)
{
	char member[VIEW_TURN_MEMBER_MAX];
	struct turn_doc d;
	uint64_t number = VIEW_ABSENT;
	bool by_runtime;
	int r = view_thread_next_turn(m, ev, &number, e);

	if (r == 0)
		r = view_open_event(m, &turn_schema, ev, &d, e);
	if (r)
		return r < 0 ? -1 : 0;
	d.number = number;
	view_copy_payload(&turn_schema, &d, ev);
	view_copy_string(d.status, event_payload_member(ev, "status"));
	event_id_copy(ev, ID_TASK, d.taskId, sizeof(d.taskId));
	event_id_copy(ev, ID_RUN, d.runId, sizeof(d.runId));
	event_id_copy(ev, ID_ATTEMPT, d.attemptId, sizeof(d.attemptId));
	event_id_copy(ev, ID_TOOL_CALL, d.toolCallId, sizeof(d.toolCallId));
	event_id_copy(ev, ID_TRACE, d.traceId, sizeof(d.traceId));
	view_copy_string(d.inputRef, event_payload_member(ev, "inputRef"));
	view_copy_string(d.inputHash, event_payload_member(ev, "inputHash"));
	d.parts = jval_uint(event_payload_member(ev, "parts"), VIEW_ABSENT);
	d.submittedAt = ev->real_us;
	by_runtime = jval_is_str(d.source, "system");
	view_turn_member(&d, member);
	if (view_save(m, &turn_schema, d.turnId, &d, e) < 0 ||
	    view_list_put(m, VIEW_THREAD_TURN, d.threadId, member, e) < 0)
		return -1;
	/* A system turn only carries facts: it never ends, and recovery ignores it. */
	return by_runtime ? 0 : view_list_put(m, VIEW_LIVE_TURN, d.turnId, NULL, e);
}

/* A queued turn gets its number when it starts, since others may have started before it. */
static int leave_queue(struct models *m, const struct event_view *ev, struct turn_doc *d, struct err *e)
{
	char before[VIEW_TURN_MEMBER_MAX], after[VIEW_TURN_MEMBER_MAX];
	uint64_t number;

	view_turn_member(d, before);
	int r = view_thread_next_turn(m, ev, &number, e);
	if (r)
		return r;
	d->number = number;
	view_turn_member(d, after);
	if (view_list_del(m, VIEW_THREAD_TURN, d->threadId, before, e) < 0 ||
	    view_list_put(m, VIEW_THREAD_TURN, d->threadId, after, e) < 0)
		return -1;
	r = view_open_event(m, &turn_schema, ev, d, e); /* again: the calls above invalidated its JSON members */
	d->number = number;
	return r;
}

int view_turn_on_started(struct models *m, const struct event_view *ev, struct err *e)
{
	struct turn_doc d;
	int r = view_open_event(m, &turn_schema, ev, &d, e);

	if (r == 0 && strcmp(d.status, "queued") == 0)
		r = leave_queue(m, ev, &d, e);
	if (r)
		return r < 0 ? -1 : 0;
	view_copy_payload(&turn_schema, &d, ev);
	id_copy(d.status, "running");
	d.startedAt = ev->real_us;
	return view_save(m, &turn_schema, d.turnId, &d, e);
}

/* The latest decision of the turn. A dry run decides nothing, and bailiff's own programs do not count. */
bool turn_on_permission(struct projection *p, void *doc)
{
	struct jval decision = event_payload_member(p->event, "permissionDecision");

	if (decision.type != JT_OBJECT || jval_bool(event_payload_member(p->event, "dryRun"), false) ||
	    jval_bool(event_payload_member(p->event, "internal"), false))
		return false;
	((struct turn_doc *)doc)->permissionDecision = decision;
	return true;
}

bool turn_on_sandbox(struct projection *p, void *doc)
{
	struct jval profile = event_payload_member(p->event, "sandboxProfile");

	if (profile.type != JT_OBJECT || jval_bool(event_payload_member(p->event, "internal"), false))
		return false;
	((struct turn_doc *)doc)->sandboxProfile = profile;
	return true;
}

/* Only the runtime's own events: phases that a client reports change no status. */
bool turn_on_run_status(struct projection *p, void *doc)
{
	struct jval ending = event_payload_member(p->event, "ending");
	struct turn_doc *d = doc;

	if (event_from_client(p->event))
		return false;
	view_copy_string(d->phase, event_payload_member(p->event, "phase"));
	if (ending.type == JT_OBJECT)
		d->ending = ending;
	return true;
}

bool turn_on_tool_started(struct projection *p, void *doc)
{
	uint64_t part = jval_uint(event_payload_member(p->event, "part"), VIEW_ABSENT);
	struct turn_doc *d = doc;

	d->openCalls = view_add(d->openCalls, 1);
	if (part != VIEW_ABSENT)
		d->partsStarted = part + 1;
	return true;
}

/* Calls with `part` execute the input of the turn; the execution loop continues from these counts. */
bool turn_on_tool_ended(struct projection *p, void *doc)
{
	uint64_t part = jval_uint(event_payload_member(p->event, "part"), VIEW_ABSENT);
	bool in_input = part != VIEW_ABSENT;
	struct turn_doc *d = doc;

	/* A call that was denied before it started (`stage`) was never open. */
	if (event_payload_member(p->event, "stage").type != JT_STRING)
		d->openCalls = view_add(d->openCalls, -1);
	else if (in_input && (d->partsStarted == VIEW_ABSENT || d->partsStarted <= part))
		d->partsStarted = part + 1;
	if (in_input)
		d->partsEnded = view_add(d->partsEnded, 1);
	if (in_input && p->event->type == EVENT_TOOL_FAILED) {
		d->partsFailed = view_add(d->partsFailed, 1);
		if (!d->failedCallId[0])
			event_id_copy(p->event, ID_TOOL_CALL, d->failedCallId, sizeof(d->failedCallId));
	}
	return true;
}

/* What the loop sends to the model: the instruction files that it has read, and what hooks added. */
bool turn_on_context(struct projection *p, void *doc)
{
	struct jval refs = event_payload_member(p->event, "refs"), read = jval_get(refs, "instructions"),
		    added = jval_get(refs, "hookContext"), prompt = jval_get(refs, "systemPrompt");
	struct turn_doc *d = doc;

	if (event_from_client(p->event))
		return false;
	if (read.type == JT_OBJECT)
		d->instructions = read;
	if (prompt.type == JT_OBJECT)
		d->systemPrompt = prompt;
	if (added.type == JT_ARRAY)
		d->hookContext = added;
	return read.type == JT_OBJECT || added.type == JT_ARRAY;
}

/* A request of the loop. Those that a client reports do not count. */
bool turn_on_model_requested(struct projection *p, void *doc)
{
	struct turn_doc *d = doc;

	if (event_from_client(p->event))
		return false;
	event_id_copy(p->event, ID_MODEL_REQUEST, d->lastRequestId, sizeof(d->lastRequestId));
	d->requests = view_add(d->requests, 1);
	d->steered = jval_uint(event_payload_member(p->event, "steered"), d->steered);
	return true;
}

/* The status of a queued or ended turn stays as it is; its open actions are still counted. */
bool turn_on_action_required(struct projection *p, void *doc)
{
	struct turn_doc *d = doc;

	d->openActions = view_add(d->openActions, 1);
	if (!turn_doc_ended(d) && d->startedAt)
		id_copy(d->status, view_action_waiting(event_payload_member(p->event, "actionType")));
	return true;
}

bool turn_on_action_resolved(struct projection *p, void *doc)
{
	struct turn_doc *d = doc;

	d->openActions = view_add(d->openActions, -1);
	if (!turn_doc_ended(d) && d->startedAt && !d->openActions)
		id_copy(d->status, "running");
	return true;
}

/*
 * The steps of a turn. Step ids sort by time, so the list is in order. An event without a step id adds none. A process
 * that runs for a tool call shares the call's step and does not end it.
 */

#define STEP_KEY_MAX (2 * ID_SIZE)

/* The kind of step that an event begins, the payload member with its title, and whether it ends immediately. */
static const struct step_kind {
	enum event_type type;
	const char *kind, *title;
	bool instant;
} kinds[] = {
	{ EVENT_TURN_SUBMITTED, "message", "preview", true }, { EVENT_MODEL_REQUESTED, "model", "model", false },
	{ EVENT_TOOL_STARTED, "tool", "toolName", false },    { EVENT_ACTION_REQUIRED, "action", "actionType", false },
	{ EVENT_PROCESS_STARTED, "command", NULL, false },    { EVENT_ARTIFACT_CHANGED, "artifact", "path", true },
};

static const struct step_kind *kind_of(enum event_type type)
{
	for (size_t i = 0; i < countof(kinds); i++)
		if (kinds[i].type == type)
			return &kinds[i];
	return NULL;
}

/* 0 found, 1 a fresh one, 2 the event names no step, −1. */
static int load_step(struct models *m, const struct event_view *ev, char key[STEP_KEY_MAX], struct step_doc *d,
		     struct err *e)
{
	char turn[ID_SIZE], step[ID_SIZE];

	event_id_copy(ev, ID_TURN, turn, sizeof(turn));
	event_id_copy(ev, ID_STEP, step, sizeof(step));
	if (!*turn || !*step)
		return 2;
	(void)snprintf(key, STEP_KEY_MAX, "%s/%s", turn, step);
	int r = view_load(m, &step_schema, key, d, e);
	if (r == 1)
		id_copy(d->stepId, step);
	return r;
}

/* A second event with the same step id (a tool call and its process) adds its ids and keeps the rest. */
int view_step_on_begun(struct models *m, const struct event_view *ev, struct err *e)
{
	const struct step_kind *kind = kind_of(ev->type);
	char key[STEP_KEY_MAX];
	struct step_doc d;
	int r = load_step(m, ev, key, &d, e);

	if (r < 0 || r == 2)
		return r < 0 ? -1 : 0;
	static const struct {
		enum id_field id;
		size_t offset;
	} ids[] = {
		{ ID_TOOL_CALL, offsetof(struct step_doc, toolCallId) },
		{ ID_PROCESS, offsetof(struct step_doc, processId) },
		{ ID_ACTION, offsetof(struct step_doc, actionId) },
		{ ID_ARTIFACT, offsetof(struct step_doc, artifactId) },
		{ ID_MODEL_REQUEST, offsetof(struct step_doc, modelRequestId) },
	};

	for (size_t i = 0; i < countof(ids); i++)
		if (ev->ids[ids[i].id].text)
			event_id_copy(ev, ids[i].id, (char *)&d + ids[i].offset, ID_SIZE);
	if (!d.kind[0]) {
		struct jval title = event_payload_member(ev, kind->title ? kind->title : "commandLine");

		id_copy(d.kind, kind->kind);
		id_copy(d.status, kind->instant ? "completed" : "running");
		if (ev->type == EVENT_TOOL_STARTED && jval_is_str(title, "shell"))
			id_copy(d.kind, "command");
		if (title.type == JT_STRING && title.len <= 512)
			d.title = title;
		d.startedAt = ev->real_us;
		if (kind->instant)
			d.endedAt = ev->real_us;
	}
	return view_save(m, &step_schema, key, &d, e);
}

static bool is_process_end(enum event_type t)
{
	return t == EVENT_PROCESS_COMPLETED || t == EVENT_PROCESS_FAILED || t == EVENT_PROCESS_TERMINATED;
}

/* The end of a step that never began creates nothing. */
int view_step_on_ended(struct models *m, const struct event_view *ev, struct err *e)
{
	char key[STEP_KEY_MAX], status[ID_SIZE] = "completed";
	struct step_doc d;
	int r = load_step(m, ev, key, &d, e);

	if (r != 0)
		return r < 0 ? -1 : 0;
	if (is_process_end(ev->type) && d.toolCallId[0])
		return 0;
	if (ev->type == EVENT_TOOL_FAILED || ev->type == EVENT_MODEL_FAILED)
		id_copy(status, "failed");
	view_copy_string(status, event_member(ev, "status"));
	id_copy(d.status, status);
	d.endedAt = ev->real_us;
	if (ev->type == EVENT_MODEL_COMPLETED) {
		d.preview = event_payload_member(ev, "preview");
		d.responseRef = event_payload_member(ev, "responseRef");
	}
	return view_save(m, &step_schema, key, &d, e);
}

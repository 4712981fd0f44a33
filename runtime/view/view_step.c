/*
 * The steps of a turn. Step ids sort by time, so the list is in order. An event without a step id adds none. A process
 * that runs for a tool call shares the call's step and does not end it.
 */

#include "runtime/view/projections.h"

#include "runtime/base/mem.h"

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

static void copy_ids(struct step_doc *d, const struct event_view *ev)
{
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
			event_id_copy(ev, ids[i].id, (char *)d + ids[i].offset, ID_SIZE);
}

int view_step_on_begun(struct models *m, const struct event_view *ev, struct err *e)
{
	const struct step_kind *kind = kind_of(ev->type);
	char key[STEP_KEY_MAX];
	struct step_doc d;
	int r = load_step(m, ev, key, &d, e);

	if (r < 0 || r == 2)
		return r < 0 ? -1 : 0;
	copy_ids(&d, ev);
	if (!d.kind[0]) {
		struct jval payload = event_payload(ev),
			    title = jval_get(payload, kind->title ? kind->title : "commandLine");

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
	return view_save(m, &step_schema, key, &d, e);
}

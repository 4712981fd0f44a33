/*
 * Processes. Bytes and previews of the outputs are in documents of their own (view_output.c) and joined when a process
 * is read, so that counting output does not rewrite the process's document.
 */

#include "runtime/event/payloads.h"
#include "runtime/view/projections.h"

#include <inttypes.h>

bool process_on_started(struct projection *p, void *doc)
{
	struct process_doc *d = doc;

	if (jval_bool(d->cow, false))
		projection_list(p, true, VIEW_COW_PROCESS, d->processId, NULL);
	return true;
}

/* The changes of a copy-on-write run are gone: applied, discarded, or there were none. */
int view_process_on_artifact(struct models *m, const struct event_view *ev, struct err *e)
{
	char id[ID_SIZE];

	event_id_copy(ev, ID_PROCESS, id, sizeof(id));
	if (event_from_client(ev) || jval_bool(jval_get(event_payload(ev), "kept"), true))
		return 0;
	return view_list_del(m, VIEW_COW_PROCESS, id, NULL, e);
}

/* Only an end of file and a new window size matter. A terminal accepts input after an end of file. */
int view_process_on_input(struct models *m, const struct event_view *ev, struct err *e)
{
	struct process_input_json input;
	struct process_doc d;
	char tty[64];

	read_process_input(ev, &input);
	bool resized = jval_is_str(input.kind, "resize");
	if (!resized && !jval_is_str(input.kind, "eof"))
		return 0;
	int r = view_open_event(m, &process_schema, ev, &d, e);
	if (r)
		return r < 0 ? -1 : 0;
	if (d.tty.type == JT_OBJECT && !resized)
		return 0;
	if (resized) {
		int n = snprintf(tty, sizeof(tty), "{\"rows\":%" PRIu64 ",\"cols\":%" PRIu64 "}",
				 jval_uint(input.rows, 0), jval_uint(input.cols, 0));
		d.tty = jval_of(tty, (size_t)n);
	} else {
		d.stdinClosed = true;
	}
	return view_save(m, &process_schema, d.processId, &d, e);
}

static void set_status(const struct event_view *ev, struct jval payload, struct process_doc *d)
{
	struct jval status = event_member(ev, "status");

	view_copy_string(d->statusReason, event_member(ev, "statusReason"));
	switch (ev->type) {
	case EVENT_PROCESS_COMPLETED: id_copy(d->status, "completed"); break;
	case EVENT_PROCESS_TERMINATED:
		id_copy(d->status, "terminated");
		if (!d->statusReason[0])
			view_copy_string(d->statusReason, jval_get(payload, "reason"));
		break;
	default:
		id_copy(d->status, jval_is_str(status, "lost") ? "lost" : "failed");
		if (!d->statusReason[0] && jval_is_str(status, "timed_out"))
			id_copy(d->statusReason, "timed_out");
	}
}

bool process_on_ended(struct projection *p, void *doc)
{
	struct jval profile = jval_get(p->payload, "profile");
	struct process_doc *d = doc;
	char ended[VIEW_ORDER_KEY_MAX];

	if (profile.type == JT_STRING)
		d->sandboxProfile = profile;
	set_status(p->event, p->payload, d);
	d->endSequence = p->event->sequence;
	/* Retention removes outputs: a process without any is not listed for it. */
	struct jiter it = jiter_on(d->outputRefs);
	if (d->commandRef.type == JT_STRING || jiter_next(&it)) {
		view_order_key(d->endSequence, ended);
		projection_list(p, true, VIEW_ENDED_PROCESS, ended, d->processId);
	}
	return true;
}

/* The outputs of a process expire together, so the first one removes it from the list. */
int view_process_on_output_expired(struct models *m, const struct event_view *ev, struct err *e)
{
	char ended[VIEW_ORDER_KEY_MAX];
	struct process_doc d;
	int r = view_open_event(m, &process_schema, ev, &d, e);

	if (r || d.endSequence == VIEW_ABSENT)
		return r < 0 ? -1 : 0;
	view_order_key(d.endSequence, ended);
	return view_list_del(m, VIEW_ENDED_PROCESS, ended, d.processId, e);
}

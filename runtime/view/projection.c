/*
 * One row of projections.def: opens the event's document, applies operations and then the row's function, writes the
 * document, and updates lists. A document is read and written at most once per row.
 */

#include "runtime/view/projection.h"

#include "runtime/base/mem.h"

#include <assert.h>

void projection_list(struct projection *p, bool put, enum view_kind kind, const char *owner, const char *member)
{
	assert(p->nlists < countof(p->lists));
	if (!*owner || (member && !*member))
		return;
	p->lists[p->nlists].kind = kind;
	p->lists[p->nlists].put = put;
	(void)snprintf(p->lists[p->nlists].owner, sizeof(p->lists[0].owner), "%s", owner);
	(void)snprintf(p->lists[p->nlists++].member, sizeof(p->lists[0].member), "%s", member ? member : "");
}

static int write_list(struct models *m, bool put, enum view_kind kind, const char *owner, const char *member,
		      struct err *e)
{
	return put ? view_list_put(m, kind, owner, member, e) : view_list_del(m, kind, owner, member, e);
}

/* Changes the document by one operation; false: the projection stops. */
static bool apply_op(const struct projection_op *op, const struct projection *p, const struct view_schema *schema,
		     void *doc)
{
	void *at = (char *)doc + op->offset;
	uint64_t *number = at;
	struct jval v = { 0 };

	if (op->code >= OP_STRING && op->code <= OP_JSON)
		v = event_payload_member(p->event, op->text);
	switch (op->code) {
	case OP_MEMBERS: view_copy_payload(schema, doc, p->event); break;
	case OP_STRING: view_copy_string(at, v); break;
	case OP_UINT: *number = jval_uint(v, VIEW_ABSENT); break;
	case OP_UINT_KEEP: *number = jval_uint(v, *number); break;
	case OP_FLAG: *(bool *)at = jval_bool(v, false); break;
	case OP_TIME: view_copy_time(number, v); break;
	case OP_JSON: *(struct jval *)at = v; break;
	case OP_EVENT_ID: event_id_copy(p->event, op->id, at, ID_SIZE); break;
	case OP_STATUS: view_copy_string(at, event_member(p->event, "status")); break;
	case OP_REASON:
		v = event_member(p->event, "statusReason");
		if (v.type == JT_STRING)
			*(struct jval *)at = v;
		break;
	case OP_NOW: *number = p->event->real_us; break;
	case OP_SET: id_copy(at, op->text); break;
	case OP_TRUE: *(bool *)at = true; break;
	case OP_CLEAR: *(struct jval *)at = v; break;
	case OP_CLEAR_TIME: *number = 0; break;
	case OP_INCREMENT: *number = view_add(*number, 1); break;
	case OP_UNLESS: return *number == 0;
	case OP_PUT:
	case OP_DELETE: /* after the document is written */
	case OP_END: break;
	}
	return true;
}

/* Reads, changes and writes one document. 0 also when the event does not concern one. */
int projection_run(struct models *m, const struct event_view *ev, const struct view_schema *schema,
		   const struct projection_op *ops, projection_fn change, struct err *e)
{
	struct projection p; /* `lists` is large and not cleared: this runs several times for each event */
	_Alignas(max_align_t) char doc[VIEW_DOCUMENT_MAX];
	int r = view_open_event(m, schema, ev, doc, e);

	if (r)
		return r < 0 ? -1 : 0;
	p.models = m;
	p.event = ev;
	p.e = e;
	p.nlists = 0;
	for (const struct projection_op *op = ops; op && op->code != OP_END; op++)
		if (!apply_op(op, &p, schema, doc))
			return 0;
	if (change && !change(&p, doc))
		return 0;
	/* Lists come later: the JSON members point into the old document, which is valid until the next write. */
	const struct view_field *key = &schema->fields[0];
	if (view_save(m, schema, doc + key->offset, doc, e) < 0)
		return -1;
	for (const struct projection_op *op = ops; op && op->code != OP_END; op++)
		if ((op->code == OP_PUT || op->code == OP_DELETE) &&
		    write_list(p.models, op->code == OP_PUT, op->list, doc + op->offset,
			       op->other == SIZE_MAX ? NULL : doc + op->other, p.e) < 0)
			return -1;
	for (size_t i = 0; i < p.nlists; i++)
		if (write_list(p.models, p.lists[i].put, p.lists[i].kind, p.lists[i].owner,
			       p.lists[i].member[0] ? p.lists[i].member : NULL, p.e) < 0)
			return -1;
	return 0;
}

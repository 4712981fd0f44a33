#include "supervisor/host/screen_history.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"

void screen_history_resize(struct screen_history *h, uint64_t offset, unsigned rows, unsigned cols)
{
	h->resizes = mem_realloc(h->resizes, (h->nresizes + 1) * sizeof(*h->resizes));
	h->resizes[h->nresizes++] = (struct screen_resize_fact){ .offset = offset, .rows = rows, .cols = cols };
}

void screen_history_done(struct screen_history *h)
{
	free(h->resizes);
	*h = (struct screen_history){ 0 };
}

static bool take_event(void *ctx, const struct event_view *ev)
{
	struct screen_history *h = ctx;
	struct jval payload, size;

	if (ev->type != EVENT_PROCESS_STARTED && ev->type != EVENT_PROCESS_INPUT)
		return true;
	payload = event_payload(ev);
	size = ev->type == EVENT_PROCESS_STARTED ? jval_get(payload, "tty") : payload;
	unsigned rows = (unsigned)jval_uint(jval_get(size, "rows"), 0),
		 cols = (unsigned)jval_uint(jval_get(size, "cols"), 0);
	if (!rows || !cols)
		return true;
	if (ev->type == EVENT_PROCESS_STARTED) {
		h->rows = rows;
		h->cols = cols;
	} else {
		screen_history_resize(h, jval_uint(jval_get(payload, "offset"), 0), rows, cols);
	}
	return true;
}

/* Of the process's document: whether it has a terminal, where its output is, and how it is now. */
static int take_document(struct screen_history *h, struct jval doc, struct err *e)
{
	struct jval tty = jval_get(doc, "tty"), output = jval_path(doc, "outputs.pty");
	char status[32];

	if (tty.type != JT_OBJECT)
		return err_because(e, ERR_STATE, REASON_NO_TERMINAL, "process '%s' has no terminal", h->process_id);
	jval_str(jval_get(doc, "status"), status, sizeof(status));
	h->ended = strcmp(status, "running") != 0 && strcmp(status, "starting") != 0;
	h->uid = (uint32_t)jval_uint(jval_get(doc, "uid"), 0);
	h->rows = (unsigned)jval_uint(jval_get(tty, "rows"), 24);
	h->cols = (unsigned)jval_uint(jval_get(tty, "cols"), 80);
	jval_str(jval_get(output, "outputRef"), h->output_ref, sizeof(h->output_ref));
	return 0;
}

static int take_output(struct store *s, struct screen_history *h, struct err *e)
{
	struct view_output_brief b;
	int r = h->output_ref[0] ? view_output_brief(s, VIEW_ANY_UID, h->output_ref, &b, e) : 1;

	if (r < 0)
		return -1;
	if (r > 0)
		return 0; /* it has printed nothing */
	if (b.expired)
		return err_set(e, ERR_EXPIRED, "output '%s' has expired", h->output_ref);
	h->uid = b.uid;
	h->bytes = b.bytes;
	h->omitted_from = b.omitted_from;
	h->omitted_to = b.omitted_to;
	return 0;
}

int screen_history_read(struct store *s, uint32_t viewer, const char *process_id, struct screen_history *ret,
			struct err *e)
{
	struct screen_history h = { 0 };
	buf_auto struct buf doc = BUF_INIT;
	const struct store_query q = { .index = ID_PROCESS, .id = process_id, .kept = true };

	snprintf(h.process_id, sizeof(h.process_id), "%s", process_id);
	if (view_process(s, viewer, process_id, &doc, e) < 0 ||
	    take_document(&h, jval_of(buf_cstr(&doc), doc.len), e) < 0 || take_output(s, &h, e) < 0 ||
	    store_events(s, &q, take_event, &h, e) < 0) {
		screen_history_done(&h);
		return -1;
	}
	*ret = h;
	return 0;
}

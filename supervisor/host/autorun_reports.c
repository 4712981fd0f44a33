#include "supervisor/host/autorun_reports.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/event/event.h"
#include "runtime/event/id.h"
#include "runtime/store/store.h"
#include "runtime/view/view_documents.h"
#include "sandbox/autorun_report.h"

static bool take_report_ref(void *ctx, const struct event_view *ev)
{
	if (ev->type != EVENT_SANDBOX_AUTORUN_CHANGED || event_from_client(ev))
		return true;
	jval_str(jval_get(event_payload(ev), "reportRef"), ctx, ID_TEXT_MAX);
	return false;
}

int autorun_report_read(struct store *store, const char *process_id, struct buf *ret, struct err *e)
{
	const struct store_query q = { .index = ID_PROCESS, .id = process_id, .kept = true };
	char ref[ID_TEXT_MAX] = "";

	if (store_events(store, &q, take_report_ref, ref, e) < 0)
		return -1;
	if (!ref[0])
		return 1;
	if (store_output_whole(store, ref, AUTORUN_REPORT_BYTES_MAX, ret, e) < 0)
		return -1;
	return autorun_report_check(ret->data, ret->len, e);
}

enum autorun_known autorun_report_known(struct store *store, const char *process_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct process_doc d;
	struct err e = ERR_INIT;

	if (view_read(store, &process_schema, process_id, &text, &d, &e) != 0 ||
	    jval_is_str(jval_get(d.autorun, "examined"), "none"))
		return AUTORUN_KNOWN_NONE;
	return jval_is_str(jval_get(d.autorun, "examined"), "part") ? AUTORUN_KNOWN_PART : AUTORUN_KNOWN_ALL;
}

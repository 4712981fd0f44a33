#include "supervisor/host/snapshot_facts.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/log.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"

/* `payload` is complete. A store without a system session is not running yet: nothing is written then. */
static void system_fact(struct store *s, enum event_type type, const struct buf *payload)
{
	char session[72], thread[72], turn[72];
	struct view_session_brief brief;
	struct err e = ERR_INIT;

	if (view_system_ids(s, session, thread, turn, &e) != 0 ||
	    view_session_brief(s, VIEW_ANY_UID, session, &brief, &e) != 0)
		return;
	struct event_draft d = {
		.type = type, .uid = brief.uid, .payload = payload->data, .payload_len = payload->len
	};
	d.ids[ID_SESSION] = session;
	d.ids[ID_THREAD] = thread;
	struct store_batch *b = store_batch_new(s);
	if (store_batch_event(b, &d, &e) < 0) {
		log_error("%s: %s", event_info(type)->name, e.message);
		store_batch_free(b);
		return;
	}
	store_submit(s, b, STORE_MUST, NULL, NULL);
}

void snapshot_fact_stored(struct store *s, uint64_t at_sequence)
{
	buf_auto struct buf payload = BUF_INIT;
	struct jw w = jw_on(&payload);

	jw_obj(&w);
	jw_kstr(&w, "kind", "read_models");
	jw_kuint(&w, "atSequence", at_sequence);
	jw_kstr(&w, "recoveryMode", "snapshot_then_log");
	jw_obj_end(&w);
	system_fact(s, EVENT_SNAPSHOT_UPDATED, &payload);
}

void snapshot_fact_repaired(struct store *s, const struct store_verdict *v)
{
	buf_auto struct buf payload = BUF_INIT;
	struct jw w = jw_on(&payload);

	jw_obj(&w);
	jw_kstr(&w, "kind", "read_models");
	jw_karr(&w, "stale");
	for (size_t i = 0; i < v->nproblems && i < sizeof v->problems / sizeof v->problems[0]; i++)
		jw_str(&w, v->problems[i].what);
	jw_arr_end(&w);
	jw_obj_end(&w);
	system_fact(s, EVENT_SNAPSHOT_REPAIRED, &payload);
}

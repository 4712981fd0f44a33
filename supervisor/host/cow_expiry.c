#include "supervisor/host/cow_changes.h"

#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/engine/process/change_facts.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"
#include "runtime/view/view_sandbox.h"

#include <string.h>

/* Drops checkpoints whose sandbox has been removed since the last call. */
static void expire_checkpoints(struct cow_changes *c)
{
	struct buf known = BUF_INIT;
	struct err e = ERR_INIT;

	if (view_checkpoints(c->store, cow_changes_add_id, &known, &e) < 0) {
		log_error("expire checkpoints: %s", e.message);
		buf_done(&known);
		return;
	}
	for (size_t at = 0; at < c->checkpoints.len; at += strlen(c->checkpoints.data + at) + 1) {
		const char *id = c->checkpoints.data + at;

		if (!change_list_names(known.data, known.len, id, strlen(id)))
			cow_changes_drop(c, id);
	}
	buf_done(&c->checkpoints);
	c->checkpoints = known;
}

/* Recorded as a list without entries: nothing is left to apply or discard. */
static bool expire_one(void *ctx, const char *process_id)
{
	struct cow_changes *c = ctx;
	struct changes_facts f = { .process_id = process_id, .source = "retention" };
	struct view_process_brief brief;
	buf_auto struct buf none = BUF_INIT;
	struct err e = ERR_INIT;

	if (view_process_brief(c->store, VIEW_ANY_UID, process_id, &brief, &e) != 0)
		return true;
	change_list_begin(&none);
	change_list_end(&none);
	f.process = &brief;
	f.list = none.data;
	changes_record(c->engine, &f, NULL, NULL);
	cow_changes_drop(c, process_id);
	return true;
}

void cow_changes_expire(struct cow_changes *c, uint64_t floor)
{
	struct err e = ERR_INIT;

	expire_checkpoints(c);
	if (floor && view_cow_processes(c->store, floor, expire_one, c, &e) < 0)
		log_error("expire changes: %s", e.message);
}

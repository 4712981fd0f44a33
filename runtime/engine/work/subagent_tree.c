/* Closes subagents with everything below them, and recovers them after a restart. */

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/work/subagent.h"
#include "runtime/engine/work/subagent_private.h"
#include "runtime/engine/work/subagent_wait.h"
#include "runtime/view/view.h"

#include <signal.h>

/* ---- close_subagent ---- */

static void end_process(struct engine *g, const char *id)
{
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc d;

	if (!subagent_doc_of(g, id, &text, &d))
		return;
	struct process *p = d.processId[0] ? engine_process(g, d.processId) : NULL;
	if (p)
		process_enforce_end(p, PROCESS_END_USER, &p->by, SIGTERM, g->o.stop_grace_ms, "parent_cancelled");
}

static void close_tree(struct engine *g, struct transaction *tx, const struct subagent_doc *doc, const char *reason,
		       unsigned depth);

/* Ids collected from an index before anything is changed. */
struct children {
	char (*ids)[ID_SIZE];
	size_t count;
};

static bool add_child(void *ctx, const char *key, size_t key_len, const char *json, size_t len)
{
	const char *slash = memchr(key, '/', key_len);
	struct children *k = ctx;

	if (slash) {
		k->ids = mem_realloc(k->ids, (k->count + 1) * ID_SIZE);
		snprintf(k->ids[k->count++], ID_SIZE, "%.*s", (int)(key + key_len - slash - 1), slash + 1);
	}
	return k->count < 1000;
}

static void list_below(struct engine *g, enum view_kind kind, const char *owner, struct children *ret)
{
	mem_auto char *prefix = mem_printf("%s/", owner);
	struct err e = ERR_INIT;

	if (store_model_scan_speculative(g->o.store, kind, prefix, add_child, ret, &e) < 0)
		log_error("list subagents: %s", e.message);
}

static void close_below(struct engine *g, struct transaction *tx, enum view_kind kind, const char *owner,
			const char *reason, unsigned depth)
{
	struct children k = { 0 };

	list_below(g, kind, owner, &k);
	for (size_t i = 0; i < k.count; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct subagent_doc child;

		if (subagent_doc_of(g, k.ids[i], &text, &child) && !subagent_doc_ended(&child) && !child.closing)
			close_tree(g, tx, &child, reason, depth + 1);
	}
	free(k.ids);
}

/* Records the intent first. Processes are asked to end after the commit, and subagent.closed follows their end. */
static void close_tree(struct engine *g, struct transaction *tx, const struct subagent_doc *doc, const char *reason,
		       unsigned depth)
{
	struct process *p = doc->processId[0] ? engine_process(g, doc->processId) : NULL;

	/* Bounds the recursion. */
	if (depth < 16)
		close_below(g, tx, VIEW_THREAD_SUBAGENT, doc->threadId, "its parent was closed", depth);
	if (p) {
		subagent_status_fact(g, tx, doc, doc->status, reason, false, true, p->id, tx->caller.request_id);
		subagent_end_after(g, doc->subagentId);
	} else {
		subagent_closed_fact(tx, doc, reason, tx->caller.request_id);
		subagent_answer_after(g, doc->subagentId);
	}
}

static void after_closing(struct engine *g, const char *id) { subagent_run_after(g, end_process); }

void engine_close_subagent(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn,
			   void *ctx)
{
	const char *id = subagent_str(params, "subagentId"), *reason = subagent_str(params, "reason");
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc doc;
	struct err e = ERR_INIT;

	if (subagent_load(g, id, c, &text, &doc, &e) < 0 || subagent_text(params, "reason", 200, &e) < 0) {
		transaction_reject(tx, &e);
		return;
	}
	if (strcmp(doc.status, "closed") == 0 || doc.closing) {
		err_set(&e, ERR_STATE, "subagent '%.64s' is %s already", id, doc.closing ? "being closed" : "closed");
		transaction_reject(tx, &e);
		return;
	}
	/* It has no process to end, but its children may still run. */
	if (subagent_doc_ended(&doc)) {
		subagent_closed_fact(tx, &doc, reason ? reason : "closed", c->request_id);
		close_below(g, tx, VIEW_THREAD_SUBAGENT, doc.threadId, "its parent was closed", 0);
	} else {
		close_tree(g, tx, &doc, reason ? reason : "closed", 0);
	}
	transaction_after_commit(tx, after_closing, id);
	jw_kstr(&tx->w, "subagentId", id);
	jw_kstr(&tx->w, "status", doc.processId[0] && engine_process(g, doc.processId) ? "closing" : "closed");
	transaction_commit(tx);
}

/* ---- for tasks above them ---- */

bool task_subagents_open(struct engine *g, const char *task_id)
{
	struct children k = { 0 };
	bool open = false;

	list_below(g, VIEW_TASK_SUBAGENT, task_id, &k);
	for (size_t i = 0; i < k.count && !open; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct subagent_doc doc;

		/* A subagent that is being closed is still open: its process has to end first. */
		open = subagent_doc_of(g, k.ids[i], &text, &doc) && !subagent_doc_ended(&doc);
	}
	free(k.ids);
	return open;
}

void task_subagents_end(struct engine *g, const char *task_id, const char *reason)
{
	struct transaction *tx = transaction_new_internal(g);

	close_below(g, tx, VIEW_TASK_SUBAGENT, task_id, reason, 0);
	transaction_after_commit(tx, after_closing, task_id);
	transaction_commit(tx);
}

/* Finds starts that were recorded and never became a process. Processes have their own recovery. */
static bool recover_one(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct children *k = ctx;

	k->ids = mem_realloc(k->ids, (k->count + 1) * ID_SIZE);
	snprintf(k->ids[k->count++], ID_SIZE, "%.*s", (int)id_len, id);
	return true;
}

void subagent_recover(struct engine *g)
{
	struct children k = { 0 };
	struct err e = ERR_INIT;

	if (store_model_scan_speculative(g->o.store, VIEW_LIVE_SUBAGENT, NULL, recover_one, &k, &e) < 0)
		log_error("recover subagents: %s", e.message);
	for (size_t i = 0; i < k.count; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct subagent_doc doc;

		if (!subagent_doc_of(g, k.ids[i], &text, &doc) || !doc.supervised)
			continue;
		/* A close that was recorded before the restart is carried out now. */
		if (doc.processId[0] && engine_process(g, doc.processId)) {
			if (doc.closing)
				end_process(g, k.ids[i]);
			continue;
		}
		if (strcmp(doc.status, "accepted") != 0 || doc.closing)
			continue;
		if (doc.inputs != VIEW_ABSENT) {
			/*
			 * Its first input was only in memory and is lost with the old runtime. Do not start it
			 * without the input.
			 */
			struct err lost = ERR_INIT;

			err_set(&lost, ERR_UNAVAILABLE,
				"the runtime was restarted before it began, and its input was lost: resume it with the "
				"input");
			subagent_refused(g, k.ids[i], &lost, NULL, 0);
		} else {
			subagent_launch(g, k.ids[i]);
		}
	}
	free(k.ids);
}

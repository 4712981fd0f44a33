/* Turns and queues after a restart. */

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/session/session.h"
#include "runtime/engine/session/session_scope.h"
#include "runtime/engine/turn/turn.h"
#include "runtime/engine/turn/turn_hooks.h"

struct thread_list {
	char (*ids)[ID_SIZE];
	size_t count, cap;
};

static bool add_thread(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct thread_list *l = ctx;

	if (l->count == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 64;
		l->ids = mem_realloc(l->ids, l->cap * sizeof l->ids[0]);
	}
	if (id_len < ID_SIZE) {
		memcpy(l->ids[l->count], id, id_len);
		l->ids[l->count++][id_len] = '\0';
	}
	return true;
}

static void list_kind(struct engine *g, enum view_kind kind, struct thread_list *ret)
{
	struct err e = ERR_INIT;

	*ret = (struct thread_list){ 0 };
	if (store_model_scan_speculative(g->o.store, (uint8_t)kind, NULL, add_thread, ret, &e) < 0)
		log_error("recover: %s", e.message);
}

/*
 * True if the runtime itself continues the turn: some of its work runs, or its next part starts now. A turn with a
 * part that failed, was lost or ended with the daemon is about to end. Whether a client still drives its turn cannot
 * be known.
 */
static bool proved_alive(struct engine *g, const struct turn_doc *t)
{
	bool failed = t->partsFailed != VIEW_ABSENT && t->partsFailed;

	return !turn_driven_by_client(t) && t->ending.type != JT_OBJECT && (turn_busy(g, t) || !failed);
}

static void recover_queue(struct engine *g, const char *thread_id)
{
	char active[ID_SIZE] = "";
	buf_auto struct buf text = BUF_INIT;
	struct turn_queue q;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (turn_queue_read(g, thread_id, &q, &e) < 0 || !q.count || q.held)
		return;
	int busy = thread_busy(g, thread_id, active, &e);
	if (busy > 0 && turn_read(g, active, &text, &t, &e) == 0 && proved_alive(g, &t))
		return;
	/* Nothing proves that the thread continues: hold the queue until a client resumes it. */
	struct transaction *tx = transaction_new_internal(g);
	q.held = true;
	turn_queue_fact(&q, "held", NULL, NULL, tx);
	if (!busy)
		thread_status_fact(g, q.uid, q.session_id, thread_id, "queued", "queue_held", tx);
	transaction_commit(tx);
}

void turn_recover(struct engine *g)
{
	struct thread_list l;

	list_kind(g, VIEW_QUEUE, &l);
	for (size_t i = 0; i < l.count; i++)
		recover_queue(g, l.ids[i]);
	free(l.ids);
	list_kind(g, VIEW_LIVE_TURN, &l);
	/* Clients get a grace period to take over their turns. Decided ends are carried out; other turns continue. */
	for (size_t i = 0; i < l.count; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct turn_doc t;
		struct err e = ERR_INIT;

		if (turn_read(g, l.ids[i], &text, &t, &e) == 0)
			turn_owner_seen(g, &t, 0, NULL);
		turn_stop_decided(g, l.ids[i]);
	}
	free(l.ids);
}

void turn_list_queued(struct engine *g, struct jw *w)
{
	struct thread_list l;
	struct turn_queue q;
	struct err e = ERR_INIT;
	size_t shown = 0;

	list_kind(g, VIEW_QUEUE, &l);
	for (size_t i = 0; i < l.count; i++)
		if (turn_queue_read(g, l.ids[i], &q, &e) == 0)
			for (size_t k = 0; k < q.count && shown++ < 200; k++)
				jw_str(w, q.ids[k]);
	free(l.ids);
}

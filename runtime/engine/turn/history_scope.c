/* Finds the part of a thread's past that a request refers to, and the turn that its facts belong to. */

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/engine/turn/history_private.h"
#include "runtime/view/view.h"

static bool add_turn(void *ctx, const char *key, size_t key_len, const char *json, size_t len)
{
	const char *slash = memrchr(key, '/', key_len);
	struct history_turns *t = ctx;

	if (!slash)
		return true;
	if (t->count == t->room) {
		t->room = t->room ? 2 * t->room : 64;
		t->ids = mem_realloc(t->ids, t->room * sizeof t->ids[0]);
	}
	snprintf(t->ids[t->count++], ID_SIZE, "%.*s", (int)(key + key_len - slash - 1), slash + 1);
	return true;
}

void history_turns_of(struct engine *g, const char *thread_id, struct history_turns *ret)
{
	mem_auto char *prefix = mem_printf("%s/", thread_id);
	struct err e = ERR_INIT;

	*ret = (struct history_turns){ 0 };
	if (store_model_scan_speculative(g->o.store, VIEW_THREAD_TURN, prefix, add_turn, ret, &e) < 0)
		log_error("list turns: %s", e.message);
	/* The system turn only carries facts: it is not part of the past, and it never ends. */
	size_t kept = 0;
	for (size_t i = 0; i < ret->count; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct turn_doc d;

		if (view_read_speculative(g->o.store, &turn_schema, ret->ids[i], &text, &d, &e) == 0 &&
		    !jval_is_str(d.source, "system"))
			memmove(ret->ids[kept++], ret->ids[i], ID_SIZE);
	}
	ret->count = kept;
}

void history_turns_done(struct history_turns *t) { free(t->ids); }

int history_scope_of(struct engine *g, const json_t *params, const struct caller *c, struct history_scope *ret,
		     struct err *e)
{
	const char *session = json_string_value(json_object_get(params, "sessionId")),
		   *thread = json_string_value(json_object_get(params, "threadId"));
	struct history_scope s = { 0 };
	struct view_thread_brief t;
	struct view_session_brief b;
	struct history_turns turns;
	int r = view_thread_brief(g->o.store, c->uid, thread, &t, e);

	if (r != 0 || (session && strcmp(session, t.session_id) != 0)) {
		if (r >= 0)
			err_set(e, ERR_NOT_FOUND, "threadId '%.64s' is not known%s", thread,
				session ? " in this session" : "");
		snprintf(e->field, sizeof e->field, "threadId");
		return -1;
	}
	s.uid = t.uid;
	id_copy(s.session_id, t.session_id);
	id_copy(s.thread_id, thread);
	id_copy(s.active_turn, t.active_turn);
	id_copy(s.fact_thread, thread);
	history_turns_of(g, thread, &turns);
	if (turns.count) {
		id_copy(s.fact_turn, turns.ids[turns.count - 1]);
	} else if (view_session_brief(g->o.store, c->uid, t.session_id, &b, e) == 0) {
		id_copy(s.fact_thread, b.first_thread);
		s.makes_turn = !b.system_turn[0];
		if (s.makes_turn)
			id_make(ID_KIND_TURN, s.fact_turn);
		else
			id_copy(s.fact_turn, b.system_turn);
	}
	history_turns_done(&turns);
	*ret = s;
	return 0;
}

int history_turn_fact(struct engine *g, struct transaction *tx, const struct history_scope *s)
{
	const struct scope of = {
		.uid = s->uid, .session = s->session_id, .thread = s->fact_thread, .turn = s->fact_turn
	};

	return s->makes_turn ? EMIT(turn_submitted, tx, of, .envelope.status = "accepted", .source = "system",
				    .status = "accepted")
			     : 0;
}

/*
 * session_start: runs the hooks of a new session. Their output becomes context of its turns. create_session waits for
 * them.
 */

#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/hook/hook.h"
#include "runtime/engine/policy/policy_lookup.h"
#include "runtime/engine/session/session.h"

size_t hook_select(struct engine *engine, const struct policy_hooks *hooks, enum hook_point point, const char *name,
		   const struct policy_hook *list[HOOKS_SELECTED_MAX])
{
	const struct hook_query q = { .point = point, .name = &name, .nnames = name ? 1 : 0 };

	return engine->stopping ? 0 : policy_hooks_select(hooks, &q, list);
}

struct session_begun {
	struct requester by;
	uint32_t uid;
	char session_id[ID_SIZE];
	char *cwd;
	void (*then)(void *ctx);
	void *ctx;
};

static void session_over(void *ctx)
{
	struct session_begun *w = ctx;

	if (w->then)
		w->then(w->ctx);
	free(w->cwd);
	free(w);
}

static void on_hooks_ended(struct hook_group *group, void *ctx) { session_over(ctx); }

static void session_known(struct engine *engine, const struct policy_hooks *hooks, const struct err *why, void *ctx)
{
	const struct policy_hook *list[HOOKS_SELECTED_MAX];
	struct session_begun *w = ctx;
	size_t n = hook_select(engine, hooks, HOOK_SESSION_START, "startup", list);
	struct transaction *tx = n ? transaction_new_internal(engine) : NULL;
	char thread[ID_SIZE], turn[ID_SIZE];
	struct err e = ERR_INIT;

	/* A session never fails because of its hooks: they only observe. */
	if (!n || session_system_turn(engine, tx, w->uid, w->session_id, thread, turn, &e) < 0) {
		transaction_free(tx);
		session_over(w);
		return;
	}
	struct hook_subject s = { .point = HOOK_SESSION_START,
				  .uid = w->uid,
				  .by = w->by,
				  .session_id = w->session_id,
				  .thread_id = thread,
				  .turn_id = turn,
				  .cwd = w->cwd ? w->cwd : HOOK_NOWHERE };
	json_t *v = hook_input(&s, (int)permission_mode_of(engine, w->session_id));
	json_object_set_new(v, "source", json_string("startup"));
	mem_auto char *input = hook_input_text(v);
	s.input = input;
	struct hook_group *group = hook_group_new(engine, &s, list, n, tx);
	group->drop = session_over;
	transaction_commit(tx);
	hook_group_run(group, on_hooks_ended, w);
}

void hook_on_session_created(struct engine *engine, const struct session_created_notice *s)
{
	struct session_begun *w = mem_zalloc(1, sizeof *w);

	*w = (struct session_begun){
		.by = *s->by, .uid = s->uid, .cwd = mem_strdup(s->cwd), .then = s->then, .ctx = s->ctx
	};
	id_copy(w->session_id, s->session_id);
	hooks_wait(engine, s->cwd, s->by, session_known, w);
}

/*
 * Mode on_failure: a command that failed after a violation may be run again with exactly the access that was blocked.
 * The action lists what would be opened. If an operator approves, a new process starts, and its events name the
 * action that allowed it.
 */

#include "runtime/engine/permission/permission.h"

#include "policy/rules.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/action/action.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/ref.h"
#include "runtime/engine/permission/permission_private.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/process/start_record.h"

#include <sys/wait.h>

/* The command itself failed: not ended by a limit, a request or the daemon. */
static bool has_failed(const struct process *p)
{
	return p->has_last && p->last.kind == STATUS_EXITED && p->end == PROCESS_END_NONE &&
	       !(WIFEXITED(p->last.wait_status) && WEXITSTATUS(p->last.wait_status) == 0);
}

static void write_continuation(const struct process *p, const char *ref, const struct buf *open, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kstr(&w, "startRef", ref);
	jw_kraw(&w, "open", open->data, open->len);
	json_value_member(&w, "by", json_requester(&p->by));
	jw_obj_end(&w);
}

void permission_offer_retry(struct process *p)
{
	struct engine *engine = p->engine;
	const struct ref_owner owner = process_ref_owner(p, "application/json");
	buf_auto struct buf open = BUF_INIT, next = BUF_INIT, prompt = BUF_INIT, display = BUF_INIT;
	char ref[ID_TEXT_MAX], action[ID_SIZE];
	struct err e = ERR_INIT;

	/* Only a start in mode on_failure without an owner has a record (process_launch). */
	if (!p->record || engine->stopping || !has_failed(p) || !process_violations_open(p, &open))
		return;
	struct transaction *tx = transaction_new_internal(engine);
	ref_store(tx, &owner, p->record, strlen(p->record), ref);
	write_continuation(p, ref, &open, &next);
	mem_auto char *what = mem_printf("%s%s%s", p->exec_overrides ? p->exec_overrides : "",
					 p->exec_overrides ? " " : "", p->display);
	buf_printf(&prompt, "run again with more than its sandbox gave it: %s; opened would be%s %s", what,
		   process_violations_guessed(p) ? " (partly guessed from its output)" : "", open.data);
	buf_printf(&display, "%s for %s", open.data, what); /* what would be opened is the question */
	const struct action_spec s = {
		.kind = ACTION_KIND_RETRY,
		.uid = p->uid,
		.session_id = p->session_id,
		.process_id = p->id,
		.action_type = "permission",
		.prompt = buf_cstr(&prompt),
		.display = buf_cstr(&display),
		.cwd = p->cwd,
		.profile = p->profile,
		.scope_json = open.data,
		.continuation_json = next.data,
		.timeout_ms = engine->o.ask_ms,
		.by = p->by,
	};
	if (action_open(engine, &s, tx, action, &e) < 0) {
		log_error("offer to run %s again: %s", p->id, e.message);
		err_set(&e, ERR_UNAVAILABLE, "offer to run %s again", p->id);
		transaction_reject(tx, &e);
		return;
	}
	transaction_commit(tx);
}

/* ---- the answer ---- */

/*
 * Adds the blocked paths and hosts to the recorded start. The new process gets its own ids and does not depend on the
 * connection, which may be closed by now.
 */
static void widen_sandbox(json_t *start, const json_t *open)
{
	static const char *const lists[] = { "readRoots", "writeRoots", "allowHosts" };
	json_t *sandbox = json_object_get(start, "sandbox");

	for (size_t i = 0; i < countof(lists); i++) {
		json_t *have = json_object_get(sandbox, lists[i]), *more = json_object_get(open, lists[i]);

		if (!have)
			json_object_set_new(sandbox, lists[i], json_array());
		if (json_array_size(more))
			json_array_extend(json_object_get(sandbox, lists[i]), more);
	}
	/* Without a network there is no proxy that could allow a host. */
	if (json_array_size(json_object_get(open, "allowHosts")))
		json_object_set_new(sandbox, "network", json_string("allow"));
	json_object_del(start, "processId");
	json_object_del(start, "stepId");
	json_object_set_new(start, "onDisconnect", json_string("keep"));
}

static void on_started(void *ctx, const struct err *e, const char *json, size_t len)
{
	if (e)
		log_warning("a process that was to run again: %s", e->message);
}

static void start_again(struct engine *engine, const struct action_doc *a, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	start_record_auto struct start_record record = { 0 };
	struct jval by = jval_get(a->continuation, "by"), open = jval_get(a->continuation, "open");
	char ref[ID_SIZE] = "";

	jval_str(jval_get(a->continuation, "startRef"), ref, sizeof ref);
	if (store_output_whole(engine->o.store, ref, START_RECORD_MAX, &text, e) < 0)
		return;
	json_auto_t *start = json_loadb(buf_cstr(&text), text.len, 0, NULL),
		    *more = json_loadb(open.text, open.len, 0, NULL);
	if (!start || !more) {
		err_set(e, ERR_CORRUPT, "the recorded start request is unreadable");
		return;
	}
	widen_sandbox(start, more);
	mem_auto char *wider = json_dumps(start, JSON_COMPACT),
		      *why = mem_printf("%s again, as %s allowed", a->processId, a->actionId);
	if (start_record_read(engine, wider, strlen(wider), &record, e) < 0)
		return;
	/* An operator approved it, so it may get more than an agent could request. */
	const uint32_t uid = (uint32_t)jval_uint(jval_get(by, "uid"), a->uid);
	const struct caller c = { .uid = uid,
				  .pid = (int32_t)jval_int(jval_get(by, "pid"), 0),
				  .role = ROLE_OPERATOR,
				  .peer_fd = engine->o.ports->find_peer(engine->o.host, uid) };
	/* A new process in the same session: the failed one keeps its events, and its turn has ended. */
	record.spec.request.session_id = a->sessionId;
	record.spec.request.justification = why;
	if (c.peer_fd < 0)
		err_set(e, ERR_UNAVAILABLE, "no client of uid %u has connected since the daemon began", uid);
	else
		process_start(engine, &record.spec.request, &c, on_started, NULL);
}

static void retry_over(struct engine *engine, const char *action_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct action_doc a;
	struct err e = ERR_INIT;

	if (action_read(engine, action_id, &text, &a, &e) != 0 || strcmp(a.status, "resolved") != 0 ||
	    strncmp(a.decision, "allow", 5) != 0)
		return;
	start_again(engine, &a, &e);
	if (e.code)
		engine_warn(engine, "retry_failed", "start it again yourself", "%s was allowed to run again, but: %s",
			    a.processId, e.message);
}

const struct action_kind_ops permission_retry_ops = { .persist = permission_persist,
						      .is_persisting = permission_is_persisting,
						      .resolved = permission_resolved,
						      .over = retry_over };

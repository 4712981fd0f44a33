/*
 * Items. The start of an attempt is durable, with the id of its process, before the process is launched. Its end is
 * written in the same commit as the process's end. So after a crash an item is running, or has ended, or has
 * certainly not run and is launched again. Output belongs to its attempt: a retry replaces it.
 */

#include "runtime/engine/core/ref.h"
#include "runtime/engine/process/start_spec.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/engine/work/agent_turn.h"
#include "runtime/engine/work/job_private.h"
#include "runtime/view/view_documents.h"

#define STARTS_MOST 64u /* items started in one commit */
#define RESOURCE_MS 1000u

/* ---- starting ---- */

int job_item_read(struct engine *engine, const char *job_id, const char *item_id, struct buf *text,
		  struct job_item_doc *ret, struct err *e)
{
	char key[VIEW_JOB_ITEM_KEY_MAX];

	view_job_item_key(job_id, item_id, key);
	return view_read_speculative(engine->o.store, &job_item_schema, key, text, ret, e);
}

/* Without a process or a turn a client works on the item. */
static void started_fact(const struct job *j, struct transaction *tx, const struct caller *c, const char *item,
			 uint64_t index, uint64_t attempt, const char *process, const char *turn)
{
	struct scope s = job_scope(&j->d, c);
	bool client = !process && !turn && c;

	s.job_item = item;
	s.process = process;
	EMIT(job_item_started, tx, s, .envelope.status = "running", .attempt = attempt, .index = opt_int(index),
	     .assigned = JSON_OBJECT(worker,
				     .kind = process ? "supervisor"
					     : turn  ? "agent"
						     : "client",
				     .processId = process, .turnId = turn,
				     .uid = opt_int_if(client, client ? c->uid : 0),
				     .pid = opt_int_if(client && c->pid > 0, client ? c->pid : 0)));
}

/* Once for each period in which the job runs: an item that is retried starts an ended job again. */
static int job_started(const struct job *j, struct transaction *tx, const struct caller *c, struct err *e)
{
	uint64_t paused_ms;

	if (j->d.startedAt && strcmp(j->d.status, "running") == 0)
		return 0;
	if (view_task_paused_ms(tx->engine->o.store, j->d.taskId, engine_real(tx->engine), &paused_ms, e) < 0)
		return -1;
	EMIT(job_started, tx, job_scope(&j->d, c), .envelope.status = "running",
	     .taskPausedMs = opt_int_if(paused_ms, paused_ms));
	return 0;
}

int job_item_claimed(const struct job *j, struct job_item_doc *d, struct transaction *tx, const struct caller *c,
		     struct err *e)
{
	if (job_started(j, tx, c, e) < 0)
		return -1;
	started_fact(j, tx, c, d->itemId, d->index, ++d->attemptCount, NULL, NULL);
	return 0;
}

/*
 * Items to start again, from an index with keys job/due/item: sorted by time, so the scan stops at the first that is
 * not due.
 */
struct again {
	uint64_t now, due;
	char id[STARTS_MOST][ID_SIZE];
	size_t n, most;
};

static bool collect_retry(void *ctx, const char *key, size_t len, const char *json, size_t json_len)
{
	struct again *a = ctx;
	const char *last = memrchr(key, '/', len), *due = last ? memrchr(key, '/', (size_t)(last - key)) : NULL;

	if (!due)
		return true;
	uint64_t at = strtoull(due + 1, NULL, 10);
	if (at > a->now || a->n == a->most) {
		a->due = at;
		return false;
	}
	snprintf(a->id[a->n++], ID_SIZE, "%.*s", (int)(len - (size_t)(last + 1 - key)), last + 1);
	return true;
}

static void find_retries(struct engine *engine, const char *job_id, struct again *ret)
{
	struct err e = ERR_INIT;
	char prefix[ID_SIZE + 1];

	ret->due = UINT64_MAX;
	snprintf(prefix, sizeof prefix, "%s/", job_id);
	if (store_model_scan_speculative(engine->o.store, VIEW_JOB_AGAIN, prefix, collect_retry, ret, &e) < 0)
		log_error("list the items of job %s: %s", job_id, e.message);
}

uint64_t job_next_due(struct engine *engine, const char *job_id)
{
	struct again a = { .now = 0, .most = 0 };

	find_retries(engine, job_id, &a);
	return a.due;
}

/*
 * No item starts or is launched while the daemon stops, the job is being ended, or its task is paused, being cancelled
 * or ended, or cannot be read.
 */
static bool may_run(struct engine *engine, const struct job *j)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	if (engine->stopping || job_doc_ended(&j->d) || strcmp(j->d.status, "cancelling") == 0)
		return false;
	int r = j->d.taskId[0] ? task_read(engine, j->d.taskId, &t, &e) : 1;
	if (r < 0) {
		log_error("start items of job %s: %s", j->d.jobId, e.message);
		job_wake(engine, engine_real(engine) + JOB_UNREADABLE_US);
	}
	if (r != 0)
		return r > 0;
	return t.status != TASK_PAUSED && t.status != TASK_CANCELLING && !task_status_ended(t.status);
}

/* The items that are started together. The transaction is created with the first of them; no slots if that fails. */
struct round {
	const struct job *job;
	struct transaction *transaction;
	size_t slots, begun;
	bool agent; /* the template is an agent's prompt */
};

/* The process or turn gets its id here, so that a restart can tell whether it was ever launched. */
static void round_begin(struct engine *engine, struct round *r, const char *item, uint64_t index, uint64_t attempt,
			bool own_command)
{
	const bool agent = r->agent && !own_command;
	struct err e = ERR_INIT;
	char id[ID_TEXT_MAX];

	if (!r->transaction) {
		struct transaction *tx = transaction_new_internal(engine);

		if (job_started(r->job, tx, NULL, &e) < 0) {
			transaction_free(tx);
			log_error("start items of job %s: %s", r->job->d.jobId, e.message);
			job_wake(engine, engine_real(engine) + JOB_UNREADABLE_US);
			r->slots = 0;
			return;
		}
		r->transaction = tx;
	}
	id_make(agent ? ID_KIND_TURN : ID_KIND_PROCESS, id);
	started_fact(r->job, r->transaction, NULL, item, index, attempt, agent ? NULL : id, agent ? id : NULL);
	r->begun++;
}

/* Starts items that were never started, from the cursor on. */
static void begin_fresh(struct engine *engine, struct round *r)
{
	const struct job *j = r->job;
	uint64_t index = j->d.cursor;
	struct err e = ERR_INIT;

	while (index < j->d.supervisedTo && r->begun < r->slots) {
		buf_auto struct buf piece = BUF_INIT;
		uint64_t at = index / VIEW_JOB_PIECE * VIEW_JOB_PIECE, from = index;
		if (view_job_piece(engine->o.store, &j->d, index / VIEW_JOB_PIECE, &piece, &e) < 0)
			return log_error("%s", e.message);
		for (struct jiter it = jiter_on(jval_of(piece.data, piece.len)); r->begun < r->slots && jiter_next(&it);
		     at++) {
			char id[ID_SIZE];
			if (at < from)
				continue;
			index = at + 1;
			bool own = jval_get(it.value, "command").type == JT_ARRAY ||
				   jval_get(it.value, "commandLine").type == JT_STRING;
			if (!own && !j->d.hasTemplate)
				continue;
			jval_str(jval_get(it.value, "itemId"), id, sizeof id);
			round_begin(engine, r, id, at, 1, own);
		}
		if (index == from)
			break;
	}
}

void job_dispatch(struct engine *engine, const char *job_id)
{
	job_auto struct job j = JOB_INIT;
	struct err e = ERR_INIT;

	if (job_read(engine, job_id, &j, &e) != 0 || !may_run(engine, &j) || j.d.running >= j.d.maxParallel)
		return;
	uint64_t slots = j.d.maxParallel - j.d.running;
	json_auto_t *template = j.d.hasTemplate ? command_read(engine, j.d.command, j.d.commandRef, &e) : NULL;
	struct round r = { .job = &j,
			   .agent = json_object_get(template, "agent") != NULL,
			   .slots = slots < STARTS_MOST ? (size_t)slots : STARTS_MOST };
	/* Due retries come before items that were never started. */
	struct again a = { .now = engine_real(engine), .most = r.slots };
	find_retries(engine, job_id, &a);
	for (size_t i = 0; i < a.n && r.begun < r.slots; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct job_item_doc d;
		if (job_item_read(engine, job_id, a.id[i], &text, &d, &e) != 0)
			continue;
		json_auto_t *given = job_item_given(engine, &j, d.index, &e);
		if (given && job_item_supervised(&j, given)) /* otherwise a client will claim it */
			round_begin(engine, &r, a.id[i], d.index, d.attemptCount + 1,
				    json_object_get(given, "command") || json_object_get(given, "commandLine"));
	}
	if (a.due != UINT64_MAX && a.due > a.now)
		job_wake(engine, a.due);
	begin_fresh(engine, &r);
	if (!r.transaction)
		return;
	transaction_after_commit(r.transaction, job_launch, job_id);
	transaction_commit(r.transaction);
	if (j.d.maxRuntimeMs != VIEW_ABSENT)
		job_wake(engine, task_after_ms(j.d.startedAt ? j.d.startedAt : engine_real(engine), j.d.maxRuntimeMs));
	/* A full round may have left room for more: continue in another commit. */
	if (r.begun == STARTS_MOST)
		job_dispatch(engine, job_id);
}

/* ---- the end of an attempt ---- */

/* The process of an item has a turn of its own. */
struct scope job_item_scope(const struct job *j, const struct caller *c, const char *item, const struct process *p)
{
	struct scope s = job_scope(&j->d, c);

	s.job_item = item;
	if (p) {
		s.process = p->id;
		s.thread = p->thread_id;
		s.turn = p->turn_id;
	}
	return s;
}

static struct json_value output_refs(const struct process *p, const json_t *refs)
{
	return p ? json_stream_names(p) : refs ? json_from_tree(refs) : JSON_EMPTY_ARRAY;
}

void job_item_failed(struct engine *engine, const struct job *j, const struct job_item_doc *d, struct transaction *tx,
		     const struct caller *c, const struct attempt_end *end)
{
	const bool again = strcmp(j->d.status, "cancelling") != 0 &&
			   retry_is_granted(j->d.retryPolicy, d->attemptCount, end);
	const uint64_t wait_ms = again ? retry_backoff_ms(j->d.retryPolicy, d->attemptCount) : 0,
		       due = again ? engine_real(engine) + wait_ms * 1000 : 0;

	EMIT(job_item_failed, tx, job_item_scope(j, c, d->itemId, end->process),
	     .envelope = { .status = end->status, .status_reason = end->message }, .attempt = opt_int(d->attemptCount),
	     .index = opt_int(d->index), .status = end->status,
	     .lastError = JSON_OBJECT(last_error, .category = end->category, .message = end->message,
				      .limit = end->limit, .exitCode = opt_int_if(end->exit_code >= 0, end->exit_code)),
	     .retryable = opt_bool(end->may_retry), .again = again, .dueAt = due,
	     .outputRefs = output_refs(end->process, end->output_refs));
	if (again)
		job_wake(engine, due);
	/* An item that is retried counts as neither running nor failed. */
	job_progress_fact(engine, j, tx, "running", again ? "" : "failed", false);
}

void job_item_completed(const struct job *j, const struct job_item_doc *d, struct transaction *tx,
			const struct caller *c, const struct job_item_result *r)
{
	EMIT(job_item_completed, tx, job_item_scope(j, c, d->itemId, r->process), .envelope.status = "completed",
	     .attempt = opt_int(d->attemptCount), .index = opt_int(d->index), .status = r->status,
	     .outputRefs = output_refs(r->process, r->output_refs), .summary = r->summary);
	job_progress_fact(tx->engine, j, tx, "running", r->status, false);
}

static const struct attempt_end timed_out = { .status = "timed_out",
					      .category = "timeout",
					      .limit = "attempt",
					      .message = "the attempt's time limit was reached",
					      .exit_code = -1,
					      .may_retry = true };

/* When the time of an item that an agent works on ends. A process enforces its limit itself. */
static uint64_t item_deadline(const struct job *j, const struct job_item_doc *d)
{
	const uint64_t each = jval_uint(jval_get(j->d.retryPolicy, "timeoutMs"), LIMIT_NONE);

	return each > UINT64_MAX / 2000 - d->startedAt / 1000 ? UINT64_MAX : d->startedAt + each * 1000;
}

/* The end of its turn ends the item (job_on_turn_failed): the next attempt must not begin before. */
static void item_timed_out(struct engine *engine, const struct job *j, const struct job_item_doc *d)
{
	if (agent_turn_open(engine, d->turnId))
		return agent_turn_interrupt(engine, d->turnId, timed_out.message);
	struct transaction *own = transaction_new_internal(engine);

	job_item_failed(engine, j, d, own, NULL, &timed_out);
	transaction_after_commit(own, job_step_due, j->d.jobId);
	transaction_commit(own);
}

/* ---- launching ---- */

struct launched {
	struct engine *engine;
	char turn_id[ID_SIZE];
};

static int item_of_process(struct engine *engine, const char *id, struct job *j, struct buf *text,
			   struct job_item_doc *d);

/* A turn that exists ends with facts; without one, the item is refused. */
static void on_submitted(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct launched *l = ctx;
	buf_auto struct buf text = BUF_INIT, item_text = BUF_INIT;
	job_auto struct job j = JOB_INIT;
	struct job_item_doc d;
	struct turn_doc t;
	struct err none = ERR_INIT;

	if (!e && item_of_process(l->engine, l->turn_id, &j, &item_text, &d) < 0)
		agent_turn_interrupt(l->engine, l->turn_id, "its attempt has ended"); /* before the turn existed */
	if (e && !l->engine->stopping && turn_read(l->engine, l->turn_id, &text, &t, &none) != 0)
		process_owner(l->engine, OWNER_JOB_ITEM)->refused(l->engine, l->turn_id, e, NULL, 0);
	free(l);
}

/* The turn of an item that an agent works on; also checks its time limit. */
static void launch_agent(struct engine *engine, const struct job *j, const struct job_item_doc *d)
{
	const uint64_t end = item_deadline(j, d);
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (end != UINT64_MAX && end > engine_real(engine))
		job_wake(engine, end);
	if (end <= engine_real(engine))
		return item_timed_out(engine, j, d);
	if (turn_read(engine, d->turnId, &text, &t, &e) == 0)
		return;
	json_auto_t *given = job_item_given(engine, j, d->index, &e),
		    *command = given ? job_item_command(engine, j, given, d->index, &e) : NULL;
	if (!command) {
		process_owner(engine, OWNER_JOB_ITEM)->refused(engine, d->turnId, &e, NULL, 0);
		return;
	}
	const struct turn_request r = { .session_id = j->d.sessionId,
					.new_thread = true,
					.turn_id = d->turnId,
					.task_id = none_if_empty(j->d.taskId) };
	struct launched *l = mem_zalloc(1, sizeof *l);
	l->engine = engine;
	id_copy(l->turn_id, d->turnId);
	agent_command_submit(engine, &r, command, (uint32_t)j->d.uid, on_submitted, l);
}

/* Launches an item that has a process id and no process yet. Harmless when repeated. */
static void launch_one(struct engine *engine, const struct job *j, const char *item_id)
{
	buf_auto struct buf text = BUF_INIT, process = BUF_INIT;
	struct process_doc known;
	struct job_item_doc d;
	struct start_spec s;
	struct err e = ERR_INIT;
	char made[ID_TEXT_MAX];

	if (job_item_read(engine, j->d.jobId, item_id, &text, &d, &e) != 0)
		return;
	if (d.turnId[0])
		return launch_agent(engine, j, &d);
	if (!d.processId[0] || engine_process(engine, d.processId) ||
	    view_read(engine->o.store, &process_schema, d.processId, &process, &known, &e) == 0)
		return;
	json_auto_t *given = job_item_given(engine, j, d.index, &e),
		    *command = given ? job_item_command(engine, j, given, d.index, &e) : NULL;
	if (command && json_object_get(command, "agent"))
		err_set(&e, ERR_CORRUPT, "the stored command could not be read when the attempt began");
	if (!command || e.code || start_spec_of(engine, command, &s, &e) < 0) {
		process_owner(engine, OWNER_JOB_ITEM)->refused(engine, d.processId, &e, NULL, 0);
		return;
	}
	const struct requester by = { .uid = (uint32_t)j->d.uid, .role = command_role(command) };
	uint64_t each = jval_uint(jval_get(j->d.retryPolicy, "timeoutMs"), LIMIT_NONE);
	/* 0 is not a valid limit. */
	if (each < s.request.limits.wall_ms)
		s.request.limits.wall_ms = each ? each : 1;
	s.request.session_id = j->d.sessionId;
	s.request.task_id = j->d.taskId[0] ? j->d.taskId : NULL;
	s.request.job_id = j->d.jobId;
	s.request.job_item_id = item_id;
	s.request.process_id = d.processId;
	s.request.end_with_client = false;
	process_start_owned(engine, &s.request, &by, OWNER_JOB_ITEM, d.processId, made);
	start_spec_done(&s);
}

void job_launch(struct engine *engine, const char *job_id)
{
	view_ids_auto struct view_ids running = VIEW_IDS_INIT;
	job_auto struct job j = JOB_INIT;
	struct err e = ERR_INIT;

	if (job_read(engine, job_id, &j, &e) != 0 || !may_run(engine, &j))
		return;
	id_list_read(engine, VIEW_JOB_RUNNING, job_id, ID_LIST_ALL, &running);
	for (size_t i = 0; i < running.n; i++)
		launch_one(engine, &j, running.id[i]);
}

/* ---- callbacks as the owner of processes ---- */

/*
 * By its process or turn. −1 also if the item has ended or was started again: a late report about an old process is
 * ignored.
 */
static int item_of_process(struct engine *engine, const char *id, struct job *j, struct buf *text,
			   struct job_item_doc *d)
{
	buf_auto struct buf doc = BUF_INIT;
	char job[ID_SIZE], item[ID_SIZE];
	struct err e = ERR_INIT;

	if (store_model_get_speculative(engine->o.store, VIEW_JOB_PROCESS, id, &doc, &e) != 0)
		return -1;
	jval_str(jval_get(jval_of(doc.data, doc.len), "jobId"), job, sizeof job);
	jval_str(jval_get(jval_of(doc.data, doc.len), "itemId"), item, sizeof item);
	if (job_read(engine, job, j, &e) != 0 || job_item_read(engine, job, item, text, d, &e) != 0)
		return -1;
	return strcmp(d->status, "running") == 0 && (strcmp(d->processId, id) == 0 || strcmp(d->turnId, id) == 0) ? 0
														  : -1;
}

static void item_refused(struct engine *engine, const char *process_id, const struct err *e, const char *data,
			 unsigned long len)
{
	const struct attempt_end end = attempt_end_of_refusal(e);
	buf_auto struct buf text = BUF_INIT;
	job_auto struct job j = JOB_INIT;
	struct job_item_doc d;

	if (item_of_process(engine, process_id, &j, &text, &d) < 0)
		return;
	if (task_can_wait(e->code) && strcmp(j.d.status, "cancelling") != 0) {
		engine->work->waits = true;
		/* job_tick launches items without a process. */
		return job_wake(engine, engine_real(engine) + RESOURCE_MS * 1000);
	}
	struct transaction *own = transaction_new_internal(engine);
	job_item_failed(engine, &j, &d, own, NULL, &end);
	transaction_after_commit(own, job_step_due, j.d.jobId);
	transaction_commit(own);
}

static void item_ended(struct process *p, const struct process_outcome *o, struct transaction *tx)
{
	const struct attempt_end end = attempt_end_of_process(p, o);
	buf_auto struct buf text = BUF_INIT;
	job_auto struct job j = JOB_INIT;
	struct job_item_doc d;

	if (item_of_process(p->engine, p->id, &j, &text, &d) < 0)
		return;
	if (o->clean)
		job_item_completed(&j, &d, tx, NULL, &(struct job_item_result){ .status = "completed", .process = p });
	else
		job_item_failed(p->engine, &j, &d, tx, NULL, &end);
}

/*
 * A start that waited for policy or hooks is dropped if the item must not run now; job_launch repeats it later. If a
 * person or hooks have allowed it while the task is paused, it starts, and is stopped at once.
 */
static bool item_wanted(struct engine *engine, const char *owner_id, const char *process_id)
{
	buf_auto struct buf text = BUF_INIT;
	job_auto struct job j = JOB_INIT;
	struct job_item_doc d;

	return item_of_process(engine, process_id, &j, &text, &d) == 0 &&
	       (may_run(engine, &j) || (engine_process(engine, process_id) && strcmp(j.d.status, "cancelling") != 0 &&
					task_is_paused(engine, j.d.taskId)));
}

static void item_started(struct process *p, struct transaction *tx)
{
	if (task_is_paused(p->engine, p->task_id))
		process_set_paused(p, true);
}

extern const struct process_owner_ops job_item_owner;
const struct process_owner_ops job_item_owner = {
	.refused = item_refused, .wanted = item_wanted, .started = item_started, .ended = item_ended
};

/* ---- the end of an agent's turn ---- */

void job_on_turn_completed(struct transaction *tx, const struct scope *s, const struct turn_completed *p)
{
	buf_auto struct buf text = BUF_INIT, turn_text = BUF_INIT, answer = BUF_INIT;
	job_auto struct job j = JOB_INIT;
	struct job_item_doc d;
	struct turn_doc t;
	struct err e = ERR_INIT;
	char ref[ID_TEXT_MAX];

	if (p->outcome == turn_outcome_process || item_of_process(tx->engine, s->turn, &j, &text, &d) < 0 ||
	    turn_read(tx->engine, s->turn, &turn_text, &t, &e) != 0)
		return;
	/* The answer is the item's output. */
	agent_turn_answer(tx->engine, &t, &answer);
	const struct ref_owner owner = turn_ref_owner(&t, "job", j.d.jobId, NULL);
	ref_store(tx, &owner, buf_cstr(&answer), answer.len, ref);
	json_auto_t *refs = json_pack("[{s:s}]", "outputRef", ref);
	const struct job_item_result result = { .status = "completed", .output_refs = refs, .summary = p->summary };
	job_item_completed(&j, &d, tx, NULL, &result);
	transaction_after_commit(tx, job_step_due, j.d.jobId);
}

void job_on_turn_failed(struct transaction *tx, const struct scope *s, const struct turn_failed *p)
{
	struct attempt_end end = attempt_end_of_turn(p);
	buf_auto struct buf text = BUF_INIT;
	job_auto struct job j = JOB_INIT;
	struct job_item_doc d;

	if (item_of_process(tx->engine, s->turn, &j, &text, &d) < 0)
		return;
	if (strcmp(p->envelope.status, "cancelled") == 0 && strcmp(j.d.status, "cancelling") != 0 &&
	    item_deadline(&j, &d) <= engine_real(tx->engine))
		end = timed_out;
	job_item_failed(tx->engine, &j, &d, tx, NULL, &end);
	transaction_after_commit(tx, job_step_due, j.d.jobId);
}

/* The job is read again for each item, because the end of an item changes its counts. */
void job_items_end(struct engine *engine, const char *job_id)
{
	view_ids_auto struct view_ids r = VIEW_IDS_INIT;

	id_list_read(engine, VIEW_JOB_RUNNING, job_id, ID_LIST_ALL, &r);
	for (size_t i = 0; i < r.n; i++) {
		buf_auto struct buf text = BUF_INIT;
		job_auto struct job j = JOB_INIT;
		struct job_item_doc d;
		struct err e = ERR_INIT;
		if (job_item_read(engine, job_id, r.id[i], &text, &d, &e) != 0 || job_read(engine, job_id, &j, &e) != 0)
			continue;
		struct process *p = d.processId[0] ? engine_process(engine, d.processId) : NULL;
		if (p) {
			process_enforce_end(p, PROCESS_END_USER, NULL, process_stop_signal(p), engine->o.stop_grace_ms,
					    "parent_cancelled");
			continue;
		}
		if (d.turnId[0] && agent_turn_open(engine, d.turnId)) {
			agent_turn_interrupt(engine, d.turnId, "parent_cancelled");
			continue;
		}
		/* It has no process: a client works on it, or it was not launched yet. */
		const struct attempt_end end = { .status = "cancelled",
						 .category = "cancelled",
						 .message = "the job was cancelled",
						 .exit_code = -1 };
		struct transaction *own = transaction_new_internal(engine);
		job_item_failed(engine, &j, &d, own, NULL, &end);
		transaction_commit(own);
	}
}

/*
 * Items. The start of an attempt is durable, with the id of its process, before the process is launched. Its end is
 * written in the same commit as the process's end. So after a crash an item is running, or has ended, or has
 * certainly not run and is launched again. Output belongs to its attempt: a retry replaces it.
 */

#include "runtime/engine/work/job_private.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/process/start_spec.h"
#include "runtime/view/view_documents.h"

#define STARTS_MOST 64u /* items started in one commit */
#define RESOURCE_MS 1000u
#define BACKOFF_MOST_MS 86400000ull

/* ---- starting ---- */

static int item_read(struct engine *g, const char *job_id, const char *item_id, struct buf *text,
		     struct job_item_doc *ret, struct err *e)
{
	char key[VIEW_JOB_ITEM_KEY_MAX];

	view_job_item_key(job_id, item_id, key);
	return view_read_speculative(g->o.store, &job_item_schema, key, text, ret, e);
}

static void started_fact(const struct job *j, struct transaction *tx, const struct caller *c, const char *item,
			 uint64_t index, uint64_t attempt, const char *process)
{
	struct scope s = job_scope(&j->d, c);
	bool client = !process && c;

	s.job_item = item;
	s.process = process;
	EMIT(job_item_started, tx, s, .envelope.status = "running", .attempt = attempt, .index = opt_int(index),
	     .assigned = JSON_OBJECT(worker, .kind = process ? "supervisor" : "client", .processId = process,
				     .uid = opt_int_if(client, client ? c->uid : 0),
				     .pid = opt_int_if(client && c->pid > 0, client ? c->pid : 0)));
}

static void job_started(const struct job *j, struct transaction *tx, const struct caller *c)
{
	if (!j->d.startedAt || strcmp(j->d.status, "running") != 0)
		EMIT(job_started, tx, job_scope(&j->d, c), .envelope.status = "running");
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

static void items_again(struct engine *g, const char *job_id, struct again *ret)
{
	struct err e = ERR_INIT;
	char prefix[ID_SIZE + 1];

	ret->due = UINT64_MAX;
	snprintf(prefix, sizeof prefix, "%s/", job_id);
	if (store_model_scan_speculative(g->o.store, VIEW_JOB_AGAIN, prefix, collect_retry, ret, &e) < 0)
		log_error("look at items of job %s: %s", job_id, e.message);
}

uint64_t job_next_due(struct engine *g, const char *job_id)
{
	struct again a = { .now = 0, .most = 0 };

	items_again(g, job_id, &a);
	return a.due;
}

/* No new items while the daemon stops, the job is being ended, or its task is paused, being cancelled or ended. */
static bool may_dispatch(struct engine *g, const struct job *j)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	if (g->stopping || job_doc_ended(&j->d) || strcmp(j->d.status, "cancelling") == 0)
		return false;
	if (!j->d.taskId[0] || task_read(g, j->d.taskId, &t, &e) != 0)
		return true;
	return t.status != TASK_PAUSED && t.status != TASK_CANCELLING && !task_status_ended(t.status);
}

/* The items that are started together. The transaction is created with the first of them. */
struct round {
	const struct job *job;
	struct transaction *transaction;
	size_t room, begun;
};

static void round_begin(struct engine *g, struct round *r, const char *item, uint64_t index, uint64_t attempt)
{
	char process[ID_TEXT_MAX];

	if (!r->transaction) {
		r->transaction = transaction_new_internal(g);
		job_started(r->job, r->transaction, NULL);
	}
	id_make(ID_KIND_PROCESS, process);
	started_fact(r->job, r->transaction, NULL, item, index, attempt, process);
	r->begun++;
}

/* Starts items that were never started, from the cursor on. */
static void begin_fresh(struct engine *g, struct round *r)
{
	const struct job *j = r->job;
	uint64_t index = j->d.cursor;
	struct err e = ERR_INIT;

	while (index < j->d.supervisedTo && r->begun < r->room) {
		buf_auto struct buf piece = BUF_INIT;
		uint64_t at = index / VIEW_JOB_PIECE * VIEW_JOB_PIECE, from = index;
		if (view_job_piece(g->o.store, &j->d, index / VIEW_JOB_PIECE, &piece, &e) < 0) {
			log_error("%s", e.message);
			return;
		}
		for (struct jiter it = jiter_on(jval_of(piece.data, piece.len)); r->begun < r->room && jiter_next(&it);
		     at++) {
			char id[ID_SIZE];
			if (at < from)
				continue;
			index = at + 1;
			bool own = jval_get(it.value, "command").type == JT_ARRAY ||
				   jval_get(it.value, "commandLine").type == JT_STRING;
			if (!own && !job_has_template(j))
				continue;
			jval_str(jval_get(it.value, "itemId"), id, sizeof id);
			round_begin(g, r, id, at, 1);
		}
		if (index == from)
			break;
	}
}

static void begin_again(struct engine *g, struct round *r)
{
	const struct job *j = r->job;
	struct again a = { .now = engine_real(g), .most = r->room };

	items_again(g, j->d.jobId, &a);
	for (size_t i = 0; i < a.n; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct job_item_doc d;
		struct err e = ERR_INIT;
		if (item_read(g, j->d.jobId, a.id[i], &text, &d, &e) != 0)
			continue;
		json_auto_t *given = job_item_given(g, j, d.index, &e);
		if (!given || !job_item_supervised(j, given))
			continue; /* a client will claim it */
		round_begin(g, r, a.id[i], d.index, d.attemptCount + 1);
	}
	if (a.due != UINT64_MAX && a.due > a.now)
		job_wake(g, a.due);
}

void job_dispatch(struct engine *g, const char *job_id)
{
	job_auto struct job j = JOB_INIT;
	struct err e = ERR_INIT;

	if (job_read(g, job_id, &j, &e) != 0 || !may_dispatch(g, &j) || j.d.running >= j.d.maxParallel)
		return;
	uint64_t room = j.d.maxParallel - j.d.running;
	struct round r = { .job = &j, .room = room < STARTS_MOST ? (size_t)room : STARTS_MOST };
	/* Due retries come before items that were never started. */
	begin_again(g, &r);
	begin_fresh(g, &r);
	if (!r.transaction)
		return;
	transaction_after_commit(r.transaction, job_launch, job_id);
	transaction_commit(r.transaction);
	if (j.d.maxRuntimeMs != VIEW_ABSENT)
		job_wake(g, (j.d.startedAt ? j.d.startedAt : engine_real(g)) + j.d.maxRuntimeMs * 1000);
	/* A full round may have left room for more: continue in another commit. */
	if (r.begun == STARTS_MOST)
		job_dispatch(g, job_id);
}

/* ---- launching ---- */

struct running {
	char (*id)[ID_SIZE];
	size_t n, cap;
};

static bool collect_item(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct running *r = ctx;
	const char *slash = memrchr(id, '/', id_len);

	if (r->n == r->cap) {
		r->cap = r->cap ? 2 * r->cap : 16;
		r->id = mem_realloc(r->id, r->cap * sizeof *r->id);
	}
	snprintf(r->id[r->n++], ID_SIZE, "%.*s", (int)(id_len - (size_t)(slash + 1 - id)), slash + 1);
	return true;
}

static void running_items(struct engine *g, const char *job_id, struct running *ret)
{
	struct err e = ERR_INIT;
	char prefix[ID_SIZE + 1];

	snprintf(prefix, sizeof prefix, "%s/", job_id);
	if (store_model_scan_speculative(g->o.store, VIEW_JOB_RUNNING, prefix, collect_item, ret, &e) < 0)
		log_error("look at items of job %s: %s", job_id, e.message);
}

static void item_refused(struct engine *g, const char *process_id, const struct err *e, const char *data,
			 unsigned long len);

/* Launches an item that has a process id and no process yet. Harmless when repeated. */
static void launch_one(struct engine *g, const struct job *j, const char *item_id)
{
	buf_auto struct buf text = BUF_INIT, process = BUF_INIT;
	struct process_doc known;
	struct job_item_doc d;
	struct start_spec s;
	struct err e = ERR_INIT;
	char made[ID_TEXT_MAX];

	if (item_read(g, j->d.jobId, item_id, &text, &d, &e) != 0 || !d.processId[0] ||
	    engine_process(g, d.processId) ||
	    view_read(g->o.store, &process_schema, d.processId, &process, &known, &e) == 0)
		return;
	json_auto_t *given = job_item_given(g, j, d.index, &e),
		    *command = given ? job_item_command(g, j, given, d.index, &e) : NULL;
	if (!command || start_spec_of(g, command, &s, &e) < 0) {
		item_refused(g, d.processId, &e, NULL, 0);
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
	process_start_owned(g, &s.request, &by, OWNER_JOB_ITEM, d.processId, made);
	start_spec_done(&s);
}

void job_launch(struct engine *g, const char *job_id)
{
	job_auto struct job j = JOB_INIT;
	struct running r = { 0 };
	struct err e = ERR_INIT;

	if (g->stopping || job_read(g, job_id, &j, &e) != 0)
		return;
	running_items(g, job_id, &r);
	for (size_t i = 0; i < r.n; i++)
		launch_one(g, &j, r.id[i]);
	free(r.id);
}

/* ---- the end of an attempt ---- */

struct item_end {
	const char *status, *category, *message, *limit;
	int exit_code;
	bool may_retry;
	const struct process *process;
	const json_t *output_refs;
};

static struct scope item_scope(const struct job *j, const struct caller *c, const char *item, const struct process *p)
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

/* May the item be retried after this end? */
static bool policy_grants(const struct job *j, const struct job_item_doc *d, const struct item_end *end)
{
	struct jval policy = j->d.retryPolicy;

	if (!end->may_retry || strcmp(j->d.status, "cancelling") == 0 ||
	    d->attemptCount >= jval_uint(jval_get(policy, "maxAttempts"), 1))
		return false;
	for (struct jiter it = jiter_on(jval_get(policy, "nonRetryable")); jiter_next(&it);)
		if (jval_is_str(it.value, end->category) || jval_is_str(it.value, end->status))
			return false;
	return true;
}

/*
 * The delay before the next attempt: backoffMs, multiplied by backoffFactor for each further attempt, up to a limit.
 */
static uint64_t backoff_ms(const struct job *j, uint64_t attempts)
{
	struct jval factor = jval_get(j->d.retryPolicy, "backoffFactor");
	uint64_t most = jval_uint(jval_get(j->d.retryPolicy, "maxBackoffMs"), BACKOFF_MOST_MS);
	double ms = (double)jval_uint(jval_get(j->d.retryPolicy, "backoffMs"), 0),
	       by = factor.type == JT_NUMBER ? strtod(factor.text, NULL) : 1;

	for (uint64_t i = 1; i < attempts && ms < (double)most && by > 1; i++)
		ms *= by;
	return ms > (double)most ? most : (uint64_t)ms;
}

static void failed_fact(struct engine *g, const struct job *j, const struct job_item_doc *d, struct transaction *tx,
			const struct caller *c, const struct item_end *end)
{
	bool again = policy_grants(j, d, end);
	uint64_t wait_ms = again ? backoff_ms(j, d->attemptCount) : 0;
	uint64_t due = again ? engine_real(g) + wait_ms * 1000 : 0;

	EMIT(job_item_failed, tx, item_scope(j, c, d->itemId, end->process),
	     .envelope = { .status = end->status, .status_reason = end->message }, .attempt = opt_int(d->attemptCount),
	     .index = opt_int(d->index), .status = end->status,
	     .lastError = JSON_OBJECT(last_error, .category = end->category, .message = end->message,
				      .limit = end->limit, .exitCode = opt_int_if(end->exit_code >= 0, end->exit_code)),
	     .retryable = opt_bool(end->may_retry), .again = again, .dueAt = due,
	     .outputRefs = output_refs(end->process, end->output_refs));
	if (again)
		job_wake(g, due);
	/* An item that is retried counts as neither running nor failed. */
	job_progress_fact(g, j, tx, "running", again ? "" : "failed", false);
}

static void completed_fact(struct engine *g, const struct job *j, const struct job_item_doc *d, struct transaction *tx,
			   const struct caller *c, const char *status, const struct process *p, const json_t *refs,
			   const char *summary)
{
	EMIT(job_item_completed, tx, item_scope(j, c, d->itemId, p), .envelope.status = "completed",
	     .attempt = opt_int(d->attemptCount), .index = opt_int(d->index), .status = status,
	     .outputRefs = output_refs(p, refs), .summary = summary);
	job_progress_fact(g, j, tx, "running", status, false);
}

/* ---- callbacks as the owner of processes ---- */

static int item_of_process(struct engine *g, const char *process_id, struct job *j, struct buf *text,
			   struct job_item_doc *d)
{
	buf_auto struct buf doc = BUF_INIT;
	char job[ID_SIZE], item[ID_SIZE];
	struct err e = ERR_INIT;

	if (store_model_get_speculative(g->o.store, VIEW_JOB_PROCESS, process_id, &doc, &e) != 0)
		return -1;
	jval_str(jval_get(jval_of(doc.data, doc.len), "jobId"), job, sizeof job);
	jval_str(jval_get(jval_of(doc.data, doc.len), "itemId"), item, sizeof item);
	if (job_read(g, job, j, &e) != 0 || item_read(g, job, item, text, d, &e) != 0)
		return -1;
	return strcmp(d->status, "running") == 0 && strcmp(d->processId, process_id) == 0 ? 0 : -1;
}

static void item_refused(struct engine *g, const char *process_id, const struct err *e, const char *data,
			 unsigned long len)
{
	buf_auto struct buf text = BUF_INIT;
	job_auto struct job j = JOB_INIT;
	struct job_item_doc d;

	if (item_of_process(g, process_id, &j, &text, &d) < 0)
		return;
	if (task_can_wait(e->code) && strcmp(j.d.status, "cancelling") != 0) {
		g->work->waits = true;
		job_wake(g, engine_real(g) + RESOURCE_MS * 1000); /* job_tick launches items without a process */
		return;
	}
	const char *category = e->code == ERR_PERMISSION ? "permission" : e->code == ERR_INVALID ? "invalid" : "spawn";
	const struct item_end end = { .status = "failed",
				      .category = category,
				      .message = e->message,
				      .exit_code = -1,
				      .may_retry = e->code != ERR_PERMISSION && e->code != ERR_INVALID };
	struct transaction *own = transaction_new_internal(g);
	failed_fact(g, &j, &d, own, NULL, &end);
	transaction_after_commit(own, job_step_due, j.d.jobId);
	transaction_commit(own);
}

static void item_ended(struct process *p, const struct process_outcome *o, struct transaction *tx)
{
	struct engine *g = p->engine;
	buf_auto struct buf text = BUF_INIT;
	job_auto struct job j = JOB_INIT;
	struct job_item_doc d;

	if (item_of_process(g, p->id, &j, &text, &d) < 0)
		return;
	if (o->clean) {
		completed_fact(g, &j, &d, tx, NULL, "completed", p, NULL, NULL);
		return;
	}
	/* A process that ended with the daemon did not fail: the item may be repeated after the restart. */
	bool shutdown = p->end == PROCESS_END_SHUTDOWN;
	const struct item_end end = { .status = o->status,
				      .category = shutdown ? "shutdown" : o->category,
				      .message = o->message,
				      .limit = o->limit,
				      .exit_code = o->exit_code,
				      .may_retry = shutdown || strcmp(o->status, "cancelled") != 0,
				      .process = p };
	failed_fact(g, &j, &d, tx, NULL, &end);
}

static bool item_wanted(struct engine *g, const char *owner_id, const char *process_id)
{
	buf_auto struct buf text = BUF_INIT;
	job_auto struct job j = JOB_INIT;
	struct job_item_doc d;

	return item_of_process(g, process_id, &j, &text, &d) == 0 && strcmp(j.d.status, "cancelling") != 0;
}

extern const struct process_owner_ops job_item_owner;
const struct process_owner_ops job_item_owner = { .refused = item_refused, .wanted = item_wanted, .ended = item_ended };

void job_items_end(struct engine *g, const char *job_id)
{
	struct running r = { 0 };

	running_items(g, job_id, &r);
	for (size_t i = 0; i < r.n; i++) {
		buf_auto struct buf text = BUF_INIT;
		job_auto struct job j = JOB_INIT;
		struct job_item_doc d;
		struct err e = ERR_INIT;
		if (item_read(g, job_id, r.id[i], &text, &d, &e) != 0 || job_read(g, job_id, &j, &e) != 0)
			continue;
		struct process *p = d.processId[0] ? engine_process(g, d.processId) : NULL;
		if (p) {
			process_enforce_end(p, PROCESS_END_USER, NULL, process_stop_signal(p), g->o.stop_grace_ms,
					    "parent_cancelled");
			continue;
		}
		/* It has no process: a client works on it, or it was not launched yet. */
		const struct item_end end = { .status = "cancelled",
					      .category = "cancelled",
					      .message = "the job was cancelled",
					      .exit_code = -1 };
		struct transaction *own = transaction_new_internal(g);
		failed_fact(g, &j, &d, own, NULL, &end);
		transaction_commit(own);
	}
	free(r.id);
}

/* ---- retry_job_item and report_job_item ---- */

static struct transaction *begin_request(struct engine *g, const json_t *params, const struct caller *c,
					 engine_reply_fn fn, void *ctx, struct job *j, json_t **ret_given,
					 struct job_item_doc *item, struct buf *text)
{
	const char *id = param_str(params, "itemId");
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	struct err e = ERR_INIT;
	uint64_t index = 0;
	int r;

	if (job_get(g, param_str(params, "jobId"), c, j, &e) == 0 &&
	    (strcmp(j->d.status, "cancelled") == 0 || strcmp(j->d.status, "cancelling") == 0))
		err_set(&e, ERR_STATE, "job '%s' is %s: nothing more is done for its items", j->d.jobId, j->d.status);
	*ret_given = e.code ? NULL : job_item_find(g, j, id, &index, &e);
	if (!*ret_given || (r = item_read(g, j->d.jobId, id, text, item, &e)) < 0) {
		transaction_reject(tx, &e);
		return NULL;
	}
	if (r > 0) {
		view_clear(&job_item_schema, item);
		id_copy(item->itemId, id);
		id_copy(item->status, "pending");
		item->index = index;
		item->attemptCount = 0;
	}
	return tx;
}

void engine_retry_job_item(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn,
			   void *ctx)
{
	json_auto_t *given = NULL;
	buf_auto struct buf text = BUF_INIT;
	job_auto struct job j = JOB_INIT;
	struct job_item_doc item;
	struct err e = ERR_INIT;
	struct transaction *tx = begin_request(g, params, c, fn, ctx, &j, &given, &item, &text);

	if (!tx)
		return;
	if (strcmp(item.status, "running") == 0 || strcmp(item.status, "pending") == 0) {
		err_set(&e, ERR_STATE, "item '%s' is %s; only one that has ended can be tried again", item.itemId,
			item.status);
		transaction_reject(tx, &e);
		return;
	}
	const struct job_counts_part counts = job_counts(&j.d, item.status, "");
	const char *const requeued[] = { item.itemId };
	EMIT(job_progress, tx, item_scope(&j, c, item.itemId, NULL),
	     .envelope = { .status = "running", .status_reason = param_str(params, "reason") },
	     .counts = json_from_writer(json_write_job_counts, &counts, 0), .status = "running",
	     .requeued = json_from_strings(requeued, 1));
	transaction_after_commit(tx, job_step_due, j.d.jobId);
	jw_kstr(&tx->w, "jobId", j.d.jobId);
	jw_kstr(&tx->w, "itemId", item.itemId);
	jw_kstr(&tx->w, "status", "pending");
	jw_kuint(&tx->w, "attempt", item.attemptCount + 1);
	transaction_commit(tx);
}

static int report_check(const struct job *j, const json_t *given, const json_t *params, const struct job_item_doc *item,
			struct err *e)
{
	const char *status = param_str(params, "status");
	const json_t *error = json_object_get(params, "error");

	if (job_item_supervised(j, given))
		return err_set(e, ERR_STATE,
			       "item '%s' is run by the supervisor: what becomes of it is seen, not reported",
			       item->itemId);
	if (strcmp(item->status, "completed") == 0 || strcmp(item->status, "reported") == 0 ||
	    strcmp(item->status, "failed") == 0)
		return err_set(e, ERR_STATE, "item '%s' is %s; retry_job_item makes it pending again", item->itemId,
			       item->status);
	if (strcmp(status, "running") == 0 && strcmp(item->status, "running") == 0)
		return err_set(e, ERR_CONFLICT, "item '%s' is being worked on already", item->itemId);
	if (error && !json_is_string(error) && !json_is_object(error))
		return err_field(e, "error", "expected a string, or an object with message and category");
	return param_small(params, "error", TASK_JSON_MAX, e) < 0 ? -1
								  : param_text(params, "summary", TASK_TEXT_MAX, e);
}

void engine_report_job_item(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn,
			    void *ctx)
{
	const json_t *error = json_object_get(params, "error");
	const char *status = param_str(params, "status"), *category = param_str(error, "category"),
		   *message = json_is_string(error) ? json_string_value(error) : param_str(error, "message");
	json_auto_t *given = NULL, *refs = NULL;
	buf_auto struct buf text = BUF_INIT;
	job_auto struct job j = JOB_INIT;
	struct job_item_doc item;
	struct err e = ERR_INIT;
	struct transaction *tx = begin_request(g, params, c, fn, ctx, &j, &given, &item, &text);

	if (!tx)
		return;
	if (report_check(&j, given, params, &item, &e) < 0 ||
	    (json_object_get(params, "outputRefs") && !(refs = param_refs(params, "outputRefs", "outputRef", &e)))) {
		transaction_reject(tx, &e);
		return;
	}
	if (strcmp(item.status, "running") != 0) {
		job_started(&j, tx, c);
		started_fact(&j, tx, c, item.itemId, item.index, ++item.attemptCount, NULL);
	}
	if (strcmp(status, "failed") == 0) {
		const struct item_end end = { .status = "failed",
					      .category = category ? category : "reported",
					      .message = message ? message : "",
					      .exit_code = -1,
					      .may_retry = !json_is_false(json_object_get(params, "retryable")),
					      .output_refs = refs };
		failed_fact(g, &j, &item, tx, c, &end);
	} else if (strcmp(status, "running") != 0) {
		completed_fact(g, &j, &item, tx, c, status, NULL, refs, param_str(params, "summary"));
	}
	transaction_after_commit(tx, job_step_due, j.d.jobId);
	jw_kstr(&tx->w, "jobId", j.d.jobId);
	jw_kstr(&tx->w, "itemId", item.itemId);
	jw_kstr(&tx->w, "status", status);
	jw_kuint(&tx->w, "attempt", item.attemptCount);
	transaction_commit(tx);
}

/*
 * Jobs. The items are written once, in pieces behind refs; from then on each item has its own facts. A job that is
 * being ended (cancelled, or out of time) first records that in a job.progress. Its final event follows when nothing
 * of it runs.
 */

#include "runtime/engine/core/ref.h"
#include "runtime/engine/work/job_private.h"
#include "runtime/view/view.h"

#define ITEMS_MOST 50000u
#define PARALLEL_DEFAULT 4u
#define PARALLEL_MOST 1024u
#define IDS_SHOWN 200u

/* ---- create_job ---- */

struct making {
	struct engine *engine;
	const json_t *params;
	const struct caller *caller;
	struct job_doc d;
	bool makes_session;
	json_t *items, *command;
	char hash[65];
};

static void making_done(struct making *k)
{
	json_decref(k->items);
	json_decref(k->command);
}

static int item_error(struct err *e, size_t i, const char *member, const char *what)
{
	char field[ERR_FIELD_MAX];

	snprintf(field, sizeof field, "items[%zu]%s%s", i, member ? "." : "", member ? member : "");
	return err_field(e, field, "%s", what);
}

/* Strict, because items are stored unparsed and a typing error would show only when the item runs. */
static int check_item(const json_t *v, size_t i, struct err *e)
{
	static const char *const known[] = { "itemId", "command", "commandLine", "input", "cwd", "env" };
	const json_t *command = json_object_get(v, "command"), *id = json_object_get(v, "itemId"), *word;
	size_t members = json_object_size(v), k;

	if (!json_is_object(v))
		return item_error(e, i, NULL, "expected an object: itemId?, and command, commandLine or input");
	for (k = 0; k < countof(known); k++)
		members -= json_object_get(v, known[k]) != NULL;
	if (members)
		return item_error(e, i, NULL,
				  "has an unknown member; known: itemId, command, commandLine, input, cwd, env");
	if (id && (!json_is_string(id) || !id_valid(json_string_value(id), json_string_length(id))))
		return item_error(e, i, "itemId", "expected an id");
	if (command && json_object_get(v, "commandLine"))
		return item_error(e, i, "commandLine", "give command or commandLine, not both");
	if (command && (!json_is_array(command) || json_array_size(command) == 0))
		return item_error(e, i, "command", "expected a program and its arguments");
	json_array_foreach (command, k, word)
		if (!json_is_string(word))
			return item_error(e, i, "command", "expected an array of strings");
	if (json_object_get(v, "commandLine") && !json_is_string(json_object_get(v, "commandLine")))
		return item_error(e, i, "commandLine", "expected a string");
	return 0;
}

/* Copies the items and assigns missing ids. */
static int making_items(struct making *k, struct err *e)
{
	const json_t *given = json_object_get(k->params, "items"), *v;
	struct strmap seen = STRMAP_INIT;
	size_t i;
	int r = 0;

	if (json_array_size(given) < 1 || json_array_size(given) > ITEMS_MOST)
		return err_field(e, "items", "must have 1 to %u", ITEMS_MOST);
	k->items = json_array();
	json_array_foreach (given, i, v) {
		if ((r = check_item(v, i, e)) < 0)
			break;
		json_t *copy = json_copy((json_t *)(uintptr_t)v);
		json_array_append_new(k->items, copy);
		if (!json_object_get(copy, "itemId")) {
			char id[ID_TEXT_MAX];
			id_make(ID_KIND_JOB_ITEM, id);
			json_object_set_new(copy, "itemId", json_string(id));
		}
		if (strmap_put(&seen, param_str(copy, "itemId"), k) != NULL) {
			r = item_error(e, i, "itemId", "occurs twice");
			break;
		}
	}
	strmap_done(&seen);
	return r;
}

/* The session is the task's, the given one, or a new one. */
static int making_scope(struct making *k, struct err *e)
{
	const char *task = param_str(k->params, "taskId"), *session = param_str(k->params, "sessionId");
	task_auto struct task t = TASK_INIT;
	struct view_session_brief sb;

	k->d.uid = k->caller->uid;
	if (task) {
		if (task_get(k->engine, task, k->caller, &t, e) < 0 || task_may(&t, TASK_VERB_ADD, e) < 0)
			return -1;
		if (session && strcmp(session, t.d.sessionId) != 0)
			return err_field(e, "sessionId", "is not the task's");
		id_copy(k->d.taskId, task);
		id_copy(k->d.sessionId, t.d.sessionId);
		k->d.uid = t.d.uid;
		return 0;
	}
	id_copy(k->d.sessionId, session);
	k->makes_session = !session;
	if (!session)
		return 0;
	int r = view_session_brief(k->engine->o.store, k->caller->uid, session, &sb, e);
	if (r != 0)
		return r < 0 ? -1 : err_not_known(e, "sessionId", session);
	k->d.uid = sb.uid;
	return 0;
}

static bool has_own_command(const json_t *v)
{
	return json_object_get(v, "command") || json_object_get(v, "commandLine") || json_object_get(v, "agent");
}

static int making_check(struct making *k, struct err *e)
{
	const json_t *parallel = json_object_get(k->params, "maxParallel");
	json_int_t n = parallel ? json_integer_value(parallel) : PARALLEL_DEFAULT;
	/*
	 * Items may bring their own commands; the job's other parameters apply to those. Without a template, check them
	 * with a placeholder command.
	 */
	const bool template = has_own_command(k->params);
	json_auto_t *with = json_copy((json_t *)(uintptr_t)k->params);

	if (n < 1 || n > PARALLEL_MOST)
		return err_field(e, "maxParallel", "must be 1 to %u", PARALLEL_MOST);
	k->d.maxParallel = (uint64_t)n;
	if (!template)
		json_object_set_new(with, "commandLine", json_string("true"));
	k->command = command_of(with, k->caller);
	if (command_check(k->engine, k->command, k->caller, e) < 0)
		return -1;
	if (!template)
		json_object_del(k->command, "commandLine");
	return making_scope(k, e) < 0 || making_items(k, e) < 0 || param_retry_policy(k->params, e) < 0
		       ? -1
		       : param_positive(k->params, NULL, "maxRuntimeMs", e);
}

/* Stores the items behind refs, in pieces that a reader loads one by one. The fact records the piece size. */
static int write_pieces(struct making *k, struct jw *w, struct transaction *tx, struct err *e)
{
	const struct ref_owner o = { .uid = (uint32_t)k->d.uid,
				     .session_id = k->d.sessionId,
				     .task_id = k->d.taskId[0] ? k->d.taskId : NULL,
				     .kind = "job",
				     .id = k->d.jobId,
				     .media_type = "application/json" };
	size_t n = json_array_size(k->items), all = 0;

	jw_arr(w);
	for (size_t from = 0; from < n; from += VIEW_JOB_PIECE) {
		json_auto_t *piece = json_array();
		size_t to = from + VIEW_JOB_PIECE < n ? from + VIEW_JOB_PIECE : n;
		for (size_t i = from; i < to; i++)
			json_array_append(piece, json_array_get(k->items, i));
		mem_auto char *text = json_dumps(piece, JSON_COMPACT);
		char ref[ID_TEXT_MAX];
		all += strlen(text);
		if (all > VIEW_JOB_BYTES)
			return err_field(e, "items", "must have at most %u bytes together", VIEW_JOB_BYTES);
		ref_store(tx, &o, text, strlen(text), ref);
		jw_obj(w);
		jw_kstr(w, "outputRef", ref);
		jw_kuint(w, "firstItem", from);
		jw_kuint(w, "items", to - from);
		jw_obj_end(w);
	}
	jw_arr_end(w);
	return 0;
}

/* The items are stored in pieces before job.created refers to them, in the same commit. */
static int created_facts(struct making *k, struct transaction *tx, struct err *e)
{
	const struct scope s = job_scope(&k->d, k->caller);
	const struct requester by = requester_of(k->caller);
	command_fact_auto struct command_fact command;
	buf_auto struct buf pieces = BUF_INIT;
	struct jw w = jw_on(&pieces);
	task_auto struct task t = TASK_INIT;

	command_fact_init(&command, k->command, &s, tx);
	if (write_pieces(k, &w, tx, e) < 0)
		return -1;
	const bool runs = has_own_command(k->command);
	/* The supervisor need not search for work after the last item that has a command. */
	size_t last = json_array_size(k->items);
	while (last > 0 && !runs && !has_own_command(json_array_get(k->items, last - 1)))
		last--;
	if (EMIT(job_created, tx, s, .itemCount = json_array_size(k->items), .supervisedTo = opt_int(last),
		 .hasTemplate = runs,
		 .limits = JSON_OBJECT(job_limits, .maxParallel = k->d.maxParallel,
				       .maxRuntimeMs = param_json(k->params, "maxRuntimeMs")),
		 .retryPolicy = param_json(k->params, "retryPolicy"),
		 .instructionRef = param_str(k->params, "instructionRef"),
		 .outputSchemaRef = param_str(k->params, "outputSchemaRef"), .requestedBy = json_requester(&by),
		 .bodyHash = k->hash, .run = command_part(&command), .inputRefs = json_from_buf(&pieces)) < 0)
		return err_set(e, ERR_INVALID, "the job is too large for one event");
	/* Report the delegation on the job's task. */
	if (!k->d.taskId[0] || task_read(k->engine, k->d.taskId, &t, e) != 0)
		return 0;
	struct scope of_task = task_scope(&t.d, k->caller);
	of_task.job = k->d.jobId;
	return EMIT(task_delegated, tx, of_task, .delegateKind = "job", .delegateId = k->d.jobId);
}

void engine_create_job(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
		       void *ctx)
{
	struct making __attribute__((cleanup(making_done))) k = { .engine = engine, .params = params, .caller = c };
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	job_auto struct job known = JOB_INIT;
	const char *given = param_str(params, "jobId");
	struct err e = ERR_INIT;
	int r = given ? job_read(engine, given, &known, &e) : 1;

	param_hash(params, k.hash);
	id_copy(k.d.jobId, given);
	if (!given)
		id_make(ID_KIND_JOB, k.d.jobId);
	/* The id is taken: a repeated request gets the same reply. */
	if (r == 0 && (strcmp(known.d.bodyHash, k.hash) != 0 || known.d.uid != c->uid))
		err_at(&e, ERR_CONFLICT, "jobId", "a job with this id exists already");
	if (r < 0 || e.code || (r > 0 && making_check(&k, &e) < 0))
		return transaction_reject(tx, &e);
	if (r > 0 && k.makes_session)
		session_make(tx, c, "session", NULL, k.d.sessionId);
	if (r > 0 && created_facts(&k, tx, &e) < 0)
		return transaction_reject(tx, &e);
	jw_kstr(&tx->w, "jobId", k.d.jobId);
	jw_kstr(&tx->w, "status", r == 0 ? known.d.status : "accepted");
	jw_kuint(&tx->w, "itemCount", r == 0 ? known.d.itemCount : json_array_size(k.items));
	jw_kstr(&tx->w, "sessionId", r == 0 ? known.d.sessionId : k.d.sessionId);
	if (r > 0)
		transaction_after_commit(tx, job_next, k.d.jobId);
	transaction_commit(tx);
}

/* ---- the end ---- */

/* Records the intent. No new item starts from then on; the final event follows when nothing of the job runs. */
static void job_end(const struct job *j, const char *end_reason, const char *why, struct transaction *tx,
		    const struct caller *c)
{
	const struct job_counts_part counts = job_counts(&j->d, "", "");

	EMIT(job_progress, tx, job_scope(&j->d, c), .envelope = { .status = "cancelling", .status_reason = why },
	     .counts = json_from_writer(json_write_job_counts, &counts, 0), .status = "cancelling",
	     .endReason = end_reason);
}

/* Asks the items to end; the job ends when the last one has. */
static void end_items(struct engine *engine, const char *job_id)
{
	job_items_end(engine, job_id);
	job_next(engine, job_id);
}

/* The reply does not wait for the end of the items: job.cancelled reports that. */
void engine_cancel_job(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
		       void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	job_auto struct job j = JOB_INIT;
	struct err e = ERR_INIT;

	if (job_get(engine, param_str(params, "jobId"), c, &j, &e) == 0 && job_doc_ended(&j.d))
		err_set(&e, ERR_STATE, "job '%s' has ended: it is %s; possible: retry an item%s", j.d.jobId, j.d.status,
			strcmp(j.d.status, "cancelled") == 0 ? ", but not of a cancelled job's" : "");
	if (e.code || param_text(params, "reason", TASK_REASON_MAX, &e) < 0)
		return transaction_reject(tx, &e);
	/* Harmless when repeated: a second request only asks the items to end again. */
	if (strcmp(j.d.status, "cancelling") != 0)
		job_end(&j, "cancelled", param_str(params, "reason"), tx, c);
	transaction_after_commit(tx, end_items, j.d.jobId);
	jw_kstr(&tx->w, "jobId", j.d.jobId);
	jw_kstr(&tx->w, "status", "cancelling");
	transaction_commit(tx);
}

struct cancelled_job {
	struct engine *engine;
	const struct job *job;
};

/* Writes the ids of items that finished, were ended, and never started: the first of each, up to a limit. */
static void write_cancelled_items(struct jw *w, const void *cancelled, size_t n)
{
	struct engine *engine = ((const struct cancelled_job *)cancelled)->engine;
	const struct job *j = ((const struct cancelled_job *)cancelled)->job;
	static const char *const names[] = { "finished", "ended", "neverStarted" };
	struct buf lists[countof(names)] = { 0 };
	struct jw lw[countof(names)];
	unsigned count[countof(names)] = { 0 };
	bool more = false;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < countof(names); i++) {
		lw[i] = jw_on(&lists[i]);
		jw_arr(&lw[i]);
	}
	for (uint64_t p = 0; p * VIEW_JOB_PIECE < j->d.itemCount; p++) {
		buf_auto struct buf piece = BUF_INIT, text = BUF_INIT;
		char id[ID_SIZE], key[VIEW_JOB_ITEM_KEY_MAX];
		struct job_item_doc d;
		if (view_job_piece(engine->o.store, &j->d, p, &piece, &e) < 0)
			break;
		for (struct jiter it = jiter_on(jval_of(piece.data, piece.len)); jiter_next(&it);) {
			jval_str(jval_get(it.value, "itemId"), id, sizeof id);
			view_job_item_key(j->d.jobId, id, key);
			int r = view_read_speculative(engine->o.store, &job_item_schema, key, &text, &d, &e);
			int which = r != 0 ? 2
					   : strcmp(d.status, "completed") != 0 && strcmp(d.status, "reported") != 0;
			if (count[which]++ < IDS_SHOWN)
				jw_str(&lw[which], id);
			else
				more = true;
		}
	}
	for (size_t i = 0; i < countof(names); i++) {
		jw_arr_end(&lw[i]);
		jw_kraw(w, names[i], lists[i].data, lists[i].len);
		buf_done(&lists[i]);
	}
	if (more)
		jw_kbool(w, "truncated", true);
}

/* Records the end of the job when nothing of it runs and nothing will start. */
static void job_finish(struct engine *engine, const struct job *j)
{
	bool ending = strcmp(j->d.status, "cancelling") == 0, late = strcmp(j->d.endReason, "max_runtime") == 0;
	mem_auto char *why = jval_strdup(j->d.statusReason);
	const struct job_counts_part counts = job_counts(&j->d, "", "");
	const struct json_value counts_json = json_from_writer(json_write_job_counts, &counts, 0);
	const struct cancelled_job cancelled = { engine, j };
	const struct scope s = job_scope(&j->d, NULL);
	struct envelope envelope = { .status_reason = ending ? why : NULL };
	struct transaction *tx = transaction_new_internal(engine);

	job_progress_fact(engine, j, tx, "", "", true);
	if (ending && !late) {
		envelope.status = "cancelled";
		EMIT(job_cancelled, tx, s, .envelope = envelope, .counts = counts_json,
		     .items = json_from_writer(write_cancelled_items, &cancelled, 0));
	} else if (j->d.failed || ending) {
		envelope.status = "failed";
		EMIT(job_failed, tx, s, .envelope = envelope, .counts = counts_json,
		     .items = j->d.failedItems.type == JT_ARRAY ? json_from_jval(j->d.failedItems) : JSON_NONE,
		     .reason = late ? "max_runtime" : "items_failed");
	} else {
		envelope.status = "completed";
		EMIT(job_completed, tx, s, .envelope = envelope, .counts = counts_json);
	}
	transaction_commit(tx);
	if (j->d.taskId[0])
		task_part_over(engine, j->d.taskId);
}

/* Idempotent: runs after each end of an item, at restarts and when the task of the job is resumed. */
void job_next(struct engine *engine, const char *job_id)
{
	job_auto struct job j = JOB_INIT;
	struct err e = ERR_INIT;

	if (job_read(engine, job_id, &j, &e) != 0 || job_doc_ended(&j.d))
		return;
	/* A job that is being ended waits only for running items; otherwise every item must have an outcome. */
	if (strcmp(j.d.status, "cancelling") == 0 ? j.d.running == 0
						  : j.d.completed + j.d.failed + j.d.reported >= j.d.itemCount) {
		job_finish(engine, &j);
		return;
	}
	job_dispatch(engine, job_id);
}

void job_on_process_over(struct engine *engine, const struct process_over *x)
{
	if (x->job_id[0])
		job_next(engine, x->job_id);
}

/* ---- for tasks ---- */

bool job_open_of_task(struct engine *engine, const char *task_id, char ret_job[ID_SIZE])
{
	view_ids_auto struct view_ids jobs = VIEW_IDS_INIT;

	ret_job[0] = '\0';
	id_list_read(engine, VIEW_TASK_JOB, task_id, ID_LIST_ALL, &jobs);
	for (size_t i = 0; i < jobs.n && !ret_job[0]; i++) {
		job_auto struct job j = JOB_INIT;
		struct err e = ERR_INIT;
		if (job_read(engine, jobs.id[i], &j, &e) == 0 && !job_doc_ended(&j.d))
			id_copy(ret_job, jobs.id[i]);
	}
	return ret_job[0] != '\0';
}

bool task_jobs_open(struct engine *engine, const char *task_id)
{
	char job[ID_SIZE];

	return job_open_of_task(engine, task_id, job);
}

/* Decides the end of a job for the engine itself. The items are asked to end after the commit. */
static void end_job(struct engine *engine, const char *job_id, const char *end_reason, const char *why)
{
	job_auto struct job j = JOB_INIT;
	struct err e = ERR_INIT;

	if (job_read(engine, job_id, &j, &e) != 0 || job_doc_ended(&j.d) || strcmp(j.d.status, "cancelling") == 0)
		return;
	struct transaction *tx = transaction_new_internal(engine);
	job_end(&j, end_reason, why, tx, NULL);
	transaction_after_commit(tx, end_items, job_id);
	transaction_commit(tx);
}

void task_jobs_end(struct engine *engine, const char *task_id, const char *reason)
{
	view_ids_auto struct view_ids jobs = VIEW_IDS_INIT;

	id_list_read(engine, VIEW_TASK_JOB, task_id, ID_LIST_ALL, &jobs);
	for (size_t i = 0; i < jobs.n; i++)
		end_job(engine, jobs.id[i], "cancelled", reason);
}

void task_resume_jobs(struct engine *engine, const char *task_id)
{
	view_ids_auto struct view_ids jobs = VIEW_IDS_INIT;

	id_list_read(engine, VIEW_TASK_JOB, task_id, ID_LIST_ALL, &jobs);
	for (size_t i = 0; i < jobs.n; i++) {
		job_launch(engine, jobs.id[i]); /* items that could not be launched during the pause */
		job_next(engine, jobs.id[i]);
	}
	if (jobs.n)
		job_wake(engine, engine_real(engine)); /* their time limits apply again */
}

/* ---- time and restarts ---- */

/* Pauses of its task move it. */
static int job_deadline(struct engine *engine, const struct job *j, uint64_t *ret, struct err *e)
{
	const uint64_t before = view_counted(j->d.taskPausedMs);
	uint64_t paused_ms;

	if (view_task_paused_ms(engine->o.store, j->d.taskId, engine_real(engine), &paused_ms, e) < 0)
		return -1;
	*ret = task_add_pauses(task_after_ms(j->d.startedAt, j->d.maxRuntimeMs),
			       paused_ms > before ? paused_ms - before : 0);
	return 0;
}

/* Checks all live jobs, but only when one of their deadlines or a retry of a launch is due. */
uint64_t job_tick(struct engine *engine, uint64_t now_ns)
{
	view_ids_auto struct view_ids live = VIEW_IDS_INIT;

	if (now_ns < engine->work->job_poll_ns || engine->stopping)
		return engine->work->job_poll_ns;
	/* The checks below set the next time again, with job_wake. */
	engine->work->job_poll_ns = UINT64_MAX;
	id_list_read(engine, VIEW_LIVE_JOB, NULL, ID_LIST_ALL, &live);
	for (size_t i = 0; i < live.n; i++) {
		job_auto struct job j = JOB_INIT;
		struct err e = ERR_INIT;
		uint64_t now = engine_real(engine), end;

		if (job_read(engine, live.id[i], &j, &e) != 0 || job_doc_ended(&j.d) ||
		    strcmp(j.d.status, "cancelling") == 0)
			continue;
		if (job_deadline(engine, &j, &end, &e) < 0) {
			log_error("check job %s: %s", live.id[i], e.message);
			job_wake(engine, now + JOB_UNREADABLE_US);
			continue;
		}
		if (end <= now) {
			end_job(engine, live.id[i], "max_runtime", "the job's time limit was reached");
			continue;
		}
		job_launch(engine, live.id[i]); /* items that could not be launched for lack of resources */
		uint64_t due = job_next_due(engine, live.id[i]);
		if (due <= now)
			job_dispatch(engine, live.id[i]);
		else if (due != UINT64_MAX)
			job_wake(engine, due);
		if (end != UINT64_MAX && !task_is_paused(engine, j.d.taskId))
			job_wake(engine, end);
	}
	return engine->work->job_poll_ns;
}

void job_recover(struct engine *engine)
{
	view_ids_auto struct view_ids live = VIEW_IDS_INIT;

	id_list_read(engine, VIEW_LIVE_JOB, NULL, ID_LIST_ALL, &live);
	for (size_t i = 0; i < live.n; i++) {
		job_auto struct job j = JOB_INIT;
		struct err e = ERR_INIT;

		/* Starts that were recorded before the crash and never became a process. */
		job_launch(engine, live.id[i]);
		if (job_read(engine, live.id[i], &j, &e) == 0 && strcmp(j.d.status, "cancelling") == 0)
			end_items(engine, live.id[i]);
		else
			job_next(engine, live.id[i]);
	}
	if (live.n)
		job_wake(engine, engine_real(engine));
}

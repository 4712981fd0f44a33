/* Requests about one item: retry_job_item and report_job_item. */

#include "runtime/engine/work/job_private.h"
#include "runtime/view/view_documents.h"

/* A request about one item of a job. */
struct item_request {
	struct job job;
	json_t *given;            /* the item as it was submitted */
	struct job_item_doc item; /* as it would be, if it was never started */
	struct buf text;
};

static void item_request_done(struct item_request *r)
{
	buf_done(&r->text);
	job_done(&r->job);
	json_decref(r->given);
}

#define item_request_auto __attribute__((cleanup(item_request_done)))
#define ITEM_REQUEST_INIT                         \
	{                                         \
		.job = JOB_INIT, .text = BUF_INIT \
	}

static int item_request_read(struct engine *engine, const json_t *params, const struct caller *c,
			     struct item_request *ret, struct err *e)
{
	const char *id = param_str(params, "itemId");
	const struct job_doc *j = &ret->job.d;
	uint64_t index = 0;

	if (job_get(engine, param_str(params, "jobId"), c, &ret->job, e) < 0)
		return -1;
	if (strcmp(j->status, "cancelled") == 0 || strcmp(j->status, "cancelling") == 0)
		return err_set(e, ERR_STATE, "job '%s' is %s: its items can no longer change", j->jobId, j->status);
	ret->given = job_item_find(engine, &ret->job, id, &index, e);
	int r = ret->given ? job_item_read(engine, j->jobId, id, &ret->text, &ret->item, e) : -1;
	if (r > 0) {
		view_clear(&job_item_schema, &ret->item);
		id_copy(ret->item.itemId, id);
		id_copy(ret->item.status, "pending");
		ret->item.index = index;
		ret->item.attemptCount = 0;
	}
	return r < 0 ? -1 : 0;
}

/* Makes the item pending again, also in a job that has ended: the job then runs again. */
void engine_retry_job_item(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
			   void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	item_request_auto struct item_request r = ITEM_REQUEST_INIT;
	const struct job_item_doc *item = &r.item;
	struct err e = ERR_INIT;

	if (item_request_read(engine, params, c, &r, &e) == 0 &&
	    (strcmp(item->status, "running") == 0 || strcmp(item->status, "pending") == 0))
		err_set(&e, ERR_STATE, "item '%s' is %s; only an item that has ended can be retried", item->itemId,
			item->status);
	if (e.code)
		return transaction_reject(tx, &e);
	const struct job_counts_part counts = job_counts(&r.job.d, item->status, "");
	const char *const requeued[] = { item->itemId };
	EMIT(job_progress, tx, job_item_scope(&r.job, c, item->itemId, NULL),
	     .envelope = { .status = "running", .status_reason = param_str(params, "reason") },
	     .counts = json_from_writer(json_write_job_counts, &counts, 0), .status = "running",
	     .requeued = json_from_strings(requeued, 1));
	transaction_after_commit(tx, job_step_due, r.job.d.jobId);
	jw_kstr(&tx->w, "jobId", r.job.d.jobId);
	jw_kstr(&tx->w, "itemId", item->itemId);
	jw_kstr(&tx->w, "status", "pending");
	jw_kuint(&tx->w, "attempt", item->attemptCount + 1);
	transaction_commit(tx);
}

/* May a client report this status of the item? */
static int check_report(const struct item_request *r, const json_t *params, struct err *e)
{
	const json_t *error = json_object_get(params, "error");
	const struct job_item_doc *item = &r->item;

	if (job_item_supervised(&r->job, r->given))
		return err_set(e, ERR_STATE,
			       "item '%s' is run by the supervisor, which observes its outcome; it cannot be reported",
			       item->itemId);
	if (strcmp(item->status, "completed") == 0 || strcmp(item->status, "reported") == 0 ||
	    strcmp(item->status, "failed") == 0)
		return err_set(e, ERR_STATE, "item '%s' is %s; retry_job_item makes it pending again", item->itemId,
			       item->status);
	if (strcmp(param_str(params, "status"), "running") == 0 && strcmp(item->status, "running") == 0)
		return err_set(e, ERR_CONFLICT, "item '%s' is being worked on already", item->itemId);
	if (error && !json_is_string(error) && !json_is_object(error))
		return err_field(e, "error", "expected a string, or an object with message and category");
	if (param_small(params, "error", TASK_JSON_MAX, e) < 0)
		return -1;
	return param_text(params, "summary", TASK_TEXT_MAX, e);
}

/* The end that a client reports, if it reports one. */
static void reported_fact(const struct item_request *r, const json_t *params, const json_t *refs,
			  struct transaction *tx)
{
	const json_t *error = json_object_get(params, "error");
	const char *status = param_str(params, "status"), *category = param_str(error, "category"),
		   *message = json_is_string(error) ? json_string_value(error) : param_str(error, "message");

	if (strcmp(status, "failed") == 0) {
		const struct attempt_end end = { .status = "failed",
						 .category = category ? category : "reported",
						 .message = message ? message : "",
						 .exit_code = -1,
						 .may_retry = !json_is_false(json_object_get(params, "retryable")),
						 .output_refs = refs };
		job_item_failed(tx->engine, &r->job, &r->item, tx, &tx->caller, &end);
	} else if (strcmp(status, "running") != 0) {
		const struct job_item_result result = { .status = status,
							.output_refs = refs,
							.summary = param_str(params, "summary") };
		job_item_completed(&r->job, &r->item, tx, &tx->caller, &result);
	}
}

/* A client claims an item with status running, or reports its end at once. */
void engine_report_job_item(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
			    void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	item_request_auto struct item_request r = ITEM_REQUEST_INIT;
	struct job_item_doc *item = &r.item;
	json_auto_t *refs = NULL;
	struct err e = ERR_INIT;

	if (item_request_read(engine, params, c, &r, &e) < 0 || check_report(&r, params, &e) < 0 ||
	    (json_object_get(params, "outputRefs") && !(refs = param_refs(params, "outputRefs", "outputRef", &e))))
		return transaction_reject(tx, &e);
	if (strcmp(item->status, "running") != 0 && job_item_claimed(&r.job, item, tx, c, &e) < 0)
		return transaction_reject(tx, &e);
	reported_fact(&r, params, refs, tx);
	transaction_after_commit(tx, job_step_due, r.job.d.jobId);
	jw_kstr(&tx->w, "jobId", r.job.d.jobId);
	jw_kstr(&tx->w, "itemId", item->itemId);
	jw_kstr(&tx->w, "status", param_str(params, "status"));
	jw_kuint(&tx->w, "attempt", item->attemptCount);
	transaction_commit(tx);
}

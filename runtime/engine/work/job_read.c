/* Reads jobs from their documents, and records their progress. */

#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/ref.h"
#include "runtime/engine/work/job_private.h"
#include "runtime/view/view.h"

#define POLL_MAX_NS (60ull * 1000000000)
#define PROGRESS_MS 1000u

void job_done(struct job *j) { buf_done(&j->text); }

int job_read(struct engine *g, const char *id, struct job *ret, struct err *e)
{
	return view_read_speculative(g->o.store, &job_schema, id, &ret->text, &ret->d, e);
}

int job_get(struct engine *g, const char *id, const struct caller *c, struct job *ret, struct err *e)
{
	int r = job_read(g, id, ret, e);

	if (r < 0)
		return -1;
	/* A job of another uid is reported as not found, so that its existence is not disclosed. */
	if (r > 0 || (c->uid != 0 && c->uid != ret->d.uid)) {
		err_set(e, ERR_NOT_FOUND, "no job '%.80s'", id);
		snprintf(e->field, sizeof e->field, "jobId");
		return -1;
	}
	return 0;
}

struct scope job_scope(const struct job_doc *d, const struct caller *c)
{
	return (struct scope){ .uid = (uint32_t)d->uid,
			       .session = d->sessionId,
			       .job = d->jobId,
			       .task = d->taskId,
			       .request = c ? c->request_id : NULL,
			       .trace = c ? c->trace_id : NULL };
}

static const char *const count_names[] = { "running", "completed", "failed", "reported" };

/* The document does not include the change that is being written, so it is added here. */
static void count_all(const struct job_doc *d, const char *from, const char *to, uint64_t ret[4])
{
	const uint64_t now[4] = { d->running, d->completed, d->failed, d->reported };

	for (size_t i = 0; i < countof(count_names); i++) {
		ret[i] = now[i] + (strcmp(to, count_names[i]) == 0);
		ret[i] -= ret[i] > 0 && strcmp(from, count_names[i]) == 0;
	}
}

struct job_counts_part job_counts(const struct job_doc *d, const char *from, const char *to)
{
	uint64_t n[4], all;

	count_all(d, from, to, n);
	all = n[0] + n[1] + n[2] + n[3];
	return (struct job_counts_part){ .total = d->itemCount,
					 .pending = d->itemCount > all ? d->itemCount - all : 0,
					 .running = n[0],
					 .completed = n[1],
					 .failed = n[2],
					 .reported = n[3] };
}

/* The progress of a task counts the items of its job. */
static void task_counters(struct engine *g, const struct job_doc *d, const char *from, const char *to,
			  struct transaction *tx)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;
	uint64_t n[4];

	if (!d->taskId[0] || task_read(g, d->taskId, &t, &e) != 0 || task_status_ended(t.status))
		return;
	count_all(d, from, to, n);
	struct scope s = task_scope(&t.d, NULL);
	s.job = d->jobId;
	EMIT(task_progress, tx, s,
	     .counters = JSON_OBJECT(item_counters, .items = d->itemCount, .itemsCompleted = n[1] + n[3],
				     .itemsFailed = n[2], .itemsRunning = n[0]),
	     .derived = true);
}

void job_progress_fact(struct engine *g, const struct job *j, struct transaction *tx, const char *from, const char *to,
		       bool always)
{
	const struct job_counts_part counts = job_counts(&j->d, from, to);

	/* Limits the rate; the last event of a job is always written. */
	if (!always && engine_real(g) < j->d.progressAt + PROGRESS_MS * 1000)
		return;
	EMIT(job_progress, tx, job_scope(&j->d, NULL), .counts = json_from_writer(json_write_job_counts, &counts, 0),
	     .cursor = opt_int(j->d.cursor));
	task_counters(g, &j->d, from, to, tx);
}

/* An item has ended: the job continues (row DUE). */
void job_step_due(struct engine *g, const char *job_id) { modules_due(g, DUE_JOB_STEP, job_id); }

void job_wake(struct engine *g, uint64_t real_us)
{
	uint64_t now = engine_real(g), in_ns = real_us > now ? (real_us - now) * 1000 : 0;

	/* The real clock may be set: check at least this often. */
	if (in_ns > POLL_MAX_NS)
		in_ns = POLL_MAX_NS;
	/* An earlier check is already planned. */
	if (engine_now(g) + in_ns >= g->work->job_poll_ns)
		return;
	g->work->job_poll_ns = engine_now(g) + in_ns;
	engine_wake(g, g->work->job_poll_ns);
}

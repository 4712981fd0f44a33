/*
 * A task that this node has claimed, from the claim to the written result.
 *
 *   preparing → running → ended        the daemon's task ended by itself
 *                  └→ ending → ended   cancelled, its lease is over, or another node has taken it away
 *
 * Every write (write_document) is from the last known revision or, after a conflict, from the current one if
 * that still has this claim. The only other writer of a claimed task is a client that adds a cancel request.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "supervisor/fleet/fleet_node.h"

#include <string.h>

#define KEEP_MS (FLEET_KEEP_MS / 3)
#define CHECK_MS 1000u
#define RETRY_MS 500u
#define BACKOFF_MS 1000u

static uint64_t lease_end(const struct fleet_run *r) { return r->renewed_at + r->task.spec.lease_ms / 3 * 2; }

void fleet_run_free(struct fleet_run *r)
{
	fleet_task_done(&r->task);
	free(r->local.result);
	free(r);
}

static struct fleet_run *add_run(struct fleet_node *n, struct fleet_task *t, uint64_t revision,
				 const struct fleet_message *m)
{
	struct fleet_run *r = mem_zalloc(1, sizeof(*r));

	r->task = *t;
	*t = (struct fleet_task){ 0 };
	r->revision = revision;
	r->has_message = m != NULL;
	if (m)
		r->message = *m;
	fleet_local_id(&r->task, r->local_id);
	r->next = n->runs;
	n->runs = r;
	return r;
}

void fleet_run_begin(struct fleet_node *n, struct fleet_task *t, uint64_t revision, const struct fleet_message *m,
		     uint64_t sent_at)
{
	struct fleet_run *r = add_run(n, t, revision, m);

	r->token = r->task.token = revision;
	r->renewed_at = sent_at;
	r->renew_at = sent_at + r->task.spec.lease_ms / 3;
	r->keep_at = sent_at + KEEP_MS;
	n->claims++;
}

static void end_run(struct fleet_node *n, struct fleet_run *r, const char *reason)
{
	struct err e = ERR_INIT;

	if (r->phase == FLEET_RUN_PREPARING) { /* nothing to end */
		n->daemon->ops->forget(n->daemon, r->local_id);
		r->phase = FLEET_RUN_ENDED;
		r->unstarted = true;
		return;
	}
	r->phase = FLEET_RUN_ENDING;
	r->check_at = 0;
	r->end_reason = reason;
	if (n->daemon->ops->cancel(n->daemon, r->local_id, reason, &e) < 0)
		log_warning("cannot end task '%s': %s", r->task.spec.id, e.message);
}

int fleet_run_adopt(struct fleet_node *n, struct fleet_task *t, uint64_t revision, const struct fleet_message *m,
		    uint64_t now)
{
	struct fleet_local l = { 0 };
	struct err e = ERR_INIT;
	char local_id[FLEET_LOCAL_ID];

	fleet_local_id(t, local_id);
	int known = n->daemon->ops->status(n->daemon, local_id, &l, &e);
	if (known != 0)
		return known;
	if (strcmp(l.submitter_key, t->spec_text.key) != 0 || fleet_task_verify(t, &e) < 0) {
		free(l.result);
		return 1; /* the document is not that of the task that was started */
	}
	struct fleet_run *r = add_run(n, t, revision, m);
	r->record_sent = true;
	r->token = r->task.token = l.token;
	free(l.result);
	r->phase = FLEET_RUN_RUNNING;
	/* When the last renewal was is unknown. The daemon enforces the lease; the first thing is another one. */
	r->renewed_at = now;
	r->renew_at = r->check_at = now;
	r->keep_at = now + KEEP_MS;
	if (!l.started) { /* it will not be started */
		r->unsure = true;
		end_run(n, r, "not_started");
		return 0;
	}
	log_info("task '%s' continues", r->task.spec.id);
	return 0;
}

/* ---- the document ---- */

/* Reads the document after a conflict. 1 = the claim is no longer ours. */
static int refresh(struct fleet_node *n, struct fleet_run *r, struct err *e)
{
	struct buf buf_auto text = BUF_INIT;
	struct fleet_task now;
	uint64_t revision = 0;
	int found = n->port->ops->get_task(n->port, r->task.spec.id, &text, &revision, e);

	if (found != 0)
		return found;
	if (fleet_task_parse(text.data, text.len, &now, e) < 0)
		return 1;
	bool ours = now.state == FLEET_RUNNING && strcmp(now.node, n->config->node) == 0 &&
		    strcmp(now.claim, r->task.claim) == 0;
	if (ours) {
		struct fleet_signed cancel = r->task.cancel, retry = r->task.retry;

		r->task.cancel = now.cancel;
		r->task.retry = now.retry;
		now.cancel = cancel;
		now.retry = retry;
		r->revision = revision;
	}
	fleet_task_done(&now);
	return ours ? 0 : 1;
}

typedef int (*compose_fn)(struct fleet_node *n, struct fleet_run *r, struct buf *ret, struct err *e);

/* Writes what `compose` makes of the document as it is now. 1 = another has taken the task away. */
static int write_document(struct fleet_node *n, struct fleet_run *r, compose_fn compose, struct err *e)
{
	for (int tries = 0; tries < 3; tries++) {
		struct buf buf_auto text = BUF_INIT;
		uint64_t revision = 0;

		if (compose(n, r, &text, e) < 0)
			return -1;
		int done = n->port->ops->update_task(n->port, r->task.spec.id, &text, r->revision, &revision, e);
		if (done == 0)
			r->revision = revision;
		if (done != 1)
			return done;
		int ours = refresh(n, r, e);
		if (ours != 0)
			return ours;
	}
	return err_set(e, ERR_UNAVAILABLE, "the document of task '%s' keeps changing", r->task.spec.id);
}

static int compose_claim(struct fleet_node *n, struct fleet_run *r, struct buf *ret, struct err *e)
{
	fleet_task_write(&r->task, ret);
	return 0;
}

/* ---- running ---- */

static void take_away(struct fleet_node *n, struct fleet_run *r)
{
	log_warning("task '%s' was taken away from this node (token %llu): its processes are ended", r->task.spec.id,
		    (unsigned long long)r->token);
	r->taken = true;
	n->taken_away++;
	end_run(n, r, "claim_taken");
}

static void renew(struct fleet_node *n, struct fleet_run *r, uint64_t now, uint64_t real)
{
	struct err e = ERR_INIT;

	r->renew_at = now + RETRY_MS;
	r->task.heartbeat_at = real;
	int done = write_document(n, r, compose_claim, &e);
	/* Anyone may have written the document: an attempt that runs must also have its record. */
	if (done == 0 && r->phase == FLEET_RUN_RUNNING)
		done = fleet_record_held(n, r, &e);
	if (done == 1)
		return take_away(n, r);
	if (done < 0)
		return;
	/* A cancel request comes as a conflict; it is in the document now. */
	r->renewed_at = now;
	r->renew_at = now + r->task.spec.lease_ms / 3;
	if (r->phase != FLEET_RUN_RUNNING)
		return;
	e = ERR_INIT;
	if (n->daemon->ops->renew(n->daemon, r->local_id, lease_end(r), &e) < 0)
		r->check_at = 0; /* it has ended, or its lease is over for the daemon */
}

/*
 * The daemon did not start it. What another node may be able to do goes back; what the request itself forbids fails.
 * Without an answer it may run all the same: it is ended, and only what the daemon then says counts.
 */
static void refuse_run(struct fleet_node *n, struct fleet_run *r, const struct err *e)
{
	log_warning("task '%s' cannot start: %s", r->task.spec.id, e->message);
	r->phase = FLEET_RUN_RUNNING; /* for all that is known */
	r->unsure = true;
	end_run(n, r, "not_started");
	snprintf(r->local.status, sizeof(r->local.status), "failed");
	snprintf(r->local.reason, sizeof(r->local.reason), "%s%s%.400s", e->field, e->field[0] ? ": " : "", e->message);
	r->local.exit_code = -1;
	if (e->code == ERR_UNAVAILABLE || e->code == ERR_STATE) /* the latter: its lease was over before the start */
		return;
	r->phase = FLEET_RUN_ENDED;
	r->unstarted = e->code == ERR_EXHAUSTED || e->code == ERR_EXPIRED;
}

/* Whether the record of the task permits this attempt. What it does not permit ends here, with the reason. */
static bool admit_run(struct fleet_node *n, struct fleet_run *r, uint64_t now)
{
	struct err e = ERR_INIT;

	if (r->admitted || now < r->admit_at)
		return r->admitted;
	int done = fleet_record_admit(n, r, now, &e);
	r->admitted = done == 0;
	r->admit_at = done == 1 ? now + RETRY_MS : 0;
	if (done < 0) {
		log_warning("task '%s' is not started: %s", r->task.spec.id, e.message);
		snprintf(r->local.reason, sizeof(r->local.reason), "not started: %.400s", e.message);
		r->phase = FLEET_RUN_ENDED;
		r->refused = true;
	}
	return r->admitted;
}

/* Claimed → created and durable → recorded → started. Any failure before the start leaves the task as if not claimed.
 */
static void prepare_run(struct fleet_node *n, struct fleet_run *r, uint64_t now)
{
	if (!admit_run(n, r, now))
		return;
	const struct fleet_submitter *s = fleet_node_submitter(n, r->task.spec_text.key);
	const struct fleet_start start = { .local_id = r->local_id,
					   .task = &r->task,
					   .node = n->config->node,
					   .submitter = s ? s->name : "",
					   .token = r->token,
					   .lease_until = lease_end(r) };
	struct err e = ERR_INIT;
	int done = n->daemon->ops->prepare(n->daemon, &start, &e);

	if (done == 1)
		return;
	if (done == 0 && (n->daemon->ops->create(n->daemon, &start, &e) < 0 || fleet_record_start(n, r, &e) < 0 ||
			  n->daemon->ops->start(n->daemon, r->local_id, &e) < 0))
		done = -1;
	if (done < 0)
		return refuse_run(n, r, &e);
	r->phase = FLEET_RUN_RUNNING;
	r->renew_at = now; /* writes the token to the document */
	r->check_at = now;
}

static void check_run(struct fleet_node *n, struct fleet_run *r, uint64_t now)
{
	struct err e = ERR_INIT;
	struct fleet_local l = { 0 };

	r->check_at = now + CHECK_MS;
	int known = n->daemon->ops->status(n->daemon, r->local_id, &l, &e);
	if (known < 0)
		return;
	if (known == 0 && !l.ended) { /* the request to end it may have been lost */
		if (r->phase == FLEET_RUN_ENDING)
			(void)n->daemon->ops->cancel(n->daemon, r->local_id, r->end_reason, &e);
		return;
	}
	r->phase = FLEET_RUN_ENDED;
	r->check_at = now; /* the result is written in this tick */
	if (r->unsure && (known == 1 || !l.started)) {
		r->unstarted = true;
		free(l.result);
		return;
	}
	free(r->local.result);
	r->local = l;
	if (known == 1) { /* retention removed it, or the store was replaced */
		snprintf(r->local.status, sizeof(r->local.status), "lost");
		snprintf(r->local.reason, sizeof(r->local.reason), "the node no longer knows it");
		r->local.exit_code = -1;
	}
}

/* ---- the end ---- */

static uint64_t count_attempts(const struct fleet_task *t, const char *state)
{
	uint64_t count = 0;
	size_t i;
	json_t *a;

	json_array_foreach (t->attempts, i, a)
		count += json_text_is(a, "state", state);
	return count;
}

void fleet_attempt_ended(struct fleet_task *t, enum fleet_state how, int exit_code, const char *reason)
{
	fleet_task_note_attempt(t, fleet_state_name(how), exit_code, reason);
	snprintf(t->reason, sizeof(t->reason), "%.*s", (int)sizeof(t->reason) - 1, reason);
	t->state = how;
	if ((how == FLEET_FAILED && count_attempts(t, "failed") <= t->spec.retries) ||
	    (how == FLEET_LOST && count_attempts(t, "lost") <= t->spec.retry_lost))
		t->state = FLEET_QUEUED;
}

static enum fleet_state outcome(const struct fleet_run *r)
{
	const char *status = r->local.status;

	if (strcmp(status, "completed") == 0)
		return FLEET_COMPLETED;
	if (r->cancelled)
		return FLEET_CANCELLED;
	if (strcmp(status, "lost") == 0 || strcmp(r->local.reason, "lease_over") == 0 ||
	    (r->unsure && strcmp(status, "cancelled") == 0))
		return FLEET_LOST;
	return strcmp(status, "cancelled") == 0 ? FLEET_CANCELLED : FLEET_FAILED;
}

/* Of an attempt that was taken away: what it has done before it was killed counts, if that is known. */
static enum fleet_state end_of_taken(const struct fleet_run *r)
{
	if (r->unstarted)
		return FLEET_QUEUED;
	if (strcmp(r->local.status, "completed") == 0)
		return FLEET_COMPLETED;
	return r->cancelled ? FLEET_CANCELLED : FLEET_LOST;
}

static void conclude(struct fleet_run *r, struct fleet_task *t)
{
	enum fleet_state how = outcome(r);

	if (r->refused) { /* for a person to look at: the record and the document differ */
		t->state = FLEET_LOST;
		t->attempt = r->record.attempt;
		snprintf(t->reason, sizeof(t->reason), "%.*s", (int)sizeof(t->reason) - 1, r->local.reason);
	} else if (r->unstarted && r->cancelled) {
		t->state = FLEET_CANCELLED;
		snprintf(t->reason, sizeof(t->reason), "cancelled before it started");
	} else if (r->unstarted) { /* the attempt does not count */
		t->state = FLEET_QUEUED;
		t->attempt--;
		snprintf(t->reason, sizeof(t->reason), "%.*s", (int)sizeof(t->reason) - 1, r->local.reason);
	} else {
		free(t->result);
		t->result = mem_strdup(r->local.result);
		if (how == FLEET_LOST)
			fleet_attempt_ended(t, how, -1, "the lease was over: the node could not renew it");
		else
			fleet_attempt_ended(t, how, r->local.exit_code, r->local.reason);
	}
}

/* A cancel request that came meanwhile counts, and stays in the document. */
static int compose_end(struct fleet_node *n, struct fleet_run *r, struct buf *ret, struct err *e)
{
	struct buf buf_auto text = BUF_INIT;
	struct fleet_task ended;

	r->cancelled |= fleet_task_cancelled(&r->task, fleet_node_is_operator, n);
	fleet_task_write(&r->task, &text);
	if (fleet_task_parse(text.data, text.len, &ended, e) < 0) { /* a copy */
		log_warning("the result of task '%s' cannot be written: %s", r->task.spec.id, e->message);
		r->taken = true; /* what others have added to the document makes it too large */
		return -1;
	}
	conclude(r, &ended);
	r->ended_as = ended.state;
	fleet_task_write(&ended, ret);
	fleet_task_done(&ended);
	return 0;
}

/*
 * Records the end, writes the result, then acknowledges. A claim that was taken away is only forgotten. Until the write
 * succeeds the run stays: the document is written from the claim's last revision or not at all.
 */
static void finish_run(struct fleet_node *n, struct fleet_run *r, uint64_t now)
{
	struct err e = ERR_INIT;
	int done = 1;

	if (r->taken) {
		(void)fleet_record_end(n, r, end_of_taken(r));
	} else {
		if (now < r->check_at || !n->port->ops->connected(n->port))
			return;
		r->check_at = now + RETRY_MS;
		if (fleet_record_end(n, r, r->unstarted ? FLEET_QUEUED : outcome(r)) < 0)
			return;
		done = write_document(n, r, compose_end, &e);
		if (done < 0)
			return;
		if (done == 0 && r->has_message) {
			if (r->ended_as == FLEET_QUEUED)
				(void)n->port->ops->put_back(n->port, &r->message, BACKOFF_MS, &e);
			else
				(void)n->port->ops->acknowledge(n->port, &r->message, &e);
		}
		if (done == 0)
			log_info("task '%s' is %s (attempt %llu, token %llu)", r->task.spec.id,
				 fleet_state_name(r->ended_as), (unsigned long long)r->task.attempt,
				 (unsigned long long)r->token);
	}
	if (done == 1)
		log_warning("the result of task '%s' is not written: the claim is no longer this node's (token %llu)",
			    r->task.spec.id, (unsigned long long)r->token);
	n->finished++;
	fleet_task_done(&r->task); /* marks it for removal */
}

void fleet_run_tick(struct fleet_node *n, struct fleet_run *r, uint64_t now, uint64_t real)
{
	struct err e = ERR_INIT;
	bool connected = n->port->ops->connected(n->port);

	if (r->phase == FLEET_RUN_PREPARING)
		prepare_run(n, r, now);
	if ((r->phase == FLEET_RUN_RUNNING || r->phase == FLEET_RUN_ENDING) && (n->checks || now >= r->check_at))
		check_run(n, r, now);
	if (connected && r->has_message && now >= r->keep_at) {
		(void)n->port->ops->keep(n->port, &r->message, &e);
		r->keep_at = now + KEEP_MS;
	}
	/* A result that waits for the bus keeps the claim, too: it must not be declared lost meanwhile. */
	if (connected && !r->taken && now >= r->renew_at)
		renew(n, r, now, real);
	if (r->phase <= FLEET_RUN_RUNNING && !r->cancelled &&
	    (r->cancel_requested || fleet_task_cancelled(&r->task, fleet_node_is_operator, n))) {
		r->cancelled = true;
		end_run(n, r, "cancelled by its submitter");
	}
	if (r->phase <= FLEET_RUN_RUNNING && now >= lease_end(r)) {
		log_warning("task '%s': the lease could not be renewed; its processes are ended", r->task.spec.id);
		snprintf(r->local.reason, sizeof(r->local.reason), "lease_over");
		end_run(n, r, "lease_over");
	}
	if (r->phase == FLEET_RUN_ENDED)
		finish_run(n, r, now);
}

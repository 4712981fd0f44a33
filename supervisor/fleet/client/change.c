/*
 * `fleet cancel`, `retry` and `prune`. The first two are signed requests in the task's document. Others write it, too
 * (the node renews its claim), so a write that finds another revision reads again and repeats.
 */

#include "supervisor/fleet/client/change.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/fleet/client/client.h"
#include "supervisor/fleet/client/submit.h"

#define TRIES 50

/* What is known of a node's answer, over all tries of one change. */
struct permission {
	bool accepted, unconfirmed;
	struct err answer;
};

/* Changes the document; 1: leaves it as it is. */
typedef int (*change_fn)(struct connection *x, struct fleet_task *t, struct permission *c, struct err *e);

/* The task as it is stored now in *ret. Returns what `fn` did. */
static int change_task(struct connection *x, const char *id, change_fn fn, struct permission *c,
		       struct fleet_entry *ret, struct err *e)
{
	for (int i = 0; i < TRIES; i++) {
		buf_auto struct buf text = BUF_INIT;
		fleet_entry_auto struct fleet_entry t = { 0 };
		uint64_t revision;
		int r = connection_get(x, id, &t, e);

		if (r)
			return r < 0 ? -1 : err_set(e, ERR_NOT_FOUND, "there is no task '%s'", id);
		const int changed = fn(x, &t.task, c, e);
		if (changed < 0)
			return -1;
		if (changed == 0) {
			fleet_task_write(&t.task, &text);
			r = x->port->ops->update_task(x->port, id, &text, t.revision, &revision, e);
			if (r < 0)
				return -1;
			if (r == 1)
				continue;
		}
		*ret = t;
		t = (struct fleet_entry){ 0 };
		return changed;
	}
	return err_set(e, ERR_CONFLICT, "the document of task %s changes all the time", id);
}

static bool is_own(const struct connection *x, const struct fleet_task *t)
{
	return strcmp(x->settings.key, t->spec_text.key) == 0;
}

/* Tells the node; the request in the document has the same effect at its next renewal. */
static int ask_to_cancel(struct connection *x, const struct fleet_task *t, struct err *e)
{
	buf_auto struct buf header = BUF_INIT, bytes = BUF_INIT;

	return connection_ask(x, t, "cancel", NULL, &header, &bytes, e);
}

/*
 * Only the node knows whether this key may cancel a task of another: it is asked before anything is written, and
 * nothing is if it rejects the request. If it does not say, a request of the submitter stays, which it will accept.
 */
static int add_cancel(struct connection *x, struct fleet_task *t, struct permission *c, struct err *e)
{
	c->unconfirmed = false;
	if (fleet_state_ended(t->state))
		return 1;
	if (!is_own(x, t) && t->state == FLEET_RUNNING && !c->accepted) {
		c->answer = ERR_INIT;
		c->accepted = ask_to_cancel(x, t, &c->answer) == 0;
		if (!c->accepted && c->answer.code == ERR_NOT_ALLOWED)
			return err_set(e, ERR_NOT_ALLOWED,
				       "task %s was not cancelled: %s (only its submitter or a key with \"operator\": "
				       "true in fleet.submitters of the node can cancel it)",
				       t->spec.id, c->answer.message);
		c->unconfirmed = !c->accepted;
		if (c->unconfirmed && fleet_task_cancelled(t, NULL, NULL))
			return 1;
	}
	fleet_signed_done(&t->cancel);
	if (fleet_request_make(x->settings.seed, "cancel", t->spec.id, NULL, &t->cancel, e) < 0)
		return -1;
	if (t->state == FLEET_QUEUED) {
		t->state = FLEET_CANCELLED;
		snprintf(t->reason, sizeof(t->reason), "cancelled before it started");
	}
	return 0;
}

/* The node has not confirmed the request. Returns 2. */
static int fail_unconfirmed(const char *id, const struct permission *c, const char *effect, bool kept, struct err *e)
{
	err_set(e, ERR_UNAVAILABLE,
		"whether task %s will %s is not known: it was submitted by another key, and its node did not confirm "
		"the request (%s); %s",
		id, effect, c->answer.message[0] ? c->answer.message : "it does not answer",
		kept ? "a request of its submitter to cancel it is stored already, and was left as it is"
		     : "the request is stored, and the node ignores it unless this key is one of its operators");
	return 2;
}

int change_cancel(struct connection *x, const char *id, struct err *e)
{
	fleet_entry_auto struct fleet_entry t = { 0 };
	struct permission c = { 0 };
	struct err ignored = ERR_INIT;
	const int r = change_task(x, id, add_cancel, &c, &t, e);

	if (r < 0)
		return -1;
	if (r == 1 && fleet_state_ended(t.task.state)) {
		if (c.accepted && t.task.state == FLEET_CANCELLED) /* before the request was stored */
			return 0;
		err_set(e, ERR_STATE, "task %s had ended already: %s", id, fleet_state_name(t.task.state));
		return 1;
	}
	if (c.unconfirmed)
		return fail_unconfirmed(id, &c, "be cancelled", r == 1, e);
	if (t.task.state == FLEET_RUNNING && is_own(x, &t.task))
		(void)ask_to_cancel(x, &t.task, &ignored);
	return 0;
}

/*
 * Another key's task: only the node where it ran knows whether this key may act on it, and says so in reply to any
 * request. One that nodes ignore would only replace the reason why the task ended.
 */
static int ask_to_retry(struct connection *x, const struct fleet_task *t, struct permission *c, struct err *e)
{
	buf_auto struct buf header = BUF_INIT, bytes = BUF_INIT;

	c->answer = ERR_INIT;
	c->accepted = connection_ask(x, t, "output", "\"limit\":1", &header, &bytes, &c->answer) == 0;
	c->unconfirmed = !c->accepted;
	if (c->answer.code != ERR_NOT_ALLOWED)
		return 0;
	return err_set(e, ERR_NOT_ALLOWED,
		       "task %s was not queued again: %s (only its submitter or a key with \"operator\": true in "
		       "fleet.submitters of the nodes can retry it)",
		       t->spec.id, c->answer.message);
}

/* One more attempt than were begun. */
static int add_retry(struct connection *x, struct fleet_task *t, struct permission *c, struct err *e)
{
	mem_auto char *args = mem_printf("{\"attempts\":%llu}", (unsigned long long)t->attempt + 1);

	if (!fleet_state_ended(t->state))
		return err_set(e, ERR_STATE,
			       "task %s is %s; only a task that failed, was cancelled or is lost is tried again",
			       t->spec.id, fleet_state_name(t->state));
	if (t->state == FLEET_COMPLETED)
		return err_set(e, ERR_STATE, "task %s completed; submit it again under another id", t->spec.id);
	/* The first attempt needs no permission but the signed text. */
	if (!is_own(x, t) && t->attempt && !c->accepted && ask_to_retry(x, t, c, e) < 0)
		return -1;
	fleet_signed_done(&t->retry);
	fleet_signed_done(&t->cancel);
	t->state = FLEET_QUEUED;
	t->reason[0] = 0;
	return fleet_request_make(x->settings.seed, "retry", t->spec.id, args, &t->retry, e);
}

static int change_retry(struct connection *x, const char *id, struct err *e)
{
	fleet_entry_auto struct fleet_entry t = { 0 };
	struct permission c = { 0 };

	if (change_task(x, id, add_retry, &c, &t, e) < 0 || submit_enqueue(x, &t.task, e) < 0)
		return -1;
	return c.unconfirmed ? fail_unconfirmed(id, &c, "run again", false, e) : 0;
}

/* Applies one of them to every task that the arguments name. */
static int change_all(struct cli *c, bool retry)
{
	connection_auto struct connection x = { 0 };
	fleet_entries_auto struct fleet_entries list = { 0 };
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);
	int status, result = 0;

	if ((status = connection_open(c, true, &x)) || (status = connection_find(&x, true, &list)))
		return status;
	jw_arr(&w);
	for (size_t i = 0; i < list.n; i++) {
		const char *id = list.v[i].task.spec.id;
		struct err e = ERR_INIT;
		int r;

		/* A job's tasks that completed are not meant. */
		if (retry && list.n > 1 && list.v[i].task.state == FLEET_COMPLETED)
			continue;
		r = retry ? change_retry(&x, id, &e) : change_cancel(&x, id, &e);
		if (r < 0 || r == 2)
			result = cli_fail(c, EXIT_FAILED, &e, "fleet %s", c->opts.args[0]);
		if (r < 0)
			continue;
		jw_obj(&w);
		jw_kstr(&w, "taskId", id);
		jw_kstr(&w, "result", r == 1 ? "ended" : r == 2 ? "unconfirmed" : retry ? "queued" : "cancelling");
		jw_obj_end(&w);
		if (r == 1 && !cli_as_json(c))
			cli_error("%s", e.message);
	}
	jw_arr_end(&w);
	if (!cli_as_json(c))
		return result;
	status = format_record(jval_of(out.data, out.len), true);
	return status ? status : result;
}

int fleet_cancel(struct cli *c) { return change_all(c, false); }

int fleet_retry(struct cli *c) { return change_all(c, true); }

/*
 * Ended, last written before `limit`, and no longer valid: a signed task could otherwise be stored again by someone who
 * kept a copy, and would run again.
 */
static bool may_be_removed(const struct fleet_task *t, uint64_t now, uint64_t age)
{
	const uint64_t last = t->heartbeat_at > t->spec.submitted_at ? t->heartbeat_at : t->spec.submitted_at;

	return fleet_state_ended(t->state) && last + age <= now && t->spec.not_after < now;
}

int fleet_prune(struct cli *c)
{
	connection_auto struct connection x = { 0 };
	fleet_entries_auto struct fleet_entries list = { 0 };
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);
	const char *given = opts_get(&c->opts, OPT_fleet_OLDER_THAN);
	const uint64_t now = clock_real_us() / 1000;
	struct err e = ERR_INIT;
	size_t removed = 0;
	uint64_t age;
	int status;

	if (!given)
		return cli_usage(c, "prune needs --older-than TIME");
	if (text_duration_ms(given, &age, &e) < 0)
		return cli_usage(c, "--older-than: %s", e.message);
	if ((status = connection_open(c, false, &x)))
		return status;
	if (connection_list(&x, NULL, &list, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "fleet prune");
	for (size_t i = 0; i < list.n; i++) {
		if (!may_be_removed(&list.v[i].task, now, age))
			continue;
		if (x.port->ops->remove_task(x.port, list.v[i].task.spec.id, &e) < 0)
			return cli_fail(c, EXIT_FAILED, &e, "fleet prune");
		removed++;
	}
	if (!cli_as_json(c)) {
		buf_printf(&out, "removed %zu of %zu tasks\n", removed, list.n);
		return format_out(&out);
	}
	jw_obj(&w);
	jw_kuint(&w, "removed", removed);
	jw_kuint(&w, "left", list.n - removed);
	jw_obj_end(&w);
	return format_record(jval_of(out.data, out.len), true);
}

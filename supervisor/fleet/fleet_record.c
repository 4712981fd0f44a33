/*
 * Which attempts of a task were started, and how they ended. Every client can write task documents; these records only
 * nodes can. So a document that says "queued" about a task that has run cannot make it run again: an attempt starts
 * only after its record was written, from the revision that permitted it.
 *
 * An attempt whose end is not recorded may still run somewhere. The next one first writes its own claim to the record;
 * with that the earlier one can no longer renew its lease (fleet_record_held), and after a whole lease it has stopped.
 *
 * A record is kept for longer than the signature of its task is valid.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/hash.h"
#include "runtime/base/jw.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "supervisor/fleet/fleet_node.h"
#include "supervisor/fleet/member.h"

#include <stdio.h>
#include <string.h>

#define RECORD_MAX 4096u
#define TAKE_OVER_MS 5000u /* the longest that a call of the port takes */

/* The signed text and whose it is: a task of another submitter with the same text has another record. */
static void key_of(const struct fleet_task *t, char ret[HASH_SHA256_TEXT])
{
	mem_auto char *text = mem_printf("%s %s", t->spec_text.key, t->spec_text.text);

	hash_sha256_text(text, strlen(text), ret);
}

static int parse_record(const struct buf *text, struct fleet_record *ret, struct err *e)
{
	json_auto_t *root = member_object(text->data, text->len, RECORD_MAX, "record", e);
	const char *claim = NULL;

	if (!root || member_version(root, e) < 0 || member_id(root, "claim", &claim, e) < 0 ||
	    fleet_state_read(root, &ret->state, e) < 0 ||
	    member_uint(root, "attempt", 0, FLEET_ATTEMPTS_MAX, &ret->attempt, e) < 0 ||
	    member_uint(root, "failed", 0, FLEET_ATTEMPTS_MAX, &ret->failed, e) < 0 ||
	    member_uint(root, "lost", 0, FLEET_ATTEMPTS_MAX, &ret->lost, e) < 0)
		return -1;
	snprintf(ret->claim, sizeof(ret->claim), "%s", claim ? claim : "");
	return 0;
}

/* Without a record nothing was started. 0, or −1: the bus is unavailable; −2: the record cannot be understood. */
static int get_record(struct fleet_node *n, const struct fleet_task *t, struct fleet_record *ret,
		      uint64_t *ret_revision, struct err *e)
{
	struct buf buf_auto text = BUF_INIT;
	char key[HASH_SHA256_TEXT];

	key_of(t, key);
	*ret = (struct fleet_record){ .state = FLEET_QUEUED };
	*ret_revision = 0;
	int found = n->port->ops->get_record(n->port, key, &text, ret_revision, e);
	if (found != 0)
		return found < 0 ? -1 : 0;
	return parse_record(&text, ret, e) < 0 ? -2 : 0;
}

static int put_record(struct fleet_node *n, const struct fleet_task *t, const struct fleet_record *c, uint64_t revision,
		      struct err *e)
{
	struct buf buf_auto text = BUF_INIT;
	struct jw w = jw_on(&text);
	char key[HASH_SHA256_TEXT];

	key_of(t, key);
	jw_obj(&w);
	jw_kuint(&w, "v", 1);
	jw_kstr(&w, "task", t->spec.id);
	jw_kstr(&w, "state", fleet_state_name(c->state));
	jw_kuint(&w, "attempt", c->attempt);
	if (c->claim[0])
		jw_kstr(&w, "claim", c->claim);
	jw_kuint(&w, "failed", c->failed);
	jw_kuint(&w, "lost", c->lost);
	jw_obj_end(&w);
	return n->port->ops->put_record(n->port, key, &text, revision, e);
}

static bool is_record_of(const struct fleet_record *c, const struct fleet_task *t)
{
	return c->attempt == t->attempt && strcmp(c->claim, t->claim) == 0;
}

/* Whether another attempt may follow what is recorded: by the signed spec, or by a signed retry, which is for one. */
static bool may_follow(struct fleet_node *n, const struct fleet_task *t, const struct fleet_record *c)
{
	if (c->state == FLEET_COMPLETED || t->attempt <= c->attempt)
		return false;
	if (fleet_task_granted(t, fleet_node_is_operator, n) == t->attempt)
		return true;
	switch (c->state) {
	case FLEET_FAILED: return c->failed <= t->spec.retries;
	case FLEET_LOST: return c->lost <= t->spec.retry_lost;
	case FLEET_RUNNING: return c->lost + 1 <= t->spec.retry_lost;
	default: return c->state == FLEET_QUEUED;
	}
}

/* The attempt before may still run: takes the record over from it, then waits for its lease. */
static int take_over(struct fleet_node *n, struct fleet_run *r, uint64_t now, struct err *e)
{
	struct fleet_record c = r->record;
	const bool ours = strcmp(c.claim, r->task.claim) == 0;

	if (r->wait_until && !ours)
		return err_set(e, ERR_STATE, "another node has taken it over");
	if (!ours) {
		snprintf(c.claim, sizeof(c.claim), "%s", r->task.claim);
		int done = put_record(n, &r->task, &c, r->record_revision, e);
		if (done != 0)
			return 1; /* it has changed, or nobody knows: the next look shows it */
	}
	if (!r->wait_until) {
		/* The time after the answer: the write came before it. */
		r->wait_until = now + r->task.spec.lease_ms + TAKE_OVER_MS;
		log_info("task '%s': attempt %llu may still run; waiting for its lease", r->task.spec.id,
			 (unsigned long long)c.attempt);
	}
	return ours && now >= r->wait_until ? 0 : 1;
}

int fleet_record_admit(struct fleet_node *n, struct fleet_run *r, uint64_t now, struct err *e)
{
	int found = get_record(n, &r->task, &r->record, &r->record_revision, e);

	if (found == -1)
		return 1;
	if (found < 0) {
		r->record.attempt = r->task.attempt - 1;
		return err_set(e, ERR_INVALID, "the record of its attempts cannot be read");
	}
	if (!may_follow(n, &r->task, &r->record))
		return err_set(e, ERR_NOT_ALLOWED, "its attempt %llu %s", (unsigned long long)r->record.attempt,
			       r->record.state == FLEET_COMPLETED ? "has already completed" : "was already started");
	return r->record.state == FLEET_RUNNING ? take_over(n, r, now, e) : 0;
}

int fleet_record_held(struct fleet_node *n, const struct fleet_run *r, struct err *e)
{
	struct fleet_record c;
	uint64_t revision;
	int found = get_record(n, &r->task, &c, &revision, e);

	if (found == -1)
		return -1;
	/* Attempts from before there were records have none. */
	return found < 0 || (revision && strcmp(c.claim, r->task.claim) != 0) ? 1 : 0;
}

int fleet_record_start(struct fleet_node *n, struct fleet_run *r, struct err *e)
{
	struct fleet_record c = { .state = FLEET_RUNNING,
				  .attempt = r->task.attempt,
				  .failed = r->record.failed,
				  .lost = r->record.lost + (r->record.state == FLEET_RUNNING) };

	snprintf(c.claim, sizeof(c.claim), "%s", r->task.claim);
	r->record_sent = true;
	int done = put_record(n, &r->task, &c, r->record_revision, e);
	return done == 1 ? err_set(e, ERR_UNAVAILABLE, "its record was changed at the same time") : done;
}

/* What the end makes of the record. False: nothing. */
static bool end_record(struct fleet_record *c, const struct fleet_run *r, enum fleet_state how)
{
	/* With the claim and an earlier attempt it was only taken over. */
	const bool ours = is_record_of(c, &r->task);

	if (ours && c->state != FLEET_RUNNING)
		return false;
	if (!ours) /* what was sent for the start may arrive yet: it must not, from the revision that it expects */
		return how == FLEET_QUEUED;
	c->state = how;
	c->attempt -= how == FLEET_QUEUED;
	c->failed += how == FLEET_FAILED;
	c->lost += how == FLEET_LOST;
	return true;
}

int fleet_record_end(struct fleet_node *n, struct fleet_run *r, enum fleet_state how)
{
	struct fleet_record c;
	struct err e = ERR_INIT;
	uint64_t revision;

	if (!r->record_sent)
		return 0;
	for (int tries = 0; tries < 3; tries++) {
		int found = get_record(n, &r->task, &c, &revision, &e);

		if (found == -2 || (found == 0 && !end_record(&c, r, how)))
			return 0;
		if (found < 0)
			return -1;
		int done = put_record(n, &r->task, &c, revision, &e);
		if (done != 1)
			return done;
	}
	return -1;
}

void fleet_record_lost(struct fleet_node *n, const struct fleet_task *t)
{
	struct fleet_record c;
	struct err e = ERR_INIT;
	uint64_t revision;

	if (get_record(n, t, &c, &revision, &e) != 0 || c.state != FLEET_RUNNING || !is_record_of(&c, t))
		return;
	c.state = FLEET_LOST;
	c.lost++;
	(void)put_record(n, t, &c, revision, &e);
}

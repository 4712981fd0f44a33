#ifndef BAILIFF_TESTS_SIM_CLIENT_H
#define BAILIFF_TESTS_SIM_CLIENT_H

/* Simulated clients: what they know, the replies that they get, and the requests that they repeat. */

#include "supervisor/host/retention.h"
#include "tests/crash/sim_check.h"

#include <jansson.h>
#include <stdarg.h>

#define RETRIES 8u
enum retry_state { RETRY_FREE, RETRY_UNDER_WAY, RETRY_OPEN };

/* A request with an idempotency key, which its client repeats until it has an answer. */
struct sim_retry {
	struct sim *sim;
	enum retry_state state; /* open: the runtime ended before the reply, or the reply was an error */
	char key[24], process_id[80];
	unsigned effect;     /* of a start, from 1; 0 = the request ends process_id */
	char sandbox_id[80]; /* of a start: the session sandbox; "" = one of its own */
	bool begun;          /* what was stored when it was repeated */
};

struct sim {
	struct sim_host w;
	struct sim_check check;
	struct pool sessions, threads, turns, tasks, subagents, channels, processes, jobs, calls, sandboxes;
	char token[IDS][80]; /* by channel */
	uint64_t connection;
	unsigned asked, answered, refused, crashes, kills, drained, repeated;
	struct retention_queue retention;
	bool compares; /* the read models with a new projection: takes a quarter as long as everything else */
	struct sim_retry retries[RETRIES];
	unsigned share;            /* of requests among the steps, per thousand */
	uint64_t absent;           /* kinds of requests that this history does not have, by their numbers */
	const struct theme *theme; /* what it has much of, or NULL */
	bool verified;
};

static const struct caller nobody = { .uid = 0, .role = ROLE_OPERATOR, .connection = 1, .peer_fd = 0 };

/* One of them; sometimes one that does not exist. */
static const char *pool_pick(struct sim *s, const struct pool *p, const char *none)
{
	unsigned n = p->count < IDS ? p->count : IDS;

	return n && !sim_chance(&s->w, 2) ? p->id[sim_pick(&s->w, n)] : none;
}

static void remember(struct pool *p, struct jval result, const char *member)
{
	char id[80];

	jval_str(jval_get(result, member), id, sizeof id);
	pool_add(p, id);
}

static void on_reply(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct sim *s = ctx;
	struct jval r = jval_of(json, e ? 0 : len);

	if (disk.copied)
		return; /* it is killed already */
	s->answered++;
	s->refused += e != NULL;
	if (e && (e->code == ERR_INTERNAL || e->code == ERR_CORRUPT) && !s->check.wrong[0])
		snprintf(s->check.wrong, sizeof s->check.wrong, "an answer: %.200s", e->message);
	if (e)
		return;
	remember(&s->sessions, r, "sessionId");
	remember(&s->threads, r, "threadId");
	remember(&s->turns, r, "turnId");
	remember(&s->tasks, r, "taskId");
	remember(&s->subagents, r, "subagentId");
	remember(&s->processes, r, "processId");
	remember(&s->jobs, r, "jobId");
	remember(&s->calls, r, "toolCallId");
	remember(&s->sandboxes, r, "sandboxId");
	char token[80];
	if (jval_str(jval_get(r, "resumeToken"), token, sizeof token)) {
		snprintf(s->token[s->channels.count % IDS], sizeof token, "%s", token);
		remember(&s->channels, r, "channelId");
	}
}

/* ---- requests ---- */

static struct caller caller_of(struct sim *s)
{
	struct caller c = nobody;

	c.connection = s->connection + sim_pick(&s->w, 3);
	c.request_id = "sim";
	return c;
}

static json_t *object(const char *fmt, ...)
{
	va_list ap;
	json_error_t e;

	va_start(ap, fmt);
	json_t *v = json_vpack_ex(&e, 0, fmt, ap);
	va_end(ap);
	if (!v) {
		fprintf(stderr, "the simulator's own JSON: %s\n", e.text);
		abort();
	}
	return v;
}

typedef void (*json_method)(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn,
			    void *ctx);

static void ask(struct sim *s, json_method method, json_t *params)
{
	const struct caller c = caller_of(s);

	method(s->w.engine, params, &c, on_reply, s);
	json_decref(params);
}

#define ASK(sim, method, ...) ask(sim, method, object(__VA_ARGS__))
#define PICK(kind) pool_pick(s, &s->kind, #kind "_none")

/* ---- requests that are repeated ---- */

/* As in the control socket: only a stored result is a result. Errors are not stored, so such a request runs again. */
static bool is_stored(struct sim *s, const char *key, struct buf *ret)
{
	char method[64];
	uint8_t hash[32];
	struct err e = ERR_INIT;

	return store_idempotency_get(s->w.store, nobody.uid, key, method, hash, ret, &e) == 0;
}

static bool was_hung_up(const struct sim *s, const char *process_id)
{
	for (unsigned i = 0; *process_id && i < SIM_HANGUPS; i++)
		if (strcmp(s->w.hung_up[i], process_id) == 0)
			return true;
	return false;
}

static void on_retry_reply(void *ctx, const struct err *e, const char *json, size_t len)
{
	buf_auto struct buf record = BUF_INIT;
	struct sim_retry *r = ctx;
	struct sim *s = r->sim;

	on_reply(s, e, json, len);
	if (disk.copied)
		return;
	if (e && e->code == ERR_STATE && (r->begun || (s->w.quick_disk && was_hung_up(s, r->process_id))) &&
	    !s->check.wrong[0])
		snprintf(s->check.wrong, sizeof s->check.wrong,
			 "terminate_process had begun, and is answered when repeated: %.100s", e->message);
	if (e ? r->effect != 0 : !is_stored(s, r->key, &record))
		r->state = RETRY_OPEN;
	else
		*r = (struct sim_retry){ .state = RETRY_FREE };
}

static void retry_send(struct sim *s, struct sim_retry *r)
{
	struct caller c = caller_of(s);

	s->asked++;
	r->state = RETRY_UNDER_WAY;
	c.idem_key = r->key;
	c.idem_method = r->effect ? "start_process" : "terminate_process";
	c.repeated = r->begun;
	if (r->effect) {
		mem_auto char *command = mem_printf("true " SIM_EFFECT_NAME "%u.", r->effect - 1);
		struct start_request start = { .command_line = command,
					       .sandbox_id = r->sandbox_id[0] ? r->sandbox_id : NULL };

		engine_default_limits(s->w.engine, &start.limits);
		engine_start_process(s->w.engine, &start, &c, on_retry_reply, r);
	} else {
		engine_terminate_process(s->w.engine, r->process_id, "enough", SIGHUP, 1000, &c, on_retry_reply, r);
	}
}

static void do_new_retry(struct sim *s, bool start)
{
	const char *id = start ? "" : PICK(processes);

	for (unsigned i = 0; i < RETRIES && !start; i++)
		if (strcmp(s->retries[i].process_id, id) == 0)
			return; /* one such request for a process */
	if (!start && was_hung_up(s, id))
		return;
	for (unsigned i = 0; i < RETRIES; i++) {
		struct sim_retry *r = &s->retries[i];

		if (r->state != RETRY_FREE)
			continue;
		*r = (struct sim_retry){ .sim = s };
		snprintf(r->key, sizeof r->key, "key-%u", s->asked);
		if (start)
			r->effect = sim_effect_new(&s->w.models);
		if (start && s->sandboxes.count && sim_chance(&s->w, 50))
			snprintf(r->sandbox_id, sizeof r->sandbox_id, "%s", PICK(sandboxes));
		if (!start)
			snprintf(r->process_id, sizeof r->process_id, "%s", id);
		retry_send(s, r);
		return;
	}
}

/* The client repeats requests without a result. */
static void retry(struct sim *s, struct sim_retry *r)
{
	buf_auto struct buf record = BUF_INIT;

	if (r->state != RETRY_OPEN)
		return;
	s->repeated++;
	if (!is_stored(s, r->key, &record)) {
		r->begun = false;
		retry_send(s, r);
		return;
	}
	r->begun = jval_get(jval_of(record.data, record.len), "begun").type == JT_TRUE;
	if (r->begun)
		retry_send(s, r);
	else
		r->state = RETRY_FREE;
}

static void do_retry(struct sim *s)
{
	const unsigned from = sim_pick(&s->w, RETRIES);

	for (unsigned i = 0; i < RETRIES; i++)
		if (s->retries[(from + i) % RETRIES].state == RETRY_OPEN) {
			retry(s, &s->retries[(from + i) % RETRIES]);
			return;
		}
}

/* After a crash no request is in progress. Some clients retry immediately. */
static void retries_open(struct sim *s)
{
	for (unsigned i = 0; i < RETRIES; i++) {
		if (s->retries[i].state == RETRY_UNDER_WAY)
			s->retries[i].state = RETRY_OPEN;
		if (sim_chance(&s->w, 30))
			retry(s, &s->retries[i]);
	}
}

#endif

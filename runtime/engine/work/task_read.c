/*
 * Reads tasks from their documents, the parameters and commands of requests about them, and decides which verbs are
 * legal.
 */

#include "runtime/base/hash.h"
#include "runtime/engine/call/tool_call.h"
#include "runtime/engine/core/ref.h"
#include "runtime/engine/policy/sandbox_setup.h"
#include "runtime/engine/process/start_spec.h"
#include "runtime/engine/work/task_private.h"
#include "runtime/view/view.h"

#define POLL_MAX_NS (60ull * 1000000000)
#define BACKOFF_MOST_MS 86400000ull                  /* unless maxBackoffMs is given */
#define BACKOFF_LIMIT_MS (3660ull * BACKOFF_MOST_MS) /* so that sums of times do not overflow */

/* ---- reading ---- */

void task_done(struct task *t) { buf_done(&t->text); }

int task_read(struct engine *engine, const char *id, struct task *ret, struct err *e)
{
	int r = view_read_speculative(engine->o.store, &task_schema, id, &ret->text, &ret->d, e);

	if (r == 0)
		ret->status = task_doc_status(&ret->d);
	return r;
}

int task_get(struct engine *engine, const char *id, const struct caller *c, struct task *ret, struct err *e)
{
	int r = task_read(engine, id, ret, e);

	if (r < 0)
		return -1;
	/* A task of another uid is reported as not found, so that its existence is not disclosed. */
	if (r > 0 || (c->uid != 0 && c->uid != ret->d.uid))
		return err_not_known(e, "taskId", id);
	return 0;
}

/* ---- facts ---- */

/* Also has the current run and attempt, so that every fact can be assigned to one. */
struct scope task_scope(const struct task_doc *d, const struct caller *c)
{
	return (struct scope){ .uid = (uint32_t)d->uid,
			       .session = d->sessionId,
			       .thread = d->threadId,
			       .turn = d->turnId,
			       .task = d->taskId,
			       .parent_task = d->parentTaskId,
			       .run = d->currentRunId,
			       .attempt = d->currentAttemptId,
			       .request = c ? c->request_id : NULL,
			       .trace = c ? c->trace_id : NULL };
}

/* ---- parameters ---- */

const char *param_str(const json_t *params, const char *name)
{
	return json_string_value(json_object_get(params, name));
}

int param_text(const json_t *params, const char *name, size_t most, struct err *e)
{
	const char *s = param_str(params, name);

	if (s && !*s)
		return err_field(e, name, "must not be empty");
	return s && strlen(s) > most ? err_field(e, name, "must have at most %zu bytes", most) : 0;
}

/* Sorted keys: the text is also hashed to recognise a repeated request. */
static char *dump_json(const json_t *v) { return json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS); }

int param_small(const json_t *params, const char *name, size_t most, struct err *e)
{
	const json_t *v = json_object_get(params, name);
	mem_auto char *text = v ? dump_json(v) : NULL;

	return text && strlen(text) > most
		       ? err_field(e, name, "must have at most %zu bytes as JSON; put more behind a ref", most)
		       : 0;
}

int param_positive(const json_t *params, const char *object, const char *name, struct err *e)
{
	const json_t *v = json_object_get(object ? json_object_get(params, object) : params, name);
	mem_auto char *field = object ? mem_printf("%s.%s", object, name) : mem_strdup(name);

	return v && json_integer_value(v) < 1 ? err_field(e, field, "must be at least 1") : 0;
}

int param_retry_policy(const json_t *params, struct err *e)
{
	return param_small(params, "retryPolicy", 2048, e) < 0 ||
			       param_positive(params, "retryPolicy", "maxAttempts", e) < 0 ||
			       param_positive(params, "retryPolicy", "timeoutMs", e) < 0
		       ? -1
		       : 0;
}

struct json_value param_json(const json_t *params, const char *name)
{
	return json_from_tree(json_object_get(params, name));
}

struct opt_int param_int(const json_t *params, const char *name)
{
	const json_t *v = json_object_get(params, name);

	return opt_int_if(json_is_integer(v), json_integer_value(v));
}

/* The result is a copy: callers change it before they write it. */
json_t *param_refs(const json_t *params, const char *name, const char *member, struct err *e)
{
	const json_t *list = json_object_get(params, name), *v;
	json_t *refs = json_array();
	char field[ERR_FIELD_MAX];
	size_t i;

	if (param_small(params, name, TASK_JSON_MAX, e) < 0) {
		json_decref(refs);
		return NULL;
	}
	json_array_foreach (list, i, v) {
		if (json_is_object(v)) {
			json_array_append_new(refs, json_deep_copy(v));
		} else if (json_is_string(v)) {
			json_t *one = json_object();
			json_object_set_new(one, member, json_deep_copy(v));
			json_array_append_new(refs, one);
		} else {
			snprintf(field, sizeof field, "%.40s[%zu]", name, i);
			err_field(e, field, "expected an object, or a string (its %s)", member);
			json_decref(refs);
			return NULL;
		}
	}
	return refs;
}

static const char *const delivery_states[] = { "pending",   "queued",         "failed",
					       "delivered", "parent_missing", "not_applicable" };
#define DELIVERY_OPEN 3 /* the first of them prevent completion */

static int delivery_find(const char *state)
{
	for (size_t i = 0; state && i < countof(delivery_states); i++)
		if (strcmp(delivery_states[i], state) == 0)
			return (int)i;
	return -1;
}

bool delivery_is_open(struct jval delivery)
{
	char state[32];

	jval_str(jval_get(delivery, "state"), state, sizeof state);
	int i = delivery_find(state);
	return i >= 0 && i < DELIVERY_OPEN;
}

json_t *param_delivery(const json_t *params, const char *name, struct err *e)
{
	const json_t *v = json_object_get(params, name);
	const char *state = json_is_string(v) ? json_string_value(v) : param_str(v, "state");
	json_t *delivery;

	if (!v)
		return NULL;
	if (delivery_find(state) < 0) {
		err_field(e, name,
			  "expected one of pending, queued, failed, delivered, parent_missing, not_applicable, or an "
			  "object with such a state");
		return NULL;
	}
	if (param_small(params, name, TASK_JSON_MAX, e) < 0)
		return NULL;
	delivery = json_is_object(v) ? json_deep_copy(v) : json_object();
	json_object_set_new(delivery, "state", json_string(state));
	return delivery;
}

/* ---- commands ---- */

/* The parameters of start_process that are stored with a task or job. */
static const char *const command_members[] = { "command", "commandLine", "cwd", "env",      "profile",       "sandbox",
					       "stderr",  "limits",      "cow", "keepTree", "justification", "agent" };

json_t *command_of(const json_t *params, const struct caller *c)
{
	if (!json_object_get(params, "command") && !json_object_get(params, "commandLine") &&
	    !json_object_get(params, "agent"))
		return NULL;
	json_t *command = json_object();
	for (size_t i = 0; i < countof(command_members); i++) {
		json_t *v = json_object_get(params, command_members[i]);
		if (v)
			json_object_set(command, command_members[i], v);
	}
	/* Record the role: the command may run much later, without a request. */
	json_object_set_new(command, "role", json_string(role_name(c->role)));
	return command;
}

enum engine_role command_role(const json_t *command)
{
	const char *role = param_str(command, "role");

	return role && strcmp(role, "operator") == 0 ? ROLE_OPERATOR : ROLE_AGENT;
}

/* What an agent gets instead of a command. */
static int check_agent(const json_t *command, struct err *e)
{
	static const char *const not_possible[] = { "command", "commandLine", "cow", "keepTree", "stderr" };
	const char *prompt = param_str(json_object_get(command, "agent"), "prompt");

	for (size_t i = 0; i < countof(not_possible); i++)
		if (json_object_get(command, not_possible[i]))
			return err_field(e, not_possible[i], "cannot be combined with agent");
	if (!prompt || !*prompt || strlen(prompt) > AGENT_PROMPT_MAX)
		return err_field(e, "agent.prompt", "must have 1 to %u bytes", AGENT_PROMPT_MAX);
	return 0;
}

/* A root client authorises the command now, because it may have disconnected when the command runs. */
int command_check(struct engine *engine, const json_t *command, const struct caller *c, struct err *e)
{
	mem_auto char *text = dump_json(command);
	struct start_spec s;

	if (strlen(text) > TASK_COMMAND_MAX)
		return err_field(e, "command", "must have at most %u bytes as JSON, with everything that belongs to it",
				 TASK_COMMAND_MAX);
	/* The other members are checked with a placeholder for the command that an agent does not have. */
	json_auto_t *checked = json_copy((json_t *)(uintptr_t)command);
	if (json_object_get(command, "agent")) {
		if (check_agent(command, e) < 0)
			return -1;
		json_object_set_new(checked, "commandLine", json_string("true"));
	}
	if (start_spec_of(engine, checked, &s, e) < 0)
		return -1;
	root_authorise_request(engine, &s.request.sandbox, c);
	start_spec_done(&s);
	return 0;
}

void command_fact_init(struct command_fact *c, const json_t *command, const struct scope *s, struct transaction *tx)
{
	bool hides = false;
	json_auto_t *safe = command ? tool_safe_arguments(command, &hides) : NULL;
	mem_auto char *text = command ? dump_json(command) : NULL;

	*c = (struct command_fact){ 0 };
	if (!text)
		return;
	bool fits = strlen(text) <= TASK_COMMAND_INLINE;
	if (fits)
		c->shown = hides ? dump_json(safe) : mem_strdup(text);
	if (fits && !hides)
		return;
	const struct ref_owner o = { .uid = s->uid,
				     .session_id = none_if_empty(s->session),
				     .task_id = none_if_empty(s->task),
				     .kind = "task",
				     .id = none_if_empty(s->task),
				     .media_type = "application/json" };
	ref_store(tx, &o, text, strlen(text), c->ref);
}

void command_fact_done(struct command_fact *c) { free(c->shown); }

/* The inline command if it is complete, else the one behind the ref, which has the values of its variables. */
json_t *command_read(struct engine *engine, struct jval command, struct jval ref, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	json_error_t je;
	char id[ID_SIZE];

	if (ref.type != JT_STRING) {
		buf_append(&text, command.text, command.len);
	} else {
		jval_str(ref, id, sizeof id);
		if (store_output_read(engine->o.store, id, 0, TASK_COMMAND_MAX + 1024, &text, e) < 0) {
			err_wrap(e, "read the command");
			return NULL;
		}
	}
	json_t *json = json_loadb(buf_cstr(&text), text.len, 0, &je);
	if (!json)
		err_set(e, ERR_CORRUPT, "the stored command is not JSON: %s", je.text);
	return json;
}

/* Without the idempotency key: a repeated request may have another one. */
void param_hash(const json_t *params, char ret[65])
{
	json_auto_t *body = json_copy((json_t *)(uintptr_t)params);
	json_object_del(body, "idempotencyKey");
	mem_auto char *text = dump_json(body);

	hash_sha256_text(text, strlen(text), ret);
}

/* ---- the retry policy ---- */

bool retry_is_granted(struct jval policy, uint64_t made, const struct attempt_end *end)
{
	if (!end->may_retry || made >= jval_uint(jval_get(policy, "maxAttempts"), 1))
		return false;
	for (struct jiter it = jiter_on(jval_get(policy, "nonRetryable")); jiter_next(&it);)
		if (jval_is_str(it.value, end->category) || jval_is_str(it.value, end->status))
			return false;
	return true;
}

uint64_t retry_backoff_ms(struct jval policy, uint64_t made)
{
	struct jval factor = jval_get(policy, "backoffFactor");
	uint64_t most = jval_uint(jval_get(policy, "maxBackoffMs"), BACKOFF_MOST_MS);
	most = most < BACKOFF_LIMIT_MS ? most : BACKOFF_LIMIT_MS;
	double ms = (double)jval_uint(jval_get(policy, "backoffMs"), 0),
	       by = factor.type == JT_NUMBER ? strtod(factor.text, NULL) : 1;

	for (uint64_t i = 1; i < made && ms < (double)most && by > 1; i++)
		ms *= by;
	return ms > (double)most ? most : (uint64_t)ms;
}

struct attempt_end attempt_end_of_process(const struct process *p, const struct process_outcome *o)
{
	/* A process that ended with the daemon did not fail: its work may be repeated after the restart. */
	const bool shutdown = p->end == PROCESS_END_SHUTDOWN;

	return (struct attempt_end){ .status = o->status,
				     .category = shutdown ? "shutdown" : o->category,
				     .message = o->message,
				     .limit = o->limit,
				     .exit_code = o->exit_code,
				     .may_retry = shutdown || strcmp(o->status, "cancelled") != 0,
				     .process = p };
}

struct attempt_end attempt_end_of_refusal(const struct err *e)
{
	/* Another try would be rejected for the same reason. */
	const bool final = e->code == ERR_PERMISSION || e->code == ERR_INVALID;

	return (struct attempt_end){ .status = "failed",
				     .category = !final                      ? "spawn"
						 : e->code == ERR_PERMISSION ? "permission"
									     : "invalid",
				     .message = e->message,
				     .exit_code = -1,
				     .may_retry = !final };
}

struct attempt_end attempt_end_of_turn(const struct turn_failed *p)
{
	return (struct attempt_end){ .status = p->envelope.status,
				     .category = p->category,
				     .message = p->message,
				     .exit_code = -1,
				     .may_retry = strcmp(p->envelope.status, "cancelled") != 0 };
}

/* ---- time limits ---- */

uint64_t task_after_ms(uint64_t from_us, uint64_t ms)
{
	return !from_us || ms == VIEW_ABSENT || ms > UINT64_MAX / 2000 - from_us / 1000 ? UINT64_MAX
											: from_us + ms * 1000;
}

uint64_t task_add_pauses(uint64_t at_us, uint64_t paused_ms)
{
	return at_us == UINT64_MAX ? at_us : task_after_ms(at_us, paused_ms);
}

uint64_t task_deadline(struct engine *engine, const struct task *t)
{
	return task_add_pauses(task_after_ms(t->d.startedAt, t->d.timeoutMs),
			       task_doc_paused_ms(&t->d, engine_real(engine)));
}

uint64_t task_attempt_deadline(struct engine *engine, const struct task *t)
{
	const uint64_t each = jval_uint(jval_get(t->d.retryPolicy, "timeoutMs"), VIEW_ABSENT);

	return task_add_pauses(task_after_ms(t->d.attemptStartedAt, each),
			       task_doc_paused_ms(&t->d, engine_real(engine)) - view_counted(t->d.attemptPausedMs));
}

struct attempt_end attempt_end_of_time(bool whole_task)
{
	return (struct attempt_end){ .status = "timed_out",
				     .category = "timeout",
				     .limit = whole_task ? "task" : "attempt",
				     .message = whole_task ? "the task's time limit was reached"
							   : "the attempt's time limit was reached",
				     .exit_code = -1,
				     .may_retry = true };
}

bool task_agent_timed_out(struct engine *engine, const struct task *t, struct attempt_end *ret)
{
	const uint64_t whole = task_deadline(engine, t), attempt = task_attempt_deadline(engine, t);

	if (t->status == TASK_CANCELLING || (whole < attempt ? whole : attempt) > engine_real(engine))
		return false;
	*ret = attempt_end_of_time(whole <= attempt);
	return true;
}

/* ---- which verbs are legal ---- */

#define V(name) (1u << TASK_VERB_##name)
static const unsigned legal[TASK_STATUS_COUNT] = {
	[TASK_DRAFT] = V(UPDATE) | V(CANCEL) | V(ARCHIVE) | V(LINK) | V(ADD),
	[TASK_ACCEPTED] = V(UPDATE) | V(START) | V(CANCEL) | V(FAIL) | V(LINK) | V(ADD),
	[TASK_QUEUED] = V(UPDATE) | V(PAUSE) | V(CANCEL) | V(FAIL) | V(LINK) | V(ADD),
	[TASK_PREPARING] = V(UPDATE) | V(PROGRESS) | V(PAUSE) | V(CANCEL) | V(COMPLETE) | V(FAIL) | V(LINK) | V(ADD),
	[TASK_RUNNING] = V(UPDATE) | V(PROGRESS) | V(PAUSE) | V(CANCEL) | V(COMPLETE) | V(FAIL) | V(LINK) | V(ADD),
	[TASK_WAITING_INPUT] = V(UPDATE) | V(PROGRESS) | V(PAUSE) | V(RESUME) | V(CANCEL) | V(RETRY) | V(COMPLETE) |
			       V(FAIL) | V(LINK) | V(ADD),
	[TASK_WAITING_PERMISSION] = V(UPDATE) | V(PROGRESS) | V(PAUSE) | V(RESUME) | V(CANCEL) | V(COMPLETE) | V(FAIL) |
				    V(LINK) | V(ADD),
	[TASK_WAITING_RESOURCE] = V(UPDATE) | V(PROGRESS) | V(PAUSE) | V(RESUME) | V(CANCEL) | V(COMPLETE) | V(FAIL) |
				  V(LINK) | V(ADD),
	[TASK_BLOCKED] = V(UPDATE) | V(PROGRESS) | V(RESUME) | V(RETRY) | V(CANCEL) | V(COMPLETE) | V(FAIL) | V(LINK) |
			 V(ADD),
	[TASK_PAUSED] = V(UPDATE) | V(RESUME) | V(CANCEL) | V(FAIL) | V(LINK) | V(ADD),
	[TASK_RETRYING] = V(UPDATE) | V(CANCEL) | V(FAIL) | V(LINK) | V(ADD),
	[TASK_CANCELLING] = V(CANCEL),
	[TASK_CANCELLED] = V(ARCHIVE),
	[TASK_TIMED_OUT] = V(UPDATE) | V(RETRY) | V(ARCHIVE) | V(LINK),
	[TASK_FAILED] = V(UPDATE) | V(RETRY) | V(ARCHIVE) | V(LINK),
	[TASK_LOST] = V(UPDATE) | V(RETRY) | V(CANCEL) | V(FAIL) | V(ARCHIVE) | V(LINK),
	[TASK_COMPLETED] = V(UPDATE) | V(RETRY) | V(ARCHIVE) | V(LINK),
};
#undef V

static const char *const verb_names[TASK_VERB_COUNT] = {
	[TASK_VERB_UPDATE] = "update",   [TASK_VERB_START] = "start",       [TASK_VERB_PROGRESS] = "progress",
	[TASK_VERB_PAUSE] = "pause",     [TASK_VERB_RESUME] = "resume",     [TASK_VERB_CANCEL] = "cancel",
	[TASK_VERB_RETRY] = "retry",     [TASK_VERB_COMPLETE] = "complete", [TASK_VERB_FAIL] = "fail",
	[TASK_VERB_ARCHIVE] = "archive", [TASK_VERB_LINK] = "link",         [TASK_VERB_ADD] = "new work",
};

int task_may(const struct task *t, enum task_verb v, struct err *e)
{
	unsigned may = t->status < TASK_STATUS_COUNT ? legal[t->status] : 0;
	buf_auto struct buf possible = BUF_INIT;

	if (may & 1u << v)
		return 0;
	for (int i = 0; i < TASK_VERB_COUNT; i++)
		if (may & 1u << i)
			buf_printf(&possible, "%s%s", possible.len ? ", " : "", verb_names[i]);
	return err_set(e, ERR_STATE, "task '%s' is %s, where %s is not possible; possible: %s", t->d.taskId,
		       t->d.status, verb_names[v], possible.len ? possible.data : "nothing");
}

bool task_is_paused(struct engine *engine, const char *task_id)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	return task_id[0] && task_read(engine, task_id, &t, &e) == 0 && t.status == TASK_PAUSED;
}

/* Ids of unknown tasks are accepted: clients may use ids of their own. */
int task_may_run(struct engine *engine, const char *task_id, struct err *e)
{
	task_auto struct task t = TASK_INIT;
	int r = task_read(engine, task_id, &t, e);

	if (r != 0) /* ids of tasks that are stored elsewhere are accepted unchecked */
		return r < 0 ? -1 : 0;
	if (t.status != TASK_CANCELLING && !task_status_ended(t.status))
		return 0;
	return err_at(e, ERR_STATE, "taskId", "task '%s' is %s: it accepts no new work", task_id, t.d.status);
}

/* ---- the clients that work on tasks, and the next check of deadlines ---- */

void work_wake(struct engine *engine, uint64_t *poll_ns, uint64_t real_us)
{
	const uint64_t now = engine_real(engine), in_us = real_us > now ? real_us - now : 0;
	/* The real clock may be set: check at least this often. */
	const uint64_t in_ns = in_us < POLL_MAX_NS / 1000 ? in_us * 1000 : POLL_MAX_NS;

	if (engine_now(engine) + in_ns >= *poll_ns)
		return; /* an earlier check is already planned */
	*poll_ns = engine_now(engine) + in_ns;
	engine_wake(engine, *poll_ns);
}

void task_set_worker(struct engine *engine, const char *task_id, const struct caller *c)
{
	struct task_worker *w = strmap_get(&engine->work->task_workers, task_id);

	if (!c->connection)
		return;
	if (!w) {
		w = mem_zalloc(1, sizeof *w);
		strmap_put(&engine->work->task_workers, task_id, w);
	}
	w->connection = c->connection;
	w->gone_us = 0;
	task_wake(engine, engine_real(engine)); /* its idle time starts */
}

void task_worker_over(struct engine *engine, const char *task_id)
{
	free(strmap_del(&engine->work->task_workers, task_id));
}

/* ---- effects ---- */

void task_part_over(struct engine *engine, const char *task_id) { modules_due(engine, DUE_TASK_PART_OVER, task_id); }

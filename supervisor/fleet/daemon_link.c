#include "supervisor/fleet/daemon_link.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "supervisor/fleet/fleet_input.h"
#include "supervisor/fleet/fleet_port.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define HEALTH_MS 1000u
#define PAGE 100
#define RESULT_MAX (64u << 10)

static struct daemon_link *of(struct fleet_daemon *d) { return (struct daemon_link *)d; }

/* The daemon's error: `ret` has its code, which decides whether another node may do better. */
static int call(struct daemon_link *d, const char *method, const struct buf *params, struct buf *ret, struct err *e)
{
	if (event_link_call(d->link, method, params, ret, e) == 0)
		return 0;
	struct jval data = jval_get(jval_of(ret->data, ret->len), "data");
	static const struct {
		const char *name;
		enum err_code code;
	} codes[] = { { "unavailable", ERR_UNAVAILABLE },  { "resource_exhausted", ERR_EXHAUSTED },
		      { "sequence_expired", ERR_EXPIRED }, { "not_found", ERR_NOT_FOUND },
		      { "invalid_state", ERR_STATE },      { "conflict", ERR_CONFLICT } };
	char name[32] = "";

	if (!ret->len) {
		e->code = ERR_UNAVAILABLE;
		return -1;
	}
	jval_str(jval_get(data, "category"), name, sizeof(name));
	e->code = ERR_INVALID;
	for (size_t i = 0; i < countof(codes); i++)
		if (strcmp(name, codes[i].name) == 0)
			e->code = codes[i].code;
	return -1;
}

/* ---- the workspace ---- */

static struct pending_input **find_input(struct daemon_link *d, const char *local_id)
{
	struct pending_input **at = &d->inputs;

	while (*at && strcmp((*at)->local_id, local_id) != 0)
		at = &(*at)->next;
	return at;
}

static void link_forget(struct fleet_daemon *daemon, const char *local_id)
{
	struct pending_input **at = find_input(of(daemon), local_id), *p = *at;

	if (!p)
		return;
	*at = p->next;
	fleet_input_free(p->input);
	free(p);
}

static int link_prepare(struct fleet_daemon *daemon, const struct fleet_start *s, struct err *e)
{
	struct daemon_link *d = of(daemon);
	struct pending_input **at = find_input(d, s->local_id), *p = *at;

	if (!p) {
		p = mem_zalloc(1, sizeof(*p));
		snprintf(p->local_id, sizeof(p->local_id), "%s", s->local_id);
		if (fleet_input_new(d->port, s->task, d->work_fd, s->local_id, &p->input, e) < 0) {
			free(p);
			return -1;
		}
		*at = p;
	}
	int r = fleet_input_step(p->input, e);
	if (r != 1)
		link_forget(daemon, s->local_id);
	return r;
}

/* ---- tasks ---- */

static void write_claim(struct jw *w, const struct fleet_start *s)
{
	jw_kobj(w, "fleet");
	jw_kstr(w, "taskId", s->task->spec.id);
	jw_kuint(w, "token", s->token);
	jw_kstr(w, "submitter", s->submitter);
	jw_kstr(w, "submitterKey", s->task->spec_text.key);
	jw_kstr(w, "node", s->node);
	jw_kuint(w, "attempt", s->task->attempt);
	jw_kuint(w, "leaseMs", s->task->spec.lease_ms);
	jw_obj_end(w);
	jw_kuint(w, "leaseUntil", s->lease_until);
}

/* The token is in the environment, too: effects outside can carry it, and a store can refuse an older one. */
static void write_env(struct jw *w, const struct fleet_start *s)
{
	const char *name;
	json_t *value;
	char text[32];

	jw_kobj(w, "env");
	json_object_foreach ((json_t *)s->task->spec.env, name, value)
		if (strncmp(name, "BAILIFF_FLEET_", 14) != 0)
			jw_kstr(w, name, json_string_value(value));
	jw_kstr(w, "BAILIFF_FLEET_TASK", s->task->spec.id);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)s->token);
	jw_kstr(w, "BAILIFF_FLEET_TOKEN", text);
	jw_obj_end(w);
}

static void write_work(struct jw *w, const struct daemon_link *d, const struct fleet_start *s)
{
	const struct fleet_spec *spec = &s->task->spec;
	struct buf buf_auto command = BUF_INIT;
	mem_auto char *cwd = mem_printf("%s/%s%s%s", d->work, s->local_id, spec->cwd ? "/" : "",
					spec->cwd ? spec->cwd : "");

	if (spec->agent) {
		jw_kobj(w, "agent");
		jw_kstr(w, "prompt", spec->agent);
		jw_kopt(w, "model", spec->model);
		jw_obj_end(w);
	} else {
		fleet_input_command(spec, &command);
		jw_kraw(w, "command", command.data, command.len);
		write_env(w, s);
	}
	jw_kstr(w, "cwd", cwd);
	jw_kopt(w, "profile", spec->profile);
	if (spec->cow && !spec->agent)
		jw_kbool(w, "cow", true);
	if (spec->needs.memory && !spec->agent) { /* what was reserved is also what may be used */
		jw_kobj(w, "limits");
		jw_kuint(w, "memoryBytes", spec->needs.memory);
		jw_obj_end(w);
	}
	if (spec->deadline_ms) {
		jw_kobj(w, "retryPolicy");
		jw_kuint(w, "timeoutMs", spec->deadline_ms);
		jw_obj_end(w);
	}
}

static int link_create(struct fleet_daemon *daemon, const struct fleet_start *s, struct err *e)
{
	struct buf buf_auto params = BUF_INIT, answer = BUF_INIT;
	struct jw w = jw_on(&params);
	const struct fleet_spec *spec = &s->task->spec;
	mem_auto char *objective = mem_printf("fleet task %s", spec->id);

	jw_obj(&w);
	jw_kstr(&w, "taskId", s->local_id);
	jw_kstr(&w, "objective", spec->agent && strlen(spec->agent) < 4096 ? spec->agent : objective);
	jw_kopt(&w, "title", spec->title);
	jw_kstr(&w, "taskKind", "fleet");
	jw_kbool(&w, "autoComplete", true);
	write_claim(&w, s);
	write_work(&w, of(daemon), s);
	jw_obj_end(&w);
	return call(of(daemon), "create_task", &params, &answer, e);
}

/* A call whose parameters are the task and perhaps one more. */
static int call_task(struct daemon_link *d, const char *method, const char *local_id, const char *name,
		     const char *text, uint64_t number, struct buf *ret, struct err *e)
{
	struct buf buf_auto params = BUF_INIT;
	struct jw w = jw_on(&params);

	jw_obj(&w);
	jw_kstr(&w, "taskId", local_id);
	if (name && text)
		jw_kstr(&w, name, text);
	else if (name)
		jw_kuint(&w, name, number);
	jw_obj_end(&w);
	return call(d, method, &params, ret, e);
}

static int link_start(struct fleet_daemon *daemon, const char *local_id, struct err *e)
{
	struct buf buf_auto answer = BUF_INIT;

	return call_task(of(daemon), "start_task", local_id, NULL, NULL, 0, &answer, e);
}

static int link_renew(struct fleet_daemon *daemon, const char *local_id, uint64_t until, struct err *e)
{
	struct buf buf_auto answer = BUF_INIT;

	return call_task(of(daemon), "renew_lease", local_id, "leaseUntil", NULL, until, &answer, e);
}

static int link_cancel(struct fleet_daemon *daemon, const char *local_id, const char *reason, struct err *e)
{
	struct buf buf_auto answer = BUF_INIT;

	return call_task(of(daemon), "cancel_task", local_id, "reason", reason, 0, &answer, e);
}

/* ---- status ---- */

static bool is_ended(const char *status)
{
	static const char *const ends[] = { "completed", "failed", "cancelled", "timed_out", "lost", "archived" };

	for (size_t i = 0; i < countof(ends); i++)
		if (strcmp(status, ends[i]) == 0)
			return true;
	return false;
}

/* Of a time of the daemon's documents, 2026-01-31T12:00:00.123Z; 0 = there is none. */
static uint64_t read_time(struct jval v)
{
	char text[40] = "";
	struct tm t = { 0 };

	jval_str(v, text, sizeof(text));
	return strptime(text, "%Y-%m-%dT%H:%M:%S", &t) ? (uint64_t)timegm(&t) * 1000 : 0;
}

static void read_local(struct jval task, struct fleet_local *ret)
{
	struct jval fleet = jval_get(task, "fleet");

	jval_str(jval_get(task, "status"), ret->status, sizeof(ret->status));
	jval_str(jval_get(task, "statusReason"), ret->reason, sizeof(ret->reason));
	jval_str(jval_get(fleet, "taskId"), ret->fleet_id, sizeof(ret->fleet_id));
	jval_str(jval_get(fleet, "submitterKey"), ret->submitter_key, sizeof(ret->submitter_key));
	ret->token = jval_uint(jval_get(fleet, "token"), 0);
	ret->started = jval_get(task, "startedAt").type == JT_STRING;
	ret->ended = is_ended(ret->status);
	ret->ended_at = read_time(jval_get(task, "endedAt"));
	ret->exit_code = -1;
}

static void copy_members(struct jw *w, struct jval from, const char *const *names)
{
	for (; *names; names++) {
		struct jval v = jval_get(from, *names);

		if (v.type != JT_NONE)
			jw_kraw(w, *names, v.text, v.len);
	}
}

/* What clients show of the end: of the process, as get_process has it, and where its facts are. */
static void write_result(struct daemon_link *d, struct jval task, struct fleet_local *l)
{
	static const char *const of_task[] = { "taskId", "sessionId", "turnId", NULL };
	static const char *const of_process[] = { "processId", "status",  "exitCode", "signal",     "category", "stage",
						  "errnoName", "message", "limit",    "durationMs", "usage",    NULL };
	struct buf buf_auto params = BUF_INIT, answer = BUF_INIT, result = BUF_INIT;
	struct jw w = jw_on(&params), r = jw_on(&result);
	struct err e = ERR_INIT;
	char process[64] = "";

	jval_str(jval_path(task, "worker.processId"), process, sizeof(process));
	jw_obj(&r);
	copy_members(&r, task, of_task);
	if (process[0]) {
		jw_obj(&w);
		jw_kstr(&w, "processId", process);
		jw_obj_end(&w);
		if (call(d, "get_process", &params, &answer, &e) == 0) {
			struct jval p = jval_of(answer.data, answer.len);

			copy_members(&r, p, of_process);
			l->exit_code = (int)jval_int(jval_get(p, "exitCode"), -1);
			jw_kobj(&r, "outputBytes");
			jw_kuint(&r, "stdout", jval_uint(jval_path(p, "outputs.stdout.bytes"), 0));
			jw_kuint(&r, "stderr", jval_uint(jval_path(p, "outputs.stderr.bytes"), 0));
			jw_obj_end(&r);
		}
	} else {
		jw_kstr(&r, "status", l->status);
	}
	jw_obj_end(&r);
	/* It becomes part of a document that every node and client has to parse. */
	json_auto_t *valid = result.len <= RESULT_MAX ? json_loadb(result.data, result.len, 0, NULL) : NULL;
	if (valid)
		l->result = buf_take(&result);
}

static int link_status(struct fleet_daemon *daemon, const char *local_id, struct fleet_local *ret, struct err *e)
{
	struct buf buf_auto answer = BUF_INIT;
	struct fleet_local l = { 0 };

	if (call_task(of(daemon), "get_task", local_id, NULL, NULL, 0, &answer, e) < 0)
		return e->code == ERR_NOT_FOUND ? 1 : -1;
	struct jval task = jval_of(answer.data, answer.len);
	read_local(task, &l);
	if (l.ended)
		write_result(of(daemon), task, &l);
	*ret = l;
	return 0;
}

static int link_list(struct fleet_daemon *daemon, fleet_local_fn fn, void *ctx, struct err *e)
{
	struct buf buf_auto cursor = BUF_INIT;

	for (;;) {
		struct buf buf_auto params = BUF_INIT, answer = BUF_INIT;
		struct jw w = jw_on(&params);

		jw_obj(&w);
		jw_kbool(&w, "liveOnly", true);
		jw_kuint(&w, "limit", PAGE);
		if (cursor.len)
			jw_kstr(&w, "cursor", buf_cstr(&cursor));
		jw_obj_end(&w);
		if (call(of(daemon), "list_tasks", &params, &answer, e) < 0)
			return -1;
		struct jval root = jval_of(answer.data, answer.len);
		for (struct jiter it = jiter_on(jval_get(root, "tasks")); jiter_next(&it);) {
			struct fleet_local l = { 0 };
			char id[FLEET_LOCAL_ID];

			read_local(it.value, &l);
			jval_str(jval_get(it.value, "taskId"), id, sizeof(id));
			if (l.fleet_id[0])
				fn(ctx, id, &l);
		}
		buf_reset(&cursor);
		jval_str_buf(jval_get(root, "nextCursor"), &cursor);
		if (!cursor.len)
			return 0;
	}
}

static bool link_draining(struct fleet_daemon *daemon)
{
	struct daemon_link *d = of(daemon);
	struct buf buf_auto answer = BUF_INIT;
	struct err e = ERR_INIT;
	uint64_t now = clock_boot_ms();

	if (now < d->health_at)
		return d->drains;
	d->health_at = now + HEALTH_MS;
	if (event_link_call(d->link, "get_health", NULL, &answer, &e) == 0)
		d->drains = jval_bool(jval_get(jval_of(answer.data, answer.len), "draining"), false);
	return d->drains;
}

void daemon_link_init(struct daemon_link *d, struct event_link *link, struct fleet_port *port, int work_fd,
		      const char *work)
{
	static const struct fleet_daemon_ops ops = { .prepare = link_prepare,
						     .create = link_create,
						     .start = link_start,
						     .renew = link_renew,
						     .cancel = link_cancel,
						     .status = link_status,
						     .list = link_list,
						     .draining = link_draining,
						     .forget = link_forget };

	*d = (struct daemon_link){ .daemon.ops = &ops, .link = link, .port = port, .work_fd = work_fd, .work = work };
}

#include "runtime/view/view_thread_state.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/event/event.h"
#include "runtime/event/id.h"
#include "runtime/store/store.h"
#include "runtime/view/view_channel.h"
#include "runtime/view/view_cost.h"
#include "runtime/view/view_ids.h"
#include "runtime/view/view_job.h"
#include "runtime/view/view_write.h"

#define TURNS_EXAMINED 20u /* of a thread: the newest */
#define ARTIFACTS_SHOWN 20u
#define TASKS_EXAMINED 50u
#define PROCESSES_EXAMINED 20u

/* ---- artifacts ---- */

struct artifact_refs {
	const struct view_ids *turns;
	struct {
		char id[ID_SIZE], turn[ID_SIZE];
		char *path;
		uint64_t at;
	} newest[ARTIFACTS_SHOWN]; /* sorted, the newest first */
	size_t n;
};

static bool is_of_turns(const struct view_ids *turns, const char *turn)
{
	for (size_t i = 0; turns && i < turns->n; i++)
		if (strcmp(turns->id[i], turn) == 0)
			return true;
	return !turns;
}

/* Keys are names, not times: the newest ones are found by insertion. */
static bool take_artifact(void *ctx, const char *key, size_t key_len, const char *json, size_t len)
{
	struct artifact_refs *r = ctx;
	struct artifact_doc d;
	size_t at = 0;

	view_decode(&artifact_schema, jval_of(json, len), &d);
	if (!is_of_turns(r->turns, d.turnId))
		return true;
	while (at < r->n && r->newest[at].at >= d.updatedAt)
		at++;
	if (at == ARTIFACTS_SHOWN)
		return true;
	if (r->n == ARTIFACTS_SHOWN)
		free(r->newest[--r->n].path);
	memmove(&r->newest[at + 1], &r->newest[at], (r->n - at) * sizeof r->newest[0]);
	r->n++;
	id_copy(r->newest[at].id, d.artifactId);
	id_copy(r->newest[at].turn, d.turnId);
	r->newest[at].path = jval_strdup(d.path);
	r->newest[at].at = d.updatedAt;
	return true;
}

int view_write_artifact_refs(struct store *s, const char *session_id, const struct view_ids *turns, struct jw *w,
			     struct err *e)
{
	mem_auto char *prefix = mem_printf("%s/", session_id);
	struct artifact_refs r = { .turns = turns };
	int result = store_model_scan(s, VIEW_ARTIFACT, prefix, NULL, false, take_artifact, &r, e);

	jw_karr(w, "artifactRefs");
	for (size_t i = 0; i < r.n; i++) {
		jw_obj(w);
		jw_kstr(w, "artifactId", r.newest[i].id);
		jw_kopt(w, "path", r.newest[i].path);
		view_write_word(w, "turnId", r.newest[i].turn);
		view_write_time(w, "updatedAt", r.newest[i].at);
		jw_obj_end(w);
		free(r.newest[i].path);
	}
	jw_arr_end(w);
	return result < 0 ? -1 : 0;
}

/* ---- the status of a turn ---- */

/* The newest open request of the turn, else the last one of the loop. 0 found, 1 none, −1. */
static int read_request(struct store *s, const struct turn_doc *d, struct buf *text, struct model_request_doc *ret,
			struct err *e)
{
	view_ids_auto struct view_ids open = VIEW_IDS_INIT;
	char key[VIEW_REQUEST_KEY_MAX];

	if (view_members(s, VIEW_TURN_OPEN_REQUEST, d->turnId, VIEW_NEWEST_FIRST, 1, &open, e) < 0)
		return -1;
	const char *id = open.n ? open.id[0] : d->lastRequestId;
	if (!*id)
		return 1;
	view_model_request_key(d->sessionId, id, key);
	return view_read(s, &model_request_schema, key, text, ret, e);
}

/* Phases that the runtime reports for a turn and that are statuses, too. */
static const char *status_of_phase(const char *phase)
{
	static const char *const phases[] = { "stalled", "waiting_resource", "retrying", "preparing" };

	for (size_t i = 0; i < countof(phases); i++)
		if (strcmp(phase, phases[i]) == 0)
			return phases[i];
	return NULL;
}

/* A system turn carries facts of its session and hooks that run after the end of a turn; it never starts or ends. */
static const char *system_turn_status(struct store *s, const char *turn_id)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;
	struct process_doc d;
	struct err e = ERR_INIT;

	if (view_members(s, VIEW_TURN_PROCESS, turn_id, VIEW_NEWEST_FIRST, PROCESSES_EXAMINED, &ids, &e) < 0)
		return "unknown";
	for (size_t i = 0; i < ids.n; i++)
		if (view_read(s, &process_schema, ids.id[i], &text, &d, &e) == 0 && !process_doc_ended(&d) &&
		    !process_doc_holds(&d))
			return "running";
	return "completed";
}

const char *view_turn_status(struct store *s, const struct turn_doc *d)
{
	buf_auto struct buf text = BUF_INIT;
	struct model_request_doc r;
	struct err e = ERR_INIT;
	const bool loop = jval_is_str(d->driver, "loop");

	if (jval_is_str(d->source, "system"))
		return system_turn_status(s, d->turnId);
	if (turn_doc_ended(d) || !d->startedAt || strcmp(d->status, "running") != 0)
		return d->status;
	const char *phase = status_of_phase(d->phase);
	const int found = phase ? 1 : read_request(s, d, &text, &r, &e);
	if (found < 0)
		return "unknown";
	if (found > 0)
		return phase ? phase : loop && !d->lastRequestId[0] ? "preparing" : "running";
	if (strcmp(r.status, "open") == 0)
		return view_counted(r.deltas) ? "streaming" : jval_uint(r.attempt, 1) > 1 ? "retrying" : "running";
	if (!loop || strcmp(r.status, "failed") != 0)
		return "running";
	return jval_is_str(r.category, "rate_limit") ? "waiting_resource" : "retrying";
}

bool view_thread_is_stale(struct store *s, const struct thread_doc *d, const char **ret_phase)
{
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc turn;
	struct err e = ERR_INIT;

	*ret_phase = NULL;
	if (!d->activeTurnId[0] || view_read(s, &turn_schema, d->activeTurnId, &text, &turn, &e) != 0)
		return false;
	const char *status = view_turn_status(s, &turn);
	/* `status` may point into the document on the stack. */
	static const char *const fine[] = { "preparing", "streaming", "retrying", "waiting_resource", "stalled" };
	for (size_t i = 0; i < countof(fine); i++)
		if (strcmp(status, fine[i]) == 0)
			*ret_phase = fine[i];
	return strcmp(status, "stalled") == 0;
}

/* ---- what the newest turns say ---- */

struct thread_state {
	struct store *store;
	struct jw *w;
	struct view_ids tasks;                                       /* of the thread, the newest first */
	struct buf stalled, lost, quota, ending, lost_tasks, traces; /* arrays of ids, without brackets */
	size_t turns, traced;
	bool outcome, permission, profile, environment; /* written */
};

static void add_id(struct buf *list, const char *id) { buf_printf(list, "%s\"%s\"", list->len ? "," : "", id); }

static void write_list(struct jw *w, const char *key, struct buf *list)
{
	mem_auto char *text = mem_printf("[%s]", buf_cstr(list));

	jw_kraw(w, key, text, strlen(text));
	buf_done(list);
}

/* The newest turn that has a value decides. */
static void write_once(struct jw *w, bool *done, const char *key, struct jval v)
{
	if (*done || v.type != JT_OBJECT)
		return;
	view_write_json(w, key, v);
	*done = true;
}

static void examine_turn(struct thread_state *t, const struct turn_doc *d)
{
	const char *status = view_turn_status(t->store, d);
	/* A turn that reports the phase itself waits for a client of its user, not for a rate limit. */
	const bool limited = strcmp(status, "waiting_resource") == 0 && strcmp(d->phase, "waiting_resource") != 0;
	const bool quota = limited || jval_is_str(d->category, "quota") || jval_is_str(d->category, "budget") ||
			   jval_is_str(d->category, "rate_limit");

	if (!t->outcome && turn_doc_ended(d)) {
		jw_kobj(t->w, "lastOutcome");
		view_write_members(t->w, &turn_schema, d,
				   "turnId status outcome category message retryable completedAt");
		jw_obj_end(t->w);
		t->outcome = true;
	}
	write_once(t->w, &t->permission, "permissionState", d->permissionDecision);
	write_once(t->w, &t->profile, "sandboxProfile", d->sandboxProfile);
	write_once(t->w, &t->environment, "executionEnvironment", d->executionEnvironment);
	if (strcmp(status, "stalled") == 0)
		add_id(&t->stalled, d->turnId);
	if (strcmp(status, "lost") == 0)
		add_id(&t->lost, d->turnId);
	if (quota)
		add_id(&t->quota, d->turnId);
	if (!turn_doc_ended(d) && d->ending.type == JT_OBJECT)
		add_id(&t->ending, d->turnId);
	t->turns++;
	if (d->traceId[0]) {
		t->traced++;
		if (!strstr(buf_cstr(&t->traces), d->traceId))
			add_id(&t->traces, d->traceId);
	}
}

/* Processes that have not ended, of turns that have not: a turn ends after its processes. */
static int write_active(struct thread_state *t, char (*live)[ID_SIZE], size_t nlive, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;

	jw_karr(t->w, "activeProcesses");
	for (size_t i = 0; i < nlive; i++) {
		view_ids_auto struct view_ids ids = VIEW_IDS_INIT;

		if (view_members(t->store, VIEW_TURN_PROCESS, live[i], VIEW_NEWEST_FIRST, VIEW_WINDOW, &ids, e) < 0)
			return -1;
		for (size_t k = 0; k < ids.n; k++) {
			struct process_doc d;
			int r = view_read(t->store, &process_schema, ids.id[k], &text, &d, e);

			if (r < 0)
				return -1;
			if (r > 0 || process_doc_ended(&d) || process_doc_holds(&d))
				continue;
			jw_obj(t->w);
			view_write_members(t->w, &process_schema, &d,
					   "processId turnId toolCallId status command cwd pid startedAt outputRefs");
			jw_obj_end(t->w);
		}
	}
	jw_arr_end(t->w);
	return 0;
}

static int examine_tasks(struct thread_state *t, const char *thread_id, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;

	if (view_members(t->store, VIEW_THREAD_TASK, thread_id, VIEW_NEWEST_FIRST, TASKS_EXAMINED, &t->tasks, e) < 0)
		return -1;
	for (size_t i = 0; i < t->tasks.n; i++) {
		struct task_doc d;
		int r = view_read(t->store, &task_schema, t->tasks.id[i], &text, &d, e);

		if (r < 0)
			return -1;
		if (r == 0 && strcmp(d.status, "lost") == 0)
			add_id(&t->lost_tasks, d.taskId);
	}
	return 0;
}

/* Warnings are part of the thread's document; the rest is derived. */
static void write_diagnostics(struct thread_state *t, const struct thread_doc *d, bool context_gap)
{
	const bool attention = t->stalled.len || t->lost.len || t->quota.len || t->lost_tasks.len || context_gap ||
			       d->warnings.type == JT_ARRAY;

	jw_kobj(t->w, "diagnosticsSummary");
	jw_kstr(t->w, "status", attention ? "attention" : "ok");
	jw_kuint(t->w, "warningCount", view_counted(d->warningCount));
	if (d->warnings.type == JT_ARRAY)
		view_write_json(t->w, "warnings", d->warnings);
	write_list(t->w, "stalledTurns", &t->stalled);
	write_list(t->w, "lostTurns", &t->lost);
	write_list(t->w, "quotaBlockedTurns", &t->quota);
	write_list(t->w, "interruptedTurns", &t->ending);
	write_list(t->w, "lostTasks", &t->lost_tasks);
	jw_kbool(t->w, "contextGap", context_gap);
	jw_kuint(t->w, "turnsExamined", t->turns);
	jw_obj_end(t->w);
}

static void write_telemetry(struct thread_state *t)
{
	jw_kobj(t->w, "telemetrySummary");
	write_list(t->w, "traceIds", &t->traces);
	jw_kstr(t->w, "joinStatus",
		!t->turns               ? "not_applicable"
		: t->traced == t->turns ? "joined"
		: t->traced             ? "partial"
					: "missing_correlation");
	jw_kuint(t->w, "turns", t->turns);
	jw_kuint(t->w, "tracedTurns", t->traced);
	jw_obj_end(t->w);
}

/* Jobs of the thread's tasks. */
static int write_jobs(struct thread_state *t, struct err *e)
{
	jw_karr(t->w, "jobs");
	for (size_t i = 0; i < t->tasks.n; i++)
		if (view_write_jobs_of_task(t->store, t->tasks.id[i], t->w, e) < 0)
			return -1;
	jw_arr_end(t->w);
	return 0;
}

int view_write_thread_state(struct store *s, const struct thread_doc *d, struct jw *w, struct err *e)
{
	view_ids_auto struct view_ids turns = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;
	char live[TURNS_EXAMINED][ID_SIZE];
	size_t nlive = 0;
	struct thread_state t = { .store = s, .w = w, .tasks = VIEW_IDS_INIT };
	struct session_doc session;
	struct history_doc history;

	if (view_members(s, VIEW_THREAD_TURN, d->threadId, VIEW_NEWEST_FIRST, TURNS_EXAMINED, &turns, e) < 0)
		return -1;
	for (size_t i = 0; i < turns.n; i++) {
		struct turn_doc turn;
		int r = view_read(s, &turn_schema, turns.id[i], &text, &turn, e);

		if (r < 0)
			return -1;
		if (r > 0 || jval_is_str(turn.source, "system"))
			continue;
		examine_turn(&t, &turn);
		if (!turn_doc_ended(&turn))
			id_copy(live[nlive++], turn.turnId);
	}
	if (view_read(s, &session_schema, d->sessionId, &text, &session, e) == 0)
		jw_kstr(w, "permissionMode", session.permissionMode[0] ? session.permissionMode : "policy");
	if (write_active(&t, live, nlive, e) < 0 || view_write_artifact_refs(s, d->sessionId, &turns, w, e) < 0)
		return -1;
	bool failed = view_read(s, &history_schema, d->threadId, &text, &history, e) == 0 &&
		      strcmp(history.compaction, "failed") == 0;
	int r = examine_tasks(&t, d->threadId, e);
	write_diagnostics(&t, d, failed);
	write_telemetry(&t);
	if (r == 0)
		r = write_jobs(&t, e);
	view_ids_done(&t.tasks);
	if (r < 0)
		return -1;
	jw_key(w, "channelSummary");
	return view_channel_summary(s, d->sessionId, w, e);
}

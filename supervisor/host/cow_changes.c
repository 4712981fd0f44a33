#include "supervisor/host/cow_changes.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/jw.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/base/strmap.h"
#include "runtime/engine/process/change_facts.h"
#include "runtime/event/id.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"
#include "runtime/view/view_ids.h"
#include "runtime/view/view_sandbox.h"
#include "sandbox/autorun_report.h"
#include "supervisor/host/autorun_reports.h"
#include "supervisor/host/cow_errors.h"
#include "supervisor/host/spawn_link.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * A job is one request to the spawner. Its steps, of which some operations skip a few:
 *
 * 1. wait until the run's own changes are recorded, so that the log has the changes before what was done with them
 * 2. record the request, if it changes files: after a crash the log shows that it may have taken effect
 * 3. send it to the spawner, whose helper writes the result to a memfd
 * 4. record the result, then answer the client
 *
 * When the spawner dies (ECONNRESET), reads, copies and removals are repeated with the next one. Others are not: an
 * apply may have happened in part, and the client lists the changes to see what was done.
 *
 * Jobs do not survive the runtime, but nothing depends on them: the changes are in a directory of the run. If a runtime
 * died before it recorded a run's changes, the next request for that run does so first, and cow_changes_sweep removes
 * directories that no process in the log refers to.
 */

#define REQUESTS_PER_UID_MAX 64u /* of clients, in progress or waiting */
#define FORKS_MAX 1000u          /* sandboxes, each forked from the next */
#define REPEATS_MAX 3u           /* of a job whose spawner died */
#define ATTEMPT_BASE 0x80000000u /* attempts of jobs start here, so that a job's key never equals that of a start */

struct cow_changes_job {
	TAILQ_ENTRY(cow_changes_job) link;
	struct cow_changes *changes;
	enum change_op op;
	const char *source; /* `source` in the events; NULL = a read-only request without events */
	struct plan_key key;
	struct view_process_brief process;
	int result;       /* memfd */
	unsigned repeats; /* because its spawner died */
	struct buf paths;
	bool has_paths;       /* APPLY: some of them are the client's; others are held back */
	struct buf report;    /* REVERT: on autorun files */
	struct caller caller; /* a copy; peer_fd is owned by the job */
	char *request_id;
	bool has_caller;
	bool waiting, queued; /* until the events of the run's end are recorded; until the spawner has a helper */
	bool sent;            /* and not answered */
	engine_reply_fn fn;   /* NULL = no client */
	void *ctx;
	struct buf list;
};

void cow_changes_init(struct cow_changes *c, struct store *store, struct engine *engine, struct spawn_link *spawner)
{
	*c = (struct cow_changes){ .store = store, .engine = engine, .spawner = spawner };
	TAILQ_INIT(&c->jobs);
	/* A helper can answer after the runtime that asked has died: its key must not be one of this runtime's. */
	(void)!getrandom(&c->next, sizeof c->next, 0);
}

static void job_begin(struct cow_changes_job *j);
static void job_send(struct cow_changes_job *j);

/* The job at the end of a run, which records what the run changed. */
static bool is_run(const struct cow_changes_job *j) { return j->op == CHANGE_OP_DIFF && j->source; }

static struct cow_changes_job *find_waiting(struct cow_changes *c, const char *id)
{
	struct cow_changes_job *j;

	TAILQ_FOREACH (j, &c->jobs, link)
		if (j->waiting && strcmp(j->key.id, id) == 0)
			return j;
	return NULL;
}

static struct cow_changes_job *next_queued(const struct cow_changes *c)
{
	struct cow_changes_job *j = NULL;

	if (c->sent < CHANGE_HELPERS_MAX)
		TAILQ_FOREACH (j, &c->jobs, link)
			if (j->queued && (j->op != CHANGE_OP_COPY || c->sent_copies < CHANGE_COPIES_MAX))
				break;
	return j;
}

/* The end of the job that records a run starts the requests that waited for it. */
static void job_free(struct cow_changes_job *j)
{
	struct cow_changes *c = j->changes;
	bool was_run = is_run(j);
	struct plan_key key = j->key;

	TAILQ_REMOVE(&c->jobs, j, link);
	fd_close(&j->result);
	if (j->has_caller)
		fd_close(&j->caller.peer_fd);
	free(j->request_id);
	buf_done(&j->paths);
	buf_done(&j->report);
	buf_done(&j->list);
	free(j);
	for (struct cow_changes_job *next; was_run && !c->ended && (next = find_waiting(c, key.id));) {
		next->waiting = false;
		job_begin(next);
	}
}

void cow_changes_done(struct cow_changes *c)
{
	c->ended = true;
	while (!TAILQ_EMPTY(&c->jobs))
		job_free(TAILQ_FIRST(&c->jobs));
	buf_done(&c->checkpoints);
}

/* The attempt is unique among the jobs: replies are matched by key. */
static struct cow_changes_job *job_new(struct cow_changes *c, enum change_op op, const char *id)
{
	struct cow_changes_job *j = mem_zalloc(1, sizeof *j);

	j->changes = c;
	j->op = op;
	j->result = -1;
	snprintf(j->key.id, sizeof j->key.id, "%s", id);
	j->key.attempt = ATTEMPT_BASE | c->next++;
	TAILQ_INSERT_TAIL(&c->jobs, j, link);
	return j;
}

/* Ends a job with an error, which goes to the client if there is one. */
static void job_fail(struct cow_changes_job *j, const struct err *e)
{
	engine_reply_fn fn = j->fn;
	void *ctx = j->ctx;

	if (!fn && e->code != ERR_UNAVAILABLE)
		log_warning("changes of %s: %s", j->key.id, e->message);
	job_free(j);
	if (fn)
		fn(ctx, e, NULL, 0);
}

/* ---- requests ---- */

/* The spawner gets copies of the descriptors; the result memfd stays here to be read when it replies. */
static void send_now(struct cow_changes_job *j)
{
	int fds[4] = { -1, -1, -1, -1 };
	size_t n = 2;
	struct err e = ERR_INIT;

	fds[0] = fd_memfd_sealed("bailiff-paths", buf_cstr(&j->paths), j->paths.len);
	j->result = memfd_create("bailiff-changes", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	fds[1] = j->result < 0 ? -1 : fcntl(j->result, F_DUPFD_CLOEXEC, 3);
	if (change_op_needs_client(j->op))
		fds[n++] = fcntl(j->caller.peer_fd, F_DUPFD_CLOEXEC, 3);
	if (j->op == CHANGE_OP_REVERT)
		fds[n++] = fd_memfd_sealed("bailiff-autorun", buf_cstr(&j->report), j->report.len);
	for (size_t i = 0; i < n; i++) {
		if (fds[i] >= 0)
			continue;
		err_sys(&e, errno, "ask the spawner");
		for (size_t k = 0; k < n; k++)
			fd_close(&fds[k]);
		job_fail(j, &e);
		return;
	}
	j->sent = true;
	j->changes->sent++;
	j->changes->sent_copies += j->op == CHANGE_OP_COPY;
	const struct spawn_msg m = { .kind = SPAWN_CHANGES, .op = j->op, .key = j->key };
	spawn_link_request(j->changes->spawner, &m, fds, n);
}

static void send_queued(struct cow_changes *c)
{
	for (struct cow_changes_job *j; !c->ended && (j = next_queued(c));) {
		j->queued = false;
		send_now(j);
	}
}

/* In their order, as many at a time as the spawner has helpers for. */
static void job_send(struct cow_changes_job *j)
{
	j->queued = true;
	send_queued(j->changes);
}

/* The request is recorded before the spawner acts on it. */
static void on_asked(void *ctx, const struct err *e, const char *json, size_t len)
{
	if (e)
		job_fail(ctx, e);
	else
		job_send(ctx);
}

static void job_facts(const struct cow_changes_job *j, struct changes_facts *ret)
{
	*ret = (struct changes_facts){ .process_id = j->key.id, .process = &j->process, .source = j->source };
	if (j->has_caller)
		ret->by = &j->caller;
}

/*
 * The holder of a session sandbox: its changes can be read while no command runs in it. They are not applied or
 * discarded then, because an overlay's layers must not change while it is mounted.
 */
static int job_find_live(const struct cow_changes_job *j, struct err *e)
{
	view_ids_auto struct view_ids running = VIEW_IDS_INIT;
	const char *sandbox = j->process.holds;

	if (!*sandbox)
		return err_set(
			e, ERR_STATE,
			"it is still running: its changes can be listed, applied or discarded once it has ended");
	if (j->op != CHANGE_OP_LIST && j->op != CHANGE_OP_DIFF)
		return err_set(e, ERR_STATE,
			       "sandbox %s is open: close it first (bailiff sandbox close), then apply, undo or "
			       "discard its changes",
			       sandbox);
	if (view_members(j->changes->store, VIEW_SANDBOX_RUNNING, sandbox, VIEW_OLDEST_FIRST, 1, &running, e) < 0)
		return -1;
	return running.n ? err_set(e, ERR_STATE,
				   "%s is running in the sandbox: its changes can be listed when nothing runs in it",
				   running.id[0])
			 : 0;
}

/* The changes of a command in a copy-on-write sandbox are the sandbox's, and nothing is in the files themselves. */
static int reject_member(struct store *store, const char *holder, struct err *e)
{
	struct view_process_brief h = { 0 };

	if (*holder && view_process_brief(store, VIEW_ANY_UID, holder, &h, e) < 0)
		return -1;
	return h.cow ? err_set(e, ERR_STATE, "it ran in copy-on-write sandbox %s, which has its changes: name that one",
			       h.holds)
		     : 0;
}

/* The process must be visible, ended, and of the kind that the operation is for. */
static int job_find(struct cow_changes_job *j, uint32_t viewer, struct err *e)
{
	int r = view_process_brief(j->changes->store, viewer, j->key.id, &j->process, e);

	if (r < 0)
		return -1;
	if (r > 0)
		return err_not_known(e, "processId", j->key.id);
	if (reject_member(j->changes->store, j->process.within, e) < 0)
		return -1;
	if (j->op == CHANGE_OP_REVERT && j->process.cow)
		return err_set(e, ERR_STATE,
			       "it was a copy-on-write run (--cow): nothing is in the files themselves before apply; "
			       "discard forgets it");
	if (j->op != CHANGE_OP_REVERT && !j->process.cow)
		return err_because(e, ERR_STATE, REASON_NOT_COW,
				   "it was not a copy-on-write run: what it wrote is in the files themselves");
	return j->process.ended ? 0 : job_find_live(j, e);
}

/* ---- autorun files ---- */

/* Autorun files of a copy-on-write run are applied only if the request names them. Adds those of this process. */
static int exclude_autorun(const struct cow_changes_job *j, const char *process_id, struct buf *held, struct err *e)
{
	buf_auto struct buf report = BUF_INIT;
	struct autorun_record r;
	int found = autorun_report_read(j->changes->store, process_id, &report, e);
	enum autorun_known known = autorun_report_known(j->changes->store, process_id);

	if (found > 0 && !j->paths.len && known == AUTORUN_KNOWN_NONE)
		return err_set(
			e, ERR_STATE,
			"which files of %s programs execute by themselves is not known, because its supervisor was "
			"killed: name the paths to apply",
			process_id);
	if (known != AUTORUN_KNOWN_ALL)
		buf_append(held, CHANGE_LIST_BY_NAME, sizeof CHANGE_LIST_BY_NAME);
	for (size_t at = 0; found == 0 && autorun_report_next(report.data, &at, &r);) {
		if (r.after.type == AUTORUN_TYPE_NONE ||
		    change_list_names(j->paths.data, j->paths.len, r.path, r.path_len))
			continue;
		buf_byte(held, CHANGE_LIST_EXCLUDED);
		buf_append(held, r.path, r.path_len);
		buf_append(held, "", 1);
	}
	return found < 0 ? -1 : 0;
}

/*
 * In a session sandbox each command has a report of its own. A fork begins with what commands of the sandbox before it
 * wrote, so theirs count, too, including those after the checkpoint: a path too many only has to be named.
 */
static int exclude_autorun_of_sandbox(const struct cow_changes_job *j, struct buf *held, struct err *e)
{
	struct store *store = j->changes->store;
	char sandbox[ID_SIZE];

	id_copy(sandbox, j->process.holds);
	for (unsigned n = 0; *sandbox && n < FORKS_MAX; n++) {
		view_ids_auto struct view_ids members = VIEW_IDS_INIT;
		buf_auto struct buf text = BUF_INIT;
		struct sandbox_doc d;
		int r = view_read(store, &sandbox_schema, sandbox, &text, &d, e);

		if (r < 0 ||
		    view_members(store, VIEW_SANDBOX_PROCESS, sandbox, VIEW_OLDEST_FIRST, SIZE_MAX, &members, e) < 0)
			return -1;
		if (r > 0)
			break;
		for (size_t i = 0; i < members.n; i++)
			if (exclude_autorun(j, members.id[i], held, e) < 0)
				return -1;
		jval_str(jval_get(d.forkedFrom, "sandboxId"), sandbox, sizeof sandbox);
	}
	return *sandbox ? err_set(e, ERR_STATE,
				  "it began with changes of sandbox %s, and which of those are files that programs "
				  "execute by themselves is no longer known: copy what you need yourself",
				  sandbox)
			: 0;
}

static int exclude_all_autorun(struct cow_changes_job *j, struct err *e)
{
	buf_auto struct buf held = BUF_INIT;

	if ((j->process.holds[0] ? exclude_autorun_of_sandbox(j, &held, e) : exclude_autorun(j, j->key.id, &held, e)) <
	    0)
		return -1;
	j->has_paths = j->paths.len > 0;
	buf_append(&j->paths, held.data, held.len);
	return 0;
}

static int job_prepare(struct cow_changes_job *j, struct err *e)
{
	if (j->op == CHANGE_OP_APPLY)
		return exclude_all_autorun(j, e);
	if (j->op != CHANGE_OP_REVERT)
		return 0;
	int r = autorun_report_read(j->changes->store, j->key.id, &j->report, e);
	return r > 0 ? err_set(e, ERR_STATE,
			       "it changed no files that programs execute by themselves: there is nothing to revert")
		     : r;
}

/* Operations that change files record the request first (on_asked then sends it); reads are sent at once. */
static void job_begin(struct cow_changes_job *j)
{
	struct err e = ERR_INIT;

	if (job_prepare(j, &e) < 0) {
		job_fail(j, &e);
		return;
	}
	struct changes_facts f;

	if (!j->source) {
		job_send(j);
		return;
	}
	job_facts(j, &f);
	changes_record(j->changes->engine, &f, on_asked, j);
}

/* The summary is the last event that the job at the end of the run writes: all its events are there. */
static bool is_run_summary(void *ctx, const struct event_view *ev)
{
	struct jval payload = event_payload(ev);

	*(bool *)ctx |= ev->type == EVENT_ARTIFACT_CHANGED && !event_from_client(ev) &&
			jval_is_str(jval_get(payload, "source"), "run") &&
			jval_is_str(jval_get(payload, "change"), "summary");
	return !*(bool *)ctx;
}

static bool run_is_recorded(const struct cow_changes_job *j)
{
	const struct store_query q = { .after = j->process.end_sequence, .index = ID_PROCESS, .id = j->key.id };
	struct err e = ERR_INIT;
	bool recorded = false;

	/* Events that were pruned had been recorded. */
	return (store_events(j->changes->store, &q, is_run_summary, &recorded, &e) < 0 && e.code == ERR_EXPIRED) ||
	       recorded;
}

static bool run_is_requested(const struct cow_changes *c, const char *process_id)
{
	const struct cow_changes_job *other;

	TAILQ_FOREACH (other, &c->jobs, link)
		if (is_run(other) && strcmp(other->key.id, process_id) == 0)
			return true;
	return false;
}

/* Requests take their turns, so one user's must not be all that others wait for. The runtime's own have no id. */
static int check_share(const struct cow_changes *c, const struct caller *caller, struct err *e)
{
	const struct cow_changes_job *j;
	size_t n = 0;

	TAILQ_FOREACH (j, &c->jobs, link)
		n += j->request_id && j->caller.uid == caller->uid;
	if (!caller->request_id || n < REQUESTS_PER_UID_MAX)
		return 0;
	return err_set(e, ERR_EXHAUSTED,
		       "%zu requests of uid %u about changes are in progress, which is the limit: wait for one of them",
		       n, (unsigned)caller->uid);
}

/*
 * The caller is copied without its trace and idempotency key: those belong to the call, whose memory may be gone when
 * the spawner replies. A request that comes before the run's own events are recorded waits for them.
 */
void cow_changes_request(struct cow_changes *c, const struct change_request *r, const struct caller *caller,
			 engine_reply_fn fn, void *ctx)
{
	struct cow_changes_job *j;
	struct err e = ERR_INIT;

	if (strlen(r->process_id) >= sizeof j->key.id)
		err_not_known(&e, "processId", r->process_id);
	if (e.code || check_share(c, caller, &e) < 0) {
		fn(ctx, &e, NULL, 0);
		return;
	}
	j = job_new(c, r->op, r->process_id);
	j->fn = fn;
	j->ctx = ctx;
	j->caller = *caller;
	j->has_caller = true;
	j->caller.peer_fd = fcntl(caller->peer_fd, F_DUPFD_CLOEXEC, 3);
	j->caller.request_id = j->request_id = mem_strdup(caller->request_id);
	j->caller.trace_id = j->caller.idem_key = j->caller.idem_method = NULL;
	j->source = change_op_needs_client(r->op) ? change_op_name(r->op) : NULL;
	buf_append(&j->paths, r->paths.data, r->paths.len);
	if (job_find(j, r->viewer, &e) < 0) {
		job_fail(j, &e);
		return;
	}
	if (r->op == CHANGE_OP_REVERT || !j->process.ended || run_is_recorded(j)) {
		job_begin(j);
		return;
	}
	j->waiting = true;
	cow_changes_on_ended(c, r->process_id);
}

void cow_changes_drop(struct cow_changes *c, const char *id) { job_send(job_new(c, CHANGE_OP_DROP, id)); }

void cow_changes_on_ended(struct cow_changes *c, const char *process_id)
{
	struct cow_changes_job *j;
	struct err e = ERR_INIT;

	if (run_is_requested(c, process_id))
		return;
	j = job_new(c, CHANGE_OP_DIFF, process_id);
	j->source = "run";
	if (job_find(j, VIEW_ANY_UID, &e) < 0) {
		job_free(j);
		cow_changes_drop(c, process_id); /* it never ran, or not copy-on-write: remove what there is of it */
	} else if (run_is_recorded(j)) {
		job_free(j);
	} else {
		job_send(j);
	}
}

/* ---- copies ---- */

void cow_changes_copy(struct cow_changes *c, const char *from, const char *to, engine_reply_fn fn, void *ctx)
{
	struct cow_changes_job *j = job_new(c, CHANGE_OP_COPY, from);

	j->fn = fn;
	j->ctx = ctx;
	buf_printf(&j->paths, "%s%c%llu", to, 0, (unsigned long long)c->copies_budget);
	job_send(j);
}

/* EEXIST: a spawner that died had completed the copy. */
static void copy_answered(struct cow_changes_job *j, int error)
{
	engine_reply_fn fn = j->fn;
	void *ctx = j->ctx;
	struct err e = ERR_INIT;

	if (error == EEXIST && j->repeats)
		error = 0;
	if (error)
		cow_copy_error(error, j->changes->copies_budget, &e);
	job_free(j);
	fn(ctx, error ? &e : NULL, NULL, 0);
}

/* ---- directories that nothing refers to ---- */

bool cow_changes_add_id(void *buf, const char *id)
{
	buf_append(buf, id, strlen(id) + 1);
	return true;
}

void cow_changes_sweep(struct cow_changes *c)
{
	struct cow_changes_job *j = job_new(c, CHANGE_OP_SWEEP, "sweep");
	struct err e = ERR_INIT;

	if (view_cow_processes(c->store, 0, cow_changes_add_id, &j->paths, &e) < 0 ||
	    view_checkpoints(c->store, cow_changes_add_id, &j->paths, &e) < 0)
		job_fail(j, &e);
	else
		job_send(j);
}

/* ---- replies ---- */

/* Diffs in the log: JSON text of the path → ref. */
static bool take_diff(void *ctx, const struct event_view *ev)
{
	struct jval payload = event_payload(ev), path = jval_get(payload, "path"), ref = jval_get(payload, "diffRef");

	/* Only the runtime's own events: a client could write any diffRef. */
	if (ev->type != EVENT_ARTIFACT_CHANGED || event_from_client(ev) || path.type != JT_STRING ||
	    ref.type != JT_STRING || !jval_is_str(jval_get(payload, "source"), "run"))
		return true;
	mem_auto char *key = mem_strndup(path.text, path.len);
	free(strmap_put(ctx, key, jval_strdup(ref)));
	return true;
}

static const char *find_diff(void *ctx, const char *path_json) { return strmap_get(ctx, path_json); }

static void free_ref(void *ctx, const char *key, void *value) { free(value); }

/* Diffs of a listing are the ones that were stored at the end of the run: paths map to their refs. */
static void reply_changes(struct cow_changes_job *j, const char *sequence, size_t sequence_len)
{
	buf_auto struct buf out = BUF_INIT;
	struct strmap refs = STRMAP_INIT;
	struct jw w = jw_on(&out);
	struct err e = ERR_INIT;
	bool list = !j->source;

	const struct store_query q = { .after = j->process.end_sequence, .index = ID_PROCESS, .id = j->key.id };
	if (list && store_events(j->changes->store, &q, take_diff, &refs, &e) < 0)
		log_debug("diffs of %s: %s", j->key.id, e.message); /* pruned: reply without diffs */
	jw_obj(&w);
	const struct change_list_head *head = (const void *)j->list.data;
	jw_kstr(&w, "processId", j->key.id);
	cow_write_undo(&head->undo, &w);
	changes_write(j->list.data, list ? find_diff : NULL, &refs, &w);
	if (sequence_len)
		jw_kraw(&w, "sequence", sequence, sequence_len);
	jw_obj_end(&w);
	strmap_each(&refs, free_ref, NULL);
	strmap_done(&refs);
	engine_reply_fn fn = j->fn;
	void *ctx = j->ctx;
	job_free(j);
	if (fn)
		fn(ctx, NULL, out.data, out.len);
}

static void on_recorded(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct cow_changes_job *j = ctx;
	struct jval sequence = e ? (struct jval){ 0 } : jval_get(jval_of(json, len), "sequence");

	if (e)
		job_fail(j, e);
	else
		reply_changes(j, sequence.text, sequence.len);
}

/* Nothing is left: the run changed nothing, or everything was applied or discarded. */
static bool all_settled(const struct cow_changes_job *j)
{
	const struct change_list_head *h = (const void *)j->list.data;

	if (j->op == CHANGE_OP_DIFF)
		return !h->kinds[CHANGE_KIND_ADDED] && !h->kinds[CHANGE_KIND_MODIFIED] &&
		       !h->kinds[CHANGE_KIND_DELETED];
	bool all = j->op == CHANGE_OP_APPLY ? !j->has_paths : j->op == CHANGE_OP_DISCARD && !j->paths.len;
	return all && !h->outcomes[CHANGE_OUTCOME_CONFLICT] && !h->outcomes[CHANGE_OUTCOME_PENDING];
}

/* The result memfd is written by a helper that runs as the peer: its size is bounded and its content checked. */
static int read_list(struct cow_changes_job *j, int error, struct err *e)
{
	struct stat st;

	change_list_begin(&j->list);
	change_list_end(&j->list);
	if (error == ENOENT && j->op != CHANGE_OP_UNDO)
		return 0; /* everything was applied or discarded before */
	if (error)
		return cow_helper_error(j->op, error, e);
	if (fstat(j->result, &st) < 0)
		return err_sys(e, errno, "read the changes");
	if (st.st_size > (off_t)CHANGE_LIST_BYTES_MAX)
		return err_set(e, ERR_CORRUPT, "a list of changes of %lld bytes", (long long)st.st_size);
	buf_reset(&j->list);
	ssize_t n = pread(j->result, buf_reserve(&j->list, (size_t)st.st_size), (size_t)st.st_size, 0);
	if (n < 0)
		return err_sys(e, errno, "read the changes");
	buf_extend(&j->list, (size_t)n);
	if (change_list_check(j->list.data, j->list.len, e) < 0)
		return -1;
	return cow_check_journal(j->key.id, &((const struct change_list_head *)(const void *)j->list.data)->undo, e);
}

static bool is_repeatable(const struct cow_changes_job *j)
{
	return j->op == CHANGE_OP_LIST || j->op == CHANGE_OP_DIFF || j->op == CHANGE_OP_COPY ||
	       j->op == CHANGE_OP_DROP || j->op == CHANGE_OP_SWEEP;
}

/* For `run`, `apply`, `undo`, `discard` and `revert` the events are committed before the client gets its reply. */
static void job_answered(struct cow_changes_job *j, int error)
{
	struct err e = ERR_INIT;
	struct changes_facts f;

	if (error == ECONNRESET && is_repeatable(j) && j->repeats < REPEATS_MAX) {
		j->repeats++;
		fd_close(&j->result);
		j->key.attempt = ATTEMPT_BASE | j->changes->next++;
		job_send(j);
		return;
	}
	if (j->op == CHANGE_OP_DROP || j->op == CHANGE_OP_SWEEP) {
		if (error && error != ENOENT)
			log_warning("remove what is left of copy-on-write runs: %s", strerror(error));
		job_free(j);
		return;
	}
	if (j->op == CHANGE_OP_COPY) {
		copy_answered(j, error);
		return;
	}
	if (read_list(j, error, &e) < 0) {
		job_fail(j, &e);
		return;
	}
	if (!j->source) {
		reply_changes(j, NULL, 0);
		return;
	}
	job_facts(j, &f);
	f.list = j->list.data;
	f.kept = !all_settled(j);
	/* What applies replaced stays until retention removes it. */
	if (!f.kept && !((const struct change_list_head *)(const void *)j->list.data)->undo.applies)
		cow_changes_drop(j->changes, j->key.id);
	changes_record(j->changes->engine, &f, on_recorded, j);
}

void cow_changes_on_answer(struct cow_changes *c, const struct spawn_msg *m)
{
	struct cow_changes_job *j;

	TAILQ_FOREACH (j, &c->jobs, link)
		if (j->sent && j->key.attempt == m->key.attempt && strcmp(j->key.id, m->key.id) == 0) {
			j->sent = false;
			c->sent--;
			c->sent_copies -= j->op == CHANGE_OP_COPY;
			job_answered(j, m->error);
			send_queued(c);
			return;
		}
}

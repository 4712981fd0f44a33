/*
 * Autorun files that changed while a process ran (sandbox/autorun.h). The init's report is validated and recorded as
 * sandbox.autorun.changed and as a member of the terminal event, in one commit. The whole report, with the previous
 * contents of the files, is stored under a ref, from which a revert restores them.
 *
 * A missing member means "nothing changed" only if all files were compared. If the comparison is incomplete, for
 * example because the init was killed first, the terminal event says so.
 */

#include "runtime/engine/core/core.h"

#include "runtime/base/log.h"
#include "runtime/engine/core/ref.h"
#include "runtime/engine/process/process.h"
#include "sandbox/autorun.h"
#include "sandbox/autorun_report.h"

/* Files listed in the terminal event and in sandbox.autorun.changed. The stored report has all of them. */
#define FILES_IN_END 20u
#define FILES_IN_EVENT 200u

void engine_on_autorun(struct engine *engine, const char *id, const void *report, size_t len)
{
	struct process *p = engine_process(engine, id);
	struct err e = ERR_INIT;

	/* Only the first report counts, and none after the terminal facts were submitted. */
	if (!p || p->autorun.len || p->state == PROCESS_ENDING)
		return;
	if (autorun_report_check(report, len, &e) < 0)
		log_error("the report on autorun files of %s: %s", id, e.message);
	else
		buf_append(&p->autorun, report, len);
}

static const struct autorun_head *head_of(const struct process *p)
{
	return p->autorun.len ? (const struct autorun_head *)(const void *)p->autorun.data : NULL;
}

/* Whether the command could write files of the host. Of a process from an earlier runtime only the name of the profile
 * is known. */
static bool could_write(const struct process *p)
{
	if (p->plan_kind)
		return p->writes && p->plan_kind & PLAN_PRIVATE_ROOT;
	return p->profile && strcmp(p->profile, PROFILE_HOST) != 0;
}

/* Why the comparison is incomplete: enum autorun_partial. */
static uint32_t not_examined(const struct process *p)
{
	const struct autorun_head *h = head_of(p);
	bool exited = p->has_last && p->last.kind == STATUS_EXITED;

	if (h)
		return h->partial;
	if (exited)
		return p->last.autorun == AUTORUN_REPORT || p->last.autorun == AUTORUN_FAILED ? AUTORUN_PARTIAL_FAILED
											      : 0;
	return p->execed && could_write(p) ? AUTORUN_PARTIAL_FAILED : 0;
}

static void write_report(struct jw *w, const void *process, size_t n)
{
	const struct process *p = process;

	autorun_report_members(head_of(p), not_examined(p), p->autorun_ref, FILES_IN_EVENT, w);
}

void process_autorun_facts(struct process *p, struct transaction *tx)
{
	const struct autorun_head *h = head_of(p);

	if (!h || !h->changed)
		return;
	const struct ref_owner owner = { .uid = p->uid,
					 .session_id = p->session_id,
					 .thread_id = p->thread_id,
					 .turn_id = p->turn_id,
					 .kind = "processId",
					 .id = p->id,
					 .media_type = "application/octet-stream" };
	ref_store(tx, &owner, p->autorun.data, p->autorun.len, p->autorun_ref);
	EMIT(sandbox_autorun_changed, tx, process_scope(p), .report = json_from_writer(write_report, p, 0));
}

void process_autorun_member(const struct process *p, struct jw *w)
{
	const struct autorun_head *h = head_of(p);

	if (!(h && h->changed) && !not_examined(p))
		return;
	jw_kobj(w, "autorun");
	autorun_report_members(h, not_examined(p), p->autorun_ref, FILES_IN_END, w);
	jw_obj_end(w);
}

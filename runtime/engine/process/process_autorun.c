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

/*
 * Files listed in the terminal event and in sandbox.autorun.changed, and the size of that list in bytes. The stored
 * report has all of them.
 */
#define FILES_IN_END 20u
#define FILES_IN_EVENT 200u
#define FILES_BYTES_MAX (24u << 10)

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

static void file_member(const struct autorun_record *r, struct jw *w)
{
	jw_obj(w);
	jw_kstrn(w, "path", r->path, r->path_len);
	jw_kstr(w, "change", autorun_record_change(r));
	jw_kstrn(w, "program", r->program, r->program_len);
	jw_obj_end(w);
}

static void report_members(const struct process *p, const char *ref, size_t files_max, struct jw *w)
{
	const struct autorun_head *h = head_of(p);
	uint32_t partial = not_examined(p);
	struct autorun_record r;
	size_t at = 0, n = 0, bytes = 0;

	jw_kuint(w, "changed", h ? h->changed : 0);
	if (h && h->changed) {
		jw_karr(w, "files");
		for (; n < files_max && bytes < FILES_BYTES_MAX && autorun_report_next(h, &at, &r); n++) {
			file_member(&r, w);
			/* An estimate that allows for JSON escapes. */
			bytes += r.path_len * 2 + 64;
		}
		jw_arr_end(w);
		if (h->changed > n)
			jw_kuint(w, "omitted", h->changed - n);
		jw_kstr(w, "reportRef", ref);
	}
	jw_kstr(w, "examined", !partial ? "all" : partial & AUTORUN_PARTIAL_FAILED ? "none" : "part");
	if (!partial)
		return;
	jw_karr(w, "notExamined");
	for (unsigned bit = 0; autorun_partial_name(bit); bit++)
		if (partial & 1u << bit)
			jw_str(w, autorun_partial_name(bit));
	jw_arr_end(w);
}

static void write_report(struct jw *w, const void *process, size_t n)
{
	report_members(process, ((const struct process *)process)->autorun_ref, FILES_IN_EVENT, w);
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
	report_members(p, p->autorun_ref, FILES_IN_END, w);
	jw_obj_end(w);
}

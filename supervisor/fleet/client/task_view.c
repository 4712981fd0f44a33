#include "supervisor/fleet/client/task_view.h"

#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/exit_status.h"
#include "supervisor/cli/format.h"

static void write_json(struct jw *w, const char *name, const json_t *value)
{
	mem_auto char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	if (text)
		jw_kraw(w, name, text, strlen(text));
}

/* Members of the result that every list shows. */
static void write_result(const struct fleet_task *t, bool whole, struct jw *w)
{
	static const char *const shown[] = { "exitCode", "signal", "durationMs", "category", "message" };
	struct jval result = jval_of(t->result ? t->result : "", t->result ? strlen(t->result) : 0);

	for (size_t i = 0; i < countof(shown); i++) {
		struct jval v = jval_get(result, shown[i]);

		if (v.type != JT_NONE && v.type != JT_NULL)
			jw_kraw(w, shown[i], v.text, v.len);
	}
	if (whole && result.type == JT_OBJECT)
		jw_kraw(w, "result", result.text, result.len);
}

static void write_spec(const struct fleet_spec *s, struct jw *w)
{
	static const char *const shown[] = { "needs",       "env", "after",   "near",      "bundle",
					     "bundleBytes", "git", "retries", "retryLost", "deadlineMs",
					     "leaseMs",     "cwd", "model" };

	for (size_t i = 0; i < countof(shown); i++)
		write_json(w, shown[i], json_object_get(s->root, shown[i]));
	fleet_write_time(w, "notAfter", s->not_after);
}

void task_view_write(const struct fleet_task *t, bool whole, struct jw *w)
{
	const struct fleet_spec *s = &t->spec;

	jw_obj(w);
	jw_kstr(w, "taskId", s->id);
	jw_kstr(w, "state", fleet_state_name(t->state));
	if (t->cancel.text && !fleet_state_ended(t->state))
		jw_kbool(w, "cancelRequested", true);
	if (t->reason[0])
		jw_kstr(w, "reason", t->reason);
	if (t->node[0])
		jw_kstr(w, "node", t->node);
	jw_kuint(w, "attempt", t->attempt);
	if (t->token)
		jw_kuint(w, "token", t->token);
	jw_kopt(w, "job", s->group);
	jw_kopt(w, "title", s->title);
	if (json_array_size(s->command))
		write_json(w, "command", s->command);
	jw_kopt(w, "agent", s->agent);
	jw_kopt(w, "profile", s->profile);
	if (s->cow)
		jw_kbool(w, "cow", true);
	jw_kuint(w, "priority", s->priority);
	jw_kstr(w, "submitter", t->spec_text.key);
	fleet_write_time(w, "submittedAt", s->submitted_at);
	if (t->attempt)
		fleet_write_time(w, "startedAt", t->claimed_at);
	write_result(t, whole, w);
	if (whole) {
		write_spec(s, w);
		write_json(w, "attempts", t->attempts);
	}
	jw_obj_end(w);
}

void task_view_row(const struct fleet_task *t, struct jw *w)
{
	const char *title = t->spec.title;
	buf_auto struct buf record = BUF_INIT, what = BUF_INIT;
	struct jw inner = jw_on(&record);

	task_view_write(t, false, &inner);
	if (title || t->spec.agent)
		buf_str(&what, title ? title : t->spec.agent);
	else
		format_command(jval_of(record.data, record.len), &what);
	jw_obj(w);
	jw_kstr(w, "taskId", t->spec.id);
	jw_kstr(w, "state", fleet_state_name(t->state));
	if (t->node[0])
		jw_kstr(w, "node", t->node);
	fleet_write_time(w, "submittedAt", t->spec.submitted_at);
	if (t->state == FLEET_RUNNING)
		fleet_write_time(w, "startedAt", t->claimed_at);
	write_result(t, false, w);
	jw_kstr(w, "what", buf_cstr(&what));
	jw_obj_end(w);
}

int task_view_exit(const struct fleet_task *t, char ret_note[512])
{
	struct jval result = jval_of(t->result ? t->result : "", t->result ? strlen(t->result) : 0);
	struct exit_status how = { 0 };

	ret_note[0] = 0;
	if (t->state == FLEET_COMPLETED)
		return (int)jval_int(jval_get(result, "exitCode"), 0) & 255;
	if (t->state == FLEET_FAILED && exit_status_of_process(result, &how) && how.status) {
		snprintf(ret_note, 512, "%s", how.note[0] ? how.note : how.status >= EXIT_TIME_LIMIT ? t->reason : "");
		return how.status;
	}
	if (t->state == FLEET_FAILED && jval_int(jval_get(result, "exitCode"), 0) > 0)
		return (int)jval_int(jval_get(result, "exitCode"), 0) & 255;
	snprintf(ret_note, 512, "task %.64s is %s%s%.400s", t->spec.id, fleet_state_name(t->state),
		 t->reason[0] ? ": " : "", t->reason);
	return t->state == FLEET_CANCELLED ? 130 : EXIT_BAILIFF;
}

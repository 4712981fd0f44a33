/*
 * Reads jobs from their documents and records their progress; reads their items, and makes the commands that run for
 * them. In a job's template {item} stands for the item's input (a string unchanged, anything else as JSON; without
 * input the item's id), {itemId} and {index} for those. In a commandLine the values are quoted for the shell.
 */

#include "runtime/engine/work/job_private.h"
#include "runtime/view/view.h"

#define PROGRESS_MS 1000u

void job_done(struct job *j) { buf_done(&j->text); }

int job_read(struct engine *engine, const char *id, struct job *ret, struct err *e)
{
	return view_read_speculative(engine->o.store, &job_schema, id, &ret->text, &ret->d, e);
}

int job_get(struct engine *engine, const char *id, const struct caller *c, struct job *ret, struct err *e)
{
	int r = job_read(engine, id, ret, e);

	if (r < 0)
		return -1;
	/* A job of another uid is reported as not found, so that its existence is not disclosed. */
	if (r > 0 || (c->uid != 0 && c->uid != ret->d.uid))
		return err_not_known(e, "jobId", id);
	return 0;
}

struct scope job_scope(const struct job_doc *d, const struct caller *c)
{
	return (struct scope){ .uid = (uint32_t)d->uid,
			       .session = d->sessionId,
			       .job = d->jobId,
			       .task = d->taskId,
			       .request = c ? c->request_id : NULL,
			       .trace = c ? c->trace_id : NULL };
}

struct job_counts_part job_counts(const struct job_doc *d, const char *from, const char *to)
{
	static const char *const names[] = { "running", "completed", "failed", "reported" };
	uint64_t n[] = { d->running, d->completed, d->failed, d->reported }, all = 0;

	/* The document does not include the change that is being written, so it is added here. */
	for (size_t i = 0; i < countof(names); i++) {
		n[i] += strcmp(to, names[i]) == 0;
		n[i] -= n[i] > 0 && strcmp(from, names[i]) == 0;
		all += n[i];
	}
	return (struct job_counts_part){ .total = d->itemCount,
					 .pending = d->itemCount > all ? d->itemCount - all : 0,
					 .running = n[0],
					 .completed = n[1],
					 .failed = n[2],
					 .reported = n[3] };
}

/* The document does not include the change that is being written: `from` and `to` describe it. */
void job_progress_fact(struct engine *engine, const struct job *j, struct transaction *tx, const char *from,
		       const char *to, bool always)
{
	const struct job_counts_part counts = job_counts(&j->d, from, to);

	/* Limits the rate; the last event of a job is always written. */
	if (!always && engine_real(engine) < j->d.progressAt + PROGRESS_MS * 1000)
		return;
	EMIT(job_progress, tx, job_scope(&j->d, NULL), .counts = json_from_writer(json_write_job_counts, &counts, 0),
	     .cursor = opt_int(j->d.cursor));
	/* The progress of a task counts the items of its job. */
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;
	if (!j->d.taskId[0] || task_read(engine, j->d.taskId, &t, &e) != 0 || task_status_ended(t.status))
		return;
	struct scope s = task_scope(&t.d, NULL);
	s.job = j->d.jobId;
	EMIT(task_progress, tx, s,
	     .counters = JSON_OBJECT(item_counters, .items = counts.total,
				     .itemsCompleted = counts.completed + counts.reported, .itemsFailed = counts.failed,
				     .itemsRunning = counts.running),
	     .derived = true);
}

/* An item has ended: the job continues (row DUE). */
void job_step_due(struct engine *engine, const char *job_id) { modules_due(engine, DUE_JOB_STEP, job_id); }

/* ---- items ---- */

json_t *job_item_given(struct engine *engine, const struct job *j, uint64_t index, struct err *e)
{
	buf_auto struct buf piece = BUF_INIT;

	if (view_job_piece(engine->o.store, &j->d, index / VIEW_JOB_PIECE, &piece, e) < 0)
		return NULL;
	json_auto_t *list = json_loadb(piece.data, piece.len, 0, NULL);
	json_t *v = json_array_get(list, index % VIEW_JOB_PIECE);
	if (!v)
		err_set(e, ERR_CORRUPT, "job '%s' has no item %llu", j->d.jobId, (unsigned long long)index);
	return json_incref(v);
}

json_t *job_item_find(struct engine *engine, const struct job *j, const char *item_id, uint64_t *ret_index,
		      struct err *e)
{
	char quoted_id[ID_SIZE + 2];

	snprintf(quoted_id, sizeof quoted_id, "\"%s\"", item_id);
	for (uint64_t p = 0; p * VIEW_JOB_PIECE < j->d.itemCount; p++) {
		buf_auto struct buf piece = BUF_INIT;
		uint64_t index = p * VIEW_JOB_PIECE;
		if (view_job_piece(engine->o.store, &j->d, p, &piece, e) < 0)
			return NULL;
		/* A cheap test first: most pieces do not contain the id and need not be parsed. */
		if (!memmem(piece.data, piece.len, quoted_id, strlen(quoted_id)))
			continue;
		for (struct jiter it = jiter_on(jval_of(piece.data, piece.len)); jiter_next(&it); index++)
			if (jval_is_str(jval_get(it.value, "itemId"), item_id)) {
				*ret_index = index;
				return json_loadb(it.value.text, it.value.len, 0, NULL);
			}
	}
	err_at(e, ERR_NOT_FOUND, "itemId", "job '%s' has no item '%.80s'", j->d.jobId, item_id);
	return NULL;
}

bool job_item_supervised(const struct job *j, const json_t *given)
{
	return json_object_get(given, "command") || json_object_get(given, "commandLine") || j->d.hasTemplate;
}

/* ---- the template ---- */

struct filling {
	const char *item, *id;
	char index[24];
	bool shell;
};

/* One pass over the template: placeholders inside an inserted value are not replaced. */
static char *fill_text(const char *text, const struct filling *f)
{
	const struct {
		const char *name, *value;
	} rows[] = { { "{item}", f->item }, { "{itemId}", f->id }, { "{index}", f->index } };
	struct buf out = BUF_INIT;

	while (*text) {
		size_t i = 0;
		while (i < countof(rows) && strncmp(text, rows[i].name, strlen(rows[i].name)) != 0)
			i++;
		if (i == countof(rows)) {
			buf_byte(&out, *text++);
			continue;
		}
		text += strlen(rows[i].name);
		if (!f->shell) {
			buf_str(&out, rows[i].value);
			continue;
		}
		/* Quote for /bin/sh: nothing inside single quotes is special except the quote itself. */
		buf_byte(&out, '\'');
		for (const char *s = rows[i].value; *s; s++)
			if (*s == '\'')
				buf_str(&out, "'\\''");
			else
				buf_byte(&out, *s);
		buf_byte(&out, '\'');
	}
	return buf_take(&out);
}

json_t *job_item_command(struct engine *engine, const struct job *j, const json_t *given, uint64_t index, struct err *e)
{
	static const char *const own[] = { "command", "commandLine", "cwd", "env" };
	json_t *command = command_read(engine, j->d.command, j->d.commandRef, e);
	const json_t *input = json_object_get(given, "input");

	if (!command)
		return NULL;
	/* An item's own command replaces the template; the job's other settings stay. */
	if (json_object_get(given, "command") || json_object_get(given, "commandLine")) {
		json_object_del(command, "command");
		json_object_del(command, "commandLine");
		json_object_del(command, "agent");
	} else {
		mem_auto char *text = input && !json_is_string(input)
					      ? json_dumps(input, JSON_COMPACT | JSON_ENCODE_ANY)
					      : NULL;
		struct filling f = { .item = text    ? text
					     : input ? json_string_value(input)
						     : param_str(given, "itemId"),
				     .id = param_str(given, "itemId"),
				     .shell = json_object_get(command, "commandLine") != NULL };
		snprintf(f.index, sizeof f.index, "%llu", (unsigned long long)index);
		json_t *line = json_object_get(command, "commandLine"), *filled = json_array(), *v;
		size_t i;
		json_array_foreach (json_object_get(command, "command"), i, v) {
			mem_auto char *word = fill_text(json_string_value(v), &f);
			json_array_append_new(filled, json_string(word));
		}
		if (json_array_size(filled))
			json_object_set(command, "command", filled);
		json_decref(filled);
		json_t *agent = json_object_get(command, "agent");
		if (agent) {
			mem_auto char *prompt = fill_text(param_str(agent, "prompt"), &f);
			json_object_set_new(agent, "prompt", json_string(prompt));
		}
		if (line) {
			mem_auto char *filled_line = fill_text(json_string_value(line), &f);
			json_object_set_new(command, "commandLine", json_string(filled_line));
		}
	}
	for (size_t i = 0; i < countof(own); i++)
		if (json_object_get(given, own[i]))
			json_object_set(command, own[i], json_object_get(given, own[i]));
	return command;
}

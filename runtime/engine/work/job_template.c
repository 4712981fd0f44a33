/*
 * The items of a job, and the commands that run for them. In a job's template {item} stands for the item's input (a
 * string unchanged, anything else as JSON; without input the item's id), {itemId} and {index} for those. In a
 * commandLine the values are quoted for the shell.
 */

#include "runtime/engine/work/job_private.h"

#include "runtime/base/mem.h"

/* ---- items ---- */

json_t *job_item_given(struct engine *g, const struct job *j, uint64_t index, struct err *e)
{
	buf_auto struct buf piece = BUF_INIT;

	if (view_job_piece(g->o.store, &j->d, index / VIEW_JOB_PIECE, &piece, e) < 0)
		return NULL;
	json_auto_t *list = json_loadb(piece.data, piece.len, 0, NULL);
	json_t *v = json_array_get(list, index % VIEW_JOB_PIECE);
	if (!v)
		err_set(e, ERR_CORRUPT, "job '%s' has no item %llu", j->d.jobId, (unsigned long long)index);
	return json_incref(v);
}

json_t *job_item_find(struct engine *g, const struct job *j, const char *item_id, uint64_t *ret_index, struct err *e)
{
	char quoted_id[ID_SIZE + 2];

	snprintf(quoted_id, sizeof quoted_id, "\"%s\"", item_id);
	for (uint64_t p = 0; p * VIEW_JOB_PIECE < j->d.itemCount; p++) {
		buf_auto struct buf piece = BUF_INIT;
		uint64_t index = p * VIEW_JOB_PIECE;
		if (view_job_piece(g->o.store, &j->d, p, &piece, e) < 0)
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
	err_set(e, ERR_NOT_FOUND, "job '%s' has no item '%.80s'", j->d.jobId, item_id);
	snprintf(e->field, sizeof e->field, "itemId");
	return NULL;
}

bool job_has_template(const struct job *j) { return j->d.hasTemplate; }

bool job_item_supervised(const struct job *j, const json_t *given)
{
	return json_object_get(given, "command") || json_object_get(given, "commandLine") || job_has_template(j);
}

/* ---- the template ---- */

/* Quotes a value for /bin/sh: nothing inside single quotes is special except the quote itself. */
static void append_quoted(struct buf *out, const char *s)
{
	buf_byte(out, '\'');
	for (; *s; s++)
		if (*s == '\'')
			buf_str(out, "'\\''");
		else
			buf_byte(out, *s);
	buf_byte(out, '\'');
}

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
		if (f->shell)
			append_quoted(&out, rows[i].value);
		else
			buf_str(&out, rows[i].value);
		text += strlen(rows[i].name);
	}
	return buf_take(&out);
}

/* Replaces the placeholders in the template's command by the item's values. */
static void fill_template(json_t *command, const struct filling *f)
{
	json_t *argv = json_object_get(command, "command"), *line = json_object_get(command, "commandLine"), *v;
	size_t i;

	if (argv) {
		json_t *filled = json_array();
		json_array_foreach (argv, i, v) {
			mem_auto char *word = fill_text(json_string_value(v), f);
			json_array_append_new(filled, json_string(word));
		}
		json_object_set_new(command, "command", filled);
	}
	if (line) {
		mem_auto char *text = fill_text(json_string_value(line), f);
		json_object_set_new(command, "commandLine", json_string(text));
	}
}

json_t *job_item_command(struct engine *g, const struct job *j, const json_t *given, uint64_t index, struct err *e)
{
	static const char *const own[] = { "command", "commandLine", "cwd", "env" };
	json_t *command = command_read(g, j->d.command, j->d.commandRef, e);
	const json_t *input = json_object_get(given, "input");

	if (!command)
		return NULL;
	/* An item's own command replaces the template; the job's other settings stay. */
	if (json_object_get(given, "command") || json_object_get(given, "commandLine")) {
		json_object_del(command, "command");
		json_object_del(command, "commandLine");
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
		fill_template(command, &f);
	}
	for (size_t i = 0; i < countof(own); i++)
		if (json_object_get(given, own[i]))
			json_object_set(command, own[i], json_object_get(given, own[i]));
	return command;
}

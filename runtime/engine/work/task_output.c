#include "runtime/engine/core/ref.h"
#include "runtime/engine/work/task_private.h"

#include <string.h>

/*
 * The outputs of a completed task. If the `content` of an output object is longer than a fact may be, the text is
 * stored behind an output ref, and the fact holds the ref instead.
 */

/* NULL: there is no content, or it is short enough for the fact. */
static const json_t *long_content(const json_t *output)
{
	const json_t *content = json_object_get(output, "content");

	return json_string_length(content) > REF_INLINE_MAX ? content : NULL;
}

static int check_one(const json_t *output, size_t i, size_t *total, struct err *e)
{
	const json_t *content = long_content(output);
	char field[ERR_FIELD_MAX];

	if (!content)
		return 0;
	snprintf(field, sizeof field, "outputs[%zu].content", i);
	if (json_object_get(output, "outputRef"))
		return err_field(e, field, "an output has either a content or an outputRef");
	*total += json_string_length(content);
	return *total > TASK_OUTPUT_MAX
		       ? err_field(e, field, "the contents of a task's outputs may have %u bytes together",
				   TASK_OUTPUT_MAX)
		       : 0;
}

json_t *task_outputs(const json_t *params, struct err *e)
{
	const json_t *given = json_object_get(params, "outputs");
	json_auto_t *short_ones = json_array(), *with_short = json_object();
	size_t i, total = 0;
	json_t *v;

	/* The size limit of the fact applies to everything except the long contents. */
	json_array_foreach (given, i, v) {
		json_t *one = json_is_object(v) ? json_copy(v) : json_incref(v);

		if (long_content(v))
			json_object_del(one, "content");
		json_array_append_new(short_ones, one);
		if (check_one(v, i, &total, e) < 0)
			return NULL;
	}
	json_object_set(with_short, "outputs", short_ones);
	json_t *refs = param_refs(with_short, "outputs", "outputRef", e);
	for (i = 0; refs && i < json_array_size(refs); i++)
		if (long_content(json_array_get(given, i)))
			json_object_set(json_array_get(refs, i), "content",
					json_object_get(json_array_get(given, i), "content"));
	return refs;
}

void task_outputs_keep(const struct task_doc *d, struct transaction *tx, json_t *outputs)
{
	size_t i;
	json_t *v;

	json_array_foreach (outputs, i, v) {
		const json_t *content = long_content(v);
		const char *type = json_string_value(json_object_get(v, "mediaType"));
		const struct ref_owner owner = {
			.uid = (uint32_t)d->uid,
			.session_id = d->sessionId,
			.thread_id = d->threadId[0] ? d->threadId : NULL,
			.task_id = d->taskId,
			.kind = "taskId",
			.id = d->taskId,
			.media_type = type,
		};
		char ref[ID_TEXT_MAX];

		if (!content)
			continue;
		ref_store(tx, &owner, json_string_value(content), json_string_length(content), ref);
		json_object_set_new(v, "outputRef", json_string(ref));
		json_object_set_new(v, "bytes", json_integer((json_int_t)json_string_length(content)));
		json_object_del(v, "content");
	}
}

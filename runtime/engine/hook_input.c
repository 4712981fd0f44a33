/*
 * What hooks read, in the conventions' words. Bailiff's tools are told by the names that people's hooks know:
 *
 *   a command, shell   Bash {command, description?, timeout?}
 *   read_file          Read {file_path, offset?, limit?}
 *   write_file         Write {file_path, content, …}
 *   apply_patch        Edit {file_path (the first of them), file_paths, patch}; a matcher may also say Write, MultiEdit or apply_patch
 *   list_directory     LS {path}
 *
 * and others by their own, with their own arguments.
 */

#include "runtime/engine/hook.h"

#include "policy/rules.h"
#include "runtime/base/mem.h"
#include "runtime/engine/tool.h"

#include <string.h>

static const struct mapping {
	const char *tool;
	const char *names[5];         /* told, and also matched */
	struct {
		const char *ours, *theirs;
	} member[2];
} mappings[] = {
	{ "shell", { "Bash", "shell" }, { { "commandLine", "command" } } },
	{ "read_file", { "Read", "read_file" }, { { "path", "file_path" } } },
	{ "write_file", { "Write", "write_file" }, { { "path", "file_path" } } },
	{ "apply_patch", { "Edit", "Write", "MultiEdit", "apply_patch" }, { { NULL, NULL } } },
	{ "list_directory", { "LS", "list_directory" }, { { NULL, NULL } } },
};

static const struct mapping *mapping_of(const char *tool)
{
	for (size_t i = 0; i < countof(mappings); i++)
		if (strcmp(mappings[i].tool, tool) == 0)
			return &mappings[i];
	return NULL;
}

const char *hook_mode_name(int mode)
{
	static const char *const names[MODE_COUNT] = {
		[MODE_DEFAULT] = "default",   [MODE_UNTRUSTED] = "default", [MODE_ON_REQUEST] = "default",        [MODE_ON_FAILURE] = "default",
		[MODE_NEVER] = "dontAsk",     [MODE_PLAN] = "plan",         [MODE_BYPASS] = "bypassPermissions",  [MODE_AUTO] = "auto",
	};

	return names[mode];
}

static void names_of(const struct mapping *m, struct hook_tool *t)
{
	for (size_t i = 0; i < countof(m->names) && m->names[i]; i++)
		t->names[t->nnames++] = m->names[i];
}

/* jansson takes UTF-8 only; what else a command holds is replaced. */
static json_t *text_of(const char *s)
{
	json_t *v = json_string(s);

	if (v)
		return v;
	mem_auto char *clean = mem_strdup(s);
	for (char *c = clean; *c; c++)
		if ((unsigned char)*c >= 0x80)
			*c = '?';
	return json_string(clean);
}

void hook_tool_of_command(const char *command, const char *description, uint64_t wall_ms, struct hook_tool *ret)
{
	*ret = (struct hook_tool){ .input = json_object() };
	names_of(&mappings[0], ret);
	json_object_set_new(ret->input, "command", text_of(command));
	if (description)
		json_object_set_new(ret->input, "description", text_of(description));
	if (wall_ms && wall_ms != LIMIT_NONE)
		json_object_set_new(ret->input, "timeout", json_integer((json_int_t)wall_ms));
}

/* The files that a patch names. */
static void add_patch_paths(json_t *input, const char *patch)
{
	static const char *const heads[] = { "*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ", "+++ b/", "--- a/" };
	json_t *paths = json_array();

	for (const char *s = patch; *s; s += strcspn(s, "\n"), s += *s == '\n')
		for (size_t i = 0; i < countof(heads); i++) {
			size_t h = strlen(heads[i]), n;

			if (strncmp(s, heads[i], h) != 0)
				continue;
			n = strcspn(s + h, "\r\n\t");
			json_array_append_new(paths, json_stringn(s + h, n));
		}
	if (json_array_size(paths))
		json_object_set(input, "file_path", json_array_get(paths, 0));
	json_object_set_new(input, "file_paths", paths);
}

void hook_tool_of_call(const char *tool, const json_t *arguments, struct hook_tool *ret)
{
	const struct mapping *m = mapping_of(tool);
	const char *patch = json_string_value(json_object_get(arguments, "patch"));

	*ret = (struct hook_tool){ .input = json_is_object(arguments) ? json_copy((json_t *)(uintptr_t)arguments) : json_object() };
	json_object_del(ret->input, "env"); /* values that may be secrets */
	if (!m) {
		ret->names[ret->nnames++] = tool;
		return;
	}
	names_of(m, ret);
	for (size_t i = 0; i < countof(m->member) && m->member[i].ours; i++) {
		json_t *v = json_object_get(ret->input, m->member[i].ours);

		if (v) {
			json_object_set(ret->input, m->member[i].theirs, v);
			json_object_del(ret->input, m->member[i].ours);
		}
	}
	if (m == &mappings[3] && patch)
		add_patch_paths(ret->input, patch);
}

void hook_tool_done(struct hook_tool *t)
{
	json_decref(t->input);
	*t = (struct hook_tool){ 0 };
}

json_t *hook_tool_arguments(const char *tool, const json_t *arguments, const json_t *input)
{
	const struct mapping *m = mapping_of(tool);
	json_t *made = json_copy((json_t *)(uintptr_t)input), *env = json_object_get(arguments, "env");

	json_object_del(made, "file_paths");
	if (m == &mappings[3])
		json_object_del(made, "file_path"); /* which files it is about is in the patch */
	for (size_t i = 0; m && i < countof(m->member) && m->member[i].ours; i++) {
		json_t *v = json_object_get(made, m->member[i].theirs);

		if (v) {
			json_object_set(made, m->member[i].ours, v);
			json_object_del(made, m->member[i].theirs);
		}
	}
	if (env)
		json_object_set(made, "env", env);
	return made;
}

json_t *hook_input(const struct hook_subject *s, int mode)
{
	json_t *v = json_object();

	json_object_set_new(v, "session_id", json_string(s->session_id));
	json_object_set_new(v, "transcript_path", json_string("/dev/null")); /* there is a log, and no transcript */
	json_object_set_new(v, "cwd", text_of(s->cwd ? s->cwd : "/"));
	json_object_set_new(v, "permission_mode", json_string(hook_mode_name(mode)));
	json_object_set_new(v, "hook_event_name", json_string(hook_point_event(s->point)));
	json_object_set_new(v, "thread_id", json_string(s->thread_id));
	json_object_set_new(v, "turn_id", json_string(s->turn_id));
	if (s->task_id && s->task_id[0])
		json_object_set_new(v, "task_id", json_string(s->task_id));
	return v;
}

char *hook_input_text(json_t *input)
{
	char *text = json_dumps(input, JSON_COMPACT);

	json_decref(input);
	return text ? text : mem_strdup("{}");
}

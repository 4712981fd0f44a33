/*
 * The JSON that hooks read. It follows the convention of existing hooks, so bailiff's tools appear under the names that
 * those expect:
 *
 *   a command, shell   Bash {command, description?, timeout?}
 *   read_file          Read {file_path, offset?, limit?}
 *   write_file         Write {file_path, content, …}
 *   apply_patch        Edit {file_path, file_paths, patch}; a matcher may also say Write, MultiEdit or apply_patch
 *   edit_file          Edit {file_path, old_string, new_string, replace_all?}; or Write, MultiEdit, edit_file
 *   list_directory     LS {path}
 *   glob, grep         Glob {pattern, path?}, Grep {pattern, path?, glob?, -i?, -C?}
 *
 * Other tools keep their own names and arguments. Paths of bailiff's own tools are made absolute. A call that works on
 * several files is passed to hooks once per file.
 */

#include "runtime/engine/hook/hook.h"

#include "policy/rules.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/tool/tool.h"

#include <string.h>

/* Of all texts of one step together; they differ only in the path. */
#define TEXTS_BYTES_MAX (16u << 20)

static const struct mapping {
	const char *tool;
	const char *names[5]; /* the first is reported, all are matched */
	struct {
		const char *ours, *theirs;
		bool is_path;
	} member[4];
} mappings[] = {
	{ "shell", { "Bash", "shell" }, { { "commandLine", "command", false } } },
	{ "read_file", { "Read", "read_file" }, { { "path", "file_path", true } } },
	{ "write_file", { "Write", "write_file" }, { { "path", "file_path", true } } },
	{ "apply_patch", { "Edit", "Write", "MultiEdit", "apply_patch" }, { { 0 } } },
	{ "list_directory", { "LS", "list_directory" }, { { "path", "path", true } } },
	{ "edit_file",
	  { "Edit", "Write", "MultiEdit", "edit_file" },
	  { { "path", "file_path", true },
	    { "oldText", "old_string", false },
	    { "newText", "new_string", false },
	    { "replaceAll", "replace_all", false } } },
	{ "glob", { "Glob", "glob" }, { { "path", "path", true } } },
	{ "grep",
	  { "Grep", "grep" },
	  { { "path", "path", true },
	    { "include", "glob", false },
	    { "ignoreCase", "-i", false },
	    { "context", "-C", false } } },
};
#define PATCHING (&mappings[3])

static const struct mapping *mapping_of(const char *tool)
{
	for (size_t i = 0; i < countof(mappings); i++)
		if (strcmp(mappings[i].tool, tool) == 0)
			return &mappings[i];
	return NULL;
}

static const char *hook_mode_name(int mode)
{
	static const char *const names[MODE_COUNT] = {
		[MODE_DEFAULT] = "default",          [MODE_UNTRUSTED] = "default", [MODE_ON_REQUEST] = "default",
		[MODE_ON_FAILURE] = "default",       [MODE_NEVER] = "dontAsk",     [MODE_PLAN] = "plan",
		[MODE_BYPASS] = "bypassPermissions", [MODE_AUTO] = "auto",
	};

	return names[mode];
}

static void names_of(const struct mapping *m, struct hook_tool *t)
{
	for (size_t i = 0; i < countof(m->names) && m->names[i]; i++)
		t->names[t->nnames++] = m->names[i];
}

/* jansson accepts UTF-8 only; other bytes of a command are replaced. */
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

/* Lexical, as for rules: symlinks are not resolved. */
static json_t *make_absolute(const char *path, const char *cwd)
{
	mem_auto char *whole = path[0] == '/' || !cwd || !cwd[0] ? mem_strdup(path) : mem_printf("%s/%s", cwd, path);
	char clean[PATH_MAX];
	struct err e = ERR_INIT;

	return text_of(whole[0] == '/' && path_clean(whole, clean, &e) == 0 ? clean : whole);
}

/* Adds the files that a patch names, or those of a client's file operation. */
static void add_paths(const char *tool, const json_t *arguments, const char *cwd, struct hook_tool *ret)
{
	const json_t *given = json_object_get(arguments, "file_paths"), *v;
	json_t *paths = json_array();
	struct tool_paths named;
	size_t i;

	tool_paths_of(tool, arguments, &named);
	for (i = 0; i < named.count; i++)
		json_array_append_new(paths, make_absolute(named.path[i], cwd));
	json_array_foreach (given, i, v)
		if (i && json_is_string(v)) /* the first is its path */
			json_array_append_new(paths, make_absolute(json_string_value(v), cwd));
	tool_paths_done(&named);
	if (json_array_size(paths))
		json_object_set(ret->input, "file_path", json_array_get(paths, 0));
	ret->each = json_array_size(paths) > 1;
	json_object_set_new(ret->input, "file_paths", paths);
}

void hook_tool_of_call(const char *tool, const json_t *arguments, const char *cwd, struct hook_tool *ret)
{
	const struct mapping *m = mapping_of(tool);

	*ret = (struct hook_tool){ .input = json_is_object(arguments) ? json_copy((json_t *)(uintptr_t)arguments)
								      : json_object() };
	json_object_del(ret->input, "env"); /* values may be secrets */
	if (!m) {
		ret->names[ret->nnames++] = tool;
		return;
	}
	names_of(m, ret);
	for (size_t i = 0; i < countof(m->member) && m->member[i].ours; i++) {
		json_t *v = json_object_get(ret->input, m->member[i].ours);

		if (!v)
			continue;
		if (m->member[i].is_path && json_is_string(v))
			json_object_set_new(ret->input, m->member[i].theirs, make_absolute(json_string_value(v), cwd));
		else
			json_object_set(ret->input, m->member[i].theirs, v);
		if (strcmp(m->member[i].theirs, m->member[i].ours) != 0)
			json_object_del(ret->input, m->member[i].ours);
	}
	if (m == PATCHING || json_object_get(arguments, "file_paths"))
		add_paths(tool, arguments, cwd, ret);
}

void hook_tool_done(struct hook_tool *t)
{
	json_decref(t->input);
	*t = (struct hook_tool){ 0 };
}

/* If a hook returns a path unchanged, keep the original spelling of the argument. */
static void restore_path(const struct mapping *m, size_t i, const json_t *arguments, const char *cwd, json_t *made)
{
	json_t *v = json_object_get(made, m->member[i].theirs), *given = json_object_get(arguments, m->member[i].ours);
	const char *path = m->member[i].is_path ? json_string_value(given) : NULL;
	json_t *as_given = path ? make_absolute(path, cwd) : NULL;

	if (!v)
		return;
	json_object_set(made, m->member[i].ours, as_given && json_equal(as_given, v) ? given : v);
	if (strcmp(m->member[i].theirs, m->member[i].ours) != 0)
		json_object_del(made, m->member[i].theirs);
	json_decref(as_given);
}

json_t *hook_tool_arguments(const char *tool, const json_t *arguments, const char *cwd, const json_t *input)
{
	const struct mapping *m = mapping_of(tool);
	json_t *made = json_copy((json_t *)(uintptr_t)input), *env = json_object_get(arguments, "env");

	/*
	 * Members that only hooks see are no arguments of the tool. The environment, which hooks do not see, is kept.
	 */
	json_object_del(made, "file_paths");
	if (m == PATCHING)
		json_object_del(made, "file_path"); /* the patch itself names the files */
	for (size_t i = 0; m && i < countof(m->member) && m->member[i].ours; i++)
		restore_path(m, i, arguments, cwd, made);
	if (env)
		json_object_set(made, "env", env);
	return made;
}

bool hook_tool_is_same(const struct hook_tool *t, const json_t *input)
{
	json_auto_t *as_given = json_copy(t->input), *now = json_copy((json_t *)(uintptr_t)input);

	if (t->each) { /* each hook has read one of them */
		json_object_del(as_given, "file_path");
		json_object_del(now, "file_path");
	}
	return json_equal(as_given, now);
}

struct hook_subject hook_subject_of(const struct process *p, enum hook_point point)
{
	return (struct hook_subject){ .point = point,
				      .uid = p->uid,
				      .by = p->by,
				      .session_id = p->session_id,
				      .thread_id = p->thread_id,
				      .turn_id = p->turn_id,
				      .task_id = p->task_id,
				      .tool_call_id = p->tool_call_id,
				      .trace_id = p->trace_id,
				      .process_id = p->id,
				      .reads_only = !p->writes };
}

json_t *hook_input(const struct hook_subject *s, int mode)
{
	json_t *v = json_object();

	json_object_set_new(v, "session_id", json_string(s->session_id));
	json_object_set_new(v, "transcript_path", json_string("/dev/null")); /* there is no transcript file */
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

static void set_file_path(json_t *input, json_t *path)
{
	json_t *response = json_object_get(input, "tool_response");

	json_object_set(json_object_get(input, "tool_input"), "file_path", path);
	if (json_object_get(response, "filePath"))
		json_object_set(response, "filePath", path);
}

void hook_texts_of(const struct hook_tool *t, json_t *input, struct hook_texts *ret)
{
	json_t *paths = json_object_get(t->input, "file_paths");
	const size_t n = t->each ? json_array_size(paths) : 1;

	*ret = (struct hook_texts){ .text = mem_zalloc(n, sizeof *ret->text), .count = 1 };
	ret->text[0] = hook_input_text(json_incref(input));
	if (n > HOOK_RUNS_MAX || n * strlen(ret->text[0]) > TEXTS_BYTES_MAX)
		ret->beyond = n > 1 ? n : 0;
	for (size_t i = 1; i < n && !ret->beyond; i++) {
		set_file_path(input, json_array_get(paths, i));
		ret->text[ret->count++] = hook_input_text(json_incref(input));
	}
	if (n > 1)
		set_file_path(input, json_array_get(paths, 0));
	json_decref(input);
}

void hook_texts_done(struct hook_texts *t)
{
	for (size_t i = 0; i < t->count; i++)
		free(t->text[i]);
	free(t->text);
	*t = (struct hook_texts){ 0 };
}

/*
 * The record is the JSON of start_process plus members that only the engine sets, so start_spec_of reads both. It lacks
 * what belongs to one execution: the caller and its reply, the session, thread and turn, the trace, the approval and
 * the answers of hooks. The code that executes it adds those.
 *
 * Limits that are LIMIT_NONE are not written, because start_process cannot express them; a reader gets the daemon's
 * default instead. Code that needs the exact limits keeps a copy (pending_start.c).
 */

#include "runtime/engine/process/start_record.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"

#include <string.h>

/* Members that only the engine sets; no client parameter has these names. */
static const struct {
	const char *name;
	size_t offset;
} own[] = {
#define OWN(name, member)                                    \
	{                                                    \
		name, offsetof(struct start_request, member) \
	}
	OWN("ownerId", owner_id),
	OWN("runId", run_id),
	OWN("attemptId", attempt_id),
	OWN("stepId", step_id),
	OWN("jobId", job_id),
	OWN("jobItemId", job_item_id),
	OWN("subagentId", subagent_id),
	OWN("processId", process_id),
	OWN("tool", tool),
	OWN("stdinText", stdin_text),
	OWN("taskId", task_id),
	OWN("toolCallId", tool_call_id),
	OWN("justification", justification),
	OWN("ownProgram", sandbox.own_program),
	OWN("toolHost", tool_host),
	OWN("toolCommand", tool_command),
	OWN("within", within),
	OWN("toolRunner", tool_runner),
#undef OWN
};

static const char **string_member(struct start_request *r, size_t offset)
{
	return (const char **)(void *)((char *)r + offset);
}

static void write_env(const struct start_request *r, struct jw *w)
{
	jw_kobj(w, "env");
	for (size_t i = 0; i < r->nenv_set; i++) {
		size_t n = strcspn(r->env_set[i], "=");
		mem_auto char *name = mem_strndup(r->env_set[i], n);

		jw_kstr(w, name, r->env_set[i][n] ? r->env_set[i] + n + 1 : "");
	}
	for (size_t i = 0; i < r->nenv_unset; i++)
		jw_kraw(w, r->env_unset[i], "null", 4);
	jw_obj_end(w);
}

void start_record_sandbox(const struct sandbox_request *s, struct jw *w)
{
	const struct profile_change *c = &s->change;

	jw_kopt(w, "profile", s->profile);
	jw_kopt(w, "cwd", s->cwd);
	if (c->cow)
		jw_kbool(w, "cow", true);
	jw_kobj(w, "sandbox");
	jw_kopt(w, "workspace", s->workspace);
	jw_kopt(w, "network", c->network);
	jw_kstrv(w, "readRoots", c->read, c->nread);
	jw_kstrv(w, "writeRoots", c->write, c->nwrite);
	jw_kstrv(w, "hidden", c->hide, c->nhide);
	jw_kstrv(w, "allowHosts", c->hosts, c->nhosts);
	if (c->tmp_bytes)
		jw_kuint(w, "tmpBytes", c->tmp_bytes);
	jw_obj_end(w);
}

/* Whether it takes over the options of a sandbox that exists. */
static bool takes_sandbox(const struct start_request *r)
{
	return r->sandbox_id && !r->holder && !start_wants_session_sandbox(r);
}

static void write_limits(const struct start_request *r, struct jw *w)
{
	const struct {
		const char *name;
		uint64_t value, none;
	} rows[] = {
		{ "wallMs", r->limits.wall_ms, LIMIT_NONE },
		{ "idleMs", r->limits.idle_ms, LIMIT_NONE },
		{ "cpuMs", r->limits.cpu_ms, LIMIT_NONE },
		{ "openFiles", r->limits.open_files, LIMIT_NONE },
		{ "fileBytes", r->limits.file_bytes, LIMIT_NONE },
		{ "outputBytes", r->limits.output_bytes, LIMIT_NONE },
	};

	jw_kobj(w, "limits");
	for (size_t i = 0; i < countof(rows); i++)
		if (rows[i].value && rows[i].value != rows[i].none)
			jw_kuint(w, rows[i].name, rows[i].value);
	plan_limits_write(r->within ? &r->own_limits : &r->sandbox.change.limits, w);
	jw_obj_end(w);
}

static void write_ports(struct jw *w, const struct port_publication *list, size_t n)
{
	if (!n)
		return;
	jw_karr(w, "publish");
	for (size_t i = 0; i < n; i++) {
		jw_obj(w);
		jw_kuint(w, "port", list[i].port);
		jw_kstr(w, "hostAddress", list[i].address);
		jw_kuint(w, "hostPort", list[i].host_port);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

void start_record_write(const struct start_request *r, struct buf *out)
{
	struct start_request copy = *r;
	struct jw w = jw_on(out);

	jw_obj(&w);
	if (r->holder) { /* the reader requires a command, and ignores this one */
		jw_kbool(&w, "holder", true);
		jw_kstrv(&w, "command", &(const char *){ "(sandbox)" }, 1);
	} else if (r->command_line)
		jw_kstr(&w, "commandLine", r->command_line);
	else
		jw_kstrv(&w, "command", r->argv, r->argc);
	write_env(r, &w);
	/* What a session sandbox determines is taken from it again, by members. */
	if (takes_sandbox(r))
		jw_kopt(&w, "cwd", r->sandbox.cwd);
	else
		start_record_sandbox(&r->sandbox, &w);
	jw_kopt(&w, "sandboxId", r->sandbox_id);
	write_limits(r, &w);
	if (r->tty_rows) {
		jw_kobj(&w, "tty");
		jw_kuint(&w, "rows", r->tty_rows);
		jw_kuint(&w, "cols", r->tty_cols);
		jw_obj_end(&w);
	}
	write_ports(&w, r->publish, r->npublish);
	jw_kstr(&w, "stdin", r->stdin_pipe ? "pipe" : "none");
	if (!r->tty_rows)
		jw_kstr(&w, "stderr", r->stderr_merge ? "merge" : "separate");
	if (r->keep_tree || r->end_tree)
		jw_kbool(&w, "keepTree", r->keep_tree);
	jw_kstr(&w, "onDisconnect", r->end_with_client ? "terminate" : "keep");
	for (size_t i = 0; i < countof(own); i++)
		jw_kopt(&w, own[i].name, *string_member(&copy, own[i].offset));
	if (r->tool)
		jw_kstrv(&w, "toolPaths", r->tool_paths, r->ntool_paths);
	if (r->owner)
		jw_kint(&w, "owner", r->owner);
	if (r->stdin_stays)
		jw_kbool(&w, "stdinStays", true);
	jw_obj_end(&w);
}

int start_record_read(const struct engine *engine, const char *text, size_t len, struct start_record *ret,
		      struct err *e)
{
	struct start_record s = { .json = json_loadb(text, len, 0, NULL) };

	if (!s.json)
		return err_set(e, ERR_CORRUPT, "the recorded start request is unreadable");
	if (start_spec_of(engine, s.json, &s.spec, e) < 0) {
		json_decref(s.json);
		return err_wrap(e, "what was to be started");
	}
	/* These overwrite what start_spec_of derived from the arguments: the recorded values were evaluated. */
	struct start_request *r = &s.spec.request;
	for (size_t i = 0; i < countof(own); i++)
		*string_member(r, own[i].offset) = json_string_value(json_object_get(s.json, own[i].name));
	r->holder = json_is_true(json_object_get(s.json, "holder"));
	r->stdin_stays = json_is_true(json_object_get(s.json, "stdinStays"));
	r->owner = (int)json_integer_value(json_object_get(s.json, "owner"));
	const json_t *paths = json_object_get(s.json, "toolPaths"), *v;
	size_t i;
	r->ntool_paths = 0;
	s.tool_paths = mem_zalloc(json_array_size(paths) + 1, sizeof *s.tool_paths);
	json_array_foreach (paths, i, v)
		s.tool_paths[r->ntool_paths++] = json_string_value(v);
	r->tool_paths = s.tool_paths;
	*ret = s;
	return 0;
}

void start_record_done(struct start_record *s)
{
	if (!s->json)
		return;
	start_spec_done(&s->spec);
	free(s->tool_paths);
	json_decref(s->json);
}

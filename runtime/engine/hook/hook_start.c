/*
 * Hooks before a process. All matching hooks inspect the start (pre_tool_use). If a person would have to be asked,
 * other hooks may answer instead (permission_request). The start waits, recorded as it was requested
 * (start_record.h). When the hooks have answered, it is repeated from the beginning, so that the rules evaluate the
 * request as the hooks rewrote it, and an approval is bound to that version.
 *
 * struct hook_wait carries the state through all passes. It belongs to the waiting process until the hooks have
 * answered, then to the repeated start, which gets the answers in start_hooked and frees it at its end. If the repeated
 * start needs the second stage, a new wait takes over the answers of the first, so that no hook runs twice.
 */

#include "runtime/engine/hook/hook.h"

#include "policy/command_text.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/ref.h"
#include "runtime/engine/policy/sandbox_setup.h"
#include "runtime/engine/process/pending_start.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/session/session.h"
#include "runtime/engine/session/tool_call_read.h"
#include "runtime/engine/tool/tool.h"

enum { BEFORE, INSTEAD, STAGES };

struct hook_wait {
	struct process *process;
	struct hook_group *group;
	const struct policy_hook *list[HOOKS_SELECTED_MAX]; /* valid only until they run */
	size_t nlist;
	enum hook_point point;
	struct hook_tool tool; /* as the hooks read it */
	/* Hooks for the command that the tool starts (tool_command); only at pre_tool_use. */
	const struct policy_hook *command_list[HOOKS_SELECTED_MAX];
	size_t ncommands;
	struct hook_tool command;
	char *tool_name; /* bailiff's name; NULL: a command */
	char *shown;     /* the command, as the hooks read it */
	struct hook_reply *replies[STAGES];
	size_t nreplies[STAGES];
	bool asked[STAGES];
	char *updated_ref;
	char *cancelled;            /* why the start is cancelled, or NULL */
	struct pending_start *hold; /* the waiting start */
	/* set once they have answered */
	struct rewriting {
		json_t *input, *arguments;
		char *text;
		struct tool_paths paths;
	} made;
	struct hook_result sum[STAGES];
	char process_id[ID_SIZE], session_id[ID_SIZE], thread_id[ID_SIZE], turn_id[ID_SIZE];
	struct start_hooked hooked;
};

/* Hooks that still run keep running, but their group no longer calls back. */
void hook_wait_free(struct hook_wait *w)
{
	if (!w)
		return;
	if (w->group)
		w->group->then = NULL;
	pending_start_free(w->hold);
	json_decref(w->made.input);
	json_decref(w->made.arguments);
	free(w->made.text);
	tool_paths_done(&w->made.paths);
	hook_tool_done(&w->tool);
	hook_tool_done(&w->command);
	for (int i = 0; i < STAGES; i++)
		hook_replies_free(w->replies[i], w->nreplies[i]);
	free(w->tool_name);
	free(w->shown);
	free(w->updated_ref);
	free(w->cancelled);
	free(w);
}

/* ---- selecting the hooks ---- */

/* A gateway's own file operation (start_spec.c): its content is not known yet, but its paths are. */
static json_t *operation_arguments(const struct start_request *r)
{
	json_t *v = json_object(), *paths = json_array();

	for (size_t i = 0; i < r->ntool_paths; i++)
		json_array_append_new(paths, json_string(r->tool_paths[i]));
	if (r->argc > 2)
		json_object_set_new(v, "operation", json_string(r->argv[2]));
	json_object_set(v, "path", json_array_get(paths, 0));
	json_object_set_new(v, "file_paths", paths);
	return v;
}

static void tool_of(const struct hook_evaluation *j, struct hook_wait *w)
{
	const struct start_request *r = j->request;
	buf_auto struct buf text = BUF_INIT;
	json_t *args;

	if (r->tool) {
		args = r->stdin_text ? json_loads(r->stdin_text, 0, NULL) : operation_arguments(r);
		hook_tool_of_call(r->tool, args, j->process->cwd, &w->tool);
		w->tool_name = mem_strdup(r->tool);
		json_decref(args);
		return;
	}
	/* Never truncated: a hook could not check the part that is missing. */
	if (r->command_line)
		buf_str(&text, r->command_line);
	for (size_t i = 0; !r->command_line && i < r->argc; i++) {
		if (i)
			buf_byte(&text, ' ');
		command_quote(r->argv[i], strlen(r->argv[i]), &text);
	}
	w->shown = buf_take(&text);
	hook_tool_of_command(w->shown, r->justification, r->limits.wall_ms, &w->tool);
}

/* A command that an agent chose is checked by the hooks for commands, although a tool starts it. */
static void select_command_hooks(const struct hook_evaluation *j, struct hook_wait *w)
{
	hook_tool_of_command(j->request->tool_command, j->request->justification, j->request->limits.wall_ms,
			     &w->command);
	const struct hook_query q = {
		.point = HOOK_PRE_TOOL_USE, .name = w->command.names, .nnames = w->command.nnames, .use = j->command_use
	};
	w->ncommands = policy_hooks_select(j->hooks, &q, w->command_list);
}

static size_t select_hooks(const struct hook_evaluation *j, enum hook_point point, struct hook_wait *w)
{
	tool_of(j, w);
	const struct hook_query q = { .point = point, .name = w->tool.names, .nnames = w->tool.nnames, .use = j->use };
	w->point = point;
	w->nlist = policy_hooks_select(j->hooks, &q, w->list);
	if (point == HOOK_PRE_TOOL_USE && j->request->tool_command)
		select_command_hooks(j, w);
	return w->nlist + w->ncommands;
}

bool hook_wanted(const struct hook_evaluation *j, enum hook_point point)
{
	struct process *p = j->process;

	if (!j->hooks || !j->hooks->at[point])
		return false;
	/* Selected now, because the lists of hooks are valid only during this call; hook_defer_start runs them. */
	struct hook_wait *w = mem_zalloc(1, sizeof *w);
	w->process = p;
	if (!select_hooks(j, point, w)) {
		hook_wait_free(w);
		return false;
	}
	hook_wait_free(p->hooks);
	p->hooks = w;
	return true;
}

void hook_list_json(const struct hook_evaluation *j, struct jw *w)
{
	static const enum hook_point points[] = { HOOK_PRE_TOOL_USE, HOOK_PERMISSION_REQUEST };

	jw_arr(w);
	for (size_t i = 0; i < countof(points); i++) {
		struct hook_wait *all = mem_zalloc(1, sizeof *all);

		if (j->hooks && j->hooks->at[points[i]])
			select_hooks(j, points[i], all);
		for (size_t k = 0; k < all->nlist; k++) {
			struct hook_ref ref;

			hook_ref_of(all->list[k], &ref);
			hook_ref_json(&ref, w);
			hook_ref_done(&ref);
		}
		hook_wait_free(all);
	}
	jw_arr_end(w);
}

bool hook_would_be_skipped(const struct hook_evaluation *j)
{
	struct hook_wait *all = mem_zalloc(1, sizeof *all);
	bool any = false;

	if (j->process->mode == MODE_UNTRUSTED && hooks_are_at(j->hooks, HOOK_PRE_TOOL_USE))
		select_hooks(j, HOOK_PRE_TOOL_USE, all);
	for (size_t i = 0; i < all->nlist; i++)
		any |= all->list[i]->layer == RULE_OF_WORKSPACE && !all->list[i]->trusted && !all->list[i]->async;
	hook_wait_free(all);
	return any;
}

/* ---- waiting ---- */

static void move_replies(struct hook_wait *from, struct hook_wait *to)
{
	for (int i = 0; i < STAGES; i++)
		if (from->asked[i]) {
			to->replies[i] = from->replies[i];
			to->nreplies[i] = from->nreplies[i];
			to->asked[i] = true;
			from->replies[i] = NULL;
			from->nreplies[i] = 0;
		}
	to->updated_ref = mem_take(&from->updated_ref);
}

static json_t *input_of(const struct process *p, const struct hook_tool *tool, const struct hook_subject *s)
{
	json_t *v = hook_input(s, p->mode);

	json_object_set_new(v, "tool_name", json_string(tool->names[0]));
	json_object_set(v, "tool_input", tool->input);
	json_object_set_new(v, "tool_use_id", json_string(p->tool_call_id[0] ? p->tool_call_id : p->id));
	return v;
}

static void texts_of(const struct process *p, const struct hook_wait *w, const struct hook_subject *s,
		     struct hook_texts *ret)
{
	json_t *v = input_of(p, &w->tool, s);

	/* In the convention's format: allow the same for the rest of the session. */
	if (w->point == HOOK_PERMISSION_REQUEST)
		json_object_set_new(v, "permission_suggestions",
				    json_pack("[{s:s,s:[{s:s,s:s}],s:s,s:s}]", "type", "addRules", "rules", "toolName",
					      w->tool.names[0], "ruleContent", w->shown ? w->shown : "*", "behavior",
					      "allow", "destination", "session"));
	hook_texts_of(&w->tool, v, ret);
}

static void on_answered(struct hook_group *group, void *ctx);

void hook_defer_start(struct process *p, const struct start_request *r, const struct caller *c)
{
	struct engine *engine = p->engine;
	struct hook_wait *w = p->hooks;
	struct transaction *tx = transaction_new_internal(engine);
	struct start_request copy = *r;
	struct err e = ERR_INIT;
	struct hook_subject s = hook_subject_of(p, w->point);

	s.cwd = p->cwd;
	s.env = r->env_set;
	s.nenv = r->nenv_set;
	s.waits = "process";
	s.owner_kind = p->owner ? owner_kind_name(p->owner) : NULL;
	s.owns_turn = p->owns_turn;
	s.reads_only = !p->writes || p->mode == MODE_PLAN;
	s.untrusting = p->mode == MODE_UNTRUSTED;
	/* The recorded start keeps the ids that the process already has. A repeated start is the same process. */
	copy.process_id = p->id;
	copy.step_id = p->step_id;
	copy.ret_process_id = NULL;
	copy.hooked = NULL;
	/* The answers of the first stage are kept for the second. */
	if (r->hooked)
		move_replies(r->hooked->wait, w);
	process_session_facts(p, tx);
	const bool new_session = p->makes_session && !p->hooked;
	p->hooked = true;
	p->state = PROCESS_WAITING;
	w->hold = pending_start_new(engine, &copy, c, NULL, NULL, &e);
	/* The session facts are committed regardless (STORE_MUST): what follows about the process refers to them. */
	if (!w->hold) {
		transaction_commit_then(tx, STORE_MUST, NULL, NULL);
		p->wait_ops->fail(p, &e);
		return;
	}
	struct hook_texts texts;
	texts_of(p, w, &s, &texts);
	s.texts = &texts;
	mem_auto char *command_input = w->ncommands ? hook_input_text(input_of(p, &w->command, &s)) : NULL;
	s.command_hooks = w->command_list;
	s.ncommand_hooks = w->ncommands;
	s.command_input = command_input;
	w->group = hook_group_new(engine, &s, w->list, w->nlist, tx);
	hook_texts_done(&texts);
	transaction_commit_then(tx, STORE_MUST, NULL, NULL);
	/* The session exists from this commit on, so its own hooks run now. */
	if (new_session)
		hook_on_session_created(
			engine, &(struct session_created_notice){
					.session_id = p->session_id, .uid = p->uid, .by = &p->by, .cwd = p->cwd });
	hook_group_run(w->group, on_answered, w);
}

void hook_cancel(struct process *p, const char *reason)
{
	struct hook_wait *w = p->hooks;

	if (!w || w->cancelled)
		return;
	w->cancelled = mem_strdup(reason ? reason : "it was ended");
	hook_group_cancel(w->group, "the start that it checks was ended");
}

/* ---- continuing with their answers ---- */

/*
 * Hooks for the command that a tool starts only restrict: allowing the command does not allow the tool, and the command
 * of a registered server cannot be rewritten.
 */
static void restrict_command_answers(struct hook_group *group, const struct hook_wait *w)
{
	for (size_t i = 0; i < w->ncommands; i++) {
		struct hook_answer *a = &group->replies[i].answer;
		json_auto_t *input = a->input ? json_loads(a->input, 0, NULL) : NULL;

		if (a->verdict == HOOK_VERDICT_ALLOW)
			a->verdict = HOOK_VERDICT_NONE;
		if (input && group->replies[i].ref.layer != RULE_OF_WORKSPACE &&
		    !hook_tool_is_same(&w->command, input)) {
			a->verdict = HOOK_VERDICT_DENY;
			free(a->reason);
			a->reason = mem_strdup("it rewrites the command of an MCP server, which is not possible");
		}
		free(mem_take(&a->input));
	}
}

/* Stores the answers of one stage. They have to outlive the group. */
static void store_replies(struct hook_group *group, struct hook_wait *w)
{
	int stage = group->point == HOOK_PRE_TOOL_USE ? BEFORE : INSTEAD;
	struct hook_result sum;

	restrict_command_answers(group, w);
	hook_group_sum(group, &sum);
	if (sum.rewriter && hook_group_input_ref(group, sum.rewriter)) {
		free(w->updated_ref);
		w->updated_ref = mem_strdup(hook_group_input_ref(group, sum.rewriter));
	}
	hook_group_take(group, &w->replies[stage], &w->nreplies[stage]);
	w->asked[stage] = true;
}

/* Records the rewritten arguments, so that the events match what runs. */
static void args_fact(struct engine *engine, const struct process *p, const json_t *arguments)
{
	mem_auto char *whole = json_dumps(arguments, JSON_COMPACT);
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct err e = ERR_INIT;
	char ref[ID_TEXT_MAX];

	if (!p->tool_call_id[0] || tool_call_read(engine, p->tool_call_id, &text, &d, &e) != 0)
		return;
	struct transaction *own = transaction_new_internal(engine);
	const struct ref_owner owner = { .uid = (uint32_t)d.uid,
					 .session_id = d.sessionId,
					 .thread_id = d.threadId,
					 .turn_id = d.turnId,
					 .tool_call_id = d.toolCallId,
					 .kind = "toolCall",
					 .id = d.toolCallId,
					 .media_type = "application/json" };
	ref_store(own, &owner, whole, strlen(whole), ref);
	EMIT(tool_args, own, tool_call_scope(&d), .updatedInputRef = ref, .inputBytes = opt_int(strlen(whole)));
	transaction_commit(own);
}

/* A changed command replaces the argument list by a shell line, because hooks only see and return a line. */
static int rewrite_command(struct hook_wait *w, struct start_request *r, struct err *e)
{
	const char *command = json_string_value(json_object_get(w->made.input, "command"));
	const char *shown = json_string_value(json_object_get(w->tool.input, "command"));
	const json_t *timeout = json_object_get(w->made.input, "timeout");

	if (!command || !command[0])
		return err_set(e, ERR_PERMISSION, "a hook gave an updatedInput without a command");
	if (strcmp(command, shown ? shown : "") != 0) {
		r->command_line = command;
		r->argv = NULL;
		r->argc = 0;
		w->made.arguments = json_pack("{s:s}", "commandLine", command);
	}
	/* A hook may change the timeout in either direction: it is part of the policy. */
	if (json_is_integer(timeout) && json_integer_value(timeout) > 0)
		r->limits.wall_ms = (uint64_t)json_integer_value(timeout);
	return 0;
}

static int rewrite_call(struct hook_wait *w, struct start_request *r, struct err *e)
{
	const struct tool_scope in = { w->process->uid, w->process->session_id };

	/* A gateway's own file operation has no request on stdin, so there is nothing to rewrite. */
	if (!r->stdin_text && hook_tool_is_same(&w->tool, w->made.input))
		return 0;
	if (!r->stdin_text)
		return err_set(e, ERR_PERMISSION,
			       "a hook gave an updatedInput for an operation on files that a gateway does, which "
			       "cannot be another");
	json_t *old = json_loads(r->stdin_text, 0, NULL);
	w->made.arguments = hook_tool_arguments(w->tool_name, old, w->process->cwd, w->made.input);
	json_decref(old);
	/* An invalid rewrite denies the start: running the original would ignore the hook. */
	if (tool_check(w->process->engine, w->tool_name, w->made.arguments, in, e) < 0) {
		e->code = ERR_PERMISSION;
		return err_wrap(e, "a hook's updatedInput");
	}
	w->made.text = json_dumps(w->made.arguments, JSON_COMPACT);
	tool_paths_of(w->tool_name, w->made.arguments, &w->made.paths);
	r->stdin_text = w->made.text;
	r->tool_paths = (const char *const *)w->made.paths.path;
	r->ntool_paths = w->made.paths.count;
	return 0;
}

/* Replaces the request by a hook's version, which is then evaluated like any request. */
static int rewrite_request(struct hook_wait *w, const struct hook_reply *by, struct start_request *r, struct err *e)
{
	w->made.input = json_loads(by->answer.input, 0, NULL);
	if ((w->tool_name ? rewrite_call(w, r, e) : rewrite_command(w, r, e)) < 0)
		return -1;
	if (w->made.arguments)
		args_fact(w->process->engine, w->process, w->made.arguments);
	return 0;
}

static void ignore_reply(void *ctx, const struct err *e, const char *json, size_t len) {}

/* Repeats the start with the answers. The waiting process is replaced by the new one, so the ids are copied first. */
static void start_again(struct hook_wait *w, struct start_request *r)
{
	struct process *p = w->process;
	struct engine *engine = p->engine;

	id_copy(w->process_id, p->id);
	memcpy(w->session_id, p->session_id, ID_SIZE);
	memcpy(w->thread_id, p->thread_id, ID_SIZE);
	memcpy(w->turn_id, p->turn_id, ID_SIZE);
	w->hooked = (struct start_hooked){ .session_id = w->session_id,
					   .thread_id = w->thread_id,
					   .turn_id = w->turn_id,
					   .owns_turn = p->owns_turn,
					   .wait = w,
					   .before = w->asked[BEFORE] ? &w->sum[BEFORE] : NULL,
					   .instead = w->asked[INSTEAD] ? &w->sum[INSTEAD] : NULL,
					   .updated_ref = w->updated_ref };
	r->hooked = &w->hooked;
	r->process_id = w->process_id;
	process_start(engine, r, &w->hold->caller, ignore_reply, NULL); /* frees the wait at its end */
}

static void on_answered(struct hook_group *group, void *ctx)
{
	const int stage = group->point == HOOK_PRE_TOOL_USE ? BEFORE : INSTEAD;
	struct hook_wait *w = ctx;
	struct process *p = w->process;
	struct start_request *r = &w->hold->record.spec.request;
	struct err e = ERR_INIT;

	store_replies(group, w);
	/* The group is freed after this callback. */
	w->group = NULL;
	/* Else process_free would free the wait together with the waiting process. */
	p->hooks = NULL;
	for (int i = 0; i < STAGES; i++)
		hook_result_of(w->replies[i], w->nreplies[i], &w->sum[i]);
	const struct hook_result *sum = &w->sum[stage];
	if (w->cancelled) {
		p->wait_ops->drop(p, w->cancelled);
		hook_wait_free(w);
	} else if (sum->rewriter && sum->verdict != HOOK_VERDICT_DENY && rewrite_request(w, sum->rewriter, r, &e) < 0) {
		p->wait_ops->fail(p, &e);
		hook_wait_free(w);
	} else {
		start_again(w, r);
	}
}

/*
 * A group of hooks: all hooks of one step, each with its own process.
 *
 * A group copies everything that it needs from the policy and the step, because policy files can be reloaded, and the
 * step can end, while hooks run. Runs and answers are two arrays with the same index: the answers outlive the group
 * when hook_group_take moves them to the caller.
 *
 * Every change of a run leads to hook_group_select, the only place where the group continues or is freed.
 */

#include "runtime/engine/hook/hook.h"

#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/hook/hook_http.h"
#include "runtime/engine/policy/policy_lookup.h"

#define INPUT_PREVIEW 256u

static char **copy_strings(char *const *v, size_t n)
{
	char **copy = mem_zalloc(n + 1, sizeof *copy);

	for (size_t i = 0; i < n; i++)
		copy[i] = mem_strdup(v[i]);
	return copy;
}

static void free_strings(char **v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i]);
	free(v);
}

/* Passed by environment and not as arguments, because arguments are recorded and headers may have secrets. */
static void set_http_env(struct hook_run *r, const struct policy_hook *h)
{
	buf_auto struct buf names = BUF_INIT;

	for (size_t i = 0; i < h->nenv; i++)
		buf_printf(&names, "%s%s", i ? "," : "", h->env[i]);
	r->env[r->nenv++] = mem_printf(HOOK_HTTP_URL "=%s", h->url);
	r->env[r->nenv++] = mem_printf(HOOK_HTTP_HEADERS "=%s", h->headers);
	r->env[r->nenv++] = mem_printf(HOOK_HTTP_ENV "=%s", buf_cstr(&names));
	r->host = mem_strdup(h->host);
}

/* Copies the variables that the hook names from the command's environment. */
static void take_env(struct hook_run *r, const struct policy_hook *h, const struct hook_subject *s)
{
	r->env = mem_zalloc(h->nenv + 4, sizeof *r->env);
	for (size_t i = 0; i < h->nenv; i++)
		for (size_t k = 0; k < s->nenv; k++) {
			size_t n = strlen(h->env[i]);

			if (strncmp(s->env[k], h->env[i], n) == 0 && s->env[k][n] == '=') {
				r->env[r->nenv++] = mem_strdup(s->env[k]);
				break;
			}
		}
}

static void started_fact(const struct hook_group *group, const struct hook_run *r, const struct hook_subject *s,
			 struct transaction *tx)
{
	mem_auto char *handler = mem_printf("%s:%u", r->reply->ref.file, r->reply->ref.line);
	mem_auto char *preview = mem_strndup(r->input, text_utf8_cut(r->input, strnlen(r->input, INPUT_PREVIEW)));
	const struct scope scope = { .uid = s->uid,
				     .session = group->session_id,
				     .thread = group->thread_id,
				     .turn = group->turn_id,
				     .process = s->process_id,
				     .tool_call = group->tool_call_id,
				     .task = group->task_id,
				     .trace = group->trace_id };

	EMIT(hook_started, tx, scope, .envelope.status = "running", .hookPoint = hook_point_name(group->point),
	     .handlerRef = handler, .handler = r->reply->ref.text, .layer = rule_layer_name(r->reply->ref.layer),
	     .timeoutMs = opt_int(r->timeout_ms), .inputPreview = preview, .processId = r->process_id,
	     .failsClosed = opt_bool(r->reply->ref.closed), .async = r->async, .waits = r->async ? NULL : s->waits,
	     .ownerKind = s->owner_kind, .ownsTurn = s->owns_turn);
}

/* Applies the session's mode to a workspace's own hook: it may get a read-only profile or be skipped. */
static void bound_run(struct hook_run *r, const struct policy_hook *h, const struct hook_subject *s)
{
	const enum permission_mode mode = permission_mode_of(r->group->engine, s->session_id);
	/* Nothing may write in mode plan, so a workspace's hooks get a read-only profile. */
	const bool tame = s->reads_only || mode == MODE_PLAN;
	/*
	 * In mode untrusted nothing unknown runs unasked, and workspace hooks are programs of the repository's
	 * author.
	 */
	const bool wary = s->untrusting || mode == MODE_UNTRUSTED;

	/* Hooks of the host and of the user are trusted. */
	if (h->layer != RULE_OF_WORKSPACE)
		return;
	if (tame && strcmp(h->profile, HOOK_PROFILE) == 0) {
		free(r->profile);
		r->profile = mem_strdup("readonly");
	}
	if (wary && !h->trusted)
		r->passed_over = mem_printf("a workspace's hooks do not run in mode untrusted; to trust its file, put "
					    "\"%s\" into trustedHooks of your policy.json",
					    h->hash);
}

static void run_add(struct hook_group *group, const struct hook_subject *s, const struct policy_hook *h,
		    const char *input, struct transaction *tx)
{
	struct hook_run *r = &group->run[group->count];

	*r = (struct hook_run){ .group = group,
				.reply = &group->replies[group->count++],
				.input = input,
				.command = mem_strdup(h->command),
				.profile = mem_strdup(h->profile),
				.arg = copy_strings(h->arg, h->nargs),
				.nargs = h->nargs,
				.has_args = h->has_args,
				.async = h->async,
				.shell = h->shell,
				.timeout_ms = h->timeout_ms };
	bound_run(r, h, s);
	hook_ref_of(h, &r->reply->ref);
	if (!r->async)
		hook_answer_fail(&r->reply->answer, "it has not answered"); /* until it does */
	take_env(r, h, s);
	if (h->url)
		set_http_env(r, h);
	id_make(ID_KIND_PROCESS, r->process_id);
	started_fact(group, r, s, tx);
	strmap_put(&group->engine->hook->runs, r->process_id, r);
}

/*
 * Runs multiply: hooks times files. Beyond the limit one run for each hook is created and fails, which denies the step
 * if the hook fails closed; checking only some of the files would be worse.
 */
static void take_inputs(struct hook_group *group, const struct hook_subject *s, size_t nhooks)
{
	const struct hook_texts *t = s->texts;
	char *const one[] = { (char *)(uintptr_t)(t ? t->text[0] : s->input) };

	group->ninputs = t ? t->count : 1;
	group->beyond = t ? t->beyond : 0;
	if (group->ninputs > 1 && group->ninputs * nhooks > HOOK_RUNS_MAX) {
		group->beyond = group->ninputs;
		group->ninputs = 1;
	}
	group->input = copy_strings(group->ninputs > 1 ? t->text : one, group->ninputs);
	group->command_input = mem_strdup(s->command_input);
}

struct hook_group *hook_group_new(struct engine *engine, const struct hook_subject *s,
				  const struct policy_hook *const *list, size_t n, struct transaction *tx)
{
	struct hook_group *group = mem_zalloc(1, sizeof *group);

	group->engine = engine;
	group->point = s->point;
	group->by = s->by;
	group->by.role = ROLE_OPERATOR; /* the policy requests the run, not the client */
	id_copy(group->session_id, s->session_id);
	id_copy(group->thread_id, s->thread_id);
	id_copy(group->turn_id, s->turn_id);
	id_copy(group->task_id, s->task_id);
	id_copy(group->tool_call_id, s->tool_call_id);
	id_copy(group->trace_id, s->trace_id);
	group->cwd = mem_strdup(s->cwd);
	take_inputs(group, s, n);
	const size_t runs = s->ncommand_hooks + n * group->ninputs;
	group->run = mem_zalloc(runs + 1, sizeof *group->run);
	group->replies = mem_zalloc(runs + 1, sizeof *group->replies);
	for (size_t i = 0; i < s->ncommand_hooks; i++)
		run_add(group, s, s->command_hooks[i], group->command_input, tx);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < group->ninputs; k++)
			run_add(group, s, list[i], group->input[k], tx);
	TAILQ_INSERT_TAIL(&engine->hook->groups, group, link);
	return group;
}

void hook_group_free(struct hook_group *group)
{
	struct engine *engine = group->engine;

	TAILQ_REMOVE(&engine->hook->groups, group, link);
	for (size_t i = 0; i < group->count; i++) {
		struct hook_run *r = &group->run[i];

		strmap_del(&engine->hook->runs, r->process_id);
		hook_ref_done(&r->reply->ref);
		hook_answer_done(&r->reply->answer);
		free(r->command);
		free(r->profile);
		free(r->passed_over);
		free(r->host);
		free_strings(r->arg, r->nargs);
		free_strings(r->env, r->nenv);
	}
	free(group->run);
	free(group->replies);
	free(group->cwd);
	free_strings(group->input, group->ninputs);
	free(group->command_input);
	free(group);
}

bool hook_run_waits(const struct hook_run *r) { return !r->over && !r->async; }

void hook_group_select(struct hook_group *group)
{
	bool waits = group->open > 0, runs = group->open > 0;

	for (size_t i = 0; i < group->count; i++) {
		waits |= hook_run_waits(&group->run[i]);
		runs |= !group->run[i].over;
	}
	if (!waits && !group->settled) {
		/* Set first: `then` may lead back to this function. */
		group->settled = true;
		group->open++; /* keeps the group alive: `then` may end its other runs */
		if (group->then)
			group->then(group, group->ctx);
		group->open--;
		hook_group_select(group);
		return;
	}
	if (!runs)
		hook_group_free(group);
}

void hook_group_sum(const struct hook_group *group, struct hook_result *ret)
{
	hook_result_of(group->replies, group->count, ret);
}

void hook_group_take(struct hook_group *group, struct hook_reply **ret, size_t *ret_n)
{
	*ret = group->replies;
	*ret_n = group->count;
	/* Asynchronous hooks may still start and end, and need a place for their answer. */
	group->replies = mem_zalloc(group->count + 1, sizeof *group->replies);
	for (size_t i = 0; i < group->count; i++) {
		struct hook_run *r = &group->run[i];

		r->reply = &group->replies[i];
		hook_ref_copy(&(*ret)[i].ref, &r->reply->ref);
	}
}

void hook_replies_free(struct hook_reply *replies, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		hook_ref_done(&replies[i].ref);
		hook_answer_done(&replies[i].answer);
	}
	free(replies);
}

const char *hook_group_input_ref(const struct hook_group *group, const struct hook_reply *reply)
{
	return reply ? none_if_empty(group->run[reply - group->replies].input_ref) : NULL;
}

void hook_context_refs(const struct hook_group *group, struct jw *w)
{
	jw_arr(w);
	for (size_t i = 0; i < group->count; i++)
		if (group->run[i].context_ref[0])
			jw_str(w, group->run[i].context_ref);
	jw_arr_end(w);
}

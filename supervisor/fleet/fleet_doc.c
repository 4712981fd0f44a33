/*
 * Parsing is strict for what is signed: an unknown member of a spec is an error, because a node that does not
 * understand a member would run something other than what was signed. Unknown members of a task document are ignored
 * (and dropped by the next update): nodes of different versions work on the same bus.
 */

#include "supervisor/fleet/fleet_doc.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/hash.h"
#include "runtime/base/json_get.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "supervisor/fleet/member.h"

#include <stdio.h>
#include <string.h>

#define ARGV_MAX 1024u
#define ENV_MAX 128u
#define LIST_MAX 64u
#define TEXT_MAX (64u << 10)

/* ---- needs ---- */

static int read_labels(const json_t *labels, struct err *e)
{
	const char *name;
	json_t *value;

	if (json_object_size(labels) > LIST_MAX)
		return err_field(e, "needs.labels", "at most %u labels", LIST_MAX);
	json_object_foreach ((json_t *)labels, name, value)
		if (!fleet_id_valid(name) || !json_is_string(value) || strlen(json_string_value(value)) > FLEET_ID_MAX)
			return err_field(e, "needs.labels", "a label is name=value, at most %u characters each",
					 FLEET_ID_MAX);
	return 0;
}

int fleet_needs_read(const json_t *object, struct fleet_needs *ret, struct err *e)
{
	static const char *const known[] = { "arch", "memory", "cpus", "labels", NULL };
	struct fleet_needs n = { 0 };

	if (member_known(object, "needs", known, e) < 0 ||
	    member_string(object, "arch", 1, FLEET_ID_MAX, &n.arch, e) < 0 ||
	    member_uint(object, "memory", 0, 1ull << 50, &n.memory, e) < 0 ||
	    member_uint(object, "cpus", 0, 1u << 16, &n.cpus, e) < 0 ||
	    member_typed(object, "labels", JSON_OBJECT, &n.labels, e) < 0)
		return -1;
	if (n.arch && !fleet_id_valid(n.arch))
		return err_field(e, "needs.arch", "'%s' is not the name of an architecture", n.arch);
	if (n.labels && read_labels(n.labels, e) < 0)
		return -1;
	if (n.labels && !json_object_size(n.labels))
		n.labels = NULL;
	*ret = n;
	return 0;
}

/* Sorted members without spaces; what is not needed is left out. */
void fleet_needs_write(const struct fleet_needs *n, struct buf *ret)
{
	json_auto_t *o = json_object();

	if (n->arch)
		json_object_set_new(o, "arch", json_string(n->arch));
	if (n->memory)
		json_object_set_new(o, "memory", json_integer((json_int_t)n->memory));
	if (n->cpus)
		json_object_set_new(o, "cpus", json_integer((json_int_t)n->cpus));
	if (n->labels)
		json_object_set(o, "labels", (json_t *)n->labels);
	mem_auto char *text = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);
	buf_str(ret, text ? text : "{}");
}

void fleet_needs_class(const struct fleet_needs *n, char ret[FLEET_CLASS_TEXT])
{
	struct buf buf_auto text = BUF_INIT;
	char hash[HASH_SHA256_TEXT];

	fleet_needs_write(n, &text);
	hash_sha256_text(text.data, text.len, hash);
	snprintf(ret, FLEET_CLASS_TEXT, "%.16s", hash);
}

/* ---- specs ---- */

static int read_command(const json_t *command, struct err *e)
{
	size_t i;
	json_t *arg;

	if (json_array_size(command) > ARGV_MAX)
		return err_field(e, "command", "at most %u arguments", ARGV_MAX);
	json_array_foreach ((json_t *)command, i, arg)
		if (!json_is_string(arg))
			return err_field(e, "command", "argument %zu is not a string", i);
	return 0;
}

static int read_env(const json_t *env, struct err *e)
{
	const char *name;
	json_t *value;

	if (json_object_size(env) > ENV_MAX)
		return err_field(e, "env", "at most %u variables", ENV_MAX);
	json_object_foreach ((json_t *)env, name, value)
		if (!json_is_string(value) || !*name || strchr(name, '='))
			return err_field(e, "env", "'%.64s' is not a variable with a text", name);
	return 0;
}

/* A path inside the workspace: relative, without "..". */
static int check_cwd(const char *cwd, struct err *e)
{
	if (cwd[0] == '/')
		return err_field(e, "cwd", "must be relative to the workspace");
	for (const char *p = cwd; *p; p += strcspn(p, "/"), p += strspn(p, "/"))
		if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || !p[2]))
			return err_field(e, "cwd", "must not leave the workspace");
	return 0;
}

static int read_inputs(struct fleet_spec *s, struct err *e)
{
	static const char *const known[] = { "url", "ref", NULL };
	const json_t *git = NULL;

	if (member_string(s->root, "bundle", 64, 64, &s->bundle, e) < 0 ||
	    member_uint(s->root, "bundleBytes", 0, 1ull << 40, &s->bundle_bytes, e) < 0 ||
	    member_typed(s->root, "git", JSON_OBJECT, &git, e) < 0)
		return -1;
	if (s->bundle && s->bundle[strspn(s->bundle, "0123456789abcdef")])
		return err_field(e, "bundle", "not a SHA-256 in lower-case hex");
	if (git && (member_known(git, "git", known, e) < 0 || member_string(git, "url", 1, 2048, &s->git_url, e) < 0 ||
		    member_string(git, "ref", 1, 256, &s->git_ref, e) < 0))
		return -1;
	if (git && !s->git_url)
		return err_field(e, "git.url", "missing");
	/* Git must not read either as an option. */
	if ((s->git_url && s->git_url[0] == '-') || (s->git_ref && s->git_ref[0] == '-'))
		return err_field(e, "git", "url and ref must not start with '-'");
	if (git && s->bundle)
		return err_field(e, "git", "give either git or bundle");
	return 0;
}

static int read_numbers(struct fleet_spec *s, struct err *e)
{
	s->priority = FLEET_PRIORITY;
	s->lease_ms = FLEET_LEASE_MS;
	if (member_uint(s->root, "priority", 0, 9, &s->priority, e) < 0 ||
	    member_uint(s->root, "retries", 0, FLEET_ATTEMPTS_MAX / 2 - 1, &s->retries, e) < 0 ||
	    member_uint(s->root, "retryLost", 0, FLEET_ATTEMPTS_MAX / 2 - 1, &s->retry_lost, e) < 0 ||
	    member_uint(s->root, "deadlineMs", 1, 365ull * 86400000, &s->deadline_ms, e) < 0 ||
	    member_uint(s->root, "leaseMs", FLEET_LEASE_MIN_MS, FLEET_LEASE_MAX_MS, &s->lease_ms, e) < 0 ||
	    member_uint(s->root, "submittedAt", 0, 1ull << 52, &s->submitted_at, e) < 0)
		return -1;
	s->not_after = s->submitted_at + FLEET_DEFAULT_NOT_AFTER_MS;
	if (member_uint(s->root, "notAfter", 0, 1ull << 53, &s->not_after, e) < 0)
		return -1;
	if (s->not_after > s->submitted_at + FLEET_NOT_AFTER_MAX_MS)
		s->not_after = s->submitted_at + FLEET_NOT_AFTER_MAX_MS;
	return 0;
}

static int read_spec(struct fleet_spec *s, struct err *e)
{
	static const char *const known[] = { "v",        "id",          "command",     "agent",      "profile",
					     "cow",      "env",         "cwd",         "needs",      "priority",
					     "retries",  "retryLost",   "after",       "deadlineMs", "leaseMs",
					     "near",     "bundle",      "bundleBytes", "group",      "git",
					     "notAfter", "submittedAt", "title",       "model",      NULL };
	const json_t *needs = NULL;

	if (member_known(s->root, "spec", known, e) < 0 || member_version(s->root, e) < 0 ||
	    member_id(s->root, "id", &s->id, e) < 0 || member_id(s->root, "group", &s->group, e) < 0 ||
	    member_typed(s->root, "command", JSON_ARRAY, &s->command, e) < 0 ||
	    member_string(s->root, "agent", 1, TEXT_MAX, &s->agent, e) < 0 ||
	    member_string(s->root, "model", 1, FLEET_ID_MAX, &s->model, e) < 0 ||
	    member_string(s->root, "title", 1, 256, &s->title, e) < 0 ||
	    member_string(s->root, "profile", 1, FLEET_ID_MAX, &s->profile, e) < 0 ||
	    member_string(s->root, "cwd", 1, 4095, &s->cwd, e) < 0 ||
	    member_typed(s->root, "env", JSON_OBJECT, &s->env, e) < 0 || member_flag(s->root, "cow", &s->cow, e) < 0 ||
	    member_typed(s->root, "needs", JSON_OBJECT, &needs, e) < 0 ||
	    member_ids(s->root, "near", LIST_MAX, &s->near, e) < 0 ||
	    member_ids(s->root, "after", LIST_MAX, &s->after, e) < 0 || read_numbers(s, e) < 0 || read_inputs(s, e) < 0)
		return -1;
	if (!s->id)
		return err_field(e, "id", "missing");
	if ((json_array_size(s->command) > 0) == (s->agent != NULL))
		return err_field(e, "command", "give either a command or an agent's objective");
	if (s->command && read_command(s->command, e) < 0)
		return -1;
	if (s->env && read_env(s->env, e) < 0)
		return -1;
	if (s->cwd && check_cwd(s->cwd, e) < 0)
		return -1;
	return needs ? fleet_needs_read(needs, &s->needs, e) : 0;
}

int fleet_spec_parse(const char *text, size_t n, struct fleet_spec *ret, struct err *e)
{
	struct fleet_spec s = { .root = member_object(text, n, FLEET_SPEC_MAX, "spec", e) };

	if (!s.root || read_spec(&s, e) < 0) {
		fleet_spec_done(&s);
		return -1;
	}
	*ret = s;
	return 0;
}

void fleet_spec_done(struct fleet_spec *s)
{
	json_decref(s->root);
	*s = (struct fleet_spec){ 0 };
}

/* ---- task documents ---- */

static const char *const state_names[] = {
	[FLEET_QUEUED] = "queued", [FLEET_RUNNING] = "running",     [FLEET_COMPLETED] = "completed",
	[FLEET_FAILED] = "failed", [FLEET_CANCELLED] = "cancelled", [FLEET_LOST] = "lost"
};

const char *fleet_state_name(enum fleet_state s) { return state_names[s]; }

int fleet_state_read(const json_t *root, enum fleet_state *ret, struct err *e)
{
	for (size_t i = 0; i < countof(state_names); i++)
		if (json_text_is(root, "state", state_names[i])) {
			*ret = (enum fleet_state)i;
			return 0;
		}
	return err_field(e, "state", "missing or unknown");
}

static int read_claim(const json_t *root, struct fleet_task *t, struct err *e)
{
	const char *node = NULL, *instance = NULL, *claim = NULL, *reason = NULL;

	if (fleet_state_read(root, &t->state, e) < 0 || member_id(root, "node", &node, e) < 0 ||
	    member_id(root, "instance", &instance, e) < 0 || member_id(root, "claim", &claim, e) < 0 ||
	    member_uint(root, "attempt", 0, FLEET_ATTEMPTS_MAX, &t->attempt, e) < 0 ||
	    member_uint(root, "token", 0, INT64_MAX, &t->token, e) < 0 ||
	    member_uint(root, "claimedAt", 0, INT64_MAX, &t->claimed_at, e) < 0 ||
	    member_uint(root, "heartbeatAt", 0, INT64_MAX, &t->heartbeat_at, e) < 0 ||
	    member_string(root, "reason", 0, FLEET_REASON_MAX - 1, &reason, e) < 0)
		return -1;
	snprintf(t->node, sizeof(t->node), "%s", node ? node : "");
	snprintf(t->instance, sizeof(t->instance), "%s", instance ? instance : "");
	snprintf(t->claim, sizeof(t->claim), "%s", claim ? claim : "");
	snprintf(t->reason, sizeof(t->reason), "%s", reason ? reason : "");
	if (t->state == FLEET_RUNNING && (!node || !claim || !t->attempt))
		return err_field(e, "state", "running without node, claim and attempt");
	return 0;
}

static int read_optional(const json_t *root, struct fleet_task *t, struct err *e)
{
	const json_t *result = NULL, *attempts = NULL;

	if (member_typed(root, "result", JSON_OBJECT, &result, e) < 0 ||
	    member_typed(root, "attempts", JSON_ARRAY, &attempts, e) < 0 ||
	    member_signed(root, "cancel", &t->cancel, e) < 0 || member_signed(root, "retry", &t->retry, e) < 0)
		return -1;
	if (json_array_size(attempts) > FLEET_ATTEMPTS_MAX)
		return err_field(e, "attempts", "at most %u", FLEET_ATTEMPTS_MAX);
	if (result)
		t->result = json_dumps(result, JSON_COMPACT);
	if (attempts)
		t->attempts = json_incref((json_t *)attempts);
	return 0;
}

static int read_task(const json_t *root, struct fleet_task *t, struct err *e)
{
	const char *spec = NULL, *submitter = NULL, *signature = NULL;

	if (member_version(root, e) < 0 || member_string(root, "spec", 2, FLEET_SPEC_MAX, &spec, e) < 0 ||
	    member_string(root, "submitter", FLEET_KEY_TEXT - 1, FLEET_KEY_TEXT - 1, &submitter, e) < 0 ||
	    member_string(root, "signature", FLEET_SIGNATURE - 1, FLEET_SIGNATURE - 1, &signature, e) < 0)
		return -1;
	if (!spec || !submitter || !signature)
		return err_field(e, !spec ? "spec" : !submitter ? "submitter" : "signature", "missing");
	t->spec_text.text = mem_strdup(spec);
	memcpy(t->spec_text.key, submitter, FLEET_KEY_TEXT);
	memcpy(t->spec_text.signature, signature, FLEET_SIGNATURE);
	if (fleet_spec_parse(spec, strlen(spec), &t->spec, e) < 0)
		return err_wrap(e, "spec");
	return read_claim(root, t, e) < 0 ? -1 : read_optional(root, t, e);
}

int fleet_task_parse(const char *text, size_t n, struct fleet_task *ret, struct err *e)
{
	json_auto_t *root = member_object(text, n, FLEET_TASK_MAX, "task", e);
	struct fleet_task t = { 0 };

	if (!root || read_task(root, &t, e) < 0) {
		fleet_task_done(&t);
		return -1;
	}
	*ret = t;
	return 0;
}

void fleet_task_write(const struct fleet_task *t, struct buf *ret)
{
	struct jw w = jw_on(ret);

	jw_obj(&w);
	jw_kuint(&w, "v", 1);
	jw_kstr(&w, "spec", t->spec_text.text);
	jw_kstr(&w, "submitter", t->spec_text.key);
	jw_kstr(&w, "signature", t->spec_text.signature);
	jw_kstr(&w, "state", fleet_state_name(t->state));
	jw_kuint(&w, "attempt", t->attempt);
	jw_kuint(&w, "lease", t->spec.lease_ms); /* for older nodes */
	if (t->node[0])
		jw_kstr(&w, "node", t->node);
	if (t->instance[0])
		jw_kstr(&w, "instance", t->instance);
	if (t->claim[0])
		jw_kstr(&w, "claim", t->claim);
	if (t->token)
		jw_kuint(&w, "token", t->token);
	if (t->claimed_at)
		jw_kuint(&w, "claimedAt", t->claimed_at);
	if (t->heartbeat_at)
		jw_kuint(&w, "heartbeatAt", t->heartbeat_at);
	if (t->reason[0])
		jw_kstr(&w, "reason", t->reason);
	if (t->result)
		jw_kraw(&w, "result", t->result, strlen(t->result));
	for (int i = 0; i < 2; i++) {
		const struct fleet_signed *s = i ? &t->retry : &t->cancel;
		struct buf buf_auto text = BUF_INIT;

		if (!s->text)
			continue;
		fleet_signed_write(s, &text);
		jw_kraw(&w, i ? "retry" : "cancel", text.data, text.len);
	}
	if (t->attempts) {
		mem_auto char *text = json_dumps(t->attempts, JSON_COMPACT);

		jw_kraw(&w, "attempts", text, strlen(text));
	}
	jw_obj_end(&w);
}

void fleet_task_done(struct fleet_task *t)
{
	fleet_signed_done(&t->spec_text);
	fleet_signed_done(&t->cancel);
	fleet_signed_done(&t->retry);
	fleet_spec_done(&t->spec);
	json_decref(t->attempts);
	free(t->result);
	*t = (struct fleet_task){ 0 };
}

int fleet_task_make(struct fleet_signed *spec_text, struct fleet_task *ret, struct err *e)
{
	struct fleet_task t = { .state = FLEET_QUEUED };

	if (fleet_spec_parse(spec_text->text, strlen(spec_text->text), &t.spec, e) < 0)
		return -1;
	t.spec_text = *spec_text;
	*spec_text = (struct fleet_signed){ 0 };
	*ret = t;
	return 0;
}

int fleet_task_verify(const struct fleet_task *t, struct err *e) { return fleet_signed_verify(&t->spec_text, e); }

/* A request in the document: for this task, of this kind, signed by its submitter or an operator. */
static bool request_counts(const struct fleet_task *t, const struct fleet_signed *s, const char *verb,
			   bool (*is_operator)(void *ctx, const char *key), void *ctx, struct fleet_request *ret)
{
	struct err e = ERR_INIT;

	if (!s->text || (strcmp(s->key, t->spec_text.key) != 0 && !(is_operator && is_operator(ctx, s->key))) ||
	    fleet_signed_verify(s, &e) < 0 || fleet_request_parse(s->text, ret, &e) < 0)
		return false;
	if (strcmp(ret->verb, verb) == 0 && strcmp(ret->task, t->spec.id) == 0)
		return true;
	fleet_request_done(ret);
	return false;
}

bool fleet_task_cancelled(const struct fleet_task *t, bool (*is_operator)(void *ctx, const char *key), void *ctx)
{
	struct fleet_request r;

	if (!request_counts(t, &t->cancel, "cancel", is_operator, ctx, &r))
		return false;
	fleet_request_done(&r);
	return true;
}

uint64_t fleet_task_granted(const struct fleet_task *t, bool (*is_operator)(void *ctx, const char *key), void *ctx)
{
	struct fleet_request r;

	if (!request_counts(t, &t->retry, "retry", is_operator, ctx, &r))
		return 0;
	const uint64_t granted = json_get_uint(r.args, "attempts");
	fleet_request_done(&r);
	return granted < FLEET_ATTEMPTS_MAX ? granted : FLEET_ATTEMPTS_MAX;
}

uint64_t fleet_task_attempts_allowed(const struct fleet_task *t, bool (*is_operator)(void *ctx, const char *key),
				     void *ctx)
{
	const uint64_t by_spec = 1 + t->spec.retries + t->spec.retry_lost;
	const uint64_t granted = fleet_task_granted(t, is_operator, ctx);

	return granted > by_spec ? granted : by_spec;
}

void fleet_write_time(struct jw *w, const char *name, uint64_t ms)
{
	char text[CLOCK_TEXT_MAX];

	if (!ms || ms > 253402300799999ull) /* the year 9999 */
		return;
	clock_format(ms * 1000, text);
	jw_kstr(w, name, text);
}

void fleet_task_note_attempt(struct fleet_task *t, const char *state, int exit_code, const char *reason)
{
	json_t *a = json_object();

	json_object_set_new(a, "attempt", json_integer((json_int_t)t->attempt));
	json_object_set_new(a, "node", json_string(t->node));
	json_object_set_new(a, "token", json_integer((json_int_t)t->token));
	json_object_set_new(a, "state", json_string(state));
	if (exit_code >= 0)
		json_object_set_new(a, "exitCode", json_integer(exit_code));
	if (reason && reason[0])
		json_object_set_new(a, "reason", json_string(reason));
	if (!t->attempts)
		t->attempts = json_array();
	if (json_array_size(t->attempts) >= FLEET_ATTEMPTS_MAX)
		json_array_remove(t->attempts, 0);
	json_array_append_new(t->attempts, a);
}

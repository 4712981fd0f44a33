/*
 * Commands in a session sandbox. A command takes over the sandbox's request and adds what belongs to a single process:
 * the command itself, working directory, environment, streams, limits of its own. Options that would change the sandbox
 * are rejected unless they ask for what it has already.
 *
 * The plan is compiled from the current policy each time. If it does not describe the sandbox that exists, policy has
 * changed since: the command must not run with more access than it would get now, and cannot get more than the sandbox
 * has, so it is rejected with the first difference.
 */

#include "runtime/engine/sandbox/sandbox_private.h"

#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/policy/sandbox_setup.h"

/* ---- options ---- */

static int reject_option(const struct sandbox *s, const char *field, const char *given, struct err *e)
{
	return err_field(e, field,
			 "'%.100s' differs from sandbox '%s', whose access does not change: leave it out, or create "
			 "another sandbox with it (bailiff cp copies files out of this one)",
			 given, s->name[0] ? s->name : s->id);
}

static int check_text(const struct sandbox *s, const char *field, const char *given, const char *own, struct err *e)
{
	return given && (!own || strcmp(given, own) != 0) ? reject_option(s, field, given, e) : 0;
}

static int check_list(const struct sandbox *s, const char *field, const char *const *given, size_t n,
		      const char *const *own, size_t nown, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		bool has = false;

		for (size_t k = 0; k < nown && !has; k++)
			has = strcmp(given[i], own[k]) == 0;
		if (!has)
			return reject_option(s, field, given[i], e);
	}
	return 0;
}

/*
 * The limits of the command alone, in addition to those of the sandbox. One that the sandbox has already needs no
 * cgroup.
 */
static int take_limits(const struct sandbox *s, const struct plan_limits *given, const struct caller *c,
		       struct plan_limits *ret, struct err *e)
{
	const uint64_t *value = given->value, *shared = s->spec.request.change.limits.value;

	*ret = (struct plan_limits){ 0 };
	for (int i = 0; i < PLAN_LIMITS; i++) {
		char field[ERR_FIELD_MAX];

		if (!value[i] || value[i] == shared[i])
			continue;
		snprintf(field, sizeof field, "limits.%s", plan_limit_info[i].key);
		if (c->role != ROLE_OPERATOR && value[i] > (shared[i] ? shared[i] : plan_limit_info[i].otherwise))
			return err_at(e, ERR_PERMISSION, field,
				      "is more than sandbox '%s' has, which only an operator may ask for",
				      s->name[0] ? s->name : s->id);
		ret->value[i] = value[i];
		ret->required |= 1u << i;
	}
	if (value[PLAN_LIMIT_MEMORY] && value[PLAN_LIMIT_MEMORY_HIGH] >= value[PLAN_LIMIT_MEMORY])
		return err_field(e, "limits.memoryHighBytes", "must be less than memoryBytes, which is %llu",
				 (unsigned long long)value[PLAN_LIMIT_MEMORY]);
	return 0;
}

static int check_options(const struct sandbox *s, const struct sandbox_request *given, struct err *e)
{
	const struct sandbox_request *own = &s->spec.request;
	const struct profile_change *a = &given->change, *b = &own->change;

	if (check_text(s, "profile", given->profile, own->profile, e) < 0 ||
	    check_text(s, "sandbox.workspace", given->workspace, own->workspace, e) < 0 ||
	    check_text(s, "sandbox.network", a->network, s->network, e) < 0 ||
	    check_list(s, "sandbox.readRoots", a->read, a->nread, b->read, b->nread, e) < 0 ||
	    check_list(s, "sandbox.writeRoots", a->write, a->nwrite, b->write, b->nwrite, e) < 0 ||
	    check_list(s, "sandbox.hidden", a->hide, a->nhide, b->hide, b->nhide, e) < 0 ||
	    check_list(s, "sandbox.allowHosts", a->hosts, a->nhosts, b->hosts, b->nhosts, e) < 0)
		return -1;
	if (a->cow && !b->cow)
		return reject_option(s, "cow", "true", e);
	if (a->tmp_bytes && a->tmp_bytes != b->tmp_bytes)
		return reject_option(s, "sandbox.tmpBytes", "another size", e);
	return 0;
}

int sandbox_check_open(const struct sandbox *s, const struct caller *c, struct err *e)
{
	const char *name = s->name[0] ? s->name : s->id;

	if (s->uid != c->uid)
		return err_at(
			e, ERR_NOT_ALLOWED, "sandboxId",
			"sandbox '%s' belongs to uid %u, and its commands run as that user: start them as that user",
			name, s->uid);
	if (sandbox_is_ending(s))
		return err_at(e, ERR_STATE, "sandboxId", "sandbox '%s' %s: create another one", name,
			      s->lost ? "has ended" : "is being closed");
	if (!s->ready)
		return err_at(e, ERR_STATE, "sandboxId",
			      "sandbox '%s' is not ready yet: wait for the reply to create_sandbox", name);
	return sandbox_check_copying(s, e);
}

/* A start that named the sandbox of its session gets one of its own. Noted if earlier commands had one. */
static int use_own_sandbox(struct engine *engine, const struct start_request *r, const struct caller *c,
			   const char *why, struct start_request *ret, struct err *e)
{
	struct sandbox_group g;

	*e = ERR_INIT;
	if (sandbox_group_of(engine, r, c, &g, e) < 0)
		return -1;
	ret->sandbox_id = NULL;
	ret->separate_reason = sandbox_latest(engine, &g) ? why : NULL;
	return 0;
}

/* A start whose session used another sandbox before does not see what is in that one. NULL = it is the same. */
static const char *compare_latest(struct sandbox *s, const struct start_request *r, const struct caller *c)
{
	struct sandbox_group g;
	struct err e = ERR_INIT;
	const struct sandbox *last = sandbox_group_of(s->engine, r, c, &g, &e) == 0 ? sandbox_latest(s->engine, &g)
										    : NULL;

	free(s->separate_reason);
	s->separate_reason = last && last != s
				     ? mem_printf("it has another workspace or asks for other access than the previous "
						  "one, in sandbox %s",
						  last->id)
				     : NULL;
	return s->separate_reason;
}

int sandbox_enter(struct engine *engine, const struct start_request *r, const struct caller *c,
		  struct start_request *ret, struct err *e)
{
	*ret = *r;
	if (!r->sandbox_id)
		return 0;
	const bool shared = start_wants_session_sandbox(r);
	struct sandbox *s = shared ? sandbox_of_session(engine, r, c, e) : sandbox_find(engine, r->sandbox_id, c, e);
	if (s && r->holder) {
		/*
		 * Again after each wait: the record of a start does not have all of the request, and the workspace may
		 * have been searched in the meantime.
		 */
		sandbox_take_repos(s);
		ret->sandbox = s->spec.request;
		return 0;
	}
	if (!s && shared && e->code == ERR_STATE) { /* it has none, and this start may not create it */
		const char *why = sandbox_not_shared(r);

		return use_own_sandbox(engine, r, c, why ? why : "the session has too many sandboxes", ret, e);
	}
	if (!s || sandbox_check_open(s, c, e) < 0)
		return -1;
	if ((!shared && check_options(s, &r->sandbox, e) < 0) ||
	    take_limits(s, &r->sandbox.change.limits, c, &ret->own_limits, e) < 0)
		return -1;
	if (shared) {
		ret->separate_reason = compare_latest(s, r, c);
		ret->keep_tree = !r->end_tree; /* a server that one command starts is there for the next */
	}
	s->idle_since_ns = engine_now(engine);
	if (s->end_with_client && !s->connection)
		s->connection = c->connection;
	ret->sandbox_id = s->id;
	ret->within = s->process_id;
	ret->sandbox = s->spec.request;
	ret->sandbox.reads_only = r->sandbox.reads_only;
	if (r->sandbox.cwd)
		ret->sandbox.cwd = r->sandbox.cwd;
	if (!r->session_id && !r->thread_id && !r->turn_id)
		ret->session_id = s->session_id;
	return 0;
}

/* ---- the plan ---- */

/* Members of sandboxProfile that describe the sandbox, with words for people; lists first. */
static const struct {
	const char *name, *meaning;
} compared[] = {
	{ "writeRoots", "write access to" }, { "readRoots", "read access to" },   { "hidden", "hidden" },
	{ "private", "a private" },          { "protected", "protected" },        { "allowedHosts", "access to host" },
	{ "deniedHosts", "denied host" },    { "credentials", "the credential" }, { "network", "network" },
	{ "copyOnWrite", "copy-on-write" },  { "workspace", "the workspace" },
};

static bool has_element(struct jval list, struct jval v)
{
	for (struct jiter it = jiter_on(list); jiter_next(&it);)
		if (it.value.len == v.len && memcmp(it.value.text, v.text, v.len) == 0)
			return true;
	return false;
}

/* The first element of `a` that `b` lacks; for scalars the value itself. */
static struct jval first_missing(struct jval a, struct jval b)
{
	if (a.type == JT_ARRAY) {
		for (struct jiter it = jiter_on(a); jiter_next(&it);)
			if (!has_element(b, it.value))
				return it.value;
	} else if (a.type != JT_NONE && (a.len != b.len || memcmp(a.text, b.text, a.len) != 0)) {
		return a;
	}
	return (struct jval){ 0 };
}

static int report_difference(const struct sandbox *s, const struct process *p, struct err *e)
{
	struct jval own = jval_of(s->profile_json, strlen(s->profile_json)),
		    now = jval_of(p->sandbox_json, strlen(p->sandbox_json));
	const char *name = s->name[0] ? s->name : s->id;

	for (size_t i = 0; i < countof(compared); i++) {
		struct jval a = jval_get(now, compared[i].name), b = jval_get(own, compared[i].name);
		struct jval more = first_missing(a, b), less = first_missing(b, a);

		if (more.type != JT_NONE)
			return err_at(e, ERR_STATE, "sandboxId",
				      "sandbox '%s' has no %s %.*s, which this command would get now" SANDBOX_ADVICE,
				      name, compared[i].meaning, (int)(more.len < 150 ? more.len : 150), more.text);
		if (less.type != JT_NONE)
			return err_at(e, ERR_STATE, "sandboxId",
				      "sandbox '%s' has %s %.*s, which this command would not get now" SANDBOX_ADVICE,
				      name, compared[i].meaning, (int)(less.len < 150 ? less.len : 150), less.text);
	}
	return err_at(
		e, ERR_STATE, "sandboxId",
		"the layers or limits of sandbox '%s' are not those that this command would get now" SANDBOX_ADVICE,
		name);
}

int sandbox_check_plan(struct process *p, const struct sandbox_setup *f, const struct plan_head *plan, struct err *e)
{
	struct sandbox *s = p->sandbox_id[0] ? sandbox_get(p->engine, p->sandbox_id) : NULL;

	if (!p->sandbox_id[0])
		return 0;
	if (!s)
		return err_at(e, ERR_STATE, "sandboxId", "sandbox '%s' is closed: create another one", p->sandbox_id);
	const char *hash = sandbox_setup_hash(f, plan);
	if (p->holder && !s->created) {
		memcpy(s->hash, hash, sizeof s->hash);
		sandbox_take_profile(s, p->sandbox_json, strlen(p->sandbox_json));
		return 0;
	}
	return strcmp(hash, s->hash) == 0 ? 0 : report_difference(s, p, e);
}

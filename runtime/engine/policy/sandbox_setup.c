#include "runtime/engine/policy/sandbox_setup.h"

#include "policy/decision.h"
#include "policy/denied_reads.h"
#include "policy/profiles.h"
#include "runtime/base/hash.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/policy/git_lookup.h"
#include "runtime/engine/policy/policy_state.h"

#include <string.h>

/* Space for all hosts in a fact, in addition to PROFILE_TEXT_MAX for paths. An event has both twice. */
#define HOSTS_TEXT_MAX 6144u
#define PROFILE_REST_USUAL 600u /* space for what is added to the members that compiled_profile keeps */

/* The cleaned HOME of the base environment; "" = none, invalid or "/". */
static void home_of(const struct buf *env, char ret[PATH_MAX])
{
	struct err e = ERR_INIT;

	ret[0] = '\0';
	for (const char *s = env->data; s && s < env->data + env->len; s += strlen(s) + 1)
		if (strncmp(s, "HOME=/", 6) == 0 && path_clean(s + 5, ret, &e) < 0)
			ret[0] = '\0';
	if (strcmp(ret, "/") == 0)
		ret[0] = '\0';
}

static bool has_empty_workspace(const struct profile *p)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->entry[i].kind == PLAN_MOUNT_EMPTY && strcmp(p->entry[i].path, "$WORKSPACE") == 0)
			return true;
	return false;
}

/* Whether programs keep their own files there (~/.ssh, ~/.config …). */
static bool is_private(const char *path, const char *home)
{
	size_t n = strlen(home);

	return n >= 2 && path_within(home, path) && path[n] == '/' && path[n + 1] == '.';
}

/*
 * The folder (clean) whose repository decides: that of the request, unless it names its workspace; of an agent's,
 * whether it may work there.
 */
static bool find_folder(const struct profile *p, const struct sandbox_request *r, const struct caller *c,
			const char *home, char ret[PATH_MAX])
{
	const char *cwd = r->base && r->base->cwd ? r->base->cwd : r->cwd;

	if (has_empty_workspace(p))
		return false;
	if (!p->confined || !r->workspace)
		return cwd && path_clean(cwd, ret, NULL) == 0;
	return c->role != ROLE_OPERATOR && path_clean(r->workspace, ret, NULL) == 0 && is_private(ret, home);
}

static int look_up_git(struct engine *engine, const struct caller *c, const char *folder, const char *home,
		       uint64_t since_ns, char ret[PATH_MAX], struct err *e)
{
	const struct git_key at = {
		.uid = c->uid, .peer_fd = c->peer_fd, .folder = folder, .home = home, .since_ns = since_ns
	};

	return git_lookup_of(engine, &at, ret, e);
}

static int find_workspace(struct engine *engine, const struct profile *p, const struct sandbox_request *r,
			  const struct caller *c, const char *home, struct workspace *ret, struct err *e)
{
	char folder[PATH_MAX], git[PATH_MAX] = "";

	if (!p->confined) {
		snprintf(ret->cwd, sizeof ret->cwd, "%s", r->cwd ? r->cwd : "/");
		ret->path[0] = '\0';
		return 0;
	}
	if (has_empty_workspace(p))
		return workspace_scratch(r->cwd, ret, e);
	int found = find_folder(p, r, c, home, folder) ? look_up_git(engine, c, folder, home, 0, git, e) : 0;
	if (found > 0)
		return err_set(e, ERR_UNAVAILABLE, "'%.300s' has not been examined yet: repeat the request", folder);
	return found < 0 ? -1 : workspace_find(r->cwd, r->workspace, home, git, ret, e);
}

/* Only operators may run without a sandbox. An early check for a better error: the spawner enforces it. */
static int check_unconfined(const struct profile *p, const struct caller *c, struct err *e)
{
	if (p->confined || c->role == ROLE_OPERATOR)
		return 0;
	err_set(e, ERR_PERMISSION, "profile %s provides no sandbox; only an operator may use it", p->name);
	snprintf(e->field, sizeof e->field, "profile");
	return -1;
}

/*
 * The caller's working directory determines which part of the home directory is visible. An agent cannot choose a
 * directory where programs keep their own files, unless it contains a git repository.
 */
static int check_agent_workspace(const struct workspace *place, const char *home, const struct caller *c, struct err *e)
{
	if (c->role == ROLE_OPERATOR || place->has_git || !is_private(place->path, home))
		return 0;
	err_set(e, ERR_PERMISSION, "an agent may not work in '%.200s', where programs keep their own files",
		place->path);
	snprintf(e->field, sizeof e->field, "cwd");
	return -1;
}

static void make_read_only(struct profile *p)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->entry[i].kind == PLAN_MOUNT_WRITE)
			p->entry[i].kind = PLAN_MOUNT_READ;
}

/*
 * ---- compiled profiles ----
 *
 * Most starts repeat an earlier one: the same profile, directory and options. The compiled profile is a function of
 * these and of nothing else (it reads no file), so the last few are kept, each with its whole input as the key.
 */

struct compiled_profile {
	unsigned refs;
	struct buf key;
	struct profile profile;
	char *git_left_out;
	struct buf members;           /* those of sandboxProfile that depend on nothing else */
	char hash[PLAN_SANDBOX_HASH]; /* sandbox_setup_hash; "" = not requested yet */
};

static void compiled_unref(struct compiled_profile *x)
{
	if (!x || --x->refs)
		return;
	buf_done(&x->key);
	profile_done(&x->profile);
	free(x->git_left_out);
	buf_done(&x->members);
	free(x);
}

void sandbox_setup_forget(struct engine *engine)
{
	for (size_t i = 0; i < countof(engine->policy->compiled); i++)
		compiled_unref(mem_take(&engine->policy->compiled[i]));
	profile_done(&engine->policy->base.profile);
	free(mem_take(&engine->policy->base.name));
}

/* With a mark before each text: NULL differs from "". */
static void key_text(struct buf *key, const char *text)
{
	buf_byte(key, text ? 1 : 0);
	if (text)
		buf_append(key, text, strlen(text) + 1);
}

static void key_bytes(struct buf *key, const void *p, size_t n)
{
	buf_append(key, &n, sizeof n);
	if (n)
		buf_append(key, p, n);
}

static void key_list(struct buf *key, const char *const *list, size_t n)
{
	buf_append(key, &n, sizeof n);
	for (size_t i = 0; i < n; i++)
		key_text(key, list[i]);
}

/* Everything that compile_profile reads. The secrets are the engine's options, which never change. */
static void write_key(const struct engine *engine, const struct sandbox_request *r, const struct profile_paths *place,
		      bool may_widen, struct buf *key)
{
	const struct profile_change *change = &r->change;
	const uint8_t flags[] = { may_widen, place->root, r->reads_only, change->cow, place->denied_more };

	key_bytes(key, &engine->profiles_generation, sizeof engine->profiles_generation);
	key_bytes(key, flags, sizeof flags);
	key_text(key, r->profile);
	key_text(key, place->cwd);
	key_text(key, place->home);
	key_text(key, place->workspace);
	key_bytes(key, place->nested, place->nested_len);
	key_bytes(key, place->git, place->git_len);
	key_bytes(key, place->denied, place->denied_len);
	key_list(key, change->read, change->nread);
	key_list(key, change->write, change->nwrite);
	key_list(key, change->hide, change->nhide);
	key_list(key, change->hosts, change->nhosts);
	key_text(key, change->network);
	key_bytes(key, &change->tmp_bytes, sizeof change->tmp_bytes);
	key_bytes(key, &change->limits, sizeof change->limits);
	key_text(key, r->own_program);
}

static struct compiled_profile *find_compiled(const struct engine *engine, const struct buf *key)
{
	for (size_t i = 0; i < countof(engine->policy->compiled); i++) {
		struct compiled_profile *x = engine->policy->compiled[i];

		if (x && x->key.len == key->len && memcmp(x->key.data, key->data, key->len) == 0)
			return x;
	}
	return NULL;
}

/* Replaces the oldest one. */
static void keep_compiled(struct engine *engine, struct compiled_profile *x)
{
	struct compiled_profile *
		*slot = &engine->policy->compiled[engine->policy->ncompiled++ % countof(engine->policy->compiled)];

	compiled_unref(*slot);
	x->refs++;
	*slot = x;
}

static int compile_profile(const struct engine *engine, const struct sandbox_request *r,
			   const struct profile_paths *place, bool may_widen, struct compiled_profile *x, struct err *e)
{
	const char *left_out;

	if (profile_expand(&x->profile, place, e) < 0 ||
	    (engine->profiles && profile_apply_lists(&x->profile, &engine->profiles->section.paths, place, e) < 0) ||
	    profile_add_git(&x->profile, place, &left_out, e) < 0)
		return -1;
	x->git_left_out = left_out ? mem_strdup(left_out) : NULL;
	if (profile_adjust(&x->profile, &r->change, place, may_widen, e) < 0)
		return -1;
	/* After profile_adjust, so that it also applies to write roots that the request adds. */
	if (r->reads_only)
		make_read_only(&x->profile);
	if ((r->own_program && x->profile.confined &&
	     profile_add(&x->profile, PLAN_MOUNT_READ, 0, r->own_program, e) < 0) ||
	    profile_compile(&x->profile, place, e) < 0)
		return -1;
	if (place->root)
		profile_drop_root_ids(&x->profile);
	return 0;
}

static void write_members(struct compiled_profile *x);

/* `base` is the profile as the policy has it. */
static int find_profile(struct engine *engine, const struct sandbox_request *r, const struct profile_paths *place,
			bool may_widen, const struct profile *base, struct sandbox_setup *f, struct err *e)
{
	buf_auto struct buf key = BUF_INIT;
	struct compiled_profile *x;

	write_key(engine, r, place, may_widen, &key);
	x = find_compiled(engine, &key);
	if (x) {
		x->refs++;
	} else {
		x = mem_zalloc(1, sizeof *x);
		x->refs = 1;
		x->key = key;
		key = BUF_INIT;
		profile_copy(base, &x->profile);
		if (compile_profile(engine, r, place, may_widen, x, e) < 0) {
			compiled_unref(x);
			return -1;
		}
		write_members(x);
		keep_compiled(engine, x);
	}
	f->compiled = x;
	f->profile = x->profile;
	f->git_left_out = x->git_left_out;
	return 0;
}

/* ---- setups ---- */

/* False: there are more. If the rules are outdated, the start waits for the new ones, and its setup is made again. */
static bool find_denied(struct engine *engine, const struct workspace *place, const char *home, const struct caller *c,
			struct buf *ret)
{
	const struct rule_base_paths bases = { .cwd = place->cwd, .workspace = place->path, .home = home };
	const struct policy_rules *rules = engine->o.ports->rules_of
						   ? engine->o.ports->rules_of(engine->o.host, c->uid, place->path)
						   : engine->rules;

	return policy_denied_reads(rules, &bases, ret);
}

static int make_setup(struct engine *engine, const struct sandbox_request *r, const struct caller *c,
		      const struct profile *base, struct sandbox_setup *f, struct err *e)
{
	buf_auto struct buf nested = BUF_INIT, git = BUF_INIT, denied = BUF_INIT;
	struct sandbox_request at = *r;
	char home[PATH_MAX];

	engine->o.ports->base_env(engine->o.host, c->uid, &f->env);
	home_of(&f->env, home);
	if (r->base && r->base->cwd)
		at.cwd = r->base->cwd;
	if (check_unconfined(base, c, e) < 0 || find_workspace(engine, base, &at, c, home, &f->workspace, e) < 0 ||
	    check_agent_workspace(&f->workspace, home, c, e) < 0)
		return -1;
	if (r->base) {
		buf_append(&nested, r->base->nested, r->base->nested_len);
		buf_append(&git, r->base->git, r->base->git_len);
	} else if (base->confined && f->workspace.path[0] && engine->o.ports->repos_of) {
		engine->o.ports->repos_of(engine->o.host, c->uid, f->workspace.path, &nested, &git);
	}
	const bool more = base->confined && !find_denied(engine, &f->workspace, home, c, &denied);
	const struct profile_paths place = {
		.cwd = f->workspace.cwd,
		.home = home,
		.workspace = f->workspace.path,
		.secrets = engine->o.secrets,
		.nsecrets = engine->o.nsecrets,
		.folders = engine->o.secret_folders,
		.nfolders = engine->o.nsecret_folders,
		.nested = nested.data,
		.nested_len = nested.len,
		.git = git.data,
		.git_len = git.len,
		.denied = denied.data,
		.denied_len = denied.len,
		.denied_more = more,
		.root = c->uid == 0,
	};
	if (find_profile(engine, r, &place, c->role == ROLE_OPERATOR, base, f, e) < 0)
		return -1;
	/* The profile is expanded for the sandbox's directory; the command runs in its own. */
	if (at.cwd != r->cwd && r->cwd)
		return path_clean(r->cwd, f->workspace.cwd, e) < 0 ? err_at(e, ERR_INVALID, "cwd", "%s", e->message)
								   : 0;
	return 0;
}

/* The profile as the policy has it; the last one is kept, because it is read again for each start. */
static const struct profile *find_base(struct engine *engine, const char *name, struct err *e)
{
	static const struct policy_profiles none;
	const struct policy_profiles *profiles = engine->profiles ? engine->profiles : &none;
	struct policy_state *s = engine->policy;
	struct profile fresh = { 0 };

	if (s->base.generation == engine->profiles_generation && s->base.name && strcmp(s->base.name, name) == 0)
		return &s->base.profile;
	if (policy_profiles_get(profiles, name, &fresh, e) < 0)
		return NULL;
	profile_done(&s->base.profile);
	free(s->base.name);
	s->base.profile = fresh;
	s->base.name = mem_strdup(name);
	s->base.generation = engine->profiles_generation;
	return &s->base.profile;
}

int sandbox_setup_make(struct engine *engine, const struct sandbox_request *r, const struct caller *c,
		       struct sandbox_setup *ret, struct err *e)
{
	const struct profile *base;

	*ret = (struct sandbox_setup){ 0 };
	if (engine->policy_problem[0])
		return err_because(e, ERR_UNAVAILABLE, REASON_POLICY_INVALID,
				   "nothing is started until the policy is corrected: %s", engine->policy_problem);
	base = find_base(engine, r->profile ? r->profile : PROFILE_DEFAULT, e);
	if (!base)
		return -1;
	if (make_setup(engine, r, c, base, ret, e) < 0) {
		sandbox_setup_done(ret);
		return -1;
	}
	return 0;
}

int sandbox_setup_lookup(struct engine *engine, const struct sandbox_request *r, const struct caller *c,
			 uint64_t since_ns, char ret_folder[PATH_MAX], struct err *e)
{
	buf_auto struct buf env = BUF_INIT;
	char home[PATH_MAX], git[PATH_MAX];
	struct err later = ERR_INIT;
	const struct profile *base = engine->policy_problem[0]
					     ? NULL
					     : find_base(engine, r->profile ? r->profile : PROFILE_DEFAULT, &later);

	if (!base)
		return 0;
	engine->o.ports->base_env(engine->o.host, c->uid, &env);
	home_of(&env, home);
	return find_folder(base, r, c, home, ret_folder) ? look_up_git(engine, c, ret_folder, home, since_ns, git, e)
							 : 0;
}

void sandbox_setup_done(struct sandbox_setup *f)
{
	compiled_unref(f->compiled);
	buf_done(&f->env);
	*f = (struct sandbox_setup){ 0 };
}

bool sandbox_setup_cwd_is_private(const struct sandbox_setup *f)
{
	static const char *const temporary[] = { "/tmp", "/var/tmp", "/dev/shm" };
	const char *cwd = f->workspace.cwd;
	size_t deepest = 0;
	uint32_t kind = PLAN_MOUNT_SYSTEM;

	/* The deepest mount is the one that is seen. */
	for (size_t i = 0; i < f->profile.count; i++) {
		const struct profile_entry *en = &f->profile.entry[i];

		if (!path_within(en->path, cwd) || strlen(en->path) < deepest)
			continue;
		deepest = strlen(en->path);
		kind = en->kind;
	}
	for (size_t i = 0; i < countof(temporary); i++)
		if (path_within(temporary[i], cwd) && strlen(temporary[i]) > deepest)
			kind = PLAN_MOUNT_EMPTY;
	return f->profile.confined && kind == PLAN_MOUNT_EMPTY;
}

/* Hosts and credentials are not in the plan: the proxy gets them once, with the holder. */
const char *sandbox_setup_hash(const struct sandbox_setup *f, const struct plan_head *plan)
{
	const struct host_rules *hosts = &f->profile.hosts;
	char *ret = f->compiled->hash;
	buf_auto struct buf all = BUF_INIT;

	if (ret[0])
		return ret;
	plan_sandbox_hash(plan, ret);
	buf_str(&all, ret);
	for (size_t i = 0; plan->network == PLAN_NET_ALLOW && i < hosts->count; i++) {
		buf_printf(&all, "\n%u %u ", hosts->rule[i].kind, hosts->rule[i].deny);
		host_rule_text(&hosts->rule[i], &all);
	}
	hash_sha256_text(all.data, all.len, ret);
	return ret;
}

/* ---- JSON for facts and results ---- */

static void paths_json(const struct profile *p, const char *key, uint32_t kind, uint32_t also, struct jw *w)
{
	jw_karr(w, key);
	if (!p->confined && kind != PLAN_MOUNT_HIDE)
		jw_str(w, "/");
	for (size_t i = 0; i < p->count; i++)
		if (p->entry[i].kind == kind || p->entry[i].kind == also)
			jw_str(w, p->entry[i].path);
	jw_arr_end(w);
}

/* The list that a rule belongs to: 0 = allowed hosts, 1 = denied hosts, 2 = credentials. */
static unsigned host_list_of(const struct host_rule *r) { return r->kind == HOST_RULE_CREDENTIAL ? 2 : r->deny; }

/* Writes the hosts of one list as far as they fit into *room, and the number of those left out. */
static void hosts_json(const struct host_rules *s, const char *key, unsigned which, size_t *room, struct jw *w)
{
	buf_auto struct buf text = BUF_INIT;
	char omitted_key[32];
	size_t omitted = 0;

	jw_karr(w, key);
	for (size_t i = 0; i < s->count; i++) {
		if (host_list_of(&s->rule[i]) != which)
			continue;
		buf_reset(&text);
		host_rule_text(&s->rule[i], &text);
		if (text.len + 3 > *room) {
			omitted++;
			continue;
		}
		*room -= text.len + 3;
		jw_strn(w, text.data, text.len);
	}
	jw_arr_end(w);
	snprintf(omitted_key, sizeof omitted_key, "%sOmitted", key);
	if (omitted)
		jw_kuint(w, omitted_key, omitted);
}

/* Of the hidden paths, those that rules or the section sandbox name; no member if there are none. */
static void hidden_by_policy_json(const struct profile *p, struct jw *w)
{
	bool any = false;

	for (size_t i = 0; i < p->count; i++) {
		const struct profile_entry *en = &p->entry[i];

		if (en->kind != PLAN_MOUNT_HIDE || !(en->flags & PLAN_MOUNT_EXACT))
			continue;
		if (!any)
			jw_karr(w, "hiddenByPolicy");
		any = true;
		jw_str(w, en->path);
	}
	if (any)
		jw_arr_end(w);
}

static void write_members(struct compiled_profile *x)
{
	const struct profile *p = &x->profile;
	struct jw w = jw_on(&x->members);

	paths_json(p, "readRoots", PLAN_MOUNT_SYSTEM, PLAN_MOUNT_READ, &w);
	paths_json(p, "writeRoots", PLAN_MOUNT_WRITE, 0, &w);
	paths_json(p, "hidden", PLAN_MOUNT_HIDE, 0, &w);
	hidden_by_policy_json(p, &w);
	if (p->denied_shown)
		jw_kstr(&w, "hiddenNote", PROFILE_DENIED_SHOWN);
	if (p->confined) {
		paths_json(p, "private", PLAN_MOUNT_EMPTY, 0, &w);
		paths_json(p, "protected", PLAN_MOUNT_PROTECT, 0, &w);
		jw_kbool(&w, "copyOnWrite", p->cow);
	}
	if (x->git_left_out)
		jw_kstr(&w, "gitLeftOut", x->git_left_out);
	jw_kstr(&w, "network", profile_network_name(p->network));
	if (p->confined && p->network == PLAN_NET_ALLOW) {
		size_t room = HOSTS_TEXT_MAX;
		hosts_json(&p->hosts, "allowedHosts", 0, &room, &w);
		hosts_json(&p->hosts, "deniedHosts", 1, &room, &w);
		hosts_json(&p->hosts, "credentials", 2, &room, &w);
	}
}

void sandbox_setup_profile_json(const struct sandbox_setup *f, const struct process_limits *limits, struct jw *w)
{
	buf_reserve(w->buf, f->compiled->members.len + PROFILE_REST_USUAL);
	jw_obj(w);
	jw_kstr(w, "mode", f->profile.name);
	jw_kstr(w, "cwd", f->workspace.cwd);
	if (f->workspace.path[0])
		jw_kstr(w, "workspace", f->workspace.path);
	jw_raw(w, f->compiled->members.data, f->compiled->members.len);
	json_value_member(w, "processLimits", json_limits(limits));
	jw_karr(w, "violationRefs");
	jw_arr_end(w);
	jw_obj_end(w);
}

/* [{"kind","path","optional"?,"owned"?}] */
static void sandbox_setup_mounts_json(const struct sandbox_setup *f, struct jw *w)
{
	jw_arr(w);
	for (size_t i = 0; i < f->profile.count; i++) {
		const struct profile_entry *en = &f->profile.entry[i];
		jw_obj(w);
		jw_kstr(w, "kind", profile_kind_name(en->kind));
		jw_kstr(w, "path", en->path);
		if (en->flags & PLAN_MOUNT_OPTIONAL)
			jw_kbool(w, "optional", true);
		if (en->flags & PLAN_MOUNT_OWNED)
			jw_kbool(w, "owned", true);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

void sandbox_setup_denial_json(const struct err *e, struct jw *w)
{
	struct policy_decision d = { .answer = POLICY_DENY, .source = POLICY_BY_MODE, .scope = POLICY_ONCE };
	buf_auto struct buf text = BUF_INIT;

	snprintf(d.reason, sizeof d.reason, "%.*s", (int)sizeof d.reason - 1, e->message);
	policy_decision_json(&d, &text);
	jw_kraw(w, "permissionDecision", text.data, text.len);
}

/* ---- get_sandbox ---- */

static void layers_json(const char *key, uint32_t bits, struct jw *w)
{
	jw_karr(w, key);
	for (unsigned i = 0; profile_layer_name(i); i++)
		if (bits & 1u << i)
			jw_str(w, profile_layer_name(i));
	jw_arr_end(w);
}

static void profiles_json(const struct policy_profiles *s, struct jw *w)
{
	jw_karr(w, "profiles");
	for (size_t i = 0; s && i < s->count; i++) {
		jw_obj(w);
		jw_kstr(w, "name", s->profile[i]->name);
		jw_kstr(w, "from", "policy");
		jw_obj_end(w);
	}
	for (size_t i = 0; i < profile_shipped_count(); i++) {
		jw_obj(w);
		jw_kstr(w, "name", profile_shipped_info(i)->name);
		jw_kstr(w, "from", "bailiff");
		jw_kstr(w, "summary", profile_shipped_info(i)->summary);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

int engine_show_sandbox(struct engine *engine, const struct sandbox_request *r, const struct caller *c, struct buf *out,
			struct err *e)
{
	sandbox_setup_auto struct sandbox_setup f = { 0 };
	struct process_limits limits = engine->o.defaults;
	struct jw w = jw_on(out);

	if (sandbox_setup_make(engine, r, c, &f, e) < 0)
		return -1;
	limits.tree = f.profile.limits;
	limits.tmp_bytes = f.profile.tmp_bytes;
	jw_obj(&w);
	jw_kstr(&w, "profile", f.profile.name);
	jw_kbool(&w, "confined", f.profile.confined);
	jw_key(&w, "sandboxProfile");
	sandbox_setup_profile_json(&f, &limits, &w);
	jw_key(&w, "mounts");
	sandbox_setup_mounts_json(&f, &w);
	layers_json("layers", f.profile.layers, &w);
	layers_json("require", f.profile.require, &w);
	jw_kstr(&w, "defaultProfile", PROFILE_DEFAULT);
	profiles_json(engine->profiles, &w);
	jw_obj_end(&w);
	return 0;
}

/* ---- work that root starts later ---- */

void root_authorise(struct engine *engine, const struct sandbox_setup *f, const struct caller *c, bool delay_reply)
{
	buf_auto struct buf paths = BUF_INIT;

	if (c->uid != 0 || !c->connection || c->peer_fd < 0 || !engine->o.ports->authorise || !f->profile.confined)
		return;
	for (size_t i = 0; i < f->profile.count; i++) {
		const struct profile_entry *en = &f->profile.entry[i];

		if (en->kind == PLAN_MOUNT_WRITE || (en->kind == PLAN_MOUNT_READ && en->flags & PLAN_MOUNT_OWNED))
			buf_append(&paths, en->path, strlen(en->path) + 1);
	}
	if (paths.len)
		engine->o.ports->authorise(engine->o.host, c->peer_fd, paths.data, paths.len, delay_reply);
}

void root_authorise_request(struct engine *engine, const struct sandbox_request *r, const struct caller *c)
{
	sandbox_setup_auto struct sandbox_setup f = { 0 };
	struct err e = ERR_INIT; /* ignored: the start reports the same error */

	if (c->uid == 0 && sandbox_setup_make(engine, r, c, &f, &e) == 0)
		root_authorise(engine, &f, c, true);
}

/*
 * The table of open sandboxes: the stored form of their request, and how a client's id or name finds one.
 */

#include "runtime/engine/sandbox/sandbox_private.h"

#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/process/start_record.h"
#include "runtime/view/view_documents.h"

struct sandbox *sandbox_get(struct engine *engine, const char *id) { return strmap_get(&engine->sandboxes->open, id); }

struct sandbox *sandbox_new(struct engine *engine, const char *id, uint32_t uid)
{
	struct sandbox *s = mem_zalloc(1, sizeof *s);

	s->engine = engine;
	id_copy(s->id, id);
	s->uid = uid;
	s->idle_since_ns = engine_now(engine);
	TAILQ_INIT(&s->waiters);
	strmap_put(&engine->sandboxes->open, s->id, s);
	return s;
}

/* Replies were sent, or their clients are gone with the engine. */
void sandbox_free(struct sandbox *s)
{
	struct close_waiter *w;

	strmap_del(&s->engine->sandboxes->open, s->id);
	while ((w = TAILQ_FIRST(&s->waiters))) {
		TAILQ_REMOVE(&s->waiters, w, link);
		reply_done(&w->reply);
		free(w);
	}
	reply_done(&s->create);
	if (s->request)
		sandbox_spec_done(&s->spec);
	json_decref(s->request);
	buf_done(&s->nested);
	buf_done(&s->git);
	free(s->profile_json);
	free(s->replaces);
	free(s->separate_reason);
	free(s->running);
	free(s);
}

void sandbox_take_profile(struct sandbox *s, const char *json, size_t len)
{
	free(s->profile_json);
	s->profile_json = mem_strndup(json, len);
	jval_str(jval_get(jval_of(json, len), "network"), s->network, sizeof s->network);
}

/* ---- the stored request ---- */

static void write_list(struct jw *w, const char *key, const char *list, size_t len)
{
	jw_karr(w, key);
	for (const char *p = list; p && p < list + len; p += strlen(p) + 1)
		jw_str(w, p);
	jw_arr_end(w);
}

static void read_list(const json_t *request, const char *key, struct buf *out)
{
	const json_t *v;
	size_t i;

	json_array_foreach (json_object_get(request, key), i, v)
		buf_append(out, json_string_value(v), json_string_length(v) + 1);
}

static void set_base(struct sandbox *s)
{
	s->base = (struct sandbox_base){ s->spec.request.cwd, s->nested.data, s->nested.len, s->git.data, s->git.len };
	s->spec.request.base = &s->base;
}

void sandbox_request_write(const struct sandbox_request *r, struct jw *w)
{
	const struct sandbox_base *base = r->base;

	jw_obj(w);
	start_record_sandbox(r, w);
	jw_kobj(w, "limits");
	plan_limits_write(&r->change.limits, w);
	jw_obj_end(w);
	jw_kopt(w, "ownProgram", r->own_program);
	jw_kopt(w, "group", r->group);
	write_list(w, "nested", base ? base->nested : NULL, base ? base->nested_len : 0);
	write_list(w, "git", base ? base->git : NULL, base ? base->git_len : 0);
	jw_obj_end(w);
}

int sandbox_take_request(struct sandbox *s, json_t *request, struct err *e)
{
	if (sandbox_spec_of(request, &s->spec, e) < 0) {
		json_decref(request);
		return -1;
	}
	s->request = request;
	s->spec.request.own_program = json_get_string(request, "ownProgram");
	s->spec.request.group = json_get_string(request, "group");
	read_list(request, "nested", &s->nested);
	read_list(request, "git", &s->git);
	set_base(s);
	return 0;
}

void sandbox_take_repos(struct sandbox *s)
{
	const struct engine *engine = s->engine;

	buf_reset(&s->nested);
	buf_reset(&s->git);
	if (s->spec.request.workspace && engine->o.ports->repos_of)
		engine->o.ports->repos_of(engine->o.host, s->uid, s->spec.request.workspace, &s->nested, &s->git);
	set_base(s);
}

/* ---- finding one ---- */

struct name_search {
	const char *name;
	uint32_t uid;
	struct sandbox *found;
};

static void match_name(void *ctx, const char *id, void *value)
{
	struct name_search *n = ctx;
	struct sandbox *s = value;

	/* One that is ending has lost its name to the next. Of two after a crash, the newer one has it. */
	if (s->uid == n->uid && strcmp(s->name, n->name) == 0 &&
	    (!n->found || (sandbox_is_ending(n->found) && !sandbox_is_ending(s)) ||
	     (sandbox_is_ending(n->found) == sandbox_is_ending(s) && strcmp(s->id, n->found->id) > 0)))
		n->found = s;
}

struct sandbox *sandbox_find_name(struct engine *engine, const char *name, uint32_t uid)
{
	struct name_search n = { .name = name, .uid = uid };

	if (*name)
		strmap_each(&engine->sandboxes->open, match_name, &n);
	return n.found;
}

static bool controls(const struct caller *c, uint64_t uid) { return c->uid == 0 || c->uid == uid; }

struct sandbox *sandbox_find(struct engine *engine, const char *given, const struct caller *c, struct err *e)
{
	struct sandbox *s = sandbox_get(engine, given);
	buf_auto struct buf text = BUF_INIT;
	struct sandbox_doc d;

	if (!s)
		s = sandbox_find_name(engine, given, c->uid);
	if (s && controls(c, s->uid))
		return s;
	int r = view_read_speculative(engine->o.store, &sandbox_schema, given, &text, &d, e);
	if (r == 0 && controls(c, d.uid))
		err_at(e, ERR_STATE, "sandboxId", "sandbox '%s' is closed: create another one", given);
	else if (r >= 0)
		err_at(e, ERR_NOT_FOUND, "sandboxId",
		       "sandbox '%s' is not known; list_sandboxes shows those that are open", given);
	return NULL;
}

void engine_sandbox_id(struct engine *engine, const char *given, const struct caller *c, char ret[ID_SIZE])
{
	const struct sandbox *s = sandbox_find_name(engine, given, c->uid);

	id_copy(ret, s ? s->id : given);
}

/* ---- the module ---- */

void sandbox_init(struct engine *engine)
{
	engine->sandboxes = mem_zalloc(1, sizeof *engine->sandboxes);
	TAILQ_INIT(&engine->sandboxes->copies);
}

static void free_open(void *ctx, const char *id, void *value) { sandbox_free(value); }

void sandbox_done(struct engine *engine)
{
	strmap_each(&engine->sandboxes->open, free_open, NULL);
	strmap_done(&engine->sandboxes->open);
	sandbox_copies_free(engine);
	free(engine->sandboxes);
}

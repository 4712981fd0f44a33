/*
 * The sandbox of a session. Starts that name SANDBOX_OF_SESSION instead of a sandbox share one with the other such
 * starts of their session: it is created for the first of them, has the session's id as its name, and ends with the
 * session. The same with SANDBOX_OF_THREAD, except that a subagent, whose thread is part of its parent's session, has
 * one of its own, which ends when it is closed.
 *
 * Starts with a profile or other options of the sandbox, such as a hidden path, share another one with the starts that
 * have exactly the same options; its name has a hash of them. So no start determines the access of another, and each
 * still needs the right to what it asks for. The stored request of such a sandbox has the session or thread (`group`):
 * a name alone proves nothing, because clients choose names. Limits on the tree are those of the command alone.
 * Copy-on-write changes, a directory outside of the sandbox's workspace, or more than SESSION_SANDBOXES_MAX sandboxes
 * of one session make a start run in a single-use sandbox. The reply to a start that does not see what the session's
 * previous one left says so (sandbox_member.c).
 *
 * If the policy has changed since the sandbox was created, a new one takes its place: the old one ends when its last
 * command has, and the reply to the start says what differed, because /tmp and the processes of the old one are out of
 * reach.
 */

#include "runtime/engine/sandbox/sandbox_private.h"

#include "runtime/base/hash.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/process/start_record.h"
#include "runtime/engine/session/session.h"
#include "runtime/view/view.h"
#include "runtime/view/view_documents.h"

#define KEY_SHOWN 40 /* bytes of the group's key in a name */

/* A start that waits until the sandbox of its session exists. */
struct session_waiter {
	TAILQ_ENTRY(session_waiter) link;
	sandbox_session_fn fn;
	void *ctx;
};

struct session_creation {
	struct engine *engine;
	char name[ID_SIZE];     /* of the sandbox */
	char key[ID_SIZE + 12]; /* in sandbox_state.creating */
	uint32_t uid;
	char *replaces; /* why the earlier sandbox is not used any longer; NULL = there was none */
	TAILQ_HEAD(, session_waiter) waiters;
};

const char *sandbox_not_shared(const struct start_request *r)
{
	return r->sandbox.change.cow ? "copy-on-write changes belong to a whole sandbox" : NULL;
}

/* Whether the thread is a subagent's. */
static int is_subagent(struct engine *engine, const char *thread_id, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct thread_doc d;
	int r = view_read_speculative(engine->o.store, &thread_schema, thread_id, &text, &d, e);

	return r < 0 ? -1 : r == 0 && jval_is_str(d.origin, "subagent");
}

int sandbox_group_of(struct engine *engine, const struct start_request *r, const struct caller *c,
		     struct sandbox_group *ret, struct err *e)
{
	struct view_turn_brief turn = { 0 };
	struct view_thread_brief thread = { 0 };
	const char *session = r->session_id, *of = r->thread_id;
	int found = 0, own = 0;

	if (!session && r->turn_id) {
		found = view_turn_brief(engine->o.store, c->uid, r->turn_id, &turn, e);
		session = turn.session_id;
		of = turn.thread_id;
	} else if (!session && of) {
		found = view_thread_brief(engine->o.store, c->uid, of, &thread, e);
		session = thread.session_id;
	}
	if (found == 0 && of && strcmp(r->sandbox_id, SANDBOX_OF_THREAD) == 0)
		own = is_subagent(engine, of, e);
	if (found < 0 || own < 0)
		return -1;
	if (found > 0 || !session || !*session)
		return err_field(e, "sandboxId", "'%s' needs a sessionId, threadId or turnId that is known",
				 r->sandbox_id);
	id_copy(ret->session, session);
	id_copy(ret->key, own ? of : session);
	return 0;
}

/*
 * The name of the sandbox that a start shares: it depends on the options alone. `number` is above 0 for further ones
 * with the same options, for other workspaces.
 */
static void name_of(const char *key, const struct start_request *r, unsigned number, char ret[ID_SIZE])
{
	const struct profile_change *x = &r->sandbox.change;
	const bool options = number || x->network || x->nread || x->nwrite || x->nhide || x->nhosts || x->tmp_bytes ||
			     r->sandbox.workspace;
	struct sandbox_request given = r->sandbox;
	buf_auto struct buf text = BUF_INIT;
	char hash[HASH_SHA256_TEXT];
	struct jw w = jw_on(&text);

	if (!options && !given.profile) {
		id_copy(ret, key);
		return;
	}
	int n = snprintf(ret, ID_SIZE, "%s.%s", key, given.profile ? given.profile : "");
	if (!options && n <= ID_GIVEN_MAX && id_valid(ret, (size_t)n))
		return;
	given.cwd = NULL;
	jw_obj(&w);
	jw_kstr(&w, "of", key);
	jw_kuint(&w, "number", number);
	start_record_sandbox(&given, &w);
	jw_obj_end(&w);
	hash_sha256_text(text.data, text.len, hash);
	snprintf(ret, ID_SIZE, "%.*s.%.16s", KEY_SHOWN, key, hash);
}

/* No directory, or one that every sandbox has for itself. */
static bool is_temporary(const char *cwd)
{
	static const char *const folders[] = { "/tmp", "/var/tmp", "/dev/shm" };

	for (size_t i = 0; cwd && i < countof(folders); i++)
		if (strcmp(cwd, folders[i]) == 0)
			return true;
	return !cwd;
}

/* Whether the directory belongs to what the sandbox was made for. */
static bool contains(const struct sandbox *s, const char *cwd)
{
	const struct sandbox_request *own = &s->spec.request;
	const char *workspace = own->workspace ? own->workspace : own->cwd;

	return is_temporary(cwd) || (!is_temporary(workspace) && plan_path_inside(cwd, workspace));
}

/*
 * Whether the sandbox was created for such starts: a client can give the name of one to its own, with other options.
 * One without a name has been replaced.
 */
static bool is_of(const struct sandbox *s, const char *key)
{
	const char *group = s->spec.request.group;

	return group && strcmp(group, key) == 0 && s->name[0] && !sandbox_is_ending(s);
}

/*
 * Of the sandboxes with these options and this directory, the one used last. NULL: the name of a new one; "" = all are
 * taken.
 */
static struct sandbox *find_shared(struct engine *engine, const char *key, const struct start_request *r, uint32_t uid,
				   char ret_name[ID_SIZE])
{
	struct sandbox *found = NULL;
	char name[ID_SIZE];

	ret_name[0] = '\0';
	for (unsigned i = 0; i < SESSION_SANDBOXES_MAX; i++) {
		name_of(key, r, i, name);
		struct sandbox *s = sandbox_find_name(engine, name, uid);

		if (!s || sandbox_is_ending(s))
			id_copy(ret_name, ret_name[0] ? ret_name : name);
		else if (is_of(s, key) && contains(s, r->sandbox.cwd) && (!found || s->used > found->used))
			found = s;
	}
	return found;
}

struct sandbox *sandbox_of_session(struct engine *engine, const struct start_request *r, const struct caller *c,
				   struct err *e)
{
	struct sandbox_group g;
	char name[ID_SIZE];

	if (sandbox_group_of(engine, r, c, &g, e) < 0)
		return NULL;
	struct sandbox *s = sandbox_not_shared(r) ? NULL : find_shared(engine, g.key, r, c->uid, name);
	if (!s)
		err_at(e, ERR_STATE, "sandboxId", "session '%s' has no sandbox", g.session);
	return s;
}

struct group_search {
	const char *key;
	const struct sandbox *latest;
	size_t count;
};

static void visit_group(void *ctx, const char *id, void *value)
{
	struct group_search *n = ctx;
	const struct sandbox *s = value;

	if (!is_of(s, n->key))
		return;
	n->count++;
	if (s->used && (!n->latest || s->used > n->latest->used))
		n->latest = s;
}

const struct sandbox *sandbox_latest(struct engine *engine, const struct sandbox_group *g)
{
	struct group_search n = { .key = g->key };

	strmap_each(&engine->sandboxes->open, visit_group, &n);
	return n.latest;
}

bool sandbox_session_missing(struct engine *engine, const struct start_request *r, const struct caller *c)
{
	struct sandbox_group g;
	char name[ID_SIZE];
	struct err e = ERR_INIT;

	if (!start_wants_session_sandbox(r) || r->approval || sandbox_not_shared(r))
		return false;
	const struct sandbox *s = sandbox_of_session(engine, r, c, &e);
	if (s || e.code != ERR_STATE || sandbox_group_of(engine, r, c, &g, &e) < 0)
		return s && !s->ready;
	struct group_search n = { .key = g.key };
	strmap_each(&engine->sandboxes->open, visit_group, &n);
	find_shared(engine, g.key, r, c->uid, name);
	return n.count < SESSION_SANDBOXES_MAX && name[0];
}

static void end_group(void *ctx, const char *id, void *value)
{
	if (is_of(value, ctx))
		sandbox_end(value, "subagent_closed", NULL);
}

static void end_subagent(struct engine *engine, const char *subagent_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct subagent_doc d;
	struct err e = ERR_INIT;

	if (view_read_speculative(engine->o.store, &subagent_schema, subagent_id, &text, &d, &e) == 0)
		strmap_visit(&engine->sandboxes->open, end_group, d.threadId);
}

void sandbox_on_subagent_closed(struct transaction *tx, const struct scope *s, const struct subagent_closed *p)
{
	transaction_after_commit(tx, end_subagent, s->subagent);
}

static void on_created(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct session_creation *n = ctx;
	struct engine *engine = n->engine;
	struct sandbox *s = sandbox_find_name(engine, n->name, n->uid);
	struct session_waiter *w;

	strmap_del(&engine->sandboxes->creating, n->key);
	if (!e && s)
		s->replaces = n->replaces;
	else
		free(n->replaces);
	while ((w = TAILQ_FIRST(&n->waiters))) {
		TAILQ_REMOVE(&n->waiters, w, link);
		w->fn(engine, w->ctx, e);
		free(w);
	}
	free(n);
}

void sandbox_session_create(struct engine *engine, const struct start_request *r, const struct caller *c,
			    const char *replaces, sandbox_session_fn fn, void *ctx)
{
	struct session_waiter *w = mem_zalloc(1, sizeof *w);
	struct sandbox_group g;
	char name[ID_SIZE], key[ID_SIZE + 12];
	struct err e = ERR_INIT;

	*w = (struct session_waiter){ .fn = fn, .ctx = ctx };
	if (sandbox_group_of(engine, r, c, &g, &e) < 0) {
		free(w);
		fn(engine, ctx, &e);
		return;
	}
	const struct sandbox *other = find_shared(engine, g.key, r, c->uid, name);
	if (other) /* it is being created */
		id_copy(name, other->name);
	snprintf(key, sizeof key, "%u.%s", c->uid, name);
	struct session_creation *n = strmap_get(&engine->sandboxes->creating, key);
	if (n) {
		TAILQ_INSERT_TAIL(&n->waiters, w, link);
		return;
	}
	n = mem_zalloc(1, sizeof *n);
	*n = (struct session_creation){ .engine = engine, .uid = c->uid };
	if (replaces) { /* the difference, without the advice */
		const char *advice = strstr(replaces, SANDBOX_ADVICE);
		n->replaces = mem_strndup(replaces, advice ? (size_t)(advice - replaces) : strlen(replaces));
	}
	id_copy(n->name, name);
	memcpy(n->key, key, sizeof key);
	TAILQ_INIT(&n->waiters);
	TAILQ_INSERT_TAIL(&n->waiters, w, link);
	strmap_put(&engine->sandboxes->creating, n->key, n);
	struct sandbox_creation creation = {
		.name = n->name, .session_id = g.session, .sandbox = r->sandbox, .idle_ms = SANDBOX_IDLE_MS
	};
	creation.sandbox.change.limits = (struct plan_limits){ 0 }; /* each command has its own */
	creation.sandbox.group = g.key;
	struct caller by = *c;
	by.idem_key = NULL;              /* the reply of the start is stored, not that of the creation */
	by.trace_id = by.span_id = NULL; /* it serves other requests, too */
	engine_create_sandbox(engine, &creation, &by, on_created, n);
}

/* Starts that still wait for a sandbox belong to process_table.pending. */
static void free_creation(void *ctx, const char *name, void *value)
{
	struct session_creation *n = value;
	struct session_waiter *w;

	while ((w = TAILQ_FIRST(&n->waiters))) {
		TAILQ_REMOVE(&n->waiters, w, link);
		free(w);
	}
	free(n->replaces);
	free(n);
}

void sandbox_session_done(struct engine *engine)
{
	strmap_each(&engine->sandboxes->creating, free_creation, NULL);
	strmap_done(&engine->sandboxes->creating);
}

void sandbox_session_replace(struct engine *engine, const struct start_request *r, const struct caller *c)
{
	struct err e = ERR_INIT;
	struct sandbox *s = sandbox_of_session(engine, r, c, &e);

	if (!s)
		return;
	s->name[0] = '\0';
	s->idle_ms = 1;
	sandbox_wake(s);
}

char *sandbox_take_note(struct engine *engine, const char *sandbox_id)
{
	struct sandbox *s = sandbox_get(engine, sandbox_id);
	char *note = s ? s->replaces : NULL;

	if (s) {
		s->replaces = NULL;
		s->used = ++engine->sandboxes->starts;
	}
	return note;
}

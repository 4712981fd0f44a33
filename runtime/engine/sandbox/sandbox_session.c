/*
 * The sandbox of a session. Starts that name SANDBOX_OF_SESSION instead of a sandbox share one with the other such
 * starts of their session: it is created for the first of them, has the session's id as its name, and ends with the
 * session.
 *
 * Starts with an explicit profile share another one, with the profile in its name. A start with options of its own,
 * such as a write root, gets a single-use sandbox. If the policy has changed since the sandbox was created, a new one
 * takes its place: the old one ends when its last command has, and the reply to the start says what differed, because
 * /tmp and the processes of the old one are out of reach.
 */

#include "runtime/engine/sandbox/sandbox_private.h"

#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/session/session.h"
#include "runtime/view/view.h"

/* A start that waits until the sandbox of its session exists. */
struct session_waiter {
	TAILQ_ENTRY(session_waiter) link;
	sandbox_session_fn fn;
	void *ctx;
};

struct session_creation {
	struct engine *engine;
	char name[ID_SIZE]; /* of the sandbox */
	uint32_t uid;
	char *replaces; /* why the earlier sandbox is not used any longer; NULL = there was none */
	TAILQ_HEAD(, session_waiter) waiters;
};

/*
 * Whether the start asks for nothing but a profile. Anything else, and what a person approved for one command, must not
 * determine what all commands of the session may do.
 */
static bool is_plain(const struct start_request *r)
{
	const struct profile_change *x = &r->sandbox.change;
	bool limited = x->cow || x->tmp_bytes;

	for (int i = 0; i < PLAN_LIMITS; i++)
		limited |= x->limits.value[i] != 0;
	return !r->approval && !limited && !x->network && !x->nread && !x->nwrite && !x->nhide && !x->nhosts &&
	       !r->sandbox.workspace;
}

/* The session of the request, which may be named by its turn or thread. */
static int session_of(struct engine *engine, const struct start_request *r, const struct caller *c, char ret[ID_SIZE],
		      struct err *e)
{
	struct view_turn_brief turn;
	struct view_thread_brief thread;
	int found = 0;

	ret[0] = '\0';
	if (r->session_id) {
		id_copy(ret, r->session_id);
	} else if (r->turn_id) {
		found = view_turn_brief(engine->o.store, c->uid, r->turn_id, &turn, e);
		id_copy(ret, found == 0 ? turn.session_id : NULL);
	} else if (r->thread_id) {
		found = view_thread_brief(engine->o.store, c->uid, r->thread_id, &thread, e);
		id_copy(ret, found == 0 ? thread.session_id : NULL);
	}
	if (found < 0 || ret[0])
		return found < 0 ? -1 : 0;
	return err_field(e, "sandboxId", "'%s' needs a sessionId, threadId or turnId that is known",
			 SANDBOX_OF_SESSION);
}

/* Starts with different profiles do not share a sandbox. */
static void name_of(const char *session, const struct start_request *r, char ret[ID_SIZE])
{
	const char *profile = r->sandbox.profile;

	if (snprintf(ret, ID_SIZE, "%s%s%s", session, profile ? "." : "", profile ? profile : "") >= ID_SIZE)
		ret[0] = '\0'; /* no sandbox has this name */
}

struct sandbox *sandbox_of_session(struct engine *engine, const struct start_request *r, const struct caller *c,
				   struct err *e)
{
	char session[ID_SIZE], name[ID_SIZE];

	if (session_of(engine, r, c, session, e) < 0)
		return NULL;
	name_of(session, r, name);
	struct sandbox *s = is_plain(r) ? sandbox_find_name(engine, name, c->uid) : NULL;
	if (!s || s->reason) {
		err_at(e, ERR_STATE, "sandboxId", "session '%s' has no sandbox", session);
		return NULL;
	}
	return s;
}

bool sandbox_session_missing(struct engine *engine, const struct start_request *r, const struct caller *c)
{
	struct err e = ERR_INIT;

	if (!start_wants_session_sandbox(r) || !is_plain(r))
		return false;
	const struct sandbox *s = sandbox_of_session(engine, r, c, &e);
	return s ? !s->ready : e.code == ERR_STATE;
}

static void on_created(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct session_creation *n = ctx;
	struct engine *engine = n->engine;
	struct sandbox *s = sandbox_find_name(engine, n->name, n->uid);
	struct session_waiter *w;

	strmap_del(&engine->sandboxes->creating, n->name);
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
	char session[ID_SIZE], name[ID_SIZE];
	struct err e = ERR_INIT;

	*w = (struct session_waiter){ .fn = fn, .ctx = ctx };
	if (session_of(engine, r, c, session, &e) < 0) {
		free(w);
		fn(engine, ctx, &e);
		return;
	}
	name_of(session, r, name);
	struct session_creation *n = strmap_get(&engine->sandboxes->creating, name);
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
	TAILQ_INIT(&n->waiters);
	TAILQ_INSERT_TAIL(&n->waiters, w, link);
	strmap_put(&engine->sandboxes->creating, n->name, n);
	const struct sandbox_creation creation = {
		.name = n->name, .session_id = session, .sandbox = r->sandbox, .idle_ms = SANDBOX_IDLE_MS
	};
	struct caller by = *c;
	by.idem_key = NULL;              /* the reply of the start is stored, not that of the creation */
	by.trace_id = by.span_id = NULL; /* it serves other requests, too */
	engine_create_sandbox(engine, &creation, &by, on_created, n);
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

	if (s)
		s->replaces = NULL;
	return note;
}

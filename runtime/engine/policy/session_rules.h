#ifndef BAILIFF_ENGINE_SESSION_RULES_H
#define BAILIFF_ENGINE_SESSION_RULES_H

/*
 * The rules that a session was given, the lowest layer of policy: permissions of create_session and update_session.
 * They are a fact, policy.changed of layer session, and stand in the session's document, so they hold for everything
 * that is judged in its name, now and after a restart.
 *
 * An allowing rule is an answer given in advance, so only who may answer can give one, or take one away that denies or
 * asks. Everybody else, agents above all, may only tighten: what is in force and stops something must stay, and nothing
 * new may be allowed.
 */

#include "policy/rules.h"

struct caller;
struct engine;
struct err;
struct json_t;
struct store_batch;

#define SESSION_RULES_TEXT_MAX 16384u

/* The session's own; *ret NULL = it has none. Good until the next call. */
int session_rules_of(struct engine *g, const char *session_id, const struct policy_rules **ret, struct err *e);

/* What a request wants them to be. */
struct session_rules_request {
	const struct json_t *permissions; /* members were checked */
	const char *tightens;             /* why the caller may only tighten; NULL = it may give any */
};
/*
 * Adds policy.changed to the batch if they are others than before. `thread_id`: of the session. Nothing is added on
 * failure.
 */
int session_rules_fact(struct engine *g, const char *session_id, const char *thread_id,
		       const struct session_rules_request *r, const struct caller *c, struct store_batch *b,
		       struct err *e);

#endif

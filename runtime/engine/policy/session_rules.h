#ifndef BAILIFF_ENGINE_SESSION_RULES_H
#define BAILIFF_ENGINE_SESSION_RULES_H

/*
 * The rules of a session, the lowest layer of policy: `permissions` of create_session and update_session. They are
 * recorded with policy.changed of layer session and kept in the session's document. So they apply to every decision for
 * the session, also after a restart.
 *
 * A rule that allows is an approval given in advance. So only an approver may add one, or remove one that denies or
 * asks. Other callers, agents in particular, may only tighten: every rule in effect that denies or asks must stay, and
 * no new rule may allow anything.
 */

#include "policy/rules.h"

struct caller;
struct engine;
struct err;
struct json_t;
struct transaction;

#define SESSION_RULES_TEXT_MAX 16384u

/* The rules of a session; *ret NULL = none. Owned by the cache and valid until the next call. */
int session_rules_of(struct engine *engine, const char *session_id, const struct policy_rules **ret, struct err *e);

/* The requested new rules. */
struct session_rules_request {
	const struct json_t *permissions; /* types of its members are already checked */
	const char *tightens;             /* why the caller may only tighten; NULL = any change is allowed */
};
/*
 * Adds policy.changed to the batch if the rules differ from the present ones. `thread_id` is a thread of the session.
 * Adds nothing on failure.
 */
int session_rules_fact(struct engine *engine, const char *session_id, const char *thread_id,
		       const struct session_rules_request *r, const struct caller *c, struct transaction *tx,
		       struct err *e);

#endif

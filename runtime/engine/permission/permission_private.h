#ifndef BAILIFF_ENGINE_PERMISSION_PRIVATE_H
#define BAILIFF_ENGINE_PERMISSION_PRIVATE_H

#include "policy/rules.h"
#include "runtime/engine/permission/permission.h"

/* How a process ends that never ran. */
struct permission_end {
	const char *status, *category; /* the turn's */
	const char *message;
	bool terminated; /* somebody ended it while it waited */
	bool tell_owner;
};
void permission_end_facts(struct process *p, const struct permission_end *how, struct store_batch *b);
struct action_outcome;
/* What an answer writes beside action.resolved. */
void permission_resolved(struct engine *g, const struct action_outcome *o, struct store_batch *b);
/* permission_always.c: which rules would make an answer last, {"allow"?:[…],"why"?:…,"deny"?:…,"whyNotDeny"?:…}. */
struct policy_decision;
struct policy_request;
void permission_suggestions_json(const struct policy_request *r, const struct policy_decision *d, struct buf *out);
struct action_doc;
/* 0: the answer is given when its rules are written. */
int permission_persist(struct engine *g, const struct action_doc *d, const struct action_answer *r, bool allow,
		       const struct caller *c, engine_reply_fn fn, void *ctx, struct err *e);
bool permission_is_persisting(struct engine *g, const char *action_id);
void permission_persist_done(struct engine *g);
/* The same was allowed for the rest of the session. */
bool permission_is_granted(struct engine *g, const char *session_id, const char *binding);
enum permission_mode permission_mode_of(struct engine *g, const char *session_id);

#endif

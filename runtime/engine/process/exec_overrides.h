#ifndef BAILIFF_ENGINE_EXEC_OVERRIDES_H
#define BAILIFF_ENGINE_EXEC_OVERRIDES_H

/*
 * Environment variables of a request that change which programs run (policy/exec_vars.def). Two kinds have no effect
 * and are left out: a variable equal to the one in the base environment (the user's own HOME), and a PATH whose
 * directories, compared by their text, are all read-only in the sandbox, because only installed programs can be there.
 * Without a sandbox every directory counts as writable.
 */

#include <stddef.h>

struct buf;
struct sandbox_setup;
struct engine;
struct start_request;

struct exec_overrides {
	const char **evaluated; /* the request's variables without those that have no effect: input of the decision */
	size_t nevaluated;
	const char **shown; /* the subset that an approver must see */
	size_t nshown;
	const char **writable; /* folders in which an earlier command can have placed programs */
	size_t nwritable;
};

/* The strings are borrowed from the request. */
void exec_overrides_make(struct engine *engine, unsigned uid, const struct start_request *r,
			 const struct sandbox_setup *f, struct exec_overrides *ret);
void exec_overrides_done(struct exec_overrides *e);
#define exec_overrides_auto __attribute__((cleanup(exec_overrides_done)))
/* In shell syntax; long values are shortened to their beginning and end. */
void exec_overrides_text(const struct exec_overrides *e, struct buf *out);

#endif

#ifndef BAILIFF_ENGINE_PROCESS_PLAN_H
#define BAILIFF_ENGINE_PROCESS_PLAN_H

/*
 * The plan of a process (sandbox/plan.h), from the request and the sandbox that was set up for it, and what the facts
 * say about the sandbox and the environment.
 */

#include <stddef.h>

struct buf;
struct err;
struct process;
struct sandbox_setup;
struct start_request;

/* Copies what the facts show of the profile, and its limits. */
void process_plan_take_profile(struct process *p, const struct start_request *r, const struct sandbox_setup *f);
/* Takes ownership of f->env. */
int process_plan_build(struct process *p, const struct start_request *r, struct sandbox_setup *f,
		       const char *const *argv, size_t argc, struct buf *ret_plan, struct err *e);

#endif

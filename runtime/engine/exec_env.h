#ifndef BAILIFF_ENGINE_EXEC_ENV_H
#define BAILIFF_ENGINE_EXEC_ENV_H

/*
 * Variables that a request sets and that change which programs run (policy/exec_vars.def). What says the same as the
 * environment that the user's commands begin with anyway changes nothing (the user's own HOME), and neither does a PATH
 * of folders that the sandbox cannot write, by their text: what a command there runs is what is installed. Without a
 * sandbox every folder counts as writable.
 */

#include <stddef.h>

struct buf;
struct confinement;
struct engine;
struct start_request;

struct exec_env {
	const char **judged; /* of the request's, without those that change nothing … */
	size_t njudged;
	const char **shown; /* … and of these, what whoever is asked must see */
	size_t nshown;
};

/* The strings are the request's. */
void exec_env_make(struct engine *g, unsigned uid, const struct start_request *r, const struct confinement *f,
		   struct exec_env *ret);
void exec_env_done(struct exec_env *e);
#define exec_env_auto __attribute__((cleanup(exec_env_done)))
/* As a shell would take them; each by both ends where it is long. */
void exec_env_text(const struct exec_env *e, struct buf *out);

#endif

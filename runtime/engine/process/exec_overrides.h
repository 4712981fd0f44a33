#ifndef BAILIFF_ENGINE_EXEC_OVERRIDES_H
#define BAILIFF_ENGINE_EXEC_OVERRIDES_H

/*
 * Variables that a request sets and that change which programs run (policy/exec_vars.def). What says the same as the
 * environment that the user's commands begin with anyway changes nothing (the user's own HOME), and neither does a PATH
 * of folders that the sandbox cannot write, by their text: what a command there runs is what is installed. Without a
 * sandbox every folder counts as writable.
 */

#include <stddef.h>

struct buf;
struct sandbox_setup;
struct engine;
struct start_request;

struct exec_overrides {
	const char **judged; /* of the request's, without those that change nothing … */
	size_t njudged;
	const char **shown; /* … and of these, what whoever is asked must see */
	size_t nshown;
};

/* The strings are the request's. */
void exec_overrides_make(struct engine *g, unsigned uid, const struct start_request *r, const struct sandbox_setup *f,
			 struct exec_overrides *ret);
void exec_overrides_done(struct exec_overrides *e);
#define exec_overrides_auto __attribute__((cleanup(exec_overrides_done)))
/* As a shell would take them; each by both ends where it is long. */
void exec_overrides_text(const struct exec_overrides *e, struct buf *out);

#endif

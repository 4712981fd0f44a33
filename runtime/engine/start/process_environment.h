#ifndef BAILIFF_ENGINE_PROCESS_ENVIRONMENT_H
#define BAILIFF_ENGINE_PROCESS_ENVIRONMENT_H

/*
 * The environment of a command: the base environment of its user, what the sandbox adds (working directory, terminal,
 * proxy, a home that exists), and the request's changes, which have the last word except about BAILIFF_FILE_LINKS.
 */

#include "runtime/base/buf.h"

struct process;
struct sandbox_setup;
struct start_request;

struct process_environment {
	struct buf text;   /* "K=V" strings, each with its NUL */
	const char **vars; /* into `text`, or into the request */
	size_t count;
};

/* Takes ownership of f->env. */
void process_environment_build(struct process *p, const struct start_request *r, struct sandbox_setup *f,
			       struct process_environment *v);
void process_environment_done(struct process_environment *v);

#endif

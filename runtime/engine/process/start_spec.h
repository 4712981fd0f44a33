#ifndef BAILIFF_ENGINE_START_SPEC_H
#define BAILIFF_ENGINE_START_SPEC_H

/*
 * What to start, as JSON says it: start_process's parameters, the command part of a turn, a task's or job item's
 * command. One reading of it for all, also of what was stored and is started much later. Types were checked against the
 * method's row (or this refuses them by name); `json` must outlive the spec, whose strings are its.
 */

#include "runtime/engine/core/engine.h"

#include <jansson.h>

struct err;

/* The parameters that say which sandbox is meant: profile, cwd, sandbox, limits, cow. */
struct sandbox_spec {
	struct sandbox_request request;
	const char **read, **write, **hide, **hosts;
};
int sandbox_spec_of(const json_t *json, struct sandbox_spec *ret, struct err *e);
void sandbox_spec_done(struct sandbox_spec *s);

/* Rows, or columns: 1 to PLAN_TTY_SIDE_MAX. */
int terminal_dimension_of(const json_t *v, const char *field, uint32_t *ret, struct err *e);

struct start_spec {
	struct start_request request;
	struct sandbox_spec sandbox;
	const char **argv, **env_set, **env_unset;
	size_t nset, nunset;
};
/* Limits that are not given are the engine's. On failure nothing is left to free. */
int start_spec_of(const struct engine *g, const json_t *json, struct start_spec *ret, struct err *e);
void start_spec_done(struct start_spec *s);
#define start_spec_auto __attribute__((cleanup(start_spec_done)))
#define sandbox_spec_auto __attribute__((cleanup(sandbox_spec_done)))

#endif

#ifndef BAILIFF_ENGINE_START_SPEC_H
#define BAILIFF_ENGINE_START_SPEC_H

/*
 * Parses the JSON form of a start: the parameters of start_process, a command in a turn's input, the command of a task
 * or a job's item. All of them use this parser, also for stored requests. Types are already checked against the
 * method's row, or rejected here with the name of the field. The spec's strings point into `json`, which must outlive
 * it.
 */

#include "runtime/engine/core/engine.h"
#include "runtime/engine/core/ports.h"

#include <jansson.h>

struct err;

/* The parameters that select the sandbox: profile, cwd, sandbox, limits, cow. */
struct sandbox_spec {
	struct sandbox_request request;
	const char **read, **write, **hide, **hosts;
};
int sandbox_spec_of(const json_t *json, struct sandbox_spec *ret, struct err *e);
void sandbox_spec_done(struct sandbox_spec *s);

/* Parses a number of rows or columns: 1 to PLAN_TTY_DIMENSION_MAX. */
int terminal_dimension_of(const json_t *v, const char *field, uint32_t *ret, struct err *e);

#define START_PUBLISH_MAX 32u
/* Objects {port, hostAddress?, hostPort?}. The strings point into `list`. The number of them, or −1. */
int port_publications_of(const json_t *list, struct port_publication ret[START_PUBLISH_MAX], struct err *e);

struct start_spec {
	struct start_request request;
	struct sandbox_spec sandbox;
	const char **argv, **env_set, **env_unset;
	size_t nset, nunset;
	struct port_publication *publish;
};
/* Missing limits default to the engine's. On failure there is nothing to free. */
int start_spec_of(const struct engine *engine, const json_t *json, struct start_spec *ret, struct err *e);
void start_spec_done(struct start_spec *s);
#define start_spec_auto __attribute__((cleanup(start_spec_done)))
#define sandbox_spec_auto __attribute__((cleanup(sandbox_spec_done)))

#endif

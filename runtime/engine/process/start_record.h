#ifndef BAILIFF_ENGINE_START_RECORD_H
#define BAILIFF_ENGINE_START_RECORD_H

/*
 * A start request in stored form, so that it can be executed after an approval, possibly after a restart. It is stored
 * under a ref and not in events, because the environment variables of a command may contain secrets.
 */

#include "runtime/engine/process/start_spec.h"

struct jw;

struct start_record {
	json_t *json;
	struct start_spec spec; /* its strings point into `json` */
	const char **tool_paths;
};

#define START_RECORD_MAX (16u << 20)

/* Members profile, cwd, cow and sandbox. */
void start_record_sandbox(const struct sandbox_request *s, struct jw *w);
/* Appends the request as a JSON object. */
void start_record_write(const struct start_request *r, struct buf *out);
/* Restores the request. The caller sets `approval` and ret_process_id, which are not part of the record. */
int start_record_read(const struct engine *engine, const char *text, size_t len, struct start_record *ret,
		      struct err *e);
void start_record_done(struct start_record *s);
#define start_record_auto __attribute__((cleanup(start_record_done)))

#endif

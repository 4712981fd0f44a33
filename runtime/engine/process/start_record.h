#ifndef BAILIFF_ENGINE_START_RECORD_H
#define BAILIFF_ENGINE_START_RECORD_H

/*
 * A start request, written down so that it can be made later: when a person has allowed it, perhaps after a restart. It
 * is kept behind a ref and not in events, because the variables that a client sets for a command may be secrets.
 */

#include "runtime/engine/process/start_spec.h"

struct start_record {
	json_t *json;
	struct start_spec spec; /* its strings are the JSON's */
	const char **tool_paths;
};

#define START_RECORD_MAX (16u << 20)

void start_record_write(const struct start_request *r, struct buf *out);
/* Its request, ready but for what only the present knows: approval and ret_process_id. */
int start_record_read(const struct engine *g, const char *text, size_t len, struct start_record *ret, struct err *e);
void start_record_done(struct start_record *s);
#define start_record_auto __attribute__((cleanup(start_record_done)))

#endif

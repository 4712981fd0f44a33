#ifndef BAILIFF_ENGINE_TOOL_CALL_READ_H
#define BAILIFF_ENGINE_TOOL_CALL_READ_H

/*
 * Reads the documents of tool calls, including events that are not committed yet. The document points into `text`,
 * which the caller owns and keeps for as long as it uses the document. Readers are in this module and not in call/,
 * because hook/ and session/, which are below call/, need them.
 */

#include "runtime/event/event.h"
#include "runtime/view/view_documents.h"

#include <jansson.h>

struct fact;
struct buf;
struct caller;
struct engine;
struct err;

#define TOOL_ARGS_MAX (4u << 20)

/* 0 = found, 1 = not found, −1 with e. */
int tool_call_read(struct engine *engine, const char *call_id, struct buf *text, struct tool_call_doc *ret,
		   struct err *e);
/* The same for a caller; ERR_NOT_FOUND also for calls of other users. */
int tool_call_of_caller(struct engine *engine, const char *call_id, const struct caller *c, struct buf *text,
			struct tool_call_doc *ret, struct err *e);
struct scope tool_call_scope(const struct tool_call_doc *d);
/* The arguments as a hook may have changed them. New reference; NULL with e. */
json_t *tool_call_arguments(struct engine *engine, const struct tool_call_doc *d, struct err *e);

#endif

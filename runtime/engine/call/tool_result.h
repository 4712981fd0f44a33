#ifndef BAILIFF_ENGINE_TOOL_RESULT_H
#define BAILIFF_ENGINE_TOOL_RESULT_H

/*
 * The result of a tool call as a model reads it: how the call ended, its output (head and tail, with the counts and the
 * ref of the whole), what the sandbox denied and how to get access, and what hooks added.
 *
 * The text depends only on committed documents and stored output. Equal documents give equal bytes, so that a history
 * rebuilt after a restart has the same prefix. Once an output has expired, the text says so; a caller that needs the
 * same text later stores it.
 */

#include "runtime/view/view_documents.h"

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct engine;

#define TOOL_RESULT_BYTES (16u << 10)

/*
 * Appends the text. `max_bytes` is the budget for output or file content, 0 = TOOL_RESULT_BYTES; status and notes come
 * in addition. *ret_error: the call failed, was denied, was cancelled, or its outcome is unknown.
 */
void tool_result_text(struct engine *engine, const struct tool_call_doc *d, size_t max_bytes, struct buf *ret_text,
		      bool *ret_error);
/* A line about how the command of the process ended. */
void tool_result_exit(const struct process_doc *p, struct buf *out);
/* The report of the call about a process (process_report.h), in `text`; false if it has none. */
bool tool_result_report(struct engine *engine, const struct tool_call_doc *d, struct buf *text, struct jval *ret);

#endif

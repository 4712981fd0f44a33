#ifndef BAILIFF_MCP_REPORT_H
#define BAILIFF_MCP_REPORT_H

/*
 * A report about a process for a model: its status or end, its violations and what would allow them, its output, and
 * how to continue. The same as text and as structured content (MCP_REPORT_SCHEMA), with links to the whole
 * outputs.
 */

#include "pty/excerpt.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define MCP_REPORT_STREAMS 3

struct mcp_report {
	const json_t *process;   /* reply of get_process */
	struct excerpt *streams; /* with their bytes; may be none */
	size_t nstreams;
	const char *note;   /* first line of the report, or NULL */
	int64_t changes;    /* unapplied changes of a copy-on-write run; −1: unknown */
	bool ended_is_fine; /* termination was requested, so it is not an error */
};

/* The result of tools/call. */
json_t *mcp_report_result(const struct mcp_report *r);
/* The result for a process that was not started; `error` is the daemon's. */
json_t *mcp_report_denied(const json_t *error);

/* "bailiff://output/PROC/STREAM" */
void mcp_report_uri(const char *process_id, const char *stream, struct buf *out);
/* The reply of get_process or wait_process is about a process that has ended. */
bool mcp_report_has_ended(const json_t *process);

#endif

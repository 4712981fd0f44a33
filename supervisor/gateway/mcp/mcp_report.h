#ifndef BAILIFF_MCP_REPORT_H
#define BAILIFF_MCP_REPORT_H

/*
 * A process, told to a model: how it stands or ended, what its sandbox refused and what would allow that, what it
 * printed, and how to go on. The same as text and as structured content (MCP_REPORT_SCHEMA), with links to the whole
 * outputs.
 */

#include "supervisor/gateway/mcp/mcp_excerpt.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define MCP_REPORT_STREAMS 3

struct mcp_report {
	const json_t *process;       /* get_process's answer */
	struct mcp_excerpt *streams; /* read, or none */
	size_t nstreams;
	const char *note;   /* a line that comes first, or NULL */
	int64_t changes;    /* of a copy-on-write run that are held back; −1 = not known */
	bool ended_is_fine; /* that it was terminated is what was asked for */
};

/* tools/call's result. */
json_t *mcp_report_result(const struct mcp_report *r);
/* Of a process that was not started: `error` is the daemon's. */
json_t *mcp_report_denied(const json_t *error);

/* "bailiff://output/PROC/STREAM" */
void mcp_report_uri(const char *process_id, const char *stream, struct buf *out);
/* Whether get_process's (or wait_process's) answer is about one that has ended. */
bool mcp_report_has_ended(const json_t *process);

#endif

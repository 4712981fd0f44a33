#ifndef BAILIFF_GATEWAY_MCP_WAIT_PROCESS_H
#define BAILIFF_GATEWAY_MCP_WAIT_PROCESS_H

/*
 * A call that waits for a process and ends with a report on it (mcp_report.h): until the process has ended or the time
 * is over, with progress messages (duration, bytes, the last line of output), and then the output that this client has
 * not seen yet.
 */

#include "supervisor/gateway/mcp/mcp_call.h"

#include <stdint.h>

#define MCP_WAIT_PROCESS_BUDGET 30000 /* default budget for output in bytes */

struct mcp_wait_process_options {
	const char *process_id;
	uint64_t wait_ms;
	size_t budget;
	const char *note;   /* first line of the report, or NULL */
	bool patient;       /* if the call is a task, wait for the end without a limit */
	bool ended_is_fine; /* termination was requested, so it is not an error */
	bool from_start;    /* all output, including what was already shown */
	/*
	 * Receives the report (takes ownership; NULL: there is no such process) instead of the client, and ends the
	 * call.
	 */
	void (*then)(struct mcp_call *c, json_t *report, void *with);
	void *with; /* ownership is taken */
	void (*with_free)(void *with);
};

/* Ends the call. Uses its `data`. */
void mcp_wait_process(struct mcp_call *c, const struct mcp_wait_process_options *o);

/* The call's argument maxOutputBytes, or the default. */
size_t mcp_wait_process_budget(const struct mcp_call *c);
/* A numeric argument, or `otherwise`. */
uint64_t mcp_wait_process_number(const struct mcp_call *c, const char *name, uint64_t otherwise);

#endif

#ifndef BAILIFF_CLI_PROCESS_LOGS_H
#define BAILIFF_CLI_PROCESS_LOGS_H

#include <stdbool.h>

struct cli;

/* How the output of a process is shown (cmd_logs.c). */
struct process_logs {
	bool follow, raw, json;
	const char *stream; /* only this one; NULL = all */
	const char *tail;   /* only so many lines of each stream; NULL = all */
};

/* Writes it to stdout and stderr. The exit status. */
int process_logs(struct cli *c, const char *process_id, const struct process_logs *how);

#endif

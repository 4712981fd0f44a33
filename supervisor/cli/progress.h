#ifndef BAILIFF_CLI_PROGRESS_H
#define BAILIFF_CLI_PROGRESS_H

/* A status line on stderr while a verb waits, redrawn in place: only on a terminal, and never with --json. */

#include <stdbool.h>
#include <stdint.h>

struct cli;

#define PROGRESS_MS 1000 /* how long a verb may sleep between two lines */

struct progress {
	bool on, drawn;
	uint64_t started_ms;
};

void progress_begin(struct progress *p, const struct cli *c);
/* `what`: a status, or NULL for counts: done of total (0: unknown), running, failed. */
void progress_draw(struct progress *p, const char *what, uint64_t done, uint64_t total, uint64_t running,
		   uint64_t failed);
/* Before anything else is printed, and at the end. */
void progress_clear(struct progress *p);

#endif

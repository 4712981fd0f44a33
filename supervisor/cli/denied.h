#ifndef BAILIFF_CLI_DENIED_H
#define BAILIFF_CLI_DENIED_H

/* What the sandbox refused a process, collected from its sandbox.violation events and told in a few lines at the end. */

#include "runtime/base/jscan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DENIED_LINES 5

struct denied {
	char *lines[DENIED_LINES];  /* "write /etc/hosts (outside the write roots)", each once */
	char *later[64];            /* different ones that are not shown, to count each once */
	size_t count, nlater;
	bool many;                  /* more than can be told apart */
	bool write, read, network;  /* what options could have allowed */
	char folder[256];           /* of the first path that was to be written */
	char host[256];             /* the first that is not among the allowed ones; "" = none */
	int port;
};

/* true if the event is one. */
bool denied_take(struct denied *d, struct jval event);
/* On stderr: the lines, how many more, and which options would allow it. */
void denied_tell(const struct denied *d, const char *process_id);
void denied_done(struct denied *d);

#endif

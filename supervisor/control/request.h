#ifndef BAILIFF_CONTROL_REQUEST_H
#define BAILIFF_CONTROL_REQUEST_H

#include <stddef.h>

struct client;

/* One line of a connection: a request, a notification or a batch of them; blank lines are skipped. */
void request_line(struct client *cl, const char *line, size_t len);

#endif

#ifndef BAILIFF_SUPERVISOR_MODEL_STREAM_ACTIVITY_H
#define BAILIFF_SUPERVISOR_MODEL_STREAM_ACTIVITY_H

/*
 * Tells data from keep-alives in a stream of server-sent events. A server that only sends comments (": PROCESSING") or
 * pings is alive, but an answer may never come: there is a time limit for that, too. Lines that are empty, start with a
 * colon, or are Anthropic's ping event are keep-alives; any other line is data, from its first byte that shows it.
 */

#include <stdbool.h>
#include <stddef.h>

struct stream_activity {
	char line[24]; /* the beginning of the current line, without spaces */
	size_t len;
	bool data; /* the current line is data */
};

/* Whether the bytes, split anywhere, contain data. */
bool stream_activity_feed(struct stream_activity *a, const char *p, size_t n);

#endif

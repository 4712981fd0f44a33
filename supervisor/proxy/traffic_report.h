#ifndef BAILIFF_SUPERVISOR_PROXY_REPORT_H
#define BAILIFF_SUPERVISOR_PROXY_REPORT_H

/*
 * What is to be told about one sandbox. Rows, added up while they wait: a runtime that does not read, or is being
 * started anew, costs a bounded amount of memory and loses nothing. Past so many different ones the rest goes into one
 * row.
 */

#include "supervisor/proxy/proxy_msg.h"

#include <stdbool.h>
#include <stddef.h>

#define TRAFFIC_REPORT_ROWS_MAX 64u
#define TRAFFIC_REPORT_OTHERS "(others)"

struct traffic_report_row {
	struct proxy_msg msg;           /* with what has not been told */
	uint64_t count, sent, received; /* TRAFFIC: of what was told on the link at hand */
};

struct traffic_report {
	struct traffic_report_row *row;
	size_t count;
};

void traffic_report_done(struct traffic_report *r);
void traffic_report_denied(struct traffic_report *r, const char *host, uint16_t port, const char *address,
			   enum proxy_reason why);
/* One more connection (count 1), or more bytes on one. */
void traffic_report_add(struct traffic_report *r, const char *host, uint16_t port, uint64_t count, uint64_t sent,
			uint64_t received);
/* A new runtime: it knows nothing of what went through. */
void traffic_report_resend(struct traffic_report *r);
/* The next row that has something to tell; NULL = none. traffic_report_sent once it was sent. */
struct traffic_report_row *traffic_report_next(struct traffic_report *r);
void traffic_report_sent(struct traffic_report_row *row);

#endif

#ifndef BAILIFF_SUPERVISOR_PROXY_TRAFFIC_REPORT_H
#define BAILIFF_SUPERVISOR_PROXY_TRAFFIC_REPORT_H

/*
 * The traffic and the denials of one sandbox that the runtime has yet to receive. Rows of the same host are added up
 * while they wait, so a runtime that does not read, or is restarting, costs a bounded amount of memory and no report is
 * lost. Beyond TRAFFIC_REPORT_ROWS_MAX hosts the rest is counted in one row. The pointer that traffic_report_next
 * returns is valid until the next row is added.
 */

#include "supervisor/proxy/proxy_msg.h"

#include <stdbool.h>
#include <stddef.h>

#define TRAFFIC_REPORT_ROWS_MAX 64u
#define TRAFFIC_REPORT_OTHERS "(others)"

struct traffic_report_row {
	struct proxy_msg msg;           /* holds the amounts that are not sent yet */
	uint64_t count, sent, received; /* TRAFFIC, PORT_TRAFFIC: already sent to the current runtime */
};

struct traffic_report {
	struct traffic_report_row *row;
	size_t count;
};

void traffic_report_done(struct traffic_report *r);
void traffic_report_denied(struct traffic_report *r, const char *host, uint16_t port, const char *address,
			   enum proxy_reason why);
/* Counts one more connection (count 1), or more bytes on one. */
void traffic_report_add(struct traffic_report *r, const char *host, uint16_t port, uint64_t count, uint64_t sent,
			uint64_t received);
/* Counts a connection to a published port. */
void traffic_report_port(struct traffic_report *r, uint16_t port, uint64_t sent, uint64_t received);
/* For a new runtime: marks the traffic that was already sent as unsent. Denials are sent once. */
void traffic_report_resend(struct traffic_report *r);
/* The next row that has unsent amounts, NULL = none; call traffic_report_sent after sending it. */
struct traffic_report_row *traffic_report_next(struct traffic_report *r);
void traffic_report_sent(struct traffic_report_row *row);

#endif

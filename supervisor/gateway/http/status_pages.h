#ifndef BAILIFF_GATEWAY_HTTP_STATUS_PAGES_H
#define BAILIFF_GATEWAY_HTTP_STATUS_PAGES_H

/*
 * /healthz and /metrics: what the daemon says of itself (get_health, get_metrics) and what this listener counts.
 *
 * /healthz is open to everybody on the machine and says one word; it is asked of the daemon once a second at most,
 * however often it is read. /metrics tells which methods are used and how much runs, so it wants the token unless it
 * was opened. The connection of its own has the role observer. A daemon that is away is not started for this: it is
 * said.
 */

#include <stdbool.h>

struct event_base;
struct http_server;
struct mcp_endpoint;
struct status_pages;

struct status_pages *status_pages_new(struct event_base *base, struct http_server *server,
				      const struct mcp_endpoint *mcp, bool metrics_open);
void status_pages_free(struct status_pages *p);

#endif

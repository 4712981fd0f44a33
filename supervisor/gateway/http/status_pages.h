#ifndef BAILIFF_GATEWAY_HTTP_STATUS_PAGES_H
#define BAILIFF_GATEWAY_HTTP_STATUS_PAGES_H

/*
 * /healthz and /metrics: the daemon's status (get_health, get_metrics) and the counters of this listener.
 *
 * /healthz is open to every local user and returns one word. The result is cached for a second, so that frequent reads
 * do not load the daemon. /metrics shows which methods are used and how much runs, so it needs the token unless it was
 * opened. Both use one connection with the role observer. A daemon that does not run is not started for them; the page
 * reports it as unavailable.
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

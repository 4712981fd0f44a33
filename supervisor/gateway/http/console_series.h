#ifndef BAILIFF_GATEWAY_HTTP_CONSOLE_SERIES_H
#define BAILIFF_GATEWAY_HTTP_CONSOLE_SERIES_H

/*
 * GET /api/series: numbers of the daemon over time, for plots. Sampled every CONSOLE_SERIES_MS since `bailiff serve`
 * started, each on a connection of its own with the role observer; the last CONSOLE_SERIES_POINTS are kept. While the
 * daemon does not answer there are no points. Counters become rates, so the first sample only sets their base.
 */

struct buf;
struct console_series;
struct event_base;

#define CONSOLE_SERIES_MS 10000
#define CONSOLE_SERIES_POINTS 2160 /* six hours */

struct console_series *console_series_new(struct event_base *base);
void console_series_free(struct console_series *s);
/* {"intervalMs","names":[…],"points":[[time in ms since 1970, value …], …]} */
void console_series_write(const struct console_series *s, struct buf *out);

#endif

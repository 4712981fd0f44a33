#include "supervisor/host/retention_clock.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/store/store.h"
#include "supervisor/host/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define META_CLOCK "retention.clock"
#define DAY_US (24ull * 60 * 60 * 1000000)
#define PAUSE_DAYS 3u /* a long weekend */

uint64_t retention_clock_tolerance_us(const struct config *c)
{
	uint64_t shortest = c->idem_keep_days, tolerance = PAUSE_DAYS * DAY_US;

	if (c->retain_days && c->retain_days < shortest)
		shortest = c->retain_days;
	return shortest * DAY_US / 2 < tolerance ? shortest * DAY_US / 2 : tolerance;
}

/* After a reboot only the time since then is certain to have passed. No boot: the time is that of an event. */
static uint64_t passed_ns(const struct retention_clock *c, const struct retention_clock_reading *now)
{
	if (!c->boot_id[0])
		return 0;
	if (strcmp(c->boot_id, now->boot_id) != 0)
		return now->boot_ns;
	return now->boot_ns > c->boot_ns ? now->boot_ns - c->boot_ns : 0;
}

uint64_t retention_clock_read(struct retention_clock *c, const struct retention_clock_reading *now,
			      uint64_t tolerance_us)
{
	uint64_t passed = passed_ns(c, now), reached = c->real_us + passed / 1000;
	int64_t ahead = (int64_t)(now->real_us - reached);
	bool differs = c->real_us && (uint64_t)(ahead < 0 ? -ahead : ahead) > tolerance_us;

	/* Only time during which it differed counts: not the time before the reading that first showed it. */
	c->waited_ns = differs && c->ahead_us ? c->waited_ns + passed : 0;
	differs = differs && c->waited_ns < RETENTION_CLOCK_WAIT_NS;
	c->ahead_us = differs ? ahead : 0;
	c->real_us = differs ? reached : now->real_us;
	c->boot_ns = now->boot_ns;
	snprintf(c->boot_id, sizeof c->boot_id, "%s", now->boot_id);
	return c->real_us < now->real_us ? c->real_us : now->real_us;
}

static bool take_time(void *ctx, const struct event_view *ev)
{
	*(uint64_t *)ctx = ev->real_us;
	return true;
}

int retention_clock_load(struct retention_clock *c, struct store *s, struct err *e)
{
	buf_auto struct buf kept = BUF_INIT;
	struct retention_clock read = { 0 };
	uint64_t last = store_last_sequence(s);
	int known = store_meta_get(s, META_CLOCK, &kept, e);

	if (known < 0)
		return -1;
	if (known == 0 && sscanf(buf_cstr(&kept), "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNd64 " %39s", &read.real_us,
				 &read.boot_ns, &read.waited_ns, &read.ahead_us, read.boot_id) >= 4) {
		*c = read;
		return 0;
	}
	const struct store_query q = { .after = last ? last - 1 : 0 };
	uint64_t newest = 0;
	if (last && store_events(s, &q, take_time, &newest, e) < 0)
		return -1;
	*c = (struct retention_clock){ .real_us = newest };
	return 0;
}

void retention_clock_keep(const struct retention_clock *c, struct store *s)
{
	struct store_batch *b = store_batch_new(s);
	char text[160];
	int n = snprintf(text, sizeof text, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %s", c->real_us,
			 c->boot_ns, c->waited_ns, c->ahead_us, c->boot_id);

	store_batch_meta(b, META_CLOCK, text, (size_t)n);
	store_submit(s, b, STORE_MUST, NULL, NULL);
}

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
#define WAIT_DAYS 7u

static uint64_t min_of(uint64_t a, uint64_t b) { return a < b ? a : b; }

struct retention_clock_limits retention_clock_limits_of(const struct config *c)
{
	const uint64_t kept = c->retain_days ? min_of(c->retain_days, c->idem_keep_days) : c->idem_keep_days;

	return (struct retention_clock_limits){ .tolerance_us = min_of(kept * DAY_US / 2, PAUSE_DAYS * DAY_US),
						.wait_ns = min_of(kept, WAIT_DAYS) * DAY_US * 1000 };
}

/* Nothing is certain about the time between two boots, which may be those of two machines. */
static uint64_t passed_ns(const struct retention_clock *c, const struct retention_clock_reading *now)
{
	return c->boot_id[0] && strcmp(c->boot_id, now->boot_id) == 0 && now->boot_ns > c->boot_ns
		       ? now->boot_ns - c->boot_ns
		       : 0;
}

static uint64_t size_of(int64_t difference) { return difference < 0 ? 0 - (uint64_t)difference : (uint64_t)difference; }

uint64_t retention_clock_read(struct retention_clock *c, const struct retention_clock_reading *now,
			      const struct retention_clock_limits *l)
{
	uint64_t passed = passed_ns(c, now), reached = c->real_us + passed / 1000;
	int64_t ahead = (int64_t)(now->real_us - reached);
	bool differs = c->real_us && size_of(ahead) > l->tolerance_us;
	bool lasts = differs && c->ahead_us && (c->ahead_us < 0) == (ahead < 0);

	/* Only time during which it differed counts: not the time before the reading that first showed it. */
	c->waited_ns = lasts ? c->waited_ns + passed : 0;
	c->ahead_us = lasts && size_of(c->ahead_us) < size_of(ahead) ? c->ahead_us : ahead;
	if (differs && c->waited_ns >= l->wait_ns) { /* so much of it has lasted; a later jump has to wait again */
		reached += (uint64_t)c->ahead_us;
		c->ahead_us = ahead -= c->ahead_us;
		c->waited_ns = 0;
		differs = size_of(ahead) > l->tolerance_us;
	}
	if (!differs)
		c->ahead_us = 0;
	c->real_us = differs ? reached : now->real_us;
	c->boot_ns = now->boot_ns;
	snprintf(c->boot_id, sizeof c->boot_id, "%s", now->boot_id);
	return min_of(c->real_us, now->real_us);
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
	const struct store_query q = { .after = last ? last - 1 : 0, .index = -1, .kept = true };
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

#include "supervisor/fleet/queue_consumer.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "supervisor/fleet/fleet_port.h"

#include <stdio.h>
#include <stdlib.h>

#define SILENT_MS 10000u

static void free_moment(void *ctx, const char *key, void *moment) { free(moment); }

void queue_consumers_done(struct queue_consumers *q)
{
	strmap_each(&q->silent, free_moment, NULL);
	strmap_done(&q->silent);
	strmap_done(&q->known);
}

/* OK also if there is one. */
static natsStatus add(jsCtx *js, const char *class, unsigned priority)
{
	char name[64], filter[128];
	jsConsumerConfig c;
	jsErrCode code = 0;

	snprintf(name, sizeof(name), "c_%s_%u", class, priority);
	snprintf(filter, sizeof(filter), "bailiff.queue.%s.%u.*", class, priority);
	jsConsumerConfig_Init(&c);
	c.Durable = name;
	c.AckPolicy = js_AckExplicit;
	c.AckWait = (int64_t)FLEET_KEEP_MS * 1000000;
	c.FilterSubject = filter;
	c.MaxAckPending = 100000;
	natsStatus s = js_AddConsumer(NULL, js, QUEUE_STREAM, &c, NULL, &code);
	return code == JSConsumerNameExistErr ? NATS_OK : s;
}

natsStatus queue_consumer_need(struct queue_consumers *q, jsCtx *js, const char *class, unsigned priority)
{
	char name[64];

	snprintf(name, sizeof(name), "c_%s_%u", class, priority);
	if (strmap_get(&q->known, name))
		return NATS_OK;
	natsStatus s = add(js, class, priority);
	if (s == NATS_OK)
		strmap_put(&q->known, name, q);
	return s;
}

/* Whether it has been silent for too long; then the time begins again. */
static bool is_silent(struct queue_consumers *q, const char *name, bool answered)
{
	const uint64_t now = clock_boot_ms();
	uint64_t *since = strmap_get(&q->silent, name);

	if (answered) {
		if (since)
			free(strmap_del(&q->silent, name));
		return false;
	}
	if (!since) {
		since = mem_zalloc(1, sizeof(*since));
		*since = now;
		strmap_put(&q->silent, name, since);
	}
	if (now - *since < SILENT_MS)
		return false;
	*since = now;
	return true;
}

void queue_consumer_recreate(jsCtx *js, const char *class, unsigned priority, const char *why)
{
	char name[64];

	snprintf(name, sizeof(name), "c_%s_%u", class, priority);
	(void)js_DeleteConsumer(js, QUEUE_STREAM, name, NULL, NULL);
	if (add(js, class, priority) == NATS_OK)
		log_warning("the server's consumer %s %s: it was recreated", name, why);
}

void queue_consumer_note(struct queue_consumers *q, jsCtx *js, const char *class, unsigned priority, bool answered)
{
	char name[64];

	snprintf(name, sizeof(name), "c_%s_%u", class, priority);
	if (is_silent(q, name, answered))
		queue_consumer_recreate(js, class, priority, "did not answer");
}

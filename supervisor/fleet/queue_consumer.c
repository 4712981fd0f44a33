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
	strmap_done(&q->forgetful);
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

static void recreate(jsCtx *js, const char *name, const char *class, unsigned priority, const char *why)
{
	(void)js_DeleteConsumer(js, QUEUE_STREAM, name, NULL, NULL);
	if (add(js, class, priority) == NATS_OK)
		log_warning("the server's consumer %s %s: it was recreated", name, why);
}

void queue_consumer_note(struct queue_consumers *q, jsCtx *js, const char *class, unsigned priority, bool answered)
{
	char name[64];

	snprintf(name, sizeof(name), "c_%s_%u", class, priority);
	if (is_silent(q, name, answered))
		recreate(js, name, class, priority, "did not answer");
}

/* Messages in the queue; −1 = unknown. */
static int64_t count_messages(jsCtx *js, const char *class, unsigned priority)
{
	char filter[128];
	jsStreamInfo *info = NULL;
	jsOptions o;

	snprintf(filter, sizeof(filter), "bailiff.queue.%s.%u.*", class, priority);
	jsOptions_Init(&o);
	o.Stream.Info.SubjectsFilter = filter;
	if (js_GetStreamInfo(&info, js, QUEUE_STREAM, &o, NULL) != NATS_OK)
		return -1;
	const int64_t count = info->State.Subjects ? info->State.Subjects->Count : 0; /* one for each subject */
	jsStreamInfo_Destroy(info);
	return count;
}

/* Whether there are more messages than the consumer has delivered or will deliver. */
static bool has_forgotten(jsCtx *js, const char *name, const char *class, unsigned priority)
{
	jsConsumerInfo *info = NULL;
	const int64_t before = count_messages(js, class, priority);

	if (before <= 0 || js_GetConsumerInfo(&info, js, QUEUE_STREAM, name, NULL, NULL) != NATS_OK)
		return false;
	const int64_t known = (int64_t)info->NumPending + info->NumAckPending;
	jsConsumerInfo_Destroy(info);
	/* Counted again: what came or went in between does not count. */
	return before > known && count_messages(js, class, priority) > known;
}

void queue_consumer_check(struct queue_consumers *q, jsCtx *js, const char *class, unsigned priority)
{
	char name[64];

	snprintf(name, sizeof(name), "c_%s_%u", class, priority);
	const bool before = strmap_del(&q->forgetful, name) != NULL;
	if (!has_forgotten(js, name, class, priority))
		return;
	if (before)
		recreate(js, name, class, priority, "has forgotten messages");
	else
		strmap_put(&q->forgetful, name, q);
}

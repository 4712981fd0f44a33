#include "supervisor/fleet/bus_streams.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "supervisor/fleet/fleet_port.h"
#include "supervisor/fleet/nats_connection.h"
#include "supervisor/fleet/queue_consumer.h"

#define SECOND 1000000000ll
#define DAY (86400 * SECOND)
#define CREATE_TRIES 20u
#define CREATE_PAUSE_MS 50

/*
 * Messages are not removed by requests, no matter of which user, except where `purge` is set. The server sends the
 * acknowledgement of a stored message to any subject that the sender names, and if that is the subject of a request, it
 * executes the request: a user that may write to one stream could purge any other.
 */
static const struct stream {
	const char *name, *subject;
	int64_t max_age, max_bytes; /* 0: without a limit */
	bool queue;                 /* a message is removed when it is acknowledged */
	bool latest;                /* only the last message of a subject is kept */
	bool in_memory;
	bool purge;
} streams[] = {
	{ QUEUE_STREAM, "bailiff.queue.>", .queue = true },
	{ "bailiff_events", FLEET_EVENT_SUBJECT ">", .max_age = 7 * DAY, .max_bytes = 128ll << 20 },
	{ "bailiff_blobs", FLEET_BLOB_SUBJECT ">", .max_age = 7 * DAY, .max_bytes = 1ll << 30, .latest = true },
	{ "KV_bailiff_tasks", "$KV.bailiff_tasks.>", .latest = true, .purge = true },
	{ "KV_bailiff_classes", "$KV.bailiff_classes.>", .latest = true },
	{ "KV_bailiff_nodes", "$KV.bailiff_nodes.>", .max_age = 15 * SECOND, .latest = true, .in_memory = true },
	/* For longer than a task's signature is valid. */
	{ "KV_bailiff_starts", "$KV.bailiff_starts.>", .max_age = 32 * DAY, .latest = true },
};

/* 1 = there is none. ret_info: to be destroyed. */
static int find_stream(jsCtx *js, const char *name, jsStreamInfo **ret_info, struct err *e)
{
	jsErrCode code = 0;
	natsStatus s = js_GetStreamInfo(ret_info, js, name, NULL, &code);

	if (s == NATS_NOT_FOUND)
		return 1;
	return s == NATS_OK ? 0 : nats_fail(e, s, "JetStream is not available (start nats-server with -js)");
}

static natsStatus create_stream(jsCtx *js, const struct stream *x, unsigned replicas)
{
	const char *subjects[] = { x->subject };
	jsErrCode code = 0;
	jsStreamConfig c;

	jsStreamConfig_Init(&c);
	c.Name = x->name;
	c.Subjects = subjects;
	c.SubjectsLen = 1;
	c.Replicas = replicas;
	c.Retention = x->queue ? js_WorkQueuePolicy : js_LimitsPolicy;
	c.Storage = x->in_memory ? js_MemoryStorage : js_FileStorage;
	c.MaxAge = x->max_age;
	if (x->max_bytes)
		c.MaxBytes = x->max_bytes;
	if (x->latest)
		c.MaxMsgsPerSubject = 1;
	c.DenyDelete = true;
	c.DenyPurge = !x->purge;
	return js_AddStream(NULL, js, &c, NULL, &code);
}

/* ---- what exists ---- */

/*
 * A stream may have been created by an earlier version, which did not protect it, or by a client, which does not know
 * how many servers there are. Nodes set what can be set later. The number of replicas only grows: nodes that want
 * different ones would change it again and again.
 */
struct update {
	natsConnection *nc;
	jsCtx *js;
	struct buf *differs;
	bool denied; /* each try would wait for an answer that does not come */
};

static void note_difference(struct update *u, const char *name, const char *what)
{
	buf_printf(u->differs, "%s%s: %s", u->differs->len ? "; " : "", name, what);
}

/* Whether the server's stream has what `c` sets. False also if the server does not say. */
static bool stream_has(jsCtx *js, const jsStreamConfig *c)
{
	struct err ignored = ERR_INIT;
	jsStreamInfo *info = NULL;
	bool has = false;

	if (find_stream(js, c->Name, &info, &ignored) == 0) {
		const jsStreamConfig *current = info->Config;

		has = current->DenyDelete >= c->DenyDelete && current->DenyPurge >= c->DenyPurge &&
		      current->Replicas >= c->Replicas;
	}
	jsStreamInfo_Destroy(info);
	return has;
}

/* `what`: the difference that `c` would remove. An update whose answer came too late may have removed it. */
static void change_stream(struct update *u, jsStreamConfig *c, const char *what)
{
	struct err e = ERR_INIT;
	jsErrCode code = 0;
	const bool was_denied = u->denied;
	natsStatus s = was_denied ? NATS_NOT_PERMITTED : js_UpdateStream(NULL, u->js, c, NULL, &code);

	if (s != NATS_OK && !was_denied) {
		u->denied = nats_connection_denied(u->nc, &e);
		if (!u->denied)
			nats_fail(&e, s, "change a stream"); /* before another call replaces libnats' reason */
	}
	if (s == NATS_OK || (!u->denied && stream_has(u->js, c))) {
		log_info("the server's stream '%s' was changed: %s until now", c->Name, what);
		return;
	}
	note_difference(u, c->Name, what);
	if (was_denied)
		return;
	buf_printf(u->differs, " (%s%s)", e.message,
		   u->denied ? "; allow nodes to publish to $JS.API.STREAM.UPDATE.*" : "");
}

/* The flags first: they can be set also if there are too few servers for the replicas. */
static void update_stream(struct update *u, const struct stream *x, const jsStreamInfo *info, unsigned replicas)
{
	const jsStreamConfig *current = info->Config;
	jsStreamConfig c = *current;
	char what[64];

	c.DenyDelete = true;
	c.DenyPurge |= !x->purge;
	if (!current->DenyDelete || c.DenyPurge != current->DenyPurge)
		change_stream(u, &c, "clients can remove messages");
	if (current->Replicas >= (int64_t)replicas)
		return;
	snprintf(what, sizeof(what), "%lld replica%s instead of %u", (long long)current->Replicas,
		 current->Replicas == 1 ? "" : "s", replicas);
	c.Replicas = replicas;
	/* A standalone server stores any number and keeps one replica; newer ones name a leader, but no cluster. */
	if (info->Cluster && info->Cluster->Name && *info->Cluster->Name)
		change_stream(u, &c, what);
	else
		note_difference(u, x->name, what);
}

/* 1 = there is none. */
static int check_stream(struct update *u, const struct stream *x, const struct fleet_nats_options *o, struct err *e)
{
	jsStreamInfo *info = NULL;
	int r = find_stream(u->js, x->name, &info, e);

	if (r == 0 && o->updates)
		update_stream(u, x, info, o->replicas);
	jsStreamInfo_Destroy(info);
	return r;
}

/*
 * Another process may create it at the same time. Then the server rejects this request in several ways, and the stream
 * is there a moment later.
 */
static int create_missing(struct update *u, const struct stream *x, const struct fleet_nats_options *o, struct err *e)
{
	struct err why = ERR_INIT;

	for (unsigned tries = CREATE_TRIES;; nats_Sleep(CREATE_PAUSE_MS)) {
		natsStatus s = create_stream(u->js, x, o->replicas ? o->replicas : 1);

		if (s == NATS_OK)
			return 0;
		nats_fail(&why, s, x->name); /* before another call replaces libnats' reason */
		if (check_stream(u, x, o, e) == 0)
			return 0;
		*e = ERR_INIT;
		if (nats_connection_denied(u->nc, e))
			return err_set(e, ERR_UNAVAILABLE,
				       "fleet: '%s' is missing on the server, and this user may not create it: start "
				       "a node first, which does",
				       x->name);
		/* Without an answer each try waits long. */
		if (s != NATS_ERR || --tries == 0) {
			*e = why;
			return -1;
		}
	}
}

int bus_streams_ensure(natsConnection *nc, jsCtx *js, const struct fleet_nats_options *o, struct buf *ret_differs,
		       struct err *e)
{
	struct update u = { .nc = nc, .js = js, .differs = ret_differs };

	for (size_t i = 0; i < countof(streams); i++) {
		int r = check_stream(&u, &streams[i], o, e);

		if (r < 0)
			return -1;
		if (r > 0 && create_missing(&u, &streams[i], o, e) < 0)
			return -1;
	}
	return 0;
}

bool bus_streams_match(jsCtx *js, unsigned replicas)
{
	for (size_t i = 0; i < countof(streams); i++) {
		const jsStreamConfig wanted = {
			.Name = streams[i].name,
			.DenyDelete = true,
			.DenyPurge = !streams[i].purge,
			.Replicas = replicas,
		};

		if (!stream_has(js, &wanted))
			return false;
	}
	return true;
}

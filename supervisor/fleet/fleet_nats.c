/*
 * The port over NATS JetStream. Relies on nothing newer than nats-server 2.9.
 *
 * Task documents, nodes and classes are KV buckets. They are written by publishing with the expected last sequence of
 * their subject: that is what a KV update is, and unlike libnats' kvStore_Update it tells a conflict from a failure.
 * Pull requests, acknowledgements and requests are plain messages of the JetStream protocol, so nothing here blocks
 * longer than one round trip.
 *
 * libnats has threads of its own; they only append to the list of requests and write to the eventfd.
 */

#include "supervisor/fleet/fleet_port.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/fleet/bucket.h"
#include "supervisor/fleet/bus_streams.h"
#include "supervisor/fleet/fleet_creds.h"
#include "supervisor/fleet/nats_connection.h"
#include "supervisor/fleet/queue_consumer.h"

#include <errno.h>
#include <nats/nats.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define FETCH_WAIT_MS 2000 /* a message that comes later comes again */
#define REQUESTS_MAX 256u
#define REQUEST_BYTES_MAX (64u << 10)
#define DIFFERS_MAX 800u
#define QUEUE QUEUE_STREAM
#define WAKE_SUBJECT "bailiff.wake"

enum { TASKS, CLASSES, NODES, STARTS, BUCKETS };
static const char *const buckets[BUCKETS] = { "bailiff_tasks", "bailiff_classes", "bailiff_nodes", "bailiff_starts" };

struct request_entry {
	struct request_entry *next;
	struct fleet_incoming r;
};

struct nats_port {
	struct fleet_port port;
	natsConnection *nc;
	jsCtx *js;
	natsSubscription *wakes, *requests;
	struct fleet_creds creds; /* also used by libnats' threads, when they connect again */
	struct queue_consumers consumers;
	unsigned replicas;
	int wake_fd;
	pthread_mutex_t lock; /* of what follows: the callbacks of libnats' threads use it */
	bool woken;
	unsigned nrequests;
	struct request_entry *first, **last;
};

static struct nats_port *of(struct fleet_port *p) { return (struct nats_port *)p; }

/* Waiting for a server that is gone would only delay what has to happen then. */
static bool port_connected(struct fleet_port *p)
{
	return natsConnection_Status(of(p)->nc) == NATS_CONN_STATUS_CONNECTED;
}

static int check_connected(struct nats_port *n, struct err *e)
{
	return port_connected(&n->port) ? 0 : err_set(e, ERR_UNAVAILABLE, "fleet: not connected to the bus");
}

/* ---- buckets ---- */

static int get_entry(struct nats_port *n, int bucket, const char *key, struct buf *ret, uint64_t *ret_revision,
		     struct err *e)
{
	uint64_t revision;
	int r = check_connected(n, e) < 0 ? -1 : bucket_get(n->js, buckets[bucket], key, ret, &revision, e);

	if (r == 0)
		*ret_revision = revision;
	return r;
}

/* 1: the expectation of `o` does not hold. */
static int publish(struct nats_port *n, const char *subject, const void *data, size_t len, jsPubOptions *o,
		   uint64_t *ret_or_null, struct err *e)
{
	jsPubAck *ack = NULL;
	jsErrCode code = 0;

	if (check_connected(n, e) < 0)
		return -1;
	natsStatus s = js_Publish(&ack, n->js, subject, data, (int)len, o, &code);
	if (s != NATS_OK && code == JSStreamWrongLastSequenceErr)
		return 1;
	if (s != NATS_OK)
		return nats_fail(e, s, "write a document");
	if (ret_or_null)
		*ret_or_null = ack->Sequence;
	jsPubAck_Destroy(ack);
	return 0;
}

static int put_entry(struct nats_port *n, int bucket, const char *key, const struct buf *text, jsPubOptions *o,
		     uint64_t *ret_or_null, struct err *e)
{
	char subject[256];

	snprintf(subject, sizeof(subject), "$KV.%s.%s", buckets[bucket], key);
	return publish(n, subject, text->data, text->len, o, ret_or_null, e);
}

static int list_entries(struct nats_port *n, int bucket, fleet_entry_fn fn, void *ctx, struct err *e)
{
	return check_connected(n, e) < 0 ? -1 : bucket_list(n->nc, n->js, &n->creds, buckets[bucket], fn, ctx, e);
}

static int port_get_task(struct fleet_port *p, const char *id, struct buf *ret, uint64_t *ret_revision, struct err *e)
{
	return get_entry(of(p), TASKS, id, ret, ret_revision, e);
}

/* Also in place of the mark of a deleted key. */
static int port_create_task(struct fleet_port *p, const char *id, const struct buf *text, uint64_t *ret_revision,
			    struct err *e)
{
	struct buf buf_auto there = BUF_INIT;
	uint64_t mark;
	jsPubOptions o;

	jsPubOptions_Init(&o);
	o.ExpectNoMessage = true;
	const int put = put_entry(of(p), TASKS, id, text, &o, ret_revision, e);
	if (put == 0)
		return 0;
	if (check_connected(of(p), e) < 0)
		return -1;
	const int got = bucket_get(of(p)->js, buckets[TASKS], id, &there, &mark, e);
	if (got == 0)
		return 1; /* also if it is this one, and the answer was lost */
	if (put < 0 || got < 0)
		return -1;
	o.ExpectNoMessage = mark == 0;
	o.ExpectLastSubjectSeq = mark;
	return put_entry(of(p), TASKS, id, text, &o, ret_revision, e);
}

static int port_update_task(struct fleet_port *p, const char *id, const struct buf *text, uint64_t revision,
			    uint64_t *ret_revision, struct err *e)
{
	jsPubOptions o;

	jsPubOptions_Init(&o);
	o.ExpectLastSubjectSeq = revision;
	return put_entry(of(p), TASKS, id, text, &o, ret_revision, e);
}

/* Purges the subject: a deletion marker would stay forever. */
static int port_remove_task(struct fleet_port *p, const char *id, struct err *e)
{
	struct nats_port *n = of(p);
	mem_auto char *subject = mem_printf("$KV.bailiff_tasks.%s", id);
	jsOptions o;

	jsOptions_Init(&o);
	o.Stream.Purge.Subject = subject;
	natsStatus s = js_PurgeStream(n->js, "KV_bailiff_tasks", &o, NULL);
	if (s != NATS_OK && nats_connection_denied(n->nc, e))
		return err_wrap(e, "remove the task");
	return s == NATS_OK ? 0 : nats_fail(e, s, "remove the task");
}

static int port_list_tasks(struct fleet_port *p, fleet_entry_fn fn, void *ctx, struct err *e)
{
	return list_entries(of(p), TASKS, fn, ctx, e);
}

static int port_get_node(struct fleet_port *p, const char *node, struct buf *ret, uint64_t *ret_revision, struct err *e)
{
	return get_entry(of(p), NODES, node, ret, ret_revision, e);
}

static int port_node_stored_at(struct fleet_port *p, const char *node, uint64_t *ret, struct err *e)
{
	return check_connected(of(p), e) < 0 ? -1 : bucket_stored_at(of(p)->js, buckets[NODES], node, ret, e);
}

/* revision 0: there must be no entry. */
static int put_from(struct nats_port *n, int bucket, const char *key, const struct buf *text, uint64_t revision,
		    uint64_t *ret_or_null, struct err *e)
{
	jsPubOptions o;

	jsPubOptions_Init(&o);
	o.ExpectLastSubjectSeq = revision;
	o.ExpectNoMessage = revision == 0;
	return put_entry(n, bucket, key, text, &o, ret_or_null, e);
}

static int port_put_node(struct fleet_port *p, const char *node, const struct buf *text, uint64_t revision,
			 uint64_t *ret_revision, struct err *e)
{
	return put_from(of(p), NODES, node, text, revision, ret_revision, e);
}

static int port_get_record(struct fleet_port *p, const char *key, struct buf *ret, uint64_t *ret_revision,
			   struct err *e)
{
	return get_entry(of(p), STARTS, key, ret, ret_revision, e);
}

static int port_put_record(struct fleet_port *p, const char *key, const struct buf *text, uint64_t revision,
			   struct err *e)
{
	return put_from(of(p), STARTS, key, text, revision, NULL, e);
}

static int port_list_nodes(struct fleet_port *p, fleet_entry_fn fn, void *ctx, struct err *e)
{
	return list_entries(of(p), NODES, fn, ctx, e);
}

/* ---- the queue ---- */

static int port_put_class(struct fleet_port *p, const char *class, unsigned priority, const struct buf *needs,
			  struct err *e)
{
	struct nats_port *n = of(p);
	char key[64];
	struct buf buf_auto there = BUF_INIT;
	uint64_t revision;

	snprintf(key, sizeof(key), "%s.%u", class, priority);
	int r = get_entry(n, CLASSES, key, &there, &revision, e);
	if (r <= 0)
		return r;
	/* Nodes create its consumer before they fetch from it. */
	return put_entry(n, CLASSES, key, needs, NULL, NULL, e);
}

static int port_list_classes(struct fleet_port *p, fleet_entry_fn fn, void *ctx, struct err *e)
{
	return list_entries(of(p), CLASSES, fn, ctx, e);
}

static int port_enqueue(struct fleet_port *p, const char *class, unsigned priority, const char *id, uint64_t attempt,
			struct err *e)
{
	struct nats_port *n = of(p);
	char subject[256], msg_id[128];
	jsPubOptions o;

	snprintf(subject, sizeof(subject), "bailiff.queue.%s.%u.%s", class, priority, id);
	snprintf(msg_id, sizeof(msg_id), "%s.%llu", id, (unsigned long long)attempt);
	jsPubOptions_Init(&o);
	o.MsgId = msg_id;
	o.ExpectNoMessage = true;
	int r = publish(n, subject, id, strlen(id), &o, NULL, e);
	/* Best effort: nodes also look by themselves. */
	if (r == 0)
		(void)natsConnection_PublishString(n->nc, WAKE_SUBJECT, class);
	return r;
}

static int port_fetch(struct fleet_port *p, const char *class, unsigned priority, struct fleet_message *ret,
		      struct err *e)
{
	static const char pull[] = "{\"batch\":1,\"no_wait\":true}";
	struct nats_port *n = of(p);
	char subject[256];
	natsMsg *m = NULL;
	const char *status = NULL, *reply;
	struct fleet_message found = { 0 };

	if (check_connected(n, e) < 0)
		return -1;
	natsStatus s = queue_consumer_need(&n->consumers, n->js, class, priority);
	if (s != NATS_OK)
		return nats_fail(e, s, "create the consumer of a class");
	snprintf(subject, sizeof(subject), "$JS.API.CONSUMER.MSG.NEXT." QUEUE ".c_%s_%u", class, priority);
	s = natsConnection_RequestString(&m, n->nc, subject, pull, FETCH_WAIT_MS);
	if (s != NATS_OK) {
		if (natsConnection_Status(n->nc) == NATS_CONN_STATUS_CONNECTED)
			queue_consumer_note(&n->consumers, n->js, class, priority, false);
		return nats_fail(e, s, "fetch from the queue");
	}
	reply = natsMsg_GetReply(m);
	bool has_status = natsMsgHeader_Get(m, "Status", &status) == NATS_OK;
	queue_consumer_note(&n->consumers, n->js, class, priority, !has_status || strcmp(status, "408") != 0);
	if (has_status || !reply || strncmp(reply, "$JS.ACK.", 8) != 0) {
		natsMsg_Destroy(m);
		return 1;
	}
	int len = natsMsg_GetDataLength(m);
	bool valid = len > 0 && len <= (int)FLEET_ID_MAX && strlen(reply) < sizeof(found.handle);
	if (valid) {
		memcpy(found.task, natsMsg_GetData(m), (size_t)len);
		snprintf(found.handle, sizeof(found.handle), "%s", reply);
		valid = fleet_id_valid(found.task);
	}
	if (!valid) /* never a task: it must not come again */
		(void)natsConnection_PublishString(n->nc, reply, "+TERM");
	natsMsg_Destroy(m);
	if (!valid)
		return 1;
	*ret = found;
	return 0;
}

static int port_acknowledge(struct fleet_port *p, const struct fleet_message *m, struct err *e)
{
	natsMsg *answer = NULL;

	if (check_connected(of(p), e) < 0)
		return -1;
	natsStatus s = natsConnection_RequestString(&answer, of(p)->nc, m->handle, "+ACK", FLEET_NATS_WAIT_MS);
	natsMsg_Destroy(answer);
	return s == NATS_OK ? 0 : nats_fail(e, s, "acknowledge a task");
}

static int send_text(struct nats_port *n, const char *subject, const char *text, struct err *e)
{
	if (check_connected(n, e) < 0)
		return -1;
	natsStatus s = natsConnection_PublishString(n->nc, subject, text);
	return s == NATS_OK ? 0 : nats_fail(e, s, "send a message");
}

static int port_put_back(struct fleet_port *p, const struct fleet_message *m, uint64_t delay_ms, struct err *e)
{
	char text[64];

	if (delay_ms)
		snprintf(text, sizeof(text), "-NAK {\"delay\":%llu}", (unsigned long long)delay_ms * 1000000);
	else
		snprintf(text, sizeof(text), "-NAK");
	return send_text(of(p), m->handle, text, e);
}

static int port_keep(struct fleet_port *p, const struct fleet_message *m, struct err *e)
{
	return send_text(of(p), m->handle, "+WPI", e);
}

static void port_deliver_again(struct fleet_port *p, const char *class, unsigned priority)
{
	if (port_connected(p))
		queue_consumer_recreate(of(p)->js, class, priority, "does not deliver a message");
}

/* ---- stored messages ---- */

static int port_store(struct fleet_port *p, const char *subject, const void *data, size_t n, struct err *e)
{
	return publish(of(p), subject, data, n, NULL, NULL, e);
}

/* By the list of subjects: clients need not be able to read what is stored. */
static int find_stored(struct nats_port *n, const char *stream, const char *subject, struct err *e)
{
	jsStreamInfo *info = NULL;
	jsOptions o;

	jsOptions_Init(&o);
	o.Stream.Info.SubjectsFilter = subject;
	natsStatus s = js_GetStreamInfo(&info, n->js, stream, &o, NULL);
	const bool found = s == NATS_OK && info->State.Subjects && info->State.Subjects->Count;
	jsStreamInfo_Destroy(info);
	if (s != NATS_OK)
		return nats_fail(e, s, "look for a stored message");
	return found ? 0 : 1;
}

static int port_get_stored(struct fleet_port *p, const char *subject, struct buf *ret, struct err *e)
{
	const char *stream = strncmp(subject, FLEET_BLOB_SUBJECT, strlen(FLEET_BLOB_SUBJECT)) == 0 ? "bailiff_blobs"
												   : "bailiff_events";
	natsMsg *m = NULL;
	jsErrCode code = 0;

	if (check_connected(of(p), e) < 0)
		return -1;
	if (!ret)
		return find_stored(of(p), stream, subject, e);
	natsStatus s = js_GetLastMsg(&m, of(p)->js, stream, subject, NULL, &code);
	if (s == NATS_NOT_FOUND)
		return 1;
	if (s != NATS_OK)
		return nats_fail(e, s, "read a stored message");
	buf_reset(ret);
	buf_append(ret, natsMsg_GetData(m), (size_t)natsMsg_GetDataLength(m));
	natsMsg_Destroy(m);
	return 0;
}

/* ---- requests ---- */

static void signal_wake(struct nats_port *n)
{
	uint64_t one = 1;

	/* EAGAIN: it is readable already. */
	if (write(n->wake_fd, &one, sizeof(one)) < 0)
		return;
}

static void on_wake(natsConnection *nc, natsSubscription *sub, natsMsg *m, void *ctx)
{
	struct nats_port *n = ctx;

	natsMsg_Destroy(m);
	pthread_mutex_lock(&n->lock);
	n->woken = true;
	pthread_mutex_unlock(&n->lock);
	signal_wake(n);
}

/* Anything else would be the sender's way to write what only nodes may. */
static bool is_inbox(const char *reply) { return reply && strncmp(reply, FLEET_INBOX, strlen(FLEET_INBOX)) == 0; }

/* Too many or too large ones are dropped: their clients time out. */
static void on_request(natsConnection *nc, natsSubscription *sub, natsMsg *m, void *ctx)
{
	struct nats_port *n = ctx;
	const char *reply = natsMsg_GetReply(m), *verb = strrchr(natsMsg_GetSubject(m), '.');
	size_t len = (size_t)natsMsg_GetDataLength(m);

	pthread_mutex_lock(&n->lock);
	if (is_inbox(reply) && verb && fleet_id_valid(verb + 1) && len <= REQUEST_BYTES_MAX &&
	    n->nrequests < REQUESTS_MAX && strlen(reply) < sizeof(n->first->r.reply)) {
		struct request_entry *r = mem_zalloc(1, sizeof(*r));

		snprintf(r->r.verb, sizeof(r->r.verb), "%s", verb + 1);
		snprintf(r->r.reply, sizeof(r->r.reply), "%s", reply);
		r->r.data = mem_strndup(natsMsg_GetData(m), len);
		r->r.len = len;
		*n->last = r;
		n->last = &r->next;
		n->nrequests++;
	}
	pthread_mutex_unlock(&n->lock);
	natsMsg_Destroy(m);
	signal_wake(n);
}

static int port_serve(struct fleet_port *p, const char *node, struct err *e)
{
	struct nats_port *n = of(p);
	char subject[128];

	snprintf(subject, sizeof(subject), "bailiff.node.%s.*", node);
	natsStatus s = natsConnection_Subscribe(&n->requests, n->nc, subject, on_request, n);
	if (s == NATS_OK)
		s = natsConnection_Subscribe(&n->wakes, n->nc, WAKE_SUBJECT, on_wake, n);
	return s == NATS_OK ? 0 : nats_fail(e, s, "subscribe to requests");
}

static int port_next_request(struct fleet_port *p, struct fleet_incoming *ret)
{
	struct nats_port *n = of(p);
	struct request_entry *r;

	pthread_mutex_lock(&n->lock);
	r = n->first;
	if (r) {
		n->first = r->next;
		n->nrequests--;
		if (!n->first)
			n->last = &n->first;
	}
	pthread_mutex_unlock(&n->lock);
	if (!r)
		return 1;
	*ret = r->r;
	free(r);
	return 0;
}

static int port_reply(struct fleet_port *p, const char *to, const void *data, size_t n, struct err *e)
{
	if (check_connected(of(p), e) < 0)
		return -1;
	natsStatus s = natsConnection_Publish(of(p)->nc, to, data, (int)n);
	return s == NATS_OK ? 0 : nats_fail(e, s, "send a reply");
}

static int port_request(struct fleet_port *p, const char *node, const char *verb, const struct buf *data,
			int timeout_ms, struct buf *ret, struct err *e)
{
	char subject[256];
	natsMsg *m = NULL;

	if (check_connected(of(p), e) < 0)
		return -1;
	snprintf(subject, sizeof(subject), "bailiff.node.%s.%s", node, verb);
	natsStatus s = natsConnection_Request(&m, of(p)->nc, subject, data->data, (int)data->len, timeout_ms);
	if (s == NATS_NO_RESPONDERS || s == NATS_TIMEOUT)
		return 1;
	if (s != NATS_OK)
		return nats_fail(e, s, "send a request to a node");
	buf_reset(ret);
	buf_append(ret, natsMsg_GetData(m), (size_t)natsMsg_GetDataLength(m));
	natsMsg_Destroy(m);
	return 0;
}

static int port_wake_fd(struct fleet_port *p) { return of(p)->wake_fd; }

static bool port_take_wake(struct fleet_port *p)
{
	struct nats_port *n = of(p);
	uint64_t count;
	bool woken;

	if (read(n->wake_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		return true;
	pthread_mutex_lock(&n->lock);
	woken = n->woken;
	n->woken = false;
	pthread_mutex_unlock(&n->lock);
	return woken;
}

static void port_check_settings(struct fleet_port *p)
{
	if (!p->differs || !port_connected(p) || !bus_streams_match(of(p)->js, of(p)->replicas))
		return;
	free(p->differs);
	p->differs = NULL;
	log_info("the server stores the fleet with this node's settings now");
}

static void port_free(struct fleet_port *p)
{
	struct nats_port *n = of(p);
	struct fleet_incoming r;

	natsSubscription_Destroy(n->wakes);
	natsSubscription_Destroy(n->requests);
	jsCtx_Destroy(n->js);
	natsConnection_Destroy(n->nc);
	while (port_next_request(p, &r) == 0)
		free(r.data);
	fd_close(&n->wake_fd);
	pthread_mutex_destroy(&n->lock);
	fleet_creds_done(&n->creds);
	queue_consumers_done(&n->consumers);
	free(n->port.differs);
	free(n);
}

static const struct fleet_port_ops ops = {
	.connected = port_connected,
	.get_task = port_get_task,
	.create_task = port_create_task,
	.update_task = port_update_task,
	.list_tasks = port_list_tasks,
	.remove_task = port_remove_task,
	.put_class = port_put_class,
	.list_classes = port_list_classes,
	.enqueue = port_enqueue,
	.fetch = port_fetch,
	.acknowledge = port_acknowledge,
	.put_back = port_put_back,
	.keep = port_keep,
	.deliver_again = port_deliver_again,
	.get_node = port_get_node,
	.put_node = port_put_node,
	.node_stored_at = port_node_stored_at,
	.list_nodes = port_list_nodes,
	.get_record = port_get_record,
	.put_record = port_put_record,
	.store = port_store,
	.get_stored = port_get_stored,
	.serve = port_serve,
	.next_request = port_next_request,
	.reply = port_reply,
	.request = port_request,
	.wake_fd = port_wake_fd,
	.take_wake = port_take_wake,
	.check_settings = port_check_settings,
	.free = port_free,
};

/* ---- the connection ---- */

static int connect_bus(struct nats_port *n, const struct fleet_nats_options *f, struct err *e)
{
	jsOptions js;

	if (nats_connection_open(f, &n->creds, &n->nc, e) < 0)
		return -1;
	jsOptions_Init(&js);
	js.Wait = FLEET_NATS_WAIT_MS;
	natsStatus s = natsConnection_JetStream(&n->js, n->nc, &js);
	return s == NATS_OK ? 0 : nats_fail(e, s, "JetStream");
}

int fleet_nats_new(const struct fleet_nats_options *o, struct fleet_port **ret, struct err *e)
{
	struct nats_port *n = mem_zalloc(1, sizeof(*n));
	struct buf buf_auto differs = BUF_INIT;

	n->port.ops = &ops;
	n->last = &n->first;
	n->replicas = o->replicas;
	n->wake_fd = -1;
	pthread_mutex_init(&n->lock, NULL);
	int r = connect_bus(n, o, e);
	if (r == 0)
		r = bus_streams_ensure(n->nc, n->js, o, &differs, e);
	if (differs.len)
		n->port.differs = mem_strndup(
			differs.data,
			text_utf8_cut(differs.data, differs.len < DIFFERS_MAX ? differs.len : DIFFERS_MAX));
	if (r == 0 && (n->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
		r = err_sys(e, errno, "eventfd");
	if (r < 0) {
		port_free(&n->port);
		return -1;
	}
	*ret = &n->port;
	return 0;
}

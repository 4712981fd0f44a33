#include "supervisor/fleet/bucket.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/fleet/nats_connection.h"

#include <stdio.h>
#include <string.h>

/* Requests that wait for their answers: enough to hide the round trip, too few to fill the server's buffers. */
#define IN_FLIGHT 64

#define NO_MESSAGE 404

/* The last message of the key. 1 = there is none. */
static int last_message(jsCtx *js, const char *bucket, const char *key, natsMsg **ret, struct err *e)
{
	char stream[64], subject[256];

	snprintf(stream, sizeof(stream), "KV_%s", bucket);
	snprintf(subject, sizeof(subject), "$KV.%s.%s", bucket, key);
	natsStatus s = js_GetLastMsg(ret, js, stream, subject, NULL, NULL);
	if (s == NATS_NOT_FOUND)
		return 1;
	return s == NATS_OK ? 0 : nats_fail(e, s, "read a document");
}

int bucket_stored_at(jsCtx *js, const char *bucket, const char *key, uint64_t *ret, struct err *e)
{
	natsMsg *m = NULL;
	int r = last_message(js, bucket, key, &m, e);

	if (r == 0)
		*ret = (uint64_t)natsMsg_GetTime(m) / 1000000;
	natsMsg_Destroy(m);
	return r;
}

int bucket_get(jsCtx *js, const char *bucket, const char *key, struct buf *ret, uint64_t *ret_revision, struct err *e)
{
	const char *mark = NULL;
	natsMsg *m = NULL;
	int r = last_message(js, bucket, key, &m, e);

	if (r == 1)
		*ret_revision = 0;
	if (r != 0)
		return r;
	*ret_revision = natsMsg_GetSequence(m);
	const bool deleted = natsMsgHeader_Get(m, "KV-Operation", &mark) == NATS_OK;
	if (!deleted) {
		buf_reset(ret);
		buf_append(ret, natsMsg_GetData(m), (size_t)natsMsg_GetDataLength(m));
	}
	natsMsg_Destroy(m);
	return deleted;
}

/* ---- lists ---- */

struct listing {
	natsConnection *nc;
	natsSubscription *answers;
	char stream[64], inbox[FLEET_INBOX_TEXT];
	size_t prefix; /* the length of "$KV.BUCKET." */
	fleet_entry_fn fn;
	void *ctx;
};

/* Others than these are not bailiff's, and would need quoting. */
static bool is_key(const char *s)
{
	return s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")] == '\0';
}

static natsStatus ask(const struct listing *l, const char *subject)
{
	char to[128];
	mem_auto char *request = mem_printf("{\"last_by_subj\":\"%s\"}", subject);

	snprintf(to, sizeof(to), "$JS.API.STREAM.MSG.GET.%s", l->stream);
	return natsConnection_PublishRequestString(l->nc, to, l->inbox, request);
}

/* Whether the stored headers make it the mark of a deleted key. */
static bool is_mark(const json_t *message)
{
	const char *headers = json_get_string(message, "hdrs");
	struct buf buf_auto text = BUF_INIT;

	return headers && text_base64_decode(headers, strlen(headers), &text) == 0 &&
	       strstr(buf_cstr(&text), "\r\nKV-Operation:");
}

/* An answer of the server: the message, or that it has been removed meanwhile. */
static int take_answer(const struct listing *l, natsMsg *m, struct err *e)
{
	json_auto_t *root = json_loadb(natsMsg_GetData(m), (size_t)natsMsg_GetDataLength(m), JSON_REJECT_DUPLICATES,
				       NULL);
	const json_t *message = json_object_get(root, "message"), *error = json_object_get(root, "error");
	const char *subject = json_get_string(message, "subject"), *data = json_get_string(message, "data");
	struct buf buf_auto value = BUF_INIT;

	if (json_integer_value(json_object_get(error, "code")) == NO_MESSAGE)
		return 0;
	if (!subject || strlen(subject) <= l->prefix || (data && text_base64_decode(data, strlen(data), &value) < 0))
		return err_set(e, ERR_UNAVAILABLE, "fleet: read a document of %s: %s", l->stream,
			       error ? json_get_text(error, "description") : "an unreadable answer");
	if (!is_mark(message))
		l->fn(l->ctx, subject + l->prefix, buf_cstr(&value), value.len,
		      (uint64_t)json_integer_value(json_object_get(message, "seq")));
	return 0;
}

static int read_all(const struct listing *l, const jsStreamStateSubjects *all, struct err *e)
{
	int waiting = 0;

	for (int next = 0; next < all->Count || waiting; waiting--) {
		natsStatus s = NATS_OK;
		natsMsg *m = NULL;

		for (; s == NATS_OK && next < all->Count && waiting < IN_FLIGHT; next++)
			if (is_key(all->List[next].Subject + l->prefix)) {
				s = ask(l, all->List[next].Subject);
				waiting++;
			}
		if (!waiting)
			break;
		if (s == NATS_OK)
			s = natsSubscription_NextMsg(&m, l->answers, FLEET_NATS_WAIT_MS);
		if (s != NATS_OK)
			return nats_fail(e, s, "list documents");
		int r = take_answer(l, m, e);
		natsMsg_Destroy(m);
		if (r < 0)
			return -1;
	}
	return 0;
}

int bucket_list(natsConnection *nc, jsCtx *js, const struct fleet_creds *creds, const char *bucket, fleet_entry_fn fn,
		void *ctx, struct err *e)
{
	struct listing l = { .nc = nc, .fn = fn, .ctx = ctx };
	char filter[64];
	jsStreamInfo *info = NULL;
	jsOptions o;
	int r = 0;

	snprintf(l.stream, sizeof(l.stream), "KV_%s", bucket);
	l.prefix = (size_t)snprintf(filter, sizeof(filter), "$KV.%s.>", bucket) - 1;
	jsOptions_Init(&o);
	o.Wait = FLEET_NATS_WAIT_MS;
	o.Stream.Info.SubjectsFilter = filter;
	natsStatus s = js_GetStreamInfo(&info, js, l.stream, &o, NULL);
	if (s == NATS_OK && info->State.Subjects && info->State.Subjects->Count) {
		if ((s = nats_connection_inbox(creds, l.inbox)) == NATS_OK &&
		    (s = natsConnection_SubscribeSync(&l.answers, nc, l.inbox)) == NATS_OK)
			r = read_all(&l, info->State.Subjects, e);
		natsSubscription_Destroy(l.answers);
	}
	jsStreamInfo_Destroy(info);
	return s == NATS_OK ? r : nats_fail(e, s, "list documents");
}

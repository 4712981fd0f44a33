#include "supervisor/fleet/node_requests.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/common/event_link.h"
#include "supervisor/fleet/fleet_node.h"
#include "supervisor/fleet/member.h"
#include "supervisor/fleet/seen_requests.h"

#include <stdio.h>
#include <string.h>

#define BATCH 16 /* requests that are answered before the node does something else */
#define DIFF_MAX (8u << 20)
#define PACKS 16u

struct question {
	struct fleet_node *n;
	struct event_link *link;
	struct fleet_signed envelope;
	struct fleet_request request;
	struct fleet_task task; /* as it is on the bus: says only which claim is meant */
	struct buf record;      /* the daemon's task */
	char local_id[FLEET_LOCAL_ID];
	uint64_t offset, limit;
	const char *stream;
};

struct answer {
	struct buf bytes;
	uint64_t next;
	bool end;
};

/* ---- who may ask ---- */

struct submitter_requests {
	struct submitter_requests *next;
	char key[FLEET_KEY_TEXT];
	struct seen_requests seen;
};

static struct seen_requests *requests_of(const char *key)
{
	static struct submitter_requests *all;
	struct submitter_requests *r = all;

	while (r && strcmp(r->key, key) != 0)
		r = r->next;
	if (!r) {
		r = mem_zalloc(1, sizeof(*r));
		snprintf(r->key, sizeof(r->key), "%s", key);
		r->next = all;
		all = r;
	}
	return &r->seen;
}

static int check_envelope(struct question *q, const struct fleet_incoming *in, struct err *e)
{
	const uint64_t now = clock_real_us() / 1000;

	if (fleet_signed_parse(in->data, in->len, &q->envelope, e) < 0)
		return -1;
	if (!fleet_node_submitter(q->n, q->envelope.key))
		return err_set(e, ERR_NOT_ALLOWED, "this key is not a submitter of the node");
	if (fleet_signed_verify(&q->envelope, e) < 0 || fleet_request_parse(q->envelope.text, &q->request, e) < 0)
		return -1;
	if (strcmp(q->request.verb, in->verb) != 0)
		return err_set(e, ERR_NOT_ALLOWED, "the request was signed for another verb");
	if (q->request.time + FLEET_CLOCK_MS < now || q->request.time > now + FLEET_CLOCK_MS)
		return err_set(e, ERR_NOT_ALLOWED,
			       "the request is too old, or the clocks differ by more than %u minutes",
			       FLEET_CLOCK_MS / 60000);
	if (seen_requests_repeats(requests_of(q->envelope.key), q->request.time, q->request.nonce))
		return err_set(e, ERR_NOT_ALLOWED,
			       "the request was made before, or another client with this key and a clock that is ahead "
			       "has made too many");
	return 0;
}

/* A call with one id as parameter. */
static int call_with(struct question *q, const char *method, const char *name, const char *id, const char *more,
		     struct buf *ret, struct err *e)
{
	struct buf buf_auto params = BUF_INIT;
	struct jw w = jw_on(&params);

	jw_obj(&w);
	jw_kstr(&w, name, id);
	if (more)
		buf_printf(&params, ",%s", more);
	jw_obj_end(&w);
	return event_link_call(q->link, method, &params, ret, e);
}

static int find_task(struct question *q, struct err *e)
{
	struct buf buf_auto text = BUF_INIT;
	char key[FLEET_KEY_TEXT];
	uint64_t revision;
	int r = q->n->port->ops->get_task(q->n->port, q->request.task, &text, &revision, e);

	if (r)
		return r < 0 ? -1 : err_set(e, ERR_NOT_FOUND, "there is no such task");
	if (fleet_task_parse(text.data, text.len, &q->task, e) < 0)
		return -1;
	fleet_local_id(&q->task, q->local_id);
	if (strcmp(q->task.node, q->n->config->node) != 0 || strcmp(q->task.spec.id, q->request.task) != 0)
		return err_set(e, ERR_NOT_FOUND, "the task did not run here");
	if (call_with(q, "get_task", "taskId", q->local_id, NULL, &q->record, e) < 0)
		return err_set(e, ERR_NOT_FOUND, "the task did not run here, or its record has been removed");
	struct jval claim = jval_get(jval_of(q->record.data, q->record.len), "fleet");
	jval_str(jval_get(claim, "submitterKey"), key, sizeof(key));
	if (!jval_is_str(jval_get(claim, "taskId"), q->request.task) ||
	    (strcmp(key, q->envelope.key) != 0 && !fleet_node_is_operator(q->n, q->envelope.key)))
		return err_set(e, ERR_NOT_ALLOWED, "the task belongs to another submitter");
	return 0;
}

static int read_args(struct question *q, struct err *e)
{
	static const char *const known[] = { "node", "stream", "offset", "limit", NULL };
	const char *node = "";

	q->stream = "stdout";
	q->limit = FLEET_CHUNK / 2;
	if (member_known(q->request.args, "args", known, e) < 0 ||
	    member_string(q->request.args, "node", 1, FLEET_ID_MAX, &node, e) < 0 ||
	    member_string(q->request.args, "stream", 1, 16, &q->stream, e) < 0 ||
	    member_uint(q->request.args, "offset", 0, INT64_MAX, &q->offset, e) < 0 ||
	    member_uint(q->request.args, "limit", 1, FLEET_CHUNK, &q->limit, e) < 0)
		return -1;
	/* Another node has not seen that it was made before. */
	if (strcmp(node, q->n->config->node) != 0)
		return err_set(e, ERR_NOT_ALLOWED, "the request was signed for another node");
	return 0;
}

/* ---- what the daemon has ---- */

static struct jval record_of(const struct question *q) { return jval_of(q->record.data, q->record.len); }

static bool has_ended(const struct question *q) { return jval_get(record_of(q), "endedAt").type != JT_NONE; }

/* The task's latest process; 1: it has none. */
static int find_process(struct question *q, struct buf *ret, struct jval *ret_process, struct err *e)
{
	if (call_with(q, "list_processes", "taskId", q->local_id, "\"limit\":1,\"helpers\":false", ret, e) < 0)
		return -1;
	struct jiter it = jiter_on(jval_get(jval_of(ret->data, ret->len), "processes"));
	if (!jiter_next(&it))
		return 1;
	*ret_process = it.value;
	return 0;
}

static int read_ref(struct question *q, const char *ref, struct answer *a, struct err *e)
{
	struct buf buf_auto reply = BUF_INIT, data = BUF_INIT;
	mem_auto char *more = mem_printf("\"offset\":%llu,\"length\":%llu,\"encoding\":\"base64\"",
					 (unsigned long long)q->offset, (unsigned long long)q->limit);

	if (call_with(q, "read_output", "outputRef", ref, more, &reply, e) < 0)
		return -1;
	struct jval piece = jval_of(reply.data, reply.len);
	jval_str_buf(jval_get(piece, "data"), &data);
	if (data.len && text_base64_decode(data.data, data.len, &a->bytes) < 0)
		return err_set(e, ERR_INTERNAL, "the daemon's answer is not base64");
	a->next = jval_uint(jval_get(piece, "nextOffset"), q->offset);
	a->end = jval_bool(jval_get(piece, "eof"), true);
	return 0;
}

/* A part of a text that was computed as a whole. */
static void answer_part(const struct question *q, const struct buf *text, struct answer *a)
{
	const uint64_t from = q->offset < text->len ? q->offset : text->len;
	const uint64_t n = text->len - from < q->limit ? text->len - from : q->limit;

	buf_append(&a->bytes, buf_cstr(text) + from, n);
	a->next = from + n;
	a->end = a->next == text->len;
}

/* ---- the verbs ---- */

/* Of an agent: its answer. */
static int answer_summary(struct question *q, struct answer *a)
{
	struct buf buf_auto text = BUF_INIT;

	if (strcmp(q->stream, "stdout") == 0)
		jval_str_buf(jval_get(record_of(q), "completionSummary"), &text);
	if (text.len)
		buf_byte(&text, '\n');
	answer_part(q, &text, a);
	a->end &= has_ended(q);
	return 0;
}

static int answer_output(struct question *q, struct answer *a, struct err *e)
{
	struct buf buf_auto list = BUF_INIT;
	struct jval process;
	char ref[128] = "";

	if (strcmp(q->stream, "stdout") != 0 && strcmp(q->stream, "stderr") != 0)
		return err_field(e, "stream", "must be stdout or stderr");
	if (q->task.spec.agent)
		return answer_summary(q, a);
	/* The record was read before the output: what had ended then has all its output now. */
	const bool ended = has_ended(q);
	int r = find_process(q, &list, &process, e);
	if (r < 0)
		return -1;
	a->next = q->offset;
	a->end = ended;
	if (r == 1)
		return 0;
	jval_str(jval_get(jval_get(jval_get(process, "outputs"), q->stream), "outputRef"), ref, sizeof(ref));
	if (!ref[0])
		return 0;
	if (read_ref(q, ref, a, e) < 0)
		return -1;
	a->end &= ended;
	return 0;
}

static void write_change(struct jval change, struct buf *out)
{
	struct buf buf_auto encoded = BUF_INIT;
	const size_t before = out->len;

	jval_str_buf(jval_get(change, "diff"), out);
	jval_str_buf(jval_get(change, "diffBase64"), &encoded);
	if (encoded.len)
		(void)text_base64_decode(encoded.data, encoded.len, out);
	if (out->len > before)
		return;
	buf_str(out, "# ");
	jval_str_buf(jval_get(change, "change"), out);
	buf_byte(out, ' ');
	jval_str_buf(jval_get(change, "path"), out);
	buf_byte(out, '\n');
}

/* Unified diffs of the first changes; the others are named. */
static int answer_diff(struct question *q, struct answer *a, struct err *e)
{
	struct buf buf_auto list = BUF_INIT, changes = BUF_INIT, text = BUF_INIT;
	struct jval process;
	char id[64] = "";

	if (!q->task.spec.cow)
		return err_set(e, ERR_STATE, "the task was not submitted with copy on write");
	if (!has_ended(q))
		return err_set(e, ERR_STATE, "the task has not ended");
	int r = find_process(q, &list, &process, e);
	if (r < 0)
		return -1;
	if (r == 1)
		return err_set(e, ERR_NOT_FOUND, "the task ran no command");
	jval_str(jval_get(process, "processId"), id, sizeof(id));
	if (call_with(q, "list_changes", "processId", id, "\"diffs\":true", &changes, e) < 0)
		return -1;
	for (struct jiter it = jiter_on(jval_get(jval_of(changes.data, changes.len), "changes"));
	     jiter_next(&it) && text.len < DIFF_MAX;)
		write_change(it.value, &text);
	answer_part(q, &text, a);
	return 0;
}

/* The pack is written at the first piece; the others are read from the same. */
static int answer_evidence(struct question *q, struct answer *a, struct err *e)
{
	static struct {
		char local_id[FLEET_LOCAL_ID], ref[128];
	} packs[PACKS];
	static size_t at;
	struct buf buf_auto params = BUF_INIT, reply = BUF_INIT;
	size_t i = 0;

	while (i < PACKS && strcmp(packs[i].local_id, q->local_id) != 0)
		i++;
	if (i == PACKS || q->offset == 0) {
		if (i == PACKS)
			i = at = (at + 1) % PACKS;
		buf_printf(&params, "{\"scope\":{\"taskId\":\"%s\"}}", q->local_id);
		if (event_link_call(q->link, "export_evidence", &params, &reply, e) < 0)
			return -1;
		snprintf(packs[i].local_id, sizeof(packs[i].local_id), "%s", q->local_id);
		jval_str(jval_get(jval_of(reply.data, reply.len), "packRef"), packs[i].ref, sizeof(packs[i].ref));
	}
	return read_ref(q, packs[i].ref, a, e);
}

/* The client has also written a signed request to the document, for when the node is away. */
static int answer_cancel(struct question *q, struct answer *a)
{
	struct fleet_run *r = fleet_node_run(q->n, q->request.task);

	if (r && strcmp(r->local_id, q->local_id) == 0) {
		r->cancel_requested = true;
		r->renew_at = 0;
	}
	q->n->checks = true;
	a->end = true;
	return 0;
}

static int answer_request(struct question *q, const struct fleet_incoming *in, struct answer *a, struct err *e)
{
	if (check_envelope(q, in, e) < 0 || read_args(q, e) < 0 || find_task(q, e) < 0)
		return -1;
	if (strcmp(in->verb, "output") == 0)
		return answer_output(q, a, e);
	if (strcmp(in->verb, "diff") == 0)
		return answer_diff(q, a, e);
	if (strcmp(in->verb, "evidence") == 0)
		return answer_evidence(q, a, e);
	if (strcmp(in->verb, "cancel") == 0)
		return answer_cancel(q, a);
	return err_set(e, ERR_INVALID, "unknown request '%s'", in->verb);
}

/* ---- replies ---- */

static void write_reply(const struct answer *a, const struct err *e, struct buf *ret)
{
	struct jw w = jw_on(ret);

	jw_obj(&w);
	jw_kbool(&w, "ok", !e);
	if (e) {
		jw_kstr(&w, "code", err_code_name(e->code));
		jw_kstr(&w, "error", e->message);
	} else {
		jw_kuint(&w, "length", a->bytes.len);
		jw_kuint(&w, "next", a->next);
		jw_kbool(&w, "end", a->end);
	}
	jw_obj_end(&w);
	buf_byte(ret, '\n');
	if (!e)
		buf_append(ret, buf_cstr(&a->bytes), a->bytes.len);
}

void node_requests_serve(struct fleet_node *n, struct event_link *link)
{
	struct fleet_incoming in = { 0 };

	for (int i = 0; i < BATCH && n->port->ops->next_request(n->port, &in) == 0; i++) {
		struct buf buf_auto reply = BUF_INIT;
		struct question q = { .n = n, .link = link };
		struct answer a = { 0 };
		struct err e = ERR_INIT, ignored = ERR_INIT;
		int r = answer_request(&q, &in, &a, &e);

		write_reply(&a, r < 0 ? &e : NULL, &reply);
		/* A client that has gone asks again. */
		(void)n->port->ops->reply(n->port, in.reply, reply.data, reply.len, &ignored);
		fleet_signed_done(&q.envelope);
		fleet_request_done(&q.request);
		fleet_task_done(&q.task);
		buf_done(&q.record), buf_done(&a.bytes);
		free(in.data);
		in = (struct fleet_incoming){ 0 };
	}
}

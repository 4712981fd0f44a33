#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/engine/channel/channel.h"
#include "runtime/view/view.h"
#include "runtime/view/view_channel.h"
#include "supervisor/control/call.h"
#include "supervisor/control/client.h"
#include "supervisor/control/control_private.h"
#include "supervisor/control/subscription.h"
#include "supervisor/host/config.h"

#define WORD_MAX 64u
#define REF_MAX 256u
#define CAPABILITIES_MAX 64u
#define MESSAGE_MAX (1u << 20)
#define HEARTBEAT_MIN_MS 100u
#define HEARTBEAT_MAX_MS (24u * 3600 * 1000)

int method_connect_channel(struct call *c, const struct connect_channel_params *p, struct buf *out, struct err *e)
{
	mem_auto char *capabilities = param_json_text("capabilities", p->capabilities, SIZE_MAX, e);
	uint64_t beat = p->heartbeatMs.value;
	const struct channel_request r = {
		.channel_id = p->channelId,
		.session_id = p->sessionId,
		.title = p->title,
		.transport = p->transport,
		.peer_role = p->peerRole,
		.native_protocol = p->nativeProtocol,
		.account_ref = p->accountRef,
		.capabilities_json = capabilities,
		.heartbeat_ms = beat,
	};
	const json_t *v;
	size_t i;

	if (param_length("accountRef", p->accountRef, 1, REF_MAX, e) < 0 ||
	    param_length("nativeProtocol", p->nativeProtocol, 1, WORD_MAX, e) < 0)
		return -1;
	if (p->heartbeatMs.given && (beat < HEARTBEAT_MIN_MS || beat > HEARTBEAT_MAX_MS))
		return err_field(e, "heartbeatMs", "must be %u to %u", HEARTBEAT_MIN_MS, HEARTBEAT_MAX_MS);
	if (json_array_size(p->capabilities) > CAPABILITIES_MAX)
		return err_field(e, "capabilities", "must have at most %u words", CAPABILITIES_MAX);
	json_array_foreach (p->capabilities, i, v)
		if (!json_string_length(v) || json_string_length(v) > WORD_MAX)
			return err_field(e, "capabilities", "must contain words of 1 to %u bytes", WORD_MAX);
	engine_connect_channel(call_engine(c), &r, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

/* Events after the snapshot come through a subscription of their own, after the reply. */
static struct subscription *resume_events(struct call *c, const char *session, uint64_t from, struct err *e)
{
	struct filter filter;

	if (c->client->account->subscriptions >= call_config(c)->max_subscriptions_per_uid) {
		err_set(e, ERR_EXHAUSTED, "this uid has reached its limit of subscriptions (maxSubscriptionsPerUid)");
		return NULL;
	}
	json_object_set_new(c->params, "sessionId", json_string(session));
	if (filter_init(&filter, c->params, c->caller.uid, call_sees_all(c), e) < 0) {
		filter_done(&filter);
		return NULL;
	}
	return subscription_new(c->client, &filter, from);
}

/* Without a free subscription the channel is still resumed: subscriptionProblem has the reason. */
static void on_resumed(void *ctx, const struct err *failed, const char *json, size_t len)
{
	struct call *c = ctx;
	buf_auto struct buf out = BUF_INIT, snapshot = BUF_INIT;
	struct jval result = jval_of(json, failed ? 0 : len);
	uint64_t from = jval_uint(jval_get(result, "resumedFrom"), 0);
	struct err e = ERR_INIT;
	char session[72];

	if (failed || !c->client) {
		call_engine_reply(c, failed, json, len);
		return;
	}
	jval_str(jval_get(result, "sessionId"), session, sizeof session);
	if (view_session(call_store(c), call_visible_uid(c), session, NULL, &snapshot, &e) < 0) {
		call_fail(c, &e);
		return;
	}
	struct subscription *s = resume_events(c, session, from, &e);
	struct jw w = jw_on(&out);
	buf_append(&out, json, len - 1); /* without its last brace */
	w.need_comma = true;
	jw_kraw(&w, "snapshot", snapshot.data, snapshot.len);
	if (s)
		jw_kstr(&w, "subscriptionId", s->id);
	else
		jw_kstr(&w, "subscriptionProblem", e.message);
	jw_obj_end(&w);
	if (s)
		subscription_start(s, c->priv->batch);
	call_reply(c, out.data, out.len);
}

int method_reconnect_channel(struct call *c, const struct reconnect_channel_params *p, struct buf *out, struct err *e)
{
	engine_reconnect_channel(call_engine(c), p->channelId, p->lastAckedSequence.value, p->resumeToken, &c->caller,
				 on_resumed, c);
	return CALL_PENDING;
}

int method_disconnect_channel(struct call *c, const struct disconnect_channel_params *p, struct buf *out, struct err *e)
{
	if (param_length("reason", p->reason, 1, REF_MAX, e) < 0)
		return -1;
	engine_disconnect_channel(call_engine(c), p->channelId, p->reason ? p->reason : "asked for", &c->caller,
				  call_engine_reply, c);
	return CALL_PENDING;
}

int method_ack_events(struct call *c, const struct ack_events_params *p, struct buf *out, struct err *e)
{
	engine_ack_events(call_engine(c), p->channelId, p->sequence.value, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_list_channels(struct call *c, const struct list_channels_params *p, struct buf *out, struct err *e)
{
	return view_channels(call_store(c), call_visible_uid(c), p->sessionId, param_page_limit(p->limit, 100),
			     p->cursor, out, e);
}

int method_send_channel_message(struct call *c, const struct send_channel_message_params *p, struct buf *out,
				struct err *e)
{
	const struct channel_message_request m = {
		.channel_id = p->channelId,
		.direction = p->direction ? p->direction : "out",
		.text = p->message,
		.kind = p->kind,
	};

	if (param_length("kind", p->kind, 1, WORD_MAX, e) < 0 ||
	    param_length("message", p->message, 1, MESSAGE_MAX, e) < 0)
		return -1;
	engine_send_channel_message(call_engine(c), &m, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

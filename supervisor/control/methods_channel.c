#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/engine/channel/channel.h"
#include "runtime/view/view.h"
#include "runtime/view/view_channel.h"
#include "supervisor/host/config.h"
#include "supervisor/control/call.h"
#include "supervisor/control/client.h"
#include "supervisor/control/control_private.h"
#include "supervisor/control/subscription.h"

#define WORD_MAX 64u
#define REF_MAX 256u
#define CAPABILITIES_MAX 64u
#define MESSAGE_MAX (1u << 20)
#define HEARTBEAT_MIN_MS 100u
#define HEARTBEAT_MAX_MS (24u * 3600 * 1000)

static uint32_t viewer(const struct call *c) { return call_sees_all(c) ? VIEW_ANY_UID : c->caller.uid; }

static int check_word(const struct call *c, const char *field, size_t most, struct err *e)
{
	const char *s = call_str(c, field);

	if (s && (!*s || strlen(s) > most))
		return err_field(e, field, "must have 1 to %zu bytes", most);
	return 0;
}

static int check_channel(const struct call *c, struct err *e)
{
	const json_t *capabilities = call_obj(c, "capabilities"), *v;
	uint64_t beat = call_uint(c, "heartbeatMs", 0);
	size_t i;

	if (check_word(c, "accountRef", REF_MAX, e) < 0)
		return -1;
	if (call_obj(c, "heartbeatMs") && (beat < HEARTBEAT_MIN_MS || beat > HEARTBEAT_MAX_MS))
		return err_field(e, "heartbeatMs", "must be %u to %u", HEARTBEAT_MIN_MS, HEARTBEAT_MAX_MS);
	if (json_array_size(capabilities) > CAPABILITIES_MAX)
		return err_field(e, "capabilities", "must have at most %u words", CAPABILITIES_MAX);
	json_array_foreach (capabilities, i, v)
		if (!json_string_length(v) || json_string_length(v) > WORD_MAX)
			return err_field(e, "capabilities", "must hold words of 1 to %u bytes", WORD_MAX);
	return check_word(c, "nativeProtocol", WORD_MAX, e);
}

void method_connect_channel(struct call *c)
{
	const json_t *capabilities = call_obj(c, "capabilities");
	mem_auto char *capabilities_json = capabilities ? json_dumps(capabilities, JSON_COMPACT) : NULL;
	const struct channel_request r = {
		.channel_id = call_str(c, "channelId"),
		.session_id = call_str(c, "sessionId"),
		.title = call_str(c, "title"),
		.transport = call_str(c, "transport"),
		.peer_role = call_str(c, "peerRole"),
		.native_protocol = call_str(c, "nativeProtocol"),
		.account_ref = call_str(c, "accountRef"),
		.capabilities_json = capabilities_json,
		.heartbeat_ms = call_uint(c, "heartbeatMs", 0),
	};
	struct err e = ERR_INIT;

	if (check_channel(c, &e) < 0)
		call_fail(c, &e);
	else
		engine_connect_channel(call_engine(c), &r, &c->caller, call_engine_reply, c);
}

/* The events that the snapshot does not hold come by a subscription of their own, after the reply. */
static struct subscription *resume_events(struct call *c, const char *session, uint64_t from, struct err *e)
{
	struct filter filter;

	if (c->client->account->subscriptions >= call_config(c)->max_subscriptions_per_uid) {
		err_set(e, ERR_EXHAUSTED, "this uid has as many subscriptions as it may (maxSubscriptionsPerUid)");
		return NULL;
	}
	json_object_set_new(c->params, "sessionId", json_string(session));
	if (filter_init(&filter, c, e) < 0) {
		filter_done(&filter);
		return NULL;
	}
	return subscription_new(c->client, &filter, from);
}

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
	if (view_session(call_store(c), viewer(c), session, NULL, &snapshot, &e) < 0) {
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

void method_reconnect_channel(struct call *c)
{
	engine_reconnect_channel(call_engine(c), call_str(c, "channelId"), call_uint(c, "lastAckedSequence", 0),
				 call_str(c, "resumeToken"), &c->caller, on_resumed, c);
}

void method_disconnect_channel(struct call *c)
{
	const char *reason = call_str(c, "reason");
	struct err e = ERR_INIT;

	if (check_word(c, "reason", REF_MAX, &e) < 0)
		call_fail(c, &e);
	else
		engine_disconnect_channel(call_engine(c), call_str(c, "channelId"), reason ? reason : "asked for",
					  &c->caller, call_engine_reply, c);
}

void method_ack_events(struct call *c)
{
	engine_ack_events(call_engine(c), call_str(c, "channelId"), call_uint(c, "sequence", 0), &c->caller,
			  call_engine_reply, c);
}

void method_list_channels(struct call *c)
{
	uint64_t limit = call_uint(c, "limit", 100);
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	if (view_channels(call_store(c), viewer(c), call_str(c, "sessionId"), limit > 1000 ? 1001 : (unsigned)limit,
			  call_str(c, "cursor"), &out, &e) < 0)
		call_fail(c, &e);
	else
		call_reply(c, out.data, out.len);
}

void method_send_channel_message(struct call *c)
{
	const char *direction = call_str(c, "direction");
	const struct channel_message_request m = {
		.channel_id = call_str(c, "channelId"),
		.direction = direction ? direction : "out",
		.text = call_str(c, "message"),
		.kind = call_str(c, "kind"),
	};
	struct err e = ERR_INIT;

	if (check_word(c, "kind", WORD_MAX, &e) < 0 || check_word(c, "message", MESSAGE_MAX, &e) < 0)
		call_fail(c, &e);
	else
		engine_send_channel_message(call_engine(c), &m, &c->caller, call_engine_reply, c);
}

void method_link_peer_task(struct call *c)
{
	engine_link_peer_task(call_engine(c), c->params, &c->caller, call_engine_reply, c);
}

void method_update_peer_task(struct call *c)
{
	engine_update_peer_task(call_engine(c), c->params, &c->caller, call_engine_reply, c);
}

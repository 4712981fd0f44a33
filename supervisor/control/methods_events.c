#include "runtime/base/buf.h"
#include "runtime/base/did_you_mean.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/event/event.h"
#include "runtime/store/store.h"
#include "supervisor/control/call.h"
#include "supervisor/control/client.h"
#include "supervisor/control/control_private.h"
#include "supervisor/control/event_listing.h"
#include "supervisor/control/filter.h"
#include "supervisor/control/methods.h"
#include "supervisor/control/subscription.h"
#include "supervisor/host/config.h"

#include <stdio.h>
#include <string.h>

#define LIST_DEFAULT 100
#define LIST_MAX 1000
#define EMIT_MAX 1000

/* ---- reading ---- */

/* Checks the first sequence number of a request; 1: those events are gone, and the call was answered with what is left.
 */
static int check_expired(struct call *c, uint64_t after, uint64_t first)
{
	struct err e = ERR_INIT;
	char data[96];

	if (after + 1 >= first)
		return 0;
	err_set(&e, ERR_EXPIRED, "events up to %llu are no longer kept; the first one is %llu, but %llu was requested",
		(unsigned long long)(first - 1), (unsigned long long)first, (unsigned long long)(after + 1));
	int n = snprintf(data, sizeof data, "\"firstSequence\":%llu,\"recoveryMode\":\"snapshot_then_events\"",
			 (unsigned long long)first);
	call_fail_data(c, &e, data, (size_t)n);
	return CALL_PENDING;
}

int method_subscribe_events(struct call *c, const struct subscribe_events_params *p, struct buf *out, struct err *e)
{
	struct store *store = call_store(c);
	uint64_t last = store_last_sequence(store), after = param_uint_or(p->afterSequence, last);
	uint64_t most = call_config(c)->max_subscriptions_per_uid;
	struct filter filter;

	if (check_expired(c, after, store_first_sequence(store)))
		return CALL_PENDING;
	if (c->client->account->subscriptions >= most)
		return err_set(e, ERR_EXHAUSTED, "uid %u already has %llu subscriptions (maxSubscriptionsPerUid)",
			       c->caller.uid, (unsigned long long)most);
	if (after > last)
		return err_field(e, "afterSequence", "expected at most %llu, the last sequence number",
				 (unsigned long long)last);
	if (filter_init(&filter, c->params, c->caller.uid, call_sees_all(c), e) < 0) {
		filter_done(&filter);
		return -1;
	}
	struct subscription *s = subscription_new(c->client, &filter, after);
	if (p->processId)
		engine_client_follows(call_engine(c), p->processId, &c->caller);
	buf_printf(out, "{\"subscriptionId\":\"%s\",\"afterSequence\":%llu,\"lastSequence\":%llu}", s->id,
		   (unsigned long long)after, (unsigned long long)last);
	/* The reply comes before the events; in a batch it is sent with the batch. */
	subscription_start(s, c->priv->batch);
	return CALL_REPLY;
}

void subscribe_to_process(struct call *c, const char *process_id, uint64_t after, struct jw *w)
{
	json_auto_t *ids = json_pack("{s:s}", "processId", process_id);
	struct filter filter;
	struct err e = ERR_INIT;

	if (!c->client || c->client->account->subscriptions >= call_config(c)->max_subscriptions_per_uid)
		return;
	if (filter_init(&filter, ids, c->caller.uid, call_sees_all(c), &e) < 0) {
		filter_done(&filter);
		return;
	}
	struct subscription *s = subscription_new(c->client, &filter, after);
	jw_kstr(w, "subscriptionId", s->id);
	subscription_start(s, c->priv->batch);
}

int method_unsubscribe_events(struct call *c, const struct unsubscribe_events_params *p, struct buf *out, struct err *e)
{
	struct subscription *s = subscription_find(c->client, p->subscriptionId);

	if (!s)
		return err_at(e, ERR_NOT_FOUND, "subscriptionId", "this connection has no subscription %.80s",
			      p->subscriptionId);
	buf_printf(out, "{\"subscriptionId\":\"%s\",\"afterSequence\":%llu}", s->id, (unsigned long long)s->cursor);
	subscription_free(s);
	return CALL_REPLY;
}

int method_list_events(struct call *c, const struct list_events_params *p, struct buf *out, struct err *e)
{
	uint64_t first = store_first_sequence(call_store(c));
	uint64_t after = param_uint_or(p->afterSequence, first - 1), before = p->beforeSequence.value;
	uint64_t limit = param_uint_or(p->limit, LIST_DEFAULT);
	struct filter filter;

	if (check_expired(c, after, first))
		return CALL_PENDING;
	if (filter_init(&filter, c->params, c->caller.uid, call_sees_all(c), e) < 0) {
		filter_done(&filter);
		return -1;
	}
	if (p->beforeSequence.given && before == 0)
		before = 1; /* 0 means "to the end" below; nothing is before the first event */
	event_listing_run(c, &filter, p->afterSequence.given ? after : EVENT_LISTING_FIRST, before,
			  limit > LIST_MAX ? LIST_MAX : (size_t)limit, p->order && strcmp(p->order, "desc") == 0);
	return CALL_PENDING;
}

/* ---- writing ---- */

/* Members of an element of `events`: every id of the envelope, and the members that the runtime does not write itself.
 */
static const struct param emit_params[] = {
	{ "type", PARAM_STRING, PARAM_REQUIRED, NULL, NULL,
	  "the event's type, of a family that clients write (model.completed)" },
	{ "payload", PARAM_OBJECT, 0, NULL, NULL, "the type's payload" },
	{ "status", PARAM_STRING, 0, NULL, NULL, "the envelope's status" },
	{ "statusReason", PARAM_STRING, 0, NULL, NULL, "why" },
	{ "phase", PARAM_STRING, 0, NULL, NULL, "the envelope's phase" },
#define ID_FIELD(NAME, name, member, indexed) { member, PARAM_ID, 0, NULL, NULL, "an id of the envelope" },
#include "runtime/event/id_fields.def"
#undef ID_FIELD
#define EMIT_MEMBER(name, type) { #name, type, 0, NULL, NULL, "a member of the envelope" },
#define EMIT_MEMBERS                              \
	EMIT_MEMBER(refs, PARAM_ANY)              \
	EMIT_MEMBER(task, PARAM_ANY)              \
	EMIT_MEMBER(taskProfile, PARAM_ANY)       \
	EMIT_MEMBER(nativeStatus, PARAM_ANY)      \
	EMIT_MEMBER(routingDecision, PARAM_ANY)   \
	EMIT_MEMBER(candidateModelSet, PARAM_ANY) \
	EMIT_MEMBER(limitState, PARAM_ANY)        \
	EMIT_MEMBER(costState, PARAM_ANY)         \
	EMIT_MEMBER(telemetry, PARAM_ANY)         \
	EMIT_MEMBER(benchmark, PARAM_ANY)         \
	EMIT_MEMBER(trajectory, PARAM_ANY)
	EMIT_MEMBERS
#undef EMIT_MEMBER
	{ .name = NULL },
};

static const char *const emit_members[] = {
#define EMIT_MEMBER(name, type) #name,
	EMIT_MEMBERS
#undef EMIT_MEMBER
};

/* An event in preparation, with the memory that it owns. */
struct emission {
	char *payload;
	struct buf members;
};

/* Only types of origin CLIENT: a client must not be able to forge events of the runtime or of an owner. */
static int emit_type(const char *type, size_t i, struct err *e)
{
	char field[40];
	snprintf(field, sizeof field, "events[%zu].type", i);
	int t = event_type_find(type, strlen(type));
	if (t < 0) {
		struct did_you_mean near = did_you_mean_for(type);
		for (int n = 0; n < EVENT_TYPE_COUNT; n++)
			did_you_mean_try(&near, event_info((enum event_type)n)->name);
		return err_field(e, field, "there is no event type \"%.80s\"%s%s", type,
				 near.best ? "; did you mean " : "", near.best ? near.best : "");
	}
	const struct event_info *info = event_info((enum event_type)t);
	if (info->origin == EVENT_BY_CLIENT)
		return 0;
	err_field(e, field, "%s is written by %s, never through emit_events", info->name,
		  info->origin == EVENT_BY_RUNTIME ? "the runtime itself" : "its owner's report method");
	e->code = ERR_NOT_ALLOWED;
	return -1;
}

/* `ev` borrows from `item` and `own`, which must live until engine_emit_events has returned. */
static int emit_read(json_t *item, size_t i, const char *session, struct emit_event *ev, struct emission *own,
		     struct err *e)
{
	char field[40];
	snprintf(field, sizeof field, "events[%zu]", i);
	if (!json_is_object(item))
		return err_field(e, field, "expected an object");
	if (params_check(emit_params, item, field, e) < 0)
		return -1;
	ev->type = json_string_value(json_object_get(item, "type"));
	if (emit_type(ev->type, i, e) < 0)
		return -1;
	for (int f = 0; f < ID_FIELD_COUNT; f++)
		ev->ids[f] = json_string_value(json_object_get(item, id_field_member((enum id_field)f)));
	if (ev->ids[ID_SESSION] && strcmp(ev->ids[ID_SESSION], session) != 0) {
		snprintf(field, sizeof field, "events[%zu].sessionId", i);
		return err_field(e, field, "expected the session of the request, %s", session);
	}
	ev->ids[ID_SESSION] = session;
	ev->status = json_string_value(json_object_get(item, "status"));
	ev->status_reason = json_string_value(json_object_get(item, "statusReason"));
	ev->phase = json_string_value(json_object_get(item, "phase"));
	json_t *payload = json_object_get(item, "payload");
	ev->payload = own->payload = payload ? json_dumps(payload, JSON_COMPACT) : mem_strdup("{}");
	ev->payload_len = strlen(ev->payload);
	for (size_t m = 0; m < countof(emit_members); m++) {
		json_t *v = json_object_get(item, emit_members[m]);
		if (!v)
			continue;
		char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
		buf_printf(&own->members, "%s\"%s\":", own->members.len ? "," : "", emit_members[m]);
		buf_str(&own->members, text);
		free(text);
	}
	ev->members = own->members.data;
	ev->members_len = own->members.len;
	return 0;
}

int method_emit_events(struct call *c, const struct emit_events_params *p, struct buf *out, struct err *e)
{
	_Static_assert(countof(((struct emit_event *)0)->ids) >= ID_FIELD_COUNT, "room for every id of the envelope");
	size_t n = json_array_size(p->events), i = 0;

	if (n == 0 || n > EMIT_MAX)
		return err_field(e, "events", "expected 1 to %d events, got %zu", EMIT_MAX, n);
	mem_auto struct emit_event *ev = mem_zalloc(n, sizeof *ev);
	mem_auto struct emission *own = mem_zalloc(n, sizeof *own);
	while (i < n && emit_read(json_array_get(p->events, i), i, p->sessionId, &ev[i], &own[i], e) == 0)
		i++;
	if (i == n)
		engine_emit_events(call_engine(c), ev, n, &c->caller, call_engine_reply, c);
	for (size_t k = 0; k < n; k++) {
		free(own[k].payload);
		buf_done(&own[k].members);
	}
	return i == n ? CALL_PENDING : -1;
}

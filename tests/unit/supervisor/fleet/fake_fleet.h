#ifndef BAILIFF_TESTS_FAKE_FLEET_H
#define BAILIFF_TESTS_FAKE_FLEET_H

/* A bus that has one task and one message, and a scripted daemon. */

#include "supervisor/fleet/fleet_node.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <string.h>

static struct fleet_submitter submitter = { .name = "tester" };

static struct {
	struct buf text;
	uint64_t revision;
	bool queued, down, raced; /* the message can be fetched; updates fail; another node is faster */
	const char *other;        /* instance in the entry of n1; NULL: as the node wrote it */
	struct buf entry;
	bool near_is_free, record_down, refuses;
	struct buf record;
	uint64_t record_revision;
	unsigned unrecorded; /* which of the next records fails; 0: none */
	unsigned many;       /* other documents, each of which takes a millisecond to read */
	int64_t ahead;       /* ms, of this machine's clock, compared with the server's */
	char calls[256];     /* in their order */
} bus;

static struct {
	bool known, started, ended;
	uint64_t token, until;
	const char *status;
	char reason[64]; /* of cancel */
	bool lapsed;     /* its lease expired while a list was read */
} local;

static uint64_t now, submitted_at;

static void note(const char *what)
{
	size_t n = strlen(bus.calls);

	snprintf(bus.calls + n, sizeof(bus.calls) - n, "%s%s", n ? " " : "", what);
}

/* ---- the bus ---- */

static bool connected(struct fleet_port *p) { return true; }

static int get_task(struct fleet_port *p, const char *id, struct buf *ret, uint64_t *ret_revision, struct err *e)
{
	if (strcmp(id, "t1") != 0 || !bus.text.len)
		return 1;
	buf_append(ret, bus.text.data, bus.text.len);
	*ret_revision = bus.revision;
	bus.revision += bus.raced;
	return 0;
}

static int update_task(struct fleet_port *p, const char *id, const struct buf *text, uint64_t revision,
		       uint64_t *ret_revision, struct err *e)
{
	if (bus.down)
		return err_set(e, ERR_UNAVAILABLE, "down");
	if (revision != bus.revision)
		return 1;
	buf_reset(&bus.text);
	buf_append(&bus.text, text->data, text->len);
	*ret_revision = ++bus.revision;
	note("update");
	return 0;
}

static int get_record(struct fleet_port *p, const char *key, struct buf *ret, uint64_t *ret_revision, struct err *e)
{
	ck_assert_uint_eq(strlen(key), 64);
	if (bus.record_down)
		return err_set(e, ERR_UNAVAILABLE, "down");
	buf_append(ret, bus.record.data, bus.record.len);
	*ret_revision = bus.record_revision;
	return bus.record_revision ? 0 : 1;
}

static int put_record(struct fleet_port *p, const char *key, const struct buf *text, uint64_t revision, struct err *e)
{
	if (bus.record_down || (bus.unrecorded && --bus.unrecorded == 0))
		return err_set(e, ERR_UNAVAILABLE, "down");
	if (revision != bus.record_revision)
		return 1;
	buf_reset(&bus.record);
	buf_append(&bus.record, text->data, text->len);
	bus.record_revision++;
	note("record");
	return 0;
}

static int list_tasks(struct fleet_port *p, fleet_entry_fn fn, void *ctx, struct err *e)
{
	struct buf buf_auto text = BUF_INIT; /* a renewal meanwhile replaces the original */

	buf_append(&text, bus.text.data, bus.text.len);
	if (text.len)
		fn(ctx, "t1", text.data, text.len, bus.revision);
	for (unsigned i = 0; i < bus.many; i++) {
		char id[16];

		snprintf(id, sizeof(id), "x%u", i);
		now++;
		local.lapsed |= local.started && now >= local.until;
		fn(ctx, id, "{}", 2, 1);
	}
	return 0;
}

static void read_clocks(uint64_t *ret_now, uint64_t *ret_real) { *ret_now = *ret_real = now; }

static int list_classes(struct fleet_port *p, fleet_entry_fn fn, void *ctx, struct err *e)
{
	fn(ctx, "0123456789abcdef.5", "{}", 2, 1);
	return 0;
}

static int fetch(struct fleet_port *p, const char *class, unsigned priority, struct fleet_message *ret, struct err *e)
{
	if (!bus.queued)
		return 1;
	bus.queued = false;
	*ret = (struct fleet_message){ .task = "t1" };
	return 0;
}

static int acknowledge(struct fleet_port *p, const struct fleet_message *m, struct err *e)
{
	note("acknowledge");
	return 0;
}

static int put_back(struct fleet_port *p, const struct fleet_message *m, uint64_t delay_ms, struct err *e)
{
	note("put_back");
	return 0;
}

static int keep(struct fleet_port *p, const struct fleet_message *m, struct err *e) { return 0; }

static void deliver_again(struct fleet_port *p, const char *class, unsigned priority) { note("deliver_again"); }

static int get_node(struct fleet_port *p, const char *name, struct buf *ret, uint64_t *ret_revision, struct err *e)
{
	if (bus.other)
		buf_printf(ret, "{\"instance\":\"%s\"}", bus.other);
	else if (bus.entry.len)
		buf_append(ret, bus.entry.data, bus.entry.len);
	*ret_revision = 1;
	return ret->len ? 0 : 1;
}

static int put_node(struct fleet_port *p, const char *name, const struct buf *text, uint64_t revision,
		    uint64_t *ret_revision, struct err *e)
{
	if (bus.other)
		return 1;
	buf_reset(&bus.entry);
	buf_append(&bus.entry, text->data, text->len);
	*ret_revision = 1;
	return 0;
}

static int node_stored_at(struct fleet_port *p, const char *name, uint64_t *ret, struct err *e)
{
	*ret = (uint64_t)((int64_t)now - bus.ahead);
	return 0;
}

static int list_nodes(struct fleet_port *p, fleet_entry_fn fn, void *ctx, struct err *e)
{
	const char *entry = bus.near_is_free ? "{\"free\":{\"tasks\":1}}" : "{\"free\":{\"tasks\":0}}";

	fn(ctx, "n2", entry, strlen(entry), 1);
	if (bus.many)
		fn(ctx, "n1", "{\"node\":\"n1\"}", 13, 1);
	return 0;
}

static const struct fleet_port_ops port_ops = { .connected = connected,
						.get_task = get_task,
						.update_task = update_task,
						.list_tasks = list_tasks,
						.list_classes = list_classes,
						.fetch = fetch,
						.acknowledge = acknowledge,
						.put_back = put_back,
						.keep = keep,
						.deliver_again = deliver_again,
						.get_node = get_node,
						.put_node = put_node,
						.list_nodes = list_nodes,
						.node_stored_at = node_stored_at,
						.get_record = get_record,
						.put_record = put_record };
static struct fleet_port port = { &port_ops };

/* ---- the daemon ---- */

static int prepare(struct fleet_daemon *d, const struct fleet_start *s, struct err *e) { return 0; }

static int create(struct fleet_daemon *d, const struct fleet_start *s, struct err *e)
{
	note("create");
	local.known = true;
	local.token = s->token;
	local.until = s->lease_until;
	return 0;
}

static int start(struct fleet_daemon *d, const char *id, struct err *e)
{
	if (bus.refuses)
		return err_set(e, ERR_EXHAUSTED, "no room");
	note("start");
	local.started = true;
	return 0;
}

static int renew(struct fleet_daemon *d, const char *id, uint64_t until, struct err *e)
{
	local.until = until;
	return 0;
}

static int cancel(struct fleet_daemon *d, const char *id, const char *reason, struct err *e)
{
	if (!local.reason[0])
		snprintf(local.reason, sizeof(local.reason), "%s", reason);
	local.ended = true;
	local.status = "cancelled";
	return 0;
}

static int status(struct fleet_daemon *d, const char *id, struct fleet_local *ret, struct err *e)
{
	*ret = (struct fleet_local){
		.started = local.started, .ended = local.ended, .token = local.token, .exit_code = -1
	};
	snprintf(ret->status, sizeof(ret->status), "%s", local.ended ? local.status : "running");
	snprintf(ret->reason, sizeof(ret->reason), "%s", local.reason);
	snprintf(ret->submitter_key, sizeof(ret->submitter_key), "%s", submitter.key);
	return local.known ? 0 : 1;
}

static int list(struct fleet_daemon *d, fleet_local_fn fn, void *ctx, struct err *e) { return 0; }
static bool drains;
static bool draining(struct fleet_daemon *d) { return drains; }
static void forget(struct fleet_daemon *d, const char *id) { note("forget"); }

static const struct fleet_daemon_ops daemon_ops = { prepare, create, start,    renew, cancel,
						    status,  list,   draining, forget };
static struct fleet_daemon fake_daemon = { &daemon_ops };

#endif

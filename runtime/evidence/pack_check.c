/*
 * Verifies a pack without the store that wrote it. The order of checks goes from format to content: a text that is not
 * a pack, or whose events cannot be read, is an error, because nothing can be said about the rest. Everything after
 * that is a list of problems, so that one report shows all of them.
 *
 * What a successful check proves: the read models follow from the events in the file, and no byte was changed after the
 * export unless the seal was computed again. The seal is not a signature; the command line checks that separately
 * (cmd_replay.c). Sequence numbers need not be consecutive, because a pack has the events of one scope only.
 */

#include "runtime/evidence/pack_check.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/event/event.h"
#include "runtime/evidence/pack.h"
#include "runtime/evidence/sink.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"

#include <stdarg.h>
#include <string.h>

struct check {
	struct pack_verdict v;
	struct models *models;
	struct jiter owners; /* what follows the range below */
	uint32_t uid, next_uid;
	uint64_t uid_until; /* the sequence at which next_uid begins; UINT64_MAX = never */
};

static void add_problem(struct check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add_problem(struct check *c, const char *fmt, ...)
{
	va_list ap;

	if (c->v.nproblems < PACK_PROBLEMS_MAX) {
		va_start(ap, fmt);
		vsnprintf(c->v.problem[c->v.nproblems], sizeof(c->v.problem[0]), fmt, ap);
		va_end(ap);
	}
	c->v.nproblems++;
}

/* ---- events ---- */

static void read_owner(struct check *c)
{
	c->uid = c->next_uid;
	c->uid_until = UINT64_MAX;
	if (!jiter_next(&c->owners))
		return;
	c->uid_until = jval_uint(jval_get(c->owners.value, "fromSequence"), 0);
	c->next_uid = (uint32_t)jval_uint(jval_get(c->owners.value, "uid"), 0);
}

/* The uid of the event with this sequence, from the pack's ownerUids. Sequences only grow: each range is read once. */
static uint32_t owner_at(struct check *c, uint64_t sequence)
{
	while (sequence >= c->uid_until && c->uid_until != UINT64_MAX)
		read_owner(c);
	return c->uid;
}

/* Ids contain no escapes: their text is that between the quotes. */
static void read_id(struct event_view *ret, struct jval key, struct jval v)
{
	if (v.type != JT_STRING || v.len <= 2 || !id_valid(v.text + 1, v.len - 2))
		return;
	for (int f = 0; f < ID_FIELD_COUNT; f++)
		if (jval_is_str(key, id_field_member((enum id_field)f)))
			ret->ids[f] = (struct id_text){ .text = v.text + 1, .len = v.len - 2 };
}

/* An event_view of a pack's event, as the store gives it from a record. */
static int read_event(struct check *c, struct jval event, struct event_view *ret, struct err *e)
{
	char name[64] = "", at[CLOCK_TEXT_MAX] = "";
	int type;

	*ret = (struct event_view){ .json = event.text + 1, .json_len = event.len - 1 };
	for (struct jiter it = jiter_on(event); jiter_next(&it);) {
		if (jval_is_str(it.key, "sequence"))
			ret->sequence = jval_uint(it.value, 0);
		else if (jval_is_str(it.key, "type"))
			jval_str(it.value, name, sizeof(name));
		else if (jval_is_str(it.key, "timestamp"))
			jval_str(it.value, at, sizeof(at));
		else if (jval_is_str(it.key, "payload")) /* found here: in a pack it need not be the last member */
			ret->payload = it.value;
		else
			read_id(ret, it.key, it.value);
	}
	/* Only the order is checked: a scope is a part of the log, so there are gaps. */
	if (!ret->sequence || ret->sequence <= c->v.last)
		return err_set(e, ERR_INVALID, "event %llu: its sequence does not follow %llu",
			       (unsigned long long)(c->v.events + 1), (unsigned long long)c->v.last);
	type = event_type_find(name, strlen(name));
	if (type < 0)
		return err_set(e, ERR_INVALID, "event %llu has an unknown type '%.60s'",
			       (unsigned long long)ret->sequence, name);
	if (clock_parse(at, &ret->real_us) < 0)
		return err_set(e, ERR_INVALID, "event %llu has no timestamp", (unsigned long long)ret->sequence);
	if (ret->payload.type != JT_OBJECT)
		return err_set(e, ERR_INVALID, "event %llu has no payload", (unsigned long long)ret->sequence);
	ret->type = (enum event_type)type;
	ret->uid = owner_at(c, ret->sequence);
	return 0;
}

static int project_events(struct check *c, struct jval events, struct err *e)
{
	struct jiter it = jiter_on(events);

	while (jiter_next(&it)) {
		struct event_view ev;

		if (it.value.type != JT_OBJECT)
			return err_set(e, ERR_INVALID, "events[%llu] is not an object",
				       (unsigned long long)c->v.events);
		if (read_event(c, it.value, &ev, e) < 0)
			return -1;
		if (!c->v.first)
			c->v.first = ev.sequence;
		c->v.last = ev.sequence;
		c->v.events++;
		if (view_project(c->models, &ev, e) < 0)
			return err_wrap(e, "project event %llu", (unsigned long long)ev.sequence);
	}
	/* jiter_next also ends at malformed text; only then is the position NULL. */
	return it.p ? 0
		    : err_set(e, ERR_INVALID, "events: the text is broken after event %llu",
			      (unsigned long long)c->v.last);
}

/* ---- read models ---- */

/* Merges the pack's list with the fresh documents: both are in the order of pack_kinds and ids. */
struct compare {
	struct check *check;
	struct jiter pack;
	bool have; /* pack.value is read and not yet compared */
	const char *kind;
};

static void next_model(struct compare *p) { p->have = jiter_next(&p->pack); }

/*
 * Compares the pack's next document with this fresh one. 0: the same; −1: it sorts before, so the events do not produce
 * it; 1: it sorts after, or there is none, so the pack lacks this one.
 */
static int compare_order(const struct compare *p, const char *id, size_t id_len)
{
	char kind[40], own[512];
	size_t n, at = SIZE_MAX, want = 0;

	if (!p->have)
		return 1;
	jval_str(jval_get(p->pack.value, "kind"), kind, sizeof(kind));
	n = jval_str(jval_get(p->pack.value, "id"), own, sizeof(own));
	for (size_t i = 0; i < pack_nkinds; i++) {
		if (strcmp(pack_kinds[i].name, kind) == 0)
			at = i;
		if (strcmp(pack_kinds[i].name, p->kind) == 0)
			want = i;
	}
	/* Unknown kinds and ids that no store could have written are surplus. */
	if (at == SIZE_MAX || n >= sizeof(own))
		return -1;
	if (at != want)
		return at < want ? -1 : 1;
	int cmp = memcmp(own, id, n < id_len ? n : id_len);
	return cmp ? (cmp < 0 ? -1 : 1) : n < id_len ? -1 : n > id_len;
}

static void report_surplus(struct compare *p)
{
	char kind[40], id[100];

	jval_str(jval_get(p->pack.value, "kind"), kind, sizeof(kind));
	jval_str(jval_get(p->pack.value, "id"), id, sizeof(id));
	add_problem(p->check, "%s '%s' is in the pack, but its events do not give it", kind, id);
	next_model(p);
}

/* Names the first member that differs. */
static void report_difference(struct compare *p, const char *id, size_t id_len, struct jval pack, struct jval fresh)
{
	for (struct jiter it = jiter_on(fresh); jiter_next(&it);) {
		char member[64];
		struct jval v;

		jval_str(it.key, member, sizeof(member));
		v = jval_get(pack, member);
		if (v.len != it.value.len || memcmp(v.text ? v.text : "", it.value.text, v.len) != 0) {
			add_problem(p->check, "%s '%.*s': the pack has %s %.*s, its events give %.*s", p->kind,
				    (int)(id_len > 80 ? 80 : id_len), id, member,
				    v.type ? (int)(v.len > 40 ? 40 : v.len) : 7, v.type ? v.text : "nothing",
				    (int)(it.value.len > 40 ? 40 : it.value.len), it.value.text);
			return;
		}
	}
	add_problem(p->check, "%s '%.*s' differs from what its events give", p->kind, (int)(id_len > 80 ? 80 : id_len),
		    id);
}

static bool compare_doc(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct compare *p = ctx;
	int o;

	p->check->v.models++;
	while ((o = compare_order(p, id, id_len)) < 0)
		report_surplus(p);
	if (o > 0) {
		add_problem(p->check, "%s '%.*s' follows from the events, but is not in the pack", p->kind,
			    (int)(id_len > 80 ? 80 : id_len), id);
		return true;
	}
	struct jval doc = jval_get(p->pack.value, "document");
	if (doc.len != len || memcmp(doc.text, json, len) != 0)
		report_difference(p, id, id_len, doc, jval_of(json, len));
	next_model(p);
	return true;
}

static void compare_models(struct check *c, struct jval models)
{
	struct compare p = { .check = c, .pack = jiter_on(models) };

	next_model(&p);
	for (size_t i = 0; i < pack_nkinds; i++) {
		p.kind = pack_kinds[i].name;
		memory_models_each(c->models, (uint8_t)pack_kinds[i].kind, compare_doc, &p);
	}
	while (p.have)
		report_surplus(&p);
	if (!p.pack.p)
		add_problem(c, "readModels: the text is broken");
}

static void compare_summary(struct check *c, struct jval summary)
{
	const struct {
		const char *member;
		uint64_t value;
	} rows[] = {
		{ "events", c->v.events },
		{ "firstSequence", c->v.first },
		{ "lastSequence", c->v.last },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		uint64_t claimed = jval_uint(jval_get(summary, rows[i].member), UINT64_MAX);

		if (claimed != rows[i].value)
			add_problem(c, "runtimeSummary.%s is %lld, the events give %llu", rows[i].member,
				    (long long)claimed, (unsigned long long)rows[i].value);
	}
}

/* The seal is at the very end and covers every byte before it. */
static void check_seal(struct check *c, const char *text, size_t len)
{
	const size_t begin = strlen(SINK_SEAL_BEGIN), end = strlen(SINK_SEAL_END), hex = HASH_SHA256_TEXT - 1;
	char digest[HASH_SHA256_TEXT];

	if (len < begin + hex + end || memcmp(text + len - end, SINK_SEAL_END, end) != 0 ||
	    memcmp(text + len - end - hex - begin, SINK_SEAL_BEGIN, begin) != 0) {
		add_problem(c,
			    "seal: it is missing at the end: the file was changed, or written by a bailiff that made "
			    "none; export it again");
		return;
	}
	hash_sha256_text(text, len - end - hex - begin, digest);
	if (memcmp(digest, text + len - end - hex, hex) != 0)
		add_problem(
			c,
			"seal: the file was changed after it was exported: it has sha256 %.16s…, and what it says is "
			"%.16s…",
			digest, text + len - end - hex);
}

int pack_check(const char *text, size_t len, struct pack_verdict *ret, struct err *e)
{
	struct check c = { .uid = 0 };
	struct jval pack = jval_of(text, len), events = jval_get(pack, "events"), models = jval_get(pack, "readModels");
	int r;

	if (pack.type != JT_OBJECT || jval_get(pack, "packKind").type != JT_STRING)
		return err_set(e, ERR_INVALID, "this is not a pack that bailiff exported: it has no packKind");
	jval_str(jval_get(pack, "packKind"), c.v.kind, sizeof(c.v.kind));
	if (jval_uint(jval_get(pack, "packVersion"), 0) != 1)
		return err_set(e, ERR_INVALID, "packVersion: only 1 is known");
	if (events.type != JT_ARRAY || models.type != JT_ARRAY)
		return err_set(e, ERR_INVALID, "a %.40s has no events to verify; an evidence pack or a replay case has",
			       c.v.kind);
	/* The hash of the whole file, by which evidence.changed names it. */
	hash_sha256_text(text, len, c.v.sha256);
	c.owners = jiter_on(jval_get(pack, "ownerUids"));
	read_owner(&c);
	c.models = memory_models_new();
	r = project_events(&c, events, e);
	if (r == 0) {
		compare_models(&c, models);
		compare_summary(&c, jval_get(pack, "runtimeSummary"));
		check_seal(&c, text, len);
		c.v.ok = c.v.nproblems == 0;
		*ret = c.v;
	}
	memory_models_free(c.models);
	return r;
}

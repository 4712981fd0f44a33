#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/engine/model/model.h"
#include "runtime/store/store.h"
#include "supervisor/control/client.h"
#include "supervisor/control/control_private.h"
#include "supervisor/control/methods.h"
#include "supervisor/control/request.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- initialize ---- */

/*
 * Optional, and may be repeated. A role can only be lowered: a client that hands its connection to less trusted code
 * (an agent) gives the rights up for good. Roles are a client's own precaution and not authentication; the same user
 * can open another connection as operator. Calls in progress keep the role that they started with.
 */
int method_initialize(struct call *c, const struct initialize_params *p, struct buf *out, struct err *e)
{
	struct client *cl = c->client;
	enum engine_role role = ROLE_OBSERVER;

	while (p->role && strcmp(method_role_name(role), p->role) != 0)
		role++; /* the table admits only the names of roles */
	if (p->role && role > cl->role) {
		err_field(e, "role", "this connection has the role %s, which cannot be raised to %s",
			  method_role_name(cl->role), p->role);
		e->code = ERR_NOT_ALLOWED;
		return -1;
	}
	if (p->role)
		cl->role = role;
	if (p->clientName)
		snprintf(cl->name, sizeof cl->name, "%s", p->clientName);
	cl->no_person = !param_bool_or(p->interactive, !cl->no_person);
	if (p->channelId)
		snprintf(cl->channel_id, sizeof cl->channel_id, "%s", p->channelId);
	struct store *s = call_store(c);
	struct jw w = jw_on(out);
	jw_obj(&w);
	jw_kstr(&w, "runtimeId", store_runtime_id(s));
	jw_kstr(&w, "serverVersion", BAILIFF_VERSION);
	jw_kstr(&w, "role", method_role_name(c->client->role));
	jw_kuint(&w, "lastSequence", store_last_sequence(s));
	jw_kuint(&w, "firstSequence", store_first_sequence(s));
	jw_kobj(&w, "peer");
	jw_kuint(&w, "uid", c->caller.uid);
	jw_kuint(&w, "gid", c->caller.gid);
	jw_kint(&w, "pid", c->caller.pid);
	jw_obj_end(&w);
	jw_kobj(&w, "capabilities");
	jw_kstr(&w, "schemaVersion", store_env(s)->schema_version);
	jw_kuint(&w, "maxLineBytes", CLIENT_LINE_MAX);
	jw_kuint(&w, "maxBatch", 1000);
	jw_kuint(&w, "maxRequestsInFlight", CLIENT_CALLS_MAX);
	jw_kbool(&w, "idempotency", true);
	jw_karr(&w, "methods");
	const struct method_table *methods = c->control->o.methods;
	for (size_t i = 0; i < methods->count; i++)
		if (methods->rows[i].role <= c->client->role)
			jw_str(&w, methods->rows[i].name);
	jw_arr_end(&w);
	jw_obj_end(&w);
	jw_obj_end(&w);
	return CALL_REPLY;
}

/* ---- get_health ---- */

/* Appends the members about the daemon's other processes, with a leading comma; true if one of them is not working. */
static bool append_health(struct control *k, struct buf *out)
{
	struct buf buf_auto whole = BUF_INIT;

	if (!k->o.health)
		return false;
	buf_byte(&whole, '{');
	k->o.health(k->o.ctx, &whole);
	if (whole.len == 1)
		return false;
	buf_byte(out, ',');
	buf_append(out, whole.data + 1, whole.len - 1);
	buf_byte(&whole, '}');
	for (struct jiter it = jiter_on(jval_of(whole.data, whole.len)); jiter_next(&it);)
		if (jval_is_str(it.value, "down") || jval_is_str(it.value, "restarting") ||
		    jval_is_str(it.value, "failed"))
			return true;
	return false;
}

static uint64_t uptime_ms(const struct control *k) { return (clock_boot_ns() - k->started_boot_ns) / 1000000; }

/* Never fails: a store that cannot be read is a finding, reported as "degraded" with the reason in store.error. */
int method_get_health(struct call *c, const struct get_health_params *p, struct buf *out, struct err *e)
{
	struct control *k = c->control;
	struct store *s = call_store(c);
	struct store_stats stats = { 0 };
	struct engine_counts n = { 0 };
	engine_counts_get(call_engine(c), &n);
	bool readable = store_stats_get(s, &stats, e) == 0;
	struct buf buf_auto rest = BUF_INIT;
	bool degraded = append_health(k, &rest) || !readable || store_full(s) || store_damage(s);
	char started[CLOCK_TEXT_MAX];
	clock_format(k->o.started_real_us, started);
	struct jw w = jw_on(out);
	jw_obj(&w);
	jw_kstr(&w, "status", degraded ? "degraded" : "ok");
	if (k->draining)
		jw_kbool(&w, "draining", true);
	jw_kstr(&w, "version", BAILIFF_VERSION);
	jw_kint(&w, "pid", getpid());
	jw_kuint(&w, "uid", geteuid());
	jw_kstr(&w, "startedAt", started);
	jw_kuint(&w, "uptimeMs", uptime_ms(k));
	jw_kstr(&w, "runtimeId", store_runtime_id(s));
	jw_kobj(&w, "store");
	jw_kuint(&w, "firstSequence", store_first_sequence(s));
	jw_kuint(&w, "lastSequence", store_last_sequence(s));
	jw_kbool(&w, "full", store_full(s));
	jw_kuint(&w, "queuedBatches", store_queued(s));
	if (store_damage(s))
		jw_kuint(&w, "damaged", store_damage(s));
	if (readable) {
		jw_kuint(&w, "databaseBytes", stats.db_bytes);
		jw_kuint(&w, "spoolBytes", stats.spool_bytes);
		jw_kuint(&w, "quotaBytes", stats.quota_bytes);
	}
	jw_kopt(&w, "note", stats.note[0] ? stats.note : NULL);
	jw_kopt(&w, "error", readable ? NULL : e->message);
	jw_obj_end(&w);
	jw_kobj(&w, "processes");
	jw_kuint(&w, "live", n.live);
	jw_kuint(&w, "starting", n.starting);
	jw_kuint(&w, "ending", n.ending);
	jw_kuint(&w, "started", n.started);
	jw_kuint(&w, "ended", n.ended);
	jw_obj_end(&w);
	jw_kuint(&w, "connections", k->nclients);
	jw_kuint(&w, "subscriptions", k->nsubscriptions);
	jw_kopt(&w, "toolProgram", engine_tool_program(call_engine(c)));
	if (k->o.limits)
		jw_kraw(&w, "limits", k->o.limits, strlen(k->o.limits));
	if (rest.len)
		buf_append(out, rest.data, rest.len);
	jw_obj_end(&w);
	return CALL_REPLY;
}

/* ---- drain ---- */

int method_drain(struct call *c, const struct drain_params *p, struct buf *out, struct err *e)
{
	struct jw w = jw_on(out);

	if (call_require_full_view(c, e) < 0)
		return -1;
	c->control->draining = param_bool_or(p->on, true);
	jw_obj(&w);
	jw_kbool(&w, "draining", c->control->draining);
	jw_obj_end(&w);
	return CALL_REPLY;
}

/* ---- get_metrics ---- */

/* Only methods that were called: the table has more than a hundred. */
static void write_methods(struct jw *w, const struct control *k)
{
	jw_kobj(w, "methods");
	for (size_t i = 0; i < k->o.methods->count; i++) {
		const struct method_count *m = &k->methods[i];
		if (!m->requests)
			continue;
		jw_kobj(w, k->o.methods->rows[i].name);
		jw_kuint(w, "count", m->requests);
		jw_kuint(w, "errors", m->errors);
		jw_kuint(w, "totalUs", m->total_us);
		jw_kuint(w, "maxUs", m->max_us);
		jw_obj_end(w);
	}
	jw_obj_end(w);
}

/* Resident memory of this process; 0 if /proc cannot be read. */
static uint64_t memory_bytes(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long long size, resident = 0;

	if (f && fscanf(f, "%llu %llu", &size, &resident) != 2)
		resident = 0;
	if (f)
		fclose(f);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

int method_get_metrics(struct call *c, const struct get_metrics_params *p, struct buf *out, struct err *e)
{
	struct control *k = c->control;
	struct store_stats stats = { 0 };
	struct engine_counts n = { 0 };
	engine_counts_get(call_engine(c), &n);
	if (store_stats_get(call_store(c), &stats, e) < 0)
		return -1;
	const struct {
		const char *name;
		uint64_t value;
	} rows[] = {
		{ "uptimeMs", uptime_ms(k) },
		{ "memoryBytes", memory_bytes() },
		{ "connections", k->nclients },
		{ "connectionsAccepted", k->counts.accepted },
		{ "connectionsRefused", k->counts.refused },
		{ "subscriptions", k->nsubscriptions },
		{ "requests", k->counts.requests },
		{ "requestErrors", k->counts.errors },
		{ "requestsReplayed", k->counts.replayed },
		{ "protocolErrors", k->counts.protocol_errors },
		{ "bytesReceived", k->counts.bytes_in },
		{ "bytesSent", k->counts.bytes_out },
		{ "eventsSent", k->counts.events_sent },
		{ "events", stats.events },
		{ "lastSequence", stats.last_sequence },
		{ "commits", stats.commits },
		{ "settles", stats.settles },
		{ "batches", stats.batches },
		{ "batchesRefused", stats.refused },
		{ "maxCommitUs", stats.max_commit_us },
		{ "syncUsTotal", stats.sync_us_total },
		{ "databaseBytes", stats.db_bytes },
		{ "spoolBytes", stats.spool_bytes },
		{ "processesLive", n.live },
		{ "processesStarted", n.started },
		{ "processesEnded", n.ended },
		{ "outputBytes", n.output_bytes },
		{ "waiters", n.waiters },
	};
	struct jw w = jw_on(out);
	jw_obj(&w);
	for (size_t i = 0; i < countof(rows); i++)
		jw_kuint(&w, rows[i].name, rows[i].value);
	event_metrics_write(&k->tally, &w);
	engine_budgets(call_engine(c), c->caller.uid, &w);
	write_methods(&w, k);
	jw_obj_end(&w);
	return CALL_REPLY;
}

/* ---- list_methods ---- */

/* Recurses into declared members, at most as deep as methods.def nests them. */
static void write_params(struct jw *w, const char *key, const struct param *params)
{
	jw_karr(w, key);
	for (const struct param *p = params; p->name; p++) {
		jw_obj(w);
		jw_kstr(w, "name", p->name);
		jw_kstr(w, "type", method_param_type_name(p->type));
		jw_kbool(w, "required", p->flags & PARAM_REQUIRED);
		if (p->type == PARAM_ENUM) {
			jw_karr(w, "enum");
			for (const char *word = p->detail; *word;) {
				size_t n = strcspn(word, "|");
				jw_strn(w, word, n);
				word += n + (word[n] == '|');
			}
			jw_arr_end(w);
		}
		if (p->members)
			write_params(w, "members", p->members());
		jw_kstr(w, "summary", p->summary);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

int method_list_methods(struct call *c, const struct list_methods_params *p, struct buf *out, struct err *e)
{
	struct jw w = jw_on(out);
	jw_obj(&w);
	jw_karr(&w, "methods");
	const struct method_table *methods = c->control->o.methods;
	for (size_t i = 0; i < methods->count; i++) {
		const struct method *m = &methods->rows[i];
		jw_obj(&w);
		jw_kstr(&w, "name", m->name);
		jw_kstr(&w, "role", method_role_name(m->role));
		jw_kbool(&w, "mutating", m->mutating);
		jw_kstr(&w, "summary", m->summary);
		write_params(&w, "parameters", m->params());
		jw_obj_end(&w);
	}
	jw_arr_end(&w);
	jw_obj_end(&w);
	return CALL_REPLY;
}

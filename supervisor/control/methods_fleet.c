#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "supervisor/control/client.h"
#include "supervisor/control/control_private.h"
#include "supervisor/control/methods.h"
#include "supervisor/control/peer.h"

#include <stdio.h>
#include <string.h>

#define WANTED_NS (15ull * 1000000000u) /* after a get_fleet */
#define LIST_MAX (2u << 20)             /* bytes of each list */

void fleet_board_done(struct fleet_board *b)
{
	free(b->problem);
	free(b->nodes);
	free(b->tasks);
	*b = (struct fleet_board){ 0 };
}

static bool is_connected(const struct control *k, uint64_t number)
{
	struct client *cl;

	LIST_FOREACH (cl, &k->clients, entry)
		if (cl->number == number)
			return true;
	return false;
}

/* ---- report_fleet ---- */

/*
 * Only the guard's own child may report: others could show root whatever they like. The guard says which process that
 * is; the connection was made by the process that became bailiff-fleet. That it is alive shows that its pid was not
 * another's when the connection was made.
 */
static bool is_fleet(const struct call *c)
{
	const struct control_options *o = &c->control->o;
	const struct peer *peer = &c->client->peer;
	struct err e = ERR_INIT;

	return o->fleet_pid && peer->pid && peer->pid == o->fleet_pid(o->ctx) &&
	       peer_check(c->client->fd, peer, &e) == 0;
}

static int check_reporter(const struct call *c, struct err *e)
{
	const struct fleet_board *b = &c->control->fleet;

	if (c->client->number == b->reporter)
		return 0;
	if (!is_fleet(c) || is_connected(c->control, b->reporter))
		return err_set(e, ERR_NOT_ALLOWED, "report_fleet is for the bailiff-fleet that the daemon has started");
	return 0;
}

static void replace(char **at, const char *text)
{
	free(*at);
	*at = mem_strdup(text);
}

int method_report_fleet(struct call *c, const struct report_fleet_params *p, struct buf *out, struct err *e)
{
	struct fleet_board *b = &c->control->fleet;
	mem_auto char *nodes = param_json_text("nodes", p->nodes, LIST_MAX, e);
	mem_auto char *tasks = param_json_text("tasks", p->tasks, LIST_MAX, e);
	struct jw w = jw_on(out);

	if ((p->nodes && !nodes) || (p->tasks && !tasks))
		return -1;
	if (!p->nodes != !p->tasks)
		return err_field(e, p->nodes ? "tasks" : "nodes", "missing: both lists are reported together");
	if (param_length("node", p->node, 1, sizeof(b->node) - 1, e) < 0 ||
	    param_length("problem", p->problem, 0, 1024, e) < 0 || check_reporter(c, e) < 0)
		return -1;
	b->reporter = c->client->number;
	b->uid = c->caller.uid;
	snprintf(b->node, sizeof(b->node), "%s", p->node);
	b->connected = p->connected.value;
	replace(&b->problem, p->problem);
	if (nodes) {
		replace(&b->nodes, nodes);
		replace(&b->tasks, tasks);
		b->task_count = param_uint_or(p->taskCount, json_array_size(p->tasks));
		b->listed_at_ns = clock_boot_ns();
	}
	jw_obj(&w);
	jw_kbool(&w, "wanted", clock_boot_ns() < b->wanted_until_ns);
	jw_obj_end(&w);
	return CALL_REPLY;
}

/* ---- get_fleet ---- */

int method_get_fleet(struct call *c, const struct get_fleet_params *p, struct buf *out, struct err *e)
{
	struct fleet_board *b = &c->control->fleet;
	struct jw w = jw_on(out);

	if (!b->reporter)
		return err_set(e, ERR_UNAVAILABLE,
			       "this daemon is not a node of a fleet, or bailiff-fleet has not started yet: see "
			       "'bailiffd --fleet' and its log");
	if (!call_sees(c, b->uid))
		return err_set(e, ERR_NOT_ALLOWED,
			       "the fleet is shown to root, to the daemon's user and to the user of the fleet's tasks");
	b->wanted_until_ns = clock_boot_ns() + WANTED_NS;
	if (!is_connected(c->control, b->reporter))
		return err_set(e, ERR_UNAVAILABLE, "bailiff-fleet has ended and is about to be restarted");
	jw_obj(&w);
	jw_kstr(&w, "node", b->node);
	jw_kbool(&w, "connected", b->connected);
	jw_kopt(&w, "problem", b->problem);
	if (b->nodes) {
		jw_kuint(&w, "ageMs", (clock_boot_ns() - b->listed_at_ns) / 1000000);
		jw_kraw(&w, "nodes", b->nodes, strlen(b->nodes));
		jw_kraw(&w, "tasks", b->tasks, strlen(b->tasks));
		jw_kuint(&w, "taskCount", b->task_count);
	}
	jw_obj_end(&w);
	return CALL_REPLY;
}

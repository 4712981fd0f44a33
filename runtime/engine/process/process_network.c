/*
 * Traffic of a process through the proxy: a row for each host and port, recorded in the terminal event. The proxy
 * reports all totals again to a restarted runtime, so the log does not need them before the end.
 */

#include "runtime/engine/core/core.h"

#include "runtime/base/mem.h"
#include "runtime/engine/process/process.h"

#include <string.h>

#define ROWS_MAX 64u
#define OTHERS "(others)"

struct network_row {
	char host[256];
	uint32_t port;
	uint64_t connections, sent, received;
};

struct process_network {
	struct network_row *row;
	size_t count;
};

void process_network_free(struct process *p)
{
	if (p->network)
		free(p->network->row);
	free(p->network);
	p->network = NULL;
}

static struct network_row *row_of(struct process_network *s, const char *host, uint32_t port)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->row[i].port == port && strcmp(s->row[i].host, host) == 0)
			return &s->row[i];
	/* The command chooses the hosts. The limit bounds the terminal event; the totals stay exact. */
	if (s->count >= ROWS_MAX && strcmp(host, OTHERS) != 0)
		return row_of(s, OTHERS, 0);
	s->row = mem_realloc(s->row, (s->count + 1) * sizeof *s->row);
	s->row[s->count] = (struct network_row){ .port = port };
	snprintf(s->row[s->count].host, sizeof s->row[s->count].host, "%s", host);
	return &s->row[s->count++];
}

void engine_on_traffic(struct engine *engine, const char *id, const struct port_traffic *t)
{
	struct process *p = engine_process(engine, id);

	if (!p || p->state == PROCESS_ENDING)
		return;
	if (!p->network)
		p->network = mem_zalloc(1, sizeof *p->network);
	struct network_row *r = row_of(p->network, t->host, t->port);
	r->connections += t->connections;
	r->sent += t->sent;
	r->received += t->received;
}

void process_network_members(const struct process *p, struct jw *w)
{
	if (!p->network)
		return;
	jw_karr(w, "network");
	for (size_t i = 0; i < p->network->count; i++) {
		const struct network_row *r = &p->network->row[i];

		jw_obj(w);
		jw_kstr(w, "host", r->host);
		jw_kuint(w, "port", r->port);
		jw_kuint(w, "connections", r->connections);
		jw_kuint(w, "bytesSent", r->sent);
		jw_kuint(w, "bytesReceived", r->received);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

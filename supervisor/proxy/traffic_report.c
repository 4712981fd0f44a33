/*
 * Each row has two sets of amounts: msg holds those that are not sent yet, the row's own members those that the current
 * runtime has received. Sending moves amounts from the first to the second; a new runtime moves them back, so it
 * receives totals from the beginning. A denial is reported once: the runtime turns each one into an event.
 */
#include "supervisor/proxy/traffic_report.h"

#include "runtime/base/mem.h"

#include <stdio.h>
#include <string.h>

void traffic_report_done(struct traffic_report *r)
{
	free(r->row);
	*r = (struct traffic_report){ 0 };
}

static size_t kind_count(const struct traffic_report *r, uint32_t kind)
{
	size_t n = 0;

	for (size_t i = 0; i < r->count; i++)
		n += r->row[i].msg.kind == kind;
	return n;
}

static struct traffic_report_row *row_for(struct traffic_report *r, const struct proxy_msg *m)
{
	for (size_t i = 0; i < r->count; i++) {
		const struct proxy_msg *have = &r->row[i].msg;

		if (have->kind == m->kind && have->port == m->port && have->reason == m->reason &&
		    strcmp(have->host, m->host) == 0 && strcmp(have->address, m->address) == 0)
			return &r->row[i];
	}
	/* The overflow row itself must not overflow again: it is exempt from the limit, which ends the recursion. */
	if (kind_count(r, m->kind) >= TRAFFIC_REPORT_ROWS_MAX && strcmp(m->host, TRAFFIC_REPORT_OTHERS) != 0) {
		struct proxy_msg rest = { .kind = m->kind, .reason = m->reason, .host = TRAFFIC_REPORT_OTHERS };
		return row_for(r, &rest);
	}
	r->row = mem_realloc(r->row, (r->count + 1) * sizeof *r->row);
	r->row[r->count] = (struct traffic_report_row){ .msg = *m };
	return &r->row[r->count++];
}

void traffic_report_denied(struct traffic_report *r, const char *host, uint16_t port, const char *address,
			   enum proxy_reason why)
{
	struct proxy_msg m = { .kind = PROXY_REFUSED, .reason = why, .port = port };

	snprintf(m.host, sizeof m.host, "%s", host);
	snprintf(m.address, sizeof m.address, "%s", address);
	row_for(r, &m)->msg.count++;
}

static void add_amounts(struct traffic_report_row *row, uint64_t count, uint64_t sent, uint64_t received)
{
	row->msg.count += count;
	row->msg.sent += sent;
	row->msg.received += received;
}

void traffic_report_add(struct traffic_report *r, const char *host, uint16_t port, uint64_t count, uint64_t sent,
			uint64_t received)
{
	struct proxy_msg m = { .kind = PROXY_TRAFFIC, .port = port };

	snprintf(m.host, sizeof m.host, "%s", host);
	add_amounts(row_for(r, &m), count, sent, received);
}

void traffic_report_port(struct traffic_report *r, uint16_t port, uint64_t sent, uint64_t received)
{
	const struct proxy_msg m = { .kind = PROXY_PORT_TRAFFIC, .port = port };

	add_amounts(row_for(r, &m), 1, sent, received);
}

void traffic_report_resend(struct traffic_report *r)
{
	for (size_t i = 0; i < r->count; i++) {
		struct traffic_report_row *row = &r->row[i];

		if (row->msg.kind == PROXY_REFUSED)
			continue;
		row->msg.count += row->count;
		row->msg.sent += row->sent;
		row->msg.received += row->received;
		row->count = row->sent = row->received = 0;
	}
}

struct traffic_report_row *traffic_report_next(struct traffic_report *r)
{
	for (size_t i = 0; i < r->count; i++)
		if (r->row[i].msg.count || r->row[i].msg.sent || r->row[i].msg.received)
			return &r->row[i];
	return NULL;
}

void traffic_report_sent(struct traffic_report_row *row)
{
	row->count += row->msg.count;
	row->sent += row->msg.sent;
	row->received += row->msg.received;
	row->msg.count = row->msg.sent = row->msg.received = 0;
}

#include "supervisor/proxy/report.h"

#include "runtime/base/mem.h"

#include <stdio.h>
#include <string.h>

void report_done(struct report *r)
{
	free(r->row);
	*r = (struct report){ 0 };
}

static size_t kind_count(const struct report *r, uint32_t kind)
{
	size_t n = 0;

	for (size_t i = 0; i < r->count; i++)
		n += r->row[i].msg.kind == kind;
	return n;
}

static struct report_row *row_for(struct report *r, const struct proxy_msg *m)
{
	for (size_t i = 0; i < r->count; i++) {
		const struct proxy_msg *have = &r->row[i].msg;

		if (have->kind == m->kind && have->port == m->port && have->reason == m->reason &&
		    strcmp(have->host, m->host) == 0 && strcmp(have->address, m->address) == 0)
			return &r->row[i];
	}
	if (kind_count(r, m->kind) >= REPORT_ROWS_MAX && strcmp(m->host, REPORT_OTHERS) != 0) {
		struct proxy_msg rest = { .kind = m->kind, .reason = m->reason, .host = REPORT_OTHERS };
		return row_for(r, &rest);
	}
	r->row = mem_realloc(r->row, (r->count + 1) * sizeof *r->row);
	r->row[r->count] = (struct report_row){ .msg = *m };
	return &r->row[r->count++];
}

void report_refused(struct report *r, const char *host, uint16_t port, const char *address, enum proxy_reason why)
{
	struct proxy_msg m = { .kind = PROXY_REFUSED, .reason = why, .port = port };

	snprintf(m.host, sizeof m.host, "%s", host);
	snprintf(m.address, sizeof m.address, "%s", address);
	row_for(r, &m)->msg.count++;
}

void report_traffic(struct report *r, const char *host, uint16_t port, uint64_t count, uint64_t sent, uint64_t received)
{
	struct proxy_msg m = { .kind = PROXY_TRAFFIC, .port = port };

	snprintf(m.host, sizeof m.host, "%s", host);
	struct report_row *row = row_for(r, &m);
	row->msg.count += count;
	row->msg.sent += sent;
	row->msg.received += received;
}

void report_again(struct report *r)
{
	for (size_t i = 0; i < r->count; i++) {
		struct report_row *row = &r->row[i];

		if (row->msg.kind != PROXY_TRAFFIC)
			continue;
		row->msg.count += row->count;
		row->msg.sent += row->sent;
		row->msg.received += row->received;
		row->count = row->sent = row->received = 0;
	}
}

struct report_row *report_next(struct report *r)
{
	for (size_t i = 0; i < r->count; i++)
		if (r->row[i].msg.count || r->row[i].msg.sent || r->row[i].msg.received)
			return &r->row[i];
	return NULL;
}

void report_told(struct report_row *row)
{
	row->count += row->msg.count;
	row->sent += row->msg.sent;
	row->received += row->msg.received;
	row->msg.count = row->msg.sent = row->msg.received = 0;
}

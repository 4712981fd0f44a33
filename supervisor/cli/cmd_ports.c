/* `ports`, `publish`, `unpublish`, and the option --publish: ports of sandboxes that are reachable on this host. */

#include "supervisor/cli/published_ports.h"

#include "runtime/base/mem.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"

#include <stdio.h>
#include <stdlib.h>

/* [ADDR:][HOSTPORT:]PORT; an IPv6 address in brackets. */
struct published_port_text {
	char address[64]; /* "" = the daemon's default, loopback */
	unsigned host_port, port;
};

/* Digits only, up to 65535. */
static bool parse_port(const char *text, size_t len, unsigned least, unsigned *ret)
{
	unsigned v = 0;

	if (len == 0 || len > 5)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		v = v * 10 + (unsigned)(text[i] - '0');
	}
	*ret = v;
	return v >= least && v <= 65535;
}

/* From the right: the port in the sandbox, the host's, and its address; the host's port is the same if it is missing.
 */
static int published_port_parse(const char *text, struct published_port_text *ret, struct err *e)
{
	const char *end = text + strlen(text), *last = strrchr(text, ':'), *first = NULL;
	struct published_port_text p = { 0 };

	if (last && last > text)
		for (first = last - 1; first > text && *first != ':' && *first != ']';)
			first--;
	const char *port = last ? last + 1 : text;
	bool ok = parse_port(port, (size_t)(end - port), 1, &p.port);
	p.host_port = p.port;
	size_t address = 0;
	if (ok && last && parse_port(text, (size_t)(last - text), 0, &p.host_port)) {
		address = 0;
	} else if (ok && last && first && *first == ':' &&
		   parse_port(first + 1, (size_t)(last - first - 1), 0, &p.host_port)) {
		address = (size_t)(first - text);
	} else if (ok && last) {
		address = (size_t)(last - text);
		p.host_port = p.port;
		ok = address > 0;
	}
	if (address >= 2 && text[0] == '[' && text[address - 1] == ']') {
		text++;
		address -= 2;
	} else if (memchr(text, ':', address)) {
		ok = false; /* IPv6 needs brackets: which part is the port? */
	}
	if (address && strspn(text, "0123456789") == address)
		ok = false; /* a port that is too large, not an address */
	if (!ok || address >= sizeof(p.address))
		return err_set(e, ERR_INVALID, "'%s' is not [ADDR:][HOSTPORT:]PORT, for example 8080:3000", text);
	memcpy(p.address, text, address);
	*ret = p;
	return 0;
}

static void write_port(const struct published_port_text *p, struct jw *w)
{
	jw_kuint(w, "port", p->port);
	jw_kuint(w, "hostPort", p->host_port);
	jw_kopt(w, "hostAddress", p->address[0] ? p->address : NULL);
}

/* The arguments are the member that identifies the sandbox, and the request of the user. */
static int publish(struct cli *c, const char *member, const char *id, const struct published_port_text *p,
		   struct request *q)
{
	jw_kstr(&q->w, member, id);
	write_port(p, &q->w);
	return request_change(c, q, "publish_port");
}

int published_ports_write(const struct opts *o, int option, struct jw *w, struct err *e)
{
	struct published_port_text p;

	jw_karr(w, "publish");
	for (size_t i = 0; i < o->ngiven; i++) {
		if (o->given[i].option != option)
			continue;
		if (published_port_parse(o->given[i].value, &p, e) < 0)
			return err_wrap(e, "option '--publish'");
		jw_obj(w);
		write_port(&p, w);
		jw_obj_end(w);
	}
	jw_arr_end(w);
	return 0;
}

int published_ports_check(const struct opts *o, int option, struct err *e)
{
	struct published_port_text p;

	for (size_t i = 0; i < o->ngiven; i++)
		if (o->given[i].option == option && published_port_parse(o->given[i].value, &p, e) < 0)
			return err_wrap(e, "option '--publish'");
	return 0;
}

/* A command that is started again finds its port as an earlier start has left it. */
static bool is_published(struct cli *c, const char *sandbox_id, const struct published_port_text *p)
{
	request_auto struct request q = REQUEST_INIT(q);

	jw_kstr(&q.w, "sandboxId", sandbox_id);
	if (request_read(c, &q, "list_ports") < 0)
		return false;
	for (struct jiter it = jiter_on(jval_get(q.result, "ports")); jiter_next(&it);) {
		const uint64_t host_port = jval_uint(jval_get(it.value, "hostPort"), 0);

		if (jval_is_str(jval_get(it.value, "status"), "published") &&
		    jval_uint(jval_get(it.value, "port"), 0) == p->port &&
		    (p->host_port == 0 || p->host_port == host_port) &&
		    jval_is_str(jval_get(it.value, "hostAddress"), p->address[0] ? p->address : "127.0.0.1"))
			return true;
	}
	return false;
}

int published_ports_open(struct cli *c, int option, const char *sandbox_id)
{
	const struct opts *o = &c->opts;

	for (size_t i = 0; i < o->ngiven; i++) {
		request_auto struct request q = REQUEST_INIT(q);
		struct published_port_text p;

		if (o->given[i].option != option)
			continue;
		if (published_port_parse(o->given[i].value, &p, &q.e) < 0 ||
		    (!is_published(c, sandbox_id, &p) && publish(c, "sandboxId", sandbox_id, &p, &q) < 0))
			return cli_fail(c, -1, &q.e, "publish %s", o->given[i].value);
	}
	return 0;
}

/* A sandbox, or a process: with a sandbox of its own, or in a session sandbox. */
static const char *find_owner(struct cli *c, const char *given, char ret[ID_LOOKUP_MAX])
{
	int kind = id_lookup_sandbox_or_process(c, given, ret);

	return kind < 0 ? NULL : id_kinds[kind].member;
}

int cmd_publish(struct cli *c)
{
	request_auto struct request q = REQUEST_INIT(q);
	buf_auto struct buf out = BUF_INIT;
	struct published_port_text p;
	char id[ID_LOOKUP_MAX], address[64];

	if (c->opts.nargs != 2)
		return cli_usage(c, "which sandbox and port?");
	if (published_port_parse(c->opts.args[1], &p, &q.e) < 0)
		return cli_usage(c, "%s", q.e.message);
	if (cli_connect(c, CLI_START_IF_STORE) < 0)
		return EXIT_FAILED;
	const char *member = find_owner(c, c->opts.args[0], id);
	if (!member)
		return EXIT_FAILED;
	if (publish(c, member, id, &p, &q) < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "publish");
	if (cli_as_json(c))
		return format_record(q.result, true);
	jval_str(jval_get(q.result, "hostAddress"), address, sizeof(address));
	buf_printf(&out, strchr(address, ':') ? "[%s]:%llu\n" : "%s:%llu\n", address,
		   (unsigned long long)jval_uint(jval_get(q.result, "hostPort"), 0));
	return format_out(&out);
}

int cmd_unpublish(struct cli *c)
{
	request_auto struct request q = REQUEST_INIT(q);
	char id[ID_LOOKUP_MAX];
	unsigned port;

	if (c->opts.nargs != 2)
		return cli_usage(c, "which sandbox and port?");
	if (!parse_port(c->opts.args[1], strlen(c->opts.args[1]), 1, &port))
		return cli_usage(c, "'%s' is not a port", c->opts.args[1]);
	if (cli_connect(c, CLI_START_IF_STORE) < 0)
		return EXIT_FAILED;
	const char *member = find_owner(c, c->opts.args[0], id);
	if (!member)
		return EXIT_FAILED;
	jw_kstr(&q.w, member, id);
	jw_kuint(&q.w, "port", port);
	if (request_change(c, &q, "unpublish_port") < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "unpublish");
	return cli_as_json(c) ? format_record(q.result, true) : 0;
}

int cmd_ports(struct cli *c)
{
	request_auto struct request q = REQUEST_INIT(q);
	char id[ID_LOOKUP_MAX];

	if (c->opts.nargs > 1)
		return cli_usage(c, "at most one sandbox");
	if (cli_connect(c, CLI_START_IF_STORE) < 0)
		return EXIT_FAILED;
	if (c->opts.nargs) {
		const char *member = find_owner(c, c->opts.args[0], id);
		if (!member)
			return EXIT_FAILED;
		jw_kstr(&q.w, member, id);
	}
	if (request_read(c, &q, "list_ports") < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "ports");
	return format_columns("SANDBOX=sandboxId,processId PORT=port STATUS=status HOST=hostAddress HOSTPORT=hostPort "
			      "LISTENING=listening:if CONNECTIONS=connections",
			      jval_get(q.result, "ports"), cli_as_json(c));
}

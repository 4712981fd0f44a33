/*
 * Checks that a client talks to the host that it requested. A rule allows a host by name, but several hosts can share
 * the address behind that name; TLS's server name (SNI) or HTTP's Host header selects one of them. Both are read where
 * they are unencrypted, for every request of a connection, and must equal the requested name.
 */

#include "supervisor/proxy/access_check.h"

#include "runtime/base/mem.h"
#include "supervisor/proxy/client_hello.h"
#include "supervisor/proxy/connection.h"
#include "supervisor/proxy/served_sandbox.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <string.h>
#include <strings.h>

#define SNIFF_S 30
#define LINE_MAX_LEN (8u * 1024)

bool access_check_target(struct connection *c)
{
	const struct host_rules *rules = &c->sandbox->rules;
	const struct connect_target *t = &c->target;
	enum host_verdict v = t->is_address ? host_rules_address(rules, NULL, &t->address, t->port)
					    : host_rules_name(rules, t->host, t->port);

	if (v == HOST_ALLOWED)
		return true;
	connection_refuse(c, v == HOST_DENIED ? PROXY_DENIED : v == HOST_INSIDE ? PROXY_INSIDE : PROXY_NOT_LISTED, "");
	return false;
}

/* ---- TLS ---- */

/* Replies in TLS: a fatal alert, "access denied". */
static void deny_tls(struct connection *c, enum proxy_reason why)
{
	static const uint8_t alert[] = { 21, 3, 1, 0, 2, 2, 49 };
	struct served_sandbox *b = c->sandbox;

	traffic_report_denied(&b->report, c->target.host, c->target.port, "", why);
	b->on_change(b->ctx);
	bufferevent_write(c->client, alert, sizeof alert);
	connection_close(c);
}

/*
 * A tunnel to an address has no name to compare with: the client's server name must be allowed by a rule of its own, or
 * be absent.
 */
static bool sniff_tls(struct connection *c, const uint8_t *p, size_t n)
{
	struct client_hello h;
	enum parsed r = client_hello_parse(p, n, &h);

	if (r == PARSED_MORE)
		return false;
	if (r == PARSED_BAD) {
		deny_tls(c, PROXY_MALFORMED);
	} else if (h.encrypted) {
		deny_tls(c, PROXY_SNI_HIDDEN);
	} else if (!h.name[0] && !c->target.is_address) {
		deny_tls(c, PROXY_SNI_MISSING);
	} else if (h.name[0] && strcmp(h.name, c->target.host) != 0 &&
		   (!c->target.is_address ||
		    host_rules_name(&c->sandbox->rules, h.name, c->target.port) != HOST_ALLOWED)) {
		deny_tls(c, PROXY_SNI_DIFFERS);
	} else {
		connection_phase(c, CONNECTION_RAW, 0);
		return true;
	}
	return false;
}

/* ---- which protocol ---- */

enum protocol { PROTOCOL_UNKNOWN, PROTOCOL_TLS, PROTOCOL_HTTP, PROTOCOL_SSH, PROTOCOL_OTHER };

/* Whether the word is an HTTP method. */
static bool is_method(const char *p, size_t n)
{
	static const char *const words[] = { "GET",     "HEAD",  "POST",  "PUT",     "DELETE",
					     "OPTIONS", "PATCH", "TRACE", "CONNECT", "PRI" };

	for (size_t i = 0; i < countof(words); i++)
		if (strlen(words[i]) == n && strncasecmp(p, words[i], n) == 0)
			return true;
	return false;
}

/*
 * Guesses the protocol from the first line. A line that contains HTTP/ or begins with a method, an empty line or a
 * space is parsed as HTTP, strictly. Bytes that are not text rule HTTP out only in the first word: after a method they
 * are an attempt at evasion.
 */
static enum protocol guess_protocol(const char *p, size_t n)
{
	size_t most = n < LINE_MAX_LEN ? n : LINE_MAX_LEN, word = 0;

	if (n == 0)
		return PROTOCOL_UNKNOWN;
	if (p[0] == 22)
		return PROTOCOL_TLS;
	if (strchr("\r\n\t ", p[0]) && p[0])
		return PROTOCOL_HTTP;
	while (word < most && p[word] > ' ' && p[word] < 0x7f)
		word++;
	if (word < most && !strchr("\r\n\t ", p[word]))
		return PROTOCOL_OTHER;
	if (word < most && p[word] == '\0')
		return PROTOCOL_OTHER;
	if (word < most && is_method(p, word))
		return PROTOCOL_HTTP;
	const char *end = memchr(p, '\n', most);
	if (!end)
		/* A first line of 8 KiB without an end: let the strict HTTP parser decide. */
		return n < LINE_MAX_LEN ? PROTOCOL_UNKNOWN : PROTOCOL_HTTP;
	for (const char *at = p; at + 5 <= end; at++)
		if (strncasecmp(at, "HTTP/", 5) == 0)
			return PROTOCOL_HTTP;
	return n >= 4 && memcmp(p, "SSH-", 4) == 0 ? PROTOCOL_SSH : PROTOCOL_OTHER;
}

bool access_check_first_bytes(struct connection *c)
{
	struct evbuffer *in = bufferevent_get_input(c->client);
	size_t n = evbuffer_get_length(in);
	const char *p = n ? (const char *)evbuffer_pullup(in, -1) : "";

	/*
	 * From the first byte on: a client may wait for a greeting of the server (SMTP), and has no deadline until it
	 * sends.
	 */
	if (n && c->deadline_ns == UINT64_MAX)
		connection_phase(c, CONNECTION_SNIFF, SNIFF_S);
	switch (guess_protocol(p, n)) {
	case PROTOCOL_UNKNOWN: return false;
	case PROTOCOL_TLS: return sniff_tls(c, (const uint8_t *)p, n);
	case PROTOCOL_HTTP: connection_phase(c, CONNECTION_HTTP, 0); return true;
	case PROTOCOL_OTHER:
		/*
		 * On these ports the name can be checked for all regular traffic. Anything else there could be a way
		 * around the check.
		 */
		if (c->target.port == 80 || c->target.port == 443) {
			connection_refuse(c, PROXY_NOT_WEB, "");
			return false;
		}
		break;
	case PROTOCOL_SSH: break;
	}
	connection_phase(c, CONNECTION_RAW, 0);
	return true;
}

/* ---- HTTP in the clear ---- */

bool access_check_http(struct connection *c)
{
	struct evbuffer *in = bufferevent_get_input(c->client);
	size_t n = evbuffer_get_length(in);
	struct http_head h;
	const char *why = "";

	if (n == 0)
		return false;
	if (c->deadline_ns == UINT64_MAX)
		connection_phase(c, CONNECTION_HTTP, SNIFF_S);
	const char *p = (const char *)evbuffer_pullup(in, n < HTTP_HEAD_MAX ? (ssize_t)n : HTTP_HEAD_MAX);
	enum parsed r = http_head_parse(p, n < HTTP_HEAD_MAX ? n : HTTP_HEAD_MAX, &h, &why);
	if (r == PARSED_MORE)
		return false;
	if (r == PARSED_BAD || h.form == HTTP_CONNECT || (h.form == HTTP_ORIGIN) != (c->via != VIA_HTTP)) {
		connection_refuse(c, PROXY_MALFORMED, "");
		return false;
	}
	if (c->via == VIA_HTTP && (!connect_target_agrees(&c->target, &h.target) ||
				   (h.has_host && !connect_target_agrees(&h.target, &h.host)))) {
		/* A request for another host needs a connection of its own. */
		connection_close(c);
		return false;
	}
	if (c->via != VIA_HTTP && (!h.has_host || !connect_target_agrees(&c->target, &h.host))) {
		connection_refuse(c, PROXY_HOST_DIFFERS, "");
		return false;
	}
	connection_send_head(c, p, &h);
	return true;
}

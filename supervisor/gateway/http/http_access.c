#include "supervisor/gateway/http/http_access.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/http/http_request.h"
#include "supervisor/gateway/http/http_tokens.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_port(const char *p, size_t n)
{
	unsigned v = 0;

	if (n == 0 || n > 5)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		v = v * 10 + (unsigned)(p[i] - '0');
	}
	return v > 0 && v <= 65535;
}

/* A host as connect_target writes it. */
static bool is_local_name(const char *host)
{
	static const char *const names[] = { "localhost", "127.0.0.1", "::1" };

	for (size_t i = 0; i < countof(names); i++)
		if (strcmp(host, names[i]) == 0)
			return true;
	return false;
}

bool http_access_is_local(const char *host, size_t len)
{
	static const char *const names[] = { "localhost", "127.0.0.1", "[::1]" };

	for (size_t i = 0; i < countof(names); i++) {
		size_t n = strlen(names[i]);
		if (len < n || strncasecmp(host, names[i], n) != 0)
			continue;
		return len == n || (host[n] == ':' && is_port(host + n + 1, len - n - 1));
	}
	return false;
}

bool http_access_is_local_origin(const char *origin, size_t len)
{
	static const char *const schemes[] = { "http://", "https://" };

	for (size_t i = 0; i < countof(schemes); i++) {
		size_t n = strlen(schemes[i]);
		if (len > n && strncasecmp(origin, schemes[i], n) == 0)
			return http_access_is_local(origin + n, len - n);
	}
	return false;
}

bool http_access_same(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t n = a_len < b_len ? a_len : b_len;
	/*
	 * volatile: keeps the compiler from leaving the loop early, which would leak the length of the matching prefix.
	 */
	volatile unsigned char differs = a_len != b_len;

	for (size_t i = 0; i < n; i++)
		differs |= (unsigned char)a[i] ^ (unsigned char)b[i];
	return !differs;
}

static bool reject_request(struct http_refusal *ret, unsigned status, const char *why)
{
	*ret = (struct http_refusal){ status, why };
	return false;
}

static const struct http_token *token_of(const struct http_access *a, const struct http_request *r)
{
	static const char scheme[] = "Bearer ";
	const size_t skip = sizeof(scheme) - 1;
	const struct http_token *found = NULL;
	buf_auto struct buf v = BUF_INIT;

	if (http_request_header(r, "Authorization", &v) != 1 || v.len <= skip || strncasecmp(v.data, scheme, skip) != 0)
		return NULL;
	const char *given = v.data + skip;
	while (*given == ' ')
		given++;
	/* Compare with every token: the time must not reveal which one matched. */
	for (size_t i = 0; i < a->ntokens; i++)
		if (http_access_same(given, strlen(given), a->tokens[i].text, strlen(a->tokens[i].text)))
			found = &a->tokens[i];
	return found;
}

bool http_access_allows(const struct http_access *a, const struct http_request *r, const struct http_token **ret_who,
			struct http_refusal *ret)
{
	const struct http_token *who = a->open ? NULL : token_of(a, r);
	buf_auto struct buf v = BUF_INIT;

	/* An HTTP/1.0 request may have no Host; browsers always send one. */
	if (http_request_header(r, "Host", &v) && !http_access_is_local(v.data ? v.data : "", v.len))
		return reject_request(ret, 403,
				      "the Host header does not name this machine: use localhost, 127.0.0.1 or [::1]");
	/* A URL in the request line replaces the Host header (RFC 9112, section 3.2.2), so it must pass the same check.
	 */
	if (r->parsed.form == HTTP_ABSOLUTE && !is_local_name(r->parsed.target.host))
		return reject_request(ret, 403,
				      "the URL does not name this machine: use localhost, 127.0.0.1 or [::1]");
	unsigned origins = http_request_header(r, "Origin", &v);
	if (origins > 1 || (origins == 1 && !http_access_is_local_origin(v.data ? v.data : "", v.len)))
		return reject_request(
			ret, 403, "the Origin header does not name this machine: requests of other sites are rejected");
	if (!a->open && !who)
		return reject_request(
			ret, 401,
			"this needs the header 'Authorization: Bearer TOKEN'; 'bailiff serve --print-token' prints it");
	*ret_who = who;
	return true;
}

/* ---- listening addresses ---- */

static int parse_port(const char *text, uint16_t *ret, struct err *e)
{
	char *end = NULL;
	unsigned long v = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;

	if (!end || *end || end - text > 5 || v > 65535)
		return err_field(e, "--listen", "'%s' is not a port: a number from 0 (any free one) to 65535", text);
	*ret = (uint16_t)v;
	return 0;
}

int http_address_parse(const char *text, struct http_address *ret, struct err *e)
{
	struct http_address a = { .host = "127.0.0.1" };
	const char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
	size_t n = colon ? (size_t)(colon - text) : 0;
	static const struct {
		const char *name, *host;
	} names[] = {
		{ "127.0.0.1", "127.0.0.1" },
		{ "localhost", "127.0.0.1" },
		{ "[::1]", "::1" },
		{ "", "127.0.0.1" },
	};

	for (size_t i = 0; i < countof(names); i++) {
		if (n != strlen(names[i].name) || strncasecmp(text, names[i].name, n) != 0)
			continue;
		snprintf(a.host, sizeof(a.host), "%s", names[i].host);
		if (parse_port(port, &a.port, e) < 0)
			return -1;
		*ret = a;
		return 0;
	}
	return err_field(e, "--listen",
			 "'%s' is not an address of this machine alone: use 127.0.0.1:PORT, [::1]:PORT or PORT. To "
			 "reach it from "
			 "elsewhere, tunnel (ssh -L PORT:127.0.0.1:PORT)",
			 text);
}

void http_address_format(const struct http_address *a, char ret[HTTP_ADDRESS_TEXT])
{
	bool six = strchr(a->host, ':');

	snprintf(ret, HTTP_ADDRESS_TEXT, "%s%s%s:%u", six ? "[" : "", a->host, six ? "]" : "", a->port);
}

#include "supervisor/gateway/http/mcp_headers.h"

#include "runtime/base/buf.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/gateway/http/http_request.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define META "io.modelcontextprotocol/"
#define MODERN_FIRST "2026-07-28"
#define PARAM_PREFIX "Mcp-Param-"

static bool is_date(const char *s)
{
	if (strlen(s) != 10)
		return false;
	for (int i = 0; i < 10; i++)
		if (i == 4 || i == 7 ? s[i] != '-' : s[i] < '0' || s[i] > '9')
			return false;
	return true;
}

static const json_t *meta_of(const json_t *message)
{
	return json_object_get(json_object_get(message, "params"), "_meta");
}

struct mcp_envelope mcp_headers_envelope(const struct http_request *r, const json_t *message)
{
	const json_t *meta = meta_of(message), *version = json_object_get(meta, META "protocolVersion");
	buf_auto struct buf header = BUF_INIT;
	struct mcp_envelope e = { 0 };

	http_request_header(r, "MCP-Protocol-Version", &header);
	if (version)
		e.modern = true;
	else if (strcmp(json_get_string(message, "method") ?: "", "initialize") != 0)
		e.modern = is_date(buf_cstr(&header)) && strcmp(buf_cstr(&header), MODERN_FIRST) >= 0;
	e.complete = json_is_string(version) && json_is_object(json_object_get(meta, META "clientCapabilities"));
	return e;
}

bool mcp_headers_legacy_version(const struct http_request *r)
{
	static const char *const known[] = { "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25" };
	buf_auto struct buf header = BUF_INIT;

	if (!http_request_header(r, "MCP-Protocol-Version", &header))
		return true;
	for (size_t i = 0; i < countof(known); i++)
		if (strcmp(buf_cstr(&header), known[i]) == 0)
			return true;
	return false;
}

/* A header's value, "=?base64?…?=" or plain. False if it is not valid base64 of UTF-8. */
static bool mcp_headers_decode(const char *value, size_t n, struct buf *out)
{
	static const char prefix[] = "=?base64?", suffix[] = "?=";
	const size_t skip = sizeof(prefix) - 1, tail = sizeof(suffix) - 1;

	if (n < skip + tail || memcmp(value, prefix, skip) != 0 || memcmp(value + n - tail, suffix, tail) != 0) {
		buf_append(out, value, n);
		return true;
	}
	size_t len = n - skip - tail;
	if (len % 4 || text_base64_decode(value + skip, len, out) < 0)
		return false;
	/* Accept only the canonical encoding: nonzero padding bits would give a value a second spelling. */
	buf_auto struct buf again = BUF_INIT;
	text_base64_encode(buf_cstr(out), out->len, &again);
	return again.len == len && memcmp(buf_cstr(&again), value + skip, len) == 0 &&
	       text_utf8_valid(buf_cstr(out), out->len) && !memchr(buf_cstr(out), '\0', out->len);
}

/* The header must occur exactly once and equal the value in the body. */
static bool header_equals(const struct http_request *r, const char *name, const char *body, char why[MCP_WHY_MAX])
{
	buf_auto struct buf header = BUF_INIT, value = BUF_INIT;
	unsigned n = http_request_header(r, name, &header);

	if (n != 1) {
		snprintf(why, MCP_WHY_MAX, n ? "the header %s occurs more than once" : "the header %s is missing",
			 name);
		return false;
	}
	if (!mcp_headers_decode(buf_cstr(&header), header.len, &value)) {
		snprintf(why, MCP_WHY_MAX, "the header %s is not valid base64", name);
		return false;
	}
	if (strcmp(buf_cstr(&value), body) != 0) {
		snprintf(why, MCP_WHY_MAX, "the header %s and the body disagree", name);
		return false;
	}
	return true;
}

/* The member of params that the header Mcp-Name repeats, or NULL. */
static const char *find_parameter(const char *method)
{
	static const struct {
		const char *method, *member;
	} rows[] = {
		{ "tools/call", "name" },  { "prompts/get", "name" },    { "resources/read", "uri" },
		{ "tasks/get", "taskId" }, { "tasks/update", "taskId" }, { "tasks/cancel", "taskId" },
	};

	for (size_t i = 0; i < countof(rows); i++)
		if (strcmp(rows[i].method, method) == 0)
			return rows[i].member;
	return NULL;
}

/* Numbers are compared by value (42.0 equals 42), all others as text. */
static bool same_param(const struct http_request *r, const char *name, const json_t *v, char why[MCP_WHY_MAX])
{
	char number[40];

	if (json_is_string(v))
		return header_equals(r, name, json_string_value(v), why);
	if (json_is_boolean(v))
		return header_equals(r, name, json_is_true(v) ? "true" : "false", why);
	if (!json_is_number(v))
		return true;
	buf_auto struct buf header = BUF_INIT;
	char *end = NULL;
	if (http_request_header(r, name, &header) == 1) {
		double d = strtod(buf_cstr(&header), &end);
		if (end && end != header.data && !*end && isfinite(d) && d == json_number_value(v))
			return true;
	}
	snprintf(number, sizeof(number), "%.17g", json_number_value(v));
	return header_equals(r, name, number, why);
}

static bool params_agree(const struct http_request *r, const json_t *arguments, const json_t *schema,
			 char why[MCP_WHY_MAX])
{
	const char *key;
	json_t *property;

	json_object_foreach (json_object_get(schema, "properties"), key, property) {
		const char *name = json_get_string(property, "x-mcp-header");
		const json_t *v = json_object_get(arguments, key);
		char header[128];

		if (!name || !v || json_is_null(v))
			continue;
		snprintf(header, sizeof(header), PARAM_PREFIX "%s", name);
		if (!same_param(r, header, v, why))
			return false;
	}
	return true;
}

bool mcp_headers_agree(const struct http_request *r, const json_t *message, const json_t *input_schema,
		       char why[MCP_WHY_MAX])
{
	const json_t *params = json_object_get(message, "params");
	const char *method = json_get_string(message, "method");
	const char *version = json_string_value(json_object_get(meta_of(message), META "protocolVersion"));

	if (!method)
		return true;
	if (version && !header_equals(r, "MCP-Protocol-Version", version, why))
		return false;
	if (!header_equals(r, "Mcp-Method", method, why))
		return false;
	const char *member = find_parameter(method), *name = member ? json_get_string(params, member) : NULL;
	if (name && !header_equals(r, "Mcp-Name", name, why))
		return false;
	return !input_schema || params_agree(r, json_object_get(params, "arguments"), input_schema, why);
}

void mcp_event_id_format(uint64_t stream, uint64_t number, char ret[MCP_EVENT_ID_MAX])
{
	snprintf(ret, MCP_EVENT_ID_MAX, "%" PRIu64 "-%" PRIu64, stream, number);
}

static const char *is_digits(const char *p, uint64_t *ret)
{
	const char *start = p;
	uint64_t v = 0;

	/* 18 digits cannot overflow 64 bits. */
	while (*p >= '0' && *p <= '9' && p - start < 18)
		v = v * 10 + (uint64_t)(*p++ - '0');
	*ret = v;
	return p > start ? p : NULL;
}

bool mcp_event_id_parse(const char *text, uint64_t *ret_stream, uint64_t *ret_number)
{
	uint64_t stream, number;
	const char *p = is_digits(text, &stream);

	if (!p || *p != '-')
		return false;
	p = is_digits(p + 1, &number);
	if (!p || *p)
		return false;
	*ret_stream = stream;
	*ret_number = number;
	return true;
}

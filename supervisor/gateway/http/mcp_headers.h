#ifndef BAILIFF_GATEWAY_HTTP_MCP_HEADERS_H
#define BAILIFF_GATEWAY_HTTP_MCP_HEADERS_H

/*
 * The headers of MCP's HTTP transport, and whether they agree with the body. Pure.
 *
 * The body determines the era of a request (a protocol version in params._meta means modern); the header decides only
 * if the body does not say. In the modern era headers repeat parts of the body so that intermediaries can route by
 * them. A request whose headers and body disagree is rejected, because an intermediary would have routed something
 * other than what runs.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct http_request;

#define MCP_WHY_MAX 256

struct mcp_envelope {
	bool modern;
	bool complete; /* modern: _meta has all required members */
};

struct mcp_envelope mcp_headers_envelope(const struct http_request *r, const json_t *message);
/*
 * Modern requests: checks that version, method, name and the tool's parameters agree (input_schema with "x-mcp-header";
 * may be NULL). If false, `why` has the reason.
 */
bool mcp_headers_agree(const struct http_request *r, const json_t *message, const json_t *input_schema,
		       char why[MCP_WHY_MAX]);
/* Legacy: the header has a version that this transport supports, or is missing. */
bool mcp_headers_legacy_version(const struct http_request *r);

/* Ids of server-sent events: "STREAM-NUMBER". */
#define MCP_EVENT_ID_MAX 44
void mcp_event_id_format(uint64_t stream, uint64_t number, char ret[MCP_EVENT_ID_MAX]);
bool mcp_event_id_parse(const char *text, uint64_t *ret_stream, uint64_t *ret_number);

#endif

#ifndef BAILIFF_GATEWAY_HTTP_MCP_HEADERS_H
#define BAILIFF_GATEWAY_HTTP_MCP_HEADERS_H

/*
 * What MCP's HTTP transport says in headers, and whether the body says the same. Pure.
 *
 * The era of a request is the body's to say (params._meta names a protocol version: modern); the header decides only
 * where the body is silent. In the modern era headers repeat parts of the body so that others on the way can route by
 * them; a request whose headers and body disagree is refused, because what was routed and what is run would be two
 * things.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct http_request;

#define MCP_WHY_MAX 256

struct mcp_envelope {
	bool modern;
	bool complete; /* modern: _meta has all that it must have */
};

struct mcp_envelope mcp_headers_envelope(const struct http_request *r, const json_t *message);
/*
 * Modern requests: version, method, name and parameters of the tool (input_schema with "x-mcp-header"; may be NULL)
 * agree. False: why says what does not.
 */
bool mcp_headers_agree(const struct http_request *r, const json_t *message, const json_t *input_schema,
		       char why[MCP_WHY_MAX]);
/* Legacy: the version in the header is one that this transport has, or there is none. */
bool mcp_headers_legacy_version(const struct http_request *r);

/* A header's value: "=?base64?…?=" is decoded. False if that is not proper base64 of UTF-8. */
struct buf;
bool mcp_headers_decode(const char *value, size_t n, struct buf *out);

/* Ids of server-sent events: "STREAM-NUMBER". */
#define MCP_EVENT_ID_MAX 44
void mcp_event_id_format(uint64_t stream, uint64_t number, char ret[MCP_EVENT_ID_MAX]);
bool mcp_event_id_parse(const char *text, uint64_t *ret_stream, uint64_t *ret_number);

#endif

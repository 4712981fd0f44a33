#ifndef BAILIFF_MCP_VERSION_H
#define BAILIFF_MCP_VERSION_H

/* Versions of the protocol, and the two eras that they belong to. */

#include "supervisor/gateway/mcp/mcp_call.h"
#include "supervisor/gateway/mcp/mcp_session.h"

#define MCP_META "io.modelcontextprotocol/"
#define MCP_LATEST_LEGACY "2025-11-25"
#define MCP_MODERN_VERSION "2026-07-28"

/* The version for the response to initialize: the requested one if supported, else the latest legacy version. */
const char *mcp_version_negotiate(const char *asked);
/* A supported modern version as a static string, else NULL. */
const char *mcp_version_modern(const char *asked);
/* All supported versions, newest first. */
json_t *mcp_version_list(void);
bool mcp_version_at_least(const char *version, const char *least); /* dates compare as strings */

/* Converts a result for a version that lacks some kinds of content: links become text. Clients reject unknown kinds. */
void mcp_version_downgrade(const char *version, json_t *result);

/*
 * The era of a request. `legacy_since`: the session has accepted initialize. `modern_seen`: it had a modern request
 * before.
 */
enum mcp_era mcp_version_era(const char *method, const json_t *params, enum mcp_hint hint, bool legacy_since,
			     bool modern_seen);

#endif

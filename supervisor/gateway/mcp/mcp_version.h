#ifndef BAILIFF_MCP_VERSION_H
#define BAILIFF_MCP_VERSION_H

/* Versions of the protocol and the two eras they fall into. */

#include "supervisor/gateway/mcp/mcp_call.h"
#include "supervisor/gateway/mcp/mcp_session.h"

#define MCP_META "io.modelcontextprotocol/"
#define MCP_LATEST_LEGACY "2025-11-25"
#define MCP_MODERN_VERSION "2026-07-28"

/* What initialize is answered with: the version asked for if it is spoken here, else the latest legacy one. */
const char *mcp_version_negotiate(const char *asked);
/* A modern version that is spoken here, as a static string; else NULL. */
const char *mcp_version_modern(const char *asked);
/* All of them, newest first. */
json_t *mcp_version_list(void);
bool mcp_version_at_least(const char *version, const char *least); /* dates compare as texts */

/* A result, for a version that may not have all its kinds of content: links become text. A client refuses what has a
 * kind that it does not know. */
void mcp_version_downgrade(const char *version, json_t *result);

/* The era of a request. `legacy_since`: the session has accepted initialize. `modern_seen`: it was asked in the modern
 * way before. */
enum mcp_era mcp_version_era(const char *method, const json_t *params, enum mcp_hint hint, bool legacy_since,
			     bool modern_seen);

#endif

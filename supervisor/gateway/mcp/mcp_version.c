/*
 * Versions are dates, so strcmp orders them. Each feature that a version lacks is checked where it is used, with
 * mcp_version_at_least; only content that older clients would reject is converted here.
 */

#include "supervisor/gateway/mcp/mcp_version.h"

#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"

#include <string.h>

static const char *const modern[] = { MCP_MODERN_VERSION };
static const char *const legacy[] = { MCP_LATEST_LEGACY, "2025-06-18", "2025-03-26", "2024-11-05" };

static const char *find_version(const char *const *of, size_t n, const char *asked)
{
	for (size_t i = 0; asked && i < n; i++)
		if (strcmp(of[i], asked) == 0)
			return of[i];
	return NULL;
}

const char *mcp_version_negotiate(const char *asked)
{
	const char *known = find_version(legacy, countof(legacy), asked);

	return known ? known : legacy[0];
}

const char *mcp_version_modern(const char *asked) { return find_version(modern, countof(modern), asked); }

json_t *mcp_version_list(void)
{
	json_t *all = json_array();

	for (size_t i = 0; i < countof(modern); i++)
		json_array_append_new(all, json_string(modern[i]));
	for (size_t i = 0; i < countof(legacy); i++)
		json_array_append_new(all, json_string(legacy[i]));
	return all;
}

bool mcp_version_at_least(const char *version, const char *least) { return version && strcmp(version, least) >= 0; }

void mcp_version_downgrade(const char *version, json_t *result)
{
	json_t *content = json_object_get(result, "content"), *one;
	size_t i;

	if (mcp_version_at_least(version, "2025-06-18"))
		return;
	json_array_foreach (content, i, one) {
		const char *type = json_get_string(one, "type"), *name = json_get_string(one, "name");

		if (!type || strcmp(type, "resource_link") != 0)
			continue;
		mem_auto char *text = mem_printf("All of %s: %s\n", name ? name : "it", json_get_string(one, "uri"));
		json_array_set_new(content, i, json_pack("{ss ss}", "type", "text", "text", text));
	}
}

enum mcp_era mcp_version_era(const char *method, const json_t *params, enum mcp_hint hint, bool legacy_since,
			     bool modern_seen)
{
	const json_t *meta = json_object_get(params, "_meta");

	/*
	 * In order of certainty: a completed initialize, the transport's header, the request itself, and last what the
	 * client sent before. A modern client that probes with initialize on a connection with modern requests gets a
	 * legacy answer.
	 */
	if (legacy_since || hint == MCP_HINT_LEGACY)
		return MCP_LEGACY;
	if (hint == MCP_HINT_MODERN || json_object_get(meta, MCP_META "protocolVersion") ||
	    strcmp(method, "server/discover") == 0)
		return MCP_MODERN;
	return modern_seen && strcmp(method, "initialize") != 0 ? MCP_MODERN : MCP_LEGACY;
}

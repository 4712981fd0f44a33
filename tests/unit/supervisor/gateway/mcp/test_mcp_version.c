#include "supervisor/gateway/mcp/mcp_version.h"

#include "tests/unit/suite.h"

START_TEST(test_versions_are_negotiated)
{
	ck_assert_str_eq(mcp_version_negotiate("2024-11-05"), "2024-11-05");
	ck_assert_str_eq(mcp_version_negotiate("2025-11-25"), "2025-11-25");
	ck_assert_str_eq(mcp_version_negotiate("2026-07-28"), "2025-11-25"); /* it has no initialize */
	ck_assert_str_eq(mcp_version_negotiate("soon"), "2025-11-25");
	ck_assert_ptr_null(mcp_version_modern("2025-11-25"));
	ck_assert_str_eq(mcp_version_modern("2026-07-28"), "2026-07-28");
	ck_assert(mcp_version_at_least("2025-06-18", "2025-06-18") &&
		  !mcp_version_at_least("2025-03-26", "2025-06-18") && !mcp_version_at_least(NULL, "1"));
}
END_TEST

START_TEST(test_requests_are_assigned_to_eras)
{
	json_auto_t *meta = json_pack("{s{ss}}", "_meta", MCP_META "protocolVersion", "2026-07-28"),
		    *plain = json_object();
	static const struct {
		const char *method;
		bool modern_meta;
		enum mcp_hint hint;
		bool legacy_since, modern_seen;
		enum mcp_era era;
	} rows[] = {
		{ "initialize", false, MCP_HINT_NONE, false, false, MCP_LEGACY },
		{ "initialize", false, MCP_HINT_NONE, false, true, MCP_LEGACY }, /* the fallback after a probe */
		{ "initialize", true, MCP_HINT_NONE, false, false, MCP_MODERN }, /* where the method does not exist */
		{ "initialize", false, MCP_HINT_MODERN, false, false, MCP_MODERN },
		{ "server/discover", false, MCP_HINT_NONE, false, false, MCP_MODERN },
		{ "tools/list", true, MCP_HINT_NONE, false, false, MCP_MODERN },
		{ "tools/list", true, MCP_HINT_NONE, true, true, MCP_LEGACY }, /* an accepted initialize is final */
		{ "tools/list", false, MCP_HINT_NONE, false, true,
		  MCP_MODERN }, /* and is rejected with what it lacks */
		{ "tools/list", false, MCP_HINT_NONE, false, false, MCP_LEGACY },
		{ "tools/list", true, MCP_HINT_LEGACY, false, false, MCP_LEGACY },
		{ "ping", false, MCP_HINT_MODERN, false, false, MCP_MODERN },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ck_assert_msg(mcp_version_era(rows[i].method, rows[i].modern_meta ? meta : plain, rows[i].hint,
					      rows[i].legacy_since, rows[i].modern_seen) == rows[i].era,
			      "row %zu", i);
}
END_TEST

int main(void) { return SUITE("mcp_version", test_versions_are_negotiated, test_requests_are_assigned_to_eras); }

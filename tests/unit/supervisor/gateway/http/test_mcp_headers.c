#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/http/http_request.h"
#include "supervisor/gateway/http/mcp_headers.h"
#include "tests/unit/suite.h"

#include <string.h>

#define VERSION "io.modelcontextprotocol/protocolVersion"
#define CALL                                                                                           \
	"{\"method\":\"tools/"                                                                         \
	"call\",\"id\":1,\"params\":{\"name\":\"exec\",\"arguments\":{\"region\":\"Hello\",\"n\":42}," \
	"\"_meta\":{\"" VERSION "\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}}}"
#define STANDARD "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: exec\r\n"

static struct http_request request(const char *headers)
{
	mem_auto char *text = mem_printf("POST /mcp HTTP/1.1\r\nHost: localhost\r\n%s\r\n", headers);
	struct http_request r;
	size_t used;

	http_request_init(&r, 0);
	ck_assert_int_eq(http_request_feed(&r, text, strlen(text), &used), HTTP_REQUEST_DONE);
	return r;
}

static bool agree(const char *headers, const char *body, const char *schema)
{
	struct http_request r = request(headers);
	json_auto_t *m = json_loads(body, 0, NULL), *s = schema ? json_loads(schema, 0, NULL) : NULL;
	char why[MCP_WHY_MAX] = "";

	ck_assert(m && (s || !schema));
	bool ok = mcp_headers_agree(&r, m, s, why);
	ck_assert(ok || why[0]);
	http_request_done(&r);
	return ok;
}

START_TEST(headers_must_agree_with_the_body)
{
	static const char schema[] = "{\"properties\":{\"region\":{\"type\":\"string\",\"x-mcp-header\":\"Region\"},"
				     "\"n\":{\"x-mcp-header\":\"N\"},\"other\":{}}}";

	ck_assert(agree(STANDARD, CALL, NULL));
	ck_assert(
		agree("mcp-protocol-version:2026-07-28 \r\nMCP-METHOD:tools/call\r\nmcp-name: =?base64?ZXhlYw==?=\r\n",
		      CALL, NULL));
	ck_assert(!agree("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n", CALL, NULL));
	ck_assert(!agree("MCP-Protocol-Version: 2026-07-28\r\nMcp-Name: exec\r\n", CALL, NULL));
	ck_assert(!agree("Mcp-Method: tools/call\r\nMcp-Name: exec\r\n", CALL, NULL));
	ck_assert(
		!agree("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: TOOLS/CALL\r\nMcp-Name: exec\r\n", CALL, NULL));
	ck_assert(!agree(STANDARD "Mcp-Name: exec\r\n", CALL, NULL));
	ck_assert(
		!agree("MCP-Protocol-Version: 2025-11-25\r\nMcp-Method: tools/call\r\nMcp-Name: exec\r\n", CALL, NULL));
	/* parameters that the tool declares as headers */
	ck_assert(agree(STANDARD "Mcp-Param-Region: Hello\r\nMcp-Param-N: 42.0\r\n", CALL, schema));
	ck_assert(agree(STANDARD "Mcp-Param-Region: =?base64?SGVsbG8=?=\r\nMcp-Param-N: 42\r\n", CALL, schema));
	ck_assert(!agree(STANDARD "Mcp-Param-Region: =?base64?SGVsbG8?=\r\nMcp-Param-N: 42\r\n", CALL, schema));
	ck_assert(!agree(STANDARD "Mcp-Param-Region: =?base64?SGVs!!!bG8=?=\r\nMcp-Param-N: 42\r\n", CALL, schema));
	ck_assert(!agree(STANDARD "Mcp-Param-Region: SGVsbG8=\r\nMcp-Param-N: 42\r\n", CALL, schema));
	ck_assert(!agree(STANDARD "Mcp-Param-Region: Hello\r\nMcp-Param-N: 43\r\n", CALL, schema));
	ck_assert(!agree(STANDARD "Mcp-Param-N: 42\r\n", CALL, schema));
}
END_TEST

static struct mcp_envelope envelope(const char *headers, const char *body)
{
	struct http_request r = request(headers);
	json_auto_t *m = json_loads(body, 0, NULL);
	struct mcp_envelope e = mcp_headers_envelope(&r, m);

	http_request_done(&r);
	return e;
}

START_TEST(the_body_determines_the_era)
{
	ck_assert(envelope("", CALL).modern && envelope("", CALL).complete);
	ck_assert(envelope("MCP-Protocol-Version: 2025-11-25\r\n", CALL).modern);
	ck_assert(!envelope("MCP-Protocol-Version: 2025-11-25\r\n", "{\"method\":\"ping\",\"id\":1}").modern);
	ck_assert(!envelope("", "{\"method\":\"ping\",\"id\":1}").modern);
	ck_assert(!envelope("MCP-Protocol-Version: v999\r\n", "{\"method\":\"ping\",\"id\":1}").modern);
	/* the header applies where the body has no version */
	ck_assert(envelope("MCP-Protocol-Version: 2026-07-28\r\n", "{\"method\":\"server/discover\",\"id\":1}").modern);
	ck_assert(!envelope("MCP-Protocol-Version: 2026-07-28\r\n", "{\"method\":\"server/discover\",\"id\":1}")
			   .complete);
	ck_assert(
		!envelope("MCP-Protocol-Version: 2026-07-28\r\n", "{\"method\":\"initialize\",\"id\":1,\"params\":{}}")
			 .modern);
	ck_assert(!envelope("", "{\"method\":\"x\",\"id\":1,\"params\":{\"_meta\":{\"" VERSION "\":\"2026-07-28\"}}}")
			   .complete);
	ck_assert(!envelope("", "{\"method\":\"x\",\"id\":1,\"params\":[1]}").modern);
}
END_TEST

START_TEST(ids_of_events_are_parsed)
{
	static const char *const bad[] = { "",
					   "-",
					   "1",
					   "1-",
					   "-1",
					   "1-2-3",
					   "1-2x",
					   " 1-2",
					   "1 -2",
					   "99999999999999999999-1",
					   "1-99999999999999999999",
					   "a-b" };
	char text[MCP_EVENT_ID_MAX];
	uint64_t s, n;

	mcp_event_id_format(7, 123456789012345ull, text);
	ck_assert(mcp_event_id_parse(text, &s, &n));
	ck_assert(s == 7 && n == 123456789012345ull);
	for (size_t i = 0; i < countof(bad); i++)
		ck_assert_msg(!mcp_event_id_parse(bad[i], &s, &n), "%s", bad[i]);
}
END_TEST

int main(void)
{
	return SUITE("mcp_headers", headers_must_agree_with_the_body, the_body_determines_the_era,
		     ids_of_events_are_parsed);
}

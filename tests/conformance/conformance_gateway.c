/* bailiff-gateway with the rows that MCP's conformance suite calls; the product does not have them. */

#include "supervisor/gateway/program/gateway.h"
#include "tests/conformance/mcp_fixtures.h"

int main(int argc, char **argv)
{
	mcp_tables_add(&mcp_fixtures);
	return gateway_main(argc, argv);
}

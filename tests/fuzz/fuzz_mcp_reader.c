/* The messages of an MCP server, in pieces: reading terminates, and every split gives the same result.
 */

#include "runtime/base/err.h"
#include "supervisor/tool/mcp_reader.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t count(const uint8_t *data, size_t size, size_t piece)
{
	struct mcp_reader r = { 0 };
	struct mcp_message m;
	struct err e = ERR_INIT;
	size_t n = 0;
	int got = 0;

	for (size_t at = 0; at < size && got >= 0; at += piece) {
		mcp_reader_feed(&r, data + at, size - at < piece ? size - at : piece);
		while ((got = mcp_reader_next(&r, &m, &e)) > 0) {
			if (m.kind == MCP_NONE)
				abort();
			n++;
		}
	}
	mcp_reader_done(&r);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t whole = count(data, size, size ? size : 1);

	if (count(data, size, 1) != whole || count(data, size, 7) != whole)
		abort();
	return 0;
}

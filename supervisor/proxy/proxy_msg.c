#include "supervisor/proxy/proxy_msg.h"

#include "runtime/base/mem.h"

const char *proxy_reason_text(uint32_t reason)
{
	static const char *const texts[PROXY_REASON_COUNT] = {
		[PROXY_NOT_LISTED] = "not in the allowed hosts",
		[PROXY_DENIED] = "denied by a rule",
		[PROXY_INSIDE] = "leads to an address that must be named",
		[PROXY_HOST_DIFFERS] = "the Host header names another host",
		[PROXY_SNI_DIFFERS] = "the TLS server name is another host's",
		[PROXY_SNI_MISSING] = "TLS without a server name",
		[PROXY_SNI_HIDDEN] = "TLS with an encrypted server name",
		[PROXY_NOT_WEB] = "neither TLS nor HTTP on a port of the web",
		[PROXY_MALFORMED] = "a request that can be read in two ways",
	};

	return reason < countof(texts) && texts[reason] ? texts[reason] : "refused";
}

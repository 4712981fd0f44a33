/* SOCKS 5 from a sandbox to the proxy, and the host rules of users. */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "supervisor/proxy/socks.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writing a rule and parsing it again gives the same rule. */
static void rule(const char *text)
{
	struct host_rule r, again;
	struct err e = ERR_INIT;
	buf_auto struct buf out = BUF_INIT;

	if (host_rule_parse(text, false, &r, &e) < 0)
		return;
	if (!host_rule_valid(&r))
		abort();
	host_rule_text(&r, &out);
	if (host_rule_parse(buf_cstr(&out), false, &again, &e) < 0 || memcmp(&r, &again, sizeof r) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *p = malloc(size + 1);
	enum socks_reply reply;
	struct connect_target t;
	size_t len = 0;
	bool ok;

	if (!p)
		abort();
	memcpy(p, data, size);
	p[size] = 0;
	rule((const char *)p);
	p = realloc(p, size ? size : 1); /* just as long: nothing beyond may be read */
	if (!p)
		abort();
	if (socks_greeting(p, size, &len, &ok) == PARSED_OK && len > size)
		abort();
	if (socks_request(p, size, &t, &len, &reply) == PARSED_OK && (len > size || !t.port || !t.host[0]))
		abort();
	free(p);
	return 0;
}

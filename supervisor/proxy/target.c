#include "supervisor/proxy/target.h"

#include <stdio.h>
#include <string.h>

bool target_parse(const char *text, size_t len, uint16_t default_port, struct target *ret)
{
	struct target t = { 0 };
	char host[256];

	if (!host_split(text, len, host, &t.port))
		return false;
	if (!t.port)
		t.port = default_port;
	if (net_address_parse(host, &t.address)) {
		target_of_address(&t.address, t.port, ret);
		return true;
	}
	if (!host_name_clean(host, strlen(host), t.host))
		return false;
	*ret = t;
	return true;
}

void target_of_address(const struct net_address *a, uint16_t port, struct target *ret)
{
	char text[NET_ADDRESS_TEXT];

	*ret = (struct target){ .is_address = true, .address = *a, .port = port };
	net_address_text(a, text);
	snprintf(ret->host, sizeof ret->host, "%s", text);
}

bool target_agrees(const struct target *asked, const struct target *given)
{
	return strcmp(asked->host, given->host) == 0 && (!given->port || given->port == asked->port);
}

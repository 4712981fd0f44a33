#include "supervisor/proxy/connect_target.h"

#include <stdio.h>
#include <string.h>

bool connect_target_parse(const char *text, size_t len, uint16_t default_port, struct connect_target *ret)
{
	struct connect_target t = { 0 };
	char host[256];

	if (!host_split(text, len, host, &t.port))
		return false;
	if (!t.port)
		t.port = default_port;
	if (net_address_parse(host, &t.address)) {
		connect_target_of_address(&t.address, t.port, ret);
		return true;
	}
	if (!host_name_clean(host, strlen(host), t.host))
		return false;
	*ret = t;
	return true;
}

void connect_target_of_address(const struct net_address *a, uint16_t port, struct connect_target *ret)
{
	char text[NET_ADDRESS_TEXT];

	*ret = (struct connect_target){ .is_address = true, .address = *a, .port = port };
	net_address_text(a, text);
	snprintf(ret->host, sizeof ret->host, "%s", text);
}

bool connect_target_agrees(const struct connect_target *asked, const struct connect_target *given)
{
	return strcmp(asked->host, given->host) == 0 && (!given->port || given->port == asked->port);
}

#include "supervisor/proxy/socks.h"

#include <string.h>

enum parsed socks_greeting(const uint8_t *p, size_t n, size_t *ret_len, bool *ret_ok)
{
	if (n < 1)
		return PARSED_MORE;
	if (p[0] != SOCKS_VERSION || (n > 1 && p[1] == 0))
		return PARSED_BAD;
	if (n < 2 || n < 2u + p[1])
		return PARSED_MORE;
	*ret_len = 2u + p[1];
	*ret_ok = memchr(p + 2, 0, p[1]) != NULL;
	return PARSED_OK;
}

enum parsed socks_request(const uint8_t *p, size_t n, struct connect_target *ret, size_t *ret_len,
			  enum socks_reply *ret_reply)
{
	enum { V4 = 1, NAME = 3, V6 = 4 };
	struct net_address a = { { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff } };

	*ret_reply = SOCKS_FAILED;
	if (n >= 1 && p[0] != SOCKS_VERSION)
		return PARSED_BAD;
	if (n < 5)
		return PARSED_MORE;
	size_t address = p[3] == V4 ? 4 : p[3] == V6 ? 16 : p[3] == NAME ? 1u + p[4] : 0;
	if (p[1] != 1 || p[2] != 0) {
		*ret_reply = SOCKS_NO_COMMAND;
		return PARSED_BAD;
	}
	if (address == 0) {
		*ret_reply = SOCKS_NO_ADDRESS;
		return PARSED_BAD;
	}
	if (n < 4 + address + 2)
		return PARSED_MORE;
	uint16_t port = (uint16_t)(p[4 + address] << 8 | p[5 + address]);
	*ret_len = 4 + address + 2;
	/* *ret_reply is still SOCKS_FAILED here and below. */
	if (port == 0)
		return PARSED_BAD;
	if (p[3] != NAME) {
		memcpy(a.b + (p[3] == V4 ? 12 : 0), p + 4, address);
		connect_target_of_address(&a, port, ret);
		return PARSED_OK;
	}
	/* The name may be a literal address, but must not contain a port. */
	char name[256];
	memcpy(name, p + 5, p[4]);
	name[p[4]] = '\0';
	struct connect_target t = { .port = port };
	/* A NUL inside the name: C functions would see a shorter one. */
	if (strlen(name) != p[4])
		return PARSED_BAD;
	if (net_address_parse(name, &a))
		connect_target_of_address(&a, port, &t);
	else if (!host_name_clean(name, p[4], t.host))
		return PARSED_BAD;
	*ret = t;
	return PARSED_OK;
}

void socks_reply(enum socks_reply reply, uint8_t out[SOCKS_REPLY_LEN])
{
	memset(out, 0, SOCKS_REPLY_LEN);
	out[0] = SOCKS_VERSION;
	out[1] = (uint8_t)reply;
	out[3] = 1; /* followed by an IPv4 address that clients ignore */
}

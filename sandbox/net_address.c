#include "sandbox/net_address.h"

#include "runtime/base/mem.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

/* The first match decides. IPv4 prefixes are in their mapped form. */
#define V4(a, b, c, d, bits, class)                                                                    \
	{                                                                                              \
		{ { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d } }, 96 + (bits), NET_##class \
	}
#define V6(bits, class, ...)                           \
	{                                              \
		{ { __VA_ARGS__ } }, bits, NET_##class \
	}
static const struct {
	struct net_address net;
	unsigned bits;
	enum net_class class;
} table[] = {
	V4(169, 254, 169, 254, 32, METADATA),
	V4(169, 254, 170, 2, 32, METADATA),
	V4(100, 100, 100, 200, 32, METADATA),
	V4(168, 63, 129, 16, 32, METADATA),
	V4(192, 0, 0, 192, 32, METADATA),
	V4(0, 0, 0, 0, 8, UNSPECIFIED),
	V4(127, 0, 0, 0, 8, LOOPBACK),
	V4(10, 0, 0, 0, 8, PRIVATE),
	V4(172, 16, 0, 0, 12, PRIVATE),
	V4(192, 168, 0, 0, 16, PRIVATE),
	V4(169, 254, 0, 0, 16, LINK_LOCAL),
	V4(100, 64, 0, 0, 10, SHARED),
	V4(192, 0, 0, 0, 24, RESERVED),
	V4(192, 0, 2, 0, 24, RESERVED),
	V4(192, 88, 99, 0, 24, RESERVED),
	V4(198, 18, 0, 0, 15, RESERVED),
	V4(198, 51, 100, 0, 24, RESERVED),
	V4(203, 0, 113, 0, 24, RESERVED),
	V4(224, 0, 0, 0, 4, MULTICAST),
	V4(240, 0, 0, 0, 4, RESERVED),
	V4(0, 0, 0, 0, 0, PUBLIC),
	V6(128, METADATA, 0xfd, 0x00, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54),
	V6(128, METADATA, 0xfd, 0x20, 0x00, 0xce, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54),
	V6(128, UNSPECIFIED, 0),
	V6(128, LOOPBACK, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1),
	V6(7, PRIVATE, 0xfc),
	V6(10, PRIVATE, 0xfe, 0xc0),
	V6(10, LINK_LOCAL, 0xfe, 0x80),
	V6(8, MULTICAST, 0xff),
	V6(23, RESERVED, 0x20, 0x01),
	V6(32, RESERVED, 0x20, 0x01, 0x0d, 0xb8),
	V6(16, RESERVED, 0x20, 0x02),
	V6(20, RESERVED, 0x3f, 0xff),
	V6(3, PUBLIC, 0x20),
};

bool net_address_parse(const char *text, struct net_address *ret)
{
	struct net_address a;

	memcpy(a.b, mapped, sizeof mapped);
	if (inet_pton(AF_INET, text, a.b + 12) == 1 || inet_pton(AF_INET6, text, a.b) == 1) {
		*ret = a;
		return true;
	}
	return false;
}

bool net_address_is_v4(const struct net_address *a) { return memcmp(a->b, mapped, sizeof mapped) == 0; }

void net_address_text(const struct net_address *a, char out[NET_ADDRESS_TEXT])
{
	bool v4 = net_address_is_v4(a);

	if (!inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? a->b + 12 : a->b, out, NET_ADDRESS_TEXT))
		out[0] = '\0';
}

bool net_address_of(const struct sockaddr *sa, struct net_address *ret)
{
	if (sa->sa_family == AF_INET) {
		memcpy(ret->b, mapped, sizeof mapped);
		memcpy(ret->b + 12, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
		return true;
	}
	if (sa->sa_family != AF_INET6)
		return false;
	memcpy(ret->b, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
	return true;
}

size_t net_address_sockaddr(const struct net_address *a, uint16_t port, struct sockaddr_storage *ret)
{
	memset(ret, 0, sizeof *ret);
	if (net_address_is_v4(a)) {
		struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)ret;
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		memcpy(&v4->sin_addr, a->b + 12, 4);
		return sizeof *v4;
	}
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)ret;
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(port);
	memcpy(&v6->sin6_addr, a->b, 16);
	return sizeof *v6;
}

bool net_address_within(const struct net_address *a, const struct net_address *net, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (bits > 128 || memcmp(a->b, net->b, whole) != 0)
		return false;
	return rest == 0 || (a->b[whole] ^ net->b[whole]) >> (8 - rest) == 0;
}

enum net_class net_address_class(const struct net_address *a)
{
	static const struct net_address nat64 = { { 0x00, 0x64, 0xff, 0x9b } };
	struct net_address seen = *a;

	if (net_address_within(a, &nat64, 96))
		memcpy(seen.b, mapped, sizeof mapped);
	for (size_t i = 0; i < countof(table); i++)
		if (net_address_within(&seen, &table[i].net, table[i].bits))
			return table[i].class;
	return NET_RESERVED;
}

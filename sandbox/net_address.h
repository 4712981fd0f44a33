#ifndef BAILIFF_SANDBOX_NET_ADDRESS_H
#define BAILIFF_SANDBOX_NET_ADDRESS_H

/*
 * An internet address, always as sixteen bytes: IPv4 as ::ffff:a.b.c.d, so that each address has one representation and
 * one comparison. Its class decides whether a sandbox may connect to it without a rule that names it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr;
struct sockaddr_storage;

struct net_address {
	uint8_t b[16];
};

enum net_class {
	NET_PUBLIC,
	NET_UNSPECIFIED, /* 0.0.0.0 and ::, which connect(2) takes for this machine */
	NET_LOOPBACK,
	NET_LINK_LOCAL,
	NET_PRIVATE,
	NET_SHARED, /* carrier-grade NAT */
	NET_MULTICAST,
	NET_RESERVED, /* documentation, tunnels, everything not routed */
	NET_METADATA, /* where clouds serve credentials to any client */
};

#define NET_ADDRESS_TEXT 48

/* Dotted quad or IPv6, without brackets and zone; no other number formats. */
bool net_address_parse(const char *text, struct net_address *ret);
void net_address_text(const struct net_address *a, char out[NET_ADDRESS_TEXT]);
bool net_address_is_v4(const struct net_address *a);
/* From AF_INET or AF_INET6; false for others. */
bool net_address_of(const struct sockaddr *sa, struct net_address *ret);
/* Fills the socket address to dial; returns its length. */
size_t net_address_sockaddr(const struct net_address *a, uint16_t port, struct sockaddr_storage *ret);

/* A NAT64 address has the class of the IPv4 address that it embeds. */
enum net_class net_address_class(const struct net_address *a);

/* Whether the first `bits` of both are equal. */
bool net_address_within(const struct net_address *a, const struct net_address *net, unsigned bits);

#endif

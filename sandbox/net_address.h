#ifndef BAILIFF_SANDBOX_NET_ADDRESS_H
#define BAILIFF_SANDBOX_NET_ADDRESS_H

/*
 * An internet address, always as sixteen bytes: an IPv4 one as ::ffff:a.b.c.d, so that there is one way to write each
 * and one way to compare. What kind of place it is decides whether a sandbox may be let out to it without its being
 * named.
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
	NET_UNSPECIFIED, /* 0.0.0.0 and ::, which mean this machine to connect(2) */
	NET_LOOPBACK,
	NET_LINK_LOCAL,
	NET_PRIVATE,
	NET_SHARED, /* carrier-grade NAT */
	NET_MULTICAST,
	NET_RESERVED, /* documentation, tunnels, everything that is not routed */
	NET_METADATA, /* where clouds hand out credentials to whoever asks */
};

#define NET_ADDRESS_TEXT 48

/* Dotted quad or IPv6, without brackets and zone; no other way of writing numbers. */
bool net_address_parse(const char *text, struct net_address *ret);
void net_address_text(const struct net_address *a, char out[NET_ADDRESS_TEXT]);
bool net_address_is_v4(const struct net_address *a);
/* Of AF_INET or AF_INET6; false for others. */
bool net_address_of(const struct sockaddr *sa, struct net_address *ret);
/* The socket address to dial; its length. */
size_t net_address_sockaddr(const struct net_address *a, uint16_t port, struct sockaddr_storage *ret);

/* NAT64 addresses are what they stand for. */
enum net_class net_address_class(const struct net_address *a);
const char *net_class_name(enum net_class c); /* "loopback" … */

/* The first `bits` of both are the same. */
bool net_address_within(const struct net_address *a, const struct net_address *net, unsigned bits);

#endif

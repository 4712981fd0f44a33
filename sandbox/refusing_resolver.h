#ifndef BAILIFF_SANDBOX_REFUSING_RESOLVER_H
#define BAILIFF_SANDBOX_REFUSING_RESOLVER_H

/*
 * The resolver of a sandbox without the host's network: it refuses every query and returns the requested name. Nothing
 * is resolved and nothing leaves the sandbox; a person needs the name to allow the host. Pure: bytes in, bytes out.
 */

#include <stdbool.h>
#include <stddef.h>

#define RESOLVER_NAME_MAX 128 /* including NUL: the size in a status message; longer names are not reported */
#define RESOLVER_PACKET_MAX 512u

/*
 * Turns a query into its refusal (RCODE 5), in place. Returns the length of the reply, or 0 if this is not a query.
 * `name`: in lower case, without the trailing dot; "" if it is not a host name or does not fit.
 */
size_t refusing_resolver_reply(unsigned char *packet, size_t n, char name[RESOLVER_NAME_MAX]);

#endif

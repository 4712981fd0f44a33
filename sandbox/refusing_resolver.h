#ifndef BAILIFF_SANDBOX_REFUSING_RESOLVER_H
#define BAILIFF_SANDBOX_REFUSING_RESOLVER_H

/*
 * The resolver of a sandbox without the host's network: it refuses every query and says which name was asked for.
 * Nothing is resolved and nothing leaves the sandbox; the name is what a person needs to know to allow the host. Pure:
 * bytes in, bytes out.
 */

#include <stdbool.h>
#include <stddef.h>

#define RESOLVER_NAME_MAX 128 /* with its NUL: what fits into a status message; longer names are not told */
#define RESOLVER_PACKET_MAX 512u

/*
 * Turns a query into its refusal (RCODE 5), in place. Returns the length of the answer, or 0: this is no query and gets
 * none. `name`: in lower case, without the dot at the end; "" when it is no host name or does not fit.
 */
size_t refusing_resolver_reply(unsigned char *packet, size_t n, char name[RESOLVER_NAME_MAX]);

#endif

#ifndef BAILIFF_SUPERVISOR_PROXY_CLIENT_HELLO_H
#define BAILIFF_SUPERVISOR_PROXY_CLIENT_HELLO_H

/*
 * The first message of a TLS client, parsed as far as the requested server name. Pure. Everything else in it is
 * skipped, but its lengths must be consistent: a message that a lenient server reads differently could name another
 * host.
 */

#include "supervisor/proxy/connect_target.h"

#define CLIENT_HELLO_MAX (32u * 1024)

struct client_hello {
	char name[HOST_NAME_MAX_LEN + 1]; /* the server name; "" = not given */
	bool encrypted;                   /* it has an encrypted server name (ECH) */
};

/*
 * The message may span several records. PARSED_MORE: call again with all bytes from the beginning and more after them.
 * *ret is written only with PARSED_OK.
 */
enum parsed client_hello_parse(const uint8_t *p, size_t n, struct client_hello *ret);

#endif

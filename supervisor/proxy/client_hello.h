#ifndef BAILIFF_SUPERVISOR_PROXY_CLIENT_HELLO_H
#define BAILIFF_SUPERVISOR_PROXY_CLIENT_HELLO_H

/* The first message of a TLS client, as far as it says whom it wants to talk to. Pure. */

#include "supervisor/proxy/connect_target.h"

#define CLIENT_HELLO_MAX (32u * 1024)

struct client_hello {
	char name[HOST_NAME_MAX_LEN + 1]; /* the server name; "" = none was given */
	bool encrypted;                   /* it carries another, encrypted one */
};

/* It may come in several records. */
enum parsed client_hello_parse(const uint8_t *p, size_t n, struct client_hello *ret);

#endif

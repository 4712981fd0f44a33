#ifndef BAILIFF_SUPERVISOR_PROXY_ACCESS_CHECK_H
#define BAILIFF_SUPERVISOR_PROXY_ACCESS_CHECK_H

/*
 * Checks of what a client sends, against the rules of its sandbox. The first two are steps of the relay: they consume
 * what they can of the client's bytes; true: continue with the next state, false: wait, or the connection is gone.
 */

#include <stdbool.h>

struct connection;

bool access_check_first_bytes(struct connection *c); /* of a tunnel: TLS, HTTP or another protocol */
bool access_check_http(struct connection *c);        /* a request's head in the clear */
bool access_check_target(struct connection *c); /* by name or address; false: denied, and the client has the reply */

#endif
